//! Changes of a machine that reach it while it runs.

use serde_json::{Value, json};
use trellis_infra::kinds::{DATA_VOLUME, MIGRATION, NETWORK_ATTACHMENT, VM, VMI};
use trellis_infra::object::Object as _;

use crate::context::{Cx, Scenario};
use crate::machines::machine;
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(processors_and_memory_grow_while_a_machine_runs),
        scenario!(an_interface_is_plugged_in_and_its_network_changed),
        scenario!(a_machine_says_what_keeps_its_volume_away),
        scenario!(a_machine_says_that_its_image_cannot_be_pulled),
    ]
}

impl Cx {
    /// Waits until a change has reached a machine by a migration of its own, and gives the instance then.
    async fn until_moved_for(&self, asking: &str, from: &str) -> Result<std::sync::Arc<Value>> {
        let key = self.key("m");
        let moved = self
            .until(&VMI, &key, |vmi| {
                vmi.condition(asking).is_null()
                    && vmi.text("/status/nodeName") != from
                    && vmi.flag("/status/migrationState/completed")
            })
            .await?;
        let uid = moved.text("/status/migrationState/migrationUid");
        let migrations = self.client.list(&MIGRATION, &self.namespace).await?;
        let own = migrations.iter().find(|migration| migration.uid() == uid);
        assert!(own.is_some_and(|own| own.name().starts_with("kubevirt-workload-update-")), "{own:?}");
        Ok(moved)
    }

    async fn needs_restart(&self) -> Result<bool> {
        Ok(self.until(&VM, &self.key("m"), |_| true).await?.condition_holds("RestartRequired"))
    }
}

async fn processors_and_memory_grow_while_a_machine_runs(cx: Cx) -> Result {
    let mut grows = machine("m", "Always");
    grows.set("/spec/template/spec/domain/memory/guest", "1Gi".into());
    grows.unset("/spec/template/spec/domain/resources");
    cx.running(grows).await?;
    let key = cx.key("m");
    let told = |vmi: &Value| {
        vmi.condition_holds("LiveMigratable") && vmi.at("/status/currentCPUTopology").is_object()
    };
    let vmi = cx.until(&VMI, &key, told).await?;
    let mut history = cx.follow(&VMI, &key).await;
    let domain = json!({"cpu": {"sockets": 2}, "memory": {"guest": "2Gi"}});
    let patch = json!({"spec": {"template": {"spec": {"domain": domain}}}});
    cx.client.merge(&VM, &key, &patch).await?;
    let grown = |vmi: &Value| {
        vmi.number("/status/currentCPUTopology/sockets") == Some(2)
            && vmi.text("/status/memory/guestCurrent") == "2Gi"
    };
    cx.until(&VMI, &key, grown).await?;
    let moved = cx.until_moved_for("HotVCPUChange", vmi.text("/status/nodeName")).await?;
    assert_eq!(moved.text("/status/memory/guestAtBoot"), "1Gi");
    assert!(moved.condition("HotMemoryChange").is_null());
    assert_eq!(moved.uid(), vmi.uid());
    for kind in ["HotVCPUChange", "HotMemoryChange"] {
        assert!(history.states().iter().any(|state| state.condition_holds(kind)), "{kind} was never said");
    }
    assert!(!cx.needs_restart().await?);
    Ok(())
}

fn attachment(name: &str, range: &str) -> Value {
    let config = json!({
        "cniVersion": "1.0.0", "type": "bridge", "bridge": name, "ipam": {"type": "whereabouts", "range": range},
    });
    json!({"metadata": {"name": name}, "spec": {"config": config.to_string()}})
}

async fn an_interface_is_plugged_in_and_its_network_changed(cx: Cx) -> Result {
    cx.create(&NETWORK_ATTACHMENT, attachment("blue", "192.168.50.0/24")).await?;
    cx.create(&NETWORK_ATTACHMENT, attachment("green", "192.168.60.0/24")).await?;
    cx.running(machine("m", "Always")).await?;
    let key = cx.key("m");
    let vmi = cx.until(&VMI, &key, |vmi| vmi.condition_holds("LiveMigratable")).await?;
    let mut from = vmi.text("/status/nodeName").to_owned();
    for (network, range) in [("blue", "192.168.50."), ("green", "192.168.60.")] {
        let interfaces = json!([{"name": "default", "masquerade": {}}, {"name": "more", "bridge": {}}]);
        let networks =
            json!([{"name": "default", "pod": {}}, {"name": "more", "multus": {"networkName": network}}]);
        let spec = json!({"domain": {"devices": {"interfaces": interfaces}}, "networks": networks});
        cx.client.merge(&VM, &key, &json!({"spec": {"template": {"spec": spec}}})).await?;
        cx.until(&VMI, &key, |vmi| vmi.condition_holds("MigrationRequired")).await?;
        let moved = cx.until_moved_for("MigrationRequired", &from).await?;
        moved.text("/status/nodeName").clone_into(&mut from);
        assert_eq!(moved.at("/spec/networks/1/multus/networkName"), network);
        let plan = cx.below(&moved)?.plan();
        let more = plan.interfaces.iter().find(|interface| interface.name == "more").ok_or("no interface")?;
        assert_eq!(more.network, format!("{}/{network}", cx.namespace));
        assert!(more.addresses[0].to_string().starts_with(range), "{:?}", more.addresses);
        let is_told = |vmi: &Value| {
            let told = vmi.list("/status/interfaces").iter().find(|one| one["name"] == "more");
            told.is_some_and(|told| told.text("/ipAddress").starts_with(range))
        };
        cx.until(&VMI, &key, is_told).await?;
        assert!(!cx.needs_restart().await?);
    }
    // What is simply left out of the machine stays until it starts anew.
    let spec = json!({
        "domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}]}},
        "networks": [{"name": "default", "pod": {}}], "hostname": "other",
    });
    cx.client.merge(&VM, &key, &json!({"spec": {"template": {"spec": spec}}})).await?;
    cx.until(&VM, &key, |vm| vm.condition_holds("RestartRequired")).await?;
    Ok(())
}

async fn a_machine_says_what_keeps_its_volume_away(cx: Cx) -> Result {
    let failing = cx.rule(json!({
        "name": format!("failing in {}", cx.namespace), "stage": "import.copy",
        "effect": {"fail": "Unable to process data: no space"}, "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let mut waits = machine("m", "Always");
    waits.set(
        "/spec/dataVolumeTemplates",
        json!([{
            "metadata": {"name": "root"},
            "spec": {
                "source": {"registry": {"url": "docker://images/fedora"}},
                "storage": {"resources": {"requests": {"storage": "2Gi"}}},
            },
        }]),
    );
    waits.set("/spec/template/spec/volumes", json!([{"name": "root", "dataVolume": {"name": "root"}}]));
    cx.create(&VM, waits).await?;
    cx.until(&VM, &cx.key("m"), |vm| vm.text("/status/printableStatus") == "DataVolumeError").await?;
    drop(failing);
    cx.until(&DATA_VOLUME, &cx.key("root"), |volume| volume.text("/status/phase") == "Succeeded").await?;
    cx.until_running("m").await?;
    Ok(())
}

async fn a_machine_says_that_its_image_cannot_be_pulled(cx: Cx) -> Result {
    let failing = cx.rule(json!({
        "name": format!("failing in {}", cx.namespace), "stage": "image.pull",
        "effect": {"fail": "manifest unknown"}, "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let mut history = cx.follow(&VM, &cx.key("m")).await;
    cx.create(&VM, machine("m", "Always")).await?;
    cx.until(&VM, &cx.key("m"), |vm| vm.text("/status/printableStatus") == "ImagePullBackOff").await?;
    let words = history.texts("/status/printableStatus");
    assert!(words.iter().any(|word| word == "ErrImagePull"), "{words:?}");
    drop(failing);
    cx.until_running("m").await?;
    Ok(())
}
