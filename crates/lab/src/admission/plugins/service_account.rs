//! Pods run as a service account: it has to be there, and its token is mounted.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::json::{at, items, list, object, text};
use super::super::review::{Operation, Review};
use super::service_account_secrets;
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::Status;

/// The account of pods that name none.
pub(crate) const DEFAULT: &str = "default";
/// Where tokens are mounted.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Letters and digits of generated names: none that make words or can be mistaken.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Names the account, and mounts its token.
pub(crate) fn mutate(review: &mut Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    if !review.is("", "pods") || review.operation != Operation::Create {
        return Ok(());
    }
    let namespace = review.namespace().to_owned();
    let Some(pod) = review.object.as_mut() else { return Ok(()) };
    if !pod["metadata"]["annotations"][MIRROR].is_null() {
        return validate(review, reader);
    }
    let spec = at(pod, "spec");
    if text(&spec["serviceAccountName"]).is_empty() {
        object(spec).insert("serviceAccountName".to_owned(), DEFAULT.into());
    }
    let name = text(&spec["serviceAccountName"]).to_owned();
    object(spec).insert("serviceAccount".to_owned(), name.as_str().into());
    let Some(account) = reader.get(&GroupResource::new("", "serviceaccounts"), &namespace, &name) else {
        return Err(absent(review, &namespace, &name));
    };
    let Some(pod) = review.object.as_mut() else { return Ok(()) };
    let volume = name_after(VOLUME_PREFIX, text(&pod["metadata"]["uid"]));
    let spec = at(pod, "spec");
    let automount = [&spec["automountServiceAccountToken"], &account["automountServiceAccountToken"]];
    if automount.iter().find_map(|wanted| wanted.as_bool()).unwrap_or(true) {
        mount(spec, &volume);
    }
    if items(&spec["imagePullSecrets"]).next().is_none() {
        let secrets: Vec<Value> =
            items(&account["imagePullSecrets"]).map(|secret| json!({"name": secret["name"]})).collect();
        if !secrets.is_empty() {
            object(spec).insert("imagePullSecrets".to_owned(), secrets.into());
        }
    }
    validate(review, reader)
}

/// Checks that the account is there, and its limits.
pub(crate) fn validate(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    let subresource = review.attributes.subresource.as_str();
    if !review.is_resource("", "pods") || !(subresource.is_empty() || subresource == "ephemeralcontainers") {
        return Ok(());
    }
    let Some(pod) = &review.object else { return Ok(()) };
    let ephemeral = review.operation == Operation::Update && subresource == "ephemeralcontainers";
    if !ephemeral && review.operation != Operation::Create {
        return Ok(());
    }
    let spec = &pod["spec"];
    let name = text(&spec["serviceAccountName"]);
    if !ephemeral && !pod["metadata"]["annotations"][MIRROR].is_null() {
        return validate_mirror(review, pod, name);
    }
    let namespace = review.namespace();
    if name.is_empty() {
        let pod = text(&pod["metadata"]["name"]);
        return Err(review.forbidden(&format!("no service account specified for pod {namespace}/{pod}")));
    }
    let Some(account) = reader.get(&GroupResource::new("", "serviceaccounts"), namespace, name) else {
        return Err(absent(review, namespace, name));
    };
    if service_account_secrets::are_limited(&account) {
        let limited = if ephemeral {
            // The real server forgets to wrap this one: it becomes a plain failure of the server.
            service_account_secrets::limit_ephemeral(&account, spec).map_err(|why| Status::new(500, "", why))
        } else {
            service_account_secrets::limit(&account, spec).map_err(|why| review.forbidden(&why))
        };
        limited?;
    }
    Ok(())
}

fn validate_mirror(review: &Review<'_>, pod: &Value, account: &str) -> Result<(), Status> {
    if !account.is_empty() {
        return Err(review.forbidden("a mirror pod may not reference service accounts"));
    }
    if service_account_secrets::are_referenced(&pod["spec"]) {
        return Err(review.forbidden("a mirror pod may not reference secrets"));
    }
    let mut sources =
        items(&pod["spec"]["volumes"]).flat_map(|volume| items(&volume["projected"]["sources"]));
    if sources.any(|source| source["serviceAccountToken"].is_object()) {
        return Err(review.forbidden("a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

fn absent(review: &Review<'_>, namespace: &str, name: &str) -> Status {
    review.forbidden(&format!(
        "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
    ))
}

/// A name after a prefix that looks random and comes from the pod's uid, so that a seed makes it repeatable.
fn name_after(prefix: &str, uid: &str) -> String {
    let digest = Sha256::digest(uid.as_bytes());
    let letters = digest.iter().take(5).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
    prefix.chars().chain(letters).collect()
}

/// Mounts the token in every container that has nothing in its place, by a volume that is there or by a new one.
fn mount(spec: &mut Value, new_volume: &str) {
    let known = items(&spec["volumes"])
        .map(|volume| text(&volume["name"]))
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let volume = known.as_deref().unwrap_or(new_volume);
    let mut mounted = false;
    for key in ["initContainers", "containers"] {
        let Some(containers) = spec.get_mut(key).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            if items(&container["volumeMounts"]).any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            list(container, "volumeMounts")
                .push(json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
            mounted = true;
        }
    }
    if mounted && known.is_none() {
        let volume = json!({"name": volume, "projected": token_volume()});
        list(spec, "volumes").push(volume);
    }
}

/// The volume with the token, the certificate of the server and the namespace.
fn token_volume() -> Value {
    json!({
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ],
    })
}
