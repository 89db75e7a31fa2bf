//! Calling an evacuation off.

use serde_json::{Value, json};

use super::{Answer, Asked, Refusal, done, dry_run};
use crate::kinds::{NODE, VMI};
use crate::kubevirt::eviction::DRAIN_TAINT;
use crate::object::{Key, Object as _};

impl Asked {
    pub(super) async fn cancel_evacuation(&self, body: &Value) -> Answer {
        let vmi = self.instance_of_either().await?;
        let marked = vmi.text("/status/evacuationNodeName");
        let node = if marked.is_empty() { vmi.text("/status/nodeName") } else { marked };
        let found = self.client.get(&NODE, &Key::cluster(node)).await.map_err(Refusal::of_api)?;
        let taints = found.as_ref().map(|node| node.list("/spec/taints")).unwrap_or_default();
        if taints.iter().any(|taint| taint["key"] == DRAIN_TAINT && taint["effect"] == "NoSchedule") {
            let message = format!("Node \"{node}\" has NodeDrainTaintKey \"{DRAIN_TAINT}:NoSchedule\"");
            return Err(Refusal::bad(&message));
        }
        if marked.is_empty() {
            return Ok(done());
        }
        let path = "/status/evacuationNodeName";
        let patch = json!([
            {"op": "test", "path": path, "value": body["evacuationNodeName"]}, {"op": "remove", "path": path},
        ]);
        match self.patch(&VMI, "", patch, dry_run(body)).await {
            Ok(_) => Ok(done()),
            Err(refusal) => Err(Refusal::internal(refusal.to_string())),
        }
    }

    /// The instance that was named, or that of the machine that was named.
    pub(super) async fn instance_of_either(&self) -> Result<Value, Refusal> {
        if self.place.is_vm() && !self.vm().await?.flag("/status/created") {
            return Err(self.vm_conflict("VMI is not started"));
        }
        self.vmi().await
    }
}
