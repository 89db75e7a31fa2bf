//! Counting requests.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::Resource;

/// What a request wants, in the words of access rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows many.
    Watch,
    /// Makes one.
    Create,
    /// Replaces one.
    Update,
    /// Changes one.
    Patch,
    /// Removes one.
    Delete,
}

impl Verb {
    /// The word in access rules.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Whether it only reads.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// One kind of request: what rights are given for, and what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// What it wants.
    pub verb: Verb,
    /// Of which group.
    pub group: &'static str,
    /// Of which kind.
    pub plural: &'static str,
    /// Of which subresource; empty for the object itself.
    pub subresource: &'static str,
}

impl Request {
    /// A request for objects of a kind, or for a subresource of them.
    pub const fn new(verb: Verb, resource: &Resource, subresource: &'static str) -> Self {
        Self { verb, group: resource.group, plural: resource.plural, subresource }
    }

    /// The kind as metrics name it: `pods/eviction`, `machines.cluster.k8s.io/status`.
    pub fn resource(&self) -> String {
        let mut text = self.plural.to_owned();
        for (separator, part) in [('.', self.group), ('/', self.subresource)] {
            if !part.is_empty() {
                text.push(separator);
                text.push_str(part);
            }
        }
        text
    }
}

/// How many requests were made of each kind, by how they ended.
#[derive(Debug, Default)]
pub struct Traffic {
    counts: Mutex<BTreeMap<(Request, &'static str), u64>>,
}

impl Traffic {
    pub(crate) fn count(&self, request: Request, result: &'static str) {
        *self.counts.lock().entry((request, result)).or_default() += 1;
    }

    /// Each kind of request and result with its number, in order.
    pub fn all(&self) -> Vec<(Request, &'static str, u64)> {
        self.counts.lock().iter().map(|((request, result), count)| (*request, *result, *count)).collect()
    }

    /// How many requests of a verb were made for a kind, its subresources included.
    pub fn of(&self, verb: Verb, resource: &Resource) -> u64 {
        self.sum(|request| {
            request.verb == verb && (request.group, request.plural) == (resource.group, resource.plural)
        })
    }

    /// How many requests were made that a filter picks.
    pub fn sum(&self, pick: impl Fn(&Request) -> bool) -> u64 {
        self.counts.lock().iter().filter(|((request, _), _)| pick(request)).map(|(_, count)| count).sum()
    }

    /// How many requests were made that change something.
    pub fn writes(&self) -> u64 {
        self.sum(|request| !request.verb.is_read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
        const VMS: Resource = Resource::namespaced("kubevirt.io", "v1", "virtualmachines", "VirtualMachine");
        let traffic = Traffic::default();
        traffic.count(Request::new(Verb::Create, &PODS, "eviction"), "ok");
        traffic.count(Request::new(Verb::Create, &PODS, ""), "ok");
        traffic.count(Request::new(Verb::Get, &VMS, ""), "not_found");
        assert_eq!(traffic.of(Verb::Create, &PODS), 2);
        assert_eq!(traffic.writes(), 2);
        let names: Vec<_> = traffic.all().iter().map(|(request, _, _)| request.resource()).collect();
        assert_eq!(names, ["virtualmachines.kubevirt.io", "pods", "pods/eviction"]);
    }
}
