//! Groups that another server serves: what is known about them, and how they show in discovery.

mod forward;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Server, Stored};
use crate::attributes::User;
use crate::discovery::{Entry, ResourceDescriptor};
use crate::names::GroupResource;
use crate::store::{Key, Query};
use crate::webhook::{Endpoints, Place, Resolver as _, Target, Trust};

/// The user the server itself is to others.
const AGGREGATOR: &str = "system:kube-aggregator";

/// The service the kubelets are behind: a server that is mounted there answers for what is inside of pods.
pub(crate) const KUBELETS: (&str, &str) = ("trellis-lab", "kubelets");

pub(crate) fn api_services() -> GroupResource {
    GroupResource::new("apiregistration.k8s.io", "apiservices")
}

/// What is known about other servers.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// How many APIServices another server serves.
    services: AtomicUsize,
    /// What those that answer serve, by the name of the APIService.
    known: Mutex<HashMap<String, Arc<Served>>>,
    /// Connections of clients that lead to other servers.
    tunnels: Mutex<JoinSet<()>>,
}

/// What another server says it serves.
#[derive(Debug, Default, Clone)]
pub(crate) struct Served {
    /// The `APIResourceList` of the group and version, if it is one.
    resources: Option<Value>,
    /// The names and addresses of its OpenAPI documents of the group and version.
    documents: Vec<(String, String)>,
}

/// A resource of another server that has objects in namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) name: String,
    pub(crate) verbs: Vec<String>,
}

/// A group and version as paths name it.
fn group_version(service: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&service["spec"]["group"]), text(&service["spec"]["version"]))
}

/// True when the server behind an APIService answered the last time it was asked.
pub(crate) fn is_available(service: &Value) -> bool {
    let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Available" && condition["status"] == "True")
}

/// True when another server serves it.
pub(crate) fn is_remote(service: &Value) -> bool {
    service["spec"]["service"].is_object()
}

impl Server {
    /// True when another server serves anything at all.
    pub(crate) fn has_remote(&self) -> bool {
        self.remote.services.load(Ordering::Relaxed) > 0
    }

    /// Every APIService that another server serves.
    pub(crate) fn remote_services(&self) -> Vec<Value> {
        let records = self.store.list(&api_services(), &Query::default(), |_, _| true).records;
        records.iter().map(|record| record.parse()).filter(is_remote).collect()
    }

    /// Counts the APIServices that another server serves. To be called when one changed.
    pub(crate) fn count_remote(&self) {
        self.remote.services.store(self.remote_services().len(), Ordering::Relaxed);
    }

    /// Keeps what the server behind an APIService serves; nothing when it does not answer.
    pub(crate) fn keep_remote(&self, name: &str, served: Option<Served>) {
        let mut known = self.remote.known.lock();
        match served {
            Some(served) => known.insert(name.to_owned(), Arc::new(served)),
            None => known.remove(name),
        };
    }

    /// The APIService a path belongs to, when another server serves it.
    pub(super) fn aggregated(&self, path: &str) -> Option<Value> {
        if !self.has_remote() {
            return None;
        }
        let segments: Vec<&str> = path.split('/').skip(1).take(5).collect();
        let (group, version, document) = match segments.as_slice() {
            ["apis", group, version, ..] => (group, version, false),
            ["openapi", "v3", "apis", group, version] => (group, version, true),
            _ => return None,
        };
        let name = format!("{version}.{group}");
        let service = self.store.get(&api_services(), &Key::new("", name.as_str()))?.parse();
        let here =
            !document || self.remote.known.lock().get(&name).is_some_and(|known| !known.documents.is_empty());
        (here && is_remote(&service)).then_some(service)
    }

    /// What discovery tells of a group another server serves.
    pub(super) fn aggregated_entry(&self, service: &Value) -> Option<Entry> {
        if !is_remote(service) {
            return None;
        }
        let (group, version) = group_version(service);
        let list = self.remote_list(service);
        let number =
            |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default();
        let stale = !is_available(service) || list.is_none();
        Some(Entry {
            resources: ResourceDescriptor::from_list(&group, &version, &list.unwrap_or_default()),
            group,
            version,
            group_priority: number(&service["spec"]["groupPriorityMinimum"]),
            version_priority: number(&service["spec"]["versionPriority"]),
            stale,
        })
    }

    /// The OpenAPI documents other servers have, by name and address.
    pub(super) fn remote_documents(&self) -> Vec<(String, String)> {
        if !self.has_remote() {
            return Vec::new();
        }
        let known = self.remote.known.lock();
        let mut documents: Vec<_> = known.values().flat_map(|served| served.documents.clone()).collect();
        documents.sort();
        documents
    }

    fn remote_list(&self, service: &Value) -> Option<Value> {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        self.remote.known.lock().get(name)?.resources.clone()
    }

    /// The resources of an APIService whose objects are in namespaces.
    pub(crate) fn remote_resources(&self, service: &Value) -> Vec<RemoteResource> {
        let (group, version) = group_version(service);
        let list = self.remote_list(service).unwrap_or_default();
        let texts = |value: &Value| {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let resources = list["resources"].as_array().into_iter().flatten();
        resources
            .filter(|resource| resource["namespaced"] == true)
            .filter_map(|resource| {
                let name = resource["name"].as_str().filter(|name| !name.contains('/'))?.to_owned();
                let verbs = texts(&resource["verbs"]);
                Some(RemoteResource { group: group.clone(), version: version.clone(), name, verbs })
            })
            .collect()
    }

    /// True when the server behind an APIService is of this process.
    pub(crate) fn is_mounted(&self, service: &Value) -> bool {
        let (_, namespace, name, _) = Self::place_of(service);
        self.webhooks.mounted(&namespace, &name).is_some()
    }

    /// Where an APIService is served.
    fn place_of(service: &Value) -> (Target, String, String, u16) {
        let spec = &service["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&spec["service"]["namespace"]), text(&spec["service"]["name"]));
        let port = spec["service"]["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        let trust = if spec["insecureSkipTLSVerify"] == true {
            Trust::Anything
        } else {
            Trust::of_bundle(&spec["caBundle"])
        };
        let place =
            Place::Service { namespace: namespace.clone(), name: name.clone(), port, path: String::new() };
        (Target { place, trust }, namespace, name, port)
    }

    /// The address behind an APIService.
    fn address_of(&self, service: &Value) -> Result<String, String> {
        let (_, namespace, name, port) = Self::place_of(service);
        if self.webhooks.mounted(&namespace, &name).is_some() {
            return Ok(format!("{name}.{namespace}.svc:{port}"));
        }
        let endpoints = Endpoints::new(Arc::new(Stored(Arc::clone(&self.store))));
        endpoints.resolve(&namespace, &name, port)
    }

    /// Asks another server what it serves; says why when it does not answer.
    pub(crate) async fn discover_remote(&self, service: &Value) -> Result<Served, String> {
        let (group, version) = group_version(service);
        let path = format!("/apis/{group}/{version}");
        let url = format!("https://{}{path}", self.address_of(service)?);
        let user = User {
            name: AGGREGATOR.to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        };
        let (code, list) = match self.ask_remote(service, &user, Method::GET, &path).await {
            Ok(answer) => answer,
            Err(why) => return Err(format!("failing or missing response from {url}: Get {url:?}: {why}")),
        };
        if !(200..300).contains(&code) {
            return Err(format!("failing or missing response from {url}: bad status from {url}: {code}"));
        }
        let name = format!("apis/{group}/{version}");
        let documents = match self.ask_remote(service, &user, Method::GET, "/openapi/v3").await {
            Ok((200, index)) => {
                let address = index["paths"][&name]["serverRelativeURL"].as_str().map(str::to_owned);
                address.into_iter().map(|address| (name.clone(), address)).collect()
            }
            _ => Vec::new(),
        };
        let resources = (list["kind"] == "APIResourceList").then_some(list);
        Ok(Served { resources, documents })
    }

    /// Why not everything that is served is known, in the words of clients that ask for all of it.
    pub(crate) fn stale_groups(&self) -> Option<String> {
        if !self.has_remote() {
            return None;
        }
        let stale = self.remote_services().into_iter().filter(|service| !is_available(service));
        let mut stale: Vec<String> = stale
            .map(|service| {
                let (group, version) = group_version(&service);
                format!("{group}/{version}: stale GroupVersion discovery: {group}/{version}")
            })
            .collect();
        stale.sort();
        (!stale.is_empty()).then(|| {
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
                stale.len(),
                stale.join(", ")
            )
        })
    }
}
