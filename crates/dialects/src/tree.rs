//! Documents as trees in which every node knows its place.

use crate::scalar::{PlainKind, plain_kind};
use crate::source::{FileId, Span};

/// One document of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The text it stands in.
    pub file: FileId,
    /// Its content.
    pub root: Node,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The place of the whole value.
    pub span: Span,
    /// The value.
    pub value: NodeValue,
}

/// What a node holds. Scalars stay text here: only the schema knows what they are meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeValue {
    /// Nothing: an empty place, `~` or `null`.
    Null,
    /// A single value.
    Scalar {
        /// The text, with quotes and escapes already undone.
        text: String,
        /// Whether it stood there without quotes, so that it may also be a number or a truth value.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with values, in the order of the text; no key occurs twice.
    Mapping(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Node {
    /// The value under a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The key and value under a key, if this is a mapping that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The keys and values, none if this is no mapping.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            NodeValue::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The items, none if this is no list.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            NodeValue::Sequence(items) => items,
            _ => &[],
        }
    }

    /// The text of a scalar, whether it was quoted or not.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether there is nothing here.
    pub fn is_null(&self) -> bool {
        self.value == NodeValue::Null
    }

    /// What this is, in words that fit after "found".
    pub fn kind_name(&self) -> &'static str {
        match &self.value {
            NodeValue::Null => "nothing",
            NodeValue::Sequence(_) => "a list",
            NodeValue::Mapping(_) => "a mapping",
            NodeValue::Scalar { plain: false, .. } => "text",
            NodeValue::Scalar { text, plain: true } => match plain_kind(text) {
                PlainKind::Boolean(_) => "true/false",
                PlainKind::Integer | PlainKind::Float => "a number",
                PlainKind::Null | PlainKind::Text => "text",
            },
        }
    }

    /// How much this node takes when it is copied.
    pub(crate) fn weight(&self) -> Weight {
        let mut weight = Weight { nodes: 1, bytes: 0, height: 0 };
        match &self.value {
            NodeValue::Null => {}
            NodeValue::Scalar { text, .. } => weight.bytes = text.len(),
            NodeValue::Sequence(items) => items.iter().for_each(|item| weight.add_child(item.weight())),
            NodeValue::Mapping(entries) => {
                for entry in entries {
                    weight.bytes += entry.key.len();
                    weight.add_child(entry.node.weight());
                }
            }
        }
        weight
    }
}

/// The size of a subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// How many nodes it has, itself included.
    pub(crate) nodes: usize,
    /// How many bytes of text.
    pub(crate) bytes: usize,
    /// How many levels there are below its top.
    pub(crate) height: usize,
}

impl Weight {
    fn add_child(&mut self, child: Self) {
        self.nodes += child.nodes;
        self.bytes += child.bytes;
        self.height = self.height.max(child.height + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;

    fn root(text: &str) -> Node {
        let mut out = Diagnostics::new();
        let mut documents = crate::parse::parse(FileId(0), text, &mut out);
        assert!(out.is_empty(), "{out:?}");
        documents.remove(0).root
    }

    #[test]
    fn kinds_have_names_for_people() {
        let node = root("{m: {}, l: [], t: x, q: '1', n: 1.5, b: true, z: ~}");
        let name = |key: &str| node.get(key).unwrap().kind_name();
        assert_eq!(
            ["m", "l", "t", "q", "n", "b", "z"].map(name),
            ["a mapping", "a list", "text", "text", "a number", "true/false", "nothing"]
        );
    }

    #[test]
    fn looking_into_the_wrong_kind_finds_nothing() {
        let node = root("[1]");
        assert_eq!(node.get("a"), None);
        assert_eq!(node.as_text(), None);
        assert_eq!(node.items().len(), 1);
        assert!(node.entries().is_empty());
    }

    #[test]
    fn weight_counts_nodes_text_and_height() {
        assert_eq!(root("a: [xy, {b: z}]").weight(), Weight { nodes: 5, bytes: 5, height: 3 });
    }
}
