//! What can be done to machines: `subresources.kubevirt.io` and hotplug.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use trellis_infra::kinds::{POD, PVC, VM, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, Scenario};
use crate::machines::{assert_refused, machine};
use crate::scenario;
use crate::sockets::text;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(the_api_tells_what_it_is),
        scenario!(rights_are_asked_for),
        scenario!(a_halted_machine_is_started_and_stopped),
        scenario!(a_manual_machine_is_asked_through_its_status),
        scenario!(some_requests_make_no_sense),
        scenario!(trying_changes_nothing),
        scenario!(a_machine_is_held_and_let_go),
        scenario!(a_guest_tells_of_itself),
        scenario!(a_guest_is_frozen_and_restarted),
        scenario!(a_console_has_one_viewer),
        scenario!(a_screen_can_be_looked_at),
        scenario!(ports_are_forwarded),
        scenario!(a_shape_is_worked_in),
        scenario!(what_belongs_to_a_machine_is_a_tree),
        scenario!(a_volume_comes_and_goes),
        scenario!(each_change_of_the_set_makes_a_new_pod),
        scenario!(a_volume_without_its_claim_waits),
        scenario!(a_claim_that_waits_for_its_first_user_is_bound),
        scenario!(volumes_are_added_to_instances_of_their_own),
        scenario!(some_volumes_cannot_be_added),
        scenario!(a_volume_that_cannot_be_mounted_is_tried_again),
        scenario!(memory_is_dumped),
    ]
}

pub(crate) const VMS: &str = "virtualmachines";
const VMIS: &str = "virtualmachineinstances";

async fn the_api_tells_what_it_is(cx: Cx) -> Result {
    for version in ["v1", "v1alpha3"] {
        let base = format!("/apis/subresources.kubevirt.io/{version}");
        let list: Value = serde_json::from_str(&cx.ask(Method::GET, &base, &Value::Null).await?)?;
        let names: BTreeSet<_> = list.list("/resources").iter().map(|one| one.text("/name")).collect();
        for name in ["virtualmachines/start", "virtualmachineinstances/console", "expand-vm-spec"] {
            assert!(names.contains(name), "{name} is not among {names:?}");
        }
        let told: Value =
            serde_json::from_str(&cx.ask(Method::GET, &format!("{base}/version"), &Value::Null).await?)?;
        assert_eq!(told["gitVersion"], "v1.9.0");
        cx.ask(Method::GET, &format!("{base}/guestfs"), &Value::Null).await?;
        cx.ask(Method::GET, &format!("{base}/healthz"), &Value::Null).await?;
    }
    Ok(())
}

async fn rights_are_asked_for(cx: Cx) -> Result {
    cx.create(&VM, machine("m", "Halted")).await?;
    let path = cx.action(VMS, "m", "start");
    let stranger = cx.call("PUT", &path, "stranger", &[]).await?;
    assert_eq!(stranger.status(), 401);
    let nobody = cx.call("PUT", &path, "", &[]).await?;
    assert_eq!(
        (nobody.status().as_u16(), text(nobody).await?.as_str()),
        (401, "request is not authenticated")
    );
    let open = cx.call("GET", "/apis/subresources.kubevirt.io/v1/version", "", &[]).await?;
    assert_eq!(open.status(), 200);
    assert_eq!(
        cx.client.get(&VM, &cx.key("m")).await?.unwrap_or_default().text("/spec/runStrategy"),
        "Halted"
    );
    Ok(())
}

async fn a_halted_machine_is_started_and_stopped(cx: Cx) -> Result {
    cx.create(&VM, machine("m", "Halted")).await?;
    assert_refused(cx.put(VMS, "m", "stop", &Value::Null).await, 409, "VM is not running");
    assert_refused(cx.put(VMS, "m", "restart", &Value::Null).await, 409, "does not support manual restart");
    assert_refused(
        cx.put(VMS, "none", "start", &Value::Null).await,
        404,
        "virtualmachine.kubevirt.io \"none\" not found",
    );
    cx.put(VMS, "m", "start", &Value::Null).await?;
    let vm = cx.until(&VM, &cx.key("m"), |vm| vm.text("/status/printableStatus") == "Running").await?;
    assert_eq!(vm.text("/spec/runStrategy"), "Always");
    let first = cx.until_running("m").await?;
    assert_refused(cx.put(VMS, "m", "start", &Value::Null).await, 409, "VM is already running");
    cx.put(VMS, "m", "restart", &json!({})).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| vmi.uid() != first.uid() && vmi.text("/status/phase") == "Running")
        .await?;
    cx.put(VMS, "m", "stop", &json!({"gracePeriod": 0})).await?;
    let vm = cx.until(&VM, &cx.key("m"), |vm| vm.text("/status/printableStatus") == "Stopped").await?;
    assert_eq!(vm.text("/spec/runStrategy"), "Halted");
    cx.until_gone(&VMI, &cx.key("m")).await
}

async fn a_manual_machine_is_asked_through_its_status(cx: Cx) -> Result {
    cx.create(&VM, machine("m", "Manual")).await?;
    assert_refused(cx.put(VMS, "m", "stop", &Value::Null).await, 409, "VM is not running");
    assert_refused(cx.put(VMS, "m", "restart", &Value::Null).await, 409, "VM is not running: Halted");
    cx.put(VMS, "m", "start", &Value::Null).await?;
    let first = cx.until_running("m").await?;
    let settled = |vm: &Value| vm.list("/status/stateChangeRequests").is_empty();
    let vm = cx.until(&VM, &cx.key("m"), settled).await?;
    assert_eq!(vm.text("/spec/runStrategy"), "Manual");
    cx.put(VMS, "m", "restart", &json!({"gracePeriodSeconds": 0})).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| vmi.uid() != first.uid() && vmi.text("/status/phase") == "Running")
        .await?;
    cx.until(&VM, &cx.key("m"), settled).await?;
    cx.put(VMS, "m", "stop", &Value::Null).await?;
    cx.until_gone(&VMI, &cx.key("m")).await
}

async fn some_requests_make_no_sense(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    assert_refused(
        cx.put(VMS, "m", "restart", &json!({"gracePeriodSeconds": 5})).await,
        400,
        "only gracePeriod=0",
    );
    assert_refused(
        cx.put(VMS, "m", "restart", &json!({"gracePeriodSeconds": -1})).await,
        400,
        "greater or equal to 0",
    );
    assert_refused(cx.put(VMS, "m", "start", &json!([])).await, 400, "Can not unmarshal Request body");
    assert_refused(cx.put(VMS, "m", "start", &json!({"paused": "yes"})).await, 400, "paused");
    assert_refused(cx.ask(Method::GET, &cx.action(VMS, "m", "start"), &Value::Null).await, 405, "");
    assert_refused(cx.put(VMS, "m", "dance", &Value::Null).await, 404, "");
    assert_refused(
        cx.put(VMIS, "none", "pause", &Value::Null).await,
        404,
        "virtualmachineinstance.kubevirt.io \"none\" not found",
    );
    assert_refused(cx.ask(Method::GET, &cx.action(VMIS, "m", "vsock"), &Value::Null).await, 400, "VSOCK");
    assert_refused(cx.ask(Method::GET, &cx.action(VMIS, "m", "usbredir"), &Value::Null).await, 400, "USB");
    assert_refused(
        cx.ask(Method::GET, &cx.action(VMIS, "m", "console"), &Value::Null).await,
        400,
        "websocket",
    );
    cx.create(&VM, machine("once", "Once")).await?;
    cx.until_running("once").await?;
    assert_refused(
        cx.put(VMS, "once", "restart", &Value::Null).await,
        409,
        "Once does not support manual restart",
    );
    Ok(())
}

async fn trying_changes_nothing(cx: Cx) -> Result {
    let dry = json!({"dryRun": ["All"]});
    cx.create(&VM, machine("m", "Halted")).await?;
    cx.put(VMS, "m", "start", &dry).await?;
    assert_eq!(
        cx.client.get(&VM, &cx.key("m")).await?.unwrap_or_default().text("/spec/runStrategy"),
        "Halted"
    );
    cx.put(VMS, "m", "start", &Value::Null).await?;
    let vmi = cx.until_running("m").await?;
    cx.put(VMIS, "m", "pause", &dry).await?;
    cx.put(VMS, "m", "restart", &dry).await?;
    let mut volume = volume("more", "claim", "");
    volume["dryRun"] = json!(["All"]);
    cx.put(VMS, "m", "addvolume", &volume).await?;
    cx.put(VMS, "m", "stop", &dry).await?;
    let vm = cx.client.get(&VM, &cx.key("m")).await?.unwrap_or_default();
    assert_eq!((vm.text("/spec/runStrategy"), vm.list("/spec/template/spec/volumes").len()), ("Always", 1));
    assert!(vm.list("/status/stateChangeRequests").is_empty());
    let after = cx.client.get(&VMI, &cx.key("m")).await?.unwrap_or_default();
    assert_eq!((after.uid(), after.condition("Paused")), (vmi.uid(), &Value::Null));
    Ok(())
}

async fn a_machine_is_held_and_let_go(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    assert_refused(cx.put(VMIS, "m", "unpause", &Value::Null).await, 409, "VMI is not paused");
    cx.put(VMIS, "m", "pause", &Value::Null).await?;
    let vmi = cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition_holds("Paused")).await?;
    assert_eq!(vmi.condition("Paused")["reason"], "PausedByUser");
    cx.until(&VM, &cx.key("m"), |vm| vm.text("/status/printableStatus") == "Paused").await?;
    assert_refused(cx.put(VMIS, "m", "pause", &Value::Null).await, 409, "VMI is already paused");
    assert_refused(cx.put(VMIS, "m", "softreboot", &Value::Null).await, 409, "VMI is paused");
    let forward = cx.action(VMIS, "m", "portforward/22");
    assert_refused(cx.ask(Method::GET, &forward, &Value::Null).await, 409, "VMI is paused");
    cx.put(VMIS, "m", "unpause", &Value::Null).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition("Paused").is_null()).await?;
    Ok(())
}

async fn a_guest_tells_of_itself(cx: Cx) -> Result {
    let rule = json!({
        "name": "silent", "stage": "guest.agent", "effect": "hang",
        "match": [["/metadata/name", "m"], ["/metadata/namespace", cx.namespace]],
    });
    let silent = cx.rule(rule)?;
    cx.running(machine("m", "Always")).await?;
    let info = cx.action(VMIS, "m", "guestosinfo");
    assert_refused(
        cx.ask(Method::GET, &info, &Value::Null).await,
        500,
        "VMI does not have guest agent connected",
    );
    drop(silent);
    cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition_holds("AgentConnected")).await?;
    let told: Value = serde_json::from_str(&cx.ask(Method::GET, &info, &Value::Null).await?)?;
    assert!(!told.text("/os/prettyName").is_empty() && !told.text("/guestAgentVersion").is_empty());
    for (list, kind) in [
        ("userlist", "VirtualMachineInstanceGuestOSUserList"),
        ("filesystemlist", "VirtualMachineInstanceFileSystemList"),
    ] {
        let told = cx.ask(Method::GET, &cx.action(VMIS, "m", list), &Value::Null).await?;
        let told: Value = serde_json::from_str(&told)?;
        assert!(told["kind"] == kind && told["items"].is_array(), "{told}");
        let total = told.number("/items/0/totalBytes");
        assert!(list == "userlist" || total.is_some_and(|total| total > 0), "{told}");
    }
    Ok(())
}

async fn a_guest_is_frozen_and_restarted(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    let vmi = cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition_holds("AgentConnected")).await?;
    let below = cx.below(&vmi)?;
    let is_frozen =
        || below.agent().borrow().as_ref().is_some_and(trellis_infra::world::machine::Agent::is_frozen);
    cx.put(VMIS, "m", "freeze", &json!({"unfreezeTimeout": "1h"})).await?;
    assert!(is_frozen());
    cx.put(VMIS, "m", "unfreeze", &Value::Null).await?;
    assert!(!is_frozen());
    // A freeze that was ended has no say in when the next one ends.
    cx.put(VMIS, "m", "freeze", &json!({"unfreezeTimeout": "2s"})).await?;
    cx.put(VMIS, "m", "unfreeze", &Value::Null).await?;
    cx.put(VMIS, "m", "freeze", &json!({"unfreezeTimeout": "4s"})).await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert!(is_frozen());
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(!is_frozen());
    assert_refused(cx.put(VMIS, "m", "freeze", &json!({"unfreezeTimeout": "soon"})).await, 400, "duration");
    for action in ["softreboot", "reset"] {
        let mut agent = below.agent();
        let silent = cx.rule(json!({
            "name": format!("silent in {}", cx.namespace), "stage": "guest.agent", "effect": "hang",
            "match": [["/metadata/namespace", cx.namespace]],
        }))?;
        cx.put(VMIS, "m", action, &Value::Null).await?;
        // The guest begins anew: its agent is gone for a while.
        tokio::time::timeout(crate::context::PATIENCE, agent.wait_for(Option::is_none)).await??;
        drop(silent);
        tokio::time::timeout(crate::context::PATIENCE, agent.wait_for(Option::is_some)).await??;
        cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition_holds("AgentConnected")).await?;
    }
    Ok(())
}

async fn a_console_has_one_viewer(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    let path = cx.action(VMIS, "m", "console");
    let mut first = cx.open(&path).await?;
    assert_eq!(first.protocol, "plain.kubevirt.io");
    cx.below(&vmi)?.console.show("\r\nscenario marker\r\n");
    first.until("scenario marker").await?;
    first.until("login:").await?;
    let mut second = cx.open(&path).await?;
    first.until_end().await?;
    second.until("scenario marker").await?;
    second.say(b"\r").await?;
    let mut headless = machine("headless", "Always");
    headless.set("/spec/template/spec/domain/devices/autoattachSerialConsole", false.into());
    cx.running(headless).await?;
    let none = cx.ask(Method::GET, &cx.action(VMIS, "headless", "console"), &Value::Null).await;
    assert_refused(none, 400, "No serial consoles are present.");
    Ok(())
}

async fn a_screen_can_be_looked_at(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    let mut viewer = cx.open(&cx.action(VMIS, "m", "vnc")).await?;
    assert_eq!(viewer.take(12).await?, b"RFB 003.008\n");
    viewer.say(b"RFB 003.008\n").await?;
    assert_eq!(viewer.take(2).await?, [1, 1]);
    viewer.say(&[1]).await?;
    assert_eq!(viewer.take(4).await?, [0; 4]);
    viewer.say(&[1]).await?;
    let start = viewer.take(24).await?;
    let (width, height) =
        (u16::from_be_bytes([start[0], start[1]]), u16::from_be_bytes([start[2], start[3]]));
    let length = usize::try_from(u32::from_be_bytes([start[20], start[21], start[22], start[23]]))?;
    assert_eq!(String::from_utf8(viewer.take(length).await?)?, format!("{}/m", cx.namespace));
    let mut request = vec![3, 0, 0, 0, 0, 0];
    request.extend(width.to_be_bytes());
    request.extend(height.to_be_bytes());
    viewer.say(&request).await?;
    assert_eq!(viewer.take(16).await?[..4], [0, 0, 0, 1]);
    let pixels = viewer.take(usize::from(width) * usize::from(height) * 4).await?;
    let colours: BTreeSet<&[u8]> = pixels.chunks(4).collect();
    assert_eq!(colours.len(), 2);
    let kept = cx.action(VMIS, "m", "vnc?preserveSession=true");
    assert_refused(cx.ask(Method::GET, &kept, &Value::Null).await, 409, "Active VNC connection");
    let still = cx.call("GET", &cx.action(VMIS, "m", "vnc/screenshot"), "admin", &[]).await?;
    assert_eq!(still.headers()["content-type"], "image/png");
    let still = http_body_util::BodyExt::collect(still.into_body()).await?.to_bytes();
    assert!(still.starts_with(b"\x89PNG\r\n\x1a\n") && still.len() > 1000);
    Ok(())
}

async fn ports_are_forwarded(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    let pod = cx.below(&vmi)?.plan().pod.pod_uid;
    let mut listener = cx.infra.context().world.fabric.listen(&pod, 7);
    tokio::spawn(async move {
        while let Some(mut stream) = listener.recv().await {
            let mut heard = [0; 5];
            if stream.read_exact(&mut heard).await.is_ok() {
                let _ = stream.write_all(&heard).await;
            }
        }
    });
    for path in [cx.action(VMIS, "m", "portforward/7"), cx.action(VMS, "m", "portforward/7/tcp")] {
        let mut stream = cx.open(&path).await?;
        stream.say(b"hello").await?;
        stream.until("hello").await?;
        // The guest has hung up.
        stream.until_end().await?;
    }
    let mut datagrams = cx.infra.context().world.fabric.bind(&pod, 53);
    let mut stream = cx.open(&cx.action(VMIS, "m", "portforward/53/udp")).await?;
    stream.say(b"who is there").await?;
    let heard = tokio::time::timeout(crate::context::PATIENCE, datagrams.recv()).await?;
    let heard = heard.ok_or("nothing was heard")?;
    assert_eq!(heard.bytes, "who is there");
    let guest = trellis_infra::network::fabric::Source::Pod(pod.clone());
    cx.infra.context().world.fabric.send(&guest, 53, heard.from, "it is me".into())?;
    stream.until("it is me").await?;
    let refused = cx.open(&cx.action(VMIS, "m", "portforward/9")).await.err().map(|error| error.to_string());
    assert!(refused.is_some_and(|error| error.contains("500") && error.contains("dialing VM")));
    cx.create(&VM, machine("off", "Halted")).await?;
    cx.until(&VM, &cx.key("off"), |vm| vm.text("/status/printableStatus") == "Stopped").await?;
    let off = cx.ask(Method::GET, &cx.action(VMS, "off", "portforward/7"), &Value::Null).await;
    assert_refused(off, 409, "VMI is not started");
    Ok(())
}

async fn a_shape_is_worked_in(cx: Cx) -> Result {
    cx.create(&VM, machine("m", "Halted")).await?;
    let expanded = cx.ask(Method::GET, &cx.action(VMS, "m", "expand-spec"), &Value::Null).await?;
    let expanded: Value = serde_json::from_str(&expanded)?;
    assert_eq!((expanded.name(), expanded["kind"].as_str()), ("m", Some("VirtualMachine")));
    let path = format!("/apis/subresources.kubevirt.io/v1/namespaces/{}/expand-vm-spec", cx.namespace);
    let mut given = machine("given", "Halted");
    assert_refused(cx.ask(Method::PUT, &path, &given).await, 400, "");
    given["apiVersion"] = "kubevirt.io/v1".into();
    given["kind"] = "VirtualMachine".into();
    let expanded: Value = serde_json::from_str(&cx.ask(Method::PUT, &path, &given).await?)?;
    assert_eq!(expanded.name(), "given");
    given.set("/metadata/namespace", "elsewhere".into());
    assert_refused(cx.ask(Method::PUT, &path, &given).await, 400, "namespace");
    Ok(())
}

async fn what_belongs_to_a_machine_is_a_tree(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    let tree = cx.ask(Method::GET, &cx.action(VMS, "m", "objectgraph"), &Value::Null).await?;
    let tree: Value = serde_json::from_str(&tree)?;
    assert_eq!(tree.text("/objectReference/kind"), "VirtualMachine");
    assert_eq!(tree.text("/children/0/objectReference/kind"), "VirtualMachineInstance");
    assert_eq!(tree.text("/children/0/children/0/objectReference/kind"), "Pod");
    Ok(())
}

/// A request for a volume.
pub(crate) fn volume(name: &str, claim: &str, serial: &str) -> Value {
    let mut volume = json!({
        "name": name, "disk": {"disk": {"bus": "scsi"}},
        "volumeSource": {"persistentVolumeClaim": {"claimName": claim}},
    });
    if !serial.is_empty() {
        volume["disk"]["serial"] = serial.into();
    }
    volume
}

impl Cx {
    /// A claim that can be bound at once.
    pub(crate) async fn claim(&self, name: &str) -> Result<Value> {
        let claim = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": self.class("Immediate").await?,
            },
        });
        self.create(&PVC, claim).await
    }

    /// A class of storage that binds claims at once, or not.
    async fn class(&self, mode: &str) -> Result<String> {
        let classes = self.client.list(&trellis_infra::kinds::STORAGE_CLASS, "").await?;
        let class = classes.iter().find(|class| class.text("/volumeBindingMode") == mode);
        Ok(class.ok_or("no class binds so")?.name().to_owned())
    }

    /// The pods that hold volumes for an instance.
    async fn holders(&self) -> Result<Vec<Value>> {
        let mut pods = self.client.list(&POD, &self.namespace).await?;
        pods.retain(|pod| pod.label("kubevirt.io") == "hotplug-disk");
        Ok(pods)
    }
}

/// What an instance says of a volume.
pub(crate) fn status<'v>(vmi: &'v Value, name: &str) -> &'v Value {
    vmi.list("/status/volumeStatus").iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

async fn a_volume_comes_and_goes(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    cx.claim("data").await?;
    let mut history = cx.follow(&VMI, &cx.key("m")).await;
    cx.put(VMS, "m", "addvolume", &volume("more", "data", "serial-1")).await?;
    let vm = cx.client.get(&VM, &cx.key("m")).await?.unwrap_or_default();
    let added = vm.list("/spec/template/spec/volumes").iter().find(|volume| volume["name"] == "more");
    assert_eq!(added.map(|volume| volume.flag("/persistentVolumeClaim/hotpluggable")), Some(true));
    let ready = cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    let more = status(&ready, "more");
    assert_eq!((more.text("/target"), more.text("/reason")), ("sda", "VolumeReady"));
    let pod =
        cx.client.get(&POD, &cx.key(more.text("/hotplugVolume/attachPodName"))).await?.unwrap_or_default();
    let launcher = cx.launchers(&vmi).await?.remove(0);
    assert!(pod.name().starts_with("hp-volume-") && pod.is_controlled_by(launcher.uid()));
    assert_eq!(pod["spec"]["nodeName"], launcher["spec"]["nodeName"]);
    assert_eq!(pod.annotation("kubevirt.io/owner-vmi-name"), "m");
    let disks = cx.below(&vmi)?.plan().disks;
    let disk = disks.iter().find(|disk| disk.name == "more").ok_or("no disk")?;
    assert_eq!((disk.serial.as_str(), disk.target.as_str()), ("serial-1", "sda"));
    cx.put(VMS, "m", "removevolume", &json!({"name": "more"})).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more").is_null()).await?;
    cx.until_gone(&POD, &Key::of(&pod)).await?;
    assert!(!cx.below(&vmi)?.plan().disks.iter().any(|disk| disk.name == "more"));
    let mut phases: Vec<String> =
        history.states().iter().map(|vmi| status(vmi, "more").text("/phase").to_owned()).collect();
    phases.dedup();
    phases.retain(|phase| !matches!(phase.as_str(), "" | "Pending"));
    let wanted = ["Bound", "AttachedToNode", "MountedToPod", "Ready", "Detaching", "UnMountedFromPod"];
    assert_eq!(phases, wanted);
    for reason in ["SuccessfulCreate", "VolumeMountedToPod", "VolumeReady", "VolumeUnMountedFromPod"] {
        cx.until_event("m", reason).await?;
    }
    Ok(())
}

async fn each_change_of_the_set_makes_a_new_pod(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    for name in ["one", "two"] {
        cx.claim(name).await?;
        cx.put(VMS, "m", "addvolume", &volume(name, name, "")).await?;
        cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, name)["phase"] == "Ready").await?;
    }
    let both = cx
        .until(&VMI, &cx.key("m"), |vmi| {
            let pod = |name: &str| status(vmi, name)["hotplugVolume"]["attachPodUID"].clone();
            pod("one") == pod("two") && status(vmi, "one")["phase"] == "Ready"
        })
        .await?;
    let uid = status(&both, "one").text("/hotplugVolume/attachPodUID").to_owned();
    let cache = cx.client.cache(&POD);
    let mut changes = cache.changes();
    while cx.holders().await?.iter().any(|pod| pod.uid() != uid) {
        changes.recv().await;
    }
    let targets: BTreeSet<&str> =
        ["one", "two"].iter().map(|name| status(&both, name).text("/target")).collect();
    assert_eq!(targets, BTreeSet::from(["sda", "sdb"]));
    cx.put(VMS, "m", "removevolume", &json!({"name": "one"})).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| {
        status(vmi, "one").is_null() && status(vmi, "two")["hotplugVolume"]["attachPodUID"] != *uid
    })
    .await?;
    assert!(cx.below(&vmi)?.plan().disks.iter().any(|disk| disk.name == "two"));
    Ok(())
}

async fn a_volume_without_its_claim_waits(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    cx.put(VMS, "m", "addvolume", &volume("more", "later", "")).await?;
    let waiting = cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Pending").await?;
    assert!(status(&waiting, "more").text("/message").contains("not found"));
    assert!(cx.holders().await?.is_empty());
    assert!(!cx.below(&vmi)?.plan().disks.iter().any(|disk| disk.name == "more"));
    cx.claim("later").await?;
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    Ok(())
}

async fn a_claim_that_waits_for_its_first_user_is_bound(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": cx.class("WaitForFirstConsumer").await?,
        },
    });
    cx.create(&PVC, claim).await?;
    let cache = cx.client.cache(&POD);
    let mut changes = cache.changes();
    cx.put(VMS, "m", "addvolume", &volume("more", "data", "")).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    assert!(cx.below(&vmi)?.plan().disks.iter().any(|disk| disk.name == "more"));
    // A pod that did nothing but use the claim has come and gone.
    let is_trigger = |pod: &Value| pod.annotation("kubevirt.io/ephemeral-provisioning") == "true";
    let (mut came, mut went) = (false, false);
    while !went {
        let change =
            tokio::time::timeout(crate::context::PATIENCE, changes.recv()).await?.ok_or("no changes")?;
        if is_trigger(change.object()) && change.object().namespace() == cx.namespace {
            came |= change.after.is_some();
            went = came && change.after.is_none();
        }
    }
    Ok(())
}

async fn volumes_are_added_to_instances_of_their_own(cx: Cx) -> Result {
    let spec = machine("alone", "Always")["spec"]["template"]["spec"].clone();
    cx.create(&VMI, json!({"metadata": {"name": "alone"}, "spec": spec})).await?;
    cx.until_running("alone").await?;
    cx.claim("data").await?;
    cx.put(VMIS, "alone", "addvolume", &volume("more", "data", "")).await?;
    cx.until(&VMI, &cx.key("alone"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    cx.put(VMIS, "alone", "removevolume", &json!({"name": "data"})).await?;
    cx.until(&VMI, &cx.key("alone"), |vmi| status(vmi, "more").is_null()).await?;
    Ok(())
}

async fn some_volumes_cannot_be_added(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    for (body, words) in [
        (json!({}), "name"),
        (json!({"name": "a"}), "disk"),
        (json!({"name": "a", "disk": {"disk": {}}}), "VolumeSource"),
    ] {
        assert_refused(cx.put(VMS, "m", "addvolume", &body).await, 400, words);
    }
    let again = volume("root", "data", "");
    assert_refused(cx.put(VMS, "m", "addvolume", &again).await, 409, "volume with that name already exists");
    cx.put(VMS, "m", "addvolume", &volume("more", "data", "")).await?;
    let other = volume("other", "data", "");
    assert_refused(cx.put(VMS, "m", "addvolume", &other).await, 409, "because it already exists");
    let remove = |name: &str| json!({"name": name});
    assert_refused(cx.put(VMS, "m", "removevolume", &remove("root")).await, 409, "not hotpluggable");
    assert_refused(cx.put(VMS, "m", "removevolume", &remove("none")).await, 409, "does not exist");
    assert_refused(cx.put(VMS, "m", "removevolume", &json!({})).await, 400, "name");
    let mut unsupported = volume("slow", "slow", "");
    unsupported.set("/disk/disk/bus", "sata".into());
    let words = "requires bus to be 'scsi' or 'virtio'. [sata] is not permitted";
    assert_refused(cx.put(VMS, "m", "addvolume", &unsupported).await, 422, words);
    let owned = cx.put(VMIS, "m", "addvolume", &volume("third", "third", "")).await;
    assert_refused(owned, 400, "is owned by a VM");
    Ok(())
}

async fn a_volume_that_cannot_be_mounted_is_tried_again(cx: Cx) -> Result {
    let rule = json!({
        "name": "unmountable", "stage": "hotplug.attach", "effect": {"fail": "no such device"}, "times": 1,
        "match": [["/metadata/namespace", cx.namespace]],
    });
    let _unmountable = cx.rule(rule)?;
    cx.running(machine("m", "Always")).await?;
    cx.claim("data").await?;
    cx.put(VMS, "m", "addvolume", &volume("more", "data", "")).await?;
    let event = cx.until_event("m", "FailedMount").await?;
    assert!(event.text("/message").contains("no such device"));
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    Ok(())
}

async fn memory_is_dumped(cx: Cx) -> Result {
    cx.running(machine("m", "Always")).await?;
    assert_refused(cx.put(VMS, "m", "memorydump", &json!({})).await, 400, "claim name");
    let none = cx.put(VMS, "m", "memorydump", &json!({"claimName": "none"})).await;
    assert_refused(none, 404, "persistentvolumeclaim");
    assert_refused(cx.put(VMS, "m", "removememorydump", &Value::Null).await, 409, "no association found");
    cx.claim("dump").await?;
    cx.put(VMS, "m", "memorydump", &json!({"claimName": "dump"})).await?;
    let dumped =
        cx.until(&VM, &cx.key("m"), |vm| vm.text("/status/memoryDumpRequest/phase") == "Completed").await?;
    assert!(dumped.text("/status/memoryDumpRequest/fileName").starts_with("m-dump-"));
    let other = cx.put(VMS, "m", "memorydump", &json!({"claimName": "other"})).await;
    assert_refused(other, 409, "still associated");
    cx.put(VMS, "m", "removememorydump", &Value::Null).await?;
    cx.until(&VM, &cx.key("m"), |vm| vm.at("/status/memoryDumpRequest").is_null()).await?;
    Ok(())
}
