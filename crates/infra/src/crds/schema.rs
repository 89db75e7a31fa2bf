//! From a table of fields to structural schemas.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// A field: its name, whether it is required, and its type.
type Field<'t> = (&'t str, bool, &'t str);

/// The definitions of a table by name.
#[derive(Debug)]
pub(super) struct Definitions<'t> {
    fields: HashMap<&'t str, Vec<Field<'t>>>,
}

impl<'t> Definitions<'t> {
    /// Reads a table; the form is described at its top.
    pub(super) fn read(table: &'t str) -> Self {
        let mut fields: HashMap<&str, Vec<Field<'_>>> = HashMap::new();
        let mut name = "";
        for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            if let Some((field, kind)) = line.strip_prefix("  ").and_then(|field| field.split_once(' ')) {
                let plain = field.trim_end_matches('!');
                fields.entry(name).or_default().push((plain, plain != field, kind));
            } else {
                name = line.trim();
                fields.entry(name).or_default();
            }
        }
        Self { fields }
    }

    /// The schema of a whole object.
    pub(super) fn root(&self, name: &str) -> Value {
        let mut schema = self.definition(name);
        for (field, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            schema["properties"][field] = json!({"type": kind});
        }
        schema
    }

    fn definition(&self, name: &str) -> Value {
        let fields = self.fields.get(name).map(Vec::as_slice).unwrap_or_default();
        let properties: Map<_, _> =
            fields.iter().map(|(field, _, kind)| ((*field).to_owned(), self.schema(kind))).collect();
        let required: Vec<_> =
            fields.iter().filter(|(_, required, _)| *required).map(|(field, ..)| *field).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }

    fn schema(&self, kind: &str) -> Value {
        if let Some((kind, most)) = kind.rsplit_once(" <=") {
            let mut schema = self.schema(kind);
            // Only lists are bounded; a test sees to it that these are numbers.
            schema["maxItems"] = most.parse::<u64>().unwrap_or_default().into();
            return schema;
        }
        if let Some((list, items)) = kind.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let mut schema = json!({"type": "array", "items": self.schema(items)});
            let (form, keys) = list.split_once(' ').unwrap_or((list, ""));
            if !form.is_empty() {
                schema["x-kubernetes-list-type"] = form.into();
            }
            if form == "map" {
                schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
            }
            return schema;
        }
        if let Some(values) = kind.strip_prefix("{}") {
            return json!({"type": "object", "additionalProperties": self.schema(values)});
        }
        if let Some(words) = kind.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')')) {
            return json!({"type": "string", "enum": words.split('|').collect::<Vec<_>>()});
        }
        match kind {
            "str" => json!({"type": "string"}),
            "bool" => json!({"type": "boolean"}),
            "int32" | "int64" => json!({"type": "integer", "format": kind}),
            "num" => json!({"type": "number"}),
            "bytes" => json!({"type": "string", "format": "byte"}),
            "time" => json!({"type": "string", "format": "date-time", "nullable": true}),
            "quantity" => json!({
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
                "x-kubernetes-int-or-string": true,
            }),
            "intstr" => json!({
                "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
            }),
            "meta" => {
                json!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
            }
            "object" => json!({"type": "object"}),
            "any" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            name => self.definition(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_known() {
        for table in [super::super::KUBEVIRT, super::super::CDI, super::super::STORAGE] {
            let definitions = Definitions::read(table);
            for (name, fields) in &definitions.fields {
                for (field, _, kind) in fields {
                    let (kind, most) = kind.split_once(" <=").unwrap_or((kind, "1"));
                    assert!(most.parse::<u64>().is_ok_and(|most| most > 0), "{name}.{field}: {most}");
                    let bare = kind.rsplit([']', '}']).next().unwrap();
                    let known = [
                        "str", "bool", "int32", "int64", "num", "bytes", "time", "quantity", "intstr",
                        "meta", "object", "any",
                    ];
                    assert!(
                        known.contains(&bare)
                            || bare.starts_with("str(")
                            || definitions.fields.contains_key(bare),
                        "{name}.{field}: {kind}"
                    );
                }
            }
        }
    }

    #[test]
    fn lists_and_maps_keep_their_form() {
        let definitions = Definitions::read("A\n  list! [map a,b]B\n  map {}str\nB\n  a int32\n");
        let schema = definitions.root("A");
        assert_eq!(schema["properties"]["list"]["x-kubernetes-list-map-keys"], json!(["a", "b"]));
        assert_eq!(schema["properties"]["list"]["items"]["properties"]["a"]["format"], "int32");
        assert_eq!(schema["properties"]["map"]["additionalProperties"], json!({"type": "string"}));
        assert_eq!(schema["required"], json!(["list"]));
    }
}
