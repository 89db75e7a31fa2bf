//! Whether a value fits its type, in the words of the real server.

use serde_json::Value;

use super::atom::{Fields, Form, Kind, List, Typed};
use super::element::Element;
use super::go;
use crate::schema::TypeRef;

/// What is wrong with a value, one entry per place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Misfits(Vec<(String, String)>);

impl std::fmt::Display for Misfits {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |(path, why): &(String, String)| {
            if path.is_empty() { why.clone() } else { format!("{path}: {why}") }
        };
        match self.0.as_slice() {
            [one] => out.write_str(&text(one)),
            many => {
                out.write_str("errors:")?;
                many.iter().try_for_each(|one| write!(out, "\n  {}", text(one)))
            }
        }
    }
}

/// Checks that a value fits its type. Repeated items of sets and maps are only accepted in what is stored:
/// somebody who applies has to say what is meant.
pub(crate) fn check(of: TypeRef<'_>, value: &Value, allow_duplicates: bool) -> Result<(), Misfits> {
    let mut checker = Checker { allow_duplicates, path: Vec::new(), found: Vec::new() };
    checker.value(Typed::root(of), value);
    if checker.found.is_empty() { Ok(()) } else { Err(Misfits(checker.found)) }
}

/// True when a value fits its type; the same as [`check`] of what is stored, when it does not matter why not.
pub(super) fn fits(of: TypeRef<'_>, value: &Value) -> bool {
    value_fits(Typed::root(of), value)
}

fn value_fits(of: Typed<'_>, value: &Value) -> bool {
    let atom = of.atom().narrow(Some(value));
    match (value, atom.form(), atom.map, atom.scalar, atom.list) {
        (Value::Null, ..) => true,
        (Value::Object(fields), Form::Map, Some(map), _, _) => {
            fields.iter().all(|(name, field)| map.typed(name).is_some_and(|typed| value_fits(typed, field)))
        }
        (_, Form::Scalar, _, Some(kind), _) => scalar_fits(kind, value),
        (Value::Array(items), Form::List, _, _, Some(list)) => {
            items.iter().all(|item| list.accepts(item) && value_fits(list.items, item))
        }
        _ => false,
    }
}

struct Checker<'a> {
    allow_duplicates: bool,
    path: Vec<Element<'a>>,
    found: Vec<(String, String)>,
}

impl<'a> Checker<'a> {
    fn wrong(&mut self, why: String) {
        self.found.push((super::set::path_text(&self.path), why));
    }

    fn value(&mut self, of: Typed<'a>, value: &'a Value) {
        let atom = of.atom().narrow(Some(value));
        match (atom.form(), atom.map, atom.scalar, atom.list) {
            (Form::Map, Some(map), _, _) => self.map(map, value),
            (Form::Scalar, _, Some(kind), _) => {
                if let Some(why) = misfit(kind, value) {
                    self.wrong(why);
                }
            }
            (_, _, _, Some(list)) => self.list(list, value),
            _ => {}
        }
    }

    fn map(&mut self, of: Fields<'a>, value: &'a Value) {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => return,
            other => return self.wrong(format!("expected map, got &{{{}}}", go::verb(other))),
        };
        for (name, field) in fields {
            self.path.push(Element::Field(name));
            let known = of.typed(name);
            match known {
                Some(typed) => self.value(typed, field),
                None => self.wrong("field not declared in schema".to_owned()),
            }
            self.path.pop();
            if known.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, of: List<'a>, value: &'a Value) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            other => return self.wrong(format!("expected list, got &{{{}}}", go::verb(other))),
        };
        let mut seen: Vec<Element<'a>> = Vec::new();
        for (place, item) in items.iter().enumerate() {
            let element = if of.is_atomic() {
                Element::Index(i64::try_from(place).unwrap_or(i64::MAX))
            } else {
                match of.element(item) {
                    Ok(element) => element,
                    Err(why) => return self.wrong(format!("element {place}: {why}")),
                }
            };
            if !self.allow_duplicates && !of.is_atomic() {
                match seen.binary_search(&element) {
                    Ok(_) => self.wrong(format!("duplicate entries for key {element}")),
                    Err(free) => seen.insert(free, element.clone()),
                }
            }
            self.path.push(element);
            self.value(of.items, item);
            self.path.pop();
        }
    }
}

/// True for the scalars of a kind. Null is a scalar of every kind.
fn scalar_fits(kind: Kind, value: &Value) -> bool {
    matches!(
        (kind, value),
        (_, Value::Null)
            | (Kind::Number, Value::Number(_))
            | (Kind::Text, Value::String(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Any, Value::Number(_) | Value::String(_) | Value::Bool(_))
    )
}

/// What is wrong with a scalar.
fn misfit(kind: Kind, value: &Value) -> Option<String> {
    if scalar_fits(kind, value) {
        return None;
    }
    Some(match kind {
        Kind::Number => format!("expected numeric (int or float), got {}", go::type_name(value)),
        Kind::Text => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::sharp_verb(value))
        }
        Kind::Boolean => format!("expected boolean, got &{{{}}}", go::verb(value)),
        Kind::Any => format!("expected any scalar, got &{{{}}}", go::verb(value)),
    })
}
