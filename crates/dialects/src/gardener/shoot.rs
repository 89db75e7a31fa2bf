//! A Shoot becomes a cluster and its pools.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::common::Text;
use trellis_api::gardener::shoot::{ShootMaintenance, ShootSpec};
use trellis_api::gardener::{ControlPlaneConfig, InfrastructureConfig, Shoot, WorkerConfig};
use trellis_model::cluster::{ClusterSpec, KubevirtPlatform, Maintenance, MaintenanceWindow, Platform};
use trellis_model::names::ClusterName;
use trellis_model::placement::Locality;
use trellis_model::{Cluster, Subject};

use super::alone::check_kind;
use super::credentials::Keyring;
use super::network;
use super::origins::Origins;
use super::profile::Profile;
use super::words::{missing, required, suggest};
use super::worker::{Around, Draft};
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId, Reading};
use crate::shared::{object_name, object_namespace};

/// Reads a Shoot into the estate.
pub(super) fn read(
    reading: &mut Reading,
    document: DocumentId,
    shoot: &Shoot,
    profiles: &mut [Profile],
    keyring: &mut Keyring,
) {
    let root = FieldPath::root();
    let at = root.child("spec");
    let mut cx = reading.within(document);
    let provider = shoot.spec.provider.type_.as_deref();
    if provider != Some("kubevirt") {
        let at = at.child("provider").child("type");
        match provider {
            Some(other) => {
                let message = format!("this Shoot is for {other}; Trellis reads Shoots on kubevirt");
                cx.error("wrong-provider", &at, message, "write `kubevirt`");
            }
            None => missing(&mut cx, &at, "it says what runs the machines", "add `type: kubevirt`"),
        }
        return;
    }
    let name = object_name(&mut cx, &shoot.metadata);
    let name = name.and_then(|name| cx.parse::<ClusterName>(&name.at, &name.value));
    let namespace = object_namespace(&mut cx, &shoot.metadata);
    let profile = find_profile(&mut cx, &shoot.spec, profiles);
    let region = region(&mut cx, &shoot.spec, profile);
    let mut origins = Origins::default();
    let spec = cluster_spec(&mut cx, &mut origins, shoot, keyring);
    let Some(name) = name else { return };
    let around = Around { cluster: &name, namespace: namespace.as_ref(), region: region.as_ref() };
    pools(reading, document, &shoot.spec, profile, &around);
    origins.register(reading, &Subject::Cluster(name.clone()));
    reading.estate.clusters.push(Cluster { name, namespace, spec });
}

/// The CloudProfile a Shoot names, if it was read, and where it names it.
fn find_profile<'p>(cx: &mut Cx<'_>, spec: &ShootSpec, profiles: &'p mut [Profile]) -> Option<&'p Profile> {
    let (at, name) = profile_name(spec);
    let name = name?;
    let kind = spec.cloud_profile.as_ref().and_then(|reference| reference.kind.as_deref());
    if let Some(other) = kind.filter(|kind| *kind != "CloudProfile") {
        let at = FieldPath::root().child("spec").child("cloudProfile").child("kind");
        let message = format!("a {other} is not read; a CloudProfile named {name} is looked for instead");
        cx.warning("unsupported-kind", &at, message, "write `kind: CloudProfile`");
    }
    let profile = profiles.iter_mut().find(|profile| profile.name.as_deref() == Some(name))?;
    profile.used = true;
    if let Some(other) = profile.provider.as_deref().filter(|provider| *provider != "kubevirt") {
        let message = format!("CloudProfile {name} is for {other}, not for kubevirt");
        cx.error("wrong-provider", &at, message, "name a CloudProfile for kubevirt");
    }
    Some(profile)
}

fn profile_name(spec: &ShootSpec) -> (FieldPath, Option<&str>) {
    let at = FieldPath::root().child("spec");
    let reference = spec.cloud_profile.as_ref().and_then(|reference| reference.name.as_deref());
    match (reference, spec.cloud_profile_name.as_deref()) {
        (Some(name), None) => (at.child("cloudProfile").child("name"), Some(name)),
        (_, name) => (at.child("cloudProfileName"), name.filter(|name| !name.is_empty())),
    }
}

fn region(cx: &mut Cx<'_>, spec: &ShootSpec, profile: Option<&Profile>) -> Option<Locality> {
    let at = FieldPath::root().child("spec").child("region");
    let Some(name) = spec.region.as_deref().filter(|region| !region.is_empty()) else {
        let help = "add `region`: `default` means hosts that have no region label";
        missing(cx, &at, "a Shoot must say which region of the infra cluster it is in", help);
        return None;
    };
    let names: Vec<&str> =
        profile.into_iter().flat_map(|profile| profile.regions.keys()).map(String::as_str).collect();
    if !names.is_empty() && !names.contains(&name) {
        let message = format!("the CloudProfile lists no region `{name}`");
        cx.warning("unknown-region", &at, message, &suggest(name, &names));
    }
    cx.parse(&at, name).map(Locality::new)
}

fn cluster_spec(cx: &mut Cx<'_>, origins: &mut Origins, shoot: &Shoot, keyring: &mut Keyring) -> ClusterSpec {
    let (document, root) = (cx.document(), FieldPath::root());
    let at = root.child("spec");
    let spec = &shoot.spec;
    origins.add("", document, &root);
    origins.add("name", document, &root.child("metadata").child("name"));
    let kubernetes = spec.kubernetes.as_ref();
    let version_at = at.child("kubernetes").child("version");
    origins.add("version", document, &version_at);
    let version = kubernetes.and_then(|kubernetes| kubernetes.version.as_ref());
    let version = cx.parse_opt(&version_at, version.map(Text::as_str));
    let mut network = network::ranges(cx, origins, spec.networking.as_ref(), kubernetes);
    let infrastructure_at = at.child("provider").child("infrastructureConfig");
    if let Some(config) = embedded::<InfrastructureConfig>(cx, &infrastructure_at) {
        check_kind(cx, &infrastructure_at, &config.api_version, &config.kind, "InfrastructureConfig");
        network.machine_networks = network::machine_networks(cx, origins, &infrastructure_at, &config);
    }
    let control_plane_at = at.child("provider").child("controlPlaneConfig");
    let control_plane = embedded::<ControlPlaneConfig>(cx, &control_plane_at);
    if let Some(config) = &control_plane {
        check_kind(cx, &control_plane_at, &config.api_version, &config.kind, "ControlPlaneConfig");
    }
    let control_plane = control_plane.unwrap_or_default();
    ClusterSpec {
        platform: Platform::Kubevirt(platform(cx, origins, shoot, keyring)),
        version,
        base_domain: None,
        network,
        ssh_keys: BTreeSet::new(),
        flavors: BTreeMap::new(),
        cloud_controller: network::cloud_controller(cx, origins, &control_plane_at, &control_plane),
        maintenance: maintenance(cx, origins, spec.maintenance.as_ref()),
    }
}

/// Reads a configuration inside the Shoot, if it is there.
fn embedded<T: schemars::JsonSchema + serde::de::DeserializeOwned>(
    cx: &mut Cx<'_>,
    at: &FieldPath,
) -> Option<T> {
    if cx.has(at) { cx.embedded(at) } else { None }
}

fn platform(
    cx: &mut Cx<'_>,
    origins: &mut Origins,
    shoot: &Shoot,
    keyring: &mut Keyring,
) -> KubevirtPlatform {
    let at = FieldPath::root().child("spec");
    let spec = &shoot.spec;
    let field = if spec.credentials_binding_name.is_some() && spec.secret_binding_name.is_none() {
        "credentialsBindingName"
    } else {
        "secretBindingName"
    };
    let name_at = at.child(field);
    // Not the Secret: a complaint there would show a piece of the kubeconfig.
    origins.add("platform", cx.document(), &name_at);
    let name = spec.secret_binding_name.as_deref().or(spec.credentials_binding_name.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        let message = "this Shoot names no secret binding, so nothing says how to reach the infra cluster";
        cx.notice("credentials-missing", &name_at, message, "add `secretBindingName`");
        return KubevirtPlatform::default();
    };
    keyring.platform(cx, &name_at, name, shoot.metadata.namespace.as_deref())
}

fn maintenance(cx: &mut Cx<'_>, origins: &mut Origins, text: Option<&ShootMaintenance>) -> Maintenance {
    let at = FieldPath::root().child("spec").child("maintenance");
    origins.add("maintenance", cx.document(), &at);
    let Some(text) = text else { return Maintenance::default() };
    let update = text.auto_update.clone().unwrap_or_default();
    let window = text.time_window.as_ref().and_then(|window| {
        let at = at.child("timeWindow");
        let mut part = |field: &str, time: &Option<Text>| {
            let time = time.as_ref().map(Text::as_str);
            required(cx, &at.child(field), time, "a window begins and ends").map(str::to_owned)
        };
        let (begin, end) = (part("begin", &window.begin), part("end", &window.end));
        Some(MaintenanceWindow { begin: begin?, end: end? })
    });
    Maintenance {
        update_kubernetes: update.kubernetes_version.unwrap_or_default(),
        update_images: update.machine_image_version.unwrap_or_default(),
        window,
    }
}

fn pools(
    reading: &mut Reading,
    document: DocumentId,
    spec: &ShootSpec,
    profile: Option<&Profile>,
    around: &Around<'_>,
) {
    let at = FieldPath::root().child("spec").child("provider").child("workers");
    let mut needs: Vec<String> = Vec::new();
    for (index, worker) in spec.provider.workers.iter().enumerate() {
        let at = at.index(index);
        let config_at = at.child("providerConfig");
        let mut cx = reading.within(document);
        let config = embedded::<WorkerConfig>(&mut cx, &config_at);
        if let Some(config) = &config {
            check_kind(&mut cx, &config_at, &config.api_version, &config.kind, "WorkerConfig");
        }
        let origins = Origins::default();
        let config = config.as_ref();
        let mut draft = Draft { cx: &mut cx, origins, profile, at, config_at, config, needs: Vec::new() };
        let pool = draft.pool(worker, around);
        let Draft { origins, needs: more, .. } = draft;
        needs.extend(more);
        if let Some(pool) = pool {
            origins.register(reading, &Subject::Pool(around.cluster.clone(), pool.name.clone()));
            reading.estate.pools.push(pool);
        }
    }
    let mut cx = reading.within(document);
    if spec.provider.workers.is_empty() {
        let message = "this Shoot has no workers, so it describes no machines";
        cx.notice("no-pools", &FieldPath::root().child("spec").child("provider"), message, "add `workers`");
    }
    if profile.is_none() && !needs.is_empty() {
        say_needs(&mut cx, spec, needs);
    }
}

/// Says once, for all pools, what only the CloudProfile knows.
fn say_needs(cx: &mut Cx<'_>, spec: &ShootSpec, mut needs: Vec<String>) {
    needs.sort();
    needs.dedup();
    let (at, name) = profile_name(spec);
    let needs = needs.join("; ");
    let (message, help) = match name {
        Some(name) => (
            format!("CloudProfile {name} was not read; still needed from it: {needs}"),
            "read it together with the Shoot",
        ),
        None => (
            format!("this Shoot names no CloudProfile; still needed from one: {needs}"),
            "add `cloudProfileName`",
        ),
    };
    cx.notice("cloud-profile-missing", &at, message, help);
}
