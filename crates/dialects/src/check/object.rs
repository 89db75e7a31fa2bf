//! Objects and maps.

use serde_json::{Map, Value};

use super::schema::{Shape, View};
use super::{Checker, first_line_span, untyped};
use crate::diagnostic::Diagnostic;
use crate::path::{FieldPath, Segment};
use crate::suggest;
use crate::tree::{Entry, Node, NodeValue};

impl<'run> Checker<'run> {
    pub(super) fn object(
        &mut self,
        view: &View<'run>,
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        let NodeValue::Mapping(entries) = &node.value else {
            return self.wrong_kind(view, node, path);
        };
        let required = view.required();
        let outer_sensitive = self.sensitive;
        let secret_beside = self.holds_secret(view, entries);
        let mut object = Map::new();
        let mut given: Vec<&str> = Vec::new();
        for entry in entries {
            // A snippet of a key may show its neighbours, and a misspelt secret is a secret.
            self.sensitive = outer_sensitive || secret_beside;
            let name = self.other_spelling(view, entry, entries, path);
            self.sensitive = outer_sensitive;
            let Ok(name) = name else { continue };
            let field_path = path.child(&entry.key);
            let field = match (view.property(name), view.additional()) {
                (Some(schema), _) => {
                    let field_view = View::resolve(self.root, schema);
                    if self.ignored(&field_view, entry, &field_path) {
                        given.push(name);
                        continue;
                    }
                    if entry.node.is_null() && !(required.contains(&name) && field_view.nullable) {
                        // As if it were not there; if it must be, the search for missing fields says so.
                        continue;
                    }
                    given.push(name);
                    self.value(&field_view, &entry.node, &field_path, Some(view))
                }
                (None, Some(schema)) => {
                    let field_view = View::resolve(self.root, schema);
                    self.value(&field_view, &entry.node, &field_path, Some(view))
                }
                // A plain `type: object` is a map of anything.
                (None, None)
                    if view.get("properties").is_none() && view.get("additionalProperties").is_none() =>
                {
                    Some(untyped(&entry.node))
                }
                (None, None) => {
                    self.sensitive = outer_sensitive || secret_beside;
                    self.unknown_field(view, entry, &field_path, parent);
                    self.sensitive = outer_sensitive;
                    None
                }
            };
            if let Some(value) = field {
                object.insert(name.to_owned(), value);
            }
        }
        self.sensitive = outer_sensitive || secret_beside;
        for name in required.into_iter().filter(|name| !given.contains(name)) {
            self.missing_field(view, name, node, path);
        }
        self.sensitive = outer_sensitive;
        // What is left of a broken object may still be decoded, to find what else is wrong with it.
        Some(Value::Object(object))
    }

    /// Whether a mapping has, or by a slip of the pen may have, a secret field.
    fn holds_secret(&self, view: &View<'run>, entries: &[Entry]) -> bool {
        let names = view.property_names();
        let secrets: Vec<&str> = names
            .into_iter()
            .filter(|name| {
                let schema = view.property(name);
                schema.is_some_and(|schema| View::resolve(self.root, schema).flag("x-trellis-sensitive"))
            })
            .collect();
        !secrets.is_empty() && entries.iter().any(|entry| suggest::closest(&entry.key, &secrets).is_some())
    }

    /// The name a key stands for. An error means that the same field is given under both names.
    fn other_spelling<'entry>(
        &mut self,
        view: &View<'run>,
        entry: &'entry Entry,
        entries: &[Entry],
        path: &FieldPath,
    ) -> Result<&'entry str, ()>
    where
        'run: 'entry,
    {
        let Some(name) = view.alias(&entry.key).filter(|_| view.property(&entry.key).is_none()) else {
            return Ok(&entry.key);
        };
        let span = entry.key_span;
        let other = entries
            .iter()
            .take_while(|before| !std::ptr::eq(*before, entry))
            .find(|before| view.alias(&before.key) == Some(name))
            .or_else(|| entries.iter().find(|other| other.key == name));
        if let Some(other) = other {
            let message =
                format!("`{}` and `{}` are the same field and both are given", other.key, entry.key);
            let diagnostic = Diagnostic::error("duplicate-key", message)
                .label(format!("another spelling of `{name}`"))
                .help(format!("keep `{name}` only"));
            self.report(diagnostic, span, &path.child(&entry.key));
            return Err(());
        }
        let message = format!("`{}` is read as `{name}`", entry.key);
        let diagnostic = Diagnostic::notice("other-spelling", message)
            .label("another spelling")
            .help(format!("write `{name}`"));
        self.report(diagnostic, span, &path.child(&entry.key));
        Ok(name)
    }

    /// Whether a field is one that is not looked at.
    fn ignored(&mut self, field: &View<'run>, entry: &Entry, path: &FieldPath) -> bool {
        let Some(why) = field.text("x-trellis-ignored") else { return false };
        if !field.flag("x-trellis-silent") {
            let message = format!("`{}` is ignored: {why}", entry.key);
            let mut diagnostic = Diagnostic::notice("ignored-field", message).label("ignored");
            diagnostic.sensitive = field.flag("x-trellis-sensitive");
            self.report(diagnostic, entry.key_span, path);
        }
        true
    }

    fn missing_field(&mut self, view: &View<'run>, name: &str, node: &Node, path: &FieldPath) {
        let schema = view.property(name).map(|schema| View::resolve(self.root, schema));
        let what =
            schema.as_ref().and_then(View::summary).map(|text| format!(": {text}")).unwrap_or_default();
        let present = node.entry(name);
        let diagnostic = if present.is_some() {
            let empty = match schema.map(|schema| schema.shape(self.root)) {
                Some(Shape::Object) => "; write `{}` if an empty mapping is meant",
                Some(Shape::List) => "; write `[]` if an empty list is meant",
                _ => "",
            };
            Diagnostic::error("missing-field", format!("the field `{name}` has no value{what}"))
                .label("there is no value here")
                .help(format!("give `{name}` a value{empty}"))
        } else {
            Diagnostic::error("missing-field", format!("missing field `{name}`{what}"))
                .label(format!("`{name}` is missing in this mapping"))
                .help(format!("add `{name}`"))
        };
        let span = present.map_or_else(|| first_line_span(node), |entry| entry.key_span);
        self.report(diagnostic, span, &path.child(name));
    }

    /// Reports a field nobody knows, with the best guess at what was meant.
    pub(super) fn unknown_field(
        &mut self,
        view: &View<'run>,
        entry: &Entry,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) {
        let names = view.property_names();
        let key = entry.key.as_str();
        let help = if let Some(name) = suggest::equal_but_for_spelling(key, &names) {
            format!("did you mean `{name}`?")
        } else if let Some(place) = self.belongs_elsewhere(view, key, path, parent) {
            place
        } else if let Some(name) = suggest::closest(key, &names) {
            format!("did you mean `{name}`?")
        } else {
            suggest::known_fields(&names)
        };
        let diagnostic = Diagnostic::error("unknown-field", format!("unknown field `{key}`"))
            .label("not known here")
            .help(help);
        self.report(diagnostic, entry.key_span, path);
    }

    /// Whether a key is known one level down or one level up.
    fn belongs_elsewhere(
        &self,
        view: &View<'run>,
        key: &str,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<String> {
        for name in view.property_names() {
            let Some(schema) = view.property(name) else { continue };
            let below = View::resolve(self.root, schema);
            let names = below.property_names();
            if let Some(found) = suggest::equal_but_for_spelling(key, &names) {
                return Some(format!("`{found}` belongs in `{name}`"));
            }
        }
        let found = suggest::equal_but_for_spelling(key, &parent?.property_names())?;
        Some(match above(path.segments()) {
            [] => format!("`{found}` belongs at the top of the document"),
            [.., Segment::Key(name)] => format!("`{found}` belongs in `{name}`, one level up"),
            [.., Segment::Index(_)] => format!("`{found}` belongs one level up"),
        })
    }
}

/// The path of the object around the object that holds a key: without the key, the list items, and their key.
fn above(path: &[Segment]) -> &[Segment] {
    let mut rest = path.split_last().map_or(path, |(_, rest)| rest);
    while let [before @ .., Segment::Index(_)] = rest {
        rest = before;
    }
    rest.split_last().map_or(rest, |(_, rest)| rest)
}
