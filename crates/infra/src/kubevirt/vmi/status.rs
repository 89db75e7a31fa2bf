//! What virt-controller says of an instance. Everything here is pure.

use std::sync::Arc;

use serde_json::{Value, json};

use super::networks;
use super::pod::image;
use super::volumes::{self, Readiness};
use crate::kubevirt::instance::{self, is_down, is_final, is_unprocessed, phase, set_phase};
use crate::kubevirt::names::{NODE_NAME_LABEL, VM_FINALIZER, VMI_FINALIZER};
use crate::kubevirt::vm::status::Trouble;
use crate::object::{Condition, Object as _, drop_condition};
use crate::quantity;

/// Why an instance waits whose claim is not there.
pub const NO_CLAIM: &str = "FailedPvcNotFound";

/// Finds a claim by its name.
pub type Find<'a> = &'a (dyn Fn(&str) -> Option<Arc<Value>> + Sync);

/// What the status depends on.
pub struct Facts<'a> {
    /// The pod that runs the instance.
    pub pod: Option<&'a Value>,
    /// All its pods.
    pub pods: &'a [Arc<Value>],
    /// How its volumes are.
    pub readiness: &'a Readiness,
    /// What went wrong this time.
    pub trouble: Option<&'a Trouble>,
    /// Whether the machine it belongs to is still there.
    pub has_machine: bool,
    /// Finds claims.
    pub claim: Find<'a>,
    /// How CDI is set up.
    pub config: &'a Value,
    /// The time.
    pub now: &'a str,
}

/// Brings the status of an instance up to date, as far as it is virt-controller's.
pub fn update(vmi: &mut Value, facts: &Facts<'_>) {
    match phase(vmi).to_owned().as_str() {
        "" | "Pending" => begin(vmi, facts),
        "Scheduling" => schedule(vmi, facts),
        "Scheduled" => match facts.pod {
            Some(pod) if !is_down(pod) => {}
            _ => set_phase(vmi, "Failed", facts.now),
        },
        "Succeeded" | "Failed" => end(vmi, facts),
        _ if facts.pod.is_none() => set_phase(vmi, "Failed", facts.now),
        _ => {}
    }
    if matches!(phase(vmi), "Scheduled" | "Running") {
        follow_pods(vmi, facts);
    }
    update_ready(vmi, facts);
    update_volumes_ready(vmi, facts);
    update_hotplug(vmi, facts);
    match facts.trouble.cloned().or_else(|| facts.pod.and_then(image_trouble)) {
        // The first message stays for as long as the reason does: messages of refused pods name a pod that is another
        // with each attempt, and a write of each would ask for the next attempt at once.
        Some(trouble) if is_known(vmi, trouble.reason) => {}
        Some(trouble) => {
            Condition::new("Synchronized", false, trouble.reason, &trouble.message).put(vmi, facts.now);
        }
        // What the host's own part says from there on is its own to take back.
        None if !matches!(phase(vmi), "Scheduled" | "Running") => {
            drop_condition(vmi, "Synchronized");
        }
        None => {}
    }
}

/// Whether an instance says already that it is in trouble for a reason.
fn is_known(vmi: &Value, reason: &str) -> bool {
    let condition = vmi.condition("Synchronized");
    condition["status"] == "False" && condition["reason"] == reason
}

/// Before there is a pod.
fn begin(vmi: &mut Value, facts: &Facts<'_>) {
    let provisioning = *facts.readiness == Readiness::WaitForConsumer && facts.pod.is_none();
    if facts.pod.is_some() {
        set_phase(vmi, "Scheduling", facts.now);
    } else if vmi.is_deleting() || *facts.readiness == Readiness::Failed {
        set_phase(vmi, "Failed", facts.now);
    } else {
        set_phase(vmi, "Pending", facts.now);
    }
    if !provisioning || !is_unprocessed(vmi) {
        drop_condition(vmi, "Provisioning");
    } else {
        Condition::new("Provisioning", true, "", "").put(vmi, facts.now);
        // The pod that only binds volumes may find no host, just as the one that is to follow it.
        if let Some(pod) = instance::current_provisioner(facts.pods) {
            mirror_scheduled(vmi, &pod, facts.now);
            if pod.is_deleting() || pod.text("/status/phase") == "Failed" {
                set_phase(vmi, "Failed", facts.now);
            }
        }
    }
    if let Some(trouble) = facts.trouble.filter(|trouble| trouble.reason == NO_CLAIM)
        && is_unprocessed(vmi)
    {
        Condition::new("PodScheduled", false, "Unschedulable", &trouble.message).put(vmi, facts.now);
    }
}

/// Says of an instance what its pod says of having no host.
fn mirror_scheduled(vmi: &mut Value, pod: &Value, now: &str) {
    let scheduled = pod.condition("PodScheduled");
    if scheduled["status"] == "False" {
        let (reason, message) = (scheduled.text("/reason"), scheduled.text("/message"));
        Condition::new("PodScheduled", false, reason, message).put(vmi, now);
    } else {
        drop_condition(vmi, "PodScheduled");
    }
}

/// While the pod is on its way.
fn schedule(vmi: &mut Value, facts: &Facts<'_>) {
    let Some(pod) = facts.pod.filter(|pod| !is_down(pod)) else {
        return set_phase(vmi, "Failed", facts.now);
    };
    mirror_scheduled(vmi, pod, facts.now);
    if !runs(pod) || pod.is_deleting() {
        return;
    }
    let node = pod.text("/spec/nodeName").to_owned();
    set_phase(vmi, "Scheduled", facts.now);
    vmi.set_label(NODE_NAME_LABEL, &node);
    vmi.set("/status/nodeName", node.into());
    vmi.set("/status/migrationTransport", "Unix".into());
    vmi.set("/status/launcherContainerImageVersion", image().into());
    vmi.set("/status/qosClass", service_class(pod).into());
    if vmi.list("/status/interfaces").is_empty() {
        let first = first_interfaces(vmi);
        if !first.is_empty() {
            vmi.set("/status/interfaces", first.into());
        }
    }
}

/// What is known of the interfaces before the machine runs: what they are called in the pod.
fn first_interfaces(vmi: &Value) -> Vec<Value> {
    let networks = vmi.list("/spec/networks").iter();
    networks
        .filter(|network| network["multus"].is_object() && !networks::is_primary(network))
        .map(|network| {
            let name = network.text("/name");
            json!({
                "name": name, "podInterfaceName": networks::pod_interface(name), "infoSource": "multus-status",
            })
        })
        .collect()
}

/// Whether all containers of a pod run.
fn runs(pod: &Value) -> bool {
    let statuses = pod.list("/status/containerStatuses");
    pod.text("/status/phase") == "Running"
        && statuses.len() == pod.list("/spec/containers").len()
        && statuses.iter().all(|one| one.flag("/ready"))
}

/// The quality of service of a pod.
fn service_class(pod: &Value) -> String {
    match pod.text("/status/qosClass") {
        "" => "Burstable".to_owned(),
        given => given.to_owned(),
    }
}

/// What follows from the pods while the instance is on a host.
fn follow_pods(vmi: &mut Value, facts: &Facts<'_>) {
    let mut active = serde_json::Map::new();
    for pod in facts.pods {
        if pod.text("/status/phase") == "Running" && !pod.text("/spec/nodeName").is_empty() {
            active.insert(pod.uid().to_owned(), pod["spec"]["nodeName"].clone());
        }
    }
    // With the last pod goes nothing else of an instance; where it was stays to be read.
    if !active.is_empty() {
        vmi.set("/status/activePods", active.into());
    }
    let statuses = volumes::statuses(vmi, facts.claim, facts.config);
    if !statuses.is_empty() {
        vmi.set("/status/volumeStatus", statuses.into());
    }
}

/// After the end: what holds the object goes with the last pod.
fn end(vmi: &mut Value, facts: &Facts<'_>) {
    if !vmi.is_deleting() {
        return;
    }
    if facts.pods.is_empty() {
        vmi.remove_finalizer(VMI_FINALIZER);
    }
    if !facts.has_machine {
        vmi.remove_finalizer(VM_FINALIZER);
    }
}

fn update_ready(vmi: &mut Value, facts: &Facts<'_>) {
    let condition = match facts.pod {
        None => ("False", "PodNotExists", "virt-launcher pod has not yet been scheduled"),
        Some(pod) if pod.is_deleting() || is_down(pod) => {
            ("False", "PodTerminating", "virt-launcher pod is terminating")
        }
        Some(_) if phase(vmi) != "Running" => {
            ("False", "GuestNotRunning", "Guest VM is not reported as running")
        }
        Some(pod) => match pod.condition("Ready") {
            Value::Null => {
                ("False", "PodConditionMissing", "virt-launcher pod is missing the Ready condition")
            }
            ready => (ready.text("/status"), ready.text("/reason"), ready.text("/message")),
        },
    };
    let (status, reason, message) = condition;
    Condition { kind: "Ready", status, reason, message }.put(vmi, facts.now);
}

fn update_volumes_ready(vmi: &mut Value, facts: &Facts<'_>) {
    if is_final(vmi) || !vmi.list("/spec/volumes").iter().any(|volume| volume["dataVolume"].is_object()) {
        return;
    }
    if *facts.readiness == Readiness::Ready {
        let message = "All of the VMI's DVs are bound and ready";
        Condition::new("DataVolumesReady", true, "AllDVsReady", message).put(vmi, facts.now);
    } else {
        let message = "Not all of the VMI's DVs are ready";
        Condition::new("DataVolumesReady", false, "NotAllDVsReady", message).put(vmi, facts.now);
    }
}

/// Processors, memory and networks that were changed while the machine runs reach the guest with its next migration.
fn update_hotplug(vmi: &mut Value, facts: &Facts<'_>) {
    if phase(vmi) != "Running" {
        return;
    }
    let sockets = vmi.number("/spec/domain/cpu/sockets");
    let current = vmi.number("/status/currentCPUTopology/sockets");
    let grown = [
        ("HotVCPUChange", current.is_some() && sockets.is_some() && sockets != current),
        ("HotMemoryChange", {
            let (wanted, now) =
                (vmi.at("/spec/domain/memory/guest"), vmi.at("/status/memory/guestRequested"));
            !wanted.is_null() && !now.is_null() && quantity::of(wanted) != quantity::of(now)
        }),
    ];
    for (kind, changes) in grown {
        if changes {
            Condition::new(kind, true, "", "").put(vmi, facts.now);
        } else {
            drop_condition(vmi, kind);
        }
    }
    if facts.pod.is_some_and(|pod| networks::differ(vmi, pod)) {
        Condition::new("MigrationRequired", true, "AutoMigrationDueToLiveUpdate", "").put(vmi, facts.now);
    } else {
        drop_condition(vmi, "MigrationRequired");
    }
}

/// What is wrong with the images of a pod.
fn image_trouble(pod: &Value) -> Option<Trouble> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    statuses.iter().flat_map(|place| pod.list(place)).find_map(|status| {
        let waiting = status.at("/state/waiting");
        let reason = match waiting.text("/reason") {
            "ErrImagePull" => "ErrImagePull",
            "ImagePullBackOff" => "ImagePullBackOff",
            _ => return None,
        };
        Some(Trouble { reason, message: waiting.text("/message").to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(vmi: &Value, pod: Option<&Value>, readiness: &Readiness) -> Value {
        let mut vmi = vmi.clone();
        let pods: Vec<Arc<Value>> = pod.iter().map(|pod| Arc::new((*pod).clone())).collect();
        let facts = Facts {
            pod,
            pods: &pods,
            readiness,
            trouble: None,
            has_machine: false,
            claim: &|_| None,
            config: &Value::Null,
            now: "1",
        };
        super::update(&mut vmi, &facts);
        vmi
    }

    fn pod(phase: &str, ready: bool) -> Value {
        json!({
            "metadata": {"uid": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "compute"}]},
            "status": {"phase": phase, "containerStatuses": [{"name": "compute", "ready": ready}]},
        })
    }

    #[test]
    fn phases_follow_the_pod() {
        let new = update(&json!({}), None, &Readiness::Ready);
        assert_eq!(phase(&new), "Pending");
        assert_eq!(new.condition("Ready")["reason"], "PodNotExists");
        let scheduling = update(&new, Some(&pod("Pending", false)), &Readiness::Ready);
        assert_eq!(phase(&scheduling), "Scheduling");
        assert_eq!(scheduling.condition("Ready")["reason"], "GuestNotRunning");
        assert_eq!(
            phase(&update(&scheduling, Some(&pod("Running", false)), &Readiness::Ready)),
            "Scheduling"
        );
        let scheduled = update(&scheduling, Some(&pod("Running", true)), &Readiness::Ready);
        assert_eq!(phase(&scheduled), "Scheduled");
        assert_eq!(scheduled.text("/status/nodeName"), "n");
        assert_eq!(scheduled.label("kubevirt.io/nodeName"), "n");
        assert_eq!(scheduled.at("/status/activePods"), &json!({"p": "n"}));
        assert_eq!(scheduled.text("/status/qosClass"), "Burstable");
        for (state, lost) in
            [(&scheduling, None), (&scheduled, None), (&scheduled, Some(pod("Failed", false)))]
        {
            assert_eq!(phase(&update(state, lost.as_ref(), &Readiness::Ready)), "Failed");
        }
    }

    #[test]
    fn what_keeps_a_pod_away_shows() {
        let mut unfit = pod("Pending", false);
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes",
        });
        unfit.set("/status/conditions", json!([condition]));
        let vmi = update(&json!({"status": {"phase": "Scheduling"}}), Some(&unfit), &Readiness::Ready);
        assert_eq!(vmi.condition("PodScheduled")["message"], "0/3 nodes");
        let fine = update(&vmi, Some(&pod("Pending", false)), &Readiness::Ready);
        assert!(fine.condition("PodScheduled").is_null());
        let mut unpulled = pod("Pending", false);
        unpulled.set("/status/containerStatuses/0/state", json!({"waiting": {"reason": "ErrImagePull"}}));
        let vmi = update(&vmi, Some(&unpulled), &Readiness::Ready);
        assert_eq!(vmi.condition("Synchronized")["reason"], "ErrImagePull");
    }

    #[test]
    fn volumes_keep_an_instance_pending_or_end_it() {
        let uses = json!({"spec": {"volumes": [{"name": "a", "dataVolume": {"name": "a"}}]}});
        let waiting = update(&uses, None, &Readiness::WaitForConsumer);
        assert!(waiting.condition_holds("Provisioning"));
        assert_eq!(waiting.condition("DataVolumesReady")["reason"], "NotAllDVsReady");
        let ready = update(&waiting, None, &Readiness::Ready);
        assert!(ready.condition("Provisioning").is_null() && ready.condition_holds("DataVolumesReady"));
        assert_eq!(phase(&update(&waiting, None, &Readiness::Failed)), "Failed");
    }

    #[test]
    fn what_becomes_of_the_pod_that_binds_volumes_shows() {
        let uses = json!({"spec": {"volumes": [{"name": "a", "dataVolume": {"name": "a"}}]}});
        let after = |vmi: &Value, pod: &Value| {
            let mut vmi = vmi.clone();
            let facts = Facts {
                pod: None,
                pods: &[Arc::new(pod.clone())],
                readiness: &Readiness::WaitForConsumer,
                trouble: None,
                has_machine: false,
                claim: &|_| None,
                config: &Value::Null,
                now: "1",
            };
            super::update(&mut vmi, &facts);
            vmi
        };
        let mut binder = pod("Pending", false);
        binder.set_annotation("kubevirt.io/ephemeral-provisioning", "true");
        let condition = |status: &str| json!([{"type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": "0/3"}]);
        binder.set("/status/conditions", condition("False"));
        let unfit = after(&uses, &binder);
        assert_eq!((phase(&unfit), unfit.condition("PodScheduled").text("/message")), ("Pending", "0/3"));
        binder.set("/status/conditions", condition("True"));
        let fits = after(&unfit, &binder);
        assert!(fits.condition("PodScheduled").is_null() && fits.condition_holds("Provisioning"));
        binder.set("/status/phase", "Failed".into());
        assert_eq!(phase(&after(&fits, &binder)), "Failed");
    }

    #[test]
    fn readiness_is_that_of_the_pod_while_the_guest_runs() {
        let running = json!({"status": {"phase": "Running", "nodeName": "n"}});
        let mut pod = pod("Running", true);
        assert_eq!(
            update(&running, Some(&pod), &Readiness::Ready).condition("Ready")["reason"],
            "PodConditionMissing"
        );
        pod.set("/status/conditions", json!([{"type": "Ready", "status": "True"}]));
        assert!(update(&running, Some(&pod), &Readiness::Ready).condition_holds("Ready"));
        pod.set("/metadata/deletionTimestamp", "1".into());
        assert_eq!(
            update(&running, Some(&pod), &Readiness::Ready).condition("Ready")["reason"],
            "PodTerminating"
        );
    }

    #[test]
    fn finalizers_go_after_the_pods() {
        let mut vmi = json!({
            "metadata": {"deletionTimestamp": "1", "finalizers": [VMI_FINALIZER]}, "status": {"phase": "Failed"},
        });
        assert!(update(&vmi, Some(&pod("Failed", false)), &Readiness::Ready).has_finalizer(VMI_FINALIZER));
        assert!(!update(&vmi, None, &Readiness::Ready).has_finalizer(VMI_FINALIZER));
        vmi.unset("/metadata/deletionTimestamp");
        assert!(update(&vmi, None, &Readiness::Ready).has_finalizer(VMI_FINALIZER));
    }

    #[test]
    fn growth_waits_for_a_migration() {
        let vmi = json!({
            "spec": {"domain": {"cpu": {"sockets": 4}, "memory": {"guest": "2Gi"}}},
            "status": {
                "phase": "Running", "currentCPUTopology": {"sockets": 2}, "memory": {"guestRequested": "2048Mi"},
            },
        });
        let vmi = update(&vmi, Some(&pod("Running", true)), &Readiness::Ready);
        assert!(vmi.condition_holds("HotVCPUChange") && vmi.condition("HotMemoryChange").is_null());
    }
}
