//! How the values of variables are to be read.

use std::{borrow::Cow, collections::HashMap};

/// What a piece of JSON is to an expression.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Whether it can be `null`.
    pub nullable: bool,
    /// What it is otherwise.
    pub kind: ShapeKind,
}

/// What a piece of JSON is to an expression.
#[derive(Debug, Clone)]
pub(crate) enum ShapeKind {
    /// What it looks like.
    Dynamic,
    /// A whole number or a text.
    IntOrString,
    /// A record with these fields, by their names in JSON.
    Record(HashMap<String, Shape>),
    /// A map whose values are of one shape.
    Map(Box<Shape>),
    /// A map nothing can be found in.
    Closed,
    /// A list whose items are of one shape.
    List(Box<Shape>, ListKind),
    /// A list whose items have no shape.
    BadList,
    /// A text.
    Text,
    /// A length of time, as text.
    Duration,
    /// A date.
    Date,
    /// A moment.
    DateTime,
    /// Bytes, in base64.
    Bytes,
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Anything, which can be compared but not looked into.
    Preserved,
    /// Nothing that can be read; the word of the schema for it.
    Unknown(String),
}

/// How the items of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// By their place.
    Atomic,
    /// By their value.
    Set,
    /// By these fields of theirs, by their names in expressions.
    Map(Vec<String>),
}

/// The shape of JSON nothing is known about.
pub(crate) static DYNAMIC: Shape = Shape { nullable: true, kind: ShapeKind::Dynamic };

/// The name of a field in expressions; none when it cannot have one.
pub(crate) fn escape(name: &str) -> Option<Cow<'_, str>> {
    let first = name.chars().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if super::types::is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    if !name.chars().all(|one| one.is_ascii_alphanumeric() || "_-./".contains(one)) {
        return None;
    }
    if !name.contains("__") && !name.contains(['-', '.', '/']) {
        return Some(name.into());
    }
    let escaped = name
        .replace("__", "\u{1}")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
        .replace('\u{1}', "__underscores__");
    Some(escaped.into())
}

/// The name of a field in JSON, from its name in expressions; none when it is no name.
pub(crate) fn unescape(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(start) = rest.find("__") {
        // Between two pairs of underscores there has to be at least one other character.
        let after = &rest[start + 2..];
        let length = after.find('_').unwrap_or(after.len());
        if length == 0 {
            // Three underscores: the word can start one further.
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        if !after[length..].starts_with("__") {
            out.push_str(&rest[..start + 2 + length]);
            rest = &after[length..];
            continue;
        }
        out.push_str(&rest[..start]);
        let word = &after[..length];
        match word {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            _ if super::types::is_reserved(word) && name.len() == length + 4 => out.push_str(word),
            _ => return None,
        }
        rest = &after[length + 2..];
    }
    out.push_str(rest);
    Some(out)
}
