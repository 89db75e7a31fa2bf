//! virt-handler's part: mounting what a pod holds, and plugging it into the machine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{claim_of, set_phase, statuses, with_statuses};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{PV, PVC, VMI};
use crate::object::{Key, Object as _};
use crate::waits::{Waited, Waits};
use crate::world::machine::{Command, Disk, Machine, State};

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
            // What is said to be there and is not was lost with the world below the API: it is plugged in again.
            "MountedToPod" | "Ready" => Step::Plug,
            // It was being taken out when it was wanted again: it is out first, and comes anew.
            "Detaching" => Step::Unmounted,
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

/// Mounts and plugs volumes.
#[derive(Debug)]
pub(super) struct Mount {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// By instance, volume and stage.
    waits: Waits,
}

impl Mount {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::VIRT_HANDLER),
            recorder: context.recorder(Identity::VIRT_HANDLER),
            waits: Waits::new(&context.stages),
        }
    }

    /// Passes a stage of a volume: how long to wait, if that is to be done, or why it failed.
    fn pass(&self, stage: &str, vmi: &Value, name: &str) -> Result<Option<Duration>, String> {
        let mut about = json!({"metadata": vmi["metadata"], "spec": vmi["spec"], "volume": {"name": name}});
        about.set("/metadata/uid", format!("{}/{name}", vmi.uid()).into());
        match self.waits.pass(&format!("{}/{name}/{stage}", vmi.uid()), stage, &about) {
            Waited::Passed => Ok(None),
            Waited::NotYet(wait) => Ok(Some(wait)),
            Waited::Failed(message) => Err(message),
        }
    }

    /// Forgets what was kept for instances that are gone.
    fn forget(&self) {
        let there = self.client.cache(&VMI).list("");
        self.waits
            .keep(|id| id.split('/').next().is_some_and(|uid| there.iter().any(|vmi| vmi.uid() == uid)));
    }

    /// The disk for a volume.
    fn disk(&self, vmi: &Value, status: &Value) -> Disk {
        let name = status.text("/name");
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
            bus: bus.to_owned(),
            target: status.text("/target").to_owned(),
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
                // A machine that is being started obeys once it runs. It may be asked twice.
                if *machine.state().borrow() != State::Starting {
                    machine.command(Command::Attach(self.disk(vmi, status)));
                }
                return (Some(POLL), None);
            }
            Step::Ready(target) => {
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
}

impl Controller for Mount {
    const NAME: &'static str = "hotplug-mount";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.client.cache(&VMI)),
            Watch::known(&self.client.cache(&PVC)),
            Watch::known(&self.client.cache(&PV)),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vmi) = self.client.cache(&VMI).get(key) else {
            self.forget();
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

    #[test]
    fn what_is_wanted_and_not_there_comes_again() {
        let status = |phase: &str| json!({"phase": phase, "target": "sda"});
        assert_eq!(next(&status("Ready"), true, None), Step::Plug);
        assert_eq!(next(&status("Detaching"), true, None), Step::Unmounted);
    }
}
