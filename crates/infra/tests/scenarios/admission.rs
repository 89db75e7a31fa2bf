//! What virt-api fills in and refuses, as a person sees it who writes through the API.

use serde_json::{Value, json};
use trellis_infra::client::Identity;
use trellis_infra::kinds::{
    CONFIG_MAP, Kind, MIGRATION, POOL, VM, VM_RESTORE, VMI, VMI_PRESET, VMI_REPLICA_SET,
};
use trellis_infra::object::Object as _;

use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(machines_are_filled_in),
        scenario!(instances_are_filled_in),
        scenario!(machines_are_refused_with_causes),
        scenario!(instances_are_refused_with_causes),
        scenario!(numbers_beyond_their_types_are_refused),
        scenario!(up_to_ten_causes_are_told),
        scenario!(running_is_deprecated),
        scenario!(instances_change_through_kubevirt_only),
        scenario!(deleted_machines_are_let_go),
        scenario!(migrations_are_checked),
        scenario!(lists_are_bounded_and_nameless_machines_differ),
        scenario!(sets_and_snapshots_are_checked),
        scenario!(presets_fill_instances),
        scenario!(other_kinds_pass),
    ]
}

/// A machine in which nothing is wrong.
pub(crate) fn machine(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "runStrategy": "Halted",
            "template": {"spec": {
                "domain": {"devices": {}, "memory": {"guest": "1Gi"}},
                "volumes": [{"name": "root", "emptyDisk": {"capacity": "1Gi"}}],
            }},
        },
    })
}

/// An instance in which nothing is wrong. Nothing is there for it to run on, so that it stays as it is.
fn instance(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "domain": {"devices": {}, "memory": {"guest": "1Gi"}},
            "nodeSelector": {"nowhere": "yes"},
        },
    })
}

/// What the server says to a create: the whole Status where it refuses.
pub(crate) async fn refusal(cx: &Cx, kind: &'static Kind, object: Value) -> Result<Value> {
    let mut object = object;
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    if kind.namespaced {
        object.set("/metadata/namespace", cx.namespace.as_str().into());
    }
    let path = kind.path(&cx.namespace, "");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&object)?)?;
    match cx.kube.request::<Value>(request).await {
        Ok(made) => Err(format!("{} was not refused: {made}", object.name()).into()),
        Err(kube::Error::Api(status)) => Ok(serde_json::to_value(&*status)?),
        Err(other) => Err(other.into()),
    }
}

/// Whether a refusal is as told: the code, the field of the first cause, and how the message ends.
fn assert_refused(status: &Value, code: i64, field: &str, message: &str) {
    assert_eq!(status.number("/code"), Some(code), "{status}");
    assert!(status.text("/message").contains(message), "{message} is not in {status}");
    if code == 422 {
        assert_eq!(status.text("/reason"), "Invalid", "{status}");
        assert_eq!(status.text("/details/causes/0/field"), field, "{status}");
        assert!(status.text("/details/causes/0/message").contains(message), "{status}");
    }
}

async fn numbers_beyond_their_types_are_refused(cx: Cx) -> Result {
    let with = |pointer: &str, value: Value| {
        let mut vm = machine("odd");
        vm.set(&format!("/spec/template/spec{pointer}"), value);
        vm
    };
    let status = refusal(&cx, &VM, with("/domain/cpu", json!({"cores": -1}))).await?;
    assert_refused(&status, 400, "", "cannot unmarshal number -1 into Go struct field CPU.");
    let status = refusal(&cx, &VM, with("/domain/memory/guest", json!("-1Gi"))).await?;
    assert_refused(
        &status,
        422,
        "spec.template.spec.domain.memory.guest",
        "spec.template.spec.domain.memory.guest '-1Gi': must be greater than or equal to 0.",
    );
    // What is only huge is taken, and fits nowhere.
    cx.create(&VM, {
        let mut vm = with("/domain/cpu", json!({"cores": 4_000_000_000_u32, "sockets": 4_000_000_000_u32}));
        vm.set("/spec/runStrategy", "Always".into());
        vm.set("/spec/template/spec/terminationGracePeriodSeconds", i64::MAX.into());
        vm
    })
    .await?;
    let printed = |vm: &Value| vm.text("/status/printableStatus") == "ErrorUnschedulable";
    cx.until(&VM, &cx.key("odd"), printed).await?;
    cx.client.delete(&VM, &cx.key("odd"), "").await?;
    cx.until_gone(&VM, &cx.key("odd")).await
}

async fn machines_are_filled_in(cx: Cx) -> Result {
    let vm = cx.create(&VM, machine("a")).await?;
    let spec = vm.at("/spec/template/spec");
    assert_eq!((spec.text("/architecture"), spec.text("/domain/machine/type")), ("amd64", "q35"));
    assert_eq!(vm["spec"]["template"].annotation("kubevirt.io/pci-topology-version"), "v3");
    let identity =
        |vm: &Value, name: &str| vm.text(&format!("/spec/template/spec/domain/firmware/{name}")).to_owned();
    assert_eq!(identity(&vm, "uuid").len(), 36);
    assert_eq!(identity(&vm, "serial").len(), 36);
    assert_ne!(identity(&vm, "uuid"), identity(&vm, "serial"));
    let other = cx.create(&VM, machine("b")).await?;
    assert_ne!(identity(&vm, "uuid"), identity(&other, "uuid"));
    // What is filled in stays when the machine is written again.
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let again = cx.client.merge(&VM, &cx.key("a"), &patch).await?;
    assert_eq!(identity(&vm, "uuid"), identity(&again, "uuid"));
    let mut own = machine("c");
    own.set("/spec/template/spec/domain/firmware", json!({"uuid": "my-own", "serial": "mine"}));
    own.set("/spec/template/spec/domain/machine", json!({"type": "pc-q35-9.2"}));
    let own = cx.create(&VM, own).await?;
    assert_eq!((identity(&own, "uuid").as_str(), identity(&own, "serial").as_str()), ("my-own", "mine"));
    assert_eq!(own.text("/spec/template/spec/domain/machine/type"), "pc-q35-9.2");
    Ok(())
}

async fn instances_are_filled_in(cx: Cx) -> Result {
    let mut wanted = instance("a");
    wanted["spec"]["domain"]["resources"] = json!({"limits": {"cpu": "2"}});
    wanted["spec"]["volumes"] = json!([{"name": "root", "containerDisk": {"image": "fedora:latest"}}]);
    let vmi = cx.create(&VMI, wanted).await?;
    let domain = vmi.at("/spec/domain");
    assert_eq!(domain.text("/resources/requests/cpu"), "2");
    assert_eq!(domain.text("/resources/requests/memory"), "1Gi");
    assert_eq!(domain.text("/memory/maxGuest"), "4Gi");
    let cpu = json!({"sockets": 2, "cores": 1, "threads": 1, "maxSockets": 8, "model": "host-model"});
    assert_eq!(domain["cpu"], cpu);
    assert_eq!(domain.at("/devices/disks"), &json!([{"name": "root", "disk": {"bus": "sata"}}]));
    assert_eq!(domain.at("/devices/interfaces"), &json!([{"name": "default", "bridge": {}}]));
    assert_eq!(vmi.at("/spec/networks"), &json!([{"name": "default", "pod": {}}]));
    assert_eq!(vmi.text("/spec/volumes/0/containerDisk/imagePullPolicy"), "Always");
    assert!(vmi.has_finalizer("kubevirt.io/foregroundDeleteVirtualMachine"));
    assert_eq!(vmi.text("/status/phase"), "Pending");
    assert_eq!(vmi.number("/status/runtimeUser"), Some(107));
    assert_eq!(vmi.text("/status/phaseTransitionTimestamps/0/phase"), "Pending");
    assert_eq!(vmi.text("/status/memory/guestAtBoot"), "1Gi");
    assert_eq!(vmi.at("/status/currentCPUTopology"), &json!({"sockets": 2, "cores": 1, "threads": 1}));
    Ok(())
}

async fn machines_are_refused_with_causes(cx: Cx) -> Result {
    let spec = "/spec/template/spec";
    let long = "x".repeat(3000);
    for (changes, field, message) in [
        (vec![("/spec/runStrategy", Value::Null)], "spec.running", "RunStrategy must be specified"),
        (
            vec![("/spec/running", json!(true))],
            "spec.running",
            "Running and RunStrategy are mutually exclusive.",
        ),
        (
            vec![("/spec/template/spec/domain/resources", json!({"requests": {"memory": "1k"}}))],
            "spec.template.spec.domain.resources.requests.memory",
            "must be greater than or equal to 1M.",
        ),
        (
            vec![("/spec/template/spec/domain/devices/disks", json!([{"name": "lost", "disk": {}}]))],
            "spec.template.spec.domain.devices.disks[0].name",
            "spec.template.spec.domain.devices.disks[0].Name 'lost' not found.",
        ),
        (
            vec![(
                "/spec/template/spec/domain/devices/disks",
                json!([{"name": "root", "disk": {"bus": "ide"}}]),
            )],
            "spec.template.spec.domain.devices.disks[0].disk.bus",
            "IDE bus is not supported",
        ),
        (
            vec![(
                "/spec/template/spec/volumes/0",
                json!({"name": "root", "cloudInitNoCloud": {"userData": long}}),
            )],
            "spec.template.spec.volumes[0].cloudInitNoCloud",
            "userdata exceeds 2048 byte limit.",
        ),
        (
            vec![(
                "/spec/dataVolumeTemplates",
                json!([{"metadata": {"name": "d"}, "spec": {"storage": {}, "source": {"blank": {}}}}]),
            )],
            "spec.dataVolumeTemplate[0]",
            "must be referenced in the VMI template's 'volumes' list",
        ),
        (
            vec![("/spec/template/spec/networks", json!([{"name": "n", "pod": {}}]))],
            "spec.template.spec.networks[0].name",
            "'n' not found.",
        ),
        (
            vec![("/spec/template/metadata", json!({"labels": {"kubevirt.io/nodeName": "n"}}))],
            "spec.template.metadata.labels",
            "reserved kubevirt.io/ labels",
        ),
        (
            vec![("/spec/template/metadata", json!({"annotations": {"kubevirt.io/ignitiondata": "{}"}}))],
            "spec.template.metadata.annotations",
            "ExperimentalIgnitionSupport feature gate is not enabled",
        ),
        (
            vec![("/spec/template/spec/hostname", json!("Not_A_Name"))],
            "spec.template.spec.hostname",
            "DNS_LABEL rules",
        ),
        (
            vec![("/spec/template/spec/domain/machine", json!({"type": "pc"}))],
            "spec.template.spec.domain.machine.type",
            "is not supported: pc (allowed values: [q35* pc-q35*])",
        ),
        (
            vec![("/spec/instancetype", json!({"name": "not-there"}))],
            "spec.instancetype",
            "Failure to find instancetype: virtualmachineclusterinstancetypes.instancetype.kubevirt.io \"not-there\" not found",
        ),
        (
            vec![("/spec/instancetype", json!({"name": "u1.small"}))],
            "spec.template.spec.domain.memory",
            "conflicts with selected instance type",
        ),
    ] {
        let mut vm = machine("a");
        for (pointer, value) in changes {
            if value.is_null() { vm.unset(pointer) } else { vm.set(pointer, value) }
        }
        assert_refused(&refusal(&cx, &VM, vm).await?, 422, field, message);
    }
    // What was admitted once is judged again when it changes.
    cx.create(&VM, machine("a")).await?;
    let patch = json!({"spec": {"template": {"spec": {"hostname": "No_Name"}}}});
    let refused = cx.client.merge(&VM, &cx.key("a"), &patch).await.unwrap_err();
    assert!(refused.is_refused() && refused.message.contains("DNS_LABEL"), "{refused:?}");
    let left = cx.client.get(&VM, &cx.key("a")).await?.unwrap_or_default();
    assert!(left.at(&format!("{spec}/hostname")).is_null());
    Ok(())
}

async fn instances_are_refused_with_causes(cx: Cx) -> Result {
    let mut hungry = instance("a");
    hungry.unset("/spec/domain/memory");
    assert_refused(&refusal(&cx, &VMI, hungry).await?, 422, "", "no memory requested, at least one of");
    for (pointer, value, field, message) in [
        (
            "/metadata/labels",
            json!({"kubevirt.io/created-by": "me"}),
            "metadata.labels",
            "reserved kubevirt.io/ labels",
        ),
        (
            "/spec/architecture",
            json!("riscv"),
            "spec.architecture",
            "MultiArchitecture feature gate is not enabled",
        ),
        ("/spec/volumes", json!([{"name": "a"}]), "spec.volumes[0]", "must have exactly one source type set"),
        (
            "/spec/domain/cpu",
            json!({"sockets": 4, "maxSockets": 2}),
            "spec.domain.cpu.sockets",
            "greater than the maximum sockets",
        ),
        (
            "/spec/domain/devices/interfaces",
            json!([{"name": "a", "slirp": {}}]),
            "spec.domain.devices.interfaces[0].slirp",
            "discontinued",
        ),
        (
            "/spec/evictionStrategy",
            json!("Sometimes"),
            "spec.evictionStrategy",
            "unrecognized option: Sometimes",
        ),
    ] {
        let mut vmi = instance("a");
        vmi.set(pointer, value);
        assert_refused(&refusal(&cx, &VMI, vmi).await?, 422, field, message);
    }
    // KubeVirt itself may use the labels it keeps for itself.
    let mut own = instance("b");
    own.set("/metadata/labels", json!({"kubevirt.io/created-by": "me"}));
    own.set("/metadata/namespace", cx.namespace.as_str().into());
    cx.client.acting_as(Identity::VIRT_CONTROLLER).create(&VMI, own).await?;
    Ok(())
}

async fn up_to_ten_causes_are_told(cx: Cx) -> Result {
    let mut vm = machine("a");
    let disks: Vec<Value> = (0..12).map(|n| json!({"name": format!("lost-{n}"), "disk": {}})).collect();
    vm.set("/spec/template/spec/domain/devices/disks", disks.into());
    let status = refusal(&cx, &VM, vm).await?;
    assert_eq!(status.list("/details/causes").len(), 12, "{status}");
    let message = status.text("/message");
    assert!(
        message
            .starts_with("admission webhook \"virtualmachine-validator.kubevirt.io\" denied the request: ")
    );
    assert!(message.contains("'lost-9' not found.") && !message.contains("'lost-10'"), "{message}");
    assert_eq!(message.matches("not found., ").count(), 9, "{message}");
    Ok(())
}

async fn running_is_deprecated(cx: Cx) -> Result {
    let mut vm = machine("a");
    vm.unset("/spec/runStrategy");
    vm.set("/spec/running", false.into());
    vm["apiVersion"] = VM.api_version().into();
    vm["kind"] = VM.kind.into();
    let request = http::Request::post(VM.path(&cx.namespace, ""))
        .header("content-type", "application/json")
        .body(kube::client::Body::from(serde_json::to_vec(&vm)?))?;
    let response = cx.kube.send(request).await?;
    assert_eq!(response.status(), 201);
    let warnings: Vec<&str> =
        response.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
    assert_eq!(warnings, ["299 - \"spec.running is deprecated, please use spec.runStrategy instead.\""]);
    Ok(())
}

async fn instances_change_through_kubevirt_only(cx: Cx) -> Result {
    cx.create(&VMI, instance("a")).await?;
    let key = cx.key("a");
    let person = &cx.client;
    let refused =
        person.merge(&VMI, &key, &json!({"spec": {"terminationGracePeriodSeconds": 5}})).await.unwrap_err();
    assert!(refused.message.ends_with("update of VMI object is restricted"), "{refused:?}");
    assert_eq!(refused.code, 422);
    let label = json!({"metadata": {"labels": {"kubevirt.io/nodeName": "elsewhere"}}});
    let refused = person.merge(&VMI, &key, &label).await.unwrap_err();
    assert!(
        refused.message.contains("modification of the following reserved kubevirt.io/ labels"),
        "{refused:?}"
    );
    // A status that is not theirs to write is put back without a word; the rest of the change holds.
    let change = json!({"metadata": {"labels": {"mine": "yes"}}, "status": {"nodeName": "elsewhere"}});
    let written = person.merge(&VMI, &key, &change).await?;
    assert_eq!((written.label("mine"), written.text("/status/nodeName")), ("yes", ""));
    let handler = cx.client.acting_as(Identity::VIRT_HANDLER);
    let written =
        handler.merge(&VMI, &key, &json!({"status": {"launcherContainerImageVersion": "v"}})).await?;
    assert_eq!(written.text("/status/launcherContainerImageVersion"), "v");
    let change = json!({"spec": {"terminationGracePeriodSeconds": 5}});
    let written = handler.merge(&VMI, &key, &change).await?;
    assert_eq!(written.number("/spec/terminationGracePeriodSeconds"), Some(5));
    Ok(())
}

async fn deleted_machines_are_let_go(cx: Cx) -> Result {
    let mut vm = machine("a");
    vm.add_finalizer("scenario/hold");
    let vm = cx.create(&VM, vm).await?;
    cx.client.delete(&VM, &cx.key("a"), vm.uid()).await?;
    // Nothing about a machine that goes is judged any more.
    let patch = json!({"spec": {"runStrategy": "Nonsense"}, "metadata": {"finalizers": null}});
    let _ = cx.client.merge(&VM, &cx.key("a"), &patch).await?;
    cx.until_gone(&VM, &cx.key("a")).await
}

async fn migrations_are_checked(cx: Cx) -> Result {
    let migration = |name: &str, vmi: &str| json!({"metadata": {"name": name}, "spec": {"vmiName": vmi}});
    let status = refusal(&cx, &MIGRATION, migration("m", "lost")).await?;
    let missing = format!("the VMI \"{}/lost\" does not exist", cx.namespace);
    assert_refused(&status, 400, "", &missing);
    let status = refusal(&cx, &MIGRATION, json!({"metadata": {"name": "m"}, "spec": {}})).await?;
    assert_refused(&status, 422, "spec.vmiName", "vmiName is missing");
    // No other cluster is there to send a machine to, or to receive one from.
    for way in ["sendTo", "receive"] {
        let mut away = migration("m", "a");
        away["spec"][way] = json!({"migrationID": "x"});
        if way == "sendTo" {
            away["spec"][way]["connectURL"] = "elsewhere.example:9185".into();
        }
        let status = refusal(&cx, &MIGRATION, away).await?;
        assert_refused(&status, 422, &format!("spec.{way}"), "migrations between clusters are not emulated");
    }
    let mut receiver = machine("r");
    receiver["spec"]["runStrategy"] = "WaitAsReceiver".into();
    let status = refusal(&cx, &VM, receiver).await?;
    assert_refused(&status, 422, "spec.runStrategy", "WaitAsReceiver is not emulated");
    cx.create(&VMI, instance("a")).await?;
    let handler = cx.client.acting_as(Identity::VIRT_HANDLER);
    let condition = |status: &str| {
        json!({"status": {"conditions": [{
            "type": "LiveMigratable", "status": status, "reason": "DisksNotLiveMigratable", "message": "no",
        }]}})
    };
    handler.merge(&VMI, &cx.key("a"), &condition("False")).await?;
    let status = refusal(&cx, &MIGRATION, migration("m", "a")).await?;
    assert_refused(&status, 400, "", "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: no");
    handler.merge(&VMI, &cx.key("a"), &condition("True")).await?;
    let made = cx.create(&MIGRATION, migration("m", "a")).await?;
    assert_eq!(made.label("kubevirt.io/vmi-name"), "a");
    assert!(made.has_finalizer("kubevirt.io/migrationJobFinalize"));
    let status = refusal(&cx, &MIGRATION, migration("n", "a")).await?;
    assert_refused(&status, 400, "", "in-flight migration detected. Active migration job");
    let change = json!({"spec": {"vmiName": "b"}});
    let refused = cx.client.merge(&MIGRATION, &cx.key("m"), &change).await.unwrap_err();
    assert!(refused.message.contains("spec"), "{refused:?}");
    let free = json!({"metadata": {"finalizers": null}});
    let _ = cx.client.merge(&MIGRATION, &cx.key("m"), &free).await;
    let _ = handler.merge(&VMI, &cx.key("a"), &free).await;
    Ok(())
}

async fn lists_are_bounded_and_nameless_machines_differ(cx: Cx) -> Result {
    let mut crowded = machine("many");
    let volumes: Vec<Value> = (0..257)
        .map(|number| json!({"name": format!("v{number}"), "emptyDisk": {"capacity": "1Gi"}}))
        .collect();
    crowded.set("/spec/template/spec/volumes", volumes.into());
    let status = refusal(&cx, &VM, crowded).await?;
    assert!(status.text("/message").contains("must have at most 256 items"), "{status}");
    let mut profile = json!({"metadata": {"name": "scenario-modes"}, "spec": {}});
    profile["spec"]["claimPropertySets"] = json!([{"accessModes": ["Sometimes"], "volumeMode": "Block"}]);
    let status = refusal(&cx, &trellis_infra::kinds::STORAGE_PROFILE, profile).await?;
    assert!(status.text("/message").contains("Illegal AccessMode"), "{status}");
    // Equal machines of one moment are different ones to their firmware.
    let mut nameless = machine("");
    nameless["metadata"] = json!({"generateName": "same-"});
    let (one, other) = tokio::join!(cx.create(&VM, nameless.clone()), cx.create(&VM, nameless));
    let uuid = |vm: &Value| vm.text("/spec/template/spec/domain/firmware/uuid").to_owned();
    let (one, other) = (one?, other?);
    assert_ne!(uuid(&one), "");
    assert_ne!(uuid(&one), uuid(&other));
    Ok(())
}

async fn sets_and_snapshots_are_checked(cx: Cx) -> Result {
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}},
    });
    let set = json!({
        "metadata": {"name": "a"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "c"}}, "template": template},
    });
    assert_refused(
        &refusal(&cx, &VMI_REPLICA_SET, set).await?,
        422,
        "spec.selector",
        "selector does not match labels.",
    );
    let pool = json!({
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": "0%",
            "virtualMachineTemplate": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"runStrategy": "Halted", "template": template},
            },
        },
    });
    assert_refused(
        &refusal(&cx, &POOL, pool).await?,
        422,
        "spec.maxUnavailable",
        "must be between 1 and 100",
    );
    let restore = |kind: &str| {
        json!({
            "metadata": {"name": "r"},
            "spec": {
                "target": {"apiGroup": "kubevirt.io", "kind": kind, "name": "a"},
                "virtualMachineSnapshotName": "s",
            },
        })
    };
    assert_refused(
        &refusal(&cx, &VM_RESTORE, restore("Pod")).await?,
        422,
        "spec.target.kind",
        "invalid kind",
    );
    cx.create(&VM_RESTORE, restore("VirtualMachine")).await?;
    let mut second = restore("VirtualMachine");
    second.set("/metadata/name", "q".into());
    assert_refused(
        &refusal(&cx, &VM_RESTORE, second).await?,
        422,
        "spec.target",
        "VirtualMachineRestore \"r\" in progress",
    );
    let change = json!({"spec": {"virtualMachineSnapshotName": "t"}});
    let refused = cx.client.merge(&VM_RESTORE, &cx.key("r"), &change).await.unwrap_err();
    assert!(refused.message.ends_with("spec in immutable after creation"), "{refused:?}");
    Ok(())
}

async fn presets_fill_instances(cx: Cx) -> Result {
    let preset = json!({
        "metadata": {"name": "small"},
        "spec": {"selector": {"matchLabels": {"size": "small"}}, "domain": {"devices": {}, "memory": {"guest": "2Gi"}}},
    });
    cx.create(&VMI_PRESET, preset).await?;
    cx.until(&VMI_PRESET, &cx.key("small"), |_| true).await?;
    let mut vmi = instance("a");
    vmi.unset("/spec/domain/memory");
    vmi.set("/metadata/labels", json!({"size": "small"}));
    let vmi = cx.create(&VMI, vmi).await?;
    assert_eq!(vmi.text("/spec/domain/memory/guest"), "2Gi");
    assert_eq!(vmi.annotation("virtualmachinepreset.kubevirt.io/small"), "kubevirt.io/v1");
    Ok(())
}

async fn other_kinds_pass(cx: Cx) -> Result {
    cx.create(&CONFIG_MAP, json!({"metadata": {"name": "a"}})).await?;
    Ok(())
}
