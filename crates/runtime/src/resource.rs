//! What a kind of object is called on the wire, and what one object of it is called.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A kind of object as an API server serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The group; empty for the one without a name.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The name in paths, such as `machines`.
    pub plural: &'static str,
    /// The name in objects, such as `Machine`.
    pub kind: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// A kind whose objects live in namespaces.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { group, version, plural, kind, namespaced: true }
    }

    /// A kind whose objects live in the cluster.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { group, version, plural, kind, namespaced: false }
    }

    /// What objects of this kind say under `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all objects of a namespace; of all namespaces where it is empty.
    pub fn collection(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "/api/" } else { "/apis/" };
        let separator = if self.group.is_empty() { "" } else { "/" };
        let mut path = format!("{root}{}{separator}{}", self.group, self.version);
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            escape_into(&mut path, namespace);
        }
        path.push('/');
        path.push_str(self.plural);
        path
    }

    /// The path of one object.
    pub fn object(&self, key: &Key) -> String {
        let mut path = self.collection(key.namespace());
        path.push('/');
        escape_into(&mut path, key.name());
        path
    }

    /// Whether objects of this kind are secrets, of which not even a server's complaint may be repeated.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }

    /// What logs and metrics call this kind: `machines.cluster.k8s.io`.
    pub fn label(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Adds text to a path or a query so that none of it is taken for structure.
pub(crate) fn escape_into(path: &mut String, text: &str) {
    use fmt::Write as _;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

/// What tells an object from all others of its kind. One allocation, shared by all copies: caches, indexes and queues
/// hold the same one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The object of this name in this namespace; in the cluster, where the namespace is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self(name.into()) } else { Self(format!("{namespace}/{name}").into()) }
    }

    /// An object that lives in no namespace.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// The namespace; empty for an object that lives in none.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// Another object of the same namespace.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        Self::new(self.namespace(), name)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");
    const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
    const VM: Resource = Resource::namespaced("kubevirt.io", "v1", "virtualmachines", "VirtualMachine");

    #[test]
    fn paths_follow_the_scope() {
        assert_eq!(POD.collection(""), "/api/v1/pods");
        assert_eq!(POD.collection("a"), "/api/v1/namespaces/a/pods");
        assert_eq!(VM.object(&Key::new("a", "b")), "/apis/kubevirt.io/v1/namespaces/a/virtualmachines/b");
        assert_eq!(NODE.object(&Key::cluster("n")), "/api/v1/nodes/n");
        assert_eq!(NODE.collection("ignored"), "/api/v1/nodes");
        assert_eq!(VM.api_version(), "kubevirt.io/v1");
        assert_eq!(POD.api_version(), "v1");
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_a_path() {
        assert_eq!(POD.object(&Key::new("a", "../x?y")), "/api/v1/namespaces/a/pods/..%2Fx%3Fy");
    }

    #[test]
    fn keys_know_their_parts() {
        let key = Key::new("ns", "name");
        assert_eq!((key.namespace(), key.name()), ("ns", "name"));
        assert_eq!((Key::cluster("n").namespace(), Key::cluster("n").name()), ("", "n"));
        assert_eq!(key.beside("other"), Key::new("ns", "other"));
        assert_eq!(key.to_string(), "ns/name");
    }
}
