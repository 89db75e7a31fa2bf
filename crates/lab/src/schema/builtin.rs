//! The built-in API: its types and the resources that are served, from tables compiled in.
//!
//! The tables are facts read from the real programs by `cargo xtask lab-facts`.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::table::{self, Table};
use super::{TypeRef, Types};
use crate::names::Gvk;

static TABLE: LazyLock<Table> = LazyLock::new(|| table::read(include_str!("../../data/types.txt")));
static RESOURCES: LazyLock<Vec<BuiltinResource>> =
    LazyLock::new(|| read_resources(include_str!("../../data/resources.txt")));

/// The kinds that are known but not served, by group and version.
static KNOWN: LazyLock<HashSet<(&str, &str)>> = LazyLock::new(|| {
    let lines = include_str!("../../data/kinds.txt").lines();
    lines
        .filter_map(|line| line.split_once(' '))
        .flat_map(|(version, kinds)| kinds.split(' ').map(move |kind| (version, kind)))
        .collect()
});

/// A resource of the built-in API in one version of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinResource {
    /// The group; empty for the core.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The plural name, such as `pods`.
    pub plural: &'static str,
    /// The singular name, such as `pod`.
    pub singular: &'static str,
    /// The kind, such as `Pod`.
    pub kind: &'static str,
    /// True when objects are in namespaces.
    pub namespaced: bool,
    /// What can be done with it, sorted.
    pub verbs: Vec<&'static str>,
    /// Other names, such as `po`.
    pub short_names: Vec<&'static str>,
    /// The categories it is in, such as `all`.
    pub categories: Vec<&'static str>,
    /// The group and version its objects are stored in; none when nothing is stored (reviews, bindings).
    pub storage: Option<(&'static str, &'static str)>,
    /// What is below its objects, sorted by name.
    pub subresources: Vec<BuiltinSubresource>,
}

/// A part of an object, or something that can be done with one, at a path of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinSubresource {
    /// The name, such as `status`.
    pub name: &'static str,
    /// The group of the kind that is exchanged.
    pub group: &'static str,
    /// The version of the kind that is exchanged.
    pub version: &'static str,
    /// The kind that is exchanged, such as `Scale`.
    pub kind: &'static str,
    /// What can be done with it, sorted.
    pub verbs: Vec<&'static str>,
}

/// The types of the built-in API, by their names in OpenAPI such as `io.k8s.api.core.v1.Pod`.
pub fn types() -> &'static Types {
    &TABLE.types
}

/// The resources of the built-in API, in the order of discovery: groups by priority, versions with the
/// preferred one first, resources by name.
pub fn resources() -> &'static [BuiltinResource] {
    &RESOURCES
}

/// The resource of a group and version by its plural name.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static BuiltinResource> {
    RESOURCES.iter().find(|one| one.plural == plural && one.version == version && one.group == group)
}

/// The type of a built-in kind, of the lists of it, and of the options every group and version has.
pub fn kind_of(kind: &Gvk) -> Option<TypeRef<'static>> {
    let found = TABLE.kinds.get(kind).or_else(|| TABLE.everywhere.get(kind.kind.as_str()))?;
    Some(TypeRef { types: &TABLE.types, id: *found })
}

/// The built-in kinds with their types, in no particular order.
pub fn kinds() -> impl Iterator<Item = (&'static Gvk, TypeRef<'static>)> {
    TABLE.kinds.iter().map(|(kind, &id)| (kind, TypeRef { types: &TABLE.types, id }))
}

/// True for kinds the server understands without having a type for them here: those of versions it does not serve.
pub fn is_known(kind: &Gvk) -> bool {
    KNOWN.contains(&(kind.api_version().as_str(), kind.kind.as_str()))
}

/// Reads the table of resources; the facts program describes its form.
fn read_resources(text: &'static str) -> Vec<BuiltinResource> {
    let mut resources: Vec<BuiltinResource> = Vec::new();
    let (mut group, mut version) = ("", "");
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let words: Vec<&'static str> = line.split_ascii_whitespace().collect();
        match (depth, words.as_slice()) {
            (0, ["group", name]) => group = if *name == "-" { "" } else { name },
            (1, ["version", name]) => version = name,
            (2, [plural, singular, kind, scope, verbs, more @ ..]) => resources.push(BuiltinResource {
                group,
                version,
                plural,
                singular,
                kind,
                namespaced: *scope == "Namespaced",
                verbs: verbs.split(',').collect(),
                short_names: listed(more, "short="),
                categories: listed(more, "categories="),
                storage: more.iter().find_map(|word| word.strip_prefix("storage=")).map(split_version),
                subresources: Vec::new(),
            }),
            (3, [name, kind, verbs, more @ ..]) => {
                let foreign = more.iter().find_map(|word| word.strip_prefix("gv=")).map(split_version);
                let (group, version) = foreign.unwrap_or((group, version));
                let sub =
                    BuiltinSubresource { name, group, version, kind, verbs: verbs.split(',').collect() };
                if let Some(resource) = resources.last_mut() {
                    resource.subresources.push(sub);
                }
            }
            _ => {}
        }
    }
    resources
}

fn listed(words: &[&'static str], key: &str) -> Vec<&'static str> {
    words
        .iter()
        .find_map(|word| word.strip_prefix(key))
        .map(|list| list.split(',').collect())
        .unwrap_or_default()
}

/// `apps/v1`, or `v1` for the core.
fn split_version(written: &'static str) -> (&'static str, &'static str) {
    written.split_once('/').unwrap_or(("", written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Embedding, ListMerge, Omit, Shape};

    #[test]
    fn every_line_of_the_table_of_types_makes_sense() {
        assert_eq!(TABLE.problems, Vec::<String>::new());
        for node in &types().nodes {
            if let Shape::Object { fields, .. } = &node.shape {
                assert!(fields.is_sorted_by(|a, b| a.name < b.name), "{:?}", node.name);
            }
        }
    }

    #[test]
    fn every_resource_has_a_type_for_its_kind_its_list_and_its_subresources() {
        assert!(resources().len() > 60, "{}", resources().len());
        for resource in resources() {
            let gvk = |kind: &str| Gvk::new(resource.group, resource.version, kind);
            let of = kind_of(&gvk(resource.kind)).unwrap_or_else(|| panic!("{}", resource.kind));
            assert!(of.field("metadata").is_some(), "{}", resource.kind);
            if resource.verbs.contains(&"list") {
                assert!(kind_of(&gvk(&format!("{}List", resource.kind))).is_some(), "{}", resource.kind);
            }
            for sub in &resource.subresources {
                assert!(kind_of(&Gvk::new(sub.group, sub.version, sub.kind)).is_some(), "{}", sub.name);
            }
        }
        let pods = resource("", "v1", "pods").unwrap();
        assert_eq!((pods.singular, pods.kind, pods.namespaced), ("pod", "Pod", true));
        assert_eq!((&pods.short_names[..], &pods.categories[..]), (&["po"][..], &["all"][..]));
        let eviction = pods.subresources.iter().find(|sub| sub.name == "eviction").unwrap();
        assert_eq!((eviction.group, eviction.version, eviction.kind), ("policy", "v1", "Eviction"));
        assert_eq!(resource("events.k8s.io", "v1", "events").unwrap().storage, Some(("", "v1")));
        assert_eq!(resource("", "v1", "bindings").unwrap().storage, None);
    }

    #[test]
    fn fields_carry_the_facts_of_the_real_types() {
        let pod = kind_of(&Gvk::new("", "v1", "Pod")).unwrap();
        let spec = pod.field("spec").unwrap().1;
        let (field, containers) = spec.field("containers").unwrap();
        assert!(field.required && field.patch.merge && field.omit == Omit::Never);
        assert_eq!(field.patch.merge_key.as_deref(), Some("name"));
        assert_eq!(field.proto.unwrap().number, 2);
        let Shape::List { items, merge } = containers.shape() else { panic!("a list") };
        assert_eq!(merge, &ListMerge::Map(vec!["name".to_owned()]));
        let container = containers.at(*items);
        assert_eq!(container.node().name.as_deref(), Some("io.k8s.api.core.v1.Container"));
        let policy = container.field("imagePullPolicy").unwrap().1;
        assert_eq!(policy.facts().unwrap().choices, ["Always", "IfNotPresent", "Never"]);
        assert_eq!(policy.facts().unwrap().go_name, Some("v1.PullPolicy"));
        // The exec action of a probe is inline in JSON, in a message of its own in protobuf.
        let exec = container.field("livenessProbe").unwrap().1.field("exec").unwrap().0;
        assert_eq!(exec.proto.unwrap().within, [1, 0]);
        // A field may be merged where its type is owned as a whole.
        let pv = kind_of(&Gvk::new("", "v1", "PersistentVolume")).unwrap().field("spec").unwrap().1;
        let Shape::Object { atomic, fields, .. } = pv.field("claimRef").unwrap().1.shape() else { panic!() };
        assert!(!atomic && !fields.is_empty());
        let managed = pod.field("metadata").unwrap().1.field("managedFields").unwrap().1;
        let Shape::List { items, .. } = managed.shape() else { panic!("a list") };
        let fields = managed.at(*items).field("fieldsV1").unwrap().1;
        assert_eq!(fields.shape(), &Shape::Any(Embedding::FieldsV1));
        let created = pod.field("metadata").unwrap().1.field("creationTimestamp").unwrap().0;
        assert_eq!(created.omit, Omit::Zero);
        assert!(kind_of(&Gvk::new("apps", "v1", "DeleteOptions")).is_some());
        assert!(kind_of(&Gvk::new("", "v1", "Nothing")).is_none());
    }
}
