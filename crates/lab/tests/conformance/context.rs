//! What a scenario gets: clients, and names nobody else uses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::Result;
use crate::support::certificates::Identity;
use crate::support::client::{Client, Credentials};
use crate::support::target::Target;

/// A scenario.
pub(crate) type Run = fn(Cx) -> Pin<Box<dyn Future<Output = Result> + Send>>;

/// How long something that has to happen by itself may take.
const PATIENCE: Duration = Duration::from_mins(3);

/// What a scenario gets.
pub(crate) struct Cx {
    /// A member of `system:masters`.
    pub(crate) admin: Client,
    /// The user `alice` of the group `devs`, without rights.
    pub(crate) alice: Client,
    /// A namespace of its own.
    pub(crate) ns: String,
    /// An API group of its own.
    pub(crate) group: String,
    /// A prefix for names without a namespace.
    pub(crate) unique: String,
    pub(crate) target: Arc<Target>,
    /// What has to be deleted when the scenario is over, since it reaches beyond the scenario's own names.
    leftovers: Leftovers,
}

/// Paths of objects that are deleted when their scenario is over.
pub(crate) type Leftovers = Arc<Mutex<Vec<String>>>;

impl Cx {
    pub(crate) async fn new(target: Arc<Target>, about: &str, leftovers: Leftovers) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let about: String = about.replace('_', "-").chars().take(40).collect();
        let unique = format!("{}-{number}", about.trim_end_matches('-'));
        let admin = target.client(&target.admin)?;
        let alice = target.client(&target.alice)?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique}});
        admin.post("/api/v1/namespaces", &namespace).await?.ok(201);
        let group = format!("{unique}.example.com");
        Ok(Self { admin, alice, ns: unique.clone(), group, unique, target, leftovers })
    }

    /// Has an object deleted when the scenario is over, however it ends.
    pub(crate) fn delete_at_the_end(&self, path: impl Into<String>) {
        self.leftovers.lock().push(path.into());
    }

    /// A client with other credentials.
    pub(crate) fn with_token(&self, token: &str) -> Result<Client> {
        self.target.client(&Credentials::Token(token.to_owned()))
    }

    /// A client with a client certificate.
    pub(crate) fn with_certificate(&self, identity: Identity) -> Result<Client> {
        self.target.client(&Credentials::Certificate(identity))
    }

    /// A client without credentials.
    pub(crate) fn anonymous(&self) -> Result<Client> {
        self.target.client(&Credentials::Anonymous)
    }

    /// The collection of a core resource in the scenario's namespace.
    pub(crate) fn core(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.ns)
    }

    /// The collection of a resource of a group in the scenario's namespace; `group` with its version.
    pub(crate) fn apis(&self, group: &str, resource: &str) -> String {
        format!("/apis/{group}/namespaces/{}/{resource}", self.ns)
    }

    /// Creates an object in a collection.
    pub(crate) async fn create(&self, collection: impl Into<String>, object: &Value) -> Result<Value> {
        Ok(self.admin.post(collection, object).await?.ok(201))
    }

    /// Reads an object that has to be there.
    pub(crate) async fn read(&self, path: impl Into<String>) -> Result<Value> {
        Ok(self.admin.get(path).await?.ok(200))
    }

    /// Creates a ConfigMap with one entry.
    pub(crate) async fn config_map(&self, name: &str, value: &str) -> Result<Value> {
        self.create(self.core("configmaps"), &config_map(name, value)).await
    }

    /// Asks until the answer is as it has to be; the answer's body.
    pub(crate) async fn until(
        &self,
        path: impl Into<String>,
        what: &str,
        holds: impl Fn(u16, &Value) -> bool,
    ) -> Result<Value> {
        let path = path.into();
        let start = Instant::now();
        loop {
            let answer = self.admin.get(path.as_str()).await?;
            let body = answer.json();
            if holds(answer.status, &body) {
                return Ok(body);
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{what}: still not so after {PATIENCE:?}: {answer}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, path: impl Into<String>) -> Result {
        self.until(path, "the object is gone", |status, _| status == 404).await.map(drop)
    }

    /// Waits for the default service account, without which no pod is admitted.
    pub(crate) async fn until_pods_are_admitted(&self) -> Result {
        let path = self.core("serviceaccounts/default");
        self.until(path, "the default service account", |status, _| status == 200).await.map(drop)
    }
}

/// A ConfigMap with one entry.
pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

/// A pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "example.com/image:1"}]},
    })
}

/// A deployment with one container.
pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/image:1"}]},
            },
        },
    })
}
