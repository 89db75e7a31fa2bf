//! The cluster a pool belongs to. No document describes it, so it is made up from what its pools say.

use trellis_api::common::Metadata;
use trellis_model::Subject;
use trellis_model::cluster::{Credentials, KubevirtPlatform, Platform};
use trellis_model::names::{ClusterName, NamespaceName};

use super::generations::Settings;
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::{At, cluster};

/// Labels that name the cluster of a machine, the best first.
const CLUSTER_LABELS: &[&str] =
    &["system/cluster", "kubermatic.k8c.io/cluster-id", "cluster.x-k8s.io/cluster-name"];

/// The namespace all machine objects of a KKP user cluster are in, which therefore says nothing.
const COMMON_NAMESPACE: &str = "kube-system";

/// The name of the cluster: said, found in labels, or guessed with a notice.
pub(super) fn name(
    cx: &mut Cx<'_>,
    settings: &Settings,
    metadata: &Metadata,
    labelled: &[(FieldPath, &Metadata)],
) -> Option<ClusterName> {
    if let Some(name) = &settings.cluster_name {
        return cx.parse(&name.at, &name.value);
    }
    for label in CLUSTER_LABELS {
        for (at, metadata) in labelled {
            if let Some(name) = metadata.labels.get(*label).filter(|name| !name.is_empty()) {
                return cx.parse(&at.child("labels").child(label), name);
            }
        }
    }
    let at = FieldPath::root().child("metadata");
    let (at, name) = match metadata.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() && namespace != COMMON_NAMESPACE => {
            (at.child("namespace"), namespace)
        }
        _ => (at, "default"),
    };
    let message = format!("nothing says which cluster this belongs to, so it is taken for `{name}`");
    let help = "set `clusterName` in the cloudProviderSpec, or the label system/cluster";
    cx.notice("guessed-cluster", &at, message, help);
    cx.parse(&at, name)
}

/// Makes sure that the estate has the cluster, and that its pools agree on where it is.
pub(super) fn join(
    cx: &mut Cx<'_>,
    name: &ClusterName,
    namespace: Option<At<NamespaceName>>,
    credentials: Option<At<Credentials>>,
) {
    let subject = Subject::Cluster(name.clone());
    if cx.estate().cluster(name).is_none() {
        let cluster = cluster(name.clone(), Platform::Kubevirt(KubevirtPlatform::default()));
        cx.estate().clusters.push(cluster);
        cx.origin(&subject, "", &FieldPath::root());
    }
    let Some(platform) = platform(cx, name) else {
        let message = format!("cluster {name} is on another platform, and these machines are on KubeVirt");
        let help = "read them apart, or give them another cluster name";
        cx.error("platform-conflict", &FieldPath::root(), message, help);
        return;
    };
    let (known_namespace, known_credentials) = (platform.namespace.clone(), platform.credentials.clone());
    if let Some(namespace) = namespace {
        match known_namespace.filter(|known| *known != namespace.value) {
            Some(known) => {
                let message = format!(
                    "another pool of cluster {name} is in the namespace `{known}`; a cluster is in one namespace"
                );
                cx.error("namespace-conflict", &namespace.at, message, "use one namespace, or two clusters");
            }
            None => {
                cx.origin(&subject, "platform.kubevirt.namespace", &namespace.at);
                if let Some(platform) = self::platform(cx, name) {
                    platform.namespace = Some(namespace.value);
                }
            }
        }
    }
    if let Some(credentials) = credentials {
        match known_credentials.filter(|known| *known != credentials.value) {
            Some(_) => {
                let message = format!("another pool of cluster {name} has its kubeconfig elsewhere");
                cx.error("credentials-conflict", &credentials.at, message, "name one place for all pools");
            }
            None => {
                cx.origin(&subject, "platform.kubevirt.credentials", &credentials.at);
                if let Some(platform) = self::platform(cx, name) {
                    platform.credentials = Some(credentials.value);
                }
            }
        }
    }
}

fn platform<'cx>(cx: &'cx mut Cx<'_>, name: &ClusterName) -> Option<&'cx mut KubevirtPlatform> {
    let cluster = cx.estate().clusters.iter_mut().find(|cluster| cluster.name == *name)?;
    match &mut cluster.spec.platform {
        Platform::Kubevirt(platform) => Some(platform),
        Platform::Ovirt(_) => None,
    }
}
