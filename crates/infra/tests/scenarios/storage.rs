//! Storage: claims, volumes, growth, snapshots, attachments.

mod attach;
mod binding;
mod claims;
mod copies;
mod growth;
mod snapshots;

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_infra::kinds::{PV, PVC, STORAGE_CLASS};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::storage::Storage;

use crate::context::{Cx, Scenario};
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        attach::scenarios(),
        binding::scenarios(),
        claims::scenarios(),
        copies::scenarios(),
        growth::scenarios(),
        snapshots::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A claim of a class.
fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}},
        },
    })
}

/// A pod that uses a claim, on a host of a label.
fn pod(name: &str, claim: &str, (label, value): (&str, &str)) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{
                "name": "main", "image": "images.example/app:1",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            "nodeSelector": {label: value},
            "terminationGracePeriodSeconds": 0,
        },
    })
}

/// Waits until a claim is bound.
async fn bound(cx: &Cx, name: &str) -> Result<Arc<Value>> {
    cx.until(&PVC, &cx.key(name), |claim| claim.text("/status/phase") == "Bound").await
}

/// Makes a claim and waits until it is bound; the claim and its volume.
async fn volume(cx: &Cx, claim: Value) -> Result<(Arc<Value>, Arc<Value>)> {
    let name = claim.name().to_owned();
    cx.create(&PVC, claim).await?;
    let claim = bound(cx, &name).await?;
    let volume = cx.until(&PV, &Key::cluster(claim.text("/spec/volumeName")), |_| true).await?;
    Ok((claim, volume))
}

/// A class of a scenario's own, named after its namespace, of one of the drivers.
async fn class(cx: &Cx, driver: &str, more: Value) -> Result<String> {
    let mut class = json!({
        "metadata": {"name": cx.namespace}, "provisioner": driver, "reclaimPolicy": "Delete",
        "allowVolumeExpansion": true, "volumeBindingMode": "Immediate",
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        class[name] = value.clone();
    }
    cx.client.create(&STORAGE_CLASS, class).await?;
    Ok(cx.namespace.clone())
}

/// Takes the class of a scenario away again.
async fn drop_class(cx: &Cx) -> Result {
    outside(cx).mend(&cx.namespace);
    outside(cx).limit(&cx.namespace, None);
    Ok(cx.client.delete(&STORAGE_CLASS, &Key::cluster(&cx.namespace), "").await?)
}

/// The storage from outside.
fn outside(cx: &Cx) -> Storage {
    Storage::new(cx.infra.context())
}

/// Lets everybody come to rest who has something to do about what was made before: a claim that is made now is bound
/// only after them.
async fn settle(cx: &Cx) -> Result {
    volume(cx, claim("settle", "replicated", "1Gi")).await?;
    cx.client.delete(&PVC, &cx.key("settle"), "").await?;
    cx.until_gone(&PVC, &cx.key("settle")).await
}

/// Whether a claim waits.
async fn is_pending(cx: &Cx, name: &str) -> Result<bool> {
    let claim = cx.client.get(&PVC, &cx.key(name)).await?.unwrap_or_default();
    Ok(claim.text("/status/phase") == "Pending" && claim.text("/spec/volumeName").is_empty())
}
