//! What a machine consists of.

use serde_json::json;

use super::*;

#[test]
fn names_have_their_forms() {
    check(vec![
        (
            vec![("/hostname", json!("Not_A_Label"))],
            "spec.hostname",
            "spec.hostname does not conform to the kubernetes DNS_LABEL rules : a lowercase RFC 1123 label",
        ),
        (
            vec![("/hostname", json!("a".repeat(64)))],
            "spec.hostname",
            "spec.hostname does not conform to the kubernetes DNS_LABEL rules : must be no more than 63",
        ),
        (
            vec![("/subdomain", json!("a..b"))],
            "spec.subdomain",
            "spec.subdomain does not conform to the kubernetes DNS_SUBDOMAIN rules : ",
        ),
    ]);
}

#[test]
fn memory_is_there_and_fits() {
    let memory = "/domain/resources/requests/memory";
    check(vec![
        (
            vec![("/domain/resources", Value::Null), ("/domain/memory", Value::Null)],
            "",
            "no memory requested, at least one of 'spec.domain.memory.guest'",
        ),
        (
            vec![(memory, json!("-1"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '-1': must be greater than or equal to 0.",
        ),
        (
            vec![(memory, json!("1k"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1k': must be greater than or equal to 1M.",
        ),
        (
            vec![("/domain/resources/limits/memory", json!("-1"))],
            "spec.domain.resources.limits.memory",
            "spec.domain.resources.limits.memory '-1': must be",
        ),
        (
            vec![("/domain/resources/limits/memory", json!("512Mi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1Gi' is greater than spec.domain.resources.limits.memory '512Mi'",
        ),
        (
            vec![("/domain/memory/hugepages/pageSize", json!("x"))],
            "spec.domain.hugepages.size",
            "spec.domain.hugepages.size 'x': quantities must match",
        ),
        (
            vec![("/domain/memory/hugepages/pageSize", json!("2Gi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1Gi' must be equal to or larger than page size",
        ),
        (
            vec![("/domain/memory/hugepages/pageSize", json!("300Mi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory '1Gi' is not a multiple of the page size",
        ),
    ]);
}

#[test]
fn processors_fit() {
    let pinned = ("/domain/cpu/dedicatedCpuPlacement", json!(true));
    check(vec![
        (
            vec![("/domain/resources/requests/cpu", json!("-1"))],
            "spec.domain.resources.requests.cpu",
            "spec.domain.resources.requests.cpu '-1': must be",
        ),
        (
            vec![("/domain/resources/limits/cpu", json!("-1"))],
            "spec.domain.resources.limits.cpu",
            "spec.domain.resources.limits.cpu '-1': must be",
        ),
        (
            vec![
                ("/domain/resources/requests/cpu", json!("2")),
                ("/domain/resources/limits/cpu", json!("1")),
            ],
            "spec.domain.resources.requests.cpu",
            "spec.domain.resources.requests.cpu '2' is greater than",
        ),
        (
            vec![("/domain/cpu/isolateEmulatorThread", json!(true))],
            "spec.domain.cpu.isolateEmulatorThread",
            "IsolateEmulatorThread should be only set",
        ),
        (
            vec![("/domain/cpu/features", json!([{"name": "vmx", "policy": "maybe"}]))],
            "spec.domain.cpu.features[0].policy",
            "CPU feature vmx uses policy maybe that is not supported.",
        ),
        (
            vec![("/domain/cpu/maxSockets", json!(2)), ("/domain/cpu/sockets", json!(3))],
            "spec.domain.cpu.sockets",
            "Number of sockets in CPU topology is greater",
        ),
        (
            vec![pinned.clone(), ("/domain/cpu/threads", json!(4))],
            "spec.domain.cpu.dedicatedCpuPlacement",
            "Not more than two threads must be provided",
        ),
        (
            vec![pinned.clone(), ("/domain/resources/requests/cpu", json!("3"))],
            "spec.domain.cpu.dedicatedCpuPlacement",
            "spec.domain.resources.requests.cpu or spec.domain.resources.limits.cpu must not be provided",
        ),
        (
            vec![pinned.clone(), ("/domain/resources/limits/memory", json!("2Gi"))],
            "spec.domain.resources.requests.memory",
            "spec.domain.resources.requests.memory must be equal to",
        ),
        (
            vec![pinned.clone(), ("/domain/cpu/numa/guestMappingPassthrough", json!({}))],
            "spec.domain.cpu.numa.guestMappingPassthrough",
            "spec.domain.memory.hugepages must be requested",
        ),
        (
            vec![pinned, ("/domain/cpu/realtime", json!({}))],
            "spec.domain.cpu.numa.guestMappingPassthrough",
            "spec.domain.cpu.numa.guestMappingPassthrough must be defined",
        ),
        (
            vec![("/domain/machine/type", json!("pc-i440fx"))],
            "spec.domain.machine.type",
            "spec.domain.machine.type is not supported: pc-i440fx (allowed values: [q35* pc-q35*])",
        ),
    ]);
}
