//! Reading the table of built-in types (`data/types.txt`).
//!
//! One line per type, `NAME [kinds=..] [atomic] [unions=JSON]`, and below it one line per field that starts
//! with a space: `name type omit [required] [proto=..] [within=..] [in=..] [list=..] [atomic|granular]
//! [patch=..] [key=..] [enum=..] [default=JSON]`. Types are written `[]T`, `{}T`, `@NAME` or as the name of a leaf, with
//! the name of Go behind a colon where it has one: `string:v1.PodPhase`, `{:v1.ResourceList}quantity`;
//! `[!]T` is a list that is a message of its own in protobuf.

use std::collections::HashMap;

use super::{
    Embedding, Facts, Field, Instead, ListMerge, Node, Omit, Patch, Proto, Shape, TypeId, Types, Width,
};
use crate::names::Gvk;

/// The type that schemas of custom resources are written in.
const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// What the table says.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The types.
    pub types: Types,
    /// The types of the kinds.
    pub kinds: HashMap<Gvk, TypeId>,
    /// The types of the kinds that every group and version has.
    pub everywhere: HashMap<&'static str, TypeId>,
    /// Lines that make no sense; none, in a table that was generated.
    pub problems: Vec<String>,
}

/// A table that is being read.
#[derive(Default)]
struct Reader {
    table: Table,
    /// The types without a name by how they are written, to have each once.
    written: HashMap<Written, TypeId>,
}

/// How the type of a field is written: the type, and what the field says of its merging and values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Written {
    expression: &'static str,
    list: &'static str,
    map: &'static str,
    choices: &'static str,
}

/// Reads the table.
pub(super) fn read(text: &'static str) -> Table {
    let mut reader = Reader::default();
    // Types refer to each other in any order: all names first.
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let shape = Shape::Object { fields: Vec::new(), atomic: false, preserve_unknown: false };
        let id = reader.table.types.add(Node { name: Some(name), shape });
        for word in words {
            reader.type_word(id, word);
        }
    }
    let mut current = 0_u32;
    let mut started = false;
    let mut fields = Vec::new();
    for line in text.lines() {
        if let Some(line) = line.strip_prefix(' ') {
            match reader.field(TypeId(current), line) {
                Some(field) => fields.push(field),
                None => reader.table.problems.push(line.to_owned()),
            }
        } else {
            if started {
                reader.finish(TypeId(current), std::mem::take(&mut fields));
                current += 1;
            }
            started = true;
        }
    }
    reader.finish(TypeId(current), fields);
    reader.overrides();
    reader.table
}

impl Reader {
    fn type_word(&mut self, id: TypeId, word: &'static str) {
        let known = if word == "atomic" {
            if let Shape::Object { atomic, .. } = &mut self.table.types.nodes[id.0 as usize].shape {
                *atomic = true;
            }
            true
        } else if let Some(kinds) = word.strip_prefix("kinds=") {
            kinds.split(',').all(|kind| self.kind(id, kind).is_some())
        } else if let Some(unions) = word.strip_prefix("unions=") {
            let unions = serde_json::from_str(unions).ok();
            let known = unions.is_some();
            self.table.types.facts.entry(id).or_default().unions = unions;
            known
        } else {
            false
        };
        if !known {
            self.table.problems.push(word.to_owned());
        }
    }

    fn kind(&mut self, id: TypeId, written: &'static str) -> Option<()> {
        let (gv, kind) = written.rsplit_once('/')?;
        if gv == "*" {
            self.table.everywhere.insert(kind, id);
            return Some(());
        }
        let (group, version) = gv.split_once('/').unwrap_or(("", gv));
        self.table.kinds.insert(Gvk::new(group, version, kind), id);
        Some(())
    }

    fn finish(&mut self, id: TypeId, read: Vec<Field>) {
        if let Some(Node { shape: Shape::Object { fields, .. }, .. }) =
            self.table.types.nodes.get_mut(id.0 as usize)
        {
            *fields = read;
        }
    }

    fn field(&mut self, owner: TypeId, line: &'static str) -> Option<Field> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let expression = words.next()?;
        let omit = match words.next()? {
            "never" => Omit::Never,
            "zero" => Omit::Zero,
            "missing" => Omit::Missing,
            "null" => Omit::Null,
            _ => return None,
        };
        let mut written = Written { expression, ..Written::default() };
        let (mut required, mut default, mut number, mut within) = (false, None, None, [0; 2]);
        let mut patch = Patch::default();
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("required", "") => required = true,
                ("atomic" | "granular", "") => written.map = word,
                ("list", list) => written.list = list,
                ("enum", choices) => written.choices = choices,
                ("in", around) => {
                    self.table.types.facts.entry(owner).or_default().embedded.push((name, around));
                }
                ("key", key) => patch.merge_key = Some(key.to_owned()),
                ("default", json) => default = Some(serde_json::from_str(json).ok()?),
                ("proto", digits) => number = Some(digits.parse::<u32>().ok()?),
                ("within", list) => {
                    let mut places = within.iter_mut();
                    for digits in list.split(',') {
                        *places.next()? = digits.parse().ok()?;
                    }
                }
                ("patch", strategies) => {
                    for strategy in strategies.split(',') {
                        match strategy {
                            "merge" => patch.merge = true,
                            "retainKeys" => patch.retain_keys = true,
                            "replace" => patch.replace = true,
                            _ => return None,
                        }
                    }
                }
                _ => return None,
            }
        }
        let of = self.written(written)?;
        let delimited = !is_varint(expression);
        let proto = number.map(|number| Proto { number, delimited, within });
        Some(Field { name: name.to_owned(), of, required, omit, default, proto, patch })
    }

    /// The node of a type as it is written.
    fn written(&mut self, written: Written) -> Option<TypeId> {
        if written.map.is_empty()
            && let Some(name) = written.expression.strip_prefix('@')
        {
            return self.table.types.names.get(name).copied();
        }
        if let Some(&id) = self.written.get(&written) {
            return Some(id);
        }
        let (shape, facts) = self.shape(written)?;
        let name = written.expression.strip_prefix('@').map(str::to_owned);
        let id = TypeId(u32::try_from(self.table.types.nodes.len()).ok()?);
        // Not `add`: a type under the rules of a field is not the one its name stands for.
        self.table.types.nodes.push(Node { name, shape });
        if facts != Facts::default() {
            self.table.types.facts.insert(id, facts);
        }
        self.written.insert(written, id);
        Some(id)
    }

    fn shape(&mut self, written: Written) -> Option<(Shape, Facts)> {
        let mut facts = Facts { declared: !written.map.is_empty(), ..Facts::default() };
        let inside = |expression| Written { expression, choices: written.choices, ..Written::default() };
        if let Some(rest) = written.expression.strip_prefix('[') {
            let (own, items) = rest.split_once(']')?;
            facts.message = own.starts_with('!');
            facts.go_name = own.split_once(':').map(|(_, name)| name);
            facts.declared = !written.list.is_empty();
            let merge = match written.list {
                "" | "atomic" => ListMerge::Atomic,
                "set" => ListMerge::Set,
                keys => ListMerge::Map(keys.strip_prefix("map:")?.split(',').map(str::to_owned).collect()),
            };
            return Some((Shape::List { items: self.written(inside(items))?, merge }, facts));
        }
        if let Some(rest) = written.expression.strip_prefix('{') {
            // The name of Go may have brackets, never braces.
            let (own, values) = rest.split_once('}')?;
            facts.go_name = own.strip_prefix(':');
            let values = self.written(inside(values))?;
            return Some((Shape::Map { values, atomic: written.map == "atomic" }, facts));
        }
        if written.expression.starts_with('@') {
            // Filled in by `overrides`, when all fields are known.
            let atomic = written.map == "atomic";
            return Some((Shape::Object { fields: Vec::new(), atomic, preserve_unknown: false }, facts));
        }
        let (leaf, go_name) = match written.expression.split_once(':') {
            Some((leaf, name)) => (leaf, Some(name)),
            None => (written.expression, None),
        };
        facts.go_name = go_name;
        if !written.choices.is_empty() {
            facts.choices = written.choices.split(',').map(|choice| choice.replace('_', " ")).collect();
        }
        let schema_or = |instead| {
            let schema = self.table.types.names.get(JSON_SCHEMA).copied()?;
            Some(Shape::SchemaOr { schema, instead })
        };
        let shape = match leaf {
            "string" => Shape::String,
            "bool" => Shape::Boolean,
            "int32" => Shape::Integer(Width::W32),
            "int64" => Shape::Integer(Width::W64),
            "float64" => Shape::Number,
            "bytes" => Shape::Bytes,
            "time" => Shape::Time,
            "microtime" => Shape::MicroTime,
            "duration" => Shape::Duration,
            "quantity" => Shape::Quantity,
            "intorstring" => Shape::IntOrString,
            "raw" | "json" => {
                facts.go_name = Some(if leaf == "raw" { "runtime.RawExtension" } else { "v1.JSON" });
                Shape::Any(Embedding::Raw)
            }
            "fields" => Shape::Any(Embedding::FieldsV1),
            "schema-or-bool" => schema_or(Instead::Boolean)?,
            "schema-or-list" => schema_or(Instead::List)?,
            "schema-or-texts" => schema_or(Instead::Texts)?,
            _ => return None,
        };
        Some((shape, facts))
    }

    /// Gives the types under the rules of a field the fields of the types they are named after.
    fn overrides(&mut self) {
        for (written, id) in &self.written {
            let Some(name) = written.expression.strip_prefix('@') else { continue };
            let types = &mut self.table.types;
            let Some(&original) = types.names.get(name) else { continue };
            let Shape::Object { fields: found, .. } = &types.nodes[original.0 as usize].shape else {
                continue;
            };
            let found = found.clone();
            if let Shape::Object { fields, .. } = &mut types.nodes[id.0 as usize].shape {
                *fields = found;
            }
        }
    }
}

/// True for types that protobuf writes as a bare number.
fn is_varint(expression: &str) -> bool {
    let item = expression.rsplit(']').next().unwrap_or(expression);
    let leaf = item.split(':').next().unwrap_or(item);
    !expression.starts_with('{') && matches!(leaf, "int32" | "int64" | "bool" | "float64")
}
