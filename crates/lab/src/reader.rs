//! How the parts that decide look at stored objects.

use std::sync::Arc;

use serde_json::Value;

use crate::names::GroupResource;

/// Read access to the stored objects, as of now.
///
/// Objects are in their storage version. Reading is cheap but not free: what is needed for every request
/// (roles, webhooks, policies) is compiled once and kept until [`Reader::revision`] changes.
pub trait Reader: Send + Sync {
    /// The object, if it is there. `namespace` is empty for objects of the cluster.
    fn get(&self, of: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// All objects of a resource, or those of one namespace.
    fn list(&self, of: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>>;

    /// A number that grows whenever an object of the resource is written or removed.
    fn revision(&self, of: &GroupResource) -> u64;
}

/// Objects in a plain list, for tests of what decides.
#[derive(Debug, Default)]
#[cfg(test)]
pub(crate) struct Fixture {
    objects: Vec<(GroupResource, Arc<Value>)>,
}

#[cfg(test)]
impl Fixture {
    /// Adds an object of a resource.
    #[must_use]
    pub(crate) fn with(mut self, of: GroupResource, object: Value) -> Self {
        self.objects.push((of, Arc::new(object)));
        self
    }
}

#[cfg(test)]
impl Reader for Fixture {
    fn get(&self, of: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.list(of, Some(namespace)).into_iter().find(|object| object["metadata"]["name"] == name)
    }

    fn list(&self, of: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let place = |object: &Value| object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        self.objects
            .iter()
            .filter(|(resource, object)| {
                resource == of && namespace.is_none_or(|wanted| place(object) == wanted)
            })
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    fn revision(&self, _: &GroupResource) -> u64 {
        self.objects.len() as u64
    }
}
