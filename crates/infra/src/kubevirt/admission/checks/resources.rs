//! Processors and memory.

use serde_json::Value;

use super::{Cause, Config, Field};
use crate::object::Object as _;
use crate::quantity;

pub(super) fn check(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    memory(field, spec, causes);
    hugepages(field, spec, causes);
    guest_within_limit(field, spec, config, causes);
    machine_type(field, spec, config, causes);
    cpu(field, spec, causes);
    if spec.flag("/domain/cpu/dedicatedCpuPlacement") {
        pinned(field, spec, causes);
    }
    numa(field, spec, causes);
    features(field, spec, causes);
    growth(field, spec, causes);
}

/// A quantity as it was written.
fn told(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn memory(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let (request, limit) =
        (spec.at("/domain/resources/requests/memory"), spec.at("/domain/resources/limits/memory"));
    let (request_field, limit_field) =
        (field.child("domain.resources.requests.memory"), field.child("domain.resources.limits.memory"));
    let (asked, allowed) = (quantity::of(request), quantity::of(limit));
    if asked < 0 {
        let message = format!("{request_field} '{}': must be greater than or equal to 0.", told(request));
        causes.push(Cause::invalid(request_field.clone(), message));
    } else if asked > 0 && asked < 1_000_000_000 {
        let message = format!("{request_field} '{}': must be greater than or equal to 1M.", told(request));
        causes.push(Cause::invalid(request_field.clone(), message));
    }
    if allowed < 0 {
        let message = format!("{limit_field} '{}': must be greater than or equal to 0.", told(limit));
        causes.push(Cause::invalid(limit_field.clone(), message));
    }
    for name in ["guest", "maxGuest"] {
        let amount = spec.at(&format!("/domain/memory/{name}"));
        if quantity::of(amount) < 0 {
            let amount_field = field.child("domain.memory").child(name);
            let message = format!("{amount_field} '{}': must be greater than or equal to 0.", told(amount));
            causes.push(Cause::invalid(amount_field, message));
        }
    }
    if allowed > 0 && asked > allowed {
        let message =
            format!("{request_field} '{}' is greater than {limit_field} '{}'", told(request), told(limit));
        causes.push(Cause::invalid(request_field, message));
    }
}

fn hugepages(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    if !spec.at("/domain/memory/hugepages").is_object() {
        return;
    }
    let size_text = spec.text("/domain/memory/hugepages/pageSize");
    let size_field = field.child("domain.hugepages.size");
    let Some(size) = quantity::milli(size_text).filter(|size| *size > 0) else {
        let message = format!(
            "{size_field} '{size_text}': quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        );
        causes.push(Cause::invalid(size_field, message));
        return;
    };
    let request = spec.at("/domain/resources/requests/memory");
    let request_field = field.child("domain.resources.requests.memory");
    let asked = quantity::of(request);
    if asked < size {
        let message = format!(
            "{request_field} '{}' must be equal to or larger than page size {size_field} '{size_text}'",
            told(request)
        );
        causes.push(Cause::invalid(request_field, message));
    } else if asked % size != 0 {
        let message = format!(
            "{request_field} '{}' is not a multiple of the page size {size_field} '{size_text}'",
            told(request)
        );
        causes.push(Cause::invalid(request_field, message));
    }
}

fn guest_within_limit(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let (guest, limit) = (spec.at("/domain/memory/guest"), spec.at("/domain/resources/limits/memory"));
    // Machines that can grow outgrow their limits on purpose.
    if config.growth().is_some() || quantity::of(limit) == 0 || quantity::of(limit) >= quantity::of(guest) {
        return;
    }
    let guest_field = field.child("domain.memory.guest");
    let message = format!(
        "{guest_field} '{}' must be equal to or less than the memory limit {} '{}'",
        told(guest),
        field.child("domain.resources.limits.memory"),
        told(limit)
    );
    causes.push(Cause::invalid(guest_field, message));
}

fn machine_type(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let kind = spec.text("/domain/machine/type");
    let architecture = spec.text("/architecture");
    let allowed =
        config.machine_types(if architecture.is_empty() { config.architecture() } else { architecture });
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => kind.starts_with(start),
        None => kind == pattern,
    };
    if !kind.is_empty() && !allowed.iter().any(fits) {
        let kind_field = field.child("domain.machine.type");
        let message =
            format!("{kind_field} is not supported: {kind} (allowed values: [{}])", allowed.join(" "));
        causes.push(Cause::invalid(kind_field, message));
    }
}

fn cpu(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let (request, limit) =
        (spec.at("/domain/resources/requests/cpu"), spec.at("/domain/resources/limits/cpu"));
    let (request_field, limit_field) =
        (field.child("domain.resources.requests.cpu"), field.child("domain.resources.limits.cpu"));
    for (amount, amount_field) in [(request, &request_field), (limit, &limit_field)] {
        if quantity::of(amount) < 0 {
            let message = format!("{amount_field} '{}': must be greater than or equal to 0.", told(amount));
            causes.push(Cause::invalid(amount_field.clone(), message));
        }
    }
    if quantity::of(limit) > 0 && quantity::of(request) > quantity::of(limit) {
        let message =
            format!("{request_field} '{}' is greater than {limit_field} '{}'", told(request), told(limit));
        causes.push(Cause::invalid(request_field, message));
    }
    if spec.flag("/domain/cpu/isolateEmulatorThread") && !spec.flag("/domain/cpu/dedicatedCpuPlacement") {
        causes.push(Cause::invalid(
            field.child("domain.cpu.isolateEmulatorThread"),
            "IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement",
        ));
    }
}

/// The vCPUs of a topology; 0 where there is none.
fn vcpus(spec: &Value) -> i128 {
    let counts: Vec<i64> = ["sockets", "cores", "threads"]
        .iter()
        .filter_map(|name| spec.number(&format!("/domain/cpu/{name}")).filter(|count| *count > 0))
        .collect();
    if counts.is_empty() { 0 } else { counts.iter().copied().map(i128::from).product() }
}

/// Machines whose vCPUs are processors of their own.
fn pinned(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let amount = |pointer: &str| quantity::of(spec.at(&format!("/domain/resources/{pointer}")));
    let (cpu, cpu_limit) = (amount("requests/cpu"), amount("limits/cpu"));
    let (memory, memory_limit) = (amount("requests/memory"), amount("limits/memory"));
    let place = field.child("domain.cpu.dedicatedCpuPlacement");
    let request_cpu = field.child("domain.resources.requests.cpu");
    let limit_cpu = field.child("domain.resources.limits.cpu");
    let cores = field.child("domain.cpu.cores");
    if memory == 0 && memory_limit == 0 {
        let limit_field = field.child("domain.resources.limits.memory");
        let message = format!(
            "{} or {limit_field} should be provided",
            field.child("domain.resources.requests.memory")
        );
        causes.push(Cause::invalid(limit_field, message));
    }
    for (amount, amount_field, word) in [(cpu, &request_cpu, "requests"), (cpu_limit, &limit_cpu, "limits")] {
        if amount > 0 && amount % 1000 != 0 {
            // The real one misspells it, and people search for what they see.
            let message = format!("provided resources CPU {word} must be an interger");
            causes.push(Cause::invalid(amount_field.clone(), message));
        }
    }
    if memory > 0 && memory_limit > 0 && memory != memory_limit {
        let request_field = field.child("domain.resources.requests.memory");
        let message =
            format!("{request_field} must be equal to {}", field.child("domain.resources.limits.memory"));
        causes.push(Cause::invalid(request_field, message));
    }
    let count = vcpus(spec) * 1000;
    if cpu == 0 && cpu_limit == 0 && count == 0 {
        let message = format!(
            "either {request_cpu} or {limit_cpu} or {cores} must be provided when DedicatedCPUPlacement is true "
        );
        causes.push(Cause::invalid(place.clone(), message));
    }
    if cpu > 0 && cpu_limit > 0 && cpu != cpu_limit {
        let message =
            format!("{request_cpu} or {limit_cpu} must be equal when DedicatedCPUPlacement is true ");
        causes.push(Cause::invalid(place.clone(), message));
    }
    if (cpu > 0 || cpu_limit > 0) && count > 0 && cpu != count && cpu_limit != count {
        let message = format!(
            "{request_cpu} or {limit_cpu} must not be provided at the same time with {cores} when \
             DedicatedCPUPlacement is true "
        );
        causes.push(Cause::invalid(place.clone(), message));
    }
    let threads = spec.number("/domain/cpu/threads").unwrap_or_default();
    if threads > 2 {
        let message = format!(
            "Not more than two threads must be provided at {} (got {threads}) when DedicatedCPUPlacement is true",
            field.child("domain.cpu.threads")
        );
        causes.push(Cause::invalid(place, message));
    }
}

fn numa(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let numa_field = field.child("domain.cpu.numa.guestMappingPassthrough");
    let pinned = spec.flag("/domain/cpu/dedicatedCpuPlacement");
    let place = field.child("domain.cpu.dedicatedCpuPlacement");
    if spec.at("/domain/cpu/numa/guestMappingPassthrough").is_object() {
        if !pinned {
            let message =
                format!("{place} must be set to true when NUMA topology strategy is set in {numa_field}");
            causes.push(Cause::invalid(numa_field.clone(), message));
        }
        if !spec.at("/domain/memory/hugepages").is_object() {
            let message = format!(
                "{} must be requested when NUMA topology strategy is set in {numa_field}",
                field.child("domain.memory.hugepages")
            );
            causes.push(Cause::invalid(numa_field.clone(), message));
        }
    }
    if spec.at("/domain/cpu/realtime").is_object() {
        let realtime = field.child("domain.cpu.realtime");
        if !pinned {
            let message = format!("{place} must be set to true when {realtime} is used");
            causes.push(Cause::required(place, message));
        }
        if !spec.at("/domain/cpu/numa/guestMappingPassthrough").is_object() {
            let message = format!("{numa_field} must be defined when {realtime} is used");
            causes.push(Cause::required(numa_field, message));
        }
    }
}

fn features(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    for (index, feature) in spec.list("/domain/cpu/features").iter().enumerate() {
        let policy = feature.text("/policy");
        if !matches!(policy, "" | "force" | "require" | "optional" | "disable" | "forbid") {
            let message =
                format!("CPU feature {} uses policy {policy} that is not supported.", feature.text("/name"));
            causes.push(Cause::not_supported(
                field.child("domain.cpu.features").index(index).child("policy"),
                message,
            ));
        }
    }
}

fn growth(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let most = spec.number("/domain/cpu/maxSockets").unwrap_or_default();
    if most > 0 && spec.number("/domain/cpu/sockets").unwrap_or_default() > most {
        causes.push(Cause::invalid(
            field.child("domain.cpu.sockets"),
            "Number of sockets in CPU topology is greater than the maximum sockets allowed",
        ));
    }
}
