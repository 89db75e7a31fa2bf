//! A client of an API server that works on plain JSON, in the name of one component.
//!
//! What it writes it also tells the caches, so that a controller never decides on less than it has done itself.

mod cache;
mod failure;
mod informer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use http::{Method, Request, header};
use serde_json::{Value, json};

pub use cache::{Cache, Caches, Change};
pub use failure::ApiError;

use crate::kinds::Kind;
use crate::object::{Key, Object as _};

/// What a call comes to.
pub type Result<T = (), E = ApiError> = std::result::Result<T, E>;

/// Who a component is to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The program, as in `User-Agent`: what managed fields are called after.
    pub program: &'static str,
    /// The user it acts as; empty for the connection's own.
    pub user: &'static str,
}

impl Identity {
    /// virt-controller.
    pub const VIRT_CONTROLLER: Self =
        Self { program: "virt-controller", user: "system:serviceaccount:kubevirt:kubevirt-controller" };
    /// virt-handler.
    pub const VIRT_HANDLER: Self =
        Self { program: "virt-handler", user: "system:serviceaccount:kubevirt:kubevirt-handler" };
    /// virt-api.
    pub const VIRT_API: Self =
        Self { program: "virt-api", user: "system:serviceaccount:kubevirt:kubevirt-apiserver" };
    /// virt-operator.
    pub const VIRT_OPERATOR: Self =
        Self { program: "virt-operator", user: "system:serviceaccount:kubevirt:kubevirt-operator" };
    /// CDI's controller.
    pub const CDI_CONTROLLER: Self =
        Self { program: "virt-cdi-controller", user: "system:serviceaccount:cdi:cdi-sa" };
    /// CDI's API server.
    pub const CDI_API: Self =
        Self { program: "virt-cdi-apiserver", user: "system:serviceaccount:cdi:cdi-apiserver" };
    /// The kubelets. The real ones are one user per node; nothing here depends on which.
    pub const KUBELET: Self = Self { program: "kubelet", user: "system:node:lab" };
    /// The scheduler.
    pub const SCHEDULER: Self = Self { program: "kube-scheduler", user: "system:kube-scheduler" };
    /// The controller manager.
    pub const CONTROLLER_MANAGER: Self =
        Self { program: "kube-controller-manager", user: "system:kube-controller-manager" };
    /// What makes volumes.
    pub const PROVISIONER: Self =
        Self { program: "csi-provisioner", user: "system:serviceaccount:kube-system:csi" };
    /// What makes snapshots.
    pub const SNAPSHOTTER: Self = Self {
        program: "snapshot-controller",
        user: "system:serviceaccount:kube-system:snapshot-controller",
    };
    /// What gives addresses to services.
    pub const LOAD_BALANCER: Self =
        Self { program: "lab-load-balancer", user: "system:serviceaccount:kube-system:load-balancer" };
    /// What sets the cluster up.
    pub const INSTALLER: Self = Self { program: "trellis-lab", user: "trellis-lab" };
}

/// How many requests were made, by anybody who shares the count.
#[derive(Debug, Default)]
pub struct Traffic {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Traffic {
    /// Requests that only read.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Requests that write.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

/// A client in the name of one component. Clones are cheap.
#[derive(Clone)]
pub struct Client {
    inner: kube::Client,
    identity: Identity,
    caches: Caches,
    traffic: Arc<Traffic>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Client {
    /// A client over a connection whose user may act as others.
    pub fn new(inner: kube::Client, identity: Identity) -> Self {
        Self { inner, identity, caches: Caches::default(), traffic: Arc::default() }
    }

    /// The same connection and caches in the name of another component.
    #[must_use]
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { identity, ..self.clone() }
    }

    /// Who this client is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How many requests were made through this client and those that share its connection.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// All objects of a kind, as known from a watch that is started with the first call for a kind.
    pub fn cache(&self, kind: &'static Kind) -> Arc<Cache> {
        self.caches.of(kind, self)
    }

    /// The objects of a kind that a field selector picks, as known from a watch that ends with what is returned
    /// beside the cache.
    pub fn cache_where(&self, kind: &'static Kind, fields: &str) -> (Arc<Cache>, tokio::task::JoinSet<()>) {
        let cache = Arc::new(Cache::new(kind));
        let mut task = tokio::task::JoinSet::new();
        task.spawn(informer::feed(self.inner.clone(), Arc::clone(&cache), fields.to_owned()));
        (cache, task)
    }

    /// An object as it is now on the server.
    pub async fn get(&self, kind: &Kind, key: &Key) -> Result<Option<Value>> {
        match self.send(Method::GET, &kind.path(&key.namespace, &key.name), None).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The objects of a namespace, or of all where it is empty, as they are now on the server.
    pub async fn list(&self, kind: &Kind, namespace: &str) -> Result<Vec<Value>> {
        let mut list = self.send(Method::GET, &kind.path(namespace, ""), None).await?;
        let Value::Array(mut items) = list["items"].take() else { return Ok(Vec::new()) };
        for item in &mut items {
            // Items of a list do not tell what they are.
            item["apiVersion"] = kind.api_version().into();
            item["kind"] = kind.kind.into();
        }
        Ok(items)
    }

    /// Creates an object in its namespace. Its kind is filled in.
    pub async fn create(&self, kind: &'static Kind, mut object: Value) -> Result<Value> {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        let path = kind.path(object.namespace(), "");
        let created = self.send(Method::POST, &path, Some((JSON, &object))).await?;
        self.caches.learn(kind, &created);
        Ok(created)
    }

    /// Creates an object unless one of that name is there.
    pub async fn create_if_absent(&self, kind: &'static Kind, object: Value) -> Result {
        match self.create(kind, object).await {
            Err(failure) if !failure.is_already_there() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Replaces an object, at the version it carries.
    pub async fn replace(&self, kind: &'static Kind, object: &Value) -> Result<Value> {
        self.put(kind, object, "").await
    }

    /// Replaces the status of an object, at the version it carries; through the subresource where there is one.
    pub async fn replace_status(&self, kind: &'static Kind, object: &Value) -> Result<Value> {
        self.put(kind, object, if kind.status { "/status" } else { "" }).await
    }

    async fn put(&self, kind: &'static Kind, object: &Value, subresource: &str) -> Result<Value> {
        let path = kind.path(object.namespace(), object.name()) + subresource;
        let written = self.send(Method::PUT, &path, Some((JSON, object))).await?;
        self.caches.learn(kind, &written);
        Ok(written)
    }

    /// Merges a patch into an object.
    pub async fn merge(&self, kind: &'static Kind, key: &Key, patch: &Value) -> Result<Value> {
        self.patch(kind, key, "", MERGE, patch).await
    }

    /// Merges a patch (which begins at the root of the object) into an object's status.
    pub async fn merge_status(&self, kind: &'static Kind, key: &Key, patch: &Value) -> Result<Value> {
        self.patch(kind, key, if kind.status { "/status" } else { "" }, MERGE, patch).await
    }

    /// Applies the operations of a JSON patch to an object.
    pub async fn json_patch(&self, kind: &'static Kind, key: &Key, operations: &Value) -> Result<Value> {
        self.patch(kind, key, "", JSON_PATCH, operations).await
    }

    /// Applies the operations of a JSON patch to an object's status.
    pub async fn json_patch_status(
        &self,
        kind: &'static Kind,
        key: &Key,
        operations: &Value,
    ) -> Result<Value> {
        self.patch(kind, key, if kind.status { "/status" } else { "" }, JSON_PATCH, operations).await
    }

    async fn patch(
        &self,
        kind: &'static Kind,
        key: &Key,
        subresource: &str,
        form: &'static str,
        patch: &Value,
    ) -> Result<Value> {
        let path = kind.path(&key.namespace, &key.name) + subresource;
        let written = self.send(Method::PATCH, &path, Some((form, patch))).await?;
        self.caches.learn(kind, &written);
        Ok(written)
    }

    /// Applies what this component wants of an object, taking over what others own of it.
    pub async fn apply(&self, kind: &'static Kind, mut object: Value) -> Result<Value> {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        let path = format!(
            "{}?fieldManager={}&force=true",
            kind.path(object.namespace(), object.name()),
            self.identity.program
        );
        let written = self.send(Method::PATCH, &path, Some((APPLY, &object))).await?;
        self.caches.learn(kind, &written);
        Ok(written)
    }

    /// Deletes an object if it is still the one with this uid (any, where it is empty). One that is gone is no
    /// failure.
    pub async fn delete(&self, kind: &'static Kind, key: &Key, uid: &str) -> Result {
        self.delete_with(kind, key, uid, None).await
    }

    /// Deletes an object with a grace period of its own.
    pub async fn delete_with(&self, kind: &'static Kind, key: &Key, uid: &str, grace: Option<i64>) -> Result {
        let mut options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if !uid.is_empty() {
            options["preconditions"] = json!({"uid": uid});
        }
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        let path = kind.path(&key.namespace, &key.name);
        match self.send(Method::DELETE, &path, Some((JSON, &options))).await {
            Ok(left) => {
                if left["kind"] == kind.kind {
                    self.caches.learn(kind, &left);
                }
                Ok(())
            }
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Posts to a subresource, such as `binding` or `eviction`.
    pub async fn post(
        &self,
        kind: &'static Kind,
        key: &Key,
        subresource: &str,
        body: &Value,
    ) -> Result<Value> {
        let path = format!("{}/{subresource}", kind.path(&key.namespace, &key.name));
        self.send(Method::POST, &path, Some((JSON, body))).await
    }

    /// Sends any request whose answer is JSON. The body comes with its content type. Boxed, so that what speaks HTTP is
    /// compiled here, and not anew in every program that has a client.
    pub fn send<'a>(
        &'a self,
        method: Method,
        path: &'a str,
        body: Option<(&'a str, &'a Value)>,
    ) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.sent(method, path, body))
    }

    async fn sent(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let count = if method == Method::GET { &self.traffic.reads } else { &self.traffic.writes };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(self.inner.request(self.request(method, path, body)?).await?)
    }

    fn request(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Request<Vec<u8>>> {
        let mut request =
            Request::builder().method(method).uri(path).header(header::USER_AGENT, self.identity.program);
        if !self.identity.user.is_empty() {
            request = request
                .header("impersonate-user", self.identity.user)
                // What the components may do is not what is emulated here.
                .header("impersonate-group", "system:masters");
        }
        let mut bytes = Vec::new();
        if let Some((form, value)) = body {
            request = request.header(header::CONTENT_TYPE, form);
            bytes = serde_json::to_vec(value).map_err(|source| ApiError::other(&source))?;
        }
        request.body(bytes).map_err(|source| ApiError::other(&source))
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
