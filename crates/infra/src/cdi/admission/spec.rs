//! What is wrong with the specification of a DataVolume, as far as it can be told from that alone.

use serde_json::Value;

use crate::cdi::import::checksum::Checksum;
use crate::object::Object as _;
use crate::quantity;
use crate::service::admission::Cause;

const MODES: &[&str] = &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const KINDS: &[&str] =
    &["http", "s3", "gcs", "registry", "pvc", "upload", "blank", "imageio", "vddk", "snapshot"];
/// The smallest volume there is.
const SMALLEST: i128 = 1 << 20;

/// Everything that is wrong; the real webhook stops at the first, and so does this.
pub(super) fn check(field: &str, spec: &Value) -> Vec<Cause> {
    first(&[storage, source, content], field, spec)
}

fn first(checks: &[fn(&str, &Value) -> Option<Cause>], field: &str, spec: &Value) -> Vec<Cause> {
    checks.iter().find_map(|check| check(field, spec)).into_iter().collect()
}

fn storage(field: &str, spec: &Value) -> Option<Cause> {
    let (pvc, storage) = (&spec["pvc"], &spec["storage"]);
    match (pvc.is_object(), storage.is_object()) {
        (false, false) => Some(Cause::invalid(format!("{field}.PVC"), "Missing Data volume PVC")),
        (true, true) => Some(Cause::invalid(
            format!("{field}.PVC.Storage"),
            "Duplicate storage definition, both target storage and target pvc defined",
        )),
        (true, false) => size(field, "PVC", pvc, false).or_else(|| one_mode(field, pvc)),
        (false, true) => {
            size(field, "Storage", storage, may_lack_size(spec)).or_else(|| modes(field, storage))
        }
    }
}

/// Clones take the size of what they are made of.
fn may_lack_size(spec: &Value) -> bool {
    let source = &spec["source"];
    source["pvc"].is_object()
        || source["snapshot"].is_object()
        || spec["sourceRef"].is_object()
        || spec["storage"]["dataSourceRef"].is_object()
        || spec["storage"]["dataSource"].is_object()
}

fn size(field: &str, name: &str, claim: &Value, may_lack: bool) -> Option<Cause> {
    let asked = claim.at("/resources/requests/storage");
    let wrong = |words: &str| {
        Some(Cause::invalid(
            format!("{field}.{name}.resources.requests.size"),
            format!("{name} size {words}"),
        ))
    };
    if asked.is_null() {
        return if may_lack { None } else { wrong("is missing") };
    }
    match quantity::whole(asked) {
        ..=0 => wrong("can't be equal or less than zero"),
        size if size < SMALLEST => wrong("can't be less than 1Mi"),
        _ => None,
    }
}

fn one_mode(field: &str, claim: &Value) -> Option<Cause> {
    let wrong = |message: &str| Some(Cause::invalid(format!("{field}.PVC.accessModes"), message));
    match claim.list("/accessModes").len() {
        // An external populator may take whatever the class can do.
        0 => wrong("Required value: at least 1 access mode is required"),
        1 => modes(field, claim),
        _ => wrong("PVC multiple accessModes"),
    }
}

fn modes(field: &str, claim: &Value) -> Option<Cause> {
    let unknown = claim.list("/accessModes").iter().filter_map(Value::as_str);
    unknown.into_iter().find(|mode| !MODES.contains(mode)).map(|mode| {
        let message = format!(
            "Unsupported value: \"{mode}\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\""
        );
        Cause::invalid(format!("{field}.PVC.accessModes"), message)
    })
}

fn source(field: &str, spec: &Value) -> Option<Cause> {
    let outside = ["pvc", "storage"]
        .iter()
        .any(|claim| ["dataSource", "dataSourceRef"].iter().any(|from| spec[*claim][*from].is_object()));
    let (source, reference) = (spec["source"].is_object(), spec["sourceRef"].is_object());
    if outside && (source || reference) {
        return Some(Cause::invalid(
            format!("{field}.source"),
            "External population is incompatible with Source and SourceRef",
        ));
    }
    if outside {
        return None;
    }
    if source == reference {
        return Some(Cause::invalid(
            format!("{field}.source"),
            "Data volume should have either Source or SourceRef, or be externally populated",
        ));
    }
    if reference {
        return self::reference(field, &spec["sourceRef"]);
    }
    sources(field, &spec["source"]).into_iter().next()
}

fn reference(field: &str, reference: &Value) -> Option<Cause> {
    match (reference.text("/kind"), reference.text("/name")) {
        ("", _) => Some(Cause::invalid(format!("{field}.sourceRef.Kind"), "Missing sourceRef kind")),
        ("DataSource", "") => {
            Some(Cause::invalid(format!("{field}.sourceRef.Name"), "Missing sourceRef name"))
        }
        ("DataSource", _) => None,
        (kind, _) => Some(Cause::invalid(
            format!("{field}.sourceRef.Kind"),
            format!("Unsupported sourceRef kind {kind}, currently only DataSource is supported"),
        )),
    }
}

/// What is wrong with a source that is written down.
pub(super) fn sources(field: &str, source: &Value) -> Vec<Cause> {
    let count = KINDS.iter().filter(|kind| source[**kind].is_object()).count();
    let wrong = |message: &str| vec![Cause::invalid(format!("{field}.source"), message)];
    if count != 1 {
        return wrong(if count == 0 { "Missing Data volume source" } else { "Multiple Data volume sources" });
    }
    first(&[url, registry, named, logins], field, source)
}

fn url(field: &str, source: &Value) -> Option<Cause> {
    let kinds = [("http", "HTTP"), ("s3", "S3"), ("gcs", "GCS"), ("imageio", "Imageio"), ("vddk", "VDDK")];
    let (kind, name) = kinds.into_iter().find(|(kind, _)| source[*kind].is_object())?;
    let url = source[kind].text("/url");
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let words = match scheme {
        _ if url.is_empty() => Some("source URL is empty".to_owned()),
        None => Some(format!("Invalid source URL: {url}")),
        Some("http" | "https") => None,
        Some("gs") if kind == "gcs" => None,
        Some(_) => Some(format!("Invalid source URL scheme: {url}")),
    };
    if let Some(words) = words {
        let message = format!("{field}.source {words}");
        return Some(Cause::invalid(format!("{field}.source.{name}.url"), message));
    }
    let checksum = source["http"].text("/checksum");
    let wrong = Checksum::parse(checksum).err().filter(|_| !checksum.is_empty());
    wrong.map(|error| Cause::invalid(format!("{field}.source.HTTP.checksum"), error.to_string()))
}

fn registry(field: &str, source: &Value) -> Option<Cause> {
    let registry = &source["registry"];
    if !registry.is_object() {
        return None;
    }
    let wrong =
        |name: &str, message: String| Some(Cause::invalid(format!("{field}.source.Registry{name}"), message));
    let (url, stream) = (registry.text("/url"), registry.text("/imageStream"));
    let method = registry.text("/pullMethod");
    if url.is_empty() == stream.is_empty() {
        return wrong("", "Source registry should have either URL or ImageStream".to_owned());
    }
    if !["", "pod", "node"].contains(&method) {
        return wrong(".importMethod", format!("ImportMethod {method} is neither pod, node or \"\""));
    }
    if !stream.is_empty() && method != "node" {
        let message = "Source registry ImageStream is not supported unless the PullMethod is node";
        return wrong(".importMethod", message.to_owned());
    }
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    if stream.is_empty() && !["docker", "oci-archive"].contains(&scheme) {
        return wrong(".URL", format!("Illegal registry source URL scheme {url}"));
    }
    None
}

fn named(field: &str, source: &Value) -> Option<Cause> {
    [("pvc", "PVC"), ("snapshot", "Snapshot")].into_iter().find_map(|(kind, name)| {
        let incomplete = source[kind].is_object()
            && (source[kind].text("/name").is_empty() || source[kind].text("/namespace").is_empty());
        let place = format!("{field}.source.{name}");
        incomplete.then(|| Cause::invalid(place.clone(), format!("{place} source {name} is not valid")))
    })
}

fn logins(field: &str, source: &Value) -> Option<Cause> {
    let needed: [(&str, &str, &[&str]); 2] = [
        ("imageio", "Imageio", &["secretRef", "certConfigMap", "diskId"]),
        ("vddk", "VDDK", &["secretRef", "uuid", "backingFile", "thumbprint"]),
    ];
    needed.into_iter().find_map(|(kind, name, fields)| {
        let lacks = |field: &&str| source[kind][*field].as_str().unwrap_or_default().is_empty();
        let incomplete = source[kind].is_object() && fields.iter().any(lacks);
        let place = format!("{field}.source.{name}");
        incomplete.then(|| Cause::invalid(place.clone(), format!("{place} source {name} is not valid")))
    })
}

fn content(field: &str, spec: &Value) -> Option<Cause> {
    let kind = spec.text("/contentType");
    let wrong = |message: String| Some(Cause::invalid(format!("{field}.contentType"), message));
    if !["", "kubevirt", "archive"].contains(&kind) {
        return wrong("ContentType not one of: kubevirt, archive".to_owned());
    }
    if kind == "archive" && spec["source"]["blank"].is_object() {
        return wrong("SourceType cannot be blank and the contentType be archive".to_owned());
    }
    if kind == "archive" && spec["source"]["registry"].is_object() {
        return wrong("ContentType must be kubevirt when Source is Registry".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(spec: &Value) -> String {
        check("spec", spec).into_iter().map(|cause| cause.message).collect()
    }

    #[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
    fn with(storage: Value, source: Value) -> Value {
        json!({"storage": storage, "source": source})
    }

    fn sized() -> Value {
        json!({"resources": {"requests": {"storage": "1Gi"}}})
    }

    #[test]
    fn what_is_right_is_let_through() {
        for source in [
            json!({"http": {"url": "https://a/b"}}),
            json!({"blank": {}}),
            json!({"upload": {}}),
            json!({"registry": {"url": "docker://a"}}),
            json!({"registry": {"url": "oci-archive://a", "pullMethod": "node"}}),
            json!({"pvc": {"namespace": "n", "name": "a"}}),
        ] {
            assert_eq!(said(&with(sized(), source.clone())), "", "{source}");
        }
        assert_eq!(said(&with(json!({}), json!({"pvc": {"namespace": "n", "name": "a"}}))), "");
        assert_eq!(said(&json!({"storage": {}, "sourceRef": {"kind": "DataSource", "name": "a"}})), "");
    }

    #[test]
    fn sizes_have_to_be_there_and_sensible() {
        let blank = json!({"blank": {}});
        let of = |size: &str| json!({"resources": {"requests": {"storage": size}}});
        assert_eq!(said(&with(json!({}), blank.clone())), "Storage size is missing");
        assert_eq!(said(&with(of("0"), blank.clone())), "Storage size can't be equal or less than zero");
        assert_eq!(said(&with(of("1k"), blank.clone())), "Storage size can't be less than 1Mi");
        assert_eq!(said(&json!({"pvc": {}, "source": blank})), "PVC size is missing");
    }

    #[test]
    fn sources_have_to_be_one_and_complete() {
        for (source, message) in [
            (json!({}), "Missing Data volume source"),
            (json!({"blank": {}, "upload": {}}), "Multiple Data volume sources"),
            (json!({"http": {"url": ""}}), "spec.source source URL is empty"),
            (json!({"http": {"url": "ftp://a"}}), "spec.source Invalid source URL scheme: ftp://a"),
            (json!({"registry": {"url": "http://a"}}), "Illegal registry source URL scheme http://a"),
            (json!({"pvc": {"name": "a"}}), "spec.source.PVC source PVC is not valid"),
        ] {
            assert_eq!(said(&with(sized(), source)), message);
        }
        let stream = said(&with(sized(), json!({"registry": {"imageStream": "a"}})));
        assert!(stream.contains("ImageStream is not supported"), "{stream}");
        let checksum = said(&with(sized(), json!({"http": {"url": "http://a", "checksum": "x"}})));
        assert!(checksum.contains("invalid checksum format"), "{checksum}");
        let none = said(&json!({"storage": sized()}));
        assert!(none.starts_with("Data volume should have either Source or SourceRef"), "{none}");
        let kind = said(&json!({"storage": sized(), "sourceRef": {"kind": "X", "name": "a"}}));
        assert_eq!(kind, "Unsupported sourceRef kind X, currently only DataSource is supported");
    }

    #[test]
    fn a_claim_has_exactly_one_access_mode() {
        let claim = |modes: &[&str]| json!({"pvc": {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}}, "source": {"blank": {}}});
        assert_eq!(said(&claim(&["ReadWriteOnce"])), "");
        assert_eq!(said(&claim(&[])), "Required value: at least 1 access mode is required");
        assert_eq!(said(&claim(&["ReadWriteOnce", "ReadWriteMany"])), "PVC multiple accessModes");
        assert!(said(&claim(&["X"])).starts_with("Unsupported value: \"X\""));
        assert_eq!(said(&json!({"source": {"blank": {}}})), "Missing Data volume PVC");
    }
}
