//! Whether everything a pod mounts is there.

use serde_json::Value;

use crate::client::{Client, Result};
use crate::context::Context;
use crate::kinds::{CONFIG_MAP, Kind, PV, PVC, SECRET};
use crate::object::{Key, Object as _};
use crate::storage::is_attached;

/// What is missing for a pod to start, in the words of a kubelet's event; nothing where all is there.
pub(crate) async fn missing(client: &Client, pod: &Value) -> Result<Option<String>> {
    for volume in pod.list("/spec/volumes") {
        if let Some(message) = unbound(client, pod, volume) {
            return Ok(Some(message));
        }
    }
    for volume in pod.list("/spec/volumes") {
        for (kind, name, noun) in sources(volume) {
            if client.get(kind, &Key::new(pod.namespace(), name)).await?.is_none() {
                let message = format!(
                    "MountVolume.SetUp failed for volume \"{}\" : {noun} \"{name}\" not found",
                    volume.text("/name")
                );
                return Ok(Some(message));
            }
        }
    }
    Ok(None)
}

/// Why a claim cannot be used.
fn unbound(client: &Client, pod: &Value, volume: &Value) -> Option<String> {
    let claim = claim_of(pod, volume)?;
    let name = volume.text("/name");
    let key = Key::new(pod.namespace(), &claim);
    let why = match client.cache(&PVC).get(&key) {
        None => format!("failed to fetch PVC from API server: persistentvolumeclaim \"{claim}\" not found"),
        Some(claim) if claim.text("/status/phase") != "Bound" => "PVC is not bound".to_owned(),
        Some(claim) if claim.is_deleting() && pod.text("/status/startTime").is_empty() => {
            "PVC is being deleted".to_owned()
        }
        Some(_) => return None,
    };
    Some(format!(
        "Unable to attach or mount volumes: unmounted volumes=[{name}], unattached volumes=[], failed to process \
         volumes=[{name}]: error processing PVC {key}: {why}"
    ))
}

/// Whether all volumes of a pod that have to be attached to its host are.
pub(crate) fn are_attached(context: &Context, client: &Client, pod: &Value) -> bool {
    let node = pod.text("/spec/nodeName");
    let mut claims = pod.list("/spec/volumes").iter().filter_map(|volume| claim_of(pod, volume));
    claims.all(|claim| {
        let claim = client.cache(&PVC).get(&Key::new(pod.namespace(), &claim));
        let name = claim.as_ref().map(|claim| claim.text("/spec/volumeName")).unwrap_or_default();
        let volume = client.cache(&PV).get(&Key::cluster(name));
        volume.is_none_or(|volume| is_attached(context, &volume, node))
    })
}

/// The claim behind a volume, if there is one.
pub(crate) fn claim_of(pod: &Value, volume: &Value) -> Option<String> {
    if volume["ephemeral"].is_object() {
        return Some(format!("{}-{}", pod.name(), volume.text("/name")));
    }
    volume["persistentVolumeClaim"]["claimName"].as_str().map(ToOwned::to_owned)
}

/// The secrets and config maps a volume is made of, without those that may be missing.
fn sources(volume: &Value) -> Vec<(&'static Kind, &str, &'static str)> {
    let whole = [
        (&volume["secret"], &SECRET, "/secretName", "secret"),
        (&volume["configMap"], &CONFIG_MAP, "/name", "configmap"),
    ];
    let parts = volume.list("/projected/sources").iter().flat_map(|source| {
        [
            (&source["secret"], &SECRET, "/name", "secret"),
            (&source["configMap"], &CONFIG_MAP, "/name", "configmap"),
        ]
    });
    whole
        .into_iter()
        .chain(parts)
        .filter(|(source, _, name, _)| !source.text(name).is_empty() && !source.flag("/optional"))
        .map(|(source, kind, name, noun)| (kind, source.text(name), noun))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_be_missing_is_not_waited_for() {
        let volume = json!({"projected": {"sources": [
            {"secret": {"name": "a"}}, {"configMap": {"name": "b", "optional": true}}, {"downwardAPI": {}},
        ]}});
        let names: Vec<_> = sources(&volume).into_iter().map(|(_, name, _)| name).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(sources(&json!({"secret": {"secretName": "s"}})).len(), 1);
    }

    #[test]
    fn an_ephemeral_volume_has_a_claim_of_its_own_name() {
        let pod = json!({"metadata": {"name": "p"}});
        assert_eq!(claim_of(&pod, &json!({"name": "v", "ephemeral": {}})).as_deref(), Some("p-v"));
        assert_eq!(claim_of(&pod, &json!({"name": "v", "emptyDir": {}})), None);
    }
}
