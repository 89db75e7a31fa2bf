//! Puts events together to documents, within limits.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{MAX_DEPTH, MAX_DOCUMENTS, MAX_EXPANDED_BYTES, MAX_NODES, TOO_LARGE};
use crate::diagnostic::{Diagnostic, Diagnostics, Location};
use crate::source::{FileId, LineIndex, Span};
use crate::tree::{Document, Entry, Node, NodeValue, Weight};

/// A limit was reached and has been reported; there is no use in going on.
pub(crate) struct Stop;

/// A collection that is still open.
struct Frame {
    start: usize,
    /// Where the last thing inside it ends so far.
    end: usize,
    flow: bool,
    anchor: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Node>),
    Mapping(OpenMapping),
}

#[derive(Default)]
struct OpenMapping {
    entries: Vec<Entry>,
    /// The place of every key so far, explicit ones only.
    seen: HashMap<String, Span>,
    /// The key whose value comes next.
    key: Option<Key>,
    /// What `<<` brought along, taken in at the end so that explicit keys win.
    merged: Vec<Entry>,
}

enum Key {
    Named(String, Span),
    Merge(Span),
    /// A key that has been reported; its value is read and dropped.
    Refused,
}

/// A finished node that aliases may refer to.
struct Anchored {
    node: Node,
    weight: Weight,
}

/// Puts events together to documents.
pub(crate) struct Builder<'text> {
    file: FileId,
    text: &'text str,
    lines: OnceLock<LineIndex>,
    stack: Vec<Frame>,
    root: Option<Node>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    bytes: usize,
    started: usize,
    documents: Vec<Document>,
    diagnostics: Diagnostics,
}

impl<'text> Builder<'text> {
    pub(crate) fn new(file: FileId, text: &'text str) -> Self {
        Self {
            file,
            text,
            lines: OnceLock::new(),
            stack: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            nodes: 0,
            bytes: 0,
            started: 0,
            documents: Vec::new(),
            diagnostics: Diagnostics::new(),
        }
    }

    /// Gives out what was built and what there is to say about it.
    pub(crate) fn finish(self, out: &mut Diagnostics) -> Vec<Document> {
        out.extend(self.diagnostics);
        self.documents
    }

    pub(crate) fn location(&self, span: Span) -> Location {
        Location::new(self.file, span)
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub(crate) fn start_document(&mut self, span: Span) -> Result<(), Stop> {
        self.started += 1;
        if self.started > MAX_DOCUMENTS {
            return Err(self.too_large(span, format!("more than {MAX_DOCUMENTS} documents in one text")));
        }
        Ok(())
    }

    pub(crate) fn end_document(&mut self) {
        // Anchors hold within one document only.
        self.anchors.clear();
        if let Some(root) = self.root.take()
            && !root.is_null()
        {
            self.documents.push(Document { file: self.file, root });
        }
    }

    /// Takes in a scalar. `bare` says that it stood there without quotes, whatever its tag made of it.
    pub(crate) fn scalar(
        &mut self,
        value: NodeValue,
        span: Span,
        anchor: usize,
        bare: bool,
    ) -> Result<(), Stop> {
        // A block scalar ends with its line breaks; marking those would mark the line after it.
        let visible = span.slice(self.text).trim_end().len();
        let node = Node { span: Span::new(span.start, span.start + visible), value };
        self.charge(span, node.weight())?;
        self.keep_anchor(anchor, &node)?;
        self.place(node, bare);
        Ok(())
    }

    pub(crate) fn start_sequence(&mut self, span: Span, flow: bool, anchor: usize) -> Result<(), Stop> {
        self.open(span, flow, anchor, Content::Sequence(Vec::new()))
    }

    pub(crate) fn start_mapping(&mut self, span: Span, flow: bool, anchor: usize) -> Result<(), Stop> {
        self.open(span, flow, anchor, Content::Mapping(OpenMapping::default()))
    }

    pub(crate) fn end_collection(&mut self, span: Span) -> Result<(), Stop> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let value = match frame.content {
            Content::Sequence(items) => NodeValue::Sequence(items),
            Content::Mapping(mut open) => {
                for entry in open.merged {
                    if !open.seen.contains_key(&entry.key) {
                        open.seen.insert(entry.key.clone(), entry.key_span);
                        open.entries.push(entry);
                    }
                }
                NodeValue::Mapping(open.entries)
            }
        };
        // The parser sees the end of a block only at the next token; the text between is blank or comment.
        let end = if frame.flow { span.end } else { frame.end };
        let node = Node { span: Span::new(frame.start, end), value };
        self.keep_anchor(frame.anchor, &node)?;
        self.place(node, false);
        Ok(())
    }

    pub(crate) fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Stop> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            let name = span.slice(self.text).to_owned();
            self.refuse_alias(&format!("`{name}` stands inside the value it refers to"), span);
            return Ok(());
        };
        let weight = anchored.weight;
        self.charge(span, weight)?;
        if self.stack.len() + weight.height > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        let Some(anchored) = self.anchors.get(&anchor) else { return Ok(()) };
        let node = Node { span, value: anchored.node.value.clone() };
        self.place(node, false);
        Ok(())
    }

    pub(crate) fn unknown_alias(&mut self, name: &str, span: Span) {
        self.refuse_alias(
            &format!("`*{name}` refers to an anchor `&{name}` that is not above it in this document"),
            span,
        );
    }

    fn refuse_alias(&mut self, message: &str, span: Span) {
        self.report(
            Diagnostic::error("yaml-syntax", message)
                .at(self.location(span))
                .help("if this is meant as text, put it in quotes"),
        );
        self.place(Node { span, value: NodeValue::Null }, false);
    }

    fn open(&mut self, span: Span, flow: bool, anchor: usize, content: Content) -> Result<(), Stop> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        self.charge(span, Weight { nodes: 1, bytes: 0, height: 0 })?;
        self.stack.push(Frame { start: span.start, end: span.end, flow, anchor, content });
        Ok(())
    }

    /// Keeps a copy of an anchored node. The copy counts, or nested anchors would multiply memory.
    fn keep_anchor(&mut self, anchor: usize, node: &Node) -> Result<(), Stop> {
        if anchor != 0 {
            let weight = node.weight();
            self.charge(node.span, weight)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), weight });
        }
        Ok(())
    }

    fn charge(&mut self, span: Span, weight: Weight) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(weight.nodes);
        self.bytes = self.bytes.saturating_add(weight.bytes);
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values in one text, aliases written out");
            return Err(self.too_large(span, message));
        }
        if self.bytes > MAX_EXPANDED_BYTES {
            let message = "more than 64 MiB of text once aliases are written out".to_owned();
            return Err(self.too_large(span, message));
        }
        Ok(())
    }

    fn too_deep(&mut self, span: Span) -> Stop {
        self.too_large(span, format!("nested more than {MAX_DEPTH} levels deep"))
    }

    fn too_large(&mut self, span: Span, message: String) -> Stop {
        self.report(Diagnostic::error(TOO_LARGE, message).at(self.location(span)));
        Stop
    }

    /// Puts a finished node where it belongs: as item, key, value or root.
    fn place(&mut self, node: Node, bare: bool) {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.end = frame.end.max(node.span.end);
        match &mut frame.content {
            Content::Sequence(items) => items.push(node),
            Content::Mapping(open) => match open.key.take() {
                None => {
                    let key = self.key(node, bare);
                    self.set_key(key);
                }
                Some(Key::Named(key, key_span)) => open.entries.push(Entry { key, key_span, node }),
                Some(Key::Merge(key_span)) => self.merge(node, key_span),
                Some(Key::Refused) => {}
            },
        }
    }

    fn set_key(&mut self, key: Key) {
        if let Some(Frame { content: Content::Mapping(open), .. }) = self.stack.last_mut() {
            open.key = Some(key);
        }
    }

    /// Turns a node into the key of the innermost mapping.
    fn key(&mut self, node: Node, bare: bool) -> Key {
        let span = node.span;
        let name = match node.value {
            NodeValue::Scalar { text, .. } => text,
            // `null: x` is a strange key, but it has a name; an empty one has none.
            NodeValue::Null if !span.is_empty() && bare => span.slice(self.text).to_owned(),
            _ => {
                self.refuse_key(span);
                return Key::Refused;
            }
        };
        if bare && name == "<<" && self.first_place(&name).is_none() {
            self.note_key(name, span);
            return Key::Merge(span);
        }
        if let Some(first) = self.first_place(&name) {
            let line = self.line(first.start);
            self.report(
                Diagnostic::error(
                    "duplicate-key",
                    format!("the key `{name}` is given twice; the first is on line {line}"),
                )
                .at(self.location(span))
                .label("given again here")
                .help(format!("keep one of the two; the first `{name}` is on line {line}")),
            );
            return Key::Refused;
        }
        self.note_key(name.clone(), span);
        Key::Named(name, span)
    }

    fn refuse_key(&mut self, span: Span) {
        let diagnostic = Diagnostic::error("invalid-key", "a key must be a single word or text")
            .at(self.location(span))
            .label("this is no key");
        // `{{ name }}` reads as a mapping whose key is a mapping.
        let template = self.text.get(..span.start + 1).is_some_and(|before| before.ends_with("{{"));
        self.report(if template {
            diagnostic.help(
                "this looks like a placeholder of a template; fill it in, or put it in quotes if it is text",
            )
        } else {
            diagnostic.help("if this is meant as text, put it in quotes")
        });
    }

    fn first_place(&self, name: &str) -> Option<Span> {
        match self.stack.last() {
            Some(Frame { content: Content::Mapping(open), .. }) => open.seen.get(name).copied(),
            _ => None,
        }
    }

    fn note_key(&mut self, name: String, span: Span) {
        if let Some(Frame { content: Content::Mapping(open), .. }) = self.stack.last_mut() {
            open.seen.insert(name, span);
        }
    }

    /// Takes in the value of a `<<` key: a mapping, or a list of mappings of which the first wins.
    fn merge(&mut self, node: Node, key_span: Span) {
        let sources = match node.value {
            NodeValue::Sequence(items) => items,
            value => vec![Node { span: node.span, value }],
        };
        for source in sources {
            match source.value {
                NodeValue::Mapping(entries) => {
                    if let Some(Frame { content: Content::Mapping(open), .. }) = self.stack.last_mut() {
                        open.merged.extend(entries);
                    }
                }
                _ => self.report(
                    Diagnostic::error("invalid-merge", "`<<` takes a mapping or a list of mappings")
                        .at(self.location(key_span))
                        .help("write `<<: *name`, where `&name` marks a mapping above"),
                ),
            }
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.lines.get_or_init(|| LineIndex::new(self.text)).line(offset)
    }
}
