//! How a server is put together, and what every cluster begins with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::kinds::ServedKinds;
use super::{Server, Stored};
use crate::admission::{Admission, AdmissionParts};
use crate::api::subresources::own_options;
use crate::api::{Call, strategy, write};
use crate::attributes::User;
use crate::auth::{
    self, AltName, Authenticator, Authorizer, ClientIdentity, Impersonator, Pki, PkiError, Secret, Tokens,
};
use crate::clock::Clock;
use crate::faults::FaultPlan;
use crate::kinds::allocation::ServiceNetwork;
use crate::lab::LabError;
use crate::names::Gvk;
use crate::openapi::OpenApi;
use crate::reader::Reader;
use crate::registry::{Registry, Served, builtin_fields};
use crate::schema::builtin;
use crate::schema::decode::FieldValidation;
use crate::status::Status;
use crate::store::{Key, Retention, Store};
use crate::webhook;

/// Objects of the real server's first start that are no roles.
const OBJECTS: &str = include_str!("../../data/bootstrap.json");

/// What a server is made of.
pub(crate) struct Parts {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: Option<u64>,
    pub(crate) tokens: Vec<(Secret, User)>,
    pub(crate) faults: FaultPlan,
    pub(crate) history: Retention,
    pub(crate) names: Vec<String>,
    pub(crate) pki: Option<auth::Given>,
    pub(crate) services: ServiceNetwork,
}

impl Parts {
    /// Builds the server, on what a folder holds or in memory, and stores what every cluster begins with. Boxed, so that
    /// it is not compiled anew wherever a lab is started.
    pub(crate) fn built(self, folder: Option<PathBuf>) -> BoxFuture<'static, Result<Arc<Server>, LabError>> {
        Box::pin(async move { self.build(folder.as_deref()).await })
    }

    async fn build(mut self, folder: Option<&Path>) -> Result<Arc<Server>, LabError> {
        let now = self.clock.now();
        let names: Vec<AltName> = self.names.iter().map(|name| AltName::of_host(name)).collect();
        read_tables_meanwhile();
        let given = self.pki.take().map(Pki::given).transpose()?;
        let (pki, store) = match folder {
            Some(folder) => {
                auth::create_private_folder(folder)
                    .map_err(|source| LabError::Folder { folder: folder.to_owned(), source })?;
                // Gathering what is random enough for keys takes a while.
                let (pki, store) = std::thread::scope(|scope| {
                    let pki = scope.spawn(|| match given {
                        Some(given) => Ok(given),
                        None => Pki::load_or_generate(&folder.join("pki"), now, &names),
                    });
                    let (clock, history) = (Arc::clone(&self.clock), self.history.clone());
                    let store = Store::open(&folder.join("store.redb"), clock, history, selectable_fields);
                    (pki.join(), store)
                });
                let bug = || PkiError::Crypto("making keys ended in a panic".to_owned());
                (pki.unwrap_or_else(|_| Err(bug()))?, store?)
            }
            None => (
                given.map_or_else(|| Pki::generate(now, &names), Ok)?,
                Arc::new(Store::in_memory(Arc::clone(&self.clock), self.history.clone())),
            ),
        };
        let server = Arc::new(self.assemble(Arc::new(pki), store)?);
        first_objects(&server, now).await.map_err(|status| LabError::Bootstrap(status.message))?;
        Ok(server)
    }

    fn assemble(self, pki: Arc<Pki>, store: Arc<Store>) -> Result<Server, PkiError> {
        let reader: Arc<dyn Reader> = Arc::new(Stored(Arc::clone(&store)));
        let registry = Arc::new(Registry::new(Arc::clone(&store)));
        let tokens = Arc::new(Tokens::new(&pki.service_accounts, auth::ISSUER, &[])?);
        let mut authenticator = Authenticator::new(&pki, Arc::clone(&tokens), Arc::clone(&reader))?;
        for (token, user) in &self.tokens {
            authenticator = authenticator.with_token(token, user.clone());
        }
        let authenticator = Arc::new(authenticator);
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&reader)));
        let resolver = Arc::new(webhook::Endpoints::new(Arc::clone(&reader)));
        let client = webhook::Client::new(resolver)
            .with_identity(&pki.front_proxy_client.certificate, pki.front_proxy_client.key.expose())
            .map_err(|error| PkiError::Crypto(error.to_string()))?;
        let webhooks = Arc::new(client);
        let chance = Arc::new(super::chance::Chance::of(self.seed, store.version()));
        let admission = Admission::new(AdmissionParts {
            reader: Arc::clone(&reader),
            clock: Arc::clone(&self.clock),
            client: Arc::clone(&webhooks),
            chance: Arc::clone(&chance),
            kinds: Arc::new(ServedKinds { registry: Arc::clone(&registry), clock: Arc::clone(&self.clock) }),
            authorizer: Arc::clone(&authorizer) as Arc<dyn crate::admission::Authorizer>,
        });
        Ok(Server {
            chance,
            impersonator: Impersonator::new(Arc::clone(&authorizer)),
            reviews: auth::Reviews {
                authorizer: Arc::clone(&authorizer),
                authenticator: Arc::clone(&authenticator),
            },
            openapi: OpenApi::default(),
            flows: super::flow::Flows::default(),
            services: Arc::new(Mutex::new(super::services::TakenByServices::of(self.services))),
            service_network: self.services,
            remote: super::aggregate::Remote::default(),
            address: OnceLock::new(),
            clock: self.clock,
            faults: self.faults,
            store,
            registry,
            pki,
            authenticator,
            authorizer,
            tokens,
            admission,
            webhooks,
        })
    }
}

/// Reads the tables of built-in types while keys are made and the store is opened.
fn read_tables_meanwhile() {
    // Whoever needs them first waits for them; and where there can be no thread, reads them.
    let reading = std::thread::Builder::new().name("lab-tables".to_owned()).spawn(|| {
        builtin::types();
        builtin::resources();
    });
    drop(reading);
}

impl Server {
    /// A kubeconfig of an administrator of this server.
    pub(crate) fn administrator_kubeconfig(
        &self,
        address: &std::net::SocketAddr,
    ) -> Result<Secret, PkiError> {
        let identity = ClientIdentity::Certificate(self.pki.administrator(self.clock.now())?);
        Ok(auth::kubeconfig("lab", &format!("https://{address}"), &self.authority_pem(), &identity))
    }
}

/// The selectable fields of an object found in the store. Custom resources are not known yet while it opens;
/// theirs are read when somebody selects by them.
fn selectable_fields(of: &crate::names::GroupResource, object: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    if group != of.group {
        return Vec::new();
    }
    builtin_fields(&Gvk::new(group, version, &text(&object["kind"])), object)
}

/// Stores what is missing of what every cluster begins with.
async fn first_objects(server: &Arc<Server>, now: Timestamp) -> Result<(), Status> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces: Vec<Value> = namespaces
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    store_all(server, namespaces).await?;
    let mut objects = auth::bootstrap_objects(now);
    let others: Vec<Value> =
        serde_json::from_str(OBJECTS).map_err(|error| Status::internal(error.to_string()))?;
    objects.extend(others);
    objects.extend(crate::controllers::builtin_api_services(server));
    objects.push(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [server.service_network.to_string()]},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
        "data": {"since": now.strftime("%Y-%m-%d").to_string()},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": server.service_network.first().to_string(), "type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": server.authority_pem(),
            "requestheader-client-ca-file": server.pki.front_proxy.certificate_pem(),
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        },
    }));
    store_all(server, objects).await
}

/// Creates objects side by side, so that they share a few commits; those that are there stay as they are.
async fn store_all(server: &Arc<Server>, objects: Vec<Value>) -> Result<(), Status> {
    let writes = objects.into_iter().map(|object| store_one(server, object));
    for outcome in futures::future::join_all(writes).await {
        match outcome {
            Err(status) if status.reason != "AlreadyExists" => return Err(status),
            _ => {}
        }
    }
    Ok(())
}

async fn store_one(server: &Arc<Server>, object: Value) -> Result<(), Status> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let kind = Gvk::new(group, version, &text(&object["kind"]));
    let served: Arc<Served> =
        server.registry.by_kind(&kind).ok_or_else(|| Status::internal(format!("{kind:?} is not served")))?;
    let key = Key::new(text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    if server.store.get(&served.stored_as, &key).is_some() {
        return Ok(());
    }
    let user = User {
        name: "system:apiserver".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..User::default()
    };
    let call = Call::inside(server.clock.now(), &user, "create", &served, &key, "");
    let object = strategy::complete(&call, &served, object, Vec::new(), FieldValidation::Ignore)?;
    write::create_object(server, &call, &served, &own_options(), object).await.map(drop)
}
