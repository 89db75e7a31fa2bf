//! What a machine may not be.

use serde_json::Value;

use super::namespaced;
use crate::context::Context;
use crate::kubevirt::admission::config::Config;
use crate::kubevirt::admission::field::Field;
use crate::kubevirt::admission::{checks, defaults, plug};
use crate::kubevirt::shapes::{self, INSTANCETYPE, PREFERENCE, Problem, Shape, apply, require};
use crate::object::Object as _;
use crate::quantity;
use crate::service::admission::{Cause, Review, Verdict};

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
    let mut causes = busy(&review.old, &vm);
    causes.extend(plug::added(&review.old, &vm));
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
        "WaitAsReceiver" if config.gate("DecentralizedLiveMigration") => {
            let message = "WaitAsReceiver is not emulated: no machine can be received from another cluster";
            causes.push(Cause::not_supported(field.child("runStrategy"), message));
            true
        }
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
                    vm.set("/spec/template/metadata/annotations", json!({"kubevirt.io/ignitiondata": "{}"}));
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
}
