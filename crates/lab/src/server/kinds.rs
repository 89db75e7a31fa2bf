//! What admission asks about kinds.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::policies::typecheck;
use crate::admission::{Equivalent, Kinds};
use crate::clock::Clock;
use crate::kinds;
use crate::names::{GroupResource, Gvk};
use crate::registry::{Registry, Served, Source};
use crate::schema::{builtin, decode};
use crate::status::Status;

/// The kinds a server serves, as admission sees them.
#[derive(Debug)]
pub(crate) struct ServedKinds {
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Arc<dyn Clock>,
}

impl ServedKinds {
    fn served(&self, kind: &Gvk) -> Result<Arc<Served>, Status> {
        self.registry.by_kind(kind).ok_or_else(|| not_served(kind))
    }
}

fn not_served(kind: &Gvk) -> Status {
    Status::internal(format!("{} is not served", kind.kind))
}

impl Kinds for ServedKinds {
    fn equivalents(&self, group: &str, version: &str, resource: &str, _: &str) -> Vec<Equivalent> {
        let Some(served) = self.registry.find(group, version, resource) else { return Vec::new() };
        self.registry
            .alike(&served)
            .into_iter()
            .map(|other| Equivalent {
                group: other.kind.group.clone(),
                version: other.kind.version.clone(),
                resource: other.resource.resource.clone(),
                kind: other.kind.clone(),
            })
            .collect()
    }

    fn convert(&self, object: &Value, to: &Gvk) -> Result<Value, Status> {
        let served = self.served(to)?;
        match &served.source {
            Source::Builtin(_) => kinds::convert(object.clone(), to),
            Source::Custom(..) => {
                let mut object = object.clone();
                object["apiVersion"] = to.api_version().into();
                Ok(object)
            }
        }
    }

    fn decode(&self, kind: &Gvk, object: Value) -> Result<Value, Status> {
        let mut object = object;
        let served = self.registry.by_kind(kind);
        if let Some(version) = served.as_ref().and_then(|served| served.custom_version()) {
            version.decode(&mut object, false)?;
            version.default(&mut object);
            return Ok(object);
        }
        // Kinds that only subresources take, such as evictions, are built in but not served.
        let shape = builtin::kind_of(kind).ok_or_else(|| not_served(kind))?;
        object = decode::convert(shape, object).map_err(Status::bad_request)?.value;
        kinds::default(kind, &mut object, self.clock.now());
        Ok(object)
    }

    fn merge(&self, kind: &Gvk, object: &Value, configuration: &Value) -> Result<Value, String> {
        let served = self.registry.by_kind(kind);
        let shape = match &served {
            Some(served) => served.shape(),
            None => builtin::kind_of(kind),
        };
        let shape = shape.ok_or_else(|| "a kind without a shape".to_owned())?;
        crate::admission::policies::apply::merged(shape, object, configuration)
    }

    fn kind_of(&self, group: &str, version: &str, resource: &str) -> Option<Gvk> {
        self.registry.find(group, version, resource).map(|served| served.kind.clone())
    }

    fn type_of(&self, kind: &Gvk) -> Option<crate::cel::Type> {
        let served = self.registry.by_kind(kind)?;
        Some(typecheck::type_of_shape(served.shape()?, &kind.kind))
    }

    fn resource_of(&self, kind: &Gvk) -> Option<(GroupResource, bool)> {
        self.registry.by_kind(kind).map(|served| (served.resource.clone(), served.namespaced))
    }
}

impl crate::admission::Authorizer for crate::auth::Authorizer {
    fn decide(&self, attributes: &crate::attributes::Attributes) -> crate::admission::Decision {
        let verdict = self.explain(attributes);
        crate::admission::Decision { allowed: verdict.allowed, reason: verdict.reason, error: None }
    }
}

impl super::Server {
    /// What admission asks about kinds, for others who ask the same.
    pub(crate) fn served_kinds(&self) -> ServedKinds {
        ServedKinds { registry: Arc::clone(&self.registry), clock: Arc::clone(&self.clock) }
    }
}
