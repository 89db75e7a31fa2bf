//! The shapes of the schema as server-side apply sees them: a value is a scalar, a list, a map, or any of them.

use serde_json::Value;

use super::element::{Element, Scalar};
use crate::schema::{Field, ListMerge, Shape, TypeRef};

/// The name of the type whose free-form JSON is owned as a whole.
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A type during a walk through values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Typed<'a> {
    of: Of<'a>,
    /// True below an object that keeps what its schema does not know: so do all objects inside it.
    preserve: bool,
}

#[derive(Debug, Clone, Copy)]
enum Of<'a> {
    Schema(TypeRef<'a>),
    /// Whatever the value is: maps are merged, lists are owned as a whole.
    Deduced,
    /// Whatever the value is, owned as a whole.
    Whole,
}

/// What values of a type may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Atom<'a> {
    pub(super) scalar: Option<Kind>,
    pub(super) list: Option<List<'a>>,
    pub(super) map: Option<Fields<'a>>,
}

/// A kind of scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Boolean,
    Any,
}

/// A type of lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) items: Typed<'a>,
    pub(super) merge: &'a ListMerge,
}

/// A type of maps and objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    of: Option<TypeRef<'a>>,
    /// The type of the values that are no named fields; none where there may not be any.
    others: Option<Typed<'a>>,
    preserve: bool,
    pub(super) atomic: bool,
}

/// Which of its forms a type has for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Map,
    Scalar,
    List,
}

impl<'a> Typed<'a> {
    pub(super) fn root(of: TypeRef<'a>) -> Self {
        Self { of: Of::Schema(of), preserve: false }
    }

    const DEDUCED: Typed<'static> = Typed { of: Of::Deduced, preserve: false };
    const WHOLE: Typed<'static> = Typed { of: Of::Whole, preserve: false };

    fn at(of: TypeRef<'a>, preserve: bool) -> Self {
        // A type with a name is described on its own, wherever it is used.
        Self { of: Of::Schema(of), preserve: preserve && of.node().name.is_none() }
    }

    pub(super) fn atom(self) -> Atom<'a> {
        let free = |atomic: bool, others: Typed<'a>| Atom {
            scalar: Some(Kind::Any),
            list: Some(List { items: Typed::WHOLE, merge: &ListMerge::Atomic }),
            map: Some(Fields { of: None, others: Some(others), preserve: false, atomic }),
        };
        let none = Atom { scalar: None, list: None, map: None };
        let scalar = |kind: Kind| Atom { scalar: Some(kind), ..none };
        let of = match self.of {
            Of::Deduced => return free(false, Typed::DEDUCED),
            Of::Whole => return free(true, Typed::WHOLE),
            Of::Schema(of) => of,
        };
        match of.shape() {
            Shape::String | Shape::Bytes | Shape::Duration => scalar(Kind::Text),
            Shape::Boolean => scalar(Kind::Boolean),
            Shape::Integer(_) | Shape::Number => scalar(Kind::Number),
            Shape::Time | Shape::MicroTime | Shape::Quantity => scalar(Kind::Any),
            Shape::Any(_) if of.node().name.as_deref() == Some(RAW_EXTENSION) => free(true, Typed::WHOLE),
            Shape::Any(_) | Shape::SchemaOr { .. } | Shape::IntOrString => free(false, Typed::DEDUCED),
            Shape::Map { values, atomic } => {
                let others = Some(Typed::at(of.at(*values), self.preserve));
                Atom { map: Some(Fields { of: None, others, preserve: false, atomic: *atomic }), ..none }
            }
            Shape::List { items, merge } => {
                Atom { list: Some(List { items: Typed::at(of.at(*items), self.preserve), merge }), ..none }
            }
            Shape::Object { fields, atomic, preserve_unknown } => {
                let preserve = self.preserve || *preserve_unknown;
                // An object about which nothing is said is free-form.
                let others = (preserve || fields.is_empty()).then_some(Typed::DEDUCED);
                Atom { map: Some(Fields { of: Some(of), others, preserve, atomic: *atomic }), ..none }
            }
        }
    }

    /// True for values that may be anything, unless they have a type with a name.
    fn is_free(self) -> bool {
        match self.of {
            Of::Deduced => true,
            Of::Whole => false,
            Of::Schema(of) => of.node().name.is_none() && self.atom().scalar == Some(Kind::Any),
        }
    }
}

impl Atom<'_> {
    /// The form a value has, or the forms it might have when that cannot be told: the value is null, or wrong.
    pub(super) fn narrow(self, value: Option<&Value>) -> Self {
        let none = Atom { scalar: None, list: None, map: None };
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => {
                Atom { scalar: self.scalar, ..none }
            }
            Some(Value::Array(_)) if self.list.is_some() => Atom { list: self.list, ..none },
            Some(Value::Object(_)) if self.map.is_some() => Atom { map: self.map, ..none },
            _ => self,
        }
    }

    /// The form that is tried.
    pub(super) fn form(self) -> Form {
        if self.map.is_some() {
            Form::Map
        } else if self.scalar.is_some() {
            Form::Scalar
        } else {
            Form::List
        }
    }

    /// True when the same forms of the same type are left.
    pub(super) fn same_forms(self, other: Self) -> bool {
        self.map.is_some() == other.map.is_some()
            && self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
    }
}

impl<'a> Fields<'a> {
    /// The named field.
    pub(super) fn named(self, name: &str) -> Option<(&'a Field, Typed<'a>)> {
        let (field, of) = self.of?.field(name)?;
        Some((field, Typed::at(of, self.preserve)))
    }

    /// The type of the value under a name, if there may be one.
    pub(super) fn typed(self, name: &str) -> Option<Typed<'a>> {
        self.named(name).map(|(_, typed)| typed).or(self.others)
    }

    /// The type of values that are no named fields.
    pub(super) fn others(self) -> Option<Typed<'a>> {
        self.others
    }

    /// True for maps about which nothing is said but that they may be there.
    pub(super) fn is_free(self) -> bool {
        let names = self
            .of
            .is_some_and(|of| matches!(of.shape(), Shape::Object { fields, .. } if !fields.is_empty()));
        !names && self.others.is_some_and(Typed::is_free)
    }
}

impl<'a> List<'a> {
    pub(super) fn is_atomic(self) -> bool {
        matches!(self.merge, ListMerge::Atomic)
    }

    /// True when there is something that tells the item apart from the others of its list, or has not to be.
    pub(super) fn accepts(self, item: &'a Value) -> bool {
        match (self.merge, item) {
            (ListMerge::Atomic, _) => true,
            (ListMerge::Map(keys), Value::Object(fields))
                if keys.iter().any(|key| fields.contains_key(key)) =>
            {
                true
            }
            _ => self.element(item).is_ok(),
        }
    }

    /// What tells an item apart from the others of its list.
    pub(super) fn element(self, item: &'a Value) -> Result<Element<'a>, String> {
        match self.merge {
            ListMerge::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListMerge::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::Value(Scalar::of(scalar))),
            },
            ListMerge::Map(keys) => self.key(keys, item),
        }
    }

    fn key(self, keys: &'a [String], item: &'a Value) -> Result<Element<'a>, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let described = self.items.atom().map;
        let mut key = Vec::with_capacity(keys.len());
        for name in keys {
            // A missing field counts with its default; without one the item is told apart by the other fields.
            let value = match fields.get(name) {
                Some(value) => Some(value),
                None => match described {
                    Some(described) => described
                        .named(name)
                        .and_then(|(field, _)| field.default.as_ref())
                        .filter(|value| !value.is_null()),
                    None => {
                        return Err(format!(
                            "couldn't find default value for {name}: associative list may not have non-map types"
                        ));
                    }
                },
            };
            key.extend(value.map(|value| (name.as_str().into(), Scalar::of(value))));
        }
        if key.is_empty() && !keys.is_empty() {
            let names: Vec<String> = keys.iter().map(|name| super::go::quote(name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                 default values for any key fields)",
                names.join(" ")
            ));
        }
        if key.len() > 1 {
            key.sort_by(|left: &(std::borrow::Cow<'_, str>, _), right| left.0.cmp(&right.0));
        }
        Ok(Element::Key(key))
    }
}
