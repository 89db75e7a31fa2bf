//! APIServices of what this server serves itself.
//!
//! Those of built-in groups are made once, when the server starts; those of custom resources come, go and are
//! restored with their definitions.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::api::options::DeleteOptions;
use crate::discovery::{CUSTOM_PRIORITY, builtin_priority};
use crate::registry::definitions;
use crate::schema::builtin;
use crate::server::Server;
use crate::server::aggregate::api_services;
use crate::status::Status;
use crate::store::{Change, Key, Query, Record};

/// The label that says who keeps an APIService.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Kept when the server starts.
const ON_START: &str = "onstart";
/// Kept all the time.
const ALWAYS: &str = "true";
/// The group of APIServices has none itself.
const OWN_GROUP: &str = "apiregistration.k8s.io";

/// Keeps APIServices.
#[derive(Debug)]
pub(super) struct Registration {
    agent: Agent,
    /// Those that were seen to once.
    settled: HashSet<String>,
    /// Those that were there when the server started.
    there_at_start: HashSet<String>,
}

fn managed(service: &Value) -> &str {
    service["metadata"]["labels"][MANAGED].as_str().unwrap_or_default()
}

/// The APIService of this name as it should be, if it should.
fn desired(server: &Server, name: &str) -> Option<Value> {
    let (version, group) = name.split_once('.')?;
    let built_in = builtin::resources().iter().any(|known| known.group == group && known.version == version);
    let (how, (group_priority, version_priority)) = if built_in && group != OWN_GROUP {
        (ON_START, builtin_priority(group, version))
    } else if is_defined(server, group, version) {
        (ALWAYS, CUSTOM_PRIORITY)
    } else {
        return None;
    };
    let mut service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "labels": {MANAGED: how}},
        "spec": {"version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority},
    });
    if !group.is_empty() {
        service["spec"]["group"] = group.into();
    }
    Some(service)
}

/// The APIServices of the built-in groups, which are there from the start.
pub(crate) fn of_builtin_groups(server: &Server) -> Vec<Value> {
    let versions = builtin::resources().iter().map(|known| format!("{}.{}", known.version, known.group));
    let names: std::collections::BTreeSet<String> = versions.collect();
    names.iter().filter_map(|name| desired(server, name)).collect()
}

/// True when a definition has this version.
fn is_defined(server: &Server, group: &str, version: &str) -> bool {
    let of_group = |key: &Key| key.name.split_once('.').is_some_and(|(_, found)| found == group);
    let records = server.store().list(&definitions(), &Query::default(), |key, _| of_group(key)).records;
    records.iter().any(|record| {
        let definition = record.parse();
        let versions = definition["spec"]["versions"].as_array();
        versions.into_iter().flatten().any(|known| known["name"] == version && known["served"] == true)
    })
}

/// The names of the APIServices of a definition.
fn names_of(definition: &Record) -> Vec<String> {
    let definition = definition.parse();
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter_map(|version| Some(format!("{}.{group}", version["name"].as_str()?))).collect()
}

impl Controller for Registration {
    /// The name of an APIService.
    type Item = String;

    fn interest(&self) -> Interest {
        let (services, definitions) = (api_services(), definitions());
        Box::new(move |change| change.of == services || change.of == definitions)
    }

    fn begin(&mut self, queue: &mut Queue<String>) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(&api_services(), &Query::default(), |_, _| true).records;
        self.there_at_start = all.iter().map(|record| record.key.name.clone()).collect();
        queue.extend(builtin::resources().iter().map(|known| format!("{}.{}", known.version, known.group)));
        for record in server.store().list(&definitions(), &Query::default(), |_, _| true).records {
            queue.extend(names_of(&record));
        }
        queue.extend(all.iter().map(|record| record.key.name.clone()));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<String>) {
        if change.of == definitions() {
            queue.extend(change.event.before.iter().flat_map(|before| names_of(before)));
            queue.extend(names_of(&change.event.record));
        } else {
            queue.add(change.event.key.name.clone());
        }
    }

    async fn work(&mut self, name: &String, _: &mut Queue<String>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        self.settle(&server, name).await?;
        self.settled.insert(name.clone());
        Ok(Next::Done)
    }
}

impl Registration {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent, settled: HashSet::new(), there_at_start: HashSet::new() }
    }

    async fn settle(&self, server: &Server, name: &str) -> Result<(), Status> {
        let key = Key::new("", name);
        let settled = self.settled.contains(name);
        let wanted = desired(server, name);
        let Some(record) = server.store().get(&api_services(), &key) else {
            return match wanted {
                Some(wanted) if managed(&wanted) == ALWAYS || !settled => {
                    self.agent.create(&api_services(), "", wanted).await.map(drop)
                }
                _ => Ok(()),
            };
        };
        let found = record.parse();
        let ours = match managed(&found) {
            ALWAYS => true,
            ON_START => self.there_at_start.contains(name) && !settled,
            _ => false,
        };
        let once = wanted.as_ref().is_some_and(|wanted| managed(wanted) == ON_START) && settled;
        if !ours || once {
            return Ok(());
        }
        let Some(wanted) = wanted else {
            let options = DeleteOptions { uid: Some(record.index.uid.clone()), ..DeleteOptions::default() };
            return match self.agent.delete(&api_services(), &key, &options).await {
                Err(status) if status.code == 409 => Ok(()),
                outcome => outcome,
            };
        };
        let change = |mut found: Value| {
            found["spec"] = wanted["spec"].clone();
            Ok(found)
        };
        self.agent.change(&api_services(), &key, "", &change).await
    }
}
