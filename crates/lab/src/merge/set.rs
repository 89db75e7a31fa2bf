//! Sets of paths into an object: who owns what, what was changed.

use std::cmp::Ordering;

use super::element::Element;

/// A set of paths, as a tree whose levels are sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set<'a> {
    nodes: Vec<Node<'a>>,
}

/// A path of one step and what follows it. No node is without both membership and children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub(super) element: Element<'a>,
    /// True when the path that ends here is in the set.
    pub(super) member: bool,
    /// The paths that go on from here.
    pub(super) children: Set<'a>,
}

/// A step of a pattern of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The field of this name.
    Field(&'static str),
    /// Whatever there is: the items of a list.
    Any,
}

impl<'a> Set<'a> {
    /// The set without paths.
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// The set of these paths of field names.
    pub(crate) fn of_fields(paths: &[&[&'a str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let path: Vec<Element<'a>> = path.iter().map(|name| Element::Field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// True when there is no path in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    fn find(&self, element: &Element<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    fn get(&self, element: &Element<'_>) -> Option<&Node<'a>> {
        self.find(element).ok().map(|place| &self.nodes[place])
    }

    /// Adds a path. The path without steps is the whole object, which nobody owns.
    pub(crate) fn insert(&mut self, path: &[Element<'a>]) {
        let Some((first, rest)) = path.split_first() else { return };
        let place = match self.find(first) {
            Ok(place) => place,
            Err(place) => {
                let node = Node { element: first.clone(), member: false, children: Set::new() };
                self.nodes.insert(place, node);
                place
            }
        };
        if rest.is_empty() {
            self.nodes[place].member = true;
        } else {
            self.nodes[place].children.insert(rest);
        }
    }

    /// Adds a step with what follows it. Cheap when steps come in their order.
    pub(super) fn push(&mut self, element: Element<'a>, member: bool, children: Set<'a>) {
        if !member && children.is_empty() {
            return;
        }
        let node = Node { element, member, children };
        if self.nodes.last().is_none_or(|last| last.element < node.element) {
            self.nodes.push(node);
            return;
        }
        match self.find(&node.element) {
            Ok(place) => {
                let present = &mut self.nodes[place];
                present.member |= node.member;
                present.children = std::mem::take(&mut present.children).union(node.children);
            }
            Err(place) => self.nodes.insert(place, node),
        }
    }

    /// Changes every step of the first level; steps with neither membership nor children left disappear.
    pub(super) fn map_nodes(mut self, mut change: impl FnMut(&mut Node<'a>)) -> Set<'a> {
        self.nodes.retain_mut(|node| {
            change(node);
            node.member || !node.children.is_empty()
        });
        self
    }

    /// True when the path of this one step is in the set.
    pub(super) fn contains(&self, element: &Element<'_>) -> bool {
        self.get(element).is_some_and(|node| node.member)
    }

    /// True when the path is in the set.
    pub(crate) fn has(&self, path: &[Element<'_>]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first)
            .is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has(rest) })
    }

    /// The paths that begin with a step, without it.
    pub(crate) fn with_prefix(&self, element: &Element<'_>) -> Option<&Set<'a>> {
        self.get(element).map(|node| &node.children).filter(|children| !children.is_empty())
    }

    /// The paths of either set.
    #[must_use]
    pub(crate) fn union(self, other: Set<'a>) -> Set<'a> {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let (mut left, mut right) = (self.nodes.into_iter().peekable(), other.nodes.into_iter().peekable());
        while let (Some(mine), Some(theirs)) = (left.peek(), right.peek()) {
            match mine.element.cmp(&theirs.element) {
                Ordering::Less => nodes.extend(left.next()),
                Ordering::Greater => nodes.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(mine), Some(theirs)) = (left.next(), right.next()) {
                        nodes.push(Node {
                            element: mine.element,
                            member: mine.member || theirs.member,
                            children: mine.children.union(theirs.children),
                        });
                    }
                }
            }
        }
        nodes.extend(left);
        nodes.extend(right);
        Set { nodes }
    }

    /// The paths of both sets.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Set<'_>) -> Set<'a> {
        let mut out = Set::new();
        self.pairs(other, |mine, theirs| {
            if let Some(theirs) = theirs {
                let children = mine.children.intersection(&theirs.children);
                out.push(mine.element.clone(), mine.member && theirs.member, children);
            }
        });
        out
    }

    /// True when some path is in both sets.
    #[cfg(test)]
    pub(crate) fn intersects(&self, other: &Set<'_>) -> bool {
        let mut found = false;
        self.pairs(other, |mine, theirs| {
            found = found
                || theirs.is_some_and(|theirs| {
                    (mine.member && theirs.member) || mine.children.intersects(&theirs.children)
                });
        });
        found
    }

    /// True when all paths of the other set are in this one.
    pub(crate) fn covers(&self, other: &Set<'_>) -> bool {
        let mut all = true;
        other.pairs(self, |theirs, mine| {
            all = all
                && mine.is_some_and(|mine| {
                    (mine.member || !theirs.member) && mine.children.covers(&theirs.children)
                });
        });
        all
    }

    /// The paths that are not in the other set.
    #[must_use]
    pub(crate) fn difference(self, other: &Set<'_>) -> Set<'a> {
        self.without(other, |mine, theirs| {
            mine.member &= !theirs.member;
            mine.children = std::mem::take(&mut mine.children).difference(&theirs.children);
        })
    }

    /// The paths that neither are in the other set nor go on from one that is.
    #[must_use]
    pub(crate) fn recursive_difference(self, other: &Set<'_>) -> Set<'a> {
        self.without(other, |mine, theirs| {
            let children = std::mem::take(&mut mine.children);
            if theirs.member {
                mine.member = false;
            } else {
                mine.children = children.recursive_difference(&theirs.children);
            }
        })
    }

    fn without(mut self, other: &Set<'_>, mut change: impl FnMut(&mut Node<'a>, &Node<'_>)) -> Set<'a> {
        if other.is_empty() {
            return self;
        }
        let mut theirs = other.nodes.iter().peekable();
        self.nodes.retain_mut(|mine| {
            while let Some(node) = theirs.peek() {
                match node.element.cmp(&mine.element) {
                    Ordering::Less => {
                        theirs.next();
                    }
                    Ordering::Equal => {
                        change(mine, node);
                        return mine.member || !mine.children.is_empty();
                    }
                    Ordering::Greater => break,
                }
            }
            true
        });
        self
    }

    /// Calls for every step of this set, with the same step of the other one where it has it.
    fn pairs<'s, 'o, 'b>(
        &'s self,
        other: &'o Set<'b>,
        mut call: impl FnMut(&'s Node<'a>, Option<&'o Node<'b>>),
    ) {
        let mut theirs = other.nodes.iter().peekable();
        for mine in &self.nodes {
            while theirs.next_if(|node| node.element < mine.element).is_some() {}
            call(mine, theirs.peek().copied().filter(|node| node.element == mine.element));
        }
    }

    /// The paths that follow one of the patterns, or lead to one that does.
    #[must_use]
    pub(crate) fn matching(self, patterns: &[&[Step]]) -> Set<'a> {
        let mut out = Set::new();
        for node in self.nodes {
            let rests: Vec<&[Step]> = patterns
                .iter()
                .filter_map(|pattern| pattern.split_first())
                .filter(|(first, _)| match first {
                    Step::Any => true,
                    Step::Field(name) => matches!(node.element, Element::Field(field) if field == *name),
                })
                .map(|(_, rest)| rest)
                .collect();
            if rests.is_empty() {
                continue;
            }
            let whole = rests.iter().any(|rest| rest.is_empty());
            let children = if whole { node.children } else { node.children.matching(&rests) };
            out.push(node.element, node.member, children);
        }
        out
    }

    /// All paths: those that end on a level come before those that go on from it.
    pub(crate) fn paths(&self) -> Vec<Vec<Element<'a>>> {
        let mut out = Vec::new();
        self.add_paths(&mut Vec::new(), &mut out);
        out
    }

    fn add_paths(&self, prefix: &mut Vec<Element<'a>>, out: &mut Vec<Vec<Element<'a>>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            out.push(path);
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(node.element.clone());
            node.children.add_paths(prefix, out);
            prefix.pop();
        }
    }
}

/// A path as it is shown in messages, such as `.spec.ports[port=80,protocol="TCP"].name`.
pub(crate) fn path_text(path: &[Element<'_>]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(paths: &[&[&'static str]]) -> Set<'static> {
        Set::of_fields(paths)
    }

    fn texts(set: &Set<'_>) -> Vec<String> {
        set.paths().iter().map(|path| path_text(path)).collect()
    }

    #[test]
    fn difference_keeps_children_unless_recursive() {
        let all = set(&[&["a"], &["a", "b"], &["a", "c"], &["d"]]);
        assert_eq!(texts(&all), [".a", ".d", ".a.b", ".a.c"]);
        assert_eq!(texts(&all.clone().difference(&set(&[&["a"], &["a", "c"]]))), [".d", ".a.b"]);
        assert_eq!(texts(&all.clone().recursive_difference(&set(&[&["a"]]))), [".d"]);
        assert!(all.has(&[Element::Field("a"), Element::Field("b")]));
        assert!(!all.has(&[Element::Field("a"), Element::Field("x")]) && !all.has(&[]));
    }

    #[test]
    fn patterns_keep_what_leads_to_them() {
        let all = set(&[
            &["spec"],
            &["spec", "x"],
            &["spec", "list", "1", "res", "cpu"],
            &["spec", "list", "1", "y"],
        ]);
        let pattern = [Step::Field("spec"), Step::Field("list"), Step::Any, Step::Field("res")];
        assert_eq!(texts(&all.matching(&[&pattern])), [".spec", ".spec.list.1.res.cpu"]);
    }

    fn any_set() -> impl Strategy<Value = Set<'static>> {
        let step = prop::sample::select(vec!["a", "b", "c"]);
        prop::collection::vec(prop::collection::vec(step, 1..4), 0..12).prop_map(|paths| {
            let paths: Vec<&[&'static str]> = paths.iter().map(Vec::as_slice).collect();
            Set::of_fields(&paths)
        })
    }

    proptest! {
        #[test]
        fn sets_follow_the_laws_of_sets(a in any_set(), b in any_set(), c in any_set()) {
            prop_assert_eq!(a.clone().union(b.clone()), b.clone().union(a.clone()));
            prop_assert_eq!(a.clone().union(a.clone()), a.clone());
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
            prop_assert_eq!(a.covers(&b), b.clone().difference(&a).is_empty());
            prop_assert_eq!(a.clone().difference(&b).intersection(&b), Set::new());
            prop_assert_eq!(a.clone().difference(&b).union(a.intersection(&b)), a.clone());
            prop_assert_eq!(
                a.clone().union(b.clone()).union(c.clone()),
                a.clone().union(b.clone().union(c.clone()))
            );
            prop_assert_eq!(
                a.clone().difference(&b).difference(&c),
                a.clone().difference(&b.clone().union(c.clone()))
            );
            for path in a.paths() {
                prop_assert!(a.has(&path) && a.clone().union(b.clone()).has(&path));
                prop_assert_eq!(a.intersection(&b).has(&path), b.has(&path));
            }
        }
    }
}
