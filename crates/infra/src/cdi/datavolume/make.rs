//! The objects a DataVolume is made into.

use serde_json::{Value, json};

use crate::cdi::names;
use crate::cdi::source::{self, Origin, Source};
use crate::kinds::{DATA_VOLUME, Kind, VOLUME_CLONE_SOURCE, VOLUME_IMPORT_SOURCE, VOLUME_UPLOAD_SOURCE};
use crate::object::{Key, Object as _, owned_by};

/// What a claim must not take over from its DataVolume.
const NOT_COPIED: &[&str] = &[
    names::POPULATED_FOR,
    names::CLONE_TOKEN,
    names::EXTENDED_CLONE_TOKEN,
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// The claim of a DataVolume.
pub(super) fn claim(
    volume: &Value,
    mut spec: Value,
    from: &Source,
    populated: bool,
    immediate: bool,
) -> Value {
    let mut labels = json!({names::APP: names::APP_VALUE});
    if spec["volumeMode"] != "Block" {
        labels[names::FILLING_UP] = "disabled".into();
    }
    let mut annotations = json!({});
    for (from, to) in [("labels", &mut labels), ("annotations", &mut annotations)] {
        for (name, value) in volume["metadata"][from].as_object().into_iter().flatten() {
            if !NOT_COPIED.contains(&name.as_str()) {
                to[name] = value.clone();
            }
        }
    }
    let content = volume.text("/spec/contentType");
    annotations[names::POD_RESTARTS] = "0".into();
    annotations[names::CONTENT_TYPE] = if content.is_empty() { "kubevirt" } else { content }.into();
    annotations[names::PREALLOCATION_REQUESTED] =
        if volume.flag("/spec/preallocation") { "true" } else { "false" }.into();
    annotations[names::CREATED_FOR] = volume.uid().into();
    let priority = volume.text("/spec/priorityClassName");
    if !priority.is_empty() {
        annotations[names::PRIORITY_CLASS] = priority.into();
    }
    if immediate {
        annotations[names::IMMEDIATE_BINDING] = "".into();
    }
    if populated {
        if let Some((kind, name)) = source_reference(volume, from) {
            spec["dataSourceRef"] = json!({"apiGroup": names::GROUP, "kind": kind.kind, "name": name});
        }
    } else {
        on_the_claim(volume, from, &mut annotations);
    }
    if let Source::Clone(origin) = from
        && origin.key.namespace != volume.namespace()
    {
        annotations[names::DATA_SOURCE_NAMESPACE] = origin.key.namespace.as_str().into();
        annotations[names::EXTENDED_CLONE_TOKEN] = volume.annotation(names::EXTENDED_CLONE_TOKEN).into();
    }
    json!({
        "metadata": {
            "namespace": volume.namespace(), "name": volume.name(), "labels": labels,
            "annotations": annotations, "ownerReferences": [owned_by(&DATA_VOLUME, volume)],
        },
        "spec": spec,
    })
}

/// What a claim that is worked on itself has to say.
fn on_the_claim(volume: &Value, from: &Source, annotations: &mut Value) {
    match from {
        Source::Import(_) => {
            for (name, text) in source::import_annotations(volume.at("/spec/source")) {
                annotations[name] = text.into();
            }
        }
        Source::Upload => annotations[names::UPLOAD_TARGET] = "".into(),
        Source::Clone(origin) => annotations[names::CLONE_REQUEST] = origin.key.to_string().into(),
        Source::Outside => {}
    }
}

/// The kind and the name of what the claim of a DataVolume refers to.
pub(super) fn source_reference(volume: &Value, from: &Source) -> Option<(&'static Kind, String)> {
    let (kind, word): (&'static Kind, &str) = match from {
        Source::Import(_) => (&VOLUME_IMPORT_SOURCE, "import"),
        Source::Upload => (&VOLUME_UPLOAD_SOURCE, "upload"),
        Source::Clone(_) => (&VOLUME_CLONE_SOURCE, "clone"),
        Source::Outside => return None,
    };
    Some((kind, format!("volume-{word}-source-{}", volume.uid())))
}

/// Where the source object of a DataVolume is: that of a clone is beside what is cloned.
pub(super) fn source_key(volume: &Value, from: &Source) -> Option<(&'static Kind, Key)> {
    let namespace = match from {
        Source::Clone(origin) => &origin.key.namespace,
        _ => volume.namespace(),
    };
    source_reference(volume, from).map(|(kind, name)| (kind, Key::new(namespace, &name)))
}

/// The object the claim of a DataVolume refers to.
pub(super) fn source_object(volume: &Value, from: &Source, key: &Key) -> Value {
    let mut metadata = json!({"namespace": key.namespace, "name": key.name});
    if key.namespace == volume.namespace() {
        metadata["ownerReferences"] = json!([owned_by(&DATA_VOLUME, volume)]);
    } else {
        metadata["annotations"] = json!({names::OWNED_BY_DATA_VOLUME: Key::of(volume).to_string()});
    }
    let mut spec = match from {
        Source::Clone(origin) => clone_spec(volume, origin),
        _ => json!({}),
    };
    if let Source::Import(_) = from {
        spec["source"] = volume.at("/spec/source").clone();
        spec["targetClaim"] = volume.name().into();
        for field in ["checkpoints", "finalCheckpoint"] {
            if let Some(value) = volume["spec"].get(field) {
                spec[field] = value.clone();
            }
        }
    }
    if !matches!(from, Source::Clone(_)) {
        let content = volume.text("/spec/contentType");
        spec["contentType"] = if content.is_empty() { "kubevirt" } else { content }.into();
    }
    if let Some(preallocation) = volume["spec"].get("preallocation") {
        spec["preallocation"] = preallocation.clone();
    }
    json!({"metadata": metadata, "spec": spec})
}

fn clone_spec(volume: &Value, origin: &Origin) -> Value {
    let mut spec = json!({"source": {"kind": origin.kind(), "name": origin.key.name}});
    if origin.snapshot {
        spec["source"]["apiGroup"] = "snapshot.storage.k8s.io".into();
    }
    let priority = volume.text("/spec/priorityClassName");
    if !priority.is_empty() {
        spec["priorityClassName"] = priority.into();
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "d", "uid": "u", "labels": {"a": "b"},
                "annotations": {"x": "y", names::CLONE_TOKEN: "secret"}},
            "spec": {"source": {"http": {"url": "http://a"}}, "priorityClassName": "p"},
        })
    }

    #[test]
    fn a_populated_claim_refers_to_its_source() {
        let made = claim(&volume(), json!({}), &Source::Import("http"), true, false);
        assert_eq!(made["spec"]["dataSourceRef"]["name"], "volume-import-source-u");
        assert_eq!(made.annotation("x"), "y");
        assert_eq!(made.annotation(names::CLONE_TOKEN), "");
        assert_eq!(made.annotation(names::PRIORITY_CLASS), "p");
        assert_eq!(made.label(names::FILLING_UP), "disabled");
        assert!(made.is_controlled_by("u"));
    }

    #[test]
    fn a_claim_without_a_populator_says_what_to_do() {
        let made = claim(&volume(), json!({}), &Source::Import("http"), false, false);
        assert_eq!(made.annotation(names::ENDPOINT), "http://a");
        let origin = Origin { snapshot: false, key: Key::new("s", "a") };
        let made = claim(&volume(), json!({}), &Source::Clone(origin.clone()), false, false);
        assert_eq!(made.annotation(names::CLONE_REQUEST), "s/a");
        let (_, key) = source_key(&volume(), &Source::Clone(origin.clone())).unwrap();
        assert_eq!(key, Key::new("s", "volume-clone-source-u"));
        let object = source_object(&volume(), &Source::Clone(origin), &key);
        assert_eq!(object.annotation(names::OWNED_BY_DATA_VOLUME), "n/d");
        assert_eq!(object["spec"]["source"]["name"], "a");
    }
}
