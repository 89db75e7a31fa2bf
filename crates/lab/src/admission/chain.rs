//! The steps of admission in their order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::plugins::{
    certificates, classes, limit_ranger, namespace_lifecycle, nodes, pod_resize, priority, runtime_class,
    service_account, storage, tolerations,
};
use super::policies::{self, Policies};
use super::quota::{self, Charge, Charged};
use super::review::{Operation, Review};
use super::webhooks::{self, Invoked, Registered, Webhook};
use super::{Kinds, SharedAuthorizer, Warnings, json, security, warn};
use crate::clock::Clock;
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::server::chance::Chance;
use crate::status::Status;
use crate::webhook::Client;

/// How often and how long a pod waits for the default service account of a new namespace.
const ACCOUNT_WAITS: usize = 10;
const ACCOUNT_WAIT: Duration = Duration::from_millis(150);

/// What [`Admission`] is made of.
pub(crate) struct AdmissionParts {
    /// The stored objects.
    pub reader: Arc<dyn Reader>,
    /// Knowledge about kinds.
    pub kinds: Arc<dyn Kinds>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Calls webhooks.
    pub client: Arc<Client>,
    /// Where chance comes from.
    pub chance: Arc<Chance>,
    /// Who may do what.
    pub authorizer: SharedAuthorizer,
}

/// Runs requests through admission. One per server.
pub(crate) struct Admission {
    parts: AdmissionParts,
    mutating: Mutex<Registered>,
    validating: Mutex<Registered>,
    policies: Policies,
}

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Admission").finish_non_exhaustive()
    }
}

/// Puts back who manages which field, if somebody broke that.
fn restore_managed(review: &mut Review<'_>, managed: Option<Value>, warnings: &mut Warnings) {
    let Some(object) = review.object.as_mut() else { return };
    let Err(why) = crate::merge::check_entries(&object["metadata"]["managedFields"]) else { return };
    let metadata = json::object(json::at(object, "metadata"));
    match managed {
        Some(managed) => metadata.insert("managedFields".to_owned(), managed),
        None => metadata.remove("managedFields"),
    };
    warn(
        warnings,
        format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
             mutating admission controller; please fix your requests: {why}"
        ),
    );
}

impl Admission {
    /// Admission with these parts.
    pub(crate) fn new(parts: AdmissionParts) -> Self {
        Self {
            parts,
            mutating: Mutex::new(Registered::default()),
            validating: Mutex::new(Registered::default()),
            policies: Policies::default(),
        }
    }

    /// Lets everybody change the object, or refuses it. To be called with the defaulted object, before it is
    /// validated.
    pub(crate) async fn mutate(&self, review: &mut Review<'_>) -> Result<Warnings, Status> {
        let mut warnings = Warnings::new();
        self.mutate_built_in(review).await?;
        if self.mutating_webhooks().is_empty() && !self.policies.any_mutating(self.reader()) {
            return Ok(warnings);
        }
        let managed =
            review.object.as_ref().and_then(|object| object["metadata"].get("managedFields").cloned());
        let mut invoked = Invoked::default();
        let mut applied = policies::mutating::Applied::default();
        let changed = self.mutate_outside(review, &mut invoked, &mut applied, false, &mut warnings).await?;
        if changed {
            // Somebody from outside changed the object: the built-in rules apply to the result as well, and those
            // who asked for it are called again.
            self.mutate_built_in(review).await?;
            self.mutate_outside(review, &mut invoked, &mut applied, true, &mut warnings).await?;
            restore_managed(review, managed, &mut warnings);
        }
        Ok(warnings)
    }

    /// Lets those change the object who were registered through the API; says whether somebody did.
    async fn mutate_outside(
        &self,
        review: &mut Review<'_>,
        invoked: &mut Invoked,
        applied: &mut policies::mutating::Applied,
        again: bool,
        warnings: &mut Warnings,
    ) -> Result<bool, Status> {
        let mut changed = policies::mutating::mutate(self, review, applied, again)?;
        changed |= webhooks::mutate(self, review, invoked, again, warnings).await?;
        Ok(changed)
    }

    async fn mutate_built_in(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let reader = self.reader();
        namespace_lifecycle::mutate(review, reader)?;
        limit_ranger::mutate(review, reader);
        self.wait_for_account(review).await;
        service_account::mutate(review, reader)?;
        nodes::taint(review);
        priority::mutate(review, reader)?;
        tolerations::set_defaults(review);
        classes::storage(review, reader);
        storage::protect(review);
        runtime_class::mutate(review, reader)?;
        classes::ingress(review, reader);
        nodes::label_topology(review, reader);
        Ok(())
    }

    /// Refuses the object, or not. To be called after it was validated, right before it is stored. Quotas are
    /// left to [`Admission::charge`].
    pub(crate) async fn validate(&self, review: &Review<'_>) -> Result<Warnings, Status> {
        let mut warnings = Warnings::new();
        let reader = self.reader();
        limit_ranger::validate(review, reader)?;
        service_account::validate(review, reader)?;
        security::validate(review, reader, &mut warnings)?;
        priority::validate(review, reader)?;
        storage::validate_growth(review, reader)?;
        runtime_class::validate(review, reader)?;
        certificates::validate(review, self.authorizer())?;
        pod_resize::validate(review, reader)?;
        policies::validating::validate(self, review, &mut warnings)?;
        webhooks::validate(self, review, &mut warnings).await?;
        Ok(warnings)
    }

    /// The last step: what the object uses of the quotas of its namespace, apart from what the request was charged
    /// already. The charges are to be written together with the object.
    pub(crate) fn charge(&self, review: &Review<'_>, charged: &Charged) -> Result<Vec<Charge>, Status> {
        quota::charge(review, self.reader(), charged, self.parts.clock.now())
    }

    /// The default account of a namespace is made a moment after the namespace.
    async fn wait_for_account(&self, review: &Review<'_>) {
        if review.operation != Operation::Create || !review.is("", "pods") {
            return;
        }
        let Some(pod) = &review.object else { return };
        let name = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
        if !(name.is_empty() || name == service_account::DEFAULT) {
            return;
        }
        let accounts = GroupResource::new("", "serviceaccounts");
        for _ in 0..ACCOUNT_WAITS {
            if self.reader().get(&accounts, review.namespace(), service_account::DEFAULT).is_some() {
                return;
            }
            tokio::time::sleep(ACCOUNT_WAIT).await;
        }
    }

    pub(super) fn reader(&self) -> &dyn Reader {
        &*self.parts.reader
    }

    pub(super) fn kinds(&self) -> &dyn Kinds {
        &*self.parts.kinds
    }

    pub(super) fn chance(&self) -> &Chance {
        &self.parts.chance
    }

    pub(super) fn client(&self) -> &Client {
        &self.parts.client
    }

    pub(super) fn authorizer(&self) -> &dyn super::Authorizer {
        &*self.parts.authorizer
    }

    pub(super) fn shared_authorizer(&self) -> &SharedAuthorizer {
        &self.parts.authorizer
    }

    pub(super) fn policies(&self) -> &Policies {
        &self.policies
    }

    pub(super) fn mutating_webhooks(&self) -> Arc<Vec<Webhook>> {
        self.mutating.lock().current(self.reader(), "mutatingwebhookconfigurations")
    }

    pub(super) fn validating_webhooks(&self) -> Arc<Vec<Webhook>> {
        self.validating.lock().current(self.reader(), "validatingwebhookconfigurations")
    }
}
