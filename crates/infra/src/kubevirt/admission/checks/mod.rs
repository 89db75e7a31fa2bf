//! What is wrong with the spec of an instance, on its own or in the template of something else.
//!
//! All checks are functions over the JSON that add to a list of causes; nothing is asked of a server.

mod devices;
mod general;
mod names;
mod network;
mod placement;
mod resources;
mod volumes;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::config::Config;
use super::field::Field;
use crate::object::Object as _;
use crate::service::admission::Cause;

pub use network::discontinued as discontinued_bindings;

/// Labels that only KubeVirt may put on instances.
pub const RESERVED_LABELS: &[&str] = &[
    "kubevirt.io/created-by",
    "kubevirt.io/install-strategy",
    "kubevirt.io/migrationJobUID",
    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/nodeName",
    "kubevirt.io/schedulable",
];

/// What is wrong with a spec.
pub fn spec(field: &Field, spec: &Value, config: &Config) -> Vec<Cause> {
    let mut causes = Vec::new();
    general::names(field, spec, &mut causes);
    resources::check(field, spec, config, &mut causes);
    general::strategies(field, spec, config, &mut causes);
    placement::check(field, spec, &mut causes);
    network::check(field, spec, config, &mut causes);
    devices::check(field, spec, config, &mut causes);
    general::probes(field, spec, &mut causes);
    general::firmware(field, spec, &mut causes);
    volumes::check(&field.child("volumes"), spec.list("/volumes"), config, &mut causes);
    general::credentials(&field.child("accessCredentials"), spec, &mut causes);
    general::dns(field, spec, &mut causes);
    general::gates(field, spec, config, &mut causes);
    causes
}

/// What is wrong with a spec only once all usual values are filled in, as they are in an instance.
pub fn complete(field: &Field, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    volumes::have_disks(field, spec, &mut causes);
    let amounts =
        ["/domain/resources/requests/memory", "/domain/memory/guest", "/domain/memory/hugepages/pageSize"];
    if amounts.iter().all(|pointer| crate::quantity::of(spec.at(pointer)) == 0) {
        let message = format!(
            "no memory requested, at least one of '{}', '{}' or '{}' must be set",
            field.child("domain.memory.guest"),
            field.child("domain.memory.hugepages.size"),
            field.child("domain.resources.requests.memory")
        );
        causes.push(Cause::required("", message));
    }
    let architecture = spec.text("/architecture");
    if !matches!(architecture, "amd64" | "arm64" | "s390x") {
        let message = format!("unsupported architecture: {architecture}");
        causes.push(Cause::invalid(field.child("architecture"), message));
    }
    causes
}

/// What is wrong with the metadata of an instance, or of a template.
pub fn metadata(field: &Field, metadata: &Value, config: &Config, is_kubevirt: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !is_kubevirt && RESERVED_LABELS.iter().any(|label| !metadata["labels"][*label].is_null()) {
        causes.push(Cause::not_supported(
            field.child("labels"),
            "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
        ));
    }
    for (annotation, gate, told) in [
        ("kubevirt.io/ignitiondata", "ExperimentalIgnitionSupport", "ExperimentalIgnitionSupport"),
        ("hooks.kubevirt.io/hookSidecars", "Sidecar", "sidecar"),
    ] {
        let set = metadata["annotations"][annotation].as_str().is_some_and(|text| !text.is_empty());
        if set && !config.gate(gate) {
            let message = format!(
                "{told} feature gate is not enabled in kubevirt-config, invalid entry {}",
                field.child("annotations").child(annotation)
            );
            causes.push(Cause::invalid(field.child("annotations"), message));
        }
    }
    causes
}
