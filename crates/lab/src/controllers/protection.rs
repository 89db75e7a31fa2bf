//! Volumes and claims that are in use stay until they are not, and claims say whether they are.

use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use super::agent::{Agent, without_finalizer};
use super::{Controller, Interest, Next, Queue};
use crate::clock::seconds;
use crate::names::GroupResource;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Store};

/// What a claim waits with until no pod uses it.
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// What a volume waits with until no claim has it.
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Protected {
    Claim(Key),
    Volume(Key),
}

/// Protects what is in use.
#[derive(Debug)]
pub(super) struct Protection {
    claims: Agent,
    volumes: Agent,
    store: Weak<Store>,
}

/// How a pod can use a claim.
enum Use {
    /// It names the claim.
    Named,
    /// The claim was made for it.
    Own,
}

fn claims() -> GroupResource {
    GroupResource::new("", "persistentvolumeclaims")
}

fn volumes() -> GroupResource {
    GroupResource::new("", "persistentvolumes")
}

/// The claims a pod uses, and how.
fn claims_of(pod: &Value) -> impl Iterator<Item = (String, Use)> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    pod["spec"]["volumes"].as_array().into_iter().flatten().filter_map(move |volume| {
        if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some((claim.to_owned(), Use::Named));
        }
        let own = volume["ephemeral"].is_object().then(|| volume["name"].as_str())??;
        Some((format!("{name}-{own}"), Use::Own))
    })
}

/// True when a pod uses a claim; one that was made for another pod of the same name is not used.
fn uses(pod: &Value, claim: &Value, own_too: bool) -> bool {
    let name = claim["metadata"]["name"].as_str().unwrap_or_default();
    let made_for_it = || {
        let owners = claim["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        owners.any(|owner| owner["controller"] == true && owner["uid"] == pod["metadata"]["uid"])
    };
    claims_of(pod).any(|(used, how)| {
        used == name
            && match how {
                Use::Named => true,
                Use::Own => own_too && made_for_it(),
            }
    })
}

/// True when a claim has to wait for a pod that was given to a node.
fn keeps(pod: &Value, claim: &Value) -> bool {
    let placed = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let metadata = &pod["metadata"];
    let shut_down = !metadata["deletionTimestamp"].is_null() && metadata["deletionGracePeriodSeconds"] == 0;
    placed && uses(pod, claim, !shut_down)
}

/// True when a pod makes a claim one that is used.
fn occupies(pod: &Value, claim: &Value) -> bool {
    let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    !over && uses(pod, claim, true)
}

impl Controller for Protection {
    type Item = Protected;

    fn interest(&self) -> Interest {
        let (store, claims) = (Weak::clone(&self.store), claims());
        Box::new(move |change| {
            change.of.group.is_empty()
                && match change.of.resource.as_str() {
                    "persistentvolumeclaims" | "persistentvolumes" => change.event.kind != EventKind::Deleted,
                    "pods" => store.upgrade().is_some_and(|store| store.count(&claims) > 0),
                    _ => false,
                }
        })
    }

    fn begin(&mut self, queue: &mut Queue<Protected>) {
        let Some(server) = self.claims.server() else { return };
        let keys = |of: GroupResource| {
            let records = server.store().list(&of, &Query::default(), |_, _| true).records;
            records.iter().map(|record| record.key.clone()).collect::<Vec<_>>()
        };
        queue.extend(keys(claims()).into_iter().map(Protected::Claim));
        queue.extend(keys(volumes()).into_iter().map(Protected::Volume));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Protected>) {
        let event = &change.event;
        match change.of.resource.as_str() {
            "persistentvolumes" => queue.add(Protected::Volume(event.key.clone())),
            "persistentvolumeclaims" => queue.add(Protected::Claim(event.key.clone())),
            _ => {
                let claim = |(name, _)| Protected::Claim(Key::new(event.key.namespace.as_str(), name));
                queue.extend(claims_of(&event.record.parse()).map(claim));
            }
        }
    }

    async fn work(&mut self, item: &Protected, _: &mut Queue<Protected>) -> Result<Next, Status> {
        let Some(server) = self.claims.server() else { return Ok(Next::Done) };
        let (agent, of, key, finalizer) = match item {
            Protected::Claim(key) => (&self.claims, claims(), key, CLAIM_FINALIZER),
            Protected::Volume(key) => (&self.volumes, volumes(), key, VOLUME_FINALIZER),
        };
        let Some(record) = server.store().get(&of, key) else { return Ok(Next::Done) };
        let object = record.parse();
        let bound = object["status"]["phase"] == "Bound";
        if matches!(item, Protected::Claim(_)) && bound && !record.index.deleting {
            self.tell_use(&server, key, &object).await?;
        }
        let has = record.index.finalizers.iter().any(|found| found == finalizer);
        let used = || match item {
            Protected::Claim(_) => any_pod(&server, key, |pod| keeps(pod, &object)),
            Protected::Volume(_) => bound,
        };
        if record.index.deleting && has && !used() {
            agent.change(&of, key, "", &|object| Ok(without_finalizer(object, finalizer))).await?;
        } else if !record.index.deleting && !has {
            agent.change(&of, key, "", &|object| Ok(protected(object, finalizer))).await?;
        }
        Ok(Next::Done)
    }
}

impl Protection {
    pub(super) fn new(claims: Agent, volumes: Agent, store: &Arc<Store>) -> Self {
        Self { claims, volumes, store: Arc::downgrade(store) }
    }

    /// Writes down whether a claim is used.
    async fn tell_use(&self, server: &Server, key: &Key, claim: &Value) -> Result<(), Status> {
        let used = any_pod(server, key, |pod| occupies(pod, claim));
        let now = seconds(server.clock().now());
        let (status, reason, message) = if used {
            ("False", "PodUsingPVC", "A pod is currently referencing this PVC")
        } else {
            ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
        };
        let wanted = json!({"type": "Unused", "status": status, "reason": reason, "message": message,
            "lastProbeTime": null, "lastTransitionTime": now});
        let change = |mut claim: Value| {
            match &mut claim["status"]["conditions"] {
                Value::Array(conditions) => {
                    match conditions.iter_mut().find(|known| known["type"] == "Unused") {
                        Some(known) if known["status"] == status => {}
                        Some(known) => *known = wanted.clone(),
                        None => conditions.push(wanted.clone()),
                    }
                }
                none => *none = json!([wanted]),
            }
            Ok(claim)
        };
        self.claims.change(&claims(), key, "status", &change).await
    }
}

/// True when there is such a pod in the namespace of a claim.
fn any_pod(server: &Server, claim: &Key, is_such: impl Fn(&Value) -> bool) -> bool {
    let query = Query { namespace: Some(&claim.namespace), ..Query::default() };
    let pods = server.store().list(&GroupResource::new("", "pods"), &query, |_, _| true).records;
    pods.iter().any(|record| is_such(&record.parse()))
}

/// The object with a finalizer, unless it is being deleted.
fn protected(mut object: Value, finalizer: &str) -> Value {
    if object["metadata"]["deletionTimestamp"].is_null() {
        match &mut object["metadata"]["finalizers"] {
            Value::Array(finalizers) => finalizers.push(finalizer.into()),
            none => *none = json!([finalizer]),
        }
    }
    object
}
