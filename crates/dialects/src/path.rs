//! The names of places inside a document, such as `spec.workers[0].name`.

use std::fmt;

use crate::source::Span;
use crate::tree::{Document, Node, NodeValue};

/// One step into a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// The value under this key of a mapping.
    Key(String),
    /// The item of a list, counted from 0.
    Index(usize),
}

/// The steps from the root of a document to a place in it. No steps mean the document itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

/// A text that is not a field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a field path such as spec.workers[0].name: {why}")]
pub struct PathError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl FieldPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// The value under a key of the mapping at this place.
    #[must_use]
    pub fn child(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    /// The item of the list at this place.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// The steps.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The last key on the way, if there is any.
    pub fn last_key(&self) -> Option<&str> {
        self.segments.iter().rev().find_map(|segment| match segment {
            Segment::Key(key) => Some(key.as_str()),
            Segment::Index(_) => None,
        })
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.segments.clone();
        segments.push(segment);
        Self { segments }
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let wrong = |why| PathError { text: text.to_owned(), why };
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (segment, after) = parse_bracket(inside).map_err(wrong)?;
                segments.push(segment);
                rest = after;
                continue;
            }
            let key = match rest.strip_prefix('.') {
                Some(_) if segments.is_empty() => return Err(wrong("it begins with a dot")),
                Some(key) => key,
                None if segments.is_empty() => rest,
                None => return Err(wrong("a dot is missing after a bracket")),
            };
            let end = key.find(['.', '[']).unwrap_or(key.len());
            let (name, after) = key.split_at(end);
            if !is_bare(name) {
                return Err(wrong("a key is empty, or needs brackets and quotes"));
            }
            segments.push(Segment::Key(name.to_owned()));
            rest = after;
        }
        Ok(Self { segments })
    }
}

/// Reads the inside of a bracket and gives back what follows it.
fn parse_bracket(inside: &str) -> Result<(Segment, &str), &'static str> {
    if !inside.starts_with('"') {
        let (number, after) = inside.split_once(']').ok_or("a bracket is not closed")?;
        let canonical = number == "0" || !number.starts_with(['0', '+']);
        let index = number.parse().ok().filter(|_| canonical).ok_or("an index is not a number")?;
        return Ok((Segment::Index(index), after));
    }
    let mut escaped = false;
    for (at, character) in inside.char_indices().skip(1) {
        match character {
            '"' if !escaped => {
                let (quoted, after) = inside.split_at(at + 1);
                let key = serde_json::from_str(quoted).map_err(|_| "a quoted key is not well written")?;
                let after = after.strip_prefix(']').ok_or("a bracket is not closed")?;
                return Ok((Segment::Key(key), after));
            }
            '\\' if !escaped => escaped = true,
            _ => escaped = false,
        }
    }
    Err("a quote is not closed")
}

/// Whether a key can stand between dots without being mistaken for something else.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_-$@".contains(character))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(formatter, "[{index}]")?,
                Segment::Key(key) if is_bare(key) => {
                    write!(formatter, "{}{key}", if position == 0 { "" } else { "." })?;
                }
                // A JSON string is what `parse` can read back, quotes and control characters included.
                Segment::Key(key) => write!(formatter, "[{}]", serde_json::Value::from(key.as_str()))?,
            }
        }
        Ok(())
    }
}

impl From<&FieldPath> for String {
    fn from(path: &FieldPath) -> Self {
        path.to_string()
    }
}

impl std::str::FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl FieldPath {
    /// This path with a relative one behind it, in the dotted form `Display` gives and serde errors carry.
    /// What cannot be read as a path is left out: a shorter path still points to the right neighbourhood.
    #[must_use]
    pub fn join(&self, relative: &str) -> Self {
        let mut joined = self.clone();
        if let Ok(rest) = Self::parse(relative.trim_start_matches('.')) {
            joined.segments.extend(rest.segments);
        }
        joined
    }

    /// The path without its last step; none at the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, rest) = self.segments.split_last()?;
        Some(Self { segments: rest.to_vec() })
    }

    /// Whether this path leads through that one, or to it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.segments.starts_with(&other.segments)
    }
}

impl Document {
    /// The node at a path, if the document has one there.
    pub fn get(&self, path: &FieldPath) -> Option<&Node> {
        path.segments().iter().try_fold(&self.root, |node, segment| match segment {
            Segment::Key(key) => node.get(key),
            Segment::Index(index) => node.items().get(*index),
        })
    }

    /// The span of the value at a path, and of the key it stands under.
    ///
    /// When the path leaves the document, the deepest value on the way is meant. A list item has no key: there
    /// both spans are those of the item, and at the root both are those of the document.
    pub fn locate(&self, path: &FieldPath) -> (Span, Span) {
        let mut found: (&Node, Span) = (&self.root, self.root.span);
        for segment in path.segments() {
            let next = match (segment, &found.0.value) {
                (Segment::Key(key), NodeValue::Mapping(_)) => {
                    found.0.entry(key).map(|entry| (&entry.node, entry.key_span))
                }
                (Segment::Index(index), NodeValue::Sequence(items)) => {
                    items.get(*index).map(|item| (item, item.span))
                }
                _ => None,
            };
            let Some(next) = next else { break };
            found = next;
        }
        (found.0.span, found.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;
    use crate::source::FileId;

    #[test]
    fn shows_as_people_write_it() {
        let path = FieldPath::root().child("spec").child("workers").index(0).child("name");
        assert_eq!(path.to_string(), "spec.workers[0].name");
        let path = FieldPath::root().child("metadata").child("labels").child("a.b/c");
        assert_eq!(path.to_string(), r#"metadata.labels["a.b/c"]"#);
        assert_eq!(FieldPath::root().to_string(), "");
        assert_eq!(path.last_key(), Some("a.b/c"));
    }

    #[test]
    fn parse_is_the_inverse_of_display() {
        for keys in
            [vec!["a"], vec!["a.b/c", "d"], vec!["", "x"], vec!["q\"uo\\te", "\n", "]"], vec!["é", "a-b_c"]]
        {
            let path = keys.iter().fold(FieldPath::root(), |path, key| path.child(key).index(12));
            assert_eq!(FieldPath::parse(&path.to_string()), Ok(path));
        }
        assert_eq!(FieldPath::parse(""), Ok(FieldPath::root()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in
            ["a..b", ".a", "a[", "a[x]", "a[0]b", "a[\"x]", "a[\"x\"", "a b", "a[01]", "a.", "a[+1]", "a[-1]"]
        {
            assert!(FieldPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn locate_falls_back_to_the_longest_prefix_that_exists() {
        let text = "spec:\n  workers:\n    - name: a\n";
        let mut out = Diagnostics::new();
        let documents = crate::parse::parse(FileId(0), text, &mut out);
        let document = &documents[0];
        let at = |path: &str| {
            let (value, key) = document.locate(&FieldPath::parse(path).unwrap());
            (value.slice(text).to_owned(), key.slice(text).to_owned())
        };
        assert_eq!(at("spec.workers[0].name"), ("a".into(), "name".into()));
        assert_eq!(at("spec.workers[0].size"), ("name: a".into(), "name: a".into()));
        assert_eq!(at("spec.workers[3].size"), ("- name: a".into(), "workers".into()));
        assert_eq!(at("nothing"), (text.trim_end().into(), text.trim_end().into()));
    }
}
