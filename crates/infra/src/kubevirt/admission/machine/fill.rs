//! What a machine gets when it is made.

use std::hash::Hasher as _;

use serde_json::Value;

use super::namespaced;
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::DATA_SOURCE;
use crate::kubevirt::admission::config::Config;
use crate::kubevirt::admission::decode;
use crate::kubevirt::admission::field::Field;
use crate::kubevirt::shapes::{self, INSTANCETYPE, PREFERENCE, infer};
use crate::object::{Key, Object as _};
use crate::service::admission::{Cause, Review, Verdict};
use crate::stages::Fnv;

/// Notes which slots of the bus devices get, on machines of the kinds that have such a bus.
const TOPOLOGY_ANNOTATION: &str = "kubevirt.io/pci-topology-version";
/// Says which architecture the guests of a source are for.
const ARCHITECTURE_LABEL: &str = "template.kubevirt.io/architecture";

/// Fills in what a machine leaves open.
pub async fn mutate(context: &Context, review: Review) -> Verdict {
    if review.object.is_deleting() || !review.object["spec"]["template"].is_object() {
        return Verdict::fine();
    }
    if let Some(problem) = decode::instance(&review.object, "spec.template.spec") {
        return Verdict::denied(400, "", problem);
    }
    let mut causes = matcher_changes(&review.old, &review.object);
    causes.extend(matchers(&review.object));
    if !causes.is_empty() {
        return Verdict::of_causes(causes);
    }
    let mut vm = review.object;
    if let Err(message) = infer::infer(context, &mut vm, &review.namespace).await {
        return Verdict::denied(400, "", message);
    }
    for side in [&INSTANCETYPE, &PREFERENCE] {
        if vm["spec"][side.matcher].is_object() && vm["spec"][side.matcher].text("/kind").is_empty() {
            let kind = side.cluster.kind.to_lowercase();
            vm["spec"][side.matcher]["kind"] = kind.into();
        }
    }
    // What cannot be found is told by the validator.
    let preference = shapes::find::spec(context, &PREFERENCE, &namespaced(&vm, &review.namespace)).await;
    let preference = preference.unwrap_or_default();
    let config = Config::of(context).await;
    architecture(context, &config, &mut vm, &review.namespace).await;
    machine_type(&config, &mut vm, &preference);
    storage_class(&mut vm, &preference);
    if review.operation == "CREATE" {
        let mut about = format!("{}/{}", review.namespace, review.name);
        if review.name.is_empty() {
            // The server makes the name later: equal machines of one moment are told apart by their turn.
            about = format!("{about}#{}", context.world.next_nameless());
        }
        identity(context, &mut vm, &about);
        let machine = vm.text("/spec/template/spec/domain/machine/type");
        let has_bus = machine.contains("q35") || machine.starts_with("virt");
        if has_bus && vm["spec"]["template"].annotation(TOPOLOGY_ANNOTATION).is_empty() {
            vm["spec"]["template"].set_annotation(TOPOLOGY_ANNOTATION, "v3");
        }
    }
    if let Some(fields) = vm["spec"].as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    Verdict::changed(vm)
}

/// A matcher that names another shape must not keep the revision of the old one.
fn matcher_changes(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for side in [&INSTANCETYPE, &PREFERENCE] {
        let (old, new) = (&old["spec"][side.matcher], &new["spec"][side.matcher]);
        let revision = old.text("/revisionName");
        if new.is_object()
            && !revision.is_empty()
            && old["name"] != new["name"]
            && new.text("/revisionName") == revision
        {
            causes.push(Cause::invalid(
                format!("spec.{}.revisionName", side.matcher),
                "the Matcher Name has been updated without updating the RevisionName",
            ));
        }
    }
    causes
}

/// A matcher names a shape, or a volume to find it out from.
fn matchers(vm: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for side in [&INSTANCETYPE, &PREFERENCE] {
        let matcher = &vm["spec"][side.matcher];
        if !matcher.is_object() {
            continue;
        }
        let field = Field::new("spec").child(side.matcher);
        let not_found = |field: Field, message: String| Cause {
            reason: "FieldValueNotFound",
            field: field.into(),
            message,
        };
        let kind = side.matcher_type;
        let (name, volume) = (matcher.text("/name"), matcher.text("/inferFromVolume"));
        if name.is_empty() && volume.is_empty() {
            let message = format!("Either Name or InferFromVolume should be provided within the {kind}");
            causes.push(not_found(field.clone(), message));
        }
        if !volume.is_empty() {
            for (set, told, child) in [(name, "Name", "name"), (matcher.text("/kind"), "Kind", "kind")] {
                if !set.is_empty() {
                    let message = format!(
                        "{told} should not be provided when InferFromVolume is used within the {kind}"
                    );
                    causes.push(not_found(field.child(child), message));
                }
            }
        }
        let policy = matcher.text("/inferFromVolumeFailurePolicy");
        if !matches!(policy, "" | "Ignore" | "Reject") {
            let message = format!("Invalid value '{policy}' for InferFromVolumeFailurePolicy");
            causes.push(Cause::invalid(field.child("inferFromVolumeFailurePolicy"), message));
        }
    }
    causes
}

/// The architecture of the source of its disks, or else of the cluster.
async fn architecture(context: &Context, config: &Config, vm: &mut Value, namespace: &str) {
    let pointer = "/spec/template/spec/architecture";
    if !vm.text(pointer).is_empty() {
        return;
    }
    let client = context.client(Identity::VIRT_API);
    for template in vm.list("/spec/dataVolumeTemplates") {
        let reference = template.at("/spec/sourceRef");
        if !reference.text("/kind").eq_ignore_ascii_case("datasource") {
            continue;
        }
        let own = reference.text("/namespace");
        let key = Key::new(if own.is_empty() { namespace } else { own }, reference.text("/name"));
        let Ok(Some(source)) = client.get(&DATA_SOURCE, &key).await else { continue };
        let found = source.label(ARCHITECTURE_LABEL);
        if matches!(found, "amd64" | "arm64" | "s390x") {
            let found = found.to_owned();
            vm.set(pointer, found.into());
            return;
        }
    }
    vm.set(pointer, config.architecture().into());
}

fn machine_type(config: &Config, vm: &mut Value, preference: &Value) {
    let pointer = "/spec/template/spec/domain/machine/type";
    if !vm.text(pointer).is_empty() {
        return;
    }
    let preferred = preference.text("/machine/preferredMachineType");
    let kind = if preferred.is_empty() {
        config.machine_type(vm.text("/spec/template/spec/architecture"))
    } else {
        preferred
    };
    let kind = kind.to_owned();
    vm.set(pointer, kind.into());
}

fn storage_class(vm: &mut Value, preference: &Value) {
    let class = preference.text("/volumes/preferredStorageClassName");
    if class.is_empty() {
        return;
    }
    let templates = vm.pointer_mut("/spec/dataVolumeTemplates").and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten() {
        for kind in ["pvc", "storage"] {
            let spec = &mut template["spec"];
            if spec[kind].is_object() && spec[kind]["storageClassName"].is_null() {
                spec[kind]["storageClassName"] = class.into();
            }
        }
    }
}

/// What the firmware calls the machine, for as long as it exists.
fn identity(context: &Context, vm: &mut Value, about: &str) {
    let firmware = "/spec/template/spec/domain/firmware";
    // A machine that is made again is another one, though its name is the same.
    let about = format!("{about}@{}", context.clock.now().as_nanosecond());
    let mut content = Fnv::new(0);
    content.write(vm["spec"].to_string().as_bytes());
    let content = content.finish();
    for name in ["uuid", "serial"] {
        let pointer = format!("{firmware}/{name}");
        if vm.text(&pointer).is_empty() {
            let stage = format!("firmware.{name}");
            let halves = (
                context.stages.chance(&stage, &about, content),
                context.stages.chance(&stage, &about, !content),
            );
            vm.set(&pointer, uuid(halves.0, halves.1).into());
        }
    }
}

/// A UUID of 128 bits of chance.
fn uuid(high: u64, low: u64) -> String {
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn matchers_name_one_thing() {
        for (matcher, field) in [
            (json!({}), "spec.instancetype"),
            (json!({"name": "a", "inferFromVolume": "v"}), "spec.instancetype.name"),
            (json!({"kind": "a", "inferFromVolume": "v"}), "spec.instancetype.kind"),
            (
                json!({"name": "a", "inferFromVolumeFailurePolicy": "x"}),
                "spec.instancetype.inferFromVolumeFailurePolicy",
            ),
        ] {
            let causes = matchers(&json!({"spec": {"instancetype": matcher}}));
            assert_eq!(causes.len(), 1, "{matcher}");
            assert_eq!(causes[0].field, field);
        }
        let old = json!({"spec": {"preference": {"name": "a", "revisionName": "r"}}});
        let new = json!({"spec": {"preference": {"name": "b", "revisionName": "r"}}});
        assert_eq!(matcher_changes(&old, &new)[0].field, "spec.preference.revisionName");
        let new = json!({"spec": {"preference": {"name": "b"}}});
        assert_eq!(matcher_changes(&old, &new), []);
    }

    #[test]
    fn identities_are_uuids() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
