//! Machines, from their first state to their last.

mod causes;
mod life;
mod strategies;
mod volumes;

use serde_json::{Value, json};
use std::sync::Arc;
use trellis_infra::kinds::{VM, VMI};
use trellis_infra::object::Object as _;
use trellis_infra::stages::Rule;
use trellis_infra::world::machine::Machine;

use crate::context::{Cx, Scenario};
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    [life::scenarios(), strategies::scenarios(), volumes::scenarios(), causes::scenarios()]
        .into_iter()
        .flatten()
        .collect()
}

/// A small machine that boots from an image.
pub(crate) fn machine(name: &str, strategy: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"of": "machines"}},
        "spec": {
            "runStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "architecture": "amd64",
                    "terminationGracePeriodSeconds": 30,
                    "domain": {
                        "cpu": {"cores": 1, "sockets": 1, "threads": 1},
                        "machine": {"type": "q35"},
                        "memory": {"guest": "128Mi"},
                        "devices": {
                            "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                            "interfaces": [{"name": "default", "masquerade": {}}],
                        },
                    },
                    "networks": [{"name": "default", "pod": {}}],
                    "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/fedora:41"}}],
                },
            },
        },
    })
}

/// Adds a volume and its disk to a machine.
fn add_volume(machine: &mut Value, name: &str, source: &Value) {
    let spec = machine.pointer_mut("/spec/template/spec").unwrap();
    let mut volume = source.clone();
    volume["name"] = name.into();
    spec["volumes"].as_array_mut().unwrap().push(volume);
    let disks = spec.pointer_mut("/domain/devices/disks").unwrap().as_array_mut().unwrap();
    disks.push(json!({"name": name, "disk": {"bus": "virtio"}}));
}

/// Waits until a machine is shown by a word.
async fn until_shown(cx: &Cx, name: &str, word: &str) -> Result<Arc<Value>> {
    cx.until(&VM, &cx.key(name), |vm| vm.text("/status/printableStatus") == word).await
}

/// Waits until an instance is in a phase.
async fn until_phase(cx: &Cx, name: &str, phase: &str) -> Result<Arc<Value>> {
    cx.until(&VMI, &cx.key(name), |vmi| vmi.text("/status/phase") == phase).await
}

/// The machine below an instance.
fn below(cx: &Cx, vmi: &Value) -> Arc<Machine> {
    cx.infra.context().world.machines.get(vmi.uid()).expect("the machine runs")
}

/// Makes a stage come to something for the objects of a name in the scenario's namespace.
fn add_rule(cx: &Cx, stage: &str, name: &str, effect: &Value) -> Result {
    let rule: Rule = serde_json::from_value(json!({
        "name": cx.namespace, "stage": stage, "effect": effect,
        "match": [["/metadata/namespace", cx.namespace], ["/metadata/name", name]],
    }))?;
    cx.infra.context().stages.add(rule);
    Ok(())
}

/// Takes the rules of the scenario away.
fn drop_rules(cx: &Cx) {
    cx.infra.context().stages.remove(&cx.namespace);
}

/// Changes the specification of a machine.
async fn change(cx: &Cx, name: &str, spec: &Value) -> Result {
    cx.client.merge(&VM, &cx.key(name), &json!({"spec": spec})).await?;
    Ok(())
}

/// Asks for a start or a stop, as the API for operating machines does.
async fn request(cx: &Cx, name: &str, request: &Value) -> Result {
    let patch = json!({"status": {"stateChangeRequests": [request]}});
    cx.client.merge_status(&VM, &cx.key(name), &patch).await?;
    Ok(())
}

/// Whether some texts appear in a list in this order, with others between them.
fn in_order(texts: &[String], wanted: &[&str]) -> bool {
    let mut texts = texts.iter();
    wanted.iter().all(|wanted| texts.any(|text| text == wanted))
}
