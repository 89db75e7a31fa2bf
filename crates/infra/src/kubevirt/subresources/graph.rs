//! What belongs to a machine, as a tree of references.

use serde_json::{Value, json};

use super::{Answer, Asked, Refusal, told};
use crate::kinds::{DATA_VOLUME, Kind, POD, PVC, SECRET, VM, VMI};
use crate::kubevirt::names::{COMPONENT_LABEL, CREATED_BY_LABEL};
use crate::object::Object as _;

fn node(kind: &Kind, namespace: &str, name: &str, optional: bool, children: Vec<Value>) -> Value {
    let mut reference = json!({"kind": kind.kind, "name": name, "namespace": namespace});
    reference["apiGroup"] = kind.group.into();
    let mut node = json!({"objectReference": reference});
    if optional {
        node["optional"] = true.into();
    }
    if !children.is_empty() {
        node["children"] = children.into();
    }
    node
}

/// What the volumes of a specification refer to.
fn of_volumes(namespace: &str, volumes: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    for volume in volumes {
        let claim = volume.text("/persistentVolumeClaim/claimName");
        let data = volume.text("/dataVolume/name");
        if !data.is_empty() {
            let claim = node(&PVC, namespace, data, false, Vec::new());
            found.push(node(&DATA_VOLUME, namespace, data, false, vec![claim]));
        } else if !claim.is_empty() {
            found.push(node(&PVC, namespace, claim, false, Vec::new()));
        }
        for drive in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
            for secret in ["secretRef", "networkDataSecretRef"] {
                let name = volume.text(&format!("/{drive}/{secret}/name"));
                if !name.is_empty() {
                    found.push(node(&SECRET, namespace, name, false, Vec::new()));
                }
            }
        }
        let secret = volume.text("/secret/secretName");
        if !secret.is_empty() {
            found.push(node(&SECRET, namespace, secret, false, Vec::new()));
        }
    }
    found
}

impl Asked {
    pub(super) async fn object_graph(&self) -> Answer {
        let (namespace, name) = (self.place.namespace.as_str(), self.place.name.as_str());
        if !self.place.is_vm() {
            let vmi = self.vmi().await?;
            return Ok(told(&self.of_instance(&vmi).await?));
        }
        let vm = self.vm().await?;
        let mut children = Vec::new();
        if let Some(vmi) = self.vmi_if_any().await? {
            children.push(self.of_instance(&vmi).await?);
        }
        children.extend(of_volumes(namespace, vm.list("/spec/template/spec/volumes")));
        Ok(told(&node(&VM, namespace, name, false, children)))
    }

    async fn of_instance(&self, vmi: &Value) -> Result<Value, Refusal> {
        let pods = self.client.list(&POD, vmi.namespace()).await.map_err(Refusal::of_api)?;
        let pods = pods.iter().filter(|pod| {
            pod.label(COMPONENT_LABEL) == "virt-launcher" && pod.label(CREATED_BY_LABEL) == vmi.uid()
        });
        let mut children: Vec<Value> =
            pods.map(|pod| node(&POD, vmi.namespace(), pod.name(), true, Vec::new())).collect();
        if !self.place.is_vm() {
            children.extend(of_volumes(vmi.namespace(), vmi.list("/spec/volumes")));
        }
        Ok(node(&VMI, vmi.namespace(), vmi.name(), true, children))
    }
}
