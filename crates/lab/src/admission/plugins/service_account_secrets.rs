//! Which secrets a pod may use, where its service account limits them.

use serde_json::Value;

use super::super::json::{items, text};

const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

/// True if the account limits its pods to the secrets it lists.
pub(super) fn are_limited(account: &Value) -> bool {
    matches!(text(&account["metadata"]["annotations"][ENFORCED]), "1" | "t" | "T" | "TRUE" | "true" | "True")
}

/// Refuses secrets the account does not list.
pub(super) fn limit(account: &Value, spec: &Value) -> Result<(), String> {
    let listed = |key: &str, name: &str| items(&account[key]).any(|one| one["name"] == name);
    let owner = text(&account["metadata"]["name"]);
    for volume in items(&spec["volumes"]).filter(|volume| volume["secret"].is_object()) {
        let secret = text(&volume["secret"]["secretName"]);
        if !listed("secrets", secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {owner} does \
                 not reference that secret"
            ));
        }
    }
    for (key, kind) in [("initContainers", "init container"), ("containers", "container")] {
        limit_containers(account, &spec[key], kind)?;
    }
    for (index, reference) in items(&spec["imagePullSecrets"]).enumerate() {
        let secret = text(&reference["name"]);
        if !listed("imagePullSecrets", secret) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {owner} does \
                 not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// The same for ephemeral containers only.
pub(super) fn limit_ephemeral(account: &Value, spec: &Value) -> Result<(), String> {
    limit_containers(account, &spec["ephemeralContainers"], "ephemeral container")
}

fn limit_containers(account: &Value, containers: &Value, kind: &str) -> Result<(), String> {
    let owner = text(&account["metadata"]["name"]);
    let is_listed = |name: &str| items(&account["secrets"]).any(|one| one["name"] == name);
    for container in items(containers) {
        let name = text(&container["name"]);
        for variable in items(&container["env"]) {
            let Some(secret) = variable.pointer("/valueFrom/secretKeyRef").map(|it| text(&it["name"])) else {
                continue;
            };
            if !is_listed(secret) {
                let variable = text(&variable["name"]);
                return Err(format!(
                    "{kind} {name} with envVar {variable} referencing secret.secretName=\"{secret}\" is not \
                     allowed because service account {owner} does not reference that secret"
                ));
            }
        }
        for source in items(&container["envFrom"]) {
            let Some(secret) = source.get("secretRef").map(|it| text(&it["name"])) else { continue };
            if !is_listed(secret) {
                return Err(format!(
                    "{kind} {name} with envFrom referencing secret.secretName=\"{secret}\" is not allowed because \
                     service account {owner} does not reference that secret"
                ));
            }
        }
    }
    Ok(())
}

/// True if a pod uses any secret by name.
pub(super) fn are_referenced(spec: &Value) -> bool {
    let named = |value: &Value| !text(value).is_empty();
    let by_containers = ["initContainers", "containers", "ephemeralContainers"].iter().any(|key| {
        items(&spec[*key]).any(|container| {
            items(&container["envFrom"]).any(|source| named(&source["secretRef"]["name"]))
                || items(&container["env"]).any(|one| named(&one["valueFrom"]["secretKeyRef"]["name"]))
        })
    });
    let by_volumes = items(&spec["volumes"]).any(|volume| {
        let by_reference = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
        named(&volume["azureFile"]["secretName"])
            || named(&volume["secret"]["secretName"])
            || named(&volume["csi"]["nodePublishSecretRef"]["name"])
            || by_reference.iter().any(|kind| named(&volume[*kind]["secretRef"]["name"]))
            || items(&volume["projected"]["sources"]).any(|source| named(&source["secret"]["name"]))
    });
    by_containers || by_volumes || items(&spec["imagePullSecrets"]).any(|secret| named(&secret["name"]))
}
