//! A custom kind, compiled from its definition once.

use serde_json::{Map, Value};

use crate::status::Status;

use super::{
    columns::Columns,
    rule_tree::RuleTree,
    scale::ScalePaths,
    schema::{Schema, flag, list, text, texts},
    selectable::SelectableField,
    types::{self, CustomTypes},
};

/// A kind of custom resource.
#[derive(Debug)]
pub(crate) struct CustomKind {
    /// The API group.
    pub group: String,
    /// The names it goes by.
    pub names: Names,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// How objects get from one version to another.
    pub conversion: Conversion,
    /// The versions, in the order of the definition.
    pub versions: Vec<CustomVersion>,
}

/// The names of a custom kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "definitions call them so")]
pub(crate) struct Names {
    /// As in paths: `widgets`.
    pub plural: String,
    /// For people: `widget`.
    pub singular: String,
    /// `Widget`.
    pub kind: String,
    /// `WidgetList`.
    pub list_kind: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Groups of kinds it belongs to, such as `all`.
    pub categories: Vec<String>,
}

/// How objects get from one version to another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Conversion {
    /// Only the version changes.
    None,
    /// A webhook does it.
    Webhook {
        /// `clientConfig` of the definition: where it is.
        client_config: Value,
        /// The versions of the review it understands, best first.
        review_versions: Vec<String>,
    },
}

/// One version of a custom kind.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    /// The name, such as `v1`.
    pub name: String,
    /// Whether clients can use it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// The warning clients get, if it is deprecated.
    pub deprecation_warning: Option<String>,
    /// The schema.
    pub schema: Schema,
    /// `openAPIV3Schema` as written.
    pub raw_schema: Value,
    /// The schema as merging sees it.
    pub types: CustomTypes,
    /// Whether it has the `status` subresource.
    pub status: bool,
    /// The `scale` subresource.
    pub scale: Option<ScalePaths>,
    /// The columns of tables.
    pub columns: Columns,
    /// The fields of field selectors.
    pub selectable: Vec<SelectableField>,
    /// The kind, for messages and checks.
    pub(crate) kind: String,
    /// The group and version, as objects name it.
    pub(crate) api_version: String,
    pub(crate) preserve_unknown_fields: bool,
    /// The rules of the schema, if it has any.
    pub(crate) rules: Option<RuleTree>,
}

impl CustomKind {
    /// Compiles a definition that has been found valid.
    pub(crate) fn compile(definition: &Value) -> Result<Self, Status> {
        let empty = Map::new();
        let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
        let spec = definition.get("spec").and_then(Value::as_object).unwrap_or(&empty);
        let accepted = definition.pointer("/status/acceptedNames").and_then(Value::as_object);
        let names = Names::read(
            accepted.filter(|names| !text(names, "plural").is_empty()).unwrap_or(&object(spec.get("names"))),
        );
        let group = text(spec, "group").to_owned();
        let versions = list(spec, "versions")
            .iter()
            .filter_map(Value::as_object)
            .map(|version| CustomVersion::compile(version, spec, &group, &names.kind))
            .collect::<Result<Vec<_>, Status>>()?;
        let conversion = spec.get("conversion").and_then(Value::as_object).unwrap_or(&empty);
        let conversion = if text(conversion, "strategy") == "Webhook" {
            let webhook = object(conversion.get("webhook"));
            Conversion::Webhook {
                client_config: webhook.get("clientConfig").cloned().unwrap_or(Value::Null),
                review_versions: texts(&webhook, "conversionReviewVersions"),
            }
        } else {
            Conversion::None
        };
        let namespaced = text(spec, "scope") == "Namespaced";
        Ok(Self { group, names, namespaced, conversion, versions })
    }

    /// The version of this name.
    pub(crate) fn version(&self, name: &str) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version objects are stored in.
    pub(crate) fn storage_version(&self) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl Names {
    pub(crate) fn read(names: &Map<String, Value>) -> Self {
        Self {
            plural: text(names, "plural").to_owned(),
            singular: text(names, "singular").to_owned(),
            kind: text(names, "kind").to_owned(),
            list_kind: text(names, "listKind").to_owned(),
            short_names: texts(names, "shortNames"),
            categories: texts(names, "categories"),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut names = Map::new();
        for (key, value) in [
            ("plural", &self.plural),
            ("singular", &self.singular),
            ("kind", &self.kind),
            ("listKind", &self.list_kind),
        ] {
            if !value.is_empty() || matches!(key, "plural" | "kind") {
                names.insert(key.to_owned(), value.as_str().into());
            }
        }
        for (key, values) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !values.is_empty() {
                names.insert(key.to_owned(), values.as_slice().into());
            }
        }
        names.into()
    }
}

impl CustomVersion {
    fn compile(
        version: &Map<String, Value>,
        spec: &Map<String, Value>,
        group: &str,
        kind: &str,
    ) -> Result<Self, Status> {
        let name = text(version, "name");
        let raw_schema = version
            .get("schema")
            .and_then(|schema| schema.get("openAPIV3Schema"))
            .cloned()
            .unwrap_or_default();
        let mut schema = Schema::read(&raw_schema).map_err(|problem| {
            Status::internal(format!("the server could not properly serve the CR schema: {problem}"))
        })?;
        super::defaults::prune(&mut schema);
        let subresources = version.get("subresources");
        let deprecated = flag(version, "deprecated");
        Ok(Self {
            name: name.to_owned(),
            served: flag(version, "served"),
            storage: flag(version, "storage"),
            deprecation_warning: deprecated.then(|| {
                let own = version.get("deprecationWarning").and_then(Value::as_str).map(str::to_owned);
                own.unwrap_or_else(|| deprecation_warning(name, spec, group, kind))
            }),
            types: types::of(&schema),
            rules: RuleTree::compile(&schema, true),
            schema,
            raw_schema,
            status: subresources
                .and_then(|subresources| subresources.get("status"))
                .is_some_and(|status| !status.is_null()),
            scale: subresources.and_then(|subresources| subresources.get("scale")).and_then(ScalePaths::read),
            columns: Columns::read(list(version, "additionalPrinterColumns")),
            selectable: list(version, "selectableFields").iter().filter_map(SelectableField::read).collect(),
            kind: kind.to_owned(),
            api_version: format!("{group}/{name}"),
            preserve_unknown_fields: flag(spec, "preserveUnknownFields"),
        })
    }
}

/// What clients of a deprecated version are told when the definition has no words for it.
fn deprecation_warning(version: &str, spec: &Map<String, Value>, group: &str, kind: &str) -> String {
    let newest = list(spec, "versions")
        .iter()
        .filter_map(Value::as_object)
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .map(|other| text(other, "name"))
        .filter(|other| VersionOrder::of(other) > VersionOrder::of(version))
        .max_by_key(|other| VersionOrder::of(other));
    let start = format!("{group}/{version} {kind} is deprecated");
    match newest {
        Some(newest) => format!("{start}; use {group}/{newest} {kind}"),
        None => start,
    }
}

/// The order of API versions: `v2`, `v1`, `v1beta2`, `v1alpha1`, then everything else by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VersionOrder {
    /// Words that are no version; the alphabet goes backwards.
    Other(std::cmp::Reverse<String>),
    /// Stability, major and minor number.
    Version(Stability, u64, u64),
}

/// How much a version promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stability {
    /// Nothing.
    Alpha,
    /// A little.
    Beta,
    /// To stay.
    Stable,
}

impl VersionOrder {
    /// The place of a version in the order.
    pub(crate) fn of(version: &str) -> Self {
        Self::read(version).unwrap_or_else(|| Self::Other(std::cmp::Reverse(version.to_owned())))
    }

    fn read(version: &str) -> Option<Self> {
        let number = |text: &str| -> Option<u64> {
            let plain =
                !text.starts_with('0') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| plain)
        };
        let rest = version.strip_prefix('v')?;
        if let Some(major) = number(rest) {
            return Some(Self::Version(Stability::Stable, major, 0));
        }
        for (word, stability) in [("alpha", Stability::Alpha), ("beta", Stability::Beta)] {
            if let Some((major, minor)) = rest.split_once(word) {
                return Some(Self::Version(stability, number(major)?, number(minor)?));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_what_they_promise() {
        let mut versions =
            ["foo10", "v1", "v10", "v1beta1", "v11alpha2", "foo1", "v2", "v11beta2", "v01", "v12alpha1"];
        versions.sort_by_key(|version| std::cmp::Reverse(VersionOrder::of(version)));
        let order =
            ["v10", "v2", "v1", "v11beta2", "v1beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v01"];
        assert_eq!(versions, order);
    }
}
