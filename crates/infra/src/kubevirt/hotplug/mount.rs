//! virt-handler's part: mounting what a pod holds, and plugging it into the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{claim_of, set_phase, statuses, with_statuses};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{PV, PVC, VMI};
use crate::object::{Key, Object as _};
use crate::stages::Effect;
use crate::world::machine::{Command, Disk, Machine};

/// How often a machine is asked whether a disk is there.
const POLL: Duration = Duration::from_millis(100);
/// How long to wait after something went wrong.
const AGAIN: Duration = Duration::from_secs(1);

/// What virt-handler does about one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Mounts it in the launcher's pod.
    Mount,
    /// Plugs it into the machine.
    Plug,
    /// It is there: says so, with its place in the guest.
    Ready(String),
    /// Pulls it out of the machine.
    Pull,
    /// It is out and unmounted: says so.
    Unmounted,
    Nothing,
}

/// What comes next for a volume.
fn next(status: &Value, is_wanted: bool, disk: Option<&Disk>) -> Step {
    let phase = status.text("/phase");
    match (is_wanted, disk) {
        (true, None) => match phase {
            "AttachedToNode" if !status.text("/hotplugVolume/attachPodUID").is_empty() => Step::Mount,
            "MountedToPod" => Step::Plug,
            _ => Step::Nothing,
        },
        (true, Some(disk)) if phase != "Ready" || status.text("/target") != disk.target => {
            Step::Ready(disk.target.clone())
        }
        (false, Some(_)) => Step::Pull,
        // Whoever unplugs it says so first.
        (false, None) if phase == "Detaching" => Step::Unmounted,
        (true, Some(_)) | (false, None) => Step::Nothing,
    }
}

/// The first free place in the guest on a bus.
fn target(bus: &str, taken: &[Disk]) -> String {
    let prefix = if bus == "virtio" { "vd" } else { "sd" };
    let mut names = (0..).map(|number| format!("{prefix}{}", letters(number)));
    // There are more names than disks.
    names.find(|name| !taken.iter().any(|disk| disk.target == *name)).unwrap_or_default()
}

/// `a`, `b`, …, `z`, `aa`, …
fn letters(mut number: u32) -> String {
    let mut text = String::new();
    loop {
        text.insert(0, char::from(b'a' + u8::try_from(number % 26).unwrap_or_default()));
        if number < 26 {
            return text;
        }
        number = number / 26 - 1;
    }
}

/// When a stage of a volume is over, and how.
#[derive(Debug, Clone)]
struct Due {
    at: Instant,
    effect: Effect,
}

/// Mounts and plugs volumes.
#[derive(Debug)]
pub(super) struct Mount {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// By instance, volume and stage.
    due: Mutex<HashMap<(String, String, &'static str), Due>>,
    attempts: Mutex<HashMap<(String, String), u64>>,
}

impl Mount {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::VIRT_HANDLER),
            recorder: context.recorder(Identity::VIRT_HANDLER),
            due: Mutex::default(),
            attempts: Mutex::default(),
        }
    }

    /// Passes a stage: nothing when it is passed, else how long to wait, or why it failed.
    fn pass(&self, stage: &'static str, vmi: &Value, name: &str) -> Result<Option<Duration>, String> {
        let place = (vmi.uid().to_owned(), name.to_owned(), stage);
        let attempt = *self.attempts.lock().entry((vmi.uid().to_owned(), name.to_owned())).or_default();
        let mut table = self.due.lock();
        let due = table.entry(place.clone()).or_insert_with(|| {
            let mut about =
                json!({"metadata": vmi["metadata"], "spec": vmi["spec"], "volume": {"name": name}});
            about.set("/metadata/uid", format!("{}/{name}", vmi.uid()).into());
            let outcome = self.context.stages.outcome(stage, &about, attempt);
            Due { at: Instant::now() + outcome.after, effect: outcome.effect }
        });
        let left = due.at.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Ok(Some(left));
        }
        let effect = due.effect.clone();
        table.remove(&place);
        drop(table);
        match effect {
            Effect::Pass => Ok(None),
            Effect::Hang => Ok(Some(AGAIN)),
            Effect::Fail(message) => {
                *self.attempts.lock().entry((place.0, place.1)).or_default() += 1;
                Err(message)
            }
        }
    }

    /// Forgets what was kept for an instance that is gone.
    fn forget(&self, key: &Key) {
        let gone = |uid: &str| {
            let instances = self.client.cache(&VMI);
            !instances.list(&key.namespace).iter().any(|vmi| vmi.uid() == uid)
        };
        self.due.lock().retain(|(uid, ..), _| !gone(uid));
        self.attempts.lock().retain(|(uid, _), _| !gone(uid));
    }

    /// The disk for a volume.
    fn disk(&self, vmi: &Value, name: &str, machine: &Machine) -> Disk {
        let find = |list: &'static str| vmi.list(list).iter().find(|one| one["name"] == name);
        let (volume, disk) = (find("/spec/volumes"), find("/spec/domain/devices/disks"));
        let disk = disk.cloned().unwrap_or_default();
        let claim = Key::new(vmi.namespace(), volume.map(claim_of).unwrap_or_default());
        let claim = self.client.cache(&PVC).get(&claim);
        let bound = claim.as_ref().map(|claim| claim.text("/spec/volumeName")).unwrap_or_default();
        let persistent = self.client.cache(&PV).get(&Key::cluster(bound));
        let handle = persistent.map(|volume| volume.text("/spec/csi/volumeHandle").to_owned());
        let handle = handle.filter(|handle| !handle.is_empty()).unwrap_or_else(|| bound.to_owned());
        let content = self.context.world.volumes.get(&handle).unwrap_or_default();
        let bus = match (disk.text("/disk/bus"), disk.text("/lun/bus")) {
            ("", "") => "scsi",
            ("", bus) | (bus, _) => bus,
        };
        Disk {
            name: name.to_owned(),
            target: target(bus, &machine.plan().disks),
            serial: disk.text("/serial").to_owned(),
            volume: handle,
            bootable: content.content.bootable,
            size: if content.content.virtual_size > 0 {
                content.content.virtual_size
            } else {
                content.capacity
            },
        }
    }

    /// Does what comes next for a volume: how long to wait, and what is to be said.
    async fn take(
        &self,
        vmi: &Value,
        machine: &Machine,
        status: &Value,
        step: Step,
    ) -> (Option<Duration>, Option<Value>) {
        let name = status.text("/name").to_owned();
        let mut new = status.clone();
        match step {
            Step::Nothing => return (None, None),
            Step::Mount => match self.pass("hotplug.attach", vmi, &name) {
                Ok(None) => {
                    let message = format!("Volume {name} has been mounted in virt-launcher pod");
                    set_phase(&mut new, "MountedToPod", "VolumeMountedToPod", &message);
                }
                Ok(wait) => return (wait, None),
                Err(message) => {
                    let message = format!("failed to mount hotplug volume {name}: {message}");
                    self.recorder.warning(&VMI, vmi, "FailedMount", &message).await;
                    return (Some(AGAIN), None);
                }
            },
            Step::Plug => {
                let disk = self.disk(vmi, &name, machine);
                if !machine.plan().disks.iter().any(|there| there.name == name)
                    && self.first_time(vmi, &name, "plug")
                {
                    machine.command(Command::Attach(disk));
                }
                return (Some(POLL), None);
            }
            Step::Ready(target) => {
                self.done(vmi, &name, "plug");
                let size = machine.plan().disks.iter().find(|disk| disk.name == name).map(|disk| disk.size);
                new["target"] = target.into();
                if let Some(size) = size.filter(|size| *size > 0) {
                    new["size"] = size.into();
                }
                let message = format!("Successfully attach hotplugged volume {name} to VM");
                set_phase(&mut new, "Ready", "VolumeReady", &message);
            }
            Step::Pull => {
                match self.pass("hotplug.detach", vmi, &name) {
                    Ok(None) => machine.command(Command::Detach(name)),
                    Ok(wait) => return (wait, None),
                    Err(message) => {
                        let message = format!("failed to detach hotplug volume {name}: {message}");
                        self.recorder.warning(&VMI, vmi, "FailedUnmount", &message).await;
                        return (Some(AGAIN), None);
                    }
                }
                return (Some(POLL), None);
            }
            Step::Unmounted => {
                new["target"] = "".into();
                let message = format!("Volume {name} has been unmounted from virt-launcher pod");
                set_phase(&mut new, "UnMountedFromPod", "VolumeUnMountedFromPod", &message);
            }
        }
        (None, Some(new))
    }

    /// Whether something is done for the first time.
    fn first_time(&self, vmi: &Value, name: &str, what: &'static str) -> bool {
        let place = (vmi.uid().to_owned(), name.to_owned(), what);
        self.due.lock().insert(place, Due { at: Instant::now(), effect: Effect::Pass }).is_none()
    }

    fn done(&self, vmi: &Value, name: &str, what: &'static str) {
        self.due.lock().remove(&(vmi.uid().to_owned(), name.to_owned(), what));
    }
}

impl Controller for Mount {
    const NAME: &'static str = "hotplug-mount";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.client.cache(&VMI)),
            Watch::mapped(&self.client.cache(&PVC), |_| Vec::new()),
            Watch::mapped(&self.client.cache(&PV), |_| Vec::new()),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vmi) = self.client.cache(&VMI).get(key) else {
            self.forget(key);
            return Ok(Next::Done);
        };
        if vmi.text("/status/phase") != "Running" || statuses(&vmi).next().is_none() {
            return Ok(Next::Done);
        }
        let host = self.context.world.hosts.get(vmi.text("/status/nodeName"));
        if host.is_some_and(|host| !host.is_heard()) {
            return Ok(Next::After(AGAIN));
        }
        let Some(machine): Option<Arc<Machine>> = self.context.world.machines.get(vmi.uid()) else {
            return Ok(Next::After(AGAIN));
        };
        let (mut wait, mut new): (Option<Duration>, Vec<Value>) = (None, Vec::new());
        for status in statuses(&vmi) {
            let name = status.text("/name");
            let is_wanted = super::wanted(&vmi).any(|volume| volume["name"] == name);
            let disks = machine.plan().disks;
            let step = next(status, is_wanted, disks.iter().find(|disk| disk.name == name));
            let (later, said) = self.take(&vmi, &machine, status, step).await;
            wait = [wait, later].into_iter().flatten().min();
            new.extend(said);
        }
        if new.is_empty() {
            return Ok(wait.map_or(Next::Done, Next::After));
        }
        let told = new.clone();
        let written = self.client.replace(&VMI, &with_statuses(&vmi, new, &[])).await?;
        for status in told {
            self.recorder.normal(&VMI, &written, status.text("/reason"), status.text("/message")).await;
        }
        Ok(wait.map_or(Next::Done, Next::After))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_guest_are_taken_in_order() {
        let taken = |target: &str| Disk { target: target.to_owned(), ..Disk::default() };
        assert_eq!(target("virtio", &[taken("vda"), taken("vdb")]), "vdc");
        assert_eq!(target("scsi", &[taken("vda")]), "sda");
        assert_eq!(target("scsi", &[taken("sda"), taken("sdc")]), "sdb");
        assert_eq!((letters(25), letters(26), letters(27)), ("z".into(), "aa".into(), "ab".into()));
    }

    #[test]
    fn nothing_is_mounted_before_its_pod_has_it() {
        let status = |phase: &str, uid: &str| json!({"phase": phase, "hotplugVolume": {"attachPodUID": uid}});
        assert_eq!(next(&status("AttachedToNode", ""), true, None), Step::Nothing);
        assert_eq!(next(&status("AttachedToNode", "p"), true, None), Step::Mount);
        assert_eq!(next(&status("MountedToPod", "p"), true, None), Step::Plug);
        let disk = Disk { target: "sda".to_owned(), ..Disk::default() };
        assert_eq!(next(&status("MountedToPod", "p"), true, Some(&disk)), Step::Ready("sda".to_owned()));
        assert_eq!(next(&status("Ready", "p"), false, Some(&disk)), Step::Pull);
        assert_eq!(next(&status("Detaching", "p"), false, None), Step::Unmounted);
        assert_eq!(next(&status("UnMountedFromPod", "p"), false, None), Step::Nothing);
    }
}
