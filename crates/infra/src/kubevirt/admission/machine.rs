//! Virtual machines: what they get when they are made, and what they may not be.

use std::hash::Hasher as _;

use serde_json::Value;

use super::config::Config;
use super::field::Field;
use super::{checks, defaults};
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::DATA_SOURCE;
use crate::kubevirt::shapes::{self, INSTANCETYPE, PREFERENCE, Problem, Shape, apply, infer, require};
use crate::object::{Key, Object as _};
use crate::quantity;
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
        let about = format!("{}/{}", review.namespace, review.name);
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

/// The machine with the namespace it is going to have.
fn namespaced(vm: &Value, namespace: &str) -> Value {
    let mut vm = vm.clone();
    if vm.namespace().is_empty() {
        vm.set("/metadata/namespace", namespace.into());
    }
    vm
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

/// Says what is wrong with a machine.
pub async fn validate(context: &Context, review: Review) -> Verdict {
    let vm = namespaced(&review.object, &review.namespace);
    if vm.is_deleting() {
        return Verdict::fine();
    }
    let config = Config::of(context).await;
    let shape = match find(context, &vm).await {
        Ok(shape) => shape,
        Err(cause) => return Verdict::of_causes(vec![*cause]),
    };
    let is_new = review.operation == "CREATE";
    let causes = judge(&config, &shape, &vm, is_new, review.user.is_kubevirt());
    if !causes.is_empty() {
        return Verdict::of_causes(causes);
    }
    let causes = busy(&review.old, &vm);
    if !causes.is_empty() {
        return Verdict::of_causes(causes);
    }
    let mut warnings = Vec::new();
    if !vm.at("/spec/running").is_null() {
        warnings.push("spec.running is deprecated, please use spec.runStrategy instead.".to_owned());
    }
    Verdict::fine().warning(warnings)
}

/// The shape of a machine, or why it cannot be found.
async fn find(context: &Context, vm: &Value) -> Result<Shape, Box<Cause>> {
    let cause = |side: &shapes::find::Side, problem: Problem| {
        Box::new(Cause {
            reason: "FieldValueNotFound",
            field: format!("spec.{}", side.matcher),
            message: format!("Failure to find {}: {}", side.matcher, problem.message),
        })
    };
    let instancetype = shapes::find::spec(context, &INSTANCETYPE, vm).await;
    let instancetype = instancetype.map_err(|problem| cause(&INSTANCETYPE, problem))?;
    let preference = shapes::find::spec(context, &PREFERENCE, vm).await;
    let preference = preference.map_err(|problem| cause(&PREFERENCE, problem))?;
    Ok(Shape { instancetype, preference })
}

/// What is wrong with a machine of a shape. What it leaves open is judged as it is going to be filled in.
pub fn judge(config: &Config, shape: &Shape, vm: &Value, is_new: bool, is_kubevirt: bool) -> Vec<Cause> {
    if !vm.at("/spec/template").is_object() {
        return vec![Cause::required("spec.template", "missing virtual machine template.")];
    }
    if let Some(cause) = require::spreadable(shape) {
        return vec![cause];
    }
    let mut shaped = vm.clone();
    let field = Field::new("spec.template.spec");
    let conflicts = apply::apply(shape, &mut shaped["spec"]["template"], &field);
    if !conflicts.is_empty() {
        let told = |field: String| {
            let message = format!("VM field(s) {field} conflicts with selected instance type");
            Cause::invalid(field, message)
        };
        return conflicts.into_iter().map(told).collect();
    }
    defaults::spec(config, &mut shaped["spec"]["template"]["spec"]);
    if let Some(cause) = require::cause(shape, &shaped["spec"]["template"]["spec"]) {
        return vec![cause];
    }
    if is_new {
        let causes = checks::discontinued_bindings(&field, &shaped["spec"]["template"]["spec"]);
        if !causes.is_empty() {
            return causes;
        }
    }
    let mut causes = spec(config, &Field::new("spec"), &shaped["spec"], is_kubevirt);
    if causes.is_empty() {
        causes = volume_namespaces(vm);
    }
    causes
}

/// What is wrong with the spec of a machine.
pub fn spec(config: &Config, field: &Field, spec: &Value, is_kubevirt: bool) -> Vec<Cause> {
    let template = &spec["template"];
    if !template.is_object() {
        return vec![Cause::required(field.child("template"), "missing virtual machine template.")];
    }
    let mut causes =
        checks::metadata(&field.child("template.metadata"), &template["metadata"], config, is_kubevirt);
    causes.extend(checks::spec(&field.child("template.spec"), &template["spec"], config));
    for (index, volume) in spec.list("/dataVolumeTemplates").iter().enumerate() {
        causes.extend(data_volume(&field.child("dataVolumeTemplate").index(index), volume, template));
    }
    run_strategy(config, field, spec, &mut causes);
    if config.growth().is_some() {
        memory_growth(&field.child("template.spec"), &template["spec"], &mut causes);
    }
    causes
}

fn run_strategy(config: &Config, field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let (running, strategy) = (&spec["running"], &spec["runStrategy"]);
    match (running.is_null(), strategy.is_null()) {
        (false, false) => causes.push(Cause::invalid(
            field.child("running"),
            "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy \
             instead",
        )),
        (true, true) => {
            causes.push(Cause::invalid(field.child("running"), "RunStrategy must be specified"));
        }
        _ => {}
    }
    let known = match strategy.as_str().unwrap_or_default() {
        "Always" | "Halted" | "Manual" | "RerunOnFailure" | "Once" => true,
        "WaitAsReceiver" => config.gate("DecentralizedLiveMigration"),
        _ => strategy.is_null(),
    };
    if !known {
        let message = format!("Invalid RunStrategy ({})", strategy.as_str().unwrap_or_default());
        causes.push(Cause::invalid(field.child("runStrategy"), message));
    }
}

fn data_volume(field: &Field, volume: &Value, template: &Value) -> Option<Cause> {
    let name = volume.name();
    if name.is_empty() {
        let named = field.child("name");
        let message = format!("'name' field must not be empty for DataVolumeTemplate entry {named}.");
        return Some(Cause::required(named, message));
    }
    let spec = &volume["spec"];
    let (claim, storage) = (spec["pvc"].is_object(), spec["storage"].is_object());
    let target = field.child("PVC.Storage");
    if !claim && !storage {
        return Some(Cause::invalid(target, "Missing Data volume PVC or Storage"));
    }
    if claim && storage {
        let message = "Duplicate storage definition, both target storage and target pvc defined";
        return Some(Cause::invalid(target, message));
    }
    let wanted = if claim { &spec["pvc"] } else { &spec["storage"] };
    let external = wanted["dataSourceRef"].is_object() || wanted["dataSource"].is_object();
    let sourced = spec["source"].is_object() || spec["sourceRef"].is_object();
    if external && sourced {
        let message = "External population is incompatible with Source and SourceRef";
        return Some(Cause::invalid(field.child("source"), message));
    }
    if !external && !sourced {
        let message = "Data volume should have either Source, SourceRef, or be externally populated";
        return Some(Cause::invalid(field.child("source.sourceRef"), message));
    }
    if let Some(sources) = spec["source"].as_object() {
        match sources.values().filter(|source| !source.is_null()).count() {
            0 => return Some(Cause::invalid(field.child("source"), "Missing dataVolume valid source")),
            1 => {}
            _ => return Some(Cause::invalid(field.child("source"), "Multiple dataVolume sources")),
        }
    }
    let used = template.list("/spec/volumes").iter().any(|volume| {
        volume.text("/persistentVolumeClaim/claimName") == name || volume.text("/dataVolume/name") == name
    });
    (!used).then(|| {
        let message = format!(
            "DataVolumeTemplate entry {field} must be referenced in the VMI template's 'volumes' list"
        );
        Cause::required(field.clone(), message)
    })
}

fn volume_namespaces(vm: &Value) -> Vec<Cause> {
    let templates = vm.list("/spec/dataVolumeTemplates").iter().enumerate();
    let foreign =
        templates.filter(|(_, one)| !one.namespace().is_empty() && one.namespace() != vm.namespace());
    foreign
        .map(|(index, one)| {
            let message = format!(
                "Embedded DataVolume namespace {} differs from VM namespace {}",
                one.namespace(),
                vm.namespace()
            );
            Cause::invalid(Field::new("spec.dataVolumeTemplates").index(index), message)
        })
        .collect()
}

/// Machines that say how much memory they can grow to must be able to.
fn memory_growth(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    const BLOCK: i128 = 2 << 20;
    let (guest, most) = (spec.at("/domain/memory/guest"), spec.at("/domain/memory/maxGuest"));
    if most.is_null() {
        return;
    }
    for (found, place, message) in [
        (
            spec.at("/domain/cpu/realtime").is_object(),
            "domain.cpu.realtime",
            "Memory hotplug is not compatible with realtime VMs",
        ),
        (
            spec.at("/domain/cpu/numa/guestMappingPassthrough").is_object(),
            "domain.cpu.numa.guestMappingPassthrough",
            "Memory hotplug is not compatible with guest mapping passthrough",
        ),
        (
            spec.at("/domain/launchSecurity").is_object(),
            "domain.launchSecurity",
            "Memory hotplug is not compatible with encrypted VMs",
        ),
        (
            guest.is_null(),
            "domain.memory.guest",
            "Guest memory must be configured when memory hotplug is enabled",
        ),
        (
            quantity::of(guest) > quantity::of(most),
            "domain.memory.guest",
            "Guest memory is greater than the configured maxGuest memory",
        ),
        (quantity::whole(guest) % BLOCK != 0, "domain.memory.guest", "Guest memory must be 2Mi aligned"),
        (quantity::whole(most) % BLOCK != 0, "domain.memory.maxGuest", "MaxGuest must be 2Mi aligned"),
        (
            !matches!(spec.text("/architecture"), "amd64" | "arm64"),
            "architecture",
            "Memory hotplug is only available for x86_64 and arm64 VMs",
        ),
    ] {
        if found {
            causes.push(Cause::invalid(field.child(place), message));
        }
    }
}

/// A machine that is being copied or put back stays as it is.
fn busy(old: &Value, vm: &Value) -> Vec<Cause> {
    if old.is_null() || old["spec"] == vm["spec"] {
        return Vec::new();
    }
    let snapshot = vm.text("/status/snapshotInProgress");
    if !snapshot.is_empty() {
        let message = format!("Cannot update VM spec until snapshot \"{snapshot}\" completes");
        return vec![Cause::not_supported("spec", message)];
    }
    let restore = vm.text("/status/restoreInProgress");
    let halted = vm.at("/spec/running") == false || vm.text("/spec/runStrategy") == "Halted";
    if !restore.is_empty() && !halted {
        let message = format!("Cannot start VM until restore \"{restore}\" completes");
        return vec![Cause::not_supported("spec", message)];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vm() -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "vm"},
            "spec": {
                "runStrategy": "Always",
                "template": {"spec": {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}}},
            },
        })
    }

    fn judged(change: impl Fn(&mut Value)) -> Vec<Cause> {
        let mut vm = vm();
        change(&mut vm);
        judge(&Config::default(), &Shape::default(), &vm, true, false)
    }

    fn template(change: impl Fn(&mut Value)) -> Vec<Cause> {
        judged(|vm| {
            let mut volume = json!({
                "metadata": {"name": "dv"},
                "spec": {"storage": {}, "source": {"blank": {}}},
            });
            change(&mut volume);
            vm["spec"]["dataVolumeTemplates"] = json!([volume]);
            vm["spec"]["template"]["spec"]["volumes"] =
                json!([{"name": "root", "dataVolume": {"name": "dv"}}]);
        })
    }

    #[test]
    fn a_plain_machine_is_fine() {
        assert_eq!(judged(|_| {}), []);
        assert_eq!(template(|_| {}), []);
    }

    /// One row per rule: what is wrong, the field it is told of, and how the message begins.
    #[test]
    fn each_rule_names_its_field() {
        for (causes, field, message) in [
            (judged(|vm| vm.unset("/spec/runStrategy")), "spec.running", "RunStrategy must be specified"),
            (
                judged(|vm| vm.set("/spec/running", true.into())),
                "spec.running",
                "Running and RunStrategy are mutually exclusive.",
            ),
            (
                judged(|vm| vm.set("/spec/runStrategy", "Never".into())),
                "spec.runStrategy",
                "Invalid RunStrategy (Never)",
            ),
            (judged(|vm| vm.unset("/spec/template")), "spec.template", "missing virtual machine template."),
            (
                template(|dv| dv.unset("/metadata/name")),
                "spec.dataVolumeTemplate[0].name",
                "'name' field must not be empty",
            ),
            (
                template(|dv| dv.unset("/spec/storage")),
                "spec.dataVolumeTemplate[0].PVC.Storage",
                "Missing Data volume PVC or Storage",
            ),
            (
                template(|dv| dv.set("/spec/pvc", json!({}))),
                "spec.dataVolumeTemplate[0].PVC.Storage",
                "Duplicate storage definition",
            ),
            (
                template(|dv| dv.unset("/spec/source")),
                "spec.dataVolumeTemplate[0].source.sourceRef",
                "Data volume should have either",
            ),
            (
                template(|dv| dv.set("/spec/source", json!({}))),
                "spec.dataVolumeTemplate[0].source",
                "Missing dataVolume valid source",
            ),
            (
                template(|dv| dv.set("/spec/source/http", json!({}))),
                "spec.dataVolumeTemplate[0].source",
                "Multiple dataVolume sources",
            ),
            (
                template(|dv| dv.set("/spec/storage/dataSourceRef", json!({}))),
                "spec.dataVolumeTemplate[0].source",
                "External population is incompatible",
            ),
            (
                template(|dv| dv.set("/metadata/name", "x".into())),
                "spec.dataVolumeTemplate[0]",
                "DataVolumeTemplate entry spec.dataVolumeTemplate[0] must be referenced",
            ),
            (
                template(|dv| dv.set("/metadata/namespace", "x".into())),
                "spec.dataVolumeTemplates[0]",
                "Embedded DataVolume namespace x differs from VM namespace n",
            ),
            (
                judged(|vm| vm.set("/spec/template/spec/domain/memory/maxGuest", "512Mi".into())),
                "spec.template.spec.domain.memory.guest",
                "Guest memory is greater than",
            ),
            (
                judged(|vm| vm.set("/spec/template/metadata/labels", json!({"kubevirt.io/nodeName": "n"}))),
                "spec.template.metadata.labels",
                "creation of the following reserved",
            ),
            (
                judged(|vm| {
                    vm.set("/spec/template/metadata/annotations", json!({"kubevirt.io/ignitiondata": "{}"}))
                }),
                "spec.template.metadata.annotations",
                "ExperimentalIgnitionSupport feature gate is not enabled",
            ),
        ] {
            let cause = causes.first().unwrap_or_else(|| panic!("{field} was not refused"));
            assert_eq!(cause.field, field);
            assert!(cause.message.starts_with(message), "{field}: {}", cause.message);
            assert_eq!(causes.len(), 1, "{field}: {causes:?}");
        }
    }

    #[test]
    fn a_shape_conflicts_or_lacks() {
        let shape = Shape {
            instancetype: json!({"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}),
            preference: json!({"requirements": {"memory": {"guest": "2Gi"}}}),
        };
        let causes = judge(&Config::default(), &shape, &vm(), true, false);
        assert_eq!(
            causes,
            [Cause::invalid(
                "spec.template.spec.domain.memory",
                "VM field(s) spec.template.spec.domain.memory conflicts with selected instance type"
            )]
        );
        let mut open = vm();
        open.unset("/spec/template/spec/domain/memory");
        let causes = judge(&Config::default(), &shape, &open, true, false);
        assert_eq!((causes[0].reason, causes[0].field.as_str()), ("FieldValueNotFound", "spec.instancetype"));
        assert!(
            causes[0].message.starts_with("failure checking preference requirements: insufficient Memory")
        );
    }

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
    fn a_machine_being_copied_stays_as_it_is() {
        let (mut old, mut new) = (vm(), vm());
        for machine in [&mut old, &mut new] {
            machine.set("/status/snapshotInProgress", "s".into());
        }
        assert_eq!(busy(&old, &new), []);
        new.set("/spec/runStrategy", "Halted".into());
        assert_eq!(busy(&old, &new)[0].message, "Cannot update VM spec until snapshot \"s\" completes");
        new["status"] = json!({"restoreInProgress": "r"});
        assert_eq!(busy(&old, &new), []);
        new.set("/spec/runStrategy", "Manual".into());
        assert_eq!(busy(&old, &new)[0].message, "Cannot start VM until restore \"r\" completes");
    }

    #[test]
    fn identities_are_uuids() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
