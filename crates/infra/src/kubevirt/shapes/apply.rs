//! Applying an instancetype and a preference to a template.

use serde_json::{Value, json};

use super::find::Shape;
use super::prefer;
use crate::kubevirt::admission::field::Field;
use crate::object::Object as _;
use crate::quantity;

/// Applies a shape to a template (an object with `metadata` and `spec`), and gives the fields that stand against it.
/// Nothing is worth using where there are any.
pub fn apply(shape: &Shape, template: &mut Value, field: &Field) -> Vec<String> {
    let mut conflicts = Vec::new();
    if shape.instancetype.is_object() {
        instancetype(shape, template, field, &mut conflicts);
    }
    if conflicts.is_empty() && shape.preference.is_object() {
        prefer::apply(&shape.preference, template);
    }
    conflicts
}

fn instancetype(shape: &Shape, template: &mut Value, field: &Field, conflicts: &mut Vec<String>) {
    let kind = &shape.instancetype;
    // Whatever the instancetype sets as a whole must not be set by the machine too.
    for (from, to) in [
        ("/nodeSelector", "/nodeSelector"),
        ("/schedulerName", "/schedulerName"),
        ("/ioThreadsPolicy", "/domain/ioThreadsPolicy"),
        ("/ioThreads", "/domain/ioThreads"),
        ("/launchSecurity", "/domain/launchSecurity"),
        ("/gpus", "/domain/devices/gpus"),
        ("/hostDevices", "/domain/devices/hostDevices"),
    ] {
        if is_unset(kind.at(from)) {
            continue;
        }
        if is_unset(template["spec"].at(to)) {
            template["spec"].set(to, kind.at(from).clone());
        } else {
            conflicts.push(field.child(&to[1..].replace('/', ".")).into());
        }
    }
    cpu(shape, &mut template["spec"], field, conflicts);
    memory(kind, &mut template["spec"], field, conflicts);
    annotations(kind, template, field, conflicts);
}

/// Whether there is nothing, or nothing in it.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn cpu(shape: &Shape, spec: &mut Value, field: &Field, conflicts: &mut Vec<String>) {
    let wanted = &shape.instancetype["cpu"];
    let domain = &spec["domain"];
    let mut found: Vec<&str> = Vec::new();
    for path in ["resources/requests/cpu", "resources/limits/cpu"] {
        if !domain.at(&format!("/{path}")).is_null() {
            found.push(path);
        }
    }
    for path in ["cpu/sockets", "cpu/cores", "cpu/threads"] {
        if domain.number(&format!("/{path}")).unwrap_or_default() != 0 {
            found.push(path);
        }
    }
    if !domain.text("/cpu/model").is_empty() && wanted["model"].is_string() {
        found.push("cpu/model");
    }
    if domain.flag("/cpu/dedicatedCpuPlacement") && !wanted["dedicatedCPUPlacement"].is_null() {
        found.push("cpu/dedicatedCPUPlacement");
    }
    if domain.flag("/cpu/isolateEmulatorThread") && !wanted["isolateEmulatorThread"].is_null() {
        found.push("cpu/isolateEmulatorThread");
    }
    for (path, name) in [("cpu/numa", "numa"), ("cpu/realtime", "realtime")] {
        if domain.at(&format!("/{path}")).is_object() && wanted[name].is_object() {
            found.push(path);
        }
    }
    if !found.is_empty() {
        conflicts.extend(
            found.iter().map(|path| field.child(&format!("domain.{}", path.replace('/', "."))).into()),
        );
        return;
    }
    for (from, to) in [
        ("model", "model"),
        ("dedicatedCPUPlacement", "dedicatedCpuPlacement"),
        ("isolateEmulatorThread", "isolateEmulatorThread"),
        ("numa", "numa"),
        ("realtime", "realtime"),
        ("maxSockets", "maxSockets"),
    ] {
        if !wanted[from].is_null() {
            spec.set(&format!("/domain/cpu/{to}"), wanted[from].clone());
        }
    }
    let (sockets, cores, threads) = topology(wanted.number("/guest").unwrap_or(1), &shape.preference);
    for (name, count) in [("sockets", sockets), ("cores", cores), ("threads", threads)] {
        spec.set(&format!("/domain/cpu/{name}"), count.into());
    }
}

/// How vCPUs are spread over sockets, cores and threads, as the guest prefers.
fn topology(vcpus: i64, preference: &Value) -> (i64, i64, i64) {
    if vcpus <= 1 {
        return (1, 1, 1);
    }
    match prefer::topology(preference).as_str() {
        "cores" => (1, vcpus, 1),
        "threads" => (1, 1, vcpus),
        "spread" => {
            let (ratio, across) = prefer::spread(preference);
            match across {
                "CoresThreads" => (1, vcpus / ratio, ratio),
                "SocketsCoresThreads" => (vcpus / 2 / ratio, ratio, 2),
                _ => (vcpus / ratio, ratio, 1),
            }
        }
        _ => (vcpus, 1, 1),
    }
}

fn memory(kind: &Value, spec: &mut Value, field: &Field, conflicts: &mut Vec<String>) {
    for path in ["memory", "resources/requests/memory", "resources/limits/memory"] {
        if !spec.at(&format!("/domain/{path}")).is_null() {
            conflicts.push(field.child(&format!("domain.{}", path.replace('/', "."))).into());
            return;
        }
    }
    let wanted = &kind["memory"];
    let mut memory = json!({"guest": wanted["guest"]});
    for name in ["hugepages", "maxGuest"] {
        if !wanted[name].is_null() {
            memory[name] = wanted[name].clone();
        }
    }
    spec.set("/domain/memory", memory);
    if let Some(percent) = wanted.number("/overcommitPercent").filter(|percent| *percent > 0) {
        let asked = quantity::whole(&wanted["guest"]) * i128::from(100 - percent) / 100;
        spec.set("/domain/resources/requests/memory", quantity::bytes(asked).into());
    }
}

fn annotations(kind: &Value, template: &mut Value, field: &Field, conflicts: &mut Vec<String>) {
    let Some(wanted) = kind["annotations"].as_object() else { return };
    for (name, value) in wanted {
        let value = value.as_str().unwrap_or_default();
        let found = template.annotation(name);
        if !found.is_empty() && found != value {
            conflicts.push(field.child("annotations").child(name).into());
            continue;
        }
        template.set_annotation(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
    fn applied(kind: Value, preference: Value, spec: Value) -> Result<Value, Vec<String>> {
        let mut template = json!({"spec": spec});
        let shape = Shape { instancetype: kind, preference };
        let conflicts = apply(&shape, &mut template, &Field::new("spec.template.spec"));
        if conflicts.is_empty() { Ok(template) } else { Err(conflicts) }
    }

    #[test]
    fn vcpus_are_placed_as_preferred() {
        for (vcpus, preference, placed) in [
            (1, json!({"cpu": {"preferredCPUTopology": "cores"}}), (1, 1, 1)),
            (4, Value::Null, (4, 1, 1)),
            (4, json!({"cpu": {"preferredCPUTopology": "preferCores"}}), (1, 4, 1)),
            (4, json!({"cpu": {"preferredCPUTopology": "threads"}}), (1, 1, 4)),
            (4, json!({"cpu": {"preferredCPUTopology": "any"}}), (4, 1, 1)),
            (8, json!({"cpu": {"preferredCPUTopology": "spread"}}), (4, 2, 1)),
            (8, json!({"cpu": {"preferredCPUTopology": "spread", "spreadOptions": {"ratio": 4}}}), (2, 4, 1)),
            (
                8,
                json!({"preferSpreadSocketToCoreRatio": 8, "cpu": {"preferredCPUTopology": "preferSpread"}}),
                (1, 8, 1),
            ),
            (
                8,
                json!({"cpu": {"preferredCPUTopology": "spread", "spreadOptions": {"across": "CoresThreads"}}}),
                (1, 4, 2),
            ),
            (
                8,
                json!({"cpu": {"preferredCPUTopology": "spread", "spreadOptions": {"across": "SocketsCoresThreads"}}}),
                (2, 2, 2),
            ),
        ] {
            assert_eq!(topology(vcpus, &preference), placed, "{vcpus} {preference}");
        }
    }

    #[test]
    fn an_instancetype_gives_what_a_machine_lacks() {
        let kind = json!({
            "cpu": {"guest": 2, "dedicatedCPUPlacement": true, "maxSockets": 8, "model": "Skylake"},
            "memory": {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}, "overcommitPercent": 50},
            "nodeSelector": {"gpu": "yes"}, "schedulerName": "mine", "ioThreadsPolicy": "auto",
            "gpus": [{"name": "g", "deviceName": "nvidia.com/A"}], "annotations": {"a": "1"},
        });
        let template = applied(kind, Value::Null, json!({"domain": {"devices": {}}})).unwrap();
        let spec = &template["spec"];
        assert_eq!(
            spec["domain"]["cpu"],
            json!({
                "sockets": 2, "cores": 1, "threads": 1, "maxSockets": 8, "model": "Skylake",
                "dedicatedCpuPlacement": true,
            })
        );
        assert_eq!(spec["domain"]["memory"], json!({"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}}));
        assert_eq!(spec["domain"]["resources"]["requests"]["memory"], "2Gi");
        assert_eq!((spec.text("/schedulerName"), spec.text("/nodeSelector/gpu")), ("mine", "yes"));
        assert_eq!(spec["domain"]["devices"]["gpus"][0]["name"], "g");
        assert_eq!(template.annotation("a"), "1");
    }

    #[test]
    fn what_both_say_is_named() {
        let kind = json!({
            "cpu": {"guest": 2, "model": "x"}, "memory": {"guest": "4Gi"}, "schedulerName": "mine",
            "nodeSelector": {"a": "b"},
        });
        for (spec, field) in [
            (json!({"domain": {"cpu": {"sockets": 1}}}), "domain.cpu.sockets"),
            (json!({"domain": {"cpu": {"cores": 1}}}), "domain.cpu.cores"),
            (json!({"domain": {"cpu": {"threads": 1}}}), "domain.cpu.threads"),
            (json!({"domain": {"cpu": {"model": "y"}}}), "domain.cpu.model"),
            (json!({"domain": {"resources": {"requests": {"cpu": "1"}}}}), "domain.resources.requests.cpu"),
            (json!({"domain": {"resources": {"limits": {"cpu": "1"}}}}), "domain.resources.limits.cpu"),
            (
                json!({"domain": {"resources": {"requests": {"memory": "1"}}}}),
                "domain.resources.requests.memory",
            ),
            (json!({"domain": {"resources": {"limits": {"memory": "1"}}}}), "domain.resources.limits.memory"),
            (json!({"domain": {"memory": {"guest": "1Gi"}}}), "domain.memory"),
            (json!({"domain": {}, "schedulerName": "other"}), "schedulerName"),
            (json!({"domain": {}, "nodeSelector": {"c": "d"}}), "nodeSelector"),
        ] {
            let conflicts = applied(kind.clone(), Value::Null, spec.clone()).unwrap_err();
            assert_eq!(conflicts, [format!("spec.template.spec.{field}")], "{spec}");
        }
    }
}
