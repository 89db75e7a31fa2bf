//! A Node belongs to a machine by what its firmware says, whatever name or provider id it has.

use serde_json::{Value, json};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{NODE, VM, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::families::pool;
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

crate::everywhere!(a_node_of_the_same_name_is_not_taken_for_the_machine);

async fn a_node_of_the_same_name_is_not_taken_for_the_machine() {
    let stage = Stage::start(&TRELLIS).await;
    let (person, tenant) = (&stage.world.person, &stage.tenant.person);
    stage.store_user_data(CONTROL, "join", "userData").await;
    let rule = json!({"name": "slow", "stage": "guest.join", "effect": "hang"});
    stage.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
    stage.create(&POOL, pool(1)).await;
    let waits = |one: &Value| one.text("/status/phase") == "Joining";
    let name = loop {
        if let Some(name) = stage.vms().await.pop() {
            break name;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    stage.world.until(&MACHINE, &Stage::key(&name), waits).await.unwrap();
    // Somebody else has its name, says that it is ready, and even has its provider id.
    let stranger = tenant.create(&NODE, json!({"metadata": {"name": name}})).await.unwrap();
    let now = stage.world.infra.context().clock.now().to_string();
    let ready = json!({"status": {
        "nodeInfo": {"systemUUID": "11111111-2222-3333-4444-555555555555", "architecture": "amd64", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.34.2",
            "machineID": "", "operatingSystem": "linux", "osImage": ""},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now}],
    }});
    tenant.merge_status(&NODE, &Key::cluster(&name), &ready).await.unwrap();
    let id = json!({"spec": {"providerID": format!("kubevirt://{name}")}});
    tenant.merge(&NODE, &Key::cluster(&name), &id).await.unwrap();
    let noticed = |one: &Value| one.condition("Ready").text("/reason") == "NodeNameTaken";
    let machine = stage.world.until(&MACHINE, &Stage::key(&name), noticed).await.unwrap();
    assert_eq!(machine.text("/status/phase"), "Joining");
    assert!(machine["status"]["nodeRef"].is_null(), "{machine}");
    let seen = tenant.get(&NODE, &Key::cluster(&name)).await.unwrap().unwrap();
    assert_eq!(seen.annotation("trellis.dev/vm-uid"), "", "it is not touched: {seen}");
    assert_eq!(seen.uid(), stranger.uid());
    // It goes, the guest boots anew, and its own Node is the machine's.
    tenant.delete(&NODE, &Key::cluster(&name), "").await.unwrap();
    stage.world.infra.context().stages.remove("slow");
    let run = person.get(&VMI, &Key::new(CLUSTER, &name)).await.unwrap().unwrap();
    person.delete(&VMI, &Key::new(CLUSTER, &name), "").await.unwrap();
    let own =
        |node: &Value| !node.annotation("trellis.dev/vm-uid").is_empty() && node.condition_holds("Ready");
    let node = stage.tenant.until(&NODE, &Key::cluster(&name), own).await.unwrap();
    assert_ne!(node.uid(), stranger.uid());
    let machine = stage.until_running(&MACHINE, &name).await;
    assert_eq!(machine.text("/status/nodeRef/uid"), node.uid());
    let again = person.get(&VMI, &Key::new(CLUSTER, &name)).await.unwrap().unwrap();
    assert_ne!(again.uid(), run.uid());
    assert_eq!(
        node.text("/status/nodeInfo/systemUUID"),
        again.text("/spec/domain/firmware/uuid"),
        "the firmware tells whose it is"
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_a_used_name_waits_for_a_node_of_its_own() {
    let stage = Stage::start(&TRELLIS).await;
    let person = &stage.world.person;
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    let node = stage.until_nodes(1).await.pop().unwrap();
    let name = node.name().to_owned();
    let (key, vm) = (Stage::key(&name), Key::new(CLUSTER, &name));
    let before = stage.until_running(&MACHINE, &name).await;
    let rule = json!({"name": "slow", "stage": "guest.join", "effect": "hang"});
    stage.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
    // Somebody takes the Machine and its VM away behind our back; its Node says for a while that it is ready.
    person
        .merge(&MACHINE, &key, &json!({"metadata": {"annotations": {"trellis.dev/paused": "true"}}}))
        .await
        .unwrap();
    person.delete(&MACHINE, &key, "").await.unwrap();
    person.merge(&MACHINE, &key, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    person.delete(&VM, &vm, "").await.unwrap();
    while person.get(&MACHINE, &key).await.unwrap().is_some_and(|one| one.uid() == before.uid()) {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    // Another machine may have taken its place while it was still there; then the next one gets its name.
    person.merge(&POOL, &Stage::key("workers"), &json!({"spec": {"replicas": 2}})).await.unwrap();
    let waits = |one: &Value| one.uid() != before.uid() && one.text("/status/phase") == "Joining";
    let machine = stage.world.until(&MACHINE, &key, waits).await.unwrap();
    assert!(machine["status"]["nodeRef"].is_null(), "the Node of another machine is taken: {machine}");
    assert_ne!(
        machine.text("/status/record/firmwareUUID"),
        before.text("/status/record/firmwareUUID"),
        "what a Node is known by is used again"
    );
    // Its own guest comes up, under the same name.
    stage.world.infra.context().stages.remove("slow");
    person.delete(&VMI, &vm, "").await.unwrap();
    let machine = stage.until_running(&MACHINE, &name).await;
    let node = stage.tenant.person.get(&NODE, &Key::cluster(&name)).await.unwrap().unwrap();
    assert_eq!(machine.text("/status/nodeRef/uid"), node.uid());
    assert_eq!(node.annotation("trellis.dev/vm-uid"), machine.text("/status/record/vmUID"));
}
