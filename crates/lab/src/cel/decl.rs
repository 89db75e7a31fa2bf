//! What is known about the values of variables before there are any: their types and sizes.

use std::{collections::BTreeMap, sync::Arc};

use super::types::{Record, Type};

/// The largest request there is, in bytes. Bounds what is not bounded otherwise.
pub(crate) const MAX_REQUEST: i64 = 3 * 1024 * 1024;

/// The type of a value, how large it can be, and how small.
#[derive(Debug, Clone)]
pub(crate) struct Decl {
    /// The type.
    pub kind: DeclKind,
    /// The most characters, items or entries; 0 where that is no question.
    pub max_elements: u64,
    /// The least number of bytes it takes as JSON.
    pub min_size: i64,
}

/// The type of a value.
#[derive(Debug, Clone)]
pub(crate) enum DeclKind {
    /// A type without parts.
    Simple(Type),
    /// A list of items.
    List(Arc<Decl>),
    /// A map from texts to values.
    Map(Arc<Decl>),
    /// A record with fields, by the names they have in expressions.
    Record(BTreeMap<String, Arc<Decl>>),
}

impl Decl {
    /// A type without parts.
    pub(crate) fn simple(of: Type, max_elements: u64, min_size: i64) -> Self {
        Self { kind: DeclKind::Simple(of), max_elements, min_size }
    }

    /// The type as expressions know it. Records are called by where they are, below `name`.
    pub(crate) fn named(&self, name: &str) -> Type {
        match &self.kind {
            DeclKind::Simple(of) => of.clone(),
            DeclKind::List(item) => Type::list(item.named(&format!("{name}.@idx"))),
            DeclKind::Map(value) => Type::map(Type::String, value.named(&format!("{name}.@elem"))),
            DeclKind::Record(fields) => Type::Record(Arc::new(Record {
                name: name.to_owned(),
                fields: fields
                    .iter()
                    .map(|(key, field)| (key.clone(), field.named(&format!("{name}.{key}"))))
                    .collect(),
            })),
        }
    }

    /// How large the value at the end of a path can be; the first part of the path is the variable.
    pub(crate) fn max_at(&self, path: &[String]) -> Option<u64> {
        let mut node = self;
        for part in path.get(1..)? {
            node = match (part.as_str(), &node.kind) {
                ("@items" | "@values", DeclKind::List(inner) | DeclKind::Map(inner)) => inner,
                // Keys are texts of no known size.
                ("@keys", DeclKind::Map(_)) => return Some(0),
                (name, DeclKind::Record(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(node.max_elements)
    }
}
