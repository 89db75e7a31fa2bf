//! DataSources: names for what can be cloned.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::clock::Clock;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{DATA_SOURCE, DATA_VOLUME, PVC, VOLUME_SNAPSHOT};
use crate::object::{Condition, Key, Object as _};

/// Says of each DataSource whether it can be used.
#[derive(Debug)]
pub(super) struct DataSources {
    client: Client,
    clock: Clock,
}

impl DataSources {
    /// The controller of DataSources.
    pub(super) fn new(context: &Context) -> Self {
        Self { client: context.client(Identity::CDI_CONTROLLER), clock: context.clock }
    }
}

impl Controller for DataSources {
    const NAME: &'static str = "cdi-datasource";

    fn watches(&self) -> Vec<Watch> {
        let sources = self.client.cache(&DATA_SOURCE);
        let naming = |kind: &'static crate::kinds::Kind, field: &'static str| {
            let sources = Arc::clone(&sources);
            Watch::mapped(&self.client.cache(kind), move |change| {
                let (key, named) = (change.key(), format!("/spec/source/{field}"));
                let all = sources.list("").into_iter();
                all.filter(|source| {
                    let named = source.at(&named);
                    named["name"] == key.name.as_str() && named["namespace"] == key.namespace.as_str()
                })
                .map(|source| Key::of(&source))
                .collect()
            })
        };
        vec![
            Watch::each(&sources),
            naming(&DATA_VOLUME, "pvc"),
            naming(&PVC, "pvc"),
            naming(&VOLUME_SNAPSHOT, "snapshot"),
            naming(&DATA_SOURCE, "dataSource"),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(source) = self.client.cache(&DATA_SOURCE).get(key) else { return Ok(Next::Done) };
        let mut wanted = (*source).clone();
        let (resolved, found) = self.resolve(&source);
        if resolved.is_null() {
            wanted.unset("/status/source");
        } else {
            wanted.set("/status/source", resolved);
        }
        let condition = match &found {
            Ok(()) => Condition::new("Ready", true, "Ready", "DataSource is ready to be consumed"),
            Err((reason, message)) => Condition::new("Ready", false, reason, message),
        };
        condition.put(&mut wanted, &self.clock.seconds());
        if wanted != *source {
            self.client.replace(&DATA_SOURCE, &wanted).await?;
        }
        Ok(Next::Done)
    }
}

/// Why a DataSource cannot be used: a reason and a message.
type Unready = (String, String);

fn unready(reason: &str, message: impl Into<String>) -> Result<(), Unready> {
    Err((reason.to_owned(), message.into()))
}

impl DataSources {
    /// What a DataSource stands for, and whether it can be used.
    fn resolve(&self, source: &Value) -> (Value, Result<(), Unready>) {
        let spec = source.at("/spec/source");
        let next = &spec["dataSource"];
        if !next.is_object() {
            return (spec.clone(), self.ready(spec));
        }
        let key = Key::new(next.text("/namespace"), next.text("/name"));
        if key == Key::of(source) {
            return (Value::Null, unready("SelfReference", "DataSource cannot self-reference"));
        }
        if key.namespace != source.namespace() {
            let message = "DataSource cannot reference a DataSource in another namespace";
            return (Value::Null, unready("CrossNamespaceReference", message));
        }
        let Some(next) = self.client.cache(&DATA_SOURCE).get(&key) else {
            return (Value::Null, unready("NotFound", format!("DataSource {key} not found")));
        };
        let spec = next.at("/spec/source");
        if spec["dataSource"].is_object() {
            let message = "DataSource reference chain is too deep";
            return (Value::Null, unready("MaxReferenceDepthReached", message));
        }
        (spec.clone(), self.ready(spec))
    }

    fn ready(&self, spec: &Value) -> Result<(), Unready> {
        let key = |field: &str| Key::new(spec[field].text("/namespace"), spec[field].text("/name"));
        if spec["pvc"].is_object() {
            let key = key("pvc");
            return match self.client.cache(&DATA_VOLUME).get(&key) {
                Some(volume) => match volume.text("/status/phase") {
                    "Succeeded" => Ok(()),
                    phase => unready(
                        if phase.is_empty() { "Pending" } else { phase },
                        format!("Import DataVolume phase {phase}"),
                    ),
                },
                None if self.client.cache(&PVC).get(&key).is_some() => Ok(()),
                None => unready("NotFound", "PVC not found"),
            };
        }
        if spec["snapshot"].is_object() {
            let snapshot = self.client.cache(&VOLUME_SNAPSHOT).get(&key("snapshot"));
            return match snapshot {
                Some(snapshot) if snapshot.flag("/status/readyToUse") => Ok(()),
                Some(_) => unready("SnapshotNotReady", "Snapshot phase is not ready"),
                None => unready("NotFound", "Snapshot not found"),
            };
        }
        unready("NoSource", "No source PVC set")
    }
}

/// A DataSource that stands for a claim or a snapshot.
pub(super) fn pointing(field: &str, key: &Key) -> Value {
    json!({field: {"namespace": key.namespace, "name": key.name}})
}
