//! Small pieces of reading that several dialects need: names, labels, taints, keys, choices.

use std::collections::{BTreeMap, BTreeSet};

use trellis_api::common::{self, DnsConfig, IntOrText, Metadata, Text};
use trellis_api::machine_api::{LabelOperator, LabelSelector};
use trellis_model::access::SshKey;
use trellis_model::cluster::{CloudController, ClusterSpec, Maintenance, Platform};
use trellis_model::image::Image;
use trellis_model::machine::{
    Architecture, DEFAULT_STOP_GRACE_SECONDS, Devices, Eviction, Firmware, MachineTemplate, Shape, UserData,
};
use trellis_model::names::{ClusterName, LabelKey, LabelValue, NamespaceName};
use trellis_model::network::{Address, Dns, DnsOption, DnsPolicy, Networking, NodeTaint};
use trellis_model::placement::{Placement, TaintEffect};
use trellis_model::pool::Autoscaling;
use trellis_model::quantity::Count;
use trellis_model::volume::{AccessMode, RootDisk};
use trellis_model::{Cluster, Subject};

use crate::diagnostic::Severity;
use crate::path::FieldPath;
use crate::reading::Cx;

/// The label Trellis puts on a written template so that its selector has something to select by. It says
/// nothing about the machines and is left out again when the template is read.
pub(crate) const POOL_LABEL: &str = "trellis.dev/pool";

/// A value and the field it was read at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At<T> {
    /// The field.
    pub(crate) at: FieldPath,
    /// The value.
    pub(crate) value: T,
}

impl<T> At<T> {
    /// A value and its field.
    pub(crate) fn new(at: FieldPath, value: T) -> Self {
        Self { at, value }
    }
}

impl At<String> {
    /// The value unless it is empty, which in most fields means that nothing is said.
    pub(crate) fn filled(self) -> Option<Self> {
        (!self.value.is_empty()).then_some(self)
    }
}

/// A cluster or pool while it is read.
pub(crate) struct Reader<'cx, 'reading> {
    /// The document.
    pub(crate) cx: &'cx mut Cx<'reading>,
    /// The cluster or pool.
    pub(crate) subject: Subject,
}

impl Reader<'_, '_> {
    /// Remembers where a part of it was read.
    pub(crate) fn origin(&mut self, model_path: &str, at: &FieldPath) {
        self.cx.origin(&self.subject, model_path, at);
    }

    /// Reads a text that was read at a field as a value of the model, and remembers where.
    pub(crate) fn parse<T>(&mut self, model_path: &str, text: Option<&At<String>>) -> Option<T>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let text = text.filter(|text| !text.value.is_empty())?;
        self.origin(model_path, &text.at);
        self.cx.parse(&text.at, &text.value)
    }
}

/// A cluster of which nothing is known but its name and platform.
pub(crate) fn cluster(name: ClusterName, platform: Platform) -> Cluster {
    let spec = ClusterSpec {
        platform,
        version: None,
        base_domain: None,
        network: Networking::default(),
        ssh_keys: BTreeSet::new(),
        flavors: BTreeMap::new(),
        cloud_controller: CloudController::default(),
        maintenance: Maintenance::default(),
    };
    Cluster { name, namespace: None, spec }
}

/// A machine of which nothing is known but its shape, its image and its root disk.
pub(crate) fn template(shape: Shape, image: Image, root_disk: RootDisk) -> MachineTemplate {
    MachineTemplate {
        shape,
        preference: None,
        image,
        root_disk,
        data_disks: Vec::new(),
        nics: Vec::new(),
        placement: Placement::default(),
        devices: Devices::default(),
        dns: Dns::default(),
        eviction: Eviction::default(),
        firmware: Firmware::default(),
        architecture: Architecture::default(),
        user_data: UserData::default(),
        ssh_keys: BTreeSet::new(),
        stop_grace_seconds: DEFAULT_STOP_GRACE_SECONDS,
        ovirt: None,
    }
}

/// The name of an object, or what a server would make one from.
pub(crate) fn object_name(cx: &mut Cx<'_>, metadata: &Metadata) -> Option<At<String>> {
    let at = FieldPath::root().child("metadata");
    if let Some(name) = metadata.name.as_ref().filter(|name| !name.is_empty()) {
        return Some(At::new(at.child("name"), name.clone()));
    }
    if let Some(prefix) = &metadata.generate_name {
        let name = prefix.trim_end_matches(['-', '.']).to_owned();
        let at = at.child("generateName");
        cx.notice("generated-name", &at, format!("names are derived, so this is named `{name}`"), "");
        return Some(At::new(at, name));
    }
    cx.error(
        "missing-field",
        &at.child("name"),
        "missing field `name`: the object's name",
        "add `metadata.name`",
    );
    None
}

/// Warns about names on a template: machines and nodes get derived ones.
pub(crate) fn warn_of_template_names(cx: &mut Cx<'_>, at: &FieldPath, metadata: &Metadata) {
    let given = [
        ("name", &metadata.name),
        ("generateName", &metadata.generate_name),
        ("namespace", &metadata.namespace),
    ];
    for (field, value) in given {
        if value.as_ref().is_some_and(|value| !value.is_empty()) {
            let message = format!("names are derived, so `{field}` of a template is not used");
            cx.warning("not-used", &at.child(field), message, "remove it");
        }
    }
}

/// The namespace of an object.
pub(crate) fn object_namespace(cx: &mut Cx<'_>, metadata: &Metadata) -> Option<NamespaceName> {
    let at = FieldPath::root().child("metadata").child("namespace");
    cx.parse_opt(&at, metadata.namespace.as_deref())
}

/// Labels, each checked where it stands. [`POOL_LABEL`] is left out.
pub(crate) fn labels(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    labels: &BTreeMap<String, String>,
) -> BTreeMap<LabelKey, LabelValue> {
    let mut out = BTreeMap::new();
    for (key, value) in labels.iter().filter(|(key, _)| *key != POOL_LABEL) {
        let at = at.child(key);
        if let (Some(key), Some(value)) = (cx.parse(&at, key), cx.parse(&at, value)) {
            out.insert(key, value);
        }
    }
    out
}

/// Annotations, each checked where it stands.
pub(crate) fn annotations(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    annotations: &BTreeMap<String, String>,
) -> BTreeMap<LabelKey, String> {
    let mut out = BTreeMap::new();
    for (key, value) in annotations {
        if let Some(key) = cx.parse(&at.child(key), key) {
            out.insert(key, value.clone());
        }
    }
    out
}

/// Labels or annotations as a document holds them.
pub(crate) fn texts<V: ToString>(map: &BTreeMap<LabelKey, V>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// A taint of a node.
pub(crate) fn taint(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    key: &str,
    value: Option<&str>,
    effect: TaintEffect,
) -> Option<NodeTaint> {
    let value = cx.parse_opt(&at.child("value"), value);
    Some(NodeTaint { key: cx.parse(&at.child("key"), key)?, value, effect })
}

/// A public SSH key. The key itself is not repeated in complaints.
pub(crate) fn ssh_key(cx: &mut Cx<'_>, at: &FieldPath, text: &str) -> Option<SshKey> {
    match SshKey::new(text) {
        Ok(key) => Some(key),
        Err(error) => {
            let help = "write the content of a file such as id_ed25519.pub";
            cx.hidden(Severity::Error, "invalid-value", at, format!("this cannot be read: {error}"), help);
            None
        }
    }
}

/// Public SSH keys of a list.
pub(crate) fn ssh_keys(cx: &mut Cx<'_>, at: &FieldPath, keys: &[String]) -> BTreeSet<SshKey> {
    let mut out = BTreeSet::new();
    for (index, text) in keys.iter().enumerate() {
        out.extend(ssh_key(cx, &at.index(index), text));
    }
    out
}

/// Name resolution of a pod.
pub(crate) fn dns(
    cx: &mut Cx<'_>,
    policy: DnsPolicy,
    at: &FieldPath,
    nameservers: &[String],
    searches: &[String],
    options: impl Iterator<Item = (String, Option<String>)>,
) -> Dns {
    Dns {
        policy,
        nameservers: addresses(cx, &at.child("nameservers"), nameservers),
        searches: searches.to_vec(),
        options: options.map(|(name, value)| DnsOption { name, value }).collect(),
    }
}

/// Name resolution as a document holds it.
pub(crate) fn dns_config(dns: &Dns) -> DnsConfig {
    let option = |option: &DnsOption| common::DnsOption {
        name: option.name.clone(),
        value: option.value.as_ref().map(Text::from),
    };
    DnsConfig {
        nameservers: dns.nameservers.iter().map(ToString::to_string).collect(),
        searches: dns.searches.clone(),
        options: dns.options.iter().map(option).collect(),
    }
}

/// The words for where name resolution comes from.
pub(crate) const DNS_POLICIES: &[(&str, DnsPolicy)] = &[
    ("ClusterFirst", DnsPolicy::ClusterFirst),
    ("ClusterFirstWithHostNet", DnsPolicy::ClusterFirstWithHostNet),
    ("Default", DnsPolicy::Default),
    ("None", DnsPolicy::None),
];

/// The words for how many hosts may use a volume at once.
pub(crate) const ACCESS_MODES: &[(&str, AccessMode)] = &[
    ("ReadWriteOnce", AccessMode::ReadWriteOnce),
    ("ReadOnlyMany", AccessMode::ReadOnlyMany),
    ("ReadWriteMany", AccessMode::ReadWriteMany),
];

/// An IP address.
pub(crate) fn address(cx: &mut Cx<'_>, at: &FieldPath, text: &str) -> Option<Address> {
    if let Ok(address) = text.parse() {
        return Some(Address(address));
    }
    let message = format!("`{text}` is not an IP address");
    cx.error("invalid-value", at, message, "write an address such as 10.0.0.5 or fd00::5");
    None
}

/// IP addresses of a list.
pub(crate) fn addresses(cx: &mut Cx<'_>, at: &FieldPath, texts: &[String]) -> Vec<Address> {
    let mut out = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        out.extend(address(cx, &at.index(index), text));
    }
    out
}

/// A number or a percentage.
pub(crate) fn count(cx: &mut Cx<'_>, at: &FieldPath, count: &IntOrText) -> Option<Count> {
    cx.parse(at, &count.to_string())
}

/// One of some words, with a guess at what was meant when it is none of them.
pub(crate) fn choose<T: Copy>(cx: &mut Cx<'_>, at: &FieldPath, text: &str, words: &[(&str, T)]) -> Option<T> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let quoted = |word: &str| if word.is_empty() { "an empty text".to_owned() } else { format!("`{word}`") };
    let listed: Vec<String> = words.iter().map(|(word, _)| quoted(word)).collect();
    let listed = listed.join(", ");
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).filter(|word| !word.is_empty()).collect();
    let help = match crate::suggest::closest(text, &names) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of {listed}"),
    };
    cx.error("invalid-value", at, format!("`{text}` is none of {listed}"), &help);
    None
}

/// A truth value that is written as text.
pub(crate) fn truth(cx: &mut Cx<'_>, at: &FieldPath, text: &str) -> Option<bool> {
    choose(cx, at, text, &[("true", true), ("false", false)])
}

/// The autoscaler's bounds, which stand in annotations.
pub(crate) fn autoscaling(
    cx: &mut Cx<'_>,
    metadata: &Metadata,
    min_key: &str,
    max_key: &str,
) -> Option<Autoscaling> {
    let at = FieldPath::root().join("metadata.annotations");
    let mut bound = |key: &str| {
        let text = metadata.annotations.get(key)?;
        cx.parse::<u32>(&at.child(key), text)
    };
    match (bound(min_key), bound(max_key)) {
        (Some(min), Some(max)) => Some(Autoscaling { min, max }),
        (None, None) => None,
        (min, _) => {
            let (given, missing) = if min.is_some() { (min_key, max_key) } else { (max_key, min_key) };
            if !metadata.annotations.contains_key(missing) {
                let message = "the autoscaler needs both of its bounds, so this one is not used";
                cx.warning("not-used", &at.child(given), message, &format!("add the annotation {missing}"));
            }
            None
        }
    }
}

/// Checks that a selector selects the machines it is for.
pub(crate) fn check_selector(cx: &mut Cx<'_>, selector: &LabelSelector, labels: &BTreeMap<String, String>) {
    let at = FieldPath::root().join("spec.selector");
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        let message = "missing field `selector`: which machines belong to this";
        cx.error("missing-field", &at, message, "add `selector.matchLabels` with labels of the template");
    }
    for (key, value) in &selector.match_labels {
        if labels.get(key) != Some(value) {
            let message =
                format!("the template has no label `{key}: {value}`, so its machines are not selected");
            let help = format!("add `{key}: {value}` to the labels of the template");
            cx.error("selector-mismatch", &at.child("matchLabels").child(key), message, &help);
        }
    }
    for (index, rule) in selector.match_expressions.iter().enumerate() {
        let value = labels.get(&rule.key);
        let holds = match rule.operator {
            LabelOperator::In => value.is_some_and(|value| rule.values.contains(value)),
            LabelOperator::NotIn => value.is_none_or(|value| !rule.values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        };
        if !holds {
            let message = format!(
                "the label `{}` of the template is not what `operator` and `values` ask for",
                rule.key
            );
            let at = at.child("matchExpressions").index(index);
            cx.error("selector-mismatch", &at, message, "make the selector match the labels of the template");
        }
    }
}

/// A value as JSON. The types that are written hold nothing that JSON cannot.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}
