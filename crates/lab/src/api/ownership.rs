//! Who owns which field after a write.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use super::options::WriteOptions;
use crate::kinds;
use crate::merge;
use crate::names::Gvk;
use crate::registry::{Served, Source};
use crate::schema::{TypeRef, builtin};
use crate::status::Status;

/// The version of `Scale`.
const SCALE: &str = "autoscaling/v1";

/// The bookkeeping of writes to objects of a resource.
pub(super) struct Owners<'a> {
    pub(super) served: &'a Served,
    /// The part of the object that is written; empty for the object itself.
    pub(super) subresource: &'a str,
    pub(super) now: Timestamp,
}

impl Owners<'_> {
    /// Records who owns what after a write that is no apply.
    pub(super) fn update(&self, manager: &str, old: Option<&Value>, new: &mut Value) {
        let api_version = self.served.kind.api_version();
        let versions = KindVersions(self.served);
        merge::update(&self.context(manager, &api_version, &versions), old, new);
    }

    /// Applies a configuration for a manager.
    pub(super) fn apply(
        &self,
        options: &WriteOptions,
        live: Option<&Value>,
        configuration: &Value,
    ) -> Result<Value, Status> {
        let api_version = self.served.kind.api_version();
        let versions = KindVersions(self.served);
        let context = self.context(&options.field_manager, &api_version, &versions);
        merge::apply(&context, options.force, live, configuration)
    }

    /// Records who owns the number of replicas after a write to `scale`.
    pub(super) fn update_scale(&self, manager: &str, old: &Value, mut new: Value) -> Value {
        let versions = scale_shape;
        merge::update(&self.scale_context(manager, &versions), Some(old), &mut new);
        new
    }

    /// Applies a `Scale` for a manager.
    pub(super) fn apply_scale(
        &self,
        options: &WriteOptions,
        live: &Value,
        configuration: &Value,
    ) -> Result<Value, Status> {
        let versions = scale_shape;
        let context = self.scale_context(&options.field_manager, &versions);
        match self.served.source {
            Source::Builtin(_) => merge::apply(&context, options.force, Some(live), configuration),
            Source::Custom(..) => merge::apply_to_custom_scale(&context, options.force, live, configuration),
        }
    }

    fn context<'a>(
        &'a self,
        manager: &'a str,
        api_version: &'a str,
        versions: &'a dyn merge::Versions<'a>,
    ) -> merge::Context<'a> {
        merge::Context {
            manager,
            api_version,
            kind: &self.served.kind.kind,
            subresource: self.subresource,
            custom: matches!(self.served.source, Source::Custom(..)),
            now: self.now,
            versions,
            reset: self.served.reset(self.subresource),
        }
    }

    fn scale_context<'a>(
        &self,
        manager: &'a str,
        versions: &'a dyn merge::Versions<'a>,
    ) -> merge::Context<'a> {
        merge::Context {
            manager,
            api_version: SCALE,
            kind: "Scale",
            subresource: "scale",
            custom: false,
            now: self.now,
            versions,
            reset: merge::Reset::Nothing,
        }
    }
}

/// The versions of a kind, in which managers may have written.
struct KindVersions<'a>(&'a Served);

impl<'a> merge::Versions<'a> for KindVersions<'a> {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'a>> {
        self.0.shape_in(api_version)
    }

    fn convert<'v>(&self, object: &'v Value, to: &str) -> Cow<'v, Value> {
        // Custom resources whose versions differ are converted by webhooks, which are not asked about owners.
        if matches!(self.0.source, Source::Custom(..)) || object["apiVersion"] == to {
            return Cow::Borrowed(object);
        }
        let (group, version) = to.rsplit_once('/').unwrap_or(("", to));
        match kinds::convert(object.clone(), &Gvk::new(group, version, &self.0.kind.kind)) {
            Ok(converted) => Cow::Owned(converted),
            // A version of another kind is none of this one, and nobody writes in it.
            Err(_) => Cow::Borrowed(object),
        }
    }
}

/// The shape of a `Scale`.
fn scale_shape(api_version: &str) -> Option<TypeRef<'static>> {
    let kind = Gvk::new("autoscaling", "v1", "Scale");
    (api_version == SCALE).then(|| builtin::kind_of(&kind)).flatten()
}
