//! What is said of a cluster that is grown: conditions, how far it is, and where it is reached.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trellis_bootstrap::names::API_PORT;
use trellis_runtime::Key;
use trellis_runtime::client::Error;

use super::{Founder, Trouble};
use crate::Condition;
use crate::controllers::fleet::CLUSTERS;
use crate::families::{Object, cluster_condition_holds, cluster_status};
use crate::install::{Milestone, Progress, Stage};

const BOOTSTRAP_COMPLETE: &str = "BootstrapComplete";
const INSTALL_COMPLETE: &str = "InstallComplete";
const READY: &str = "Ready";

/// What is said.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    conditions: Vec<Condition>,
    fields: Map<String, Value>,
}

impl Founder {
    fn record(&self) -> Key {
        Key::new(&self.namespace, self.cluster.name.as_str())
    }

    /// The milestone that was said to be next, and since when: a deadline does not begin anew with whoever waits for it.
    pub(super) async fn said_before(&self) -> Result<Option<(Milestone, Timestamp)>, Error> {
        let Some(object) = self.control.find::<Object>(&CLUSTERS, &self.record()).await? else {
            return Ok(None);
        };
        let status = object.status_json();
        let progress = status.get("progress").unwrap_or(&Value::Null);
        let next = Milestone::ALL.into_iter().find(|one| progress["step"] == one.name());
        let since = progress["since"].as_str().and_then(|text| text.parse().ok());
        Ok(next.zip(since))
    }

    /// Says on the record how far it is, and why it does not get on, if it does not.
    pub(super) async fn say(
        &self,
        progress: &Progress,
        since: Timestamp,
        stuck: Option<&(&'static str, String)>,
    ) -> Result<(), Error> {
        let up = progress.stage >= Stage::Growing;
        let done = progress.stage == Stage::Complete;
        let (reason, message) = match stuck {
            Some((reason, why)) => {
                let minutes = self.clock.now().duration_since(since).as_mins();
                (*reason, format!("{}, for {minutes} minutes now: {why}", progress.message))
            }
            None => (progress.stage.name(), progress.message.clone()),
        };
        let mut conditions = vec![if up {
            let message = "the control plane serves, and needs no bootstrap machine any more".to_owned();
            Condition { kind: BOOTSTRAP_COMPLETE, holds: Some(true), reason: "Complete", message }
        } else {
            let message = message.clone();
            Condition { kind: BOOTSTRAP_COMPLETE, holds: Some(false), reason, message }
        }];
        for kind in [INSTALL_COMPLETE, READY] {
            conditions.push(Condition { kind, holds: Some(done), reason, message: message.clone() });
        }
        let mut fields = Map::new();
        fields.insert("phase".to_owned(), progress.stage.name().into());
        let step = progress.next.map_or("", Milestone::name);
        let steps = format!("{}/{}", progress.done, Milestone::ALL.len());
        fields
            .insert("progress".to_owned(), json!({"steps": steps, "step": step, "since": since.to_string()}));
        if let Some(address) = self.service("api").and_then(|service| service.address()) {
            let endpoint = std::net::SocketAddr::new(address, API_PORT);
            fields.insert("endpoint".to_owned(), format!("https://{endpoint}").into());
        }
        if self.state.lock().kubeconfig {
            fields.insert("kubeconfigSecret".to_owned(), self.secret("kubeconfig").name().into());
        }
        self.write(Said { conditions, fields }).await
    }

    /// Says that something could not be done.
    pub(super) async fn told_trouble(&self, trouble: &Trouble) {
        let step = self.state.lock().since.map_or("", |(next, _)| next.name());
        let message = if step.is_empty() { trouble.to_string() } else { format!("{step}: {trouble}") };
        let said = |kind| Condition { kind, holds: Some(false), reason: "Trouble", message: message.clone() };
        let conditions = [INSTALL_COMPLETE, READY].map(said).into();
        if let Err(error) = self.write(Said { conditions, fields: Map::new() }).await {
            tracing::debug!(%error, "how far it is cannot be said");
        }
    }

    async fn write(&self, mut said: Said) -> Result<(), Error> {
        if self.state.lock().said.as_ref() == Some(&said) {
            return Ok(());
        }
        let whole = said.clone();
        // A tenant from a file has no object to say it on.
        if let Some(object) = self.control.find::<Object>(&CLUSTERS, &self.record()).await? {
            // Once it was there, it is no longer being installed, whatever happens to it.
            if cluster_condition_holds(&object, INSTALL_COMPLETE) {
                said.conditions.retain(|condition| condition.kind != INSTALL_COMPLETE);
            }
            let patch = cluster_status(&object, &said.conditions, said.fields, self.clock.now());
            if let Some(patch) = patch {
                self.control.merge_patch_status::<Value>(&CLUSTERS, &self.record(), &patch).await?;
            }
        }
        self.state.lock().said = Some(whole);
        Ok(())
    }
}
