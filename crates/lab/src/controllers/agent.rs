//! How controllers write: through the same pipeline as any client, under the names of the real ones.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::write::{self, Change as Write};
use crate::api::{Call, delete, strategy};
use crate::attributes::User;
use crate::clock::seconds;
use crate::names::GroupResource;
use crate::schema::decode::FieldValidation;
use crate::server::Server;
use crate::status::Status;
use crate::store::Key;

/// The namespace of events about objects that have none.
const DEFAULT_NAMESPACE: &str = "default";

/// What a change makes of an object.
pub(crate) type Edit<'a> = &'a (dyn Fn(Value) -> Result<Value, Status> + Send + Sync);

/// A client inside the server, under a name of its own.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    server: Weak<Server>,
    user: User,
    /// Whom fields that it writes belong to.
    manager: &'static str,
}

impl Agent {
    /// A controller of the controller manager.
    pub(crate) fn controller(server: &Weak<Server>, name: &str) -> Self {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
        let user = User {
            name: format!("system:serviceaccount:kube-system:{name}"),
            groups: groups.map(str::to_owned).to_vec(),
            ..User::default()
        };
        Self { server: Weak::clone(server), user, manager: "kube-controller-manager" }
    }

    /// The API server itself.
    pub(crate) fn server_itself(server: &Weak<Server>) -> Self {
        let user = User {
            name: "system:apiserver".to_owned(),
            groups: ["system:masters", "system:authenticated"].map(str::to_owned).to_vec(),
            ..User::default()
        };
        Self { server: Weak::clone(server), user, manager: "kube-apiserver" }
    }

    /// The server, as long as it runs.
    pub(crate) fn server(&self) -> Option<Arc<Server>> {
        self.server.upgrade()
    }

    /// Whom it is.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    fn options(&self) -> WriteOptions {
        WriteOptions::own(self.manager)
    }

    /// Deletes an object; one that is gone already is fine.
    pub(crate) async fn delete(
        &self,
        of: &GroupResource,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let Some(server) = self.server() else { return Ok(()) };
        let Some(served) = server.registry().stored(of) else { return Ok(()) };
        let call = Call::inside(server.clock().now(), &self.user, "delete", &served, key, "");
        match delete::delete(&server, &call, &served, key, options, None).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }

    /// Changes an object, or a part of it such as its status; one that is gone is fine.
    ///
    /// When there is nothing to change nobody is bothered, not even those who have a say in changes.
    pub(crate) async fn change(
        &self,
        of: &GroupResource,
        key: &Key,
        subresource: &str,
        change: Edit<'_>,
    ) -> Result<(), Status> {
        let Some(server) = self.server() else { return Ok(()) };
        let Some(served) = server.registry().stored(of) else { return Ok(()) };
        let Some(record) = server.store().get(of, key) else { return Ok(()) };
        let found = server.read(&served, &record).await?;
        if change(found.clone())? == found {
            return Ok(());
        }
        let options = self.options();
        self.write(of, key, subresource, &options, Write::Own(change)).await
    }

    /// Applies a configuration in the name of a manager, whoever else owns the fields.
    pub(crate) async fn apply(
        &self,
        of: &GroupResource,
        key: &Key,
        subresource: &str,
        manager: &str,
        configuration: &Value,
    ) -> Result<(), Status> {
        let options = WriteOptions { field_manager: manager.to_owned(), force: true, ..self.options() };
        self.write(of, key, subresource, &options, Write::Apply { configuration, sent_as: None }).await
    }

    async fn write(
        &self,
        of: &GroupResource,
        key: &Key,
        subresource: &str,
        options: &WriteOptions,
        change: Write<'_>,
    ) -> Result<(), Status> {
        let Some(server) = self.server() else { return Ok(()) };
        let Some(served) = server.registry().stored(of) else { return Ok(()) };
        let call = Call::inside(server.clock().now(), &self.user, "update", &served, key, subresource);
        match write::modify(&server, &call, &served, subresource, options, change).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }

    /// Creates an object; says whether it was new.
    pub(crate) async fn create(
        &self,
        of: &GroupResource,
        namespace: &str,
        object: Value,
    ) -> Result<bool, Status> {
        let Some(server) = self.server() else { return Ok(false) };
        let Some(served) = server.registry().stored(of) else { return Ok(false) };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let call =
            Call::inside(server.clock().now(), &self.user, "create", &served, &Key::new(namespace, name), "");
        let object = strategy::complete(&call, &served, object, Vec::new(), FieldValidation::Ignore)?;
        match write::create_object(&server, &call, &served, &self.options(), object).await {
            Ok(_) => Ok(true),
            Err(status) if status.reason == "AlreadyExists" => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Warns about an object with an event. That it cannot is no reason to do anything else differently.
    pub(crate) async fn warn(&self, component: &str, about: &Value, reason: &str, message: &str) {
        let Some(server) = self.server() else { return };
        let now = server.clock().now();
        let name = about["name"].as_str().unwrap_or_default();
        let namespace = about["namespace"].as_str().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.{:x}", now.as_nanosecond()), "namespace": namespace},
            "involvedObject": about, "reason": reason, "message": message, "type": "Warning", "count": 1,
            "firstTimestamp": seconds(now), "lastTimestamp": seconds(now),
            "source": {"component": component}, "reportingComponent": component,
        });
        if let Err(status) = self.create(&GroupResource::new("", "events"), namespace, event).await {
            tracing::debug!(name, error = status.message, "an event is not recorded");
        }
    }
}

/// The object without one of its finalizers.
pub(super) fn without_finalizer(mut object: Value, finalizer: &str) -> Value {
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|found| found != finalizer);
        if finalizers.is_empty() {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"));
        }
    }
    object
}
