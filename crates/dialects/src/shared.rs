//! What the manifest languages say alike: labels, taints, name resolution, keys, and words to choose from.

use std::collections::{BTreeMap, BTreeSet};

use trellis_model::access::SshKey;
use trellis_model::names::{LabelKey, LabelValue};
use trellis_model::network::{Address, Dns, DnsOption, DnsPolicy, NodeTaint};
use trellis_model::placement::TaintEffect;

use crate::path::FieldPath;
use crate::reading::Cx;

/// Reads labels. Each that is not valid is complained about and left out.
pub(crate) fn labels(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    labels: &BTreeMap<String, String>,
) -> BTreeMap<LabelKey, LabelValue> {
    let read = |(key, value): (&String, &String)| {
        let at = at.child(key);
        Some((cx.parse(&at, key)?, cx.parse(&at, value)?))
    };
    labels.iter().filter_map(read).collect()
}

/// Reads annotations. Each whose key is not valid is complained about and left out.
pub(crate) fn annotations(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    annotations: &BTreeMap<String, String>,
) -> BTreeMap<LabelKey, String> {
    let read = |(key, value): (&String, &String)| Some((cx.parse(&at.child(key), key)?, value.clone()));
    annotations.iter().filter_map(read).collect()
}

/// A taint as it stands in a manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaintText<'a> {
    /// Its key.
    pub(crate) key: Option<&'a str>,
    /// Its value.
    pub(crate) value: Option<&'a str>,
    /// What it does.
    pub(crate) effect: Option<&'a str>,
}

/// Reads taints of the tenant's nodes. Each that is not valid is complained about and left out.
pub(crate) fn taints<'a>(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    taints: impl IntoIterator<Item = TaintText<'a>>,
) -> BTreeSet<NodeTaint> {
    let mut read = BTreeSet::new();
    for (index, taint) in taints.into_iter().enumerate() {
        let at = at.index(index);
        let key = required(cx, &at.child("key"), taint.key, "a taint needs a key");
        let effect = required(cx, &at.child("effect"), taint.effect, "a taint needs an effect");
        let effect = effect.and_then(|effect| choice(cx, &at.child("effect"), effect, TAINT_EFFECTS));
        let value = cx.parse_opt(&at.child("value"), taint.value);
        let Some(key) = key.and_then(|key| cx.parse(&at.child("key"), key)) else { continue };
        let Some(effect) = effect else { continue };
        let taint = NodeTaint { key, value, effect };
        if !read.insert(taint) {
            cx.warning("duplicate-taint", &at, "this taint is listed twice", "list it once");
        }
    }
    read
}

/// The effects of taints, as Kubernetes spells them.
pub(crate) const TAINT_EFFECTS: &[(&str, TaintEffect)] = &[
    ("NoSchedule", TaintEffect::NoSchedule),
    ("PreferNoSchedule", TaintEffect::PreferNoSchedule),
    ("NoExecute", TaintEffect::NoExecute),
];

/// The DNS policies of pods, as Kubernetes spells them.
pub(crate) const DNS_POLICIES: &[(&str, DnsPolicy)] = &[
    ("ClusterFirst", DnsPolicy::ClusterFirst),
    ("ClusterFirstWithHostNet", DnsPolicy::ClusterFirstWithHostNet),
    ("Default", DnsPolicy::Default),
    ("None", DnsPolicy::None),
];

/// Name resolution as it stands in a manifest: a pod's `dnsPolicy` and `dnsConfig`.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DnsText<'a> {
    /// `dnsPolicy`.
    pub(crate) policy: Option<&'a str>,
    /// `dnsConfig.nameservers`.
    pub(crate) nameservers: &'a [String],
    /// `dnsConfig.searches`.
    pub(crate) searches: &'a [String],
}

/// Reads name resolution; `policy_at` and `config_at` are where `dnsPolicy` and `dnsConfig` stand.
pub(crate) fn dns<'a>(
    cx: &mut Cx<'_>,
    policy_at: &FieldPath,
    config_at: &FieldPath,
    text: DnsText<'_>,
    options: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Dns {
    let policy = text.policy.filter(|policy| !policy.is_empty());
    let policy = policy.and_then(|policy| choice(cx, policy_at, policy, DNS_POLICIES)).unwrap_or_default();
    let nameservers = text.nameservers.iter().enumerate().filter_map(|(index, server)| {
        cx.parse::<std::net::IpAddr>(&config_at.child("nameservers").index(index), server).map(Address)
    });
    Dns {
        policy,
        nameservers: nameservers.collect(),
        searches: text.searches.to_vec(),
        options: options
            .into_iter()
            .map(|(name, value)| DnsOption { name: name.to_owned(), value: value.map(str::to_owned) })
            .collect(),
    }
}

/// Reads public SSH keys. What is wrong with one is said without repeating it: it may be a private key.
#[allow(dead_code, reason = "not every dialect lists keys")]
pub(crate) fn ssh_keys<'a>(
    cx: &mut Cx<'_>,
    keys: impl IntoIterator<Item = (FieldPath, &'a str)>,
) -> BTreeSet<SshKey> {
    let mut read = BTreeSet::new();
    for (at, key) in keys {
        match SshKey::new(key) {
            Ok(key) => {
                read.insert(key);
            }
            Err(error) => {
                let help = "give the public half of the key, in one line such as `ssh-ed25519 AAAA… name`";
                cx.hidden(
                    crate::diagnostic::Severity::Error,
                    "invalid-ssh-key",
                    &at,
                    error.to_string(),
                    help,
                );
            }
        }
    }
    read
}

/// A value that must be there, or a complaint where it is missing.
pub(crate) fn required<'a, T: ?Sized + AsRef<str>>(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    value: Option<&'a T>,
    why: &str,
) -> Option<&'a T> {
    let value = value.filter(|value| !value.as_ref().is_empty());
    if value.is_none() {
        missing(cx, at, why, "");
    }
    value
}

/// Complains that a field is missing; `why` is a sentence, `help` says what to write.
pub(crate) fn missing(cx: &mut Cx<'_>, at: &FieldPath, why: &str, help: &str) {
    let name = at.last_key().unwrap_or("value").to_owned();
    let help = if help.is_empty() { format!("add `{name}`") } else { help.to_owned() };
    cx.error("missing-field", at, format!("missing field `{name}`: {why}"), &help);
}

/// The value a word stands for, or a complaint that lists the words there are.
pub(crate) fn choice<T: Clone>(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    word: &str,
    choices: &[(&str, T)],
) -> Option<T> {
    let found = choices.iter().find(|(name, _)| *name == word).map(|(_, value)| value.clone());
    if found.is_none() {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        cx.error("invalid-value", at, format!("`{word}` is not allowed here"), &suggest(word, &names));
    }
    found
}

/// What to write instead of a name that is not known.
pub(crate) fn suggest(wrong: &str, names: &[&str]) -> String {
    match crate::suggest::closest(wrong, names) {
        _ if names.is_empty() => "there is nothing to choose from".to_owned(),
        Some(name) => format!("did you mean `{name}`? There are {}", crate::suggest::listed(names)),
        None => format!("there are {}", crate::suggest::listed(names)),
    }
}
