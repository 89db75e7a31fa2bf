//! Shapes of machines: instancetypes and preferences, as objects, as revisions, and applied to a machine.
//!
//! A machine that names a shape keeps what it saw first in a revision of its own: later changes of the shape are for
//! machines that come later. The shape is applied when an instance is made; the machine itself is not rewritten,
//! unless the cluster's reference policy says so.

pub mod apply;
pub mod common;
pub mod find;
pub mod infer;
pub mod prefer;
pub mod require;
pub mod revisions;

use serde_json::Value;

use crate::client::ApiError;
use crate::context::Context;
use crate::kubevirt::admission::config::Config;
use crate::kubevirt::admission::{defaults, field::Field};
use crate::object::Object as _;

pub use find::{INSTANCETYPE, PREFERENCE, Shape, shape};
pub use revisions::ensure_revisions;

/// Why a machine has no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// In one word, for the condition `Failure`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// The fields of the machine that stand against its shape, if that is the problem.
    pub fields: Vec<String>,
}

impl Problem {
    /// A problem that is not about single fields.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), fields: Vec::new() }
    }

    /// Fields of the machine say what its shape decides.
    pub fn conflict(fields: Vec<String>) -> Self {
        let message = format!("VMI conflicts with instancetype spec in fields: [{}]", fields.join(", "));
        Self { reason: "FailedCreate", message, fields }
    }
}

impl From<ApiError> for Problem {
    fn from(failure: ApiError) -> Self {
        Self::new("FailedCreate", failure.message)
    }
}

/// The machine with its shape applied to the template, for making an instance from it. A machine without a shape
/// comes back as it is.
pub async fn expand(context: &Context, vm: &Value) -> Result<Value, Problem> {
    let shape = shape(context, vm).await?;
    if shape.is_empty() {
        return Ok(vm.clone());
    }
    let config = Config::of(context).await;
    let mut expanded = vm.clone();
    name_shape(vm, &mut expanded);
    shaped(&config, &shape, &mut expanded, &Field::new("spec"))?;
    Ok(expanded)
}

/// The machine written out: shape applied, usual values filled in, references to the shape gone. This is what
/// `expand-spec` and `expand-vm-spec` answer.
pub async fn expand_spec(context: &Context, vm: &Value) -> Result<Value, Problem> {
    let shape = shape(context, vm).await?;
    let config = Config::of(context).await;
    written_out(&config, &shape, vm)
}

/// As [`expand_spec`], of a shape that is known.
pub fn written_out(config: &Config, shape: &Shape, vm: &Value) -> Result<Value, Problem> {
    if shape.is_empty() {
        return Ok(vm.clone());
    }
    let mut expanded = vm.clone();
    shaped(config, shape, &mut expanded, &Field::new("spec.template.spec"))?;
    defaults::spec(config, &mut expanded["spec"]["template"]["spec"]);
    for pointer in
        ["/spec/instancetype", "/spec/preference", "/status/instancetypeRef", "/status/preferenceRef"]
    {
        expanded.unset(pointer);
    }
    Ok(expanded)
}

/// Applies a shape; what the preference says of devices also goes for those that are only added now.
fn shaped(config: &Config, shape: &Shape, vm: &mut Value, field: &Field) -> Result<(), Problem> {
    let template = &mut vm["spec"]["template"];
    let conflicts = apply::apply(shape, template, field);
    if !conflicts.is_empty() {
        return Err(Problem::conflict(conflicts));
    }
    if shape.preference.is_object() {
        let spec = &mut template["spec"];
        defaults::disks_of_volumes(spec);
        defaults::input(spec);
        // What cannot be is refused when the instance is made.
        let _ = defaults::interface(config, spec);
        prefer::devices(&shape.preference, spec);
    }
    Ok(())
}

/// Notes on the instance what its shape is called.
fn name_shape(vm: &Value, expanded: &mut Value) {
    for (side, word) in [(&INSTANCETYPE, "instancetype"), (&PREFERENCE, "preference")] {
        let matcher = &vm["spec"][side.matcher];
        let name = matcher.text("/name");
        if name.is_empty() {
            continue;
        }
        let cluster = if side.is_cluster(matcher.text("/kind")) { "cluster-" } else { "" };
        expanded["spec"]["template"].set_annotation(&format!("kubevirt.io/{cluster}{word}-name"), name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_is_written_out_without_references() {
        let shape = Shape {
            instancetype: json!({"cpu": {"guest": 2}, "memory": {"guest": "4Gi"}}),
            preference: json!({"devices": {"preferredDiskBus": "virtio"}}),
        };
        let vm = json!({
            "spec": {
                "instancetype": {"name": "u1.large"}, "preference": {"name": "fedora"},
                "template": {"spec": {
                    "domain": {"devices": {}},
                    "volumes": [{"name": "root", "containerDisk": {"image": "fedora:42"}}],
                }},
            },
            "status": {"instancetypeRef": {"name": "u1.large"}},
        });
        let written = written_out(&Config::default(), &shape, &vm).unwrap();
        assert!(written["spec"]["instancetype"].is_null() && written["status"]["instancetypeRef"].is_null());
        let domain = &written["spec"]["template"]["spec"]["domain"];
        assert_eq!(domain["cpu"]["sockets"], 2);
        assert_eq!(domain["memory"]["guest"], "4Gi");
        assert_eq!(domain["devices"]["disks"], json!([{"name": "root", "disk": {"bus": "virtio"}}]));
        let plain = json!({"spec": {"template": {"spec": {"domain": {"devices": {}}}}}});
        assert_eq!(written_out(&Config::default(), &Shape::default(), &plain).unwrap(), plain);
    }

    #[test]
    fn what_the_machine_and_its_shape_both_say_is_a_conflict() {
        let shape = Shape {
            instancetype: json!({"cpu": {"guest": 2}, "memory": {"guest": "4Gi"}}),
            ..Shape::default()
        };
        let vm = json!({"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 1}, "devices": {}}}}}});
        let problem = written_out(&Config::default(), &shape, &vm).unwrap_err();
        assert_eq!(problem.fields, ["spec.template.spec.domain.cpu.cores"]);
        assert_eq!(problem.reason, "FailedCreate");
    }
}
