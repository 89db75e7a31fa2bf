//! What a preference asks a machine to have.

use serde_json::Value;

use super::find::Shape;
use super::prefer;
use crate::object::Object as _;
use crate::quantity;
use crate::service::admission::Cause;

/// The cause of a refusal where the vCPUs of an instancetype cannot be spread as the preference wants.
pub fn spreadable(shape: &Shape) -> Option<Cause> {
    let vcpus = shape.instancetype.number("/cpu/guest")?;
    if prefer::topology(&shape.preference) != "spread" {
        return None;
    }
    let (ratio, across) = prefer::spread(&shape.preference);
    let message = match across {
        "CoresThreads" if vcpus % ratio != 0 => format!(
            "{vcpus} vCPUs provided by the instance type are not divisible by the number of threads per core {ratio}"
        ),
        "SocketsCoresThreads" if vcpus % 2 != 0 || vcpus / 2 % ratio != 0 => format!(
            "{vcpus} vCPUs provided by the instance type are not divisible by the number of threads per core 2 and \
             Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of {ratio}"
        ),
        "SocketsCores" if vcpus % ratio != 0 => format!(
            "{vcpus} vCPUs provided by the instance type are not divisible by the \
             Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of {ratio} provided by the \
             preference"
        ),
        _ => return None,
    };
    Some(Cause::invalid("instancetype.spec.cpu.guest", message))
}

/// What a machine whose template has its shape and the usual values lacks: the field and the message.
pub fn lacking(shape: &Shape, spec: &Value) -> Option<(String, String)> {
    let wanted = shape.preference.at("/requirements");
    if !wanted.is_object() {
        return None;
    }
    cpu(shape, wanted, spec).or_else(|| memory(shape, wanted, spec)).or_else(|| architecture(wanted, spec))
}

/// As [`lacking`], as the cause of a refusal.
pub fn cause(shape: &Shape, spec: &Value) -> Option<Cause> {
    let (field, message) = lacking(shape, spec)?;
    let message = format!("failure checking preference requirements: {message}");
    Some(Cause { reason: "FieldValueNotFound", field, message })
}

fn cpu(shape: &Shape, wanted: &Value, spec: &Value) -> Option<(String, String)> {
    let wanted = wanted.number("/cpu/guest")?;
    if let Some(given) = shape.instancetype.number("/cpu/guest") {
        let message = format!(
            "insufficient CPU resources of {given} vCPU provided by instance type, preference requires {wanted} vCPU"
        );
        return (given < wanted).then(|| ("spec.instancetype".to_owned(), message));
    }
    let base = "spec.template.spec.domain.cpu";
    let cpu = spec.at("/domain/cpu");
    if !cpu.is_object() {
        let message =
            format!("no CPU resources provided by VirtualMachine, preference requires {wanted} vCPU");
        return Some((base.to_owned(), message));
    }
    let topology = prefer::topology(&shape.preference);
    let (counted, told): (&[&str], &str) = match topology.as_str() {
        "threads" => (&["threads"], "threads"),
        "cores" => (&["cores"], "cores"),
        "any" => (&["cores", "sockets", "threads"], "cores, sockets and threads"),
        "spread" => match prefer::spread(&shape.preference).1 {
            "CoresThreads" => (&["cores", "threads"], "CoresThreads"),
            "SocketsCoresThreads" => (&["sockets", "cores", "threads"], "SocketsCoresThreads"),
            _ => (&["sockets", "cores"], "SocketsCores"),
        },
        _ => (&["sockets"], "sockets"),
    };
    let given: i64 = counted.iter().map(|name| cpu.number(&format!("/{name}")).unwrap_or(1)).product();
    (given < wanted).then(|| {
        let fields: Vec<String> = counted.iter().map(|name| format!("{base}.{name}")).collect();
        let message = format!(
            "insufficient CPU resources of {given} vCPU provided by VirtualMachine, preference requires {wanted} \
             vCPU provided as {told}"
        );
        (fields.join(", "), message)
    })
}

fn memory(shape: &Shape, wanted: &Value, spec: &Value) -> Option<(String, String)> {
    let wanted = wanted.at("/memory/guest");
    let (field, whose, mut given) = if shape.instancetype.is_object() {
        ("spec.instancetype", "instance type", shape.instancetype.at("/memory/guest"))
    } else {
        ("spec.template.spec.domain.memory", "VirtualMachine", &Value::Null)
    };
    let guest = spec.at("/domain/memory/guest");
    if !guest.is_null() {
        given = guest;
    }
    let told = if given.is_null() { "0" } else { given.as_str().unwrap_or_default() };
    (quantity::of(given) < quantity::of(wanted)).then(|| {
        let wanted = wanted.as_str().unwrap_or_default();
        let message = format!(
            "insufficient Memory resources of {told} provided by {whose}, preference requires {wanted}"
        );
        (field.to_owned(), message)
    })
}

fn architecture(wanted: &Value, spec: &Value) -> Option<(String, String)> {
    let (wanted, given) = (wanted.text("/architecture"), spec.text("/architecture"));
    (!wanted.is_empty() && wanted != given).then(|| {
        let message = format!("preference requires architecture {wanted} but {given} is being requested");
        ("spec.template.spec.architecture".to_owned(), message)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_are_met_or_named() {
        let needs = |topology: &str| {
            json!({
                "cpu": {"preferredCPUTopology": topology},
                "requirements": {"cpu": {"guest": 4}, "memory": {"guest": "4Gi"}, "architecture": "amd64"},
            })
        };
        let big = json!({"cpu": {"guest": 4}, "memory": {"guest": "4Gi"}});
        let slow = json!({"cpu": {"guest": 1}, "memory": {"guest": "4Gi"}});
        let poor = json!({"cpu": {"guest": 4}, "memory": {"guest": "64M"}});
        let own = |sockets: i64, cores: i64, memory: &str| {
            json!({
                "architecture": "amd64",
                "domain": {"cpu": {"sockets": sockets, "cores": cores, "threads": 1}, "memory": {"guest": memory}},
            })
        };
        let plain = json!({"architecture": "amd64", "domain": {}});
        for (kind, topology, spec, expected) in [
            (big.clone(), "sockets", plain.clone(), None),
            (
                slow,
                "sockets",
                plain.clone(),
                Some((
                    "spec.instancetype",
                    "insufficient CPU resources of 1 vCPU provided by instance type, preference requires 4 vCPU",
                )),
            ),
            (
                poor,
                "sockets",
                plain.clone(),
                Some((
                    "spec.instancetype",
                    "insufficient Memory resources of 64M provided by instance type, preference requires 4Gi",
                )),
            ),
            (
                Value::Null,
                "sockets",
                plain,
                Some((
                    "spec.template.spec.domain.cpu",
                    "no CPU resources provided by VirtualMachine, preference requires 4 vCPU",
                )),
            ),
            (Value::Null, "sockets", own(4, 1, "4Gi"), None),
            (
                Value::Null,
                "cores",
                own(4, 1, "4Gi"),
                Some((
                    "spec.template.spec.domain.cpu.cores",
                    "insufficient CPU resources of 1 vCPU provided by VirtualMachine, preference requires 4 vCPU \
                 provided as cores",
                )),
            ),
            (Value::Null, "any", own(2, 2, "4Gi"), None),
            (
                Value::Null,
                "spread",
                own(2, 1, "4Gi"),
                Some((
                    "spec.template.spec.domain.cpu.sockets, spec.template.spec.domain.cpu.cores",
                    "insufficient CPU resources of 2 vCPU provided by VirtualMachine, preference requires 4 vCPU \
                 provided as SocketsCores",
                )),
            ),
            (
                Value::Null,
                "sockets",
                own(4, 1, "1Gi"),
                Some((
                    "spec.template.spec.domain.memory",
                    "insufficient Memory resources of 1Gi provided by VirtualMachine, preference requires 4Gi",
                )),
            ),
            (
                big,
                "sockets",
                json!({"architecture": "arm64", "domain": {}}),
                Some((
                    "spec.template.spec.architecture",
                    "preference requires architecture amd64 but arm64 is being requested",
                )),
            ),
        ] {
            let shape = Shape { instancetype: kind, preference: needs(topology) };
            let found = lacking(&shape, &spec);
            let found = found.as_ref().map(|(field, message)| (field.as_str(), message.as_str()));
            assert_eq!(found, expected, "{topology} {spec}");
        }
    }

    #[test]
    fn odd_vcpus_cannot_be_spread() {
        let shape = |vcpus: i64, across: &str| Shape {
            instancetype: json!({"cpu": {"guest": vcpus}}),
            preference: json!({"cpu": {"preferredCPUTopology": "spread", "spreadOptions": {"across": across}}}),
        };
        assert_eq!(spreadable(&shape(4, "SocketsCores")), None);
        let cause = spreadable(&shape(3, "SocketsCores")).unwrap();
        assert_eq!(cause.field, "instancetype.spec.cpu.guest");
        assert!(
            cause.message.starts_with("3 vCPUs provided by the instance type are not divisible by the Spec.")
        );
        assert!(spreadable(&shape(6, "SocketsCoresThreads")).is_some());
        assert!(spreadable(&shape(3, "CoresThreads")).unwrap().message.ends_with("threads per core 2"));
    }
}
