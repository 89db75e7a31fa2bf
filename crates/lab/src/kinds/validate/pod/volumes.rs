//! Volumes of pods.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use super::super::storage;
use super::fields;
use crate::kinds::format::{self, between};
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems};
use crate::kinds::{meta, shown};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The sources a volume may have, in the order they are looked at.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks the volumes, and says which of them are fine, by name.
pub(super) fn volumes<'a>(
    volumes: &'a [Value],
    pod_name: &str,
    at: &Path<'_>,
    problems: &mut Problems,
) -> BTreeMap<&'a str, &'a Value> {
    let created: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| !pod_name.is_empty() && volume.has("ephemeral"))
        .map(|volume| format!("{pod_name}-{}", volume.text("name")))
        .collect();
    let mut good = BTreeMap::new();
    for (place, volume) in volumes.iter().enumerate() {
        let here = at.index(place);
        let before = problems.len();
        source(volume, pod_name, &here, problems);
        let name = volume.text("name");
        if name.is_empty() {
            problems.required(&here.child("name"), "");
        } else {
            problems.form(&here.child("name"), name, format::dns1123_label);
        }
        if good.contains_key(name) {
            problems.duplicate(&here.child("name"), name);
        }
        if problems.len() == before {
            good.insert(name, volume);
        }
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        if created.contains(claim) {
            problems.invalid(
                &here.child("persistentVolumeClaim").child("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    good
}

fn source(volume: &Value, pod_name: &str, at: &Path<'_>, problems: &mut Problems) {
    let mut seen = false;
    for name in SOURCES {
        if !volume.has(name) {
            continue;
        }
        if seen {
            // Two of the names are not what the fields are called.
            let told = match name {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            problems.forbidden(&at.child(told), "may not specify more than 1 volume type");
        } else {
            seen = true;
            one_source(name, volume, pod_name, at, problems);
        }
        if name == "iscsi" {
            let (iscsi, own) = (volume.at(name), volume.text("name"));
            if iscsi.has("initiatorName") && own.len() + 1 + iscsi.text("targetPortal").len() > 64 {
                problems.invalid(
                    &at.child("name"),
                    own,
                    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
                );
            }
        }
    }
    if !seen {
        problems.required(at, "must specify a volume type");
    }
}

fn one_source(name: &str, volume: &Value, pod_name: &str, parent: &Path<'_>, problems: &mut Problems) {
    let source = volume.at(name);
    let at = &parent.child(if name == "gcePersistentDisk" { "persistentDisk" } else { name });
    match name {
        "emptyDir" => {
            if Quantity::or_zero(source.at("sizeLimit")).is_negative() {
                problems
                    .forbidden(&at.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        }
        "gitRepo" => {
            problems.need(at, source, "repository");
            descending_path(source.text("directory"), &at.child("directory"), problems);
        }
        "secret" | "configMap" => {
            problems.need(at, source, if name == "secret" { "secretName" } else { "name" });
            mode(source, "defaultMode", at, problems);
            key_paths(source, at, problems);
        }
        "persistentVolumeClaim" => problems.need(at, source, "claimName"),
        "downwardAPI" => {
            mode(source, "defaultMode", at, problems);
            for file in source.list("items") {
                downward_file(file, at, problems);
            }
        }
        "projected" => projected(source, at, problems),
        "csi" => {
            storage::csi_driver_name(source.text("driver"), &at.child("driver"), problems);
            if source.has("nodePublishSecretRef") {
                let secret = source.at("nodePublishSecretRef").text("name");
                if secret.is_empty() {
                    problems.required(&at.child("nodePublishSecretRef").child("name"), "");
                } else {
                    problems.form(&at.child("name"), secret, format::dns1123_subdomain);
                }
            }
        }
        "ephemeral" => {
            if source.has("volumeClaimTemplate") {
                let template = source.at("volumeClaimTemplate");
                let at = &at.child("volumeClaimTemplate");
                template_metadata(template.at("metadata"), &at.child("metadata"), problems);
                storage::claim_spec(template.at("spec"), false, &at.child("spec"), problems);
            } else {
                problems.required(&at.child("volumeClaimTemplate"), "");
            }
            let own = volume.text("name");
            if !pod_name.is_empty() && !own.is_empty() {
                let claim = format!("{pod_name}-{own}");
                for why in format::dns1123_subdomain(&claim) {
                    problems.invalid(&parent.child("name"), own, format!("PVC name {claim:?}: {why}"));
                }
            }
        }
        "image" => {
            problems.need(at, source, "reference");
            fields::pull_policy(source.text("pullPolicy"), &at.child("pullPolicy"), problems);
        }
        other => shared_source(other, source, at, problems),
    }
}

/// The sources pods and persistent volumes share.
pub(in crate::kinds::validate) fn shared_source(
    name: &str,
    source: &Value,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    let mut need = |fields: &[&str]| fields.iter().for_each(|field| problems.need(at, source, field));
    match name {
        "hostPath" => {
            if source.text("path").is_empty() {
                need(&["path"]);
                return;
            }
            no_backsteps(source.text("path"), &at.child("path"), problems);
            let choices = [
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ];
            problems.one_of(&at.child("type"), source.text("type"), &choices);
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            need(&[if name == "gcePersistentDisk" { "pdName" } else { "volumeID" }]);
            let partition = source.int("partition").unwrap_or_default();
            if !(0..=255).contains(&partition) {
                problems.invalid(&at.child("partition"), partition, between(1, 255));
            }
        }
        "nfs" => {
            need(&["server", "path"]);
            if !source.text("path").starts_with('/') {
                problems.invalid(&at.child("path"), source.text("path"), "must be an absolute path");
            }
        }
        "iscsi" => iscsi(source, "must be valid format starting with iqn, eui, or naa", at, problems),
        "glusterfs" => need(&["endpoints", "path"]),
        "flocker" => {
            let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
            if name.is_empty() && uuid.is_empty() {
                problems.required(at, "one of datasetName and datasetUUID is required");
            }
            if !name.is_empty() && !uuid.is_empty() {
                problems.invalid(
                    at,
                    "resource",
                    "datasetName and datasetUUID can not be specified simultaneously",
                );
            }
            if name.contains('/') {
                problems.invalid(&at.child("datasetName"), name, "must not contain '/'");
            }
        }
        "rbd" => {
            if source.list("monitors").is_empty() {
                problems.required(&at.child("monitors"), "");
            }
            problems.need(at, source, "image");
        }
        "cephfs" if source.list("monitors").is_empty() => {
            problems.required(&at.child("monitors"), "");
        }
        "cinder" => {
            need(&["volumeID"]);
            if source.has("secretRef") {
                problems.need(&at.child("secretRef"), source.at("secretRef"), "name");
            }
        }
        "quobyte" => quobyte(source, at, problems),
        "fc" => fibre_channel(source, at, problems),
        "flexVolume" => {
            need(&["driver"]);
            for key in source.fields("options").into_iter().flat_map(|options| options.keys()) {
                let namespace = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
                if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
                    problems.invalid(
                        &at.child("options").key(key),
                        key.as_str(),
                        "kubernetes.io and k8s.io namespaces are reserved",
                    );
                }
            }
        }
        "azureFile" => need(&["secretName", "shareName"]),
        "vsphereVolume" => need(&["volumePath"]),
        "photonPersistentDisk" => need(&["pdID"]),
        "portworxVolume" => need(&["volumeID"]),
        "azureDisk" => azure_disk(source, at, problems),
        "storageos" => {
            need(&["volumeName"]);
            for field in ["volumeName", "volumeNamespace"] {
                if !source.text(field).is_empty() {
                    problems.form(&at.child(field), source.text(field), format::dns1123_label);
                }
            }
            if source.has("secretRef") {
                problems.need(&at.child("secretRef"), source.at("secretRef"), "name");
            }
        }
        "scaleIO" => need(&["gateway", "system", "volumeName"]),
        _ => {}
    }
}

/// `sentence` is what is said about names that start with nothing known.
pub(in crate::kinds::validate) fn iscsi(
    source: &Value,
    sentence: &str,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    problems.need(at, source, "targetPortal");
    problems.need(at, source, "iqn");
    let known = |name: &str| ["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start));
    let (name, place) = (source.text("iqn"), at.child("iqn"));
    if !name.is_empty() && !known(name) {
        problems.invalid(&place, name, sentence);
    } else if !name.is_empty() && !is_initiator(name) {
        problems.invalid(&place, name, "must be valid format");
    }
    let lun = source.int("lun").unwrap_or_default();
    if !(0..=255).contains(&lun) {
        problems.invalid(&at.child("lun"), lun, between(0, 255));
    }
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        problems.required(&at.child("secretRef"), "");
    }
    if source.has("initiatorName") {
        let (name, place) = (source.text("initiatorName"), at.child("initiatorname"));
        if !known(name) {
            problems.invalid(&place, name, sentence);
        } else if !is_initiator(name) {
            problems.invalid(&place, name, "must be valid format");
        }
    }
}

fn is_initiator(name: &str) -> bool {
    let exactly = |rest: &str, count: usize| {
        rest.len() == count && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match name.get(..3) {
        // `eui.` and `naa.` are patterns in which the dot stands for anything.
        Some("eui") => name.char_indices().nth(4).is_some_and(|(at, _)| exactly(&name[at..], 16)),
        Some("naa") => name.char_indices().nth(4).is_some_and(|(at, _)| exactly(&name[at..], 32)),
        _ => iqn_tails(name).any(is_iqn),
    }
}

/// The pattern may start anywhere.
fn iqn_tails(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices("iqn.").map(|(at, _)| &name[at + 4..])
}

/// `1234-56.domain:rest`
fn is_iqn(rest: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (Some(year), Some(month)) = (rest.get(..4), rest.get(5..7)) else { return false };
    let Some(rest) = rest.get(8..).filter(|_| rest.get(4..5) == Some("-") && rest.get(7..8) == Some("."))
    else {
        return false;
    };
    let Some((domain, tail)) = rest.split_once(':') else { return false };
    digits(year)
        && digits(month)
        && !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !tail.is_empty()
        && !tail.contains([',', ';', '*', '&', '$', '|'])
        && !tail.contains(|c: char| c.is_ascii_whitespace())
}

fn quobyte(source: &Value, at: &Path<'_>, problems: &mut Problems) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        problems.required(&at.child("registry"), PAIRS);
    } else if source.text("tenant").len() >= 65 {
        problems.required(&at.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.split(',') {
            if pair.rsplit_once(':').is_none_or(|(host, _)| host.contains(':') && !host.starts_with('[')) {
                problems.invalid(&at.child("registry"), registry, PAIRS);
            }
        }
    }
    problems.need(at, source, "volume");
}

fn fibre_channel(source: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (names, ids) = (source.list("targetWWNs"), source.list("wwids"));
    if names.is_empty() && ids.is_empty() {
        problems.required(&at.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        problems.invalid(
            &at.child("targetWWNs"),
            names.to_vec(),
            "targetWWNs and wwids can not be specified simultaneously",
        );
    }
    if !names.is_empty() {
        match source.int("lun") {
            None => problems.required(&at.child("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) if !(0..=255).contains(&lun) => {
                problems.invalid(&at.child("lun"), lun, between(0, 255));
            }
            Some(_) => {}
        }
    }
}

fn azure_disk(source: &Value, at: &Path<'_>, problems: &mut Problems) {
    problems.need(at, source, "diskName");
    problems.need(at, source, "diskURI");
    if source.has("cachingMode") {
        problems.one_of(
            &at.child("cachingMode"),
            source.text("cachingMode"),
            &["None", "ReadOnly", "ReadWrite"],
        );
    }
    if source.has("kind") {
        let (kind, uri) = (source.text("kind"), source.text("diskURI"));
        problems.one_of(&at.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
        if kind == "Managed" && !uri.starts_with("/subscriptions/") {
            let form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
            problems.unsupported(&at.child("diskURI"), uri, &[form]);
        }
        if kind != "Managed" && !uri.starts_with("https://") {
            let form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
            problems.unsupported(&at.child("diskURI"), uri, &[form]);
        }
    }
}

fn mode(holder: &Value, field: &str, at: &Path<'_>, problems: &mut Problems) {
    if let Some(bits) = holder.int(field)
        && !(0..=0o777).contains(&bits)
    {
        problems.invalid(&at.child(field), bits, MODE);
    }
}

fn key_paths(source: &Value, at: &Path<'_>, problems: &mut Problems) {
    let items = at.child("items");
    for (place, item) in source.list("items").iter().enumerate() {
        let here = items.index(place);
        problems.need(&here, item, "key");
        problems.need(&here, item, "path");
        local_path(item.text("path"), &here.child("path"), problems);
        mode(item, "mode", &here, problems);
    }
}

/// Told at the list, as the real server tells it.
fn downward_file(file: &Value, at: &Path<'_>, problems: &mut Problems) {
    problems.need(at, file, "path");
    local_path(file.text("path"), &at.child("path"), problems);
    if file.has("fieldRef") {
        let known = [
            "metadata.annotations",
            "metadata.labels",
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
        ];
        fields::field_selector(file.at("fieldRef"), &known, &at.child("fieldRef"), problems);
        if file.has("resourceFieldRef") {
            problems.invalid(
                at,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if file.has("resourceFieldRef") {
        fields::resource_selector(file.at("resourceFieldRef"), true, &at.child("resourceFieldRef"), problems);
    } else {
        problems.required(at, "one of fieldRef and resourceFieldRef is required");
    }
    mode(file, "mode", at, problems);
}

fn projected(source: &Value, at: &Path<'_>, problems: &mut Problems) {
    mode(source, "defaultMode", at, problems);
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    let sources = at.child("sources");
    for (place, part) in source.list("sources").iter().enumerate() {
        let here = sources.index(place);
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            if !part.has(kind) {
                continue;
            }
            count += 1;
            let place = here.child(kind);
            problems.need(&place, part.at(kind), "name");
            key_paths(part.at(kind), &place, problems);
            for item in part.at(kind).list("items") {
                let path = item.text("path");
                if !path.is_empty() && !paths.insert(path) {
                    problems.invalid(at, part.at(kind).text("name"), "conflicting duplicate paths");
                }
            }
        }
        if part.has("downwardAPI") {
            count += 1;
            for file in part.at("downwardAPI").list("items") {
                downward_file(file, &here.child("downwardAPI"), problems);
                let path = file.text("path");
                if !path.is_empty() && !paths.insert(path) {
                    problems.invalid(at, path, "conflicting duplicate paths");
                }
            }
        }
        if part.has("serviceAccountToken") {
            count += 1;
            account_token(part.at("serviceAccountToken"), &here.child("serviceAccountToken"), at, problems);
        }
        if part.has("clusterTrustBundle") {
            count += 1;
            let bundle = part.at("clusterTrustBundle");
            trust_bundle(bundle, &here.child("clusterTrustBundle"), problems);
            if !paths.insert(bundle.text("path")) {
                problems.invalid(at, bundle.text("path"), "conflicting duplicate paths");
            }
        }
        if part.has("podCertificate") {
            count += 1;
            pod_certificate(
                part.at("podCertificate"),
                &here.child("podCertificate"),
                at,
                &mut paths,
                problems,
            );
        }
        if count > 1 {
            problems.forbidden(&here, "may not specify more than 1 volume type per source");
        }
    }
}

fn account_token(token: &Value, here: &Path<'_>, at: &Path<'_>, problems: &mut Problems) {
    match token.int("expirationSeconds") {
        None => problems.required(&here.child("expirationSeconds"), ""),
        Some(seconds) if seconds < 600 => problems.invalid(
            &here.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 10 minutes",
        ),
        Some(seconds) if seconds > 1 << 32 => problems.invalid(
            &here.child("expirationSeconds"),
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ),
        Some(_) => {}
    }
    let path = token.text("path");
    if path.is_empty() {
        problems.required(&at.child("path"), "");
    } else {
        local_path(path, &at.child("path"), problems);
    }
}

fn trust_bundle(bundle: &Value, here: &Path<'_>, problems: &mut Problems) {
    match (bundle.has("name"), bundle.has("signerName")) {
        (true, true) => {
            let shown = shown::internal("ClusterTrustBundleProjection", bundle);
            problems.invalid_shown(here, &shown, "only one of name and signerName may be used");
        }
        (true, false) => {
            let name = bundle.text("name");
            let place = here.child("name");
            if name.is_empty() {
                problems.required(&place, "must be a valid object name");
            }
            let signer = name.rfind(':').map_or(String::new(), |colon| name[..colon].replace(':', "/"));
            for why in fields::trust_bundle_name(&signer, name, false) {
                problems.invalid(&place, name, format!("not a valid clustertrustbundlename: {why}"));
            }
            if bundle.has("labelSelector") {
                problems.invalid(
                    &here.child("labelSelector"),
                    bundle.at("labelSelector").clone(),
                    "labelSelector must be unset if name is specified",
                );
            }
        }
        (false, true) => {
            let signer = bundle.text("signerName");
            if signer.is_empty() {
                problems.required(&here.child("signerName"), "must be a valid signer name");
            }
            fields::signer_name(signer, &here.child("signerName"), problems);
            meta::label_selector(bundle.at("labelSelector"), &here.child("labelSelector"), problems);
        }
        (false, false) => problems.required(here, "either name or signerName must be specified"),
    }
    problems.need(here, bundle, "path");
    local_path(bundle.text("path"), &here.child("path"), problems);
}

fn pod_certificate<'a>(
    source: &'a Value,
    here: &Path<'_>,
    at: &Path<'_>,
    paths: &mut BTreeSet<&'a str>,
    problems: &mut Problems,
) {
    fields::signer_name(source.text("signerName"), &here.child("signerName"), problems);
    let annotations = here.child("userAnnotations");
    for key in source.fields("userAnnotations").into_iter().flat_map(|annotations| annotations.keys()) {
        fields::domain_prefixed_key(&key.to_lowercase(), &annotations, problems);
    }
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    problems.one_of(&here.child("keyType"), source.text("keyType"), &kinds);
    if let Some(seconds) = source.int("maxExpirationSeconds") {
        let place = here.child("maxExpirationSeconds");
        if seconds < 3600 {
            problems.invalid(&place, seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        let limit =
            if fields::is_kubernetes_signer(source.text("signerName")) { 86_400 } else { 91 * 86_400 };
        if seconds > limit {
            problems.invalid(
                &place,
                seconds,
                format!("if provided, maxExpirationSeconds must be <= {limit}"),
            );
        }
    }
    let mut count = 0;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = source.text(field);
        if path.is_empty() {
            continue;
        }
        count += 1;
        local_path(path, &here.child(field), problems);
        if !paths.insert(path) {
            problems.invalid(at, path, "conflicting duplicate paths");
        }
    }
    if count == 0 {
        problems.required(
            here,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        );
    }
}

pub(in crate::kinds::validate) fn template_metadata(
    metadata: &Value,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    meta::annotations(metadata.at("annotations"), &at.child("annotations"), problems);
    meta::labels(metadata.at("labels"), &at.child("labels"), problems);
    for field in metadata.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if field != "annotations" && field != "labels" && metadata.has(field) {
            // This one is told by the name it has in the server.
            let told = if field == "uid" { "uID" } else { field };
            problems.forbidden(&at.child(told), "cannot be set");
        }
    }
}

/// A path inside of a volume, not one of the names the kubelet keeps for itself.
pub(super) fn local_path(path: &str, at: &Path<'_>, problems: &mut Problems) {
    descending_path(path, at, problems);
    if path.starts_with("..") && !path.starts_with("../") {
        problems.invalid(at, path, "must not start with '..'");
    }
}

/// A relative path that does not leave its folder.
pub(super) fn descending_path(path: &str, at: &Path<'_>, problems: &mut Problems) {
    if path.starts_with('/') {
        problems.invalid(at, path, "must be a relative path");
    }
    no_backsteps(path, at, problems);
}

pub(in crate::kinds::validate) fn no_backsteps(path: &str, at: &Path<'_>, problems: &mut Problems) {
    if path.split('/').any(|part| part == "..") {
        problems.invalid(at, path, "must not contain '..'");
    }
}
