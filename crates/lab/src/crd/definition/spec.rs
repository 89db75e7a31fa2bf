//! Checking the specification of a definition.

use serde_json::{Map, Value};

use crate::{
    crd::{
        names,
        path::Path,
        rules::{Known, RuleCosts, RuleScope},
        schema::{Schema, flag, list, text, texts},
    },
    gotext::is_print,
    status::{FieldProblem, Problem},
};

use super::{default_values, field_path, internal::Internal, openapi, structural, webhook};

type Fields = Map<String, Value>;

/// How strict to be: what an old definition would not have passed is not asked of the new one.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) recognized_review_version: bool,
    pub(crate) schema_required: bool,
    pub(crate) structural: bool,
    pub(crate) pruned_defaults: bool,
    pub(crate) tightness: openapi::Tightness,
    pub(crate) known: Known,
    /// Versions whose schema did not change: their rules are not too expensive now.
    pub(crate) unchanged: Vec<String>,
    pub(crate) any_bundle: bool,
    /// Versions (or the empty name, for all) that may keep too many selectable fields.
    pub(crate) many_selectable: Vec<String>,
}

impl Options {
    /// For a new definition.
    pub(crate) fn create() -> Self {
        Self {
            recognized_review_version: true,
            schema_required: true,
            structural: true,
            pruned_defaults: true,
            tightness: openapi::Tightness { valid_types: true, atomic_sets: true, map_keys: true },
            known: Known::default(),
            unchanged: Vec::new(),
            any_bundle: true,
            many_selectable: Vec::new(),
        }
    }
}

pub(crate) struct Checker<'o> {
    pub(crate) options: &'o Options,
    pub(crate) problems: Vec<FieldProblem>,
}

impl Checker<'_> {
    fn add(&mut self, place: &Path<'_>, problem: Problem) {
        self.problems.push(FieldProblem::new(place.text(), problem));
    }

    fn invalid(&mut self, place: &Path<'_>, value: impl Into<Value>, why: impl Into<String>) {
        self.add(place, Problem::Invalid(value.into(), why.into()));
    }

    fn required(&mut self, place: &Path<'_>, why: &str) {
        self.add(place, Problem::Required(why.to_owned()));
    }

    fn choice(&mut self, place: &Path<'_>, value: &str, choices: &[&str]) {
        if value.is_empty() {
            self.required(place, "");
        } else if !choices.contains(&value) {
            let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
            self.add(place, Problem::NotSupported(value.into(), choices));
        }
    }

    /// The whole specification.
    pub(crate) fn spec(&mut self, spec: &Fields) {
        let path = Path::At("spec");
        let internal = Internal::of(spec);
        let group = text(spec, "group");
        let group_place = path.field("group");
        let wrong = names::dns_subdomain(group);
        if group.is_empty() {
            self.required(&group_place, "");
        } else if !wrong.is_empty() {
            self.invalid(&group_place, group, wrong.join(","));
        } else if !group.contains('.') {
            self.invalid(&group_place, group, "should be a domain with at least one dot");
        }
        self.choice(&path.field("scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
        let preserve = flag(spec, "preserveUnknownFields");
        self.missing_schemas(&internal, preserve);
        let has = |test: &dyn Fn(&Fields) -> bool| {
            internal
                .versions
                .iter()
                .filter_map(|version| Internal::schema(version))
                .any(|schema| any_node(schema, test))
        };
        let defaults = has(&|node| node.get("default").is_some_and(|value| !value.is_null()));
        if defaults && preserve {
            let why = "must be false in order to use defaults in the schema";
            self.invalid(&path.field("preserveUnknownFields"), true, why);
        }
        let structural = self.options.structural || !preserve || defaults || has(&has_extension);
        self.versions(&internal, structural);
        self.names_required(spec);
        let empty = Map::new();
        let names = spec.get("names").and_then(Value::as_object).unwrap_or(&empty);
        self.names(names, &path.field("names"));
        self.at_the_top(&internal, structural);
        self.conversion(spec, preserve);
    }

    fn missing_schemas(&mut self, internal: &Internal<'_>, preserve: bool) {
        let why = if self.options.schema_required {
            ""
        } else if preserve {
            return;
        } else {
            "because otherwise all fields are pruned"
        };
        for (index, version) in internal.versions.iter().enumerate() {
            let asked = self.options.schema_required || flag(version, "served");
            if asked && Internal::schema(version).is_none() {
                let place = Path::At("spec.versions");
                self.required(&place.index(index).field("schema").field("openAPIV3Schema"), why);
            }
        }
    }

    fn versions(&mut self, internal: &Internal<'_>, structural: bool) {
        let place = Path::At("spec.versions");
        let mut seen: Vec<&str> = Vec::new();
        let mut unique = true;
        for (index, version) in internal.versions.iter().enumerate() {
            let name = text(version, "name");
            unique &= !seen.contains(&name);
            seen.push(name);
            let here = place.index(index);
            let wrong = names::dns1035_label(name);
            if !wrong.is_empty() {
                self.invalid(&here.field("name"), name, wrong.join(","));
            }
            self.version(internal, version, &here, structural);
        }
        if !unique {
            let problem = Problem::InvalidAs(
                Some(internal.shown_versions()),
                "must contain unique version names".to_owned(),
            );
            self.add(&place, problem);
        }
        if internal.versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
            let why = "must have exactly one version marked as storage version".to_owned();
            self.add(&place, Problem::InvalidAs(Some(internal.shown_versions()), why));
        }
        if let Some(first) = seen.first().filter(|name| !name.is_empty()) {
            let wrong = names::dns1035_label(first);
            if !wrong.is_empty() {
                self.invalid(&Path::At("spec.version"), *first, wrong.join(","));
            }
        }
    }

    fn version(&mut self, internal: &Internal<'_>, version: &Fields, place: &Path<'_>, structural: bool) {
        let name = text(version, "name");
        let warning = version.get("deprecationWarning").and_then(Value::as_str);
        for why in wrong_warning(flag(version, "deprecated"), warning) {
            self.invalid(&place.field("deprecationWarning"), warning.unwrap_or(""), why);
        }
        if !internal.one_schema {
            let status = Internal::has_status(version);
            self.schema(version, &place.field("schema"), status, structural, name);
        }
        if !internal.one_subresources {
            self.subresources(version, &place.field("subresources"));
        }
        if !internal.one_columns {
            self.columns(version, &place.field("additionalPrinterColumns"));
        }
        if !internal.one_selectable {
            let schema = Internal::schema(version).filter(|_| !internal.one_schema);
            self.selectable(version, schema, place, name);
        }
    }

    /// What all versions have in common.
    fn at_the_top(&mut self, internal: &Internal<'_>, structural: bool) {
        let Some(first) = internal.versions.first() else { return };
        if internal.one_schema {
            let status = internal.versions.iter().any(|version| Internal::has_status(version));
            self.schema(first, &Path::At("spec.validation"), status, structural, text(first, "name"));
        }
        if internal.one_subresources {
            self.subresources(first, &Path::At("spec.subresources"));
        }
        if internal.one_columns {
            self.columns(first, &Path::At("spec.additionalPrinterColumns"));
        }
        if internal.one_selectable {
            let schema = Internal::schema(first).filter(|_| internal.one_schema);
            self.selectable(first, schema, &Path::At("spec"), "");
        }
    }

    fn schema(&mut self, version: &Fields, place: &Path<'_>, status: bool, structural: bool, name: &str) {
        let Some(fields) = Internal::schema(version).and_then(Value::as_object) else { return };
        let here = place.field("openAPIV3Schema");
        let before = self.problems.len();
        if status {
            openapi::root_with_status(fields, place, &mut self.problems);
        }
        if flag(fields, "nullable") {
            let problem = Problem::Forbidden("nullable cannot be true at the root".to_owned());
            self.add(&place.field("openAPIV3Schema.nullable"), problem);
        }
        let mut unreadable = None;
        let mut scope = None;
        if structural {
            match Schema::read(&Value::Object(fields.clone())) {
                Err(problem) => unreadable = Some(problem),
                Ok(schema) => {
                    let mut found = structural::check(fields, &here);
                    if found.is_empty() {
                        found = default_values::check(&schema, &here, self.options.pruned_defaults);
                    }
                    if found.is_empty() {
                        scope = Some(RuleScope::root(fields, &schema, &self.options.known));
                    }
                    self.problems.extend(found);
                }
            }
        }
        let mut costs = RuleCosts::new(!self.options.unchanged.iter().any(|unchanged| unchanged == name));
        let top = openapi::Place {
            root: true,
            no_defaults: None,
            inside_meta: false,
            uncorrelatable: None,
            rules: scope,
        };
        let found = openapi::check(fields, &here, &top, self.options.tightness, &mut costs);
        self.problems.extend(found.schema);
        self.problems.extend(found.rules);
        if let Some(problem) = unreadable.filter(|_| self.problems.len() == before) {
            self.invalid(&here, "", problem);
        }
        self.problems.extend(costs.problems(&here));
    }

    fn subresources(&mut self, version: &Fields, place: &Path<'_>) {
        let Some(Value::Object(scale)) =
            version.get("subresources").and_then(|subresources| subresources.get("scale"))
        else {
            return;
        };
        for (key, prefixes, why, required) in [
            ("specReplicasPath", &[".spec."][..], "should be a json path under .spec", true),
            ("statusReplicasPath", &[".status."][..], "should be a json path under .status", true),
            (
                "labelSelectorPath",
                &[".spec.", ".status."][..],
                "should be a json path under either .spec or .status",
                false,
            ),
        ] {
            let field = format!("scale.{key}");
            let here = place.field(&field);
            let path = text(scale, key);
            if path.is_empty() {
                if required {
                    self.required(&here, "");
                }
            } else if !path.starts_with('.') {
                self.invalid(&here, path, "must be a simple json path starting with .");
            } else if !prefixes.iter().any(|prefix| path.starts_with(prefix)) {
                self.invalid(&here, path, why);
            }
        }
    }

    fn columns(&mut self, version: &Fields, place: &Path<'_>) {
        const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
        const FORMATS: [&str; 8] =
            ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
            let Some(column) = column.as_object() else { continue };
            let here = place.index(index);
            if text(column, "name").is_empty() {
                self.required(&here.field("name"), "");
            }
            let one_of = |choices: &[&str]| format!("must be one of {}", choices.join(","));
            match text(column, "type") {
                "" => self.required(&here.field("type"), &one_of(&TYPES)),
                kind if !TYPES.contains(&kind) => self.invalid(&here.field("type"), kind, one_of(&TYPES)),
                _ => {}
            }
            let format = text(column, "format");
            if !format.is_empty() && !FORMATS.contains(&format) {
                self.invalid(&here.field("format"), format, one_of(&FORMATS));
            }
            let path = text(column, "jsonPath");
            if path.is_empty() {
                self.required(&here.field("JSONPath"), "");
            } else if !path.starts_with('.') {
                self.invalid(&here.field("JSONPath"), path, "must be a simple json path starting with .");
            }
        }
    }

    /// The fields are looked for in the schema beside them: at the top or at the same version.
    fn selectable(&mut self, version: &Fields, schema: Option<&Value>, place: &Path<'_>, name: &str) {
        const LIMIT: usize = 8;
        let fields = list(version, "selectableFields");
        let all = place.field("selectableFields");
        if fields.is_empty() {
            return;
        }
        let Some(schema) = schema else {
            let why = if name.is_empty() {
                "may only be set when validations.schema is included"
            } else {
                "may only be set when `version.schema.openAPIV3Schema` is not included"
            };
            self.invalid(&all, "", why);
            return;
        };
        let schema = match Schema::read(schema) {
            Ok(schema) => schema,
            Err(problem) => {
                self.invalid(&place.field("schema.openAPIV3Schema"), "", problem);
                return;
            }
        };
        let mut seen: Vec<String> = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or("");
            let item = all.index(index);
            let here = item.field("jsonPath");
            if path.is_empty() {
                self.required(&here, "");
                continue;
            }
            match field_path::resolve(path, &schema, false) {
                Err(problem) => self.invalid(&here, path, format!("is an invalid path: {problem}")),
                Ok((written, found)) => {
                    if written == "metadata" || written.starts_with("metadata.") {
                        self.invalid(&here, path, "must not point to fields in metadata");
                    }
                    if !matches!(found.kind.name(), "string" | "boolean" | "integer") {
                        let why = "must point to a field of type string, boolean or integer. Enum string fields and \
                                   strings with formats are allowed.";
                        self.invalid(&here, path, why);
                    }
                    if seen.contains(&written) {
                        self.add(&here, Problem::Duplicate(path.into()));
                    } else {
                        seen.push(written);
                    }
                }
            }
        }
        if seen.len() > LIMIT && !self.options.many_selectable.iter().any(|allowed| allowed == name) {
            self.add(&all, Problem::TooMany(seen.len() as u64, LIMIT as u64));
        }
    }

    fn names_required(&mut self, spec: &Fields) {
        for key in ["plural", "singular", "kind", "listKind"] {
            let missing = spec
                .get("names")
                .and_then(|names| names.get(key))
                .and_then(Value::as_str)
                .unwrap_or("")
                .is_empty();
            if missing {
                self.required(&Path::At("spec.names").field(key), "");
            }
        }
    }

    /// Names, of a specification or those that were accepted.
    pub(crate) fn names(&mut self, names: &Fields, place: &Path<'_>) {
        for (key, mixed) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
            let name = text(names, key);
            if name.is_empty() {
                continue;
            }
            let (wrong, start) = if mixed {
                let start = "may have mixed case, but should otherwise match: ";
                (names::dns1035_label(&name.to_lowercase()), start)
            } else {
                (names::dns1035_label(name), "")
            };
            if !wrong.is_empty() {
                self.invalid(&place.field(key), name, format!("{start}{}", wrong.join(",")));
            }
        }
        let each = |checker: &mut Self, key: &str| {
            for (index, name) in texts(names, key).iter().enumerate() {
                let wrong = names::dns1035_label(name);
                if !wrong.is_empty() {
                    checker.invalid(&place.field(key).index(index), name.as_str(), wrong.join(","));
                }
            }
        };
        each(self, "shortNames");
        let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
        if !kind.is_empty() && kind == list_kind {
            self.invalid(&place.field("listKind"), list_kind, "kind and listKind may not be the same");
        }
        each(self, "categories");
    }

    fn conversion(&mut self, spec: &Fields, preserve: bool) {
        let Some(conversion) = spec.get("conversion").and_then(Value::as_object) else { return };
        let place = Path::At("spec.conversion");
        let strategy = text(conversion, "strategy");
        if strategy != "None" && preserve {
            let why = "must be None if spec.preserveUnknownFields is true";
            self.invalid(&place.field("strategy"), strategy, why);
        }
        self.choice(&place.field("strategy"), strategy, &["None", "Webhook"]);
        let empty = Map::new();
        let webhook = conversion.get("webhook").and_then(Value::as_object).unwrap_or(&empty);
        let config = webhook.get("clientConfig").and_then(Value::as_object);
        let config_place = place.field("webhookClientConfig");
        let versions_place = place.field("conversionReviewVersions");
        let versions = texts(webhook, "conversionReviewVersions");
        if strategy == "Webhook" {
            match config {
                None => self.required(&config_place, "required when strategy is set to Webhook"),
                Some(config) => {
                    let any_bundle = self.options.any_bundle;
                    webhook::check(config, &config_place, any_bundle, &mut self.problems);
                }
            }
            self.review_versions(&versions, &versions_place);
        } else {
            let why = "should not be set when strategy is not set to Webhook".to_owned();
            if config.is_some() {
                self.add(&config_place, Problem::Forbidden(why.clone()));
            }
            if !versions.is_empty() {
                self.add(&versions_place, Problem::Forbidden(why));
            }
        }
    }

    fn review_versions(&mut self, versions: &[String], place: &Path<'_>) {
        if versions.is_empty() {
            self.required(place, "");
            return;
        }
        for (index, version) in versions.iter().enumerate() {
            let here = place.index(index);
            if versions[..index].contains(version) {
                self.invalid(&here, version.as_str(), "duplicate version");
                continue;
            }
            for why in names::dns1035_label(version) {
                self.invalid(&here, version.as_str(), why);
            }
        }
        if self.options.recognized_review_version && !has_known_review_version(versions) {
            self.invalid(place, versions, "must include at least one of v1, v1beta1");
        }
    }
}

pub(crate) fn has_known_review_version(versions: &[String]) -> bool {
    versions.iter().any(|version| version == "v1" || version == "v1beta1")
}

fn wrong_warning(deprecated: bool, warning: Option<&str>) -> Vec<String> {
    let Some(warning) = warning else { return Vec::new() };
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut wrong = Vec::new();
    if warning.len() > 256 {
        wrong.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        wrong.push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, one)| !is_print(*one)) {
        let start = "must only contain printable UTF-8 characters; non-printable character found at index";
        wrong.push(format!("{start} {index}"));
    }
    wrong
}

/// True when the test holds for a schema or any schema below it.
pub(crate) fn any_node(schema: &Value, test: &dyn Fn(&Fields) -> bool) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    let in_map = |key: &str| {
        fields
            .get(key)
            .and_then(Value::as_object)
            .is_some_and(|map| map.values().any(|schema| any_node(schema, test)))
    };
    let in_list = |key: &str| list(fields, key).iter().any(|schema| any_node(schema, test));
    test(fields)
        || ["items", "not", "additionalProperties", "additionalItems"]
            .iter()
            .any(|key| fields.get(*key).is_some_and(|schema| any_node(schema, test)))
        || ["items", "allOf", "anyOf", "oneOf"].iter().any(|key| in_list(key))
        || ["properties", "patternProperties", "definitions", "dependencies"].iter().any(|key| in_map(key))
}

fn has_extension(node: &Fields) -> bool {
    flag(node, "x-kubernetes-embedded-resource")
        || flag(node, "x-kubernetes-int-or-string")
        || node.get("x-kubernetes-preserve-unknown-fields").is_some_and(Value::is_boolean)
        || node.get("x-kubernetes-list-type").is_some_and(Value::is_string)
        || !list(node, "x-kubernetes-list-map-keys").is_empty()
        || !list(node, "x-kubernetes-validations").is_empty()
}
