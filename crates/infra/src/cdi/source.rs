//! What a DataVolume is filled from.

use serde_json::Value;

use super::names;
use crate::client::Client;
use crate::kinds::DATA_SOURCE;
use crate::object::{Key, Object as _};

/// The kinds of sources that are imported.
const IMPORTED: &[&str] = &["http", "s3", "gcs", "registry", "blank", "imageio", "vddk"];

/// How a DataVolume is filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// By an import; the kind of its source.
    Import(&'static str),
    /// By an upload.
    Upload,
    /// By a clone of a claim or a snapshot.
    Clone(Origin),
    /// By something that is not CDI.
    Outside,
}

/// What a clone is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// Whether it is a snapshot, and not a claim.
    pub snapshot: bool,
    /// Where it is.
    pub key: Key,
}

impl Origin {
    /// The word events use for it.
    pub(super) fn word(&self) -> &'static str {
        if self.snapshot { "snapshot" } else { "pvc" }
    }

    /// The kind in a reference.
    pub(super) fn kind(&self) -> &'static str {
        if self.snapshot { "VolumeSnapshot" } else { "PersistentVolumeClaim" }
    }
}

/// How deep references from one DataSource to another may go.
const DEEPEST: usize = 1;

/// How a DataVolume is filled; nothing while what it refers to is not there.
pub(super) fn of(client: &Client, volume: &Value) -> Option<Source> {
    let source = volume.at("/spec/source");
    if source.is_object() {
        return direct(source, volume.namespace());
    }
    let reference = volume.at("/spec/sourceRef");
    if reference.is_object() {
        let namespace = reference.text("/namespace");
        let namespace = if namespace.is_empty() { volume.namespace() } else { namespace };
        return referred(client, &Key::new(namespace, reference.text("/name")));
    }
    Some(Source::Outside)
}

/// How a source that is written down fills a volume.
pub(super) fn direct(source: &Value, namespace: &str) -> Option<Source> {
    if let Some(kind) = IMPORTED.iter().find(|kind| source[**kind].is_object()) {
        return Some(Source::Import(kind));
    }
    if source["upload"].is_object() {
        return Some(Source::Upload);
    }
    origin(source, namespace).map(Source::Clone)
}

/// The claim or snapshot a source names.
pub(super) fn origin(source: &Value, namespace: &str) -> Option<Origin> {
    for (field, snapshot) in [("pvc", false), ("snapshot", true)] {
        let named = &source[field];
        if named.is_object() {
            let own = named.text("/namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            return Some(Origin { snapshot, key: Key::new(namespace, named.text("/name")) });
        }
    }
    None
}

fn referred(client: &Client, key: &Key) -> Option<Source> {
    let mut source = client.cache(&DATA_SOURCE).get(key)?;
    for _ in 0..DEEPEST {
        let next = source.at("/spec/source/dataSource");
        if !next.is_object() {
            break;
        }
        source = client.cache(&DATA_SOURCE).get(&Key::new(next.text("/namespace"), next.text("/name")))?;
    }
    origin(source.at("/spec/source"), source.namespace()).map(Source::Clone)
}

/// The annotations that tell an importer what to do, as pairs.
pub(super) fn import_annotations(source: &Value) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let Some(kind) = IMPORTED.iter().find(|kind| source[**kind].is_object()) else { return pairs };
    let from = &source[*kind];
    let word = if *kind == "blank" { "none" } else { kind };
    pairs.push((names::SOURCE.to_owned(), word.to_owned()));
    let fields = [
        ("url", names::ENDPOINT),
        ("secretRef", names::SECRET),
        ("certConfigMap", names::CERT_CONFIG_MAP),
        ("checksum", names::CHECKSUM),
        ("imageStream", names::REGISTRY_IMAGE_STREAM),
        ("diskId", "cdi.kubevirt.io/storage.import.diskId"),
        ("uuid", "cdi.kubevirt.io/storage.import.uuid"),
        ("backingFile", "cdi.kubevirt.io/storage.import.backingFile"),
        ("thumbprint", "cdi.kubevirt.io/storage.import.vddk.thumbprint"),
    ];
    for (field, annotation) in fields {
        if let Some(text) = from[field].as_str().filter(|text| !text.is_empty()) {
            pairs.push((annotation.to_owned(), text.to_owned()));
        }
    }
    if from.flag("/insecureSkipVerify") {
        pairs.push((names::INSECURE.to_owned(), "true".to_owned()));
    }
    for (field, annotation) in
        [("extraHeaders", names::EXTRA_HEADERS), ("secretExtraHeaders", names::SECRET_EXTRA_HEADERS)]
    {
        for (index, text) in from.list(&format!("/{field}")).iter().enumerate() {
            pairs.push((format!("{annotation}.{index}"), text.as_str().unwrap_or_default().to_owned()));
        }
    }
    if *kind == "registry" {
        let method = from.text("/pullMethod");
        pairs.push((
            names::REGISTRY_METHOD.to_owned(),
            if method.is_empty() { "pod" } else { method }.to_owned(),
        ));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_importer_is_told_by_annotations() {
        let source =
            json!({"http": {"url": "http://a/b", "extraHeaders": ["X: 1", "Y: 2"], "checksum": "md5:0"}});
        let pairs = import_annotations(&source);
        let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!(get(names::SOURCE), Some("http"));
        assert_eq!(get(names::ENDPOINT), Some("http://a/b"));
        assert_eq!(get(names::CHECKSUM), Some("md5:0"));
        assert_eq!(get(&format!("{}.1", names::EXTRA_HEADERS)), Some("Y: 2"));
        assert_eq!(
            import_annotations(&json!({"blank": {}})),
            [(names::SOURCE.to_owned(), "none".to_owned())]
        );
    }

    #[test]
    fn a_clone_names_its_origin() {
        let origin = Origin { snapshot: false, key: Key::new("here", "a") };
        assert_eq!(direct(&json!({"pvc": {"name": "a"}}), "here"), Some(Source::Clone(origin)));
        assert_eq!(direct(&json!({}), "here"), None);
    }
}
