//! What a machine is made into: its instance, the revision it was made of, and its volumes.

use serde_json::{Value, json};

use super::strategy::Strategy;
use crate::kinds::VM;
use crate::kubevirt::names::{
    CREATED_BY_LABEL, GENERATION_ANNOTATION, RECEIVER_ANNOTATION, VM_FINALIZER, VMI_FINALIZER,
};
use crate::kubevirt::uuid;
use crate::object::{Object as _, owned_by};

/// The name of the revision of a machine as it is.
pub fn revision_name(vm: &Value) -> String {
    format!("revision-start-vm-{}-{}", vm.uid(), vm.generation())
}

/// What is remembered of a machine when an instance is made of it.
pub fn revision(vm: &Value) -> Value {
    json!({
        "metadata": {
            "name": revision_name(vm), "namespace": vm.namespace(), "ownerReferences": [owned_by(&VM, vm)],
        },
        "data": {"spec": vm["spec"]},
        "revision": vm.generation(),
    })
}

/// The instance of a machine. `expanded` is the machine with its shape applied.
pub fn instance(expanded: &Value, paused: bool) -> Value {
    let template = expanded.at("/spec/template");
    let mut vmi = json!({
        "metadata": {
            "name": expanded.name(), "namespace": expanded.namespace(),
            "ownerReferences": [owned_by(&VM, expanded)],
            "finalizers": [VM_FINALIZER, VMI_FINALIZER],
        },
        "spec": template["spec"],
        "status": {"virtualMachineRevisionName": revision_name(expanded)},
    });
    for what in ["labels", "annotations"] {
        if let Some(marks) = template.at("/metadata").get(what).filter(|marks| marks.is_object()) {
            vmi["metadata"][what] = marks.clone();
        }
    }
    vmi.set_annotation(GENERATION_ANNOTATION, &expanded.generation().to_string());
    if Strategy::of(expanded) == Strategy::WaitAsReceiver {
        vmi.set_annotation(RECEIVER_ANNOTATION, "true");
    }
    if paused {
        vmi.set("/spec/startStrategy", "Paused".into());
    }
    if vmi.text("/spec/domain/firmware/uuid").is_empty() {
        vmi.set("/spec/domain/firmware/uuid", uuid::of_machine(expanded.name()).into());
    }
    vmi
}

/// The data volume of a template. `source` is what its `sourceRef` stands for, where it has one.
pub fn data_volume(vm: &Value, template: &Value, source: Option<Value>) -> Value {
    let mut volume = json!({
        "metadata": {
            "name": template.name(), "namespace": vm.namespace(), "ownerReferences": [owned_by(&VM, vm)],
        },
        "spec": template["spec"],
    });
    for what in ["labels", "annotations"] {
        if let Some(marks) = template.at("/metadata").get(what).filter(|marks| marks.is_object()) {
            volume["metadata"][what] = marks.clone();
        }
    }
    volume.set_label(CREATED_BY_LABEL, vm.uid());
    if let Some(source) = source {
        volume.unset("/spec/sourceRef");
        volume.set("/spec/source", source);
    }
    volume
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm() -> Value {
        json!({
            "metadata": {
                "name": "one", "namespace": "a", "uid": "u", "generation": 3,
                "labels": {"of": "the machine"}, "annotations": {"of": "the machine"},
            },
            "spec": {
                "runStrategy": "Always",
                "template": {"metadata": {"labels": {"of": "the template"}}, "spec": {"domain": {"devices": {}}}},
            },
        })
    }

    #[test]
    fn an_instance_has_the_marks_of_the_template_only() {
        let vmi = instance(&vm(), false);
        assert_eq!(vmi["metadata"]["labels"], json!({"of": "the template"}));
        assert_eq!(vmi["metadata"]["annotations"], json!({"kubevirt.io/vm-generation": "3"}));
        assert_eq!(
            vmi["metadata"]["finalizers"],
            json!([
                "kubevirt.io/virtualMachineControllerFinalize",
                "kubevirt.io/foregroundDeleteVirtualMachine"
            ])
        );
        assert!(vmi.is_controlled_by("u"));
        assert_eq!(vmi.text("/status/virtualMachineRevisionName"), "revision-start-vm-u-3");
        assert_eq!(vmi.text("/spec/domain/firmware/uuid").len(), 36);
        assert!(vmi.at("/spec/startStrategy").is_null());
        assert_eq!(instance(&vm(), true).text("/spec/startStrategy"), "Paused");
    }

    #[test]
    fn a_receiver_waits_for_its_sender() {
        let mut vm = vm();
        vm.set("/spec/runStrategy", "WaitAsReceiver".into());
        assert_eq!(instance(&vm, false).annotation("kubevirt.io/create-migration-target"), "true");
    }

    #[test]
    fn a_volume_belongs_to_its_machine_and_knows_its_source() {
        let template = json!({
            "metadata": {"name": "root", "annotations": {"a": "b"}},
            "spec": {"sourceRef": {"kind": "DataSource", "name": "fedora"}, "storage": {}},
        });
        let volume = data_volume(&vm(), &template, Some(json!({"pvc": {"name": "p", "namespace": "n"}})));
        assert_eq!(
            volume["spec"],
            json!({"source": {"pvc": {"name": "p", "namespace": "n"}}, "storage": {}})
        );
        assert_eq!(volume.label("kubevirt.io/created-by"), "u");
        assert_eq!(volume.annotation("a"), "b");
        assert!(volume.is_controlled_by("u"));
    }
}
