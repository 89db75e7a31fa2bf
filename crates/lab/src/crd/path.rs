//! Where in an object something is, without writing it down until somebody asks.

use std::fmt::{self, Write as _};

/// A place in an object: a chain of steps on the stack.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The object itself.
    Root,
    /// A place that is already written.
    At(&'a str),
    /// A named field.
    Field(&'a Path<'a>, &'a str),
    /// The value of a key in a map.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// A named field of this place.
    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    /// The value of a key in the map at this place.
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    /// An item of the list at this place.
    pub(crate) fn index(&'a self, place: usize) -> Path<'a> {
        Path::Index(self, place)
    }

    /// True for the object itself.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Path::Root)
    }

    /// The place with every step behind a dot, as the values' validator writes it; empty for the object itself.
    pub(crate) fn dotted(&self) -> String {
        let mut out = String::new();
        self.write_dotted(&mut out);
        out
    }

    fn write_dotted(&self, out: &mut String) {
        match self {
            Path::Root => {}
            Path::At(text) => out.push_str(text),
            Path::Field(parent, name) => {
                parent.write_dotted(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Path::Key(parent, key) => {
                parent.write_dotted(out);
                out.push('.');
                out.push_str(key);
            }
            Path::Index(parent, place) => {
                parent.write_dotted(out);
                let _ = write!(out, "[{place}]");
            }
        }
    }

    /// The place as fields of the API are named: `spec.ports[0]`, `metadata.labels[app]`.
    pub(crate) fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // What a path that is not there says in messages.
            Path::Root => formatter.write_str("<nil>"),
            Path::At(text) => formatter.write_str(text),
            Path::Field(Path::Root, name) => formatter.write_str(name),
            Path::Field(parent, name) => write!(formatter, "{parent}.{name}"),
            Path::Key(Path::Root, key) => write!(formatter, "[{key}]"),
            Path::Key(parent, key) => write!(formatter, "{parent}[{key}]"),
            Path::Index(Path::Root, place) => write!(formatter, "[{place}]"),
            Path::Index(parent, place) => write!(formatter, "{parent}[{place}]"),
        }
    }
}
