//! virt-controller's part.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::{self, Step, View};
use super::{
    EVACUATION_ANNOTATION, FINALIZER, PER_CLUSTER, PER_NODE, TARGET_LABEL, handle, is_final, is_running,
    pods, policy,
};
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{MIGRATION, NAMESPACE, POD, PVC, VMI};
use crate::kubevirt::hotplug;
use crate::kubevirt::names::{COMPONENT_LABEL, DOMAIN_ANNOTATION, MIGRATION_LABEL};
use crate::object::{Condition, Key, Object as _};

/// How many migrations of an instance are kept when they are over.
const KEPT: usize = 5;

/// Leads migrations through their phases.
#[derive(Debug)]
pub(super) struct Control {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// Held while room is counted and taken, so that two migrations cannot take the same.
    room: tokio::sync::Mutex<()>,
}

/// Something is not there yet; the change that brings it is seen.
struct NotYet;

/// How many migrations run: in all, and by the host they leave.
fn running(
    migrations: &[Arc<Value>],
    host_of: impl Fn(&Value) -> String,
    has_pod: impl Fn(&Value) -> bool,
) -> (usize, BTreeMap<String, usize>) {
    let mut by_host = BTreeMap::new();
    let mut all = 0;
    for migration in migrations {
        let pending = migration.text("/status/phase") == "Pending" && has_pod(migration);
        if is_running(migration) || pending {
            all += 1;
            *by_host.entry(host_of(migration)).or_default() += 1;
        }
    }
    (all, by_host)
}

/// How many migrations of an instance failed since one succeeded, and when the last did.
fn failures(migrations: &[Arc<Value>]) -> Option<(u32, Timestamp)> {
    let mut over: Vec<(Timestamp, bool)> = migrations
        .iter()
        .filter(|migration| is_final(migration))
        .filter_map(|migration| {
            let last = migration.list("/status/phaseTransitionTimestamps").last()?;
            let at = last.text("/phaseTransitionTimestamp").parse().ok()?;
            Some((at, migration.text("/status/phase") == "Failed"))
        })
        .collect();
    over.sort_unstable();
    let failed = over.iter().rev().take_while(|(_, failed)| *failed).count();
    let (last, _) = over.last()?;
    (failed > 0).then(|| (u32::try_from(failed).unwrap_or(u32::MAX), *last))
}

impl Control {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::VIRT_CONTROLLER),
            recorder: context.recorder(Identity::VIRT_CONTROLLER),
            room: tokio::sync::Mutex::default(),
        }
    }

    fn vmi_of(&self, migration: &Value) -> Option<Arc<Value>> {
        self.client.cache(&VMI).get(&Key::new(migration.namespace(), migration.text("/spec/vmiName")))
    }

    fn siblings(&self, migration: &Value) -> Vec<Arc<Value>> {
        let vmi = format!("{}/{}", migration.namespace(), migration.text("/spec/vmiName"));
        self.client.cache(&MIGRATION).find("vmi", &vmi)
    }

    /// The pod that was made for a migration.
    fn target_pod(&self, migration: &Value, vmi: Option<&Value>) -> Option<Arc<Value>> {
        let cache = self.client.cache(&POD);
        let pods = match vmi {
            Some(vmi) => cache.controlled_by(vmi.uid()),
            None => cache.list(migration.namespace()),
        };
        pods.into_iter().find(|pod| pod.label(MIGRATION_LABEL) == migration.uid())
    }

    /// The pod an instance runs in.
    fn source_pod(&self, vmi: &Value, migration: &Value) -> Option<Arc<Value>> {
        let pods = self.client.cache(&POD).controlled_by(vmi.uid());
        let runs = |pod: &Arc<Value>| {
            pod.label(COMPONENT_LABEL) == "virt-launcher"
                && pod.label(MIGRATION_LABEL) != migration.uid()
                && pod.text("/spec/nodeName") == vmi.text("/status/nodeName")
                && !pod.is_over()
        };
        pods.into_iter().filter(runs).max_by_key(|pod| pod.version())
    }

    fn has_room(&self, vmi: &Value) -> bool {
        let migrations = self.client.cache(&MIGRATION).list("");
        let host_of = |migration: &Value| {
            self.vmi_of(migration).map(|vmi| vmi.text("/status/nodeName").to_owned()).unwrap_or_default()
        };
        let has_pod =
            |migration: &Value| self.target_pod(migration, self.vmi_of(migration).as_deref()).is_some();
        let (all, by_host) = running(&migrations, host_of, has_pod);
        all < PER_CLUSTER && by_host.get(vmi.text("/status/nodeName")).is_none_or(|count| *count < PER_NODE)
    }

    fn view<'v>(&self, migration: &'v Value, vmi: Option<&'v Value>, pod: Option<&'v Value>) -> View<'v> {
        let siblings = self.siblings(migration);
        let goes_before = |other: &Arc<Value>| {
            let stamp =
                |one: &Value| (one.text("/metadata/creationTimestamp").to_owned(), one.name().to_owned());
            !is_final(other) && other.uid() != migration.uid() && stamp(other) < stamp(migration)
        };
        let now = self.context.clock.now();
        let is_automatic = !migration.annotation(EVACUATION_ANNOTATION).is_empty();
        let backoff = failures(&siblings)
            .filter(|_| is_automatic)
            .and_then(|(count, ended)| decide::backoff(count, ended, now));
        View {
            migration,
            vmi,
            pod,
            is_queued: siblings.iter().any(goes_before),
            has_room: vmi.is_some_and(|vmi| self.has_room(vmi)),
            backoff,
            now,
        }
    }

    async fn set_phase(&self, migration: &Value, phase: &str) -> Result<Value> {
        let mut new = decide::in_phase(migration, phase, &self.context.clock.seconds());
        if matches!(phase, "Succeeded" | "Failed") {
            if let Some(vmi) = self.vmi_of(migration)
                && vmi.text("/status/migrationState/migrationUid") == migration.uid()
            {
                new["status"]["migrationState"] = vmi["status"]["migrationState"].clone();
            }
            new.unset("/status/conditions");
        }
        self.client.replace_status(&MIGRATION, &new).await
    }

    async fn take(&self, view: &View<'_>, step: Step) -> Looked {
        let migration = view.migration;
        match step {
            Step::Nothing => {}
            Step::Wait(wait, failed) => {
                if failed {
                    let message = format!(
                        "backoff migrating vmi {}/{}",
                        migration.namespace(),
                        migration.text("/spec/vmiName")
                    );
                    self.recorder.warning(&MIGRATION, migration, "MigrationBackoff", &message).await;
                }
                return Ok(Next::After(wait));
            }
            Step::Phase(phase) => {
                let written = self.set_phase(migration, phase).await?;
                if phase == "Succeeded" {
                    let message = "Source node reported migration succeeded";
                    self.recorder.normal(&MIGRATION, &written, "SuccessfulMigration", message).await;
                }
            }
            Step::Fail(reason, message) => self.fail(view, reason, &message).await?,
            Step::MakePod => return self.make_pod(view).await,
            Step::DropPod => {
                if let Some(pod) = view.pod {
                    self.client.delete(&POD, &Key::of(pod), pod.uid()).await?;
                }
            }
            Step::HandOver => self.hand_over(view).await?,
            Step::Abort => self.abort(view).await?,
            Step::Release => {
                let mut new = migration.clone();
                new.remove_finalizer(FINALIZER);
                self.client.replace(&MIGRATION, &new).await?;
                self.tidy_up(migration).await?;
            }
        }
        Ok(Next::Done)
    }

    async fn fail(&self, view: &View<'_>, reason: &'static str, message: &str) -> Result {
        let migration = view.migration;
        // What virt-handler has not ended itself ends here.
        if let Some(vmi) = view.vmi
            && vmi.text("/status/migrationState/migrationUid") == migration.uid()
            && !vmi.flag("/status/migrationState/completed")
        {
            let new = handle::failed(vmi, message, &self.context.clock.seconds());
            self.client.replace(&VMI, &new).await?;
        }
        let written = self.set_phase(migration, "Failed").await?;
        self.recorder.warning(&MIGRATION, &written, reason, message).await;
        Ok(())
    }

    async fn make_pod(&self, view: &View<'_>) -> Looked {
        let _room = self.room.lock().await;
        let (migration, Some(vmi)) = (view.migration, view.vmi) else { return Ok(Next::Done) };
        if !self.has_room(vmi) || self.target_pod(migration, Some(vmi)).is_some() {
            return Ok(Next::After(decide::NO_ROOM));
        }
        let Some(source) = self.source_pod(vmi, migration) else {
            return Ok(Next::After(decide::NO_ROOM));
        };
        match self.client.create(&POD, pods::target(&source, migration, vmi)).await {
            Ok(pod) => {
                let message = format!("Created migration target pod {}", pod.name());
                self.recorder.normal(&MIGRATION, migration, "SuccessfulCreate", &message).await;
                Ok(Next::Done)
            }
            Err(failure) => {
                let message = format!("Error creating pod: {failure}");
                self.recorder.warning(&MIGRATION, migration, "FailedCreate", &message).await;
                if failure.message.contains("exceeded quota") {
                    let mut new = migration.clone();
                    let condition = Condition::new(
                        "migrationRejectedByResourceQuota",
                        true,
                        "Migration rejected by ResourceQuota",
                        &failure.message,
                    );
                    if condition.put(&mut new, &self.context.clock.seconds()) {
                        self.client.replace_status(&MIGRATION, &new).await?;
                    }
                }
                Err(failure)
            }
        }
    }

    async fn hand_over(&self, view: &View<'_>) -> Result {
        let (migration, Some(vmi), Some(pod)) = (view.migration, view.vmi, view.pod) else { return Ok(()) };
        let Ok(holder) = self.hold_volumes(vmi, pod).await? else { return Ok(()) };
        let source = self.source_pod(vmi, migration);
        let namespace = self.client.cache(&NAMESPACE).get(&Key::cluster(vmi.namespace()));
        let policies = self.policies().await;
        let (configuration, policy) =
            policy::configuration(&policies, vmi, namespace.as_deref().unwrap_or(&Value::Null));
        let mut new = vmi.clone();
        new.set_label(TARGET_LABEL, pod.text("/spec/nodeName"));
        let mut state = json!({
            "migrationUid": migration.uid(), "sourceNode": vmi["status"]["nodeName"],
            "sourcePod": source.map(|pod| pod.name().to_owned()).unwrap_or_default(),
            "targetNode": pod["spec"]["nodeName"],
            "targetPod": pod.name(), "migrationConfiguration": configuration,
        });
        if !policy.is_empty() {
            state["migrationPolicyName"] = policy.into();
        }
        if let Some(holder) = holder {
            state["targetAttachmentPodUID"] = holder.into();
        }
        new.set("/status/migrationState", state);
        if new.text("/status/migrationMethod").is_empty() {
            new.set("/status/migrationMethod", "LiveMigration".into());
        }
        self.client.replace(&VMI, &new).await?;
        let message = "Migration target pod is ready for preparation by virt-handler.";
        self.recorder.normal(&MIGRATION, migration, "SuccessfulHandOver", message).await;
        Ok(())
    }

    /// Has what is plugged into an instance held at the target: the uid of the pod that holds it, nothing where
    /// there is nothing to hold, an error while it is not there yet.
    async fn hold_volumes(&self, vmi: &Value, target: &Value) -> Result<Result<Option<String>, NotYet>> {
        let claims = self.client.cache(&PVC);
        let is_block = |claim: &str| {
            let claim = claims.get(&Key::new(vmi.namespace(), claim));
            claim.is_some_and(|claim| claim.text("/spec/volumeMode") == "Block")
        };
        let Some(wanted) = hotplug::holder_beside(vmi, target, is_block) else { return Ok(Ok(None)) };
        let held = self.client.cache(&POD).controlled_by(target.uid());
        let Some(holder) = held.iter().find(|pod| !hotplug::held_for(pod).is_empty()) else {
            self.client.create(&POD, wanted).await?;
            return Ok(Err(NotYet));
        };
        Ok(if hotplug::is_holding(holder) { Ok(Some(holder.uid().to_owned())) } else { Err(NotYet) })
    }

    /// The policies, where the cluster knows such a kind.
    async fn policies(&self) -> Vec<Value> {
        let path = "/apis/migrations.kubevirt.io/v1alpha1/migrationpolicies";
        match self.client.send(http::Method::GET, path, None).await {
            Ok(list) => list.list("/items").to_vec(),
            Err(_) => Vec::new(),
        }
    }

    async fn abort(&self, view: &View<'_>) -> Result {
        let (migration, Some(vmi)) = (view.migration, view.vmi) else { return Ok(()) };
        let mut new = vmi.clone();
        new.set("/status/migrationState/abortRequested", true.into());
        self.client.replace(&VMI, &new).await?;
        let mut asked = migration.clone();
        if Condition::new("migrationAbortRequested", true, "", "")
            .put(&mut asked, &self.context.clock.seconds())
        {
            let migration = self.client.replace_status(&MIGRATION, &asked).await?;
            let message = "Migration is ready to be canceled by virt-handler.";
            self.recorder.normal(&MIGRATION, &migration, "SuccessfulAbortMigration", message).await;
        }
        Ok(())
    }

    /// Deletes the oldest of the migrations of an instance that are over.
    async fn tidy_up(&self, migration: &Value) -> Result {
        let mut over: Vec<Arc<Value>> =
            self.siblings(migration).into_iter().filter(|one| is_final(one) && !one.is_deleting()).collect();
        over.sort_by_key(|one| (one.text("/metadata/creationTimestamp").to_owned(), one.name().to_owned()));
        for old in over.iter().rev().skip(KEPT) {
            self.client.delete(&MIGRATION, &Key::of(old), old.uid()).await?;
        }
        Ok(())
    }
}

impl Controller for Control {
    const NAME: &'static str = "migration";

    fn watches(&self) -> Vec<Watch> {
        let of_instance = |migrations: Arc<crate::client::Cache>| {
            move |key: Key| -> Vec<Key> {
                let found = migrations.find("vmi", &key.to_string());
                found.iter().map(|migration| Key::of(migration)).collect()
            }
        };
        let (of_vmi, of_pod) =
            (of_instance(self.client.cache(&MIGRATION)), of_instance(self.client.cache(&MIGRATION)));
        let of_sibling = of_instance(self.client.cache(&MIGRATION));
        vec![
            Watch::mapped(&self.client.cache(&MIGRATION), move |change| {
                let migration = change.object();
                let mut keys = of_sibling(Key::new(migration.namespace(), migration.text("/spec/vmiName")));
                keys.push(change.key());
                keys
            }),
            Watch::mapped(&self.client.cache(&VMI), move |change| of_vmi(change.key())),
            Watch::mapped(&self.client.cache(&POD), move |change| {
                let pod = change.object();
                match (pod.annotation(DOMAIN_ANNOTATION), hotplug::held_for(pod)) {
                    ("", "") => Vec::new(),
                    ("", name) | (name, _) => of_pod(Key::new(pod.namespace(), name)),
                }
            }),
            Watch::known(&self.client.cache(&NAMESPACE)),
            Watch::known(&self.client.cache(&PVC)),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(migration) = self.client.cache(&MIGRATION).get(key) else { return Ok(Next::Done) };
        let vmi = self.vmi_of(&migration);
        let pod = self.target_pod(&migration, vmi.as_deref());
        let view = self.view(&migration, vmi.as_deref(), pod.as_deref());
        let step = decide::next(&view);
        self.take(&view, step).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(phase: &str, at: &str) -> Arc<Value> {
        Arc::new(
            json!({"status": {"phase": phase, "phaseTransitionTimestamps": [{"phaseTransitionTimestamp": at}]}}),
        )
    }

    #[test]
    fn failures_are_counted_since_the_last_success() {
        let at = |minute: u8| format!("2026-01-01T00:0{minute}:00Z");
        let migrations = [
            over("Failed", &at(1)),
            over("Succeeded", &at(2)),
            over("Failed", &at(3)),
            over("Failed", &at(4)),
        ];
        assert_eq!(failures(&migrations), Some((2, at(4).parse().unwrap())));
        assert_eq!(failures(&migrations[..2]), None);
        assert_eq!(failures(&[]), None);
    }

    #[test]
    fn a_place_in_the_queue_is_no_room_taken() {
        let migration = |phase: &str| Arc::new(json!({"status": {"phase": phase}}));
        let all =
            [migration("Pending"), migration("Running"), migration("Succeeded"), migration("Scheduling")];
        let (count, by_host) = running(&all, |_| "a".to_owned(), |_| false);
        assert_eq!((count, by_host.get("a")), (2, Some(&2)));
        assert_eq!(running(&all, |_| "a".to_owned(), |_| true).0, 3);
    }
}
