//! A document held against a JSON schema, with every problem reported at once.
//!
//! The schemas are those that `schemars` derives from the serde types of a dialect, so what passes here can be
//! deserialized. Serde itself stops at its first problem and forgets the places; this check does neither. It also
//! decides, by the schema, what an unquoted scalar is: text, a number or a truth value.
//!
//! Besides the standard keywords these extensions are understood:
//!
//! * `x-trellis-text: true`: any scalar is taken as the text it was written as;
//! * `x-trellis-rule: "<rule>"`: what a `pattern` demands, in words that fit after "must be";
//! * `x-trellis-ignored: "<why>"`: the field may hold anything and is left out, with a notice;
//! * `x-trellis-silent: true`: beside `x-trellis-ignored`, no notice;
//! * `x-trellis-aliases: {"old": "new"}`: other spellings of the properties of an object;
//! * `x-trellis-sensitive: true`: nothing of the text at or below this place is ever shown;
//! * `x-kubernetes-int-or-string: true`: a number stays a number, any other scalar is text.

mod choice;
mod numbers;
mod object;
mod scalars;
mod schema;

use serde_json::Value;

use self::schema::{Shape, View};
use crate::diagnostic::{Diagnostic, Diagnostics, Location};
use crate::parse::TOO_LARGE;
use crate::path::FieldPath;
use crate::source::{FileId, Span};
use crate::suggest;
use crate::tree::{Node, NodeValue};

/// How deep the check follows a tree. Parsed trees are never that deep; trees made by hand may be.
const MAX_CHECK_DEPTH: usize = 200;

/// Holds a node against a schema and builds the value that serde can deserialize.
///
/// All problems go to `out`. If any of them is an error, the value is incomplete: what could not be read is left
/// out of it, and it serves to find what else is wrong, no more.
pub fn check(schema: &Value, node: &Node, file: FileId, base: &FieldPath, out: &mut Diagnostics) -> Value {
    let mut checker = Checker { root: schema, file, out, depth: 0, sensitive: false };
    let view = View::resolve(schema, schema);
    checker.value(&view, node, base, None).unwrap_or_default()
}

/// What stays the same throughout one check.
struct Checker<'run> {
    root: &'run Value,
    file: FileId,
    out: &'run mut Diagnostics,
    depth: usize,
    sensitive: bool,
}

impl<'run> Checker<'run> {
    /// Adds the place, the field and, where needed, the veil to a diagnostic, and reports it.
    fn report(&mut self, diagnostic: Diagnostic, span: Span, path: &FieldPath) {
        let mut diagnostic = diagnostic.at(Location::new(self.file, span)).path(path);
        diagnostic.sensitive |= self.sensitive;
        self.out.push(diagnostic);
    }

    /// A text to quote in a message, unless it is secret.
    fn quote(&self, text: &str) -> String {
        if self.sensitive {
            return "this text".to_owned();
        }
        let mut short: String = text.chars().take(60).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        format!("`{short}`")
    }

    /// Checks a value of any kind. `parent` is the object around it, for hints about misplaced fields.
    fn value(
        &mut self,
        view: &View<'run>,
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        if self.depth >= MAX_CHECK_DEPTH {
            self.report(Diagnostic::error(TOO_LARGE, "nested too deep to be checked"), node.span, path);
            return None;
        }
        let outer_sensitive = self.sensitive;
        self.depth += 1;
        self.sensitive |= view.flag("x-trellis-sensitive");
        let value = self.dispatch(view, node, path, parent);
        self.sensitive = outer_sensitive;
        self.depth -= 1;
        value
    }

    fn dispatch(
        &mut self,
        view: &View<'run>,
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        if node.is_null() {
            return self.nothing(view, node, path);
        }
        if view.flag("x-kubernetes-int-or-string") || view.flag("x-trellis-text") {
            return self.scalar(view, node, path);
        }
        if !view.alternatives.is_empty() && view.enumeration(self.root).is_none() {
            return self.alternatives(view, node, path, parent);
        }
        match view.shape(self.root) {
            Shape::Anything => Some(untyped(node)),
            Shape::Object => self.object(view, node, path, parent),
            Shape::List => self.list(view, node, path, parent),
            Shape::Scalar => self.scalar(view, node, path),
        }
    }

    /// Nothing is there although something is due. Optional fields never come here.
    fn nothing(&mut self, view: &View<'run>, node: &Node, path: &FieldPath) -> Option<Value> {
        if view.nullable || view.is_anything() {
            return Some(Value::Null);
        }
        let expected = self.expected(view);
        let diagnostic = Diagnostic::error("wrong-type", format!("expected {expected}, found nothing"))
            .label("there is no value here");
        let diagnostic = match view.shape(self.root) {
            Shape::Object => diagnostic.help("write `{}` if an empty mapping is meant"),
            Shape::List => diagnostic.help("write `[]` if an empty list is meant"),
            _ if expected == "text" => diagnostic.help("write `\"\"` if an empty text is meant"),
            _ => diagnostic,
        };
        self.report(diagnostic, node.span, path);
        None
    }

    fn list(
        &mut self,
        view: &View<'run>,
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        let NodeValue::Sequence(items) = &node.value else {
            return self.wrong_kind(view, node, path);
        };
        let count = items.len() as u64;
        let too_few = view.count("minItems").filter(|least| count < *least);
        let too_many = view.count("maxItems").filter(|most| count > *most);
        if let Some((word, limit)) =
            too_few.map(|limit| ("at least", limit)).or(too_many.map(|limit| ("at most", limit)))
        {
            let message = format!(
                "this list must have {word} {limit} item{}, but has {count}",
                if limit == 1 { "" } else { "s" }
            );
            self.report(Diagnostic::error("invalid-value", message), node.span, path);
        }
        let item_view = view.get("items").map(|items| View::resolve(self.root, items));
        let mut values = Vec::with_capacity(items.len());
        let mut complete = true;
        for (index, item) in items.iter().enumerate() {
            let path = path.index(index);
            let value = match &item_view {
                Some(item_view) if item.is_null() && !item_view.nullable && !item_view.is_anything() => {
                    let diagnostic = Diagnostic::error("wrong-type", "this list item is empty")
                        .help("remove the `-`, or write a value after it");
                    self.report(diagnostic, item.span, &path);
                    None
                }
                Some(item_view) => self.value(item_view, item, &path, parent),
                None => Some(untyped(item)),
            };
            match value {
                Some(value) => values.push(value),
                None => complete = false,
            }
        }
        complete.then_some(Value::Array(values))
    }

    /// Reports a value of the wrong kind.
    fn wrong_kind(&mut self, view: &View<'run>, node: &Node, path: &FieldPath) -> Option<Value> {
        let expected = self.expected(view);
        let message = format!("expected {expected}, found {}", node.kind_name());
        let diagnostic =
            Diagnostic::error("wrong-type", message).label(format!("this is {}", node.kind_name()));
        let diagnostic = match (view.shape(self.root), &node.value) {
            (Shape::List, NodeValue::Sequence(_)) => diagnostic,
            (_, NodeValue::Scalar { text, .. }) if text == "..." => {
                diagnostic.help("`...` stands for text that was left out; remove it or fill it in")
            }
            (Shape::List, _) => diagnostic.help("a list is meant, even of one item: put `- ` before it"),
            (_, NodeValue::Sequence(items)) if items.len() == 1 => {
                diagnostic.help("one item is meant, not a list: remove the `- `")
            }
            (_, NodeValue::Sequence(_)) => diagnostic.help("only one item can be given here, not a list"),
            (Shape::Object, NodeValue::Scalar { .. }) => {
                let known = view.property_names();
                let list = suggest::known_fields(&known);
                if known.is_empty() {
                    diagnostic
                } else {
                    diagnostic.help(format!("a mapping has fields; {list}"))
                }
            }
            _ => diagnostic,
        };
        self.report(diagnostic, first_line_span(node), path);
        None
    }

    /// What a schema asks for, in words that fit after "expected".
    fn expected(&self, view: &View<'run>) -> &'static str {
        if view.flag("x-kubernetes-int-or-string") {
            return "a number or text";
        }
        if view.flag("x-trellis-text") {
            return "text";
        }
        match view.shape(self.root) {
            Shape::Anything => "a value",
            Shape::Object => "a mapping",
            Shape::List => "a list",
            Shape::Scalar if view.has_type("string") || view.enumeration(self.root).is_some() => "text",
            Shape::Scalar if view.has_type("integer") => "a whole number",
            Shape::Scalar if view.has_type("number") => "a number",
            Shape::Scalar if view.has_type("boolean") => "true or false",
            Shape::Scalar => "a single value",
        }
    }
}

/// The place to mark for a collection: the first key or item says enough.
fn first_line_span(node: &Node) -> Span {
    match &node.value {
        NodeValue::Mapping(entries) => entries.first().map_or(node.span, |entry| entry.key_span),
        _ => node.span,
    }
}

/// A node as JSON by the rules of YAML alone, for places where the schema allows anything.
pub fn untyped(node: &Node) -> Value {
    match &node.value {
        NodeValue::Null => Value::Null,
        NodeValue::Scalar { text, plain: true } => numbers::untyped_scalar(text),
        NodeValue::Scalar { text, plain: false } => Value::String(text.clone()),
        NodeValue::Sequence(items) => items.iter().map(untyped).collect(),
        NodeValue::Mapping(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), untyped(&entry.node))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
