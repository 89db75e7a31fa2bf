//! Imports that repeat: a registry is asked at times, and what is new there is imported and given a name.

mod plan;
mod schedule;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use plan::{Keeps, import_name};
pub(crate) use schedule::Schedule;

use super::datasource::pointing;
use super::names;
use crate::client::{Client, Identity, Result};
use crate::clock;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{DATA_IMPORT_CRON, DATA_SOURCE, DATA_VOLUME, PVC};
use crate::object::{Condition, Key, Object as _};

/// Looks after import crons.
#[derive(Debug)]
pub(super) struct Crons {
    context: Context,
    client: Client,
}

impl Crons {
    /// The controller of import crons.
    pub(super) fn new(context: &Context) -> Self {
        Self { context: context.clone(), client: context.client(Identity::CDI_CONTROLLER) }
    }
}

impl Controller for Crons {
    const NAME: &'static str = "cdi-dataimportcron";

    fn watches(&self) -> Vec<Watch> {
        let labelled = |kind: &'static crate::kinds::Kind| {
            Watch::mapped(&self.client.cache(kind), |change| {
                let object = change.object();
                let cron = object.label(names::CRON_LABEL);
                if cron.is_empty() { Vec::new() } else { vec![Key::new(object.namespace(), cron)] }
            })
        };
        vec![
            Watch::each(&self.client.cache(&DATA_IMPORT_CRON)),
            labelled(&DATA_VOLUME),
            labelled(&DATA_SOURCE),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(cron) = self.client.cache(&DATA_IMPORT_CRON).get(key) else { return Ok(Next::Done) };
        if cron.is_deleting() {
            self.tidy(&cron).await?;
            return Ok(Next::Done);
        }
        let mut prepared = (*cron).clone();
        if prepared.add_finalizer(names::CRON_FINALIZER) {
            self.client.replace(&DATA_IMPORT_CRON, &prepared).await?;
            return Ok(Next::Done);
        }
        let (polled, next) = self.poll(&cron);
        if polled != *cron {
            self.client.replace(&DATA_IMPORT_CRON, &polled).await?;
            return Ok(Next::After(Duration::ZERO));
        }
        self.import(&cron).await?;
        Ok(next.map_or(Next::Done, Next::After))
    }
}

impl Crons {
    /// The import cron after its source was asked, if it is time for that, and how long it is until the next time.
    fn poll(&self, cron: &Value) -> (Value, Option<Duration>) {
        let mut polled = cron.clone();
        let now = self.context.clock.now();
        let schedule = Schedule::parse(cron.text("/spec/schedule")).ok();
        let never = cron.annotation(names::CRON_LAST_LOOK).is_empty();
        let due: Option<Timestamp> = cron.annotation(names::CRON_NEXT_LOOK).parse().ok();
        if never || due.is_some_and(|due| due <= now) {
            polled.set_annotation(names::CRON_LAST_LOOK, &clock::seconds(now));
            match schedule.as_ref().and_then(|schedule| schedule.after(now)) {
                Some(next) => polled.set_annotation(names::CRON_NEXT_LOOK, &clock::seconds(next)),
                None => polled.unset(&format!(
                    "/metadata/annotations/{}",
                    crate::object::escaped(names::CRON_NEXT_LOOK)
                )),
            }
            if let Some(digest) = self.digest(cron) {
                polled.set_annotation(names::CRON_DESIRED, &digest);
            }
            polled.set("/status/lastExecutionTimestamp", clock::seconds(now).into());
        }
        let next: Option<Timestamp> = polled.annotation(names::CRON_NEXT_LOOK).parse().ok();
        let wait = next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default());
        (polled, wait)
    }

    /// What identifies the content the source has now.
    fn digest(&self, cron: &Value) -> Option<String> {
        let source = cron.at("/spec/template/spec/source");
        let url = source.text("/registry/url");
        if !url.is_empty() {
            return Some(self.context.world.images.of_registry(url).content.digest);
        }
        let key = Key::new(source.text("/pvc/namespace"), source.text("/pvc/name"));
        let claim = self.client.cache(&PVC).get(&key)?;
        Some(format!("uid:{}", claim.uid()))
    }

    /// Makes the import of the newest digest, follows it, and points the DataSource at it when it is complete.
    async fn import(&self, cron: &Value) -> Result {
        let digest = cron.annotation(names::CRON_DESIRED);
        let current = cron.text("/status/currentImports/0/Digest");
        let now = self.context.clock.seconds();
        let mut wanted = cron.clone();
        if digest.is_empty() {
            conditions(&mut wanted, (false, "NoImport"), (false, "NoDigest"), &now);
            return self.put(cron, &wanted).await;
        }
        let name = import_name(cron.text("/spec/managedDataSource"), digest);
        let key = Key::new(cron.namespace(), &name);
        if current != digest {
            let import = json!({"DataVolumeName": name, "Digest": digest});
            wanted.set("/status/currentImports", json!([import]));
            conditions(&mut wanted, (false, "ImportScheduled"), (false, "Outdated"), &now);
            return self.put(cron, &wanted).await;
        }
        let Some(volume) = self.client.cache(&DATA_VOLUME).get(&key) else {
            return self.client.create_if_absent(&DATA_VOLUME, plan::import(cron, &name, digest, &now)).await;
        };
        self.point(cron, &key).await?;
        match volume.text("/status/phase") {
            "Succeeded" => {
                let imported = json!({"namespace": key.namespace, "name": key.name});
                if wanted.at("/status/lastImportedPVC") != &imported {
                    wanted.set("/status/lastImportedPVC", imported);
                    wanted.set("/status/lastImportTimestamp", now.as_str().into());
                    wanted.set("/status/sourceFormat", "pvc".into());
                }
                conditions(&mut wanted, (false, "NoImport"), (true, "UpToDate"), &now);
                self.put(cron, &wanted).await?;
                self.prune(cron, &name).await
            }
            "ImportInProgress" => {
                conditions(&mut wanted, (true, "ImportProgressing"), (false, "ImportProgressing"), &now);
                self.put(cron, &wanted).await
            }
            phase => {
                let reason = if phase.is_empty() { "ImportScheduled" } else { phase };
                conditions(&mut wanted, (false, reason), (false, reason), &now);
                self.put(cron, &wanted).await
            }
        }
    }

    async fn put(&self, cron: &Value, wanted: &Value) -> Result {
        if wanted != cron {
            self.client.replace(&DATA_IMPORT_CRON, wanted).await?;
        }
        Ok(())
    }

    /// Makes the DataSource, and points it at a complete import; an older one stays until a newer is complete.
    async fn point(&self, cron: &Value, newest: &Key) -> Result {
        let key = Key::new(cron.namespace(), cron.text("/spec/managedDataSource"));
        let done = self.client.cache(&DATA_VOLUME).get(newest);
        let done = done.is_some_and(|volume| volume.text("/status/phase") == "Succeeded");
        match self.client.cache(&DATA_SOURCE).get(&key) {
            None => {
                let source = json!({
                    "metadata": {
                        "namespace": key.namespace, "name": key.name,
                        "labels": {names::CRON_LABEL: cron.name(), names::APP: names::APP_VALUE},
                    },
                    "spec": {"source": pointing("pvc", newest)},
                });
                self.client.create_if_absent(&DATA_SOURCE, source).await
            }
            Some(source) if done && source.at("/spec/source") != &pointing("pvc", newest) => {
                let mut wanted = (*source).clone();
                wanted.set("/spec/source", pointing("pvc", newest));
                wanted.set_label(names::CRON_LABEL, cron.name());
                self.client.replace(&DATA_SOURCE, &wanted).await?;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Removes imports beyond those that are to be kept.
    async fn prune(&self, cron: &Value, newest: &str) -> Result {
        let imports = self.imports(cron);
        for name in Keeps::of(cron).outdated(&imports, newest) {
            self.client.delete(&DATA_VOLUME, &Key::new(cron.namespace(), &name), "").await?;
        }
        Ok(())
    }

    fn imports(&self, cron: &Value) -> Vec<std::sync::Arc<Value>> {
        let all = self.client.cache(&DATA_VOLUME).list(cron.namespace()).into_iter();
        all.filter(|volume| volume.label(names::CRON_LABEL) == cron.name() && !volume.is_deleting()).collect()
    }

    /// Removes what an import cron made, unless it is to be kept, and lets it go.
    async fn tidy(&self, cron: &Value) -> Result {
        if !cron.has_finalizer(names::CRON_FINALIZER) {
            return Ok(());
        }
        if cron.text("/spec/retentionPolicy") == "None" {
            for volume in self.imports(cron) {
                self.client.delete(&DATA_VOLUME, &Key::of(&volume), volume.uid()).await?;
            }
            let key = Key::new(cron.namespace(), cron.text("/spec/managedDataSource"));
            let source = self.client.cache(&DATA_SOURCE).get(&key);
            if let Some(source) = source.filter(|source| source.label(names::CRON_LABEL) == cron.name()) {
                self.client.delete(&DATA_SOURCE, &key, source.uid()).await?;
            }
        }
        let mut wanted = cron.clone();
        wanted.remove_finalizer(names::CRON_FINALIZER);
        self.put(cron, &wanted).await
    }
}

/// Says whether an import goes on and whether the newest one is there.
fn conditions(cron: &mut Value, progressing: (bool, &str), up_to_date: (bool, &str), now: &str) {
    for (kind, (holds, reason)) in [("Progressing", progressing), ("UpToDate", up_to_date)] {
        let message = match reason {
            "NoDigest" => "No source digest",
            "NoImport" => "No current import",
            "Outdated" => "Source digest updated since last import",
            "ImportScheduled" => "Import is scheduled",
            "ImportProgressing" => "Import is progressing",
            "UpToDate" => "Latest import is up to date",
            _ => "",
        };
        Condition::new(kind, holds, reason, message).put(cron, now);
    }
}
