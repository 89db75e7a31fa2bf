//! Every field of every dialect, as `trellis explain` and the field tables show it.
//!
//! It all comes from the types: names and kinds from their schema, what a field is and what Trellis
//! does with it from its doc comment.

use serde_json::{Map, Value};

use crate::schema::{Treatment, split_description};

/// A field of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its path from the root of the document, lists as `[]` and maps as `.*`.
    pub path: String,
    /// Other spellings that are read as this one.
    pub other_spellings: Vec<String>,
    /// What kind of value it holds.
    pub kind: String,
    /// Whether it must be there.
    pub required: bool,
    /// What it is.
    pub about: String,
    /// What Trellis does with it; none for a field that only groups others.
    pub treatment: Option<(Treatment, String)>,
    /// The values it may have, where they are listed.
    pub allowed: Vec<String>,
    /// Fields below it.
    pub fields: Vec<Field>,
}

impl Field {
    /// This field and all below it, parents first.
    pub fn flatten(&self) -> Vec<&Self> {
        let below = self.fields.iter().flat_map(Self::flatten);
        std::iter::once(self).chain(below).collect()
    }
}

/// The fields of a document with that schema.
pub fn fields(schema: &Value) -> Vec<Field> {
    Walk { root: schema }.below(schema, "", 0)
}

/// Deeper than any type here is.
const MAX_DEPTH: usize = 40;

struct Walk<'a> {
    root: &'a Value,
}

/// What a schema says once references, options and lists are looked through.
#[derive(Default)]
struct Resolved {
    kind: String,
    suffix: String,
    description: Option<String>,
    allowed: Vec<String>,
    objects: Vec<Map<String, Value>>,
    silent: bool,
    ignored: bool,
}

impl Walk<'_> {
    fn below(&self, schema: &Value, path: &str, depth: usize) -> Vec<Field> {
        if depth > MAX_DEPTH {
            return Vec::new();
        }
        let mut fields: Vec<Field> = Vec::new();
        let objects = self.resolve(schema, depth).objects;
        // Of several alternatives one is needed, so none of them is.
        let is_choice = objects.len() > 1;
        for object in objects {
            let spellings = object.get("x-trellis-aliases").and_then(Value::as_object);
            let required: Vec<&str> = object
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            for (name, property) in object.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                // Alternatives of a union may share a field: it is one field.
                if fields.iter().any(|field| field.name == *name) {
                    continue;
                }
                if let Some(mut field) =
                    self.field(name, property, !is_choice && required.contains(&name.as_str()), path, depth)
                {
                    if is_choice && field.about.is_empty() {
                        let about = object.get("description").and_then(Value::as_str).unwrap_or_default();
                        (field.about, _) = split_description(about);
                    }
                    let is_this = |(_, to): &(&String, &Value)| to.as_str() == Some(name);
                    let others =
                        spellings.into_iter().flatten().filter(is_this).map(|(other, _)| other.clone());
                    field.other_spellings = others.collect();
                    fields.push(field);
                }
            }
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields
    }

    fn field(&self, name: &str, schema: &Value, required: bool, parent: &str, depth: usize) -> Option<Field> {
        let resolved = self.resolve(schema, depth);
        if resolved.silent && resolved.objects.is_empty() {
            return None;
        }
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
        let (about, mut treatment) = split_description(resolved.description.as_deref().unwrap_or_default());
        if resolved.ignored && treatment.is_none() {
            treatment = Some((Treatment::Ignored, String::new()));
        }
        let path = format!("{path}{}", resolved.suffix);
        let fields = self.below(schema, &path, depth + 1);
        Some(Field {
            name: name.to_owned(),
            other_spellings: Vec::new(),
            path,
            kind: resolved.kind,
            required,
            about,
            treatment,
            allowed: resolved.allowed,
            fields,
        })
    }

    /// Looks through references, options, lists, maps, unions and embedded documents.
    fn resolve(&self, schema: &Value, depth: usize) -> Resolved {
        let mut out = Resolved::default();
        let Some(map) = schema.as_object() else { return out };
        if depth > MAX_DEPTH {
            return out;
        }
        out.description = map.get("description").and_then(Value::as_str).map(str::to_owned);
        out.silent = map.get("x-trellis-silent") == Some(&Value::Bool(true));
        out.ignored = map.contains_key("x-trellis-ignored") && !map.contains_key("x-trellis-embedded");
        // A value with several ways to write it, which would only clutter a table: its type says how.
        if let Some(kind) = map.get("x-trellis-kind").and_then(Value::as_str) {
            kind.clone_into(&mut out.kind);
            return out;
        }
        if let Some(inner) = map.get("x-trellis-embedded") {
            return self.through(out, inner, "object", "", depth);
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let pointer = target.trim_start_matches('#');
            return match self.root.pointer(pointer) {
                Some(target) => self.through(out, target, "", "", depth),
                None => out,
            };
        }
        if let Some(items) = map.get("items") {
            return self.through(out, items, "list of ", "[]", depth);
        }
        if let Some(values) = map.get("additionalProperties").filter(|v| v.is_object()) {
            return self.through(out, values, "map of ", ".*", depth);
        }
        out.allowed = allowed(map);
        for branch in ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| map.get(*key)?.as_array()).flatten()
        {
            let inner = self.resolve(branch, depth + 1);
            if inner.kind == "null" {
                continue;
            }
            if out.kind.is_empty() {
                out.kind = inner.kind;
            } else if !inner.kind.is_empty() && !out.kind.contains(&inner.kind) {
                out.kind = format!("{} or {}", out.kind, inner.kind);
            }
            out.suffix = inner.suffix;
            out.allowed.extend(inner.allowed);
            out.objects.extend(inner.objects);
            out.description = out.description.or(inner.description);
        }
        if map.contains_key("properties") {
            out.objects.insert(0, map.clone());
        }
        if out.kind.is_empty() {
            out.kind = kind_name(map);
        }
        out
    }

    fn through(&self, outer: Resolved, inner: &Value, kind: &str, suffix: &str, depth: usize) -> Resolved {
        let mut out = self.resolve(inner, depth + 1);
        out.description = outer.description.or(out.description);
        if kind == "object" {
            "object".clone_into(&mut out.kind);
        } else {
            out.kind = format!("{kind}{}", out.kind);
        }
        out.suffix = format!("{suffix}{}", out.suffix);
        out.silent = false;
        out
    }
}

fn allowed(map: &Map<String, Value>) -> Vec<String> {
    let listed = map.get("enum").and_then(Value::as_array).into_iter().flatten();
    listed.chain(map.get("const")).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn kind_name(map: &Map<String, Value>) -> String {
    if map.get("x-kubernetes-int-or-string").is_some() {
        return "number or percentage".to_owned();
    }
    let types: Vec<&str> = match map.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
        }
        _ if map.contains_key("const") || map.contains_key("enum") => vec!["string"],
        _ => vec![],
    };
    let name = match types.first() {
        Some(&"string") => "text",
        Some(&"integer" | &"number") => "number",
        Some(&"boolean") => "true or false",
        Some(&"object") => "object",
        Some(&"null") => "null",
        Some(other) => other,
        None => "anything",
    };
    name.to_owned()
}
