//! Names, strategies, probes, firmware, credentials, name servers, and what has to be turned on first.

use serde_json::Value;

use super::names::{is_serial, label, subdomain};
use super::volumes::absolute;
use super::{Cause, Config, Field};
use crate::object::Object as _;

pub(super) fn names(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let hostname = spec.text("/hostname");
    let problems = if hostname.is_empty() { Vec::new() } else { label(hostname) };
    if !problems.is_empty() {
        let place = field.child("hostname");
        let message =
            format!("{place} does not conform to the kubernetes DNS_LABEL rules : {}", problems.join(", "));
        causes.push(Cause::invalid(place, message));
    }
    let name = spec.text("/subdomain");
    let problems = if name.is_empty() { Vec::new() } else { subdomain(name) };
    if !problems.is_empty() {
        let place = field.child("subdomain");
        let message = format!(
            "{place} does not conform to the kubernetes DNS_SUBDOMAIN rules : {}",
            problems.join(", ")
        );
        causes.push(Cause::invalid(place, message));
    }
}

pub(super) fn strategies(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let strategy = spec.text("/startStrategy");
    let place = field.child("startStrategy");
    if !matches!(strategy, "" | "Paused") {
        let message = format!("{place} is set with an unrecognized option: {strategy}");
        causes.push(Cause::invalid(place, message));
    } else if strategy == "Paused" && spec.at("/livenessProbe").is_object() {
        let message = format!(
            "either {place} or {} should be provided.Pausing VMI with LivenessProbe is not supported",
            field.child("livenessProbe")
        );
        causes.push(Cause::invalid(place, message));
    }
    let strategy = spec.text("/evictionStrategy");
    if !matches!(strategy, "" | "None" | "LiveMigrate" | "LiveMigrateIfPossible" | "External") {
        let place = field.child("evictionStrategy");
        let message = format!("{place} is set with an unrecognized option: {strategy}");
        causes.push(Cause::invalid(place, message));
    }
    let architecture = spec.text("/architecture");
    if !architecture.is_empty() && architecture != config.architecture() && !config.gate("MultiArchitecture")
    {
        let place = field.child("architecture");
        let message = format!(
            "MultiArchitecture feature gate is not enabled in kubevirt-config, invalid entry {place}"
        );
        causes.push(Cause::required(place, message));
    }
}

pub(super) fn probes(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let on_pod_network = spec.list("/networks").iter().any(|network| network["pod"].is_object());
    for name in ["readinessProbe", "livenessProbe"] {
        let probe = &spec[name];
        if !probe.is_object() {
            continue;
        }
        let place = field.child(name);
        let handlers = ["httpGet", "tcpSocket", "exec", "guestAgentPing"];
        match handlers.iter().filter(|handler| probe[**handler].is_object()).count() {
            0 => {
                let message = format!(
                    "either {}, {} or {} must be set if a {place} is specified",
                    place.child("tcpSocket"),
                    place.child("exec"),
                    place.child("httpGet")
                );
                causes.push(Cause::required(place.clone(), message));
            }
            1 => {}
            _ => {
                let message = format!("{place} must have exactly one probe type set");
                causes.push(Cause::invalid(place.clone(), message));
            }
        }
        for handler in ["httpGet", "tcpSocket"] {
            if probe[handler].is_object() && !on_pod_network {
                let handler = place.child(handler);
                let message = format!("{handler} is only allowed if the Pod Network is attached");
                causes.push(Cause::invalid(handler, message));
            }
        }
    }
}

pub(super) fn firmware(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let firmware = spec.at("/domain/firmware");
    let serial = firmware.text("/serial");
    let place = field.child("domain.firmware.serial");
    if serial.len() > 256 {
        let message = format!("{place} must be less than or equal to 256 in length, if specified");
        causes.push(Cause::invalid(place.clone(), message));
    }
    if !serial.is_empty() && !is_serial(serial) {
        let message =
            format!("{place} must be made up of the following characters [A-Za-z0-9_.+-], if specified");
        causes.push(Cause::invalid(place, message));
    }
    let loader = firmware.at("/bootloader");
    if loader["efi"].is_object() && loader["bios"].is_object() {
        let place = field.child("domain.firmware.bootloader");
        let message = format!("{place} has both EFI and BIOS configured, but they are mutually exclusive.");
        causes.push(Cause::invalid(place, message));
    }
    let secure = loader["efi"].is_object() && loader["efi"]["secureBoot"] != false;
    let smm = spec.at("/domain/features/smm");
    if secure && !(smm.is_object() && smm["enabled"] != false) {
        let place = field.child("domain");
        let message = format!(
            "{place} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled."
        );
        causes.push(Cause::invalid(place, message));
    }
    kernel_boot(&field.child("domain.firmware.kernelBoot"), firmware.at("/kernelBoot"), causes);
    acpi(&field.child("acpi"), spec, causes);
}

fn kernel_boot(place: &Field, boot: &Value, causes: &mut Vec<Cause>) {
    let container = &boot["container"];
    if !container.is_object() {
        if !boot.text("/kernelArgs").is_empty() {
            causes.push(Cause::invalid(
                place.child("kernelArgs"),
                "kernel arguments cannot be provided without an external kernel",
            ));
        }
        return;
    }
    let place = place.child("container");
    if container.text("/image").is_empty() {
        causes.push(Cause::required(place.child("image"), format!("{place} must be defined with an image")));
    }
    let paths = ["kernelPath", "initrdPath"];
    if paths.iter().all(|path| container[*path].as_str().unwrap_or_default().is_empty()) {
        let message =
            format!("{place} must be defined with at least one of the following: kernelPath, initrdPath");
        causes.push(Cause::required(place.clone(), message));
    }
    for path in paths {
        let text = container[path].as_str().unwrap_or_default();
        if !text.is_empty() {
            absolute(&place.child(path), text, causes);
        }
    }
}

fn acpi(place: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let acpi = spec.at("/domain/firmware/acpi");
    if !acpi.is_object() {
        return;
    }
    let names = ["slicNameRef", "msdmNameRef"];
    if names.iter().all(|name| acpi[*name].as_str().unwrap_or_default().is_empty()) {
        let message = "ACPI was set but no SLIC nor MSDM volume reference was set";
        causes.push(Cause::invalid(place.clone(), message));
        return;
    }
    for name in names {
        let volume_name = acpi[name].as_str().unwrap_or_default();
        if volume_name.is_empty() {
            continue;
        }
        let volume = spec.list("/volumes").iter().find(|volume| volume["name"] == volume_name);
        let message = match volume {
            None => format!("{place} does not have a matching Volume."),
            Some(volume) if volume["secret"].is_null() => {
                format!("{place} refers to Volume of unsupported type.")
            }
            Some(_) => continue,
        };
        causes.push(Cause::invalid(place.child(name), message));
    }
}

pub(super) fn credentials(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let has = |kind: &str| spec.list("/volumes").iter().any(|volume| volume[kind].is_object());
    for (index, credential) in spec.list("/accessCredentials").iter().enumerate() {
        let place = field.index(index);
        let key = &credential["sshPublicKey"];
        if key.is_object() {
            let method = place.child("sshPublicKey.propagationMethod");
            for (name, volume) in [("noCloud", "cloudInitNoCloud"), ("configDrive", "cloudInitConfigDrive")] {
                if key["propagationMethod"][name].is_object() && !has(volume) {
                    let message = format!(
                        "{place} requires a {name} volume to exist when the {name} propagationMethod is in use."
                    );
                    causes.push(Cause::invalid(method.clone(), message));
                }
            }
            let agent = key.at("/propagationMethod/qemuGuestAgent");
            if agent.is_object() && agent.list("/users").is_empty() {
                let message = format!("{place} requires at least one user to be present in the users list");
                causes.push(Cause::invalid(method.child("qemuGuestAgent.users"), message));
            }
        }
        for kind in ["sshPublicKey", "userPassword"] {
            let kind_field = place.child(kind);
            let credential = &credential[kind];
            if !credential.is_object() {
                continue;
            }
            if credential.at("/source/secret").is_null() {
                let message = format!("{place} must have exactly one source set");
                causes.push(Cause::invalid(kind_field.child("source"), message));
            }
            let methods = ["noCloud", "configDrive", "qemuGuestAgent"];
            let set =
                methods.iter().filter(|name| credential["propagationMethod"][**name].is_object()).count();
            if set != 1 {
                let message = format!("{place} must have exactly one propagationMethod set");
                causes.push(Cause::invalid(kind_field.child("propagationMethod"), message));
            }
        }
        let kinds = ["sshPublicKey", "userPassword"];
        if kinds.iter().filter(|kind| credential[**kind].is_object()).count() != 1 {
            let message = format!("{place} must have exactly one access credential type set");
            causes.push(Cause::invalid(place, message));
        }
    }
}

pub(super) fn dns(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let (policy, config) = (spec.text("/dnsPolicy"), &spec["dnsConfig"]);
    if !matches!(policy, "" | "ClusterFirstWithHostNet" | "ClusterFirst" | "Default" | "None") {
        let message = format!(
            "DNSPolicy: {policy} is not supported, valid values: [ClusterFirstWithHostNet ClusterFirst Default None ]"
        );
        causes.push(Cause::not_supported(field.child("dnsPolicy"), message));
    }
    let servers = config.list("/nameservers");
    if policy == "None" {
        if !config.is_object() {
            let message = "must provide `dnsConfig` when `dnsPolicy` is None";
            causes.push(Cause::required(field.child("dnsConfig"), message));
        } else if servers.is_empty() {
            let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            causes.push(Cause::required("nameservers", message));
        }
    }
    let texts = |list: &[Value]| -> Vec<String> {
        list.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    if servers.len() > 3 {
        let message = format!("must not have more than 3 nameservers: [{}]", texts(servers).join(" "));
        causes.push(Cause::invalid("nameservers", message));
    }
    for server in texts(servers) {
        if server.parse::<std::net::IpAddr>().is_err() {
            causes.push(Cause::invalid("nameservers", format!("must be valid IP address: {server}")));
        }
    }
    let searches = texts(config.list("/searches"));
    if searches.len() > 6 {
        causes.push(Cause::invalid("searchDomains", "must not have more than 6 search paths"));
    }
    if searches.join(" ").len() > 256 {
        let message = "must not have more than 256 characters (including spaces) in the search list";
        causes.push(Cause::invalid("searchDomains", message));
    }
    for problem in searches.iter().flat_map(|search| subdomain(search)) {
        causes.push(Cause::invalid("searchDomains", problem));
    }
    if config.list("/options").iter().any(|option| option.text("/name").is_empty()) {
        causes.push(Cause::invalid("options", "Option.Name must not be empty"));
    }
}

/// Features that are off unless their gates are open.
pub(super) fn gates(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let not_enabled = |gate: &str| format!("{gate} feature gate is not enabled in kubevirt-config");
    if !spec.list("/domain/devices/hostDevices").is_empty() && !config.gate("HostDevices") {
        let message = "Host Devices feature gate is not enabled in kubevirt-config";
        causes.push(Cause::invalid(field.child("HostDevices"), message));
    }
    if spec.flag("/domain/devices/autoattachVSOCK") && !config.gate("VSOCK") {
        causes.push(Cause::invalid(field.child("domain.devices.autoattachVSOCK"), not_enabled("VSOCK")));
    }
    let reserved = spec.list("/domain/devices/disks").iter().any(|disk| disk.flag("/lun/reservation"));
    if reserved && !config.gate("PersistentReservation") {
        causes.push(Cause::invalid(
            field.child("domain.devices.disks.luns.reservation"),
            not_enabled("PersistentReservation"),
        ));
    }
    if spec.at("/domain/devices/downwardMetrics").is_object() && !config.gate("DownwardMetrics") {
        causes.push(Cause::invalid(
            field.child("domain.devices.downwardMetrics"),
            "downwardMetrics virtio serial is not allowed: DownwardMetrics feature gate is not enabled",
        ));
    }
    let security = field.child("launchSecurity");
    if spec.at("/domain/launchSecurity/sev").is_object() {
        if config.gate("WorkloadEncryptionSEV") {
            if spec.at("/domain/firmware/bootloader/efi").is_null() {
                causes.push(Cause::invalid(security, "SEV requires OVMF (UEFI)"));
            }
        } else {
            causes.push(Cause::invalid(security, not_enabled("WorkloadEncryptionSEV")));
        }
    }
}
