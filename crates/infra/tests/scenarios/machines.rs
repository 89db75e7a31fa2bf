//! What scenarios that need a running machine share.

use std::sync::Arc;

use http::{Method, Request};
use serde_json::{Value, json};
use trellis_infra::client::ApiError;
use trellis_infra::kinds::{POD, VM, VMI};
use trellis_infra::object::Object as _;
use trellis_infra::stages::Rule;
use trellis_infra::world::machine::Machine;

use crate::context::Cx;
use crate::support::Result;

/// A machine with a disk from an image and one interface on the pod network.
pub(crate) fn machine(name: &str, strategy: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "runStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "domain": {
                        "cpu": {"cores": 1, "sockets": 1, "threads": 1},
                        "memory": {"guest": "256Mi"},
                        "features": {"acpi": {"enabled": true}},
                        "resources": {"requests": {"memory": "256Mi"}},
                        "devices": {
                            "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                            "interfaces": [{"name": "default", "masquerade": {}}],
                        },
                    },
                    "networks": [{"name": "default", "pod": {}}],
                    "volumes": [{"name": "root", "containerDisk": {"image": "quay.io/containerdisks/fedora:42"}}],
                },
            },
        },
    })
}

impl Cx {
    /// Makes a machine and waits until it runs.
    pub(crate) async fn running(&self, machine: Value) -> Result<Arc<Value>> {
        let name = machine.name().to_owned();
        self.create(&VM, machine).await?;
        self.until_running(&name).await
    }

    /// Waits until an instance runs and is ready.
    pub(crate) async fn until_running(&self, name: &str) -> Result<Arc<Value>> {
        let runs = |vmi: &Value| {
            vmi.text("/status/phase") == "Running" && !vmi.list("/status/interfaces").is_empty()
        };
        self.until(&VMI, &self.key(name), runs).await
    }

    /// The machine below an instance.
    pub(crate) fn below(&self, vmi: &Value) -> Result<Arc<Machine>> {
        self.infra.context().world.machines.get(vmi.uid()).ok_or_else(|| "nothing runs".into())
    }

    /// The pods of an instance that run it.
    pub(crate) async fn launchers(&self, vmi: &Value) -> Result<Vec<Value>> {
        let mut pods = self.client.list(&POD, &self.namespace).await?;
        pods.retain(|pod| {
            pod.label("kubevirt.io") == "virt-launcher" && pod.label("kubevirt.io/created-by") == vmi.uid()
        });
        Ok(pods)
    }

    /// The path of something that can be done to a machine or an instance.
    pub(crate) fn action(&self, resource: &str, name: &str, action: &str) -> String {
        format!("/apis/subresources.kubevirt.io/v1/namespaces/{}/{resource}/{name}/{action}", self.namespace)
    }

    /// Does something to a machine or an instance.
    pub(crate) async fn put(
        &self,
        resource: &str,
        name: &str,
        action: &str,
        body: &Value,
    ) -> std::result::Result<String, ApiError> {
        self.ask(Method::PUT, &self.action(resource, name, action), body).await
    }

    /// Asks something about a machine or an instance.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> std::result::Result<String, ApiError> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(bytes).map_err(|error| refused(&error.to_string()))?;
        Ok(self.kube.request_text(request).await?)
    }

    /// Adds a rule about what happens, for as long as the guard lives.
    pub(crate) fn rule(&self, rule: Value) -> Result<RuleGuard> {
        let rule: Rule = serde_json::from_value(rule)?;
        let name = rule.name.clone();
        self.infra.context().stages.add(rule);
        Ok(RuleGuard { stages: self.infra.context().stages.clone(), name })
    }
}

fn refused(message: &str) -> ApiError {
    ApiError { code: 0, reason: String::new(), message: message.to_owned() }
}

/// Takes a rule away when it is dropped.
pub(crate) struct RuleGuard {
    stages: trellis_infra::stages::Stages,
    name: String,
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        self.stages.remove(&self.name);
    }
}

/// Asserts that something was refused with a code and words.
#[expect(clippy::needless_pass_by_value, reason = "what is asserted comes straight from a call")]
pub(crate) fn assert_refused<T: std::fmt::Debug>(
    outcome: std::result::Result<T, ApiError>,
    code: u16,
    words: &str,
) {
    let refused = matches!(&outcome, Err(failure) if failure.code == code && failure.message.contains(words));
    assert!(refused, "not refused with {code} {words:?}: {outcome:?}");
}
