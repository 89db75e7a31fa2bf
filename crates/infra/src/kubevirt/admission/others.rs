//! Migrations, sets of machines, shapes, snapshots and the rest.

use serde_json::Value;

use super::config::Config;
use super::field::Field;
use super::{checks, decode, machine};
use crate::client::Identity;
use crate::context::Context;
use crate::kinds::{MIGRATION, VM_RESTORE, VMI};
use crate::kubevirt::replicas::selector;
use crate::object::{Key, Object as _};
use crate::service::admission::{Cause, Review, Verdict};

/// The label of a migration that names its instance.
const MIGRATION_LABEL: &str = "kubevirt.io/vmi-name";
/// Holds a migration until its end was dealt with.
const MIGRATION_FINALIZER: &str = "kubevirt.io/migrationJobFinalize";

/// Labels a migration with its instance, and holds it.
pub fn mutate_migration(review: Review) -> Verdict {
    let mut migration = review.object;
    let name = migration.text("/spec/vmiName").to_owned();
    if !name.is_empty() {
        migration.set_label(MIGRATION_LABEL, &name);
    }
    migration.add_finalizer(MIGRATION_FINALIZER);
    Verdict::changed(migration)
}

/// Says what is wrong with a new migration.
pub async fn create_migration(context: &Context, review: Review) -> Verdict {
    let name = review.object.text("/spec/vmiName");
    if name.is_empty() {
        return Verdict::of_causes(vec![Cause::required("spec.vmiName", "vmiName is missing")]);
    }
    for way in ["sendTo", "receive"] {
        if review.object["spec"][way].is_object() {
            let message =
                "migrations between clusters are not emulated: a machine can only be moved within this one";
            return Verdict::of_causes(vec![Cause::not_supported(format!("spec.{way}"), message)]);
        }
    }
    if !review.object.at("/spec/priority").is_null() && !review.user.is_kubevirt() {
        let message = "priority can only be set by KubeVirt's own components";
        return Verdict::of_causes(vec![Cause::not_supported("spec.priority", message)]);
    }
    let denied = |message: String| Verdict::denied(400, "", message);
    let client = context.client(Identity::VIRT_API);
    let namespace = &review.namespace;
    let vmi = match client.get(&VMI, &Key::new(namespace, name)).await {
        Ok(Some(vmi)) => vmi,
        Ok(None) => return denied(format!("the VMI \"{namespace}/{name}\" does not exist")),
        Err(failure) => return denied(failure.message),
    };
    if vmi.is_over() {
        return denied("Cannot migrate VMI in finalized state.".to_owned());
    }
    let ability = vmi.condition("LiveMigratable");
    if ability["status"] == "False" {
        return denied(format!(
            "Cannot migrate VMI, Reason: {}, Message: {}",
            ability.text("/reason"),
            ability.text("/message")
        ));
    }
    let others = match client.list(&MIGRATION, namespace).await {
        Ok(others) => others,
        Err(failure) => return denied(failure.message),
    };
    let active = others.iter().find(|one| one.text("/spec/vmiName") == name && !one.is_over());
    match active {
        Some(active) => denied(format!(
            "in-flight migration detected. Active migration job ({}) is currently already in progress for VMI {name}.",
            active.uid()
        )),
        None => Verdict::fine(),
    }
}

/// Says what is wrong with a change of a migration.
pub fn update_migration(review: &Review) -> Verdict {
    let (old, new) = (&review.old, &review.object);
    if old["spec"] != new["spec"] {
        let message = "update of Migration object's spec is restricted";
        return Verdict::of_causes(vec![Cause::not_supported("", message)]);
    }
    let (before, after) = (old.label(MIGRATION_LABEL), new.label(MIGRATION_LABEL));
    if new.is_over() || new.is_deleting() || before.is_empty() || before == after {
        return Verdict::fine();
    }
    let done = if after.is_empty() { "removed from" } else { "modified on" };
    let message = format!("selector label can't be {done} an in-flight migration");
    Verdict::of_causes(vec![Cause::not_supported("", message)])
}

/// Says what is wrong with a replica set.
pub async fn replica_set(context: &Context, review: Review) -> Verdict {
    if review.object.is_deleting() {
        return Verdict::fine();
    }
    if let Some(problem) = decode::instance(&review.object, "spec.template.spec") {
        return Verdict::denied(400, "", problem);
    }
    let config = Config::of(context).await;
    Verdict::of_causes(judge_replica_set(&config, &review.object["spec"]))
}

fn judge_replica_set(config: &Config, spec: &Value) -> Vec<Cause> {
    let field = Field::new("spec");
    if !spec["template"].is_object() {
        return vec![Cause::required(field.child("template"), "missing virtual machine template.")];
    }
    let mut filled = spec["template"]["spec"].clone();
    super::defaults::spec(config, &mut filled);
    let mut causes = checks::spec(&field.child("template.spec"), &filled, config);
    causes.extend(selects(&field, &spec["selector"], spec.at("/template/metadata/labels")));
    causes
}

/// A selector has to pick what is made from the template.
fn selects(field: &Field, selector: &Value, labels: &Value) -> Option<Cause> {
    let place = field.child("selector");
    if let Some(problem) = selector::problem(selector) {
        return Some(Cause::invalid(place, problem));
    }
    (!selector::matches(selector, labels)).then(|| Cause::invalid(place, "selector does not match labels."))
}

/// Says what is wrong with a pool.
pub async fn pool(context: &Context, review: Review) -> Verdict {
    if review.object.is_deleting() {
        return Verdict::fine();
    }
    if let Some(problem) = decode::instance(&review.object, "spec.virtualMachineTemplate.spec.template.spec")
    {
        return Verdict::denied(400, "", problem);
    }
    let config = Config::of(context).await;
    let is_kubevirt = review.user.is_kubevirt();
    Verdict::of_causes(judge_pool(&config, &review.old, &review.object["spec"], is_kubevirt))
}

fn judge_pool(config: &Config, old: &Value, spec: &Value, is_kubevirt: bool) -> Vec<Cause> {
    let field = Field::new("spec");
    let template = &spec["virtualMachineTemplate"];
    if !template.is_object() {
        return vec![Cause::required(field.child("template"), "missing virtual machine template.")];
    }
    let mut filled = template["spec"].clone();
    if filled["template"]["spec"].is_object()
        && filled["instancetype"].is_null()
        && filled["preference"].is_null()
    {
        super::defaults::spec(config, &mut filled["template"]["spec"]);
    }
    let mut causes = machine::spec(config, &field.child("virtualMachineTemplate.spec"), &filled, is_kubevirt);
    causes.extend(selects(&field, &spec["selector"], template.at("/metadata/labels")));
    causes.extend(max_unavailable(&field.child("maxUnavailable"), &spec["maxUnavailable"]));
    if old.is_object() && old["spec"]["selector"] != spec["selector"] {
        causes.push(Cause::invalid(field.child("selector"), "selector is immutable after creation."));
    }
    causes
}

fn max_unavailable(field: &Field, value: &Value) -> Option<Cause> {
    let message = match value {
        Value::String(text) => match text.strip_suffix('%') {
            None => "maxUnavailable percentage must end with %".to_owned(),
            Some(number) => match number.parse::<i64>() {
                Ok(1..=100) => return None,
                Ok(number) => format!("maxUnavailable percentage value {number} must be between 1 and 100"),
                Err(_) => format!(
                    "maxUnavailable percentage value \"{number}\" is invalid: strconv.Atoi: parsing \"{number}\": \
                     invalid syntax"
                ),
            },
        },
        Value::Number(number) if number.as_i64().is_some_and(|number| number <= 0) => {
            "maxUnavailable must be greater than 0".to_owned()
        }
        _ => return None,
    };
    Some(Cause::invalid(field.clone(), message))
}

/// Says what is wrong with a preset.
pub fn preset(review: &Review) -> Verdict {
    let spec = &review.object["spec"];
    let field = Field::new("spec");
    let cause = if spec["domain"].is_object() {
        selector::problem(&spec["selector"]).map(|problem| Cause::invalid(field.child("selector"), problem))
    } else {
        Some(Cause::required(field.child("domain"), "missing domain."))
    };
    Verdict::of_causes(cause.into_iter().collect())
}

/// Says what is wrong with an instancetype.
pub fn instancetype(review: &Review) -> Verdict {
    match decode::instancetype(&review.object) {
        Some(problem) => Verdict::denied(400, "", problem),
        None => Verdict::of_causes(judge_instancetype(&review.object["spec"])),
    }
}

fn judge_instancetype(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (percent, hugepages) =
        (spec.number("/memory/overcommitPercent").unwrap_or_default(), spec.at("/memory/hugepages"));
    let field = Field::new("spec.memory.overcommitPercent");
    if !(0..=100).contains(&percent) {
        let message = format!("{field} '{percent}': must be between 0 and 100.");
        causes.push(Cause::invalid(field.clone(), message));
    }
    if percent != 0 && hugepages.is_object() {
        let hugepages = Field::new("spec.memory.hugepages");
        let message = format!("{field} and {hugepages} should not be requested together.");
        causes.push(Cause::invalid(field, message));
    }
    causes
}

/// Says what is wrong with a preference.
pub fn preference(review: &Review) -> Verdict {
    let (causes, warnings) = judge_preference(&review.object["spec"]);
    Verdict::of_causes(causes).warning(warnings)
}

fn judge_preference(spec: &Value) -> (Vec<Cause>, Vec<String>) {
    let (mut causes, mut warnings) = (Vec::new(), Vec::new());
    let topology = spec.text("/cpu/preferredCPUTopology");
    let place = Field::new("spec.cpu.preferredCPUTopology");
    match topology {
        "" | "sockets" | "cores" | "threads" | "spread" | "any" => {}
        "preferSockets" | "preferCores" | "preferThreads" | "preferSpread" | "preferAny" => {
            let plain = topology.trim_start_matches("prefer").to_lowercase();
            warnings.push(format!("PreferredCPUTopology {topology} is deprecated for removal in a future release, please use {plain} instead"));
        }
        _ => causes.push(Cause::invalid(place, format!("unknown preferredCPUTopology {topology}"))),
    }
    let across = spec.text("/cpu/spreadOptions/across");
    let options = Field::new("spec.cpu.spreadOptions");
    if !matches!(across, "" | "SocketsCores" | "SocketsCoresThreads" | "CoresThreads") {
        causes.push(Cause::invalid(options.child("across"), format!("across {across} is not supported")));
    }
    if across == "CoresThreads" && spec.number("/cpu/spreadOptions/ratio").is_some_and(|ratio| ratio != 2) {
        let message =
            "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads";
        causes.push(Cause::invalid(options.child("ratio"), message));
    }
    for (pointer, told) in [
        ("/firmware/preferredUseEfi", "Firmware.PreferredUseEfi"),
        ("/firmware/preferredUseSecureBoot", "Firmware.PreferredUseSecureBoot"),
    ] {
        if !spec.at(pointer).is_null() {
            warnings.push(format!("{told} is deprecated, please use Firmware.PreferredEfi instead."));
        }
    }
    if !spec.at("/preferSpreadSocketToCoreRatio").is_null() {
        warnings.push(
            "PreferSpreadSocketToCoreRatio is deprecated, please use CPU.SpreadOptions.Ratio instead."
                .to_owned(),
        );
    }
    (causes, warnings)
}

/// Says what is wrong with a snapshot of a machine.
pub async fn snapshot(context: &Context, review: Review) -> Verdict {
    if review.operation == "UPDATE" {
        return immutable(&review);
    }
    if !Config::of(context).await.gate("Snapshot") {
        return Verdict::denied(400, "", "snapshot feature gate not enabled");
    }
    Verdict::of_causes(of_machine("spec.source", review.object.at("/spec/source")).into_iter().collect())
}

/// Says what is wrong with putting a machine back.
pub async fn restore(context: &Context, review: Review) -> Verdict {
    if review.operation == "UPDATE" {
        return immutable(&review);
    }
    if !Config::of(context).await.gate("Snapshot") {
        return Verdict::denied(400, "", "Snapshot/Restore feature gate not enabled");
    }
    let target = review.object.at("/spec/target");
    let mut causes: Vec<Cause> = of_machine("spec.target", target).into_iter().collect();
    let running = context.client(Identity::VIRT_API).list(&VM_RESTORE, &review.namespace).await;
    for other in running.unwrap_or_default() {
        if other.at("/spec/target") == target && !other.flag("/status/complete") {
            let message = format!("VirtualMachineRestore \"{}\" in progress", other.name());
            causes.push(Cause::invalid("spec.target", message));
        }
    }
    Verdict::of_causes(causes)
}

/// What was asked for once is not changed.
fn immutable(review: &Review) -> Verdict {
    if review.old["spec"] == review.object["spec"] {
        return Verdict::fine();
    }
    Verdict::of_causes(vec![Cause::invalid("spec", "spec in immutable after creation")])
}

/// A reference has to be to a machine.
fn of_machine(field: &str, reference: &Value) -> Option<Cause> {
    let field = Field::new(field);
    match reference["apiGroup"].as_str() {
        None => {
            let message = "missing apiGroup".to_owned();
            Some(Cause { reason: "FieldValueNotFound", field: field.child("apiGroup").into(), message })
        }
        Some("kubevirt.io") if reference.text("/kind") == "VirtualMachine" => None,
        Some("kubevirt.io") => Some(Cause::invalid(field.child("kind"), "invalid kind")),
        Some(_) => Some(Cause::invalid(field.child("apiGroup"), "invalid apiGroup")),
    }
}

/// Says what is wrong with a policy of migrations.
pub fn migration_policy(review: &Review) -> Verdict {
    let mut causes = Vec::new();
    for name in ["completionTimeoutPerGiB", "bandwidthPerMigration"] {
        let value = &review.object["spec"][name];
        if crate::quantity::of(value) < 0 {
            causes.push(Cause::invalid(format!("spec.{name}"), "must not be negative"));
        }
    }
    Verdict::of_causes(causes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::service::User;

    fn review(operation: &str, old: Value, object: Value) -> Review {
        Review {
            operation: operation.to_owned(),
            user: User::default(),
            resource: String::new(),
            subresource: String::new(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            object,
            old,
            dry_run: false,
        }
    }

    fn refused(verdict: Verdict) -> Option<String> {
        verdict.denied.map(|denied| denied.message)
    }

    #[test]
    fn migrations_are_labelled_and_stay_as_they_are() {
        let made = mutate_migration(review("CREATE", Value::Null, json!({"spec": {"vmiName": "a"}})));
        let made = made.changed.unwrap();
        assert_eq!(made.label(MIGRATION_LABEL), "a");
        assert!(made.has_finalizer(MIGRATION_FINALIZER));
        let mut other = made.clone();
        other.set("/spec/vmiName", "b".into());
        let told = refused(update_migration(&review("UPDATE", made.clone(), other)));
        assert_eq!(told.unwrap(), "update of Migration object's spec is restricted");
        let mut bare = made.clone();
        bare.unset("/metadata/labels");
        let told = refused(update_migration(&review("UPDATE", made.clone(), bare.clone())));
        assert_eq!(told.unwrap(), "selector label can't be removed from an in-flight migration");
        bare.set("/status/phase", "Failed".into());
        assert_eq!(refused(update_migration(&review("UPDATE", made, bare))), None);
    }

    #[test]
    fn sets_pick_what_they_make() {
        let config = Config::default();
        let template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}},
        });
        let set = |selector: Value| json!({"selector": selector, "template": template});
        assert_eq!(judge_replica_set(&config, &set(json!({"matchLabels": {"a": "b"}}))), []);
        for selector in [json!({"matchLabels": {"a": "c"}}), Value::Null] {
            let causes = judge_replica_set(&config, &set(selector));
            assert_eq!(causes, [Cause::invalid("spec.selector", "selector does not match labels.")]);
        }
        let pool = |max: Value, value: &str| {
            json!({
                "selector": {"matchLabels": {"a": value}}, "maxUnavailable": max,
                "virtualMachineTemplate": {
                    "metadata": {"labels": {"a": value}}, "spec": {"runStrategy": "Always", "template": template},
                },
            })
        };
        assert_eq!(judge_pool(&config, &Value::Null, &pool(json!("50%"), "b"), false), []);
        for (max, message) in [
            (json!(0), "maxUnavailable must be greater than 0"),
            (json!("5"), "maxUnavailable percentage must end with %"),
            (json!("200%"), "maxUnavailable percentage value 200 must be between 1 and 100"),
        ] {
            let causes = judge_pool(&config, &Value::Null, &pool(max, "b"), false);
            assert_eq!(causes, [Cause::invalid("spec.maxUnavailable", message)]);
        }
        let old = json!({"spec": pool(Value::Null, "c")});
        let causes = judge_pool(&config, &old, &pool(Value::Null, "b"), false);
        assert_eq!(causes, [Cause::invalid("spec.selector", "selector is immutable after creation.")]);
    }

    #[test]
    fn shapes_are_judged_on_their_own() {
        let kind = |memory: Value| json!({"cpu": {"guest": 1}, "memory": memory});
        assert_eq!(judge_instancetype(&kind(json!({"guest": "1Gi", "overcommitPercent": 50}))), []);
        for memory in [
            json!({"guest": "1Gi", "overcommitPercent": 101}),
            json!({"guest": "1Gi", "overcommitPercent": 10, "hugepages": {"pageSize": "2Mi"}}),
        ] {
            assert_eq!(judge_instancetype(&kind(memory))[0].field, "spec.memory.overcommitPercent");
        }
        for (spec, field) in [
            (json!({"cpu": {"preferredCPUTopology": "round"}}), "spec.cpu.preferredCPUTopology"),
            (json!({"cpu": {"spreadOptions": {"across": "x"}}}), "spec.cpu.spreadOptions.across"),
            (
                json!({"cpu": {"spreadOptions": {"across": "CoresThreads", "ratio": 4}}}),
                "spec.cpu.spreadOptions.ratio",
            ),
        ] {
            assert_eq!(judge_preference(&spec).0[0].field, field);
        }
        let (causes, warnings) = judge_preference(&json!({"cpu": {"preferredCPUTopology": "preferCores"}}));
        assert!(causes.is_empty() && warnings[0].contains("please use cores instead"));
    }

    #[test]
    fn snapshots_are_of_machines_and_stay_as_they_are() {
        let machine = json!({"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "a"});
        assert_eq!(of_machine("spec.source", &machine), None);
        for (reference, field) in [
            (json!({"kind": "VirtualMachine"}), "spec.source.apiGroup"),
            (json!({"apiGroup": "x", "kind": "VirtualMachine"}), "spec.source.apiGroup"),
            (json!({"apiGroup": "kubevirt.io", "kind": "Pod"}), "spec.source.kind"),
        ] {
            assert_eq!(of_machine("spec.source", &reference).unwrap().field, field);
        }
        let change = review("UPDATE", json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}));
        assert_eq!(refused(immutable(&change)).unwrap(), "spec in immutable after creation");
        let policy = review("CREATE", Value::Null, json!({"spec": {"bandwidthPerMigration": "-1"}}));
        assert_eq!(refused(migration_policy(&policy)).unwrap(), "must not be negative");
    }
}
