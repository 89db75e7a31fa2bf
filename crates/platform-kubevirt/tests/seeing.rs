//! What is made of what is seen: rows for every state KubeVirt and CDI have, and objects as the lab makes them.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trellis_model::{Cluster, Pool};
use trellis_platform::{
    Action, AddressKind, Evacuation, HostState, ImageState, InstanceState, MigrationState, Observation,
    Owner, VolumeState, Wish,
};
use trellis_platform_kubevirt::seen::{
    self, MigrationPhase, Phase, PrintableStatus, Scope, Seen as _, VolumePhase,
};
use trellis_platform_kubevirt::{Context, MachineObjects, calls, fresh_identity, observe};

use crate::builders::{cluster, merged, pool};

/// An object as the lab made it.
pub(crate) fn lab(name: &str) -> Value {
    let file = format!("{}/tests/lab/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// An object, narrowed.
pub(crate) fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// The wish for the first machine of a pool.
pub(crate) fn wish_of(cluster: Cluster, pool: Pool) -> Wish {
    let identity = fresh_identity(&cluster, &pool, 0);
    Wish {
        cluster: Arc::new(cluster),
        pool: Arc::new(pool),
        identity,
        owner: Some(Owner { namespace: "kube-system".to_owned(), uid: "machine-uid".to_owned() }),
        user_data: None,
    }
}

/// The wish for a small worker of `demo` with these settings of its pool beside.
pub(crate) fn wish(patch: Value) -> Wish {
    wish_of(cluster("demo", json!({})), pool("demo", "workers", patch))
}

/// The virtual machine of a wish as the server keeps it, with this beside.
pub(crate) fn vm_of(wish: &Wish, patch: Value) -> Value {
    let nothing = MachineObjects::default();
    let context = Context { namespace: "demo", cluster: "demo", seen: &nothing };
    let made = calls(&Action::Create(Arc::new(wish.clone())), &context).unwrap();
    let kept = json!({
        "metadata": { "uid": "vm-1", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "printableStatus": "Running" },
    });
    merged(merged(made[0].body.clone().unwrap(), kept), patch)
}

/// A run of the lab's machine with this beside.
pub(crate) fn run(patch: Value) -> seen::VirtualMachineInstance {
    read(merged(lab("instance-running"), patch))
}

fn lab_vm(patch: Value) -> seen::VirtualMachine {
    read(merged(lab("vm-running"), patch))
}

/// What is observed of the lab's machine with that run.
fn observed(run: &seen::VirtualMachineInstance) -> Observation {
    let vm = lab_vm(json!({}));
    observe(&MachineObjects { vm: Some(&vm), instance: Some(run), ..MachineObjects::default() }, None)
}

fn state(run: &seen::VirtualMachineInstance) -> InstanceState {
    observed(run).vm.unwrap().instance.unwrap().state
}

#[test]
fn a_machine_of_the_lab_is_seen_whole() {
    let (vm, run) = (lab_vm(json!({})), run(json!({})));
    let host: seen::Host = read(merged(lab("host"), json!({ "metadata": { "name": "host-0003" } })));
    let seen = MachineObjects {
        vm: Some(&vm),
        instance: Some(&run),
        hosts: Some(vec![&host]),
        ..MachineObjects::default()
    };
    let observation = observe(&seen, None);
    assert_eq!(observation.leftover, None);
    let vm = observation.vm.unwrap();
    assert_eq!(vm.cluster, "demo");
    assert_eq!(vm.firmware_uuid.as_deref(), Some("240484eb-3d4c-53ab-8c8b-31e65c134259"));
    assert_eq!((vm.trouble, vm.crash_loop, vm.restart_required), (None, None, false));
    let instance = vm.instance.unwrap();
    assert_eq!(instance.state, InstanceState::Running);
    assert_eq!(instance.running_since, Some("2026-11-16T17:04:07Z".parse().unwrap()));
    assert_eq!(instance.migratable, Some(Ok(())));
    assert_eq!((instance.evacuation, instance.migration), (None, None));
    let host = instance.host.unwrap();
    assert_eq!(
        (host.state, host.zone.as_deref(), host.region.as_deref()),
        (HostState::Ready, Some("lab-a"), Some("lab"))
    );
    assert_eq!(instance.addresses.len(), 1);
    assert_eq!(
        (instance.addresses[0].kind, instance.addresses[0].address.as_str()),
        (AddressKind::InternalIp, "10.64.2.2")
    );
}

#[test]
fn every_status_of_a_virtual_machine_says_what_keeps_it_from_running() {
    use PrintableStatus as S;
    let condition = |kind: &str, status: &str, message: &str| json!({ "type": kind, "status": status, "message": message });
    let rows: &[(S, Value, Option<&str>)] = &[
        (S::Stopped, json!([]), None),
        (S::Provisioning, json!([]), None),
        (S::WaitingForVolumeBinding, json!([]), Some("a volume waits for a place in the storage")),
        (S::Starting, json!([]), None),
        (S::Running, json!([condition("Failure", "True", "old")]), None),
        (S::Paused, json!([]), None),
        (S::Stopping, json!([]), None),
        (S::Terminating, json!([condition("Failure", "True", "old")]), None),
        (S::Migrating, json!([]), None),
        (S::CrashLoopBackOff, json!([]), Some("it failed to start 3 times in a row")),
        (
            S::ErrorUnschedulable,
            json!([condition("PodScheduled", "False", "0/2 nodes are available: 2 Insufficient cpu.")]),
            Some("no infra node fits: 2 lack cpu"),
        ),
        (
            S::ErrImagePull,
            json!([condition("Synchronized", "False", "pull of x failed")]),
            Some("pull of x failed"),
        ),
        (S::ImagePullBackOff, json!([]), Some("an image of the machine's pod cannot be pulled")),
        (
            S::ErrorPvcNotFound,
            json!([condition("Synchronized", "False", "PVC demo/x does not exist")]),
            Some("PVC demo/x does not exist"),
        ),
        (S::DataVolumeError, json!([]), Some("a volume could not be made")),
        (S::WaitingForReceiver, json!([]), Some("it waits for a machine that moves in")),
        (S::Unknown, json!([]), None),
    ];
    assert_eq!(rows.iter().map(|(status, ..)| *status).collect::<Vec<_>>(), S::ALL);
    for (status, conditions, expected) in rows {
        let failing = json!({ "consecutiveFailCount": 3, "retryAfterTimestamp": "2026-11-16T17:05:00Z" });
        let vm = lab_vm(json!({ "status": {
            "printableStatus": status.as_str(), "conditions": conditions, "startFailure": failing,
        } }));
        let vm = observe(&MachineObjects { vm: Some(&vm), ..MachineObjects::default() }, None).vm.unwrap();
        assert_eq!(vm.trouble.as_deref(), *expected, "{status:?}");
        assert_eq!(vm.crash_loop, Some((3, Some("2026-11-16T17:05:00Z".parse().unwrap()))));
    }
}

#[test]
fn a_refused_pod_tells_of_the_quota_and_a_halted_machine_of_its_strategy() {
    let message = "Error creating pod: pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    let trouble = |patch: Value| {
        let vm = lab_vm(patch);
        observe(&MachineObjects { vm: Some(&vm), ..MachineObjects::default() }, None).vm.unwrap().trouble
    };
    let refused = json!({ "status": {
        "printableStatus": "Starting", "conditions": [{ "type": "Failure", "status": "True", "reason": "FailedCreate", "message": message }],
    } });
    assert_eq!(trouble(refused).unwrap(), "quota q leaves no room: pods 1 more, 2 of 2 used");
    let halted = json!({ "spec": { "runStrategy": "Halted" }, "status": { "printableStatus": "Stopped", "conditions": [] } });
    assert_eq!(trouble(halted).unwrap(), "it is stopped, and its run strategy is Halted");
}

#[test]
fn every_phase_of_a_run_is_a_state() {
    let rows = [
        (Phase::Pending, InstanceState::Pending),
        (Phase::Scheduling, InstanceState::Scheduling(None)),
        (Phase::Scheduled, InstanceState::Starting),
        (Phase::Running, InstanceState::Running),
        (Phase::Succeeded, InstanceState::Succeeded),
        (Phase::Failed, InstanceState::Failed("it ended unexpectedly".to_owned())),
        (Phase::WaitingForSync, InstanceState::Pending),
        (Phase::Unknown, InstanceState::Unknown),
    ];
    assert_eq!(rows.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), Phase::ALL);
    for (phase, expected) in rows {
        assert_eq!(state(&run(json!({ "status": { "phase": phase.as_str() } }))), expected);
    }
    assert_eq!(state(&run(json!({ "status": { "phase": "Dreaming" } }))), InstanceState::Unknown);
    assert_eq!(state(&run(json!({ "status": { "phase": "" } }))), InstanceState::Pending);
    let condition = |kind: &str, status: &str, message: &str| json!([{ "type": kind, "status": status, "message": message, "reason": "X" }]);
    let paused = json!({ "status": { "conditions": condition("Paused", "True", "") } });
    assert_eq!(state(&run(paused)), InstanceState::Paused);
    let crashed = json!({ "status": { "phase": "Failed", "conditions": condition("Synchronized", "False", "disk full") } });
    assert_eq!(state(&run(crashed)), InstanceState::Failed("disk full".to_owned()));
}

#[test]
fn a_run_without_a_place_says_why_itself_or_through_its_pod() {
    let run: seen::VirtualMachineInstance = read(lab("instance-unschedulable"));
    let owner = run.owner.clone().unwrap();
    let vm = lab_vm(json!({ "metadata": { "name": owner.name, "uid": owner.uid } }));
    let no_place = InstanceState::Scheduling(Some("no infra node fits: 3 lack memory".to_owned()));
    let seen = MachineObjects { vm: Some(&vm), instance: Some(&run), ..MachineObjects::default() };
    assert_eq!(observe(&seen, None).vm.unwrap().instance.unwrap().state, no_place);
    // Storage that waits for its first user has the pod placed while the run still waits.
    let pod: seen::LauncherPod = read(lab("pod-unschedulable"));
    assert_eq!(pod.machine(), Some("demo-big-d732514e6e-0"));
    let run = seen::VirtualMachineInstance { phase: Phase::Pending, unschedulable: None, ..run };
    let seen =
        MachineObjects { vm: Some(&vm), instance: Some(&run), pods: vec![&pod], ..MachineObjects::default() };
    assert_eq!(observe(&seen, None).vm.unwrap().instance.unwrap().state, no_place);
}

#[test]
fn every_phase_of_a_volume_is_a_state() {
    use VolumePhase as P;
    let filling = |way: &str| VolumeState::Filling { way: way.to_owned(), progress: Some(42) };
    let waiting = |what: &str| VolumeState::Waiting(what.to_owned());
    let rows = [
        (P::Pending, waiting("PVC x Pending")),
        (P::PvcBound, waiting("to be filled")),
        (P::WaitForFirstConsumer, waiting("for the machine to be placed")),
        (P::PendingPopulation, waiting("for the machine to be placed")),
        (P::ImportScheduled, waiting("for the import to begin")),
        (P::ImportInProgress, filling("import")),
        (P::CloneScheduled, waiting("for its image")),
        (P::CloneInProgress, filling("copy")),
        (P::SnapshotForSmartCloneInProgress, filling("snapshot")),
        (P::CloneFromSnapshotSourceInProgress, filling("snapshot")),
        (P::SmartClonePvcInProgress, filling("snapshot")),
        (P::CsiCloneInProgress, filling("csi-clone")),
        (P::ExpansionInProgress, filling("expansion")),
        (P::NamespaceTransferInProgress, filling("rebind")),
        (P::PrepClaimInProgress, filling("expansion")),
        (P::RebindInProgress, filling("rebind")),
        (P::UploadScheduled, waiting("for the upload to begin")),
        (P::UploadReady, filling("upload")),
        (P::Paused, waiting("for the next step of its import")),
        (P::Succeeded, VolumeState::Ready),
        (P::Failed, VolumeState::Failed("it could not be filled".to_owned())),
        (P::Unknown, waiting("for CDI to say how it is")),
    ];
    assert_eq!(rows.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(), P::ALL);
    for (phase, expected) in rows {
        let bound =
            json!([{ "type": "Bound", "status": "False", "reason": "Pending", "message": "PVC x Pending" }]);
        let status = json!({ "phase": phase.as_str(), "progress": "42.5%", "conditions": bound });
        let volume: seen::DataVolume =
            read(merged(lab("volume-import-failing"), json!({ "status": status })));
        let seen = MachineObjects { volumes: vec![&volume], ..MachineObjects::default() };
        assert_eq!(observe(&seen, None).volumes[0].state, expected, "{phase:?}");
    }
}

#[test]
fn a_worker_that_fails_is_the_volumes_failure_and_the_machines_trouble() {
    let volume: seen::DataVolume = read(lab("volume-import-failing"));
    let vm = lab_vm(json!({ "status": { "printableStatus": "Provisioning", "conditions": [] } }));
    let seen = MachineObjects { vm: Some(&vm), volumes: vec![&volume], ..MachineObjects::default() };
    let observation = observe(&seen, None);
    let VolumeState::Failed(why) = &observation.volumes[0].state else { panic!("{observation:?}") };
    assert!(why.contains("no such host"), "{why}");
    let trouble = observation.vm.unwrap().trouble.unwrap();
    assert!(trouble.starts_with("volume demo-image-") && trouble.contains("no such host"), "{trouble}");
    let unplaced = json!({ "status": { "conditions": [
        { "type": "Running", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Too many pods." },
    ] } });
    let volume: seen::DataVolume = read(merged(lab("volume-import-failing"), unplaced));
    let seen = MachineObjects { volumes: vec![&volume], ..MachineObjects::default() };
    assert_eq!(
        observe(&seen, None).volumes[0].state,
        VolumeState::Waiting("no infra node fits: 1 is full".to_owned())
    );
}

#[test]
fn an_image_is_waited_for_until_the_machine_has_its_disks() {
    let wish = wish(json!({}));
    let golden = trellis_platform_kubevirt::golden_name(&wish.cluster, &wish.pool).unwrap();
    let seen = MachineObjects::default();
    assert_eq!(observe(&seen, Some(&wish)).image.unwrap().state, ImageState::Missing);
    let states = [
        (
            json!({ "phase": "ImportInProgress", "progress": "7.1%", "conditions": [] }),
            ImageState::Importing(Some(7)),
        ),
        (
            json!({ "phase": "ImportScheduled", "progress": "N/A", "conditions": [] }),
            ImageState::Importing(None),
        ),
        (json!({ "phase": "Succeeded" }), ImageState::Ready),
        (
            json!({ "phase": "Failed", "conditions": [] }),
            ImageState::Failed("it could not be filled".to_owned()),
        ),
    ];
    for (status, expected) in states {
        let named = json!({ "metadata": { "name": golden }, "status": status });
        let volume: seen::DataVolume = read(merged(lab("volume-import-failing"), named));
        let seen = MachineObjects { golden: Some(&volume), ..MachineObjects::default() };
        assert_eq!(observe(&seen, Some(&wish)).image.unwrap().state, expected);
    }
    let vm: seen::VirtualMachine = read(vm_of(&wish, json!({})));
    let seen = MachineObjects { vm: Some(&vm), ..MachineObjects::default() };
    assert_eq!(observe(&seen, Some(&wish)).image, None);
}

#[test]
fn hosts_answer_are_silent_are_vouched_for_or_are_gone() {
    let run = run(json!({}));
    let vm = lab_vm(json!({}));
    let ready = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z" }] } });
    let taint = json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }] } });
    let silent = HostState::Silent("2026-01-02T03:04:05Z".parse().unwrap());
    let rows = [
        (Some(json!({})), HostState::Ready),
        (Some(ready("False")), HostState::Ready),
        (Some(ready("Unknown")), silent),
        (Some(merged(ready("Unknown"), taint)), HostState::OutOfService),
        (None, HostState::NotSeen),
    ];
    for (patch, expected) in rows {
        let named = json!({ "metadata": { "name": "host-0003" } });
        let host: Option<seen::Host> = patch.map(|patch| read(merged(merged(lab("host"), named), patch)));
        let seen = MachineObjects {
            vm: Some(&vm),
            instance: Some(&run),
            hosts: Some(host.iter().collect()),
            ..MachineObjects::default()
        };
        assert_eq!(observe(&seen, None).vm.unwrap().instance.unwrap().host.unwrap().state, expected);
    }
    let seen = MachineObjects {
        vm: Some(&vm),
        instance: Some(&run),
        hosts: Some(Vec::new()),
        gone_hosts: vec!["host-0003"],
        ..MachineObjects::default()
    };
    let asked = observe(&seen, None).vm.unwrap().instance.unwrap().host.unwrap();
    assert_eq!(asked.state, HostState::Gone, "the server was asked, too");
    let unseen = observed(&run).vm.unwrap().instance.unwrap().host.unwrap();
    assert_eq!(unseen.state, HostState::NotAllowedToLook);
}

#[test]
fn an_evacuation_holds_while_the_host_is_cordoned_and_the_machine_is_on_it() {
    let run: seen::VirtualMachineInstance = read(lab("instance-evacuated"));
    assert_eq!(run.hosts().collect::<Vec<_>>(), ["host-0003"]);
    let vm = lab_vm(json!({}));
    let evacuation = |run: &seen::VirtualMachineInstance, hosts: Option<Vec<&seen::Host>>| {
        let seen = MachineObjects { vm: Some(&vm), instance: Some(run), hosts, ..MachineObjects::default() };
        observe(&seen, None).vm.unwrap().instance.unwrap().evacuation
    };
    let asked = |host_cordoned| Some(Evacuation { host: "host-0003".to_owned(), host_cordoned });
    let named = json!({ "metadata": { "name": "host-0003" } });
    let open: seen::Host = read(merged(lab("host"), named.clone()));
    let cordoned: seen::Host =
        read(merged(lab("host"), merged(named, json!({ "spec": { "unschedulable": true } }))));
    assert_eq!(evacuation(&run, Some(vec![&cordoned])), asked(true));
    assert_eq!(evacuation(&run, Some(vec![&open])), asked(false));
    assert_eq!(evacuation(&run, None), asked(true));
    let moved = seen::VirtualMachineInstance { host: Some("host-0001".into()), ..run };
    assert_eq!(moved.hosts().collect::<Vec<_>>(), ["host-0001", "host-0003"]);
    assert_eq!(evacuation(&moved, Some(vec![&cordoned])), None);
}

#[test]
fn every_phase_of_a_move_is_a_state_and_only_those_of_this_run_count() {
    let run = run(
        json!({ "status": { "migrationState": { "migrationUid": "m-uid", "failed": true, "failureReason": "too slow" } } }),
    );
    let vm = lab_vm(json!({}));
    let moves = |migrations: Vec<&seen::Migration>| {
        let seen =
            MachineObjects { vm: Some(&vm), instance: Some(&run), migrations, ..MachineObjects::default() };
        observe(&seen, None).vm.unwrap().instance.unwrap().migration
    };
    let migration = |patch: Value| read::<seen::Migration>(merged(lab("migration-pending"), patch));
    for phase in MigrationPhase::ALL {
        let one = migration(json!({ "metadata": { "uid": "m-uid" }, "status": { "phase": phase.as_str() } }));
        let expected = match phase {
            MigrationPhase::Succeeded => MigrationState::Succeeded,
            MigrationPhase::Failed => MigrationState::Failed("too slow".to_owned()),
            going => MigrationState::Going(going.as_str().to_owned()),
        };
        let seen = moves(vec![&one]).unwrap();
        assert_eq!((seen.state, seen.ours), (expected, false));
    }
    let labelled =
        |uid: &str| json!({ "metadata": { "name": "ours", "labels": { "trellis.dev/instance": uid } } });
    let ours = migration(labelled(&run.meta.uid));
    assert!(moves(vec![&ours]).unwrap().ours);
    let of_earlier_run = migration(labelled("earlier"));
    assert_eq!(moves(vec![&of_earlier_run]), None);
    let before = migration(json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" } }));
    assert_eq!(moves(vec![&before]), None);
    // One that goes on matters more than a later one that is over.
    let over = migration(
        json!({ "metadata": { "name": "z", "creationTimestamp": "2027-01-01T00:00:00Z" }, "status": { "phase": "Failed" } }),
    );
    assert_eq!(moves(vec![&over, &ours]).unwrap().name, "ours");
}

#[test]
fn only_addresses_that_others_can_reach_are_shown() {
    let many: Vec<String> = (0..200).map(|i| format!("10.1.{}.{}", i / 100, i % 100)).collect();
    let interfaces = json!([
        { "name": "default", "ipAddress": "10.64.2.2", "ipAddresses": ["10.64.2.2", "fd00::2", "junk", "", "127.0.0.1", "fe80::1", "169.254.0.1", "192.0.2.10"] },
        { "interfaceName": "cni0", "ipAddress": "10.244.0.1", "infoSource": "guest-agent" },
        { "name": "vlan", "ipAddress": "192.0.2.5", "ipAddresses": many },
    ]);
    let run = run(json!({ "status": { "interfaces": interfaces } }));
    let vm = lab_vm(json!({}));
    let vips = json!({ "network": { "apiVips": ["192.0.2.10"] } });
    let wish = wish_of(cluster("demo", vips), pool("demo", "workers", json!({})));
    let seen = MachineObjects { vm: Some(&vm), instance: Some(&run), ..MachineObjects::default() };
    let shown = observe(&seen, Some(&wish)).vm.unwrap().instance.unwrap().addresses;
    let shown: Vec<&str> = shown.iter().map(|address| address.address.as_str()).collect();
    assert_eq!(&shown[..3], ["10.64.2.2", "fd00::2", "192.0.2.5"]);
    assert_eq!(shown.len(), 64);
}

#[test]
fn a_run_that_cannot_move_says_why() {
    let condition = json!([{ "type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable", "message": "PVC x is not shared" }]);
    let run = run(json!({ "status": { "conditions": condition } }));
    assert_eq!(
        observed(&run).vm.unwrap().instance.unwrap().migratable,
        Some(Err("PVC x is not shared".to_owned()))
    );
    let silent = self::run(json!({ "status": { "conditions": [] } }));
    let shown = observed(&silent).vm.unwrap().instance.unwrap().migratable;
    assert_eq!(shown, None, "what was not said yet is no refusal");
}

#[test]
fn user_data_is_stored_while_it_is_there_and_not_erased() {
    let secret = |patch: Value| {
        read::<seen::Stored>(merged(
            json!({ "metadata": { "name": "m-user-data", "uid": "s-1", "labels": { "trellis.dev/machine": "m" } } }),
            patch,
        ))
    };
    let stored = |secret: Option<&seen::Stored>| {
        let observation = observe(&MachineObjects { secret, ..MachineObjects::default() }, None);
        (observation.user_data_stored, observation.user_data_erased)
    };
    let erased = secret(json!({ "metadata": { "annotations": { "trellis.dev/erased": "true" } } }));
    let again = secret(json!({ "metadata": { "annotations": { "trellis.dev/erased": "false" } } }));
    assert_eq!(stored(None), (false, false));
    assert_eq!(stored(Some(&secret(json!({})))), (true, false));
    assert_eq!(stored(Some(&erased)), (false, true));
    assert_eq!(stored(Some(&again)), (true, false));
}

#[test]
fn what_is_watched_is_selected_by_cluster() {
    let of = Scope::Cluster("demo");
    let selector = |watched: seen::Watched, scope| watched.selector(scope);
    let ours = Some("trellis.dev/cluster=demo".to_owned());
    assert_eq!(selector(seen::VirtualMachine::WATCHED, of), ours);
    assert_eq!(selector(seen::VirtualMachine::WATCHED, Scope::Namespace), None);
    assert_eq!(selector(seen::Stored::WATCHED, of).unwrap(), "trellis.dev/cluster=demo,trellis.dev/machine");
    assert_eq!(selector(seen::LauncherPod::WATCHED, Scope::Namespace).unwrap(), "kubevirt.io=virt-launcher");
    assert_eq!(selector(seen::Migration::WATCHED, of), None);
    let (secrets, hosts) = (seen::Stored::WATCHED, seen::Host::WATCHED);
    assert!(secrets.metadata_only && !secrets.cluster_wide && hosts.cluster_wide && !hosts.metadata_only);
    assert_eq!(
        (hosts.api_version().as_str(), seen::DataVolume::WATCHED.api_version().as_str()),
        ("v1", "cdi.kubevirt.io/v1beta1")
    );
}

#[test]
fn what_does_not_matter_makes_no_difference() {
    let noise = json!({
        "metadata": { "resourceVersion": "99999", "generation": 77, "annotations": { "example.com/noise": "1" } },
        "status": { "guestOSInfo": { "name": "x" }, "launcherContainerImageVersion": "y", "conditions": lab("instance-running")["status"]["conditions"].clone() },
    });
    assert_eq!(run(json!({})), run(noise));
    // All of one machine's objects fit into a fraction of the eight kilobytes it may cost.
    let sizes = [
        size_of::<seen::VirtualMachine>(),
        size_of::<seen::VirtualMachineInstance>(),
        2 * size_of::<seen::DataVolume>(),
        size_of::<seen::Stored>(),
        size_of::<seen::LauncherPod>(),
    ];
    assert!(sizes.iter().sum::<usize>() <= 2048, "{sizes:?}");
}
