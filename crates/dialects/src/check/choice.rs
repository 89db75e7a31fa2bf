//! Choices between several schemas.

use serde_json::Value;

use super::schema::{Shape, View};
use super::{Checker, first_line_span};
use crate::diagnostic::Diagnostic;
use crate::path::FieldPath;
use crate::scalar::{PlainKind, plain_kind};
use crate::suggest;
use crate::tree::{Node, NodeValue};

/// A branch of a choice.
type Branch<'run> = (&'run Value, View<'run>);

impl<'run> Checker<'run> {
    /// Chooses a branch by what the node is, and checks against that one only: problems of branches that were
    /// never meant would hide the real one.
    pub(super) fn alternatives(
        &mut self,
        view: &View<'run>,
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        let wanted = match &node.value {
            NodeValue::Null => return None,
            NodeValue::Scalar { .. } => Shape::Scalar,
            NodeValue::Sequence(_) => Shape::List,
            NodeValue::Mapping(_) => Shape::Object,
        };
        let all: Vec<Branch<'run>> =
            view.alternatives.iter().map(|branch| (*branch, view.with_branch(self.root, branch))).collect();
        let fits = |branch: &&Branch<'run>| {
            let shape = branch.1.leaf_shape();
            shape == wanted || shape == Shape::Anything
        };
        let fitting: Vec<&Branch<'run>> = all.iter().filter(fits).collect();
        match fitting.as_slice() {
            [] => self.no_branch(&all, node, path),
            [only] => self.value(&only.1, node, path, parent),
            several if wanted == Shape::Object => self.object_branch(view, several, node, path, parent),
            several => {
                let texts: Option<Vec<_>> =
                    several.iter().map(|branch| branch.1.enumeration(self.root)).collect();
                match (texts, node.as_text()) {
                    (Some(texts), Some(text)) => self.one_of(&texts.concat(), text, node, path),
                    _ => self.value(&several[self.scalar_branch(several, node)].1, node, path, parent),
                }
            }
        }
    }

    /// The branch for a scalar, by what it looks like.
    fn scalar_branch(&self, branches: &[&Branch<'run>], node: &Node) -> usize {
        let NodeValue::Scalar { text, plain } = &node.value else { return 0 };
        let kinds: &[&str] = match plain_kind(text) {
            PlainKind::Boolean(_) if *plain => &["boolean", "string"],
            PlainKind::Integer if *plain => &["integer", "number", "string"],
            PlainKind::Float if *plain => &["number", "string"],
            _ => &["string"],
        };
        let takes = |kind: &str, view: &View<'run>| {
            // An enumeration takes its own texts only, and a free text should not have to compete with it.
            let closed = view.enumeration(self.root).is_some_and(|texts| !texts.contains(&text.as_str()));
            view.has_type(kind) && !closed
        };
        kinds
            .iter()
            .find_map(|kind| branches.iter().position(|branch| takes(kind, &branch.1)))
            .or_else(|| branches.iter().position(|branch| branch.1.has_type("string")))
            .unwrap_or_default()
    }

    /// Chooses among several objects.
    fn object_branch(
        &mut self,
        view: &View<'run>,
        branches: &[&Branch<'run>],
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        let tags: Option<Vec<&str>> =
            branches.iter().map(|branch| only_tag(&View::resolve(self.root, branch.0))).collect();
        if let Some(tags) = tags {
            return self.choose_by_key(view, branches, &tags, node, path, parent);
        }
        let best = branches.iter().min_by_key(|branch| self.misfit(&branch.1, node))?;
        self.value(&best.1, node, path, parent)
    }

    /// How badly a mapping fits an object, by its keys and its constants. Only this level counts, so that nested
    /// choices cannot multiply.
    fn misfit(&self, view: &View<'run>, node: &Node) -> usize {
        let missing = view.required().iter().filter(|name| node.get(name).is_none()).count();
        let unknown = match view.additional() {
            Some(_) => 0,
            None => node.entries().iter().filter(|entry| view.property(&entry.key).is_none()).count(),
        };
        let contradicted = node.entries().iter().filter(|entry| {
            let texts = view
                .property(&entry.key)
                .and_then(|schema| View::resolve(self.root, schema).enumeration(self.root));
            matches!((texts, entry.node.as_text()), (Some(texts), Some(text)) if !texts.contains(&text))
        });
        // A constant that contradicts is a tag of another branch, which says more than any number of keys.
        missing + unknown + 100 * contradicted.count()
    }

    /// Chooses the branch whose one key is there.
    fn choose_by_key(
        &mut self,
        view: &View<'run>,
        branches: &[&Branch<'run>],
        tags: &[&str],
        node: &Node,
        path: &FieldPath,
        parent: Option<&View<'run>>,
    ) -> Option<Value> {
        let present: Vec<usize> = tags
            .iter()
            .enumerate()
            .filter(|(_, tag)| node.get(tag).is_some())
            .map(|(index, _)| index)
            .collect();
        if let [only] = present.as_slice() {
            return self.value(&branches[*only].1, node, path, parent);
        }
        let names = suggest::listed(tags);
        let diagnostic = if present.is_empty() {
            Diagnostic::error("choose-one", format!("one of {names} is needed here"))
                .label("none of them is given")
        } else {
            let given: Vec<&str> = present.iter().map(|index| tags[*index]).collect();
            let message = format!("only one of {} can be given", suggest::listed(&given));
            Diagnostic::error("choose-one", message).label("more than one is given")
        };
        let second = present.get(1).and_then(|index| node.entry(tags[*index])).map(|entry| entry.key_span);
        let span = second.unwrap_or_else(|| first_line_span(node));
        self.report(diagnostic.help(format!("choose one of {names}")), span, path);

        // The rest of the mapping may have problems of its own.
        for entry in node.entries() {
            let field_path = path.child(&entry.key);
            let known = branches.iter().find_map(|branch| branch.1.property(&entry.key));
            match known.or_else(|| view.property(&entry.key)) {
                Some(_) if entry.node.is_null() => {}
                Some(schema) => {
                    let field = View::resolve(self.root, schema);
                    self.value(&field, &entry.node, &field_path, Some(view));
                }
                None => self.unknown_tag(view, tags, entry, &field_path),
            }
        }
        None
    }

    fn unknown_tag(
        &mut self,
        view: &View<'run>,
        tags: &[&str],
        entry: &crate::tree::Entry,
        path: &FieldPath,
    ) {
        if view.additional().is_some() {
            return;
        }
        let names: Vec<&str> = tags.iter().copied().chain(view.property_names()).collect();
        let help = match suggest::closest(&entry.key, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => suggest::known_fields(&names),
        };
        let diagnostic = Diagnostic::error("unknown-field", format!("unknown field `{}`", entry.key))
            .label("not known here")
            .help(help);
        self.report(diagnostic, entry.key_span, path);
    }

    /// No branch takes a node of this kind.
    fn no_branch(&mut self, all: &[Branch<'run>], node: &Node, path: &FieldPath) -> Option<Value> {
        let mut expected: Vec<&str> = Vec::new();
        for branch in all {
            let words = self.expected(&branch.1);
            if !expected.contains(&words) {
                expected.push(words);
            }
        }
        let message = format!("expected {}, found {}", expected.join(" or "), node.kind_name());
        let mut diagnostic =
            Diagnostic::error("wrong-type", message).label(format!("this is {}", node.kind_name()));
        let tags: Option<Vec<&str>> = all.iter().map(|branch| only_tag(&branch.1)).collect();
        if let Some(tags) = tags {
            diagnostic = diagnostic.help(format!("write a mapping with one of {}", suggest::listed(&tags)));
        }
        self.report(diagnostic, first_line_span(node), path);
        None
    }
}

/// The one property a branch requires, if that is all it requires.
fn only_tag<'run>(view: &View<'run>) -> Option<&'run str> {
    match view.required().as_slice() {
        [only] if view.property(only).is_none_or(|schema| schema.get("const").is_none()) => Some(only),
        _ => None,
    }
}
