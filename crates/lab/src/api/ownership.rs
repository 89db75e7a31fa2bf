//! Who owns which field after a write.

use std::borrow::Cow;
use std::cell::RefCell;

use jiff::Timestamp;
use serde_json::Value;

use super::options::WriteOptions;
use crate::crd::Conversion;
use crate::kinds;
use crate::merge;
use crate::names::Gvk;
use crate::registry::{Served, Source};
use crate::schema::{TypeRef, builtin};
use crate::server::Server;
use crate::status::Status;

/// The version of `Scale`.
const SCALE: &str = "autoscaling/v1";

/// How many conversions by webhooks one write can need. A few per version in which somebody wrote are usual.
const MOST_CONVERSIONS: usize = 256;

/// The bookkeeping of writes to objects of a resource.
pub(super) struct Owners<'a> {
    pub(super) server: &'a Server,
    pub(super) served: &'a Served,
    /// The part of the object that is written; empty for the object itself.
    pub(super) subresource: &'a str,
    pub(super) now: Timestamp,
}

impl Owners<'_> {
    /// Records who owns what after a write that is no apply.
    pub(super) async fn update(&self, manager: &str, old: Option<&Value>, new: &mut Value) {
        let api_version = self.served.kind.api_version();
        // Only where a webhook may have to be asked it can be necessary to begin anew.
        let before = asks_webhook(self.served).then(|| new.clone());
        let tracked = self.converting(|versions| {
            if let Some(before) = &before {
                new.clone_from(before);
            }
            merge::update(&self.context(manager, &api_version, versions), old, new);
        });
        // A write does not fail because nobody can say who owns what after it: all stays as it was.
        if tracked.await.is_err()
            && let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut)
        {
            match old.map(|old| &old["metadata"]["managedFields"]) {
                None | Some(Value::Null) => metadata.remove("managedFields"),
                Some(stored) => metadata.insert("managedFields".to_owned(), stored.clone()),
            };
        }
    }

    /// Applies a configuration for a manager.
    pub(super) async fn apply(
        &self,
        options: &WriteOptions,
        live: Option<&Value>,
        configuration: &Value,
    ) -> Result<Value, Status> {
        let api_version = self.served.kind.api_version();
        let applied = self.converting(|versions| {
            let context = self.context(&options.field_manager, &api_version, versions);
            merge::apply(&context, options.force, live, configuration)
        });
        applied.await.map_err(|failed| {
            let is_live = live.is_some_and(|live| without_owners(live) == failed.object);
            let what = if is_live { "" } else { "failed to convert new object: " };
            Status::new(500, "", format!("{what}{}", failed.why))
        })?
    }

    /// Runs something that needs objects in other versions, and once more with each conversion that only a webhook
    /// can tell, until it has all of them. What comes of the runs before does not count.
    async fn converting<T: Send>(
        &self,
        mut run: impl FnMut(&KindVersions<'_>) -> T + Send,
    ) -> Result<T, Unconverted> {
        let mut known = Vec::new();
        loop {
            let versions = KindVersions { served: self.served, known: &known, missing: RefCell::new(None) };
            let outcome = run(&versions);
            let (object, to) = match versions.missing.into_inner() {
                None => return Ok(outcome),
                Some(Missing::Unasked(object, to)) => (object, to),
                Some(Missing::Misfit(object, why)) => return Err(Unconverted { object, why }),
            };
            drop(outcome);
            if known.len() == MOST_CONVERSIONS {
                let why = "too many conversions are needed to tell who owns what".to_owned();
                return Err(Unconverted { object, why });
            }
            match self.server.convert(self.served, object.clone(), &to).await {
                Ok(converted) => known.push(Known { object, to, converted }),
                Err(why) => return Err(Unconverted { object, why: why.message }),
            }
        }
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

/// An object that a webhook converted.
struct Known {
    object: Value,
    to: Gvk,
    converted: Value,
}

/// An object that could not be converted, and why.
struct Unconverted {
    object: Value,
    why: String,
}

/// Why a run does not count.
enum Missing {
    /// A webhook has to convert an object.
    Unasked(Value, Gvk),
    /// A converted object does not fit its version.
    Misfit(Value, String),
}

/// The versions of a kind, in which managers may have written.
struct KindVersions<'a> {
    served: &'a Served,
    /// What webhooks said so far.
    known: &'a [Known],
    /// The first conversion that was missing. All that follows builds on it, and is not looked at.
    missing: RefCell<Option<Missing>>,
}

/// True for kinds whose versions differ in a way that only a webhook knows.
fn asks_webhook(served: &Served) -> bool {
    matches!(&served.source, Source::Custom(kind, _) if kind.conversion != Conversion::None)
}

/// An object as merging sees it.
fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

impl KindVersions<'_> {
    /// The object as a webhook converts it, or as it is if that is not known yet.
    fn asked<'v>(&self, object: &'v Value, to: &Gvk) -> Cow<'v, Value> {
        let sent = without_owners(object);
        if let Some(known) = self.known.iter().find(|known| known.to == *to && known.object == sent) {
            self.check(object, &known.converted, to);
            return Cow::Owned(known.converted.clone());
        }
        self.missing.borrow_mut().get_or_insert_with(|| Missing::Unasked(sent, to.clone()));
        Cow::Borrowed(object)
    }

    /// Notes when what an object was converted to does not fit its version.
    fn check(&self, object: &Value, converted: &Value, to: &Gvk) {
        let Some(of) = self.served.shape_in(&to.api_version()) else { return };
        if let Err(why) = merge::check(of, converted, true) {
            let misfit = || Missing::Misfit(without_owners(object), why.to_string());
            self.missing.borrow_mut().get_or_insert_with(misfit);
        }
    }
}

impl<'a> merge::Versions<'a> for KindVersions<'a> {
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'a>> {
        self.served.shape_in(api_version)
    }

    fn convert<'v>(&self, object: &'v Value, to: &str) -> Cow<'v, Value> {
        if object["apiVersion"] == to {
            return Cow::Borrowed(object);
        }
        let own = &self.served.kind;
        let (group, version) = to.rsplit_once('/').unwrap_or(("", to));
        let to = Gvk::new(group, version, &own.kind);
        if matches!(self.served.source, Source::Custom(..)) {
            if !asks_webhook(self.served) {
                self.check(object, object, &to);
                return Cow::Borrowed(object);
            }
            // All ways lead through the version of the write.
            if to == *own || object["apiVersion"] == own.api_version() {
                return self.asked(object, &to);
            }
            return Cow::Owned(self.asked(&self.asked(object, own), &to).into_owned());
        }
        match kinds::convert(object.clone(), &to) {
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
