//! Makes volumes for claims that ask for one: what runs beside every CSI driver.

use std::sync::Arc;

use serde_json::{Value, json};

use super::classes::{Driver, class_of, driver, waits_for_consumer};
use super::provision::{self, SELECTED_NODE, Wish, provisioner_of, volume_name, wish};
use super::told::Told;
use crate::client::{Cache, Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CSI_NODE, NODE, PV, PVC, STORAGE_CLASS, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT};
use crate::object::{Key, Object as _};
use crate::waits::{Waited, Waits};

/// Makes volumes.
#[derive(Debug)]
pub(super) struct Provisioner {
    context: Context,
    client: Client,
    claims: Arc<Cache>,
    volumes: Arc<Cache>,
    classes: Arc<Cache>,
    nodes: Arc<Cache>,
    csi_nodes: Arc<Cache>,
    snapshots: Arc<Cache>,
    contents: Arc<Cache>,
    recorder: Recorder,
    told: Told,
    waits: Waits,
}

/// Why a volume cannot be made now.
enum Problem {
    /// The driver's words, or the provisioner's.
    Refused(String),
    /// There is no room where the scheduler wants it; another node may have some.
    NoRoom(String),
    /// The node it is for is no longer there.
    NoNode(String),
}

impl Provisioner {
    pub(super) fn new(context: &Context) -> Self {
        let client = context.client(Identity::PROVISIONER);
        let recorder = context.recorder(Identity::PROVISIONER);
        Self {
            claims: client.cache(&PVC),
            volumes: client.cache(&PV),
            classes: client.cache(&STORAGE_CLASS),
            nodes: client.cache(&NODE),
            csi_nodes: client.cache(&CSI_NODE),
            snapshots: client.cache(&VOLUME_SNAPSHOT),
            contents: client.cache(&VOLUME_SNAPSHOT_CONTENT),
            told: Told::new(recorder.clone()),
            recorder,
            waits: Waits::new(&context.stages),
            client,
            context: context.clone(),
        }
    }

    /// One attempt at a volume: not yet, or made.
    async fn attempt(
        &self,
        claim: &Value,
        class: &Value,
        driver: &'static Driver,
    ) -> Result<Looked, Problem> {
        let place = self.place(claim, class, driver)?;
        let origin = self.origin(claim, driver)?;
        if let Some(words) = driver.refuses(claim) {
            return Err(Problem::Refused(format!("rpc error: code = InvalidArgument desc = {words}")));
        }
        if !self.waits.is_begun(claim.uid()) {
            let message =
                format!("External provisioner is provisioning volume for claim \"{}\"", Key::of(claim));
            self.recorder.normal(&PVC, claim, "Provisioning", &message).await;
        }
        let stage = if matches!(wish(claim), Wish::Claim(_)) { "clone.csi" } else { "volume.provision" };
        match self.waits.ask(claim.uid(), stage, claim) {
            Waited::NotYet(left) => return Ok(Ok(Next::After(left))),
            Waited::Failed(words) => return Err(Problem::Refused(words)),
            Waited::Passed => {}
        }
        let handle = format!("vol-{}", claim.uid());
        let world = &self.context.world.volumes;
        world
            .make_in(class.name(), &handle, provision::size(claim))
            .map_err(|full| Problem::NoRoom(format!("rpc error: code = ResourceExhausted desc = {full}")))?;
        let filled = match &origin {
            None => true,
            Some(Origin::Volume(from)) => world.copy(from, &handle),
            Some(Origin::Snapshot(from)) => world.restore(from, &handle),
        };
        if !filled {
            world.remove(&handle);
            return Err(Problem::Refused("rpc error: code = NotFound desc = the source is gone".to_owned()));
        }
        let volume = provision::volume(claim, class, driver, &handle, place.as_deref());
        Ok(self.client.create_if_absent(&PV, volume).await.map(|()| Next::Done))
    }

    /// Where the volume has to be, if it matters to the driver.
    fn place(&self, claim: &Value, class: &Value, driver: &Driver) -> Result<Option<String>, Problem> {
        let allowed = provision::allowed(class, driver.topology);
        let node = claim.annotation(SELECTED_NODE);
        if node.is_empty() {
            if driver.topology.is_empty() {
                return Ok(None);
            }
            return Ok(Some(self.any_place(claim, driver, allowed.as_deref())?));
        }
        let Some(host) = self.nodes.get(&Key::cluster(node)) else {
            return Err(Problem::NoNode(format!("failed to get target node: node \"{node}\" not found")));
        };
        let registered = self.csi_nodes.get(&Key::cluster(node));
        let knows = |node: &Arc<Value>| {
            node.list("/spec/drivers").iter().any(|known| known.text("/name") == driver.name)
        };
        if !registered.as_ref().is_some_and(knows) {
            return Err(Problem::Refused(format!(
                "error generating accessibility requirements: no topology key found on CSINode {node}"
            )));
        }
        if driver.topology.is_empty() {
            return Ok(None);
        }
        let place = host.label(driver.topology);
        if place.is_empty() || allowed.is_some_and(|allowed| !allowed.contains(&place)) {
            return Err(Problem::Refused(format!(
                "error generating accessibility requirements: selected node '\"{node}\"' topology \
                 'map[{}:{place}]' is not in requisite",
                driver.topology
            )));
        }
        Ok(Some(place.to_owned()))
    }

    /// Any place there is, for a claim that does not wait for a pod.
    fn any_place(&self, claim: &Value, driver: &Driver, allowed: Option<&[&str]>) -> Result<String, Problem> {
        let nodes = self.nodes.list("");
        let mut places: Vec<&str> = match allowed {
            Some(allowed) => allowed.to_vec(),
            None => nodes.iter().map(|node| node.label(driver.topology)).collect(),
        };
        places.retain(|place| !place.is_empty());
        places.sort_unstable();
        places.dedup();
        let chance = self.context.stages.chance("volume.place", claim.uid(), 0);
        let picks = u64::try_from(places.len()).unwrap_or(u64::MAX).max(1);
        let pick = usize::try_from(chance % picks).unwrap_or_default();
        places.get(pick).map(|place| (*place).to_owned()).ok_or_else(|| {
            Problem::Refused(
                "error generating accessibility requirements: no available topology found".to_owned(),
            )
        })
    }

    /// What the volume is filled from, if anything.
    fn origin(&self, claim: &Value, driver: &Driver) -> Result<Option<Origin>, Problem> {
        match wish(claim) {
            Wish::Empty | Wish::Populator => Ok(None),
            Wish::Claim(name) => {
                let source = self.claims.get(&Key::new(claim.namespace(), name));
                let volume = source
                    .as_ref()
                    .and_then(|source| self.volumes.get(&Key::cluster(source.text("/spec/volumeName"))));
                if let Some(problem) =
                    provision::clone_problem(claim, source.as_deref(), volume.as_deref(), driver)
                {
                    return Err(Problem::Refused(problem));
                }
                Ok(volume.map(|volume| Origin::Volume(volume.text("/spec/csi/volumeHandle").to_owned())))
            }
            Wish::Snapshot(name) => {
                let snapshot = self.snapshots.get(&Key::new(claim.namespace(), name));
                let content = snapshot.as_ref().and_then(|snapshot| {
                    self.contents.get(&Key::cluster(snapshot.text("/status/boundVolumeSnapshotContentName")))
                });
                if let Some(problem) =
                    provision::restore_problem(claim, snapshot.as_deref(), content.as_deref(), driver)
                {
                    return Err(Problem::Refused(problem));
                }
                Ok(content.map(|content| Origin::Snapshot(content.text("/status/snapshotHandle").to_owned())))
            }
        }
    }

    async fn failed(&self, claim: &Value, problem: Problem) -> Looked {
        let (words, elsewhere) = match problem {
            Problem::Refused(words) => (words, false),
            Problem::NoRoom(words) | Problem::NoNode(words) => (words, true),
        };
        let message =
            format!("failed to provision volume with StorageClass \"{}\": {words}", class_of(claim));
        self.recorder.warning(&PVC, claim, "ProvisioningFailed", &message).await;
        let wait = self.waits.fail(claim.uid());
        if elsewhere && !claim.annotation(SELECTED_NODE).is_empty() {
            // The scheduler may find a better node.
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: null}}});
            self.client.merge(&PVC, &Key::of(claim), &patch).await?;
        }
        Ok(Next::After(wait))
    }
}

/// What a volume is filled from, by handle.
enum Origin {
    Volume(String),
    Snapshot(String),
}

impl Controller for Provisioner {
    const NAME: &'static str = "csi-provisioner";

    fn watches(&self) -> Vec<Watch> {
        let claims = Arc::clone(&self.claims);
        vec![
            Watch::each(&self.claims),
            Watch::mapped(&self.classes, move |_| {
                let all = claims.list("");
                let open = all.iter().filter(|claim| claim.text("/spec/volumeName").is_empty());
                open.map(|claim| Key::of(claim)).collect()
            }),
            // Only to be complete before anything is decided.
            Watch::known(&self.volumes),
            Watch::known(&self.nodes),
            Watch::known(&self.csi_nodes),
            Watch::known(&self.snapshots),
            Watch::known(&self.contents),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(claim) = self.claims.get(key) else { return Ok(Next::Done) };
        if claim.is_deleting() || !claim.text("/spec/volumeName").is_empty() {
            self.waits.forget(claim.uid());
            self.told.forget(claim.uid());
            return Ok(Next::Done);
        }
        let (Some(driver), Some(class)) =
            (driver(provisioner_of(&claim)), self.classes.get(&Key::cluster(class_of(&claim))))
        else {
            return Ok(Next::Done);
        };
        if waits_for_consumer(&class) && claim.annotation(SELECTED_NODE).is_empty()
            || class.text("/provisioner") != driver.name
            || self.volumes.get(&Key::cluster(&volume_name(&claim))).is_some()
        {
            return Ok(Next::Done);
        }
        if wish(&claim) == Wish::Populator {
            let message = "Assuming an external populator will provision the volume";
            self.told.normal(&PVC, &claim, "Provisioning", message).await;
            return Ok(Next::Done);
        }
        if let Some(left) = self.waits.resting(claim.uid()) {
            return Ok(Next::After(left));
        }
        match self.attempt(&claim, &class, driver).await {
            Ok(Ok(Next::Done)) => {
                let message = format!("Successfully provisioned volume {}", volume_name(&claim));
                self.recorder.normal(&PVC, &claim, "ProvisioningSucceeded", &message).await;
                self.waits.forget(claim.uid());
                Ok(Next::Done)
            }
            Ok(other) => other,
            Err(problem) => self.failed(&claim, problem).await,
        }
    }
}
