//! An install-config: a cluster and its pools.

use std::collections::BTreeSet;

use trellis_api::openshift::install::{InstallConfig, OtherPlatforms};
use trellis_model::Subject;
use trellis_model::access::SshKey;

use super::{networking, platform, pools};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::{Reader, cluster, object_name, object_namespace, ssh_key};

/// Reads an install-config.
pub(super) fn read(cx: &mut Cx<'_>, config: &InstallConfig) {
    let root = FieldPath::root();
    let name = object_name(cx, &config.metadata).and_then(|name| cx.parse(&name.at, &name.value));
    let namespace = object_namespace(cx, &config.metadata);
    if !is_known(cx, config) {
        return;
    }
    let Some(name) = name else { return };
    let mut reader = Reader { subject: Subject::Cluster(Clone::clone(&name)), cx };
    reader.origin("", &root);
    let mut network = networking::networking(&mut reader, config.networking.as_ref());
    if let Some(publish) = config.publish {
        reader.origin("network.publish", &root.child("publish"));
        network.publish = publish;
    }
    let Some(platform) = platform::platform(&mut reader, config, &mut network) else { return };
    let mut cluster = cluster(name, platform);
    cluster.namespace = namespace;
    let domain_at = root.child("baseDomain");
    reader.origin("baseDomain", &domain_at);
    cluster.spec.base_domain = reader.cx.parse_opt(&domain_at, config.base_domain.as_deref());
    cluster.spec.ssh_keys = ssh_keys(&mut reader, config.ssh_key.as_deref());
    cluster.spec.network = network;
    let cx = reader.cx;
    pools::pools(cx, config, &cluster);
    cx.estate().clusters.push(cluster);
}

/// Whether the cluster is on one platform that Trellis has.
fn is_known(cx: &mut Cx<'_>, config: &InstallConfig) -> bool {
    let at = FieldPath::root().child("platform");
    let help = "write `platform.kubevirt` or `platform.ovirt`";
    if let Some(other) = OtherPlatforms::NAMES.iter().find(|name| cx.has(&at.child(name))) {
        let message = format!("the cluster is on `{other}`; Trellis makes machines on KubeVirt and oVirt");
        cx.error("unsupported-platform", &at.child(other), message, help);
        return false;
    }
    match (&config.platform.kubevirt, &config.platform.ovirt) {
        (Some(_), Some(_)) => {
            cx.error("choose-one", &at.child("ovirt"), "a cluster is on one platform, not on two", help);
            false
        }
        (None, None) => {
            let message = "missing field `platform`: where the machines run";
            cx.error("missing-field", &at, message, help);
            false
        }
        _ => true,
    }
}

/// The keys of a text that may hold several, one on each line.
fn ssh_keys(reader: &mut Reader<'_, '_>, text: Option<&str>) -> BTreeSet<SshKey> {
    let at = FieldPath::root().child("sshKey");
    reader.origin("sshKeys", &at);
    let lines = text.unwrap_or_default().lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| ssh_key(reader.cx, &at, line))
        .collect()
}
