//! An independent witness: what the admission of KubeVirt, CDI and Kubernetes refuses, on raw JSON.
//!
//! Written from their rules and not from our types, so that a misspelt field cannot pass on both sides.

use std::collections::BTreeSet;

use serde_json::Value;

/// Everything that would be refused, one sentence each.
pub(crate) fn refusals(objects: &[Value]) -> Vec<String> {
    let mut out = Vec::new();
    for object in objects {
        let mut says = Vec::new();
        metadata(object, &mut says);
        match object["kind"].as_str().unwrap_or_default() {
            "VirtualMachine" => virtual_machine(object, &mut says),
            "DataVolume" => data_volume(&object["spec"], true, &mut says),
            "VirtualMachineInstancetype" => instancetype(&object["spec"], &mut says),
            "VirtualMachinePreference" => preference(&object["spec"], &mut says),
            "Service" => service(object, &mut says),
            "NetworkPolicy" => network_policy(&object["spec"], &mut says),
            "NetworkAttachmentDefinition" => attachment(&object["spec"], &mut says),
            "Secret" => secret(object, &mut says),
            other => says.push(format!("unknown kind {other:?}")),
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        out.extend(says.into_iter().map(|problem| format!("{name}: {problem}")));
    }
    out
}

fn refuse(out: &mut Vec<String>, wrong: bool, why: impl Into<String>) {
    if wrong {
        out.push(why.into());
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| text(item, "name")).collect()
}

/// How many of the keys are there.
fn present(value: &Value, keys: &[&str]) -> usize {
    keys.iter().filter(|key| !value[**key].is_null()).count()
}

fn is_dns_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn is_label_value(value: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && edge(value.chars().next())
        && edge(value.chars().last())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// A Kubernetes quantity in thousandths.
fn milli(value: &Value) -> Option<u128> {
    let text = value.as_str()?;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u128 = text[..end].parse().ok()?;
    let factor: u128 = match &text[end..] {
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 10_u128.pow(9),
        "G" => 10_u128.pow(12),
        "T" => 10_u128.pow(15),
        "P" => 10_u128.pow(18),
        "E" => 10_u128.pow(21),
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        "Pi" => 1000 << 50,
        "Ei" => 1000 << 60,
        _ => return None,
    };
    Some(number * factor)
}

fn metadata(object: &Value, out: &mut Vec<String>) {
    let metadata = &object["metadata"];
    refuse(out, !is_dns_label(text(metadata, "name")), "its name is no DNS label");
    refuse(out, !is_dns_label(text(metadata, "namespace")), "its namespace is no DNS label");
    labels(metadata, out);
}

fn labels(metadata: &Value, out: &mut Vec<String>) {
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        refuse(out, !value.as_str().is_some_and(is_label_value), format!("label {key} has a bad value"));
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        refuse(out, !value.is_string(), format!("annotation {key} is no text"));
    }
}

const REFUSED_LABELS: &[&str] = &[
    "kubevirt.io/created-by",
    "kubevirt.io/migrationJobUID",
    "kubevirt.io/nodeName",
    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/schedulable",
    "kubevirt.io/install-strategy",
];

fn virtual_machine(vm: &Value, out: &mut Vec<String>) {
    let spec = &vm["spec"];
    refuse(out, present(spec, &["running", "runStrategy"]) != 1, "RunStrategy must be specified");
    let strategies = ["Always", "RerunOnFailure", "Manual", "Halted", "Once"];
    refuse(out, !strategies.contains(&text(spec, "runStrategy")), "unknown run strategy");
    let template = &spec["template"];
    labels(&template["metadata"], out);
    for key in REFUSED_LABELS {
        refuse(out, !template["metadata"]["labels"][*key].is_null(), format!("label {key} is reserved"));
    }
    let ignition = &template["metadata"]["annotations"]["kubevirt.io/ignitiondata"];
    refuse(out, !ignition.is_null(), "ignition data without the feature gate");
    let has_instancetype = !spec["instancetype"].is_null();
    for matcher in ["instancetype", "preference"] {
        let value = &spec[matcher];
        if !value.is_null() {
            let kind = if matcher == "instancetype" { "Instancetype" } else { "Preference" };
            let kinds = [format!("VirtualMachine{kind}"), format!("VirtualMachineCluster{kind}")];
            refuse(out, !kinds.iter().any(|kind| kind == text(value, "kind")), format!("bad {matcher} kind"));
            refuse(out, text(value, "name").is_empty(), format!("{matcher} without a name"));
        }
    }
    let instance = &template["spec"];
    compute(&instance["domain"], has_instancetype, out);
    disks_and_volumes(spec, out);
    networks(instance, out);
    firmware(instance, out);
    pod(instance, out);
}

fn compute(domain: &Value, has_instancetype: bool, out: &mut Vec<String>) {
    let (cpu, memory, resources) = (&domain["cpu"], &domain["memory"], &domain["resources"]);
    let amounts = ["requests", "limits"];
    if has_instancetype {
        let topology = present(cpu, &["sockets", "cores", "threads"]) > 0;
        let memory_set = present(memory, &["guest", "hugepages", "maxGuest"]) > 0;
        let requested = amounts.iter().any(|kind| present(&resources[*kind], &["cpu", "memory"]) > 0);
        refuse(out, topology || memory_set || requested, "VM field conflicts with selected instance type");
    } else {
        let requested = amounts.iter().any(|kind| !resources[*kind]["memory"].is_null());
        let has_memory = requested || present(memory, &["guest", "hugepages"]) > 0;
        refuse(out, !has_memory, "no memory requested");
        let vcpus: u64 =
            ["sockets", "cores", "threads"].iter().map(|k| cpu[*k].as_u64().unwrap_or(1)).product();
        refuse(out, vcpus == 0 || vcpus > 512, "bad number of CPUs");
    }
    let (request, limit) = (milli(&resources["requests"]["memory"]), milli(&resources["limits"]["memory"]));
    let guest = milli(&memory["guest"]);
    refuse(out, !memory["guest"].is_null() && guest.is_none(), "guest memory is no quantity");
    refuse(out, request.is_some_and(|request| request < 1_000_000_000), "memory request below 1M");
    refuse(out, matches!((request, limit), (Some(r), Some(l)) if r > l), "memory request above limit");
    refuse(out, matches!((guest, limit), (Some(g), Some(l)) if g > l), "guest memory above limit");
    let (cpu_request, cpu_limit) = (milli(&resources["requests"]["cpu"]), milli(&resources["limits"]["cpu"]));
    refuse(out, matches!((cpu_request, cpu_limit), (Some(r), Some(l)) if r > l), "CPU request above limit");
    let dedicated = cpu["dedicatedCpuPlacement"] == true;
    refuse(
        out,
        cpu["isolateEmulatorThread"] == true && !dedicated,
        "isolated emulator thread without pinning",
    );
    if dedicated {
        refuse(out, request.is_none() && limit.is_none(), "pinned CPUs need a memory request or limit");
        for amount in [cpu_request, cpu_limit].into_iter().flatten() {
            refuse(out, amount % 1000 != 0, "pinned CPUs must be whole");
        }
        let unequal = matches!((request, limit), (Some(request), Some(limit)) if request != limit);
        refuse(out, unequal, "pinned CPUs need equal memory request and limit");
        refuse(
            out,
            cpu["threads"].as_u64().is_some_and(|threads| threads > 2),
            "more than two pinned threads",
        );
    }
    let numa = !cpu["numa"]["guestMappingPassthrough"].is_null();
    refuse(out, numa && (!dedicated || memory["hugepages"].is_null()), "NUMA needs pinning and huge pages");
    if let Some(page) = milli(&memory["hugepages"]["pageSize"]) {
        for amount in [request, guest].into_iter().flatten() {
            refuse(out, amount % page != 0, "memory is not a multiple of the huge page size");
        }
    }
    for feature in list(cpu, "features") {
        let policies = ["force", "require", "optional", "disable", "forbid"];
        refuse(out, !policies.contains(&text(feature, "policy")), "bad CPU feature policy");
    }
    let policy = &domain["ioThreadsPolicy"];
    refuse(
        out,
        !policy.is_null() && !["shared", "auto"].contains(&policy.as_str().unwrap_or("")),
        "bad IO policy",
    );
}

const VOLUME_SOURCES: &[&str] = &[
    "dataVolume",
    "cloudInitConfigDrive",
    "cloudInitNoCloud",
    "persistentVolumeClaim",
    "containerDisk",
    "secret",
    "configMap",
    "emptyDisk",
    "ephemeral",
    "hostDisk",
    "serviceAccount",
    "sysprep",
    "downwardAPI",
];

fn disks_and_volumes(spec: &Value, out: &mut Vec<String>) {
    let instance = &spec["template"]["spec"];
    let disks = list(&instance["domain"]["devices"], "disks");
    let volumes = list(instance, "volumes");
    refuse(out, volumes.len() > 256, "more than 256 volumes");
    let (disk_names, volume_names) = (names(disks), names(volumes));
    let unique = |names: &[&str]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    refuse(out, !unique(&disk_names) || !unique(&volume_names), "duplicate disk or volume names");
    let same = disk_names.iter().collect::<BTreeSet<_>>() == volume_names.iter().collect::<BTreeSet<_>>();
    refuse(out, !same, "a disk without volume or a volume without disk");
    let mut boot_orders = BTreeSet::new();
    for disk in disks {
        refuse(out, present(disk, &["disk", "cdrom", "lun"]) != 1, "a disk needs one target");
        let bus = text(&disk["disk"], "bus");
        refuse(out, !["virtio", "scsi", "sata", "usb"].contains(&bus), format!("bad bus {bus:?}"));
        let cache = disk["cache"].as_str();
        refuse(out, cache.is_some_and(|c| !["none", "writethrough", "writeback"].contains(&c)), "bad cache");
        refuse(out, disk["dedicatedIOThread"] == true && bus != "virtio", "IO thread on a bus without them");
        let read_only_hard_disk = disk["disk"]["readonly"] == true && bus == "sata";
        refuse(out, read_only_hard_disk, "sata hard disks cannot be read-only");
        let serial = text(disk, "serial");
        let is_good = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        refuse(out, serial.len() > 256 || !serial.chars().all(is_good), "bad serial");
        if let Some(order) = disk["bootOrder"].as_u64() {
            refuse(out, order == 0 || !boot_orders.insert(order), "bad boot order");
        }
    }
    for volume in volumes {
        refuse(out, present(volume, VOLUME_SOURCES) != 1, "a volume needs one source");
        let drive = &volume["cloudInitConfigDrive"];
        if drive.is_null() {
            continue;
        }
        let user = ["userData", "userDataBase64", "secretRef"];
        refuse(out, present(drive, &user) != 1, "one source of user data is needed");
        let network = ["networkData", "networkDataBase64", "networkDataSecretRef"];
        refuse(out, present(drive, &network) > 1, "more than one source of network data");
        let too_long = |key| text(drive, key).len() > 2048;
        refuse(out, too_long("userData") || too_long("networkData"), "inline data over 2048 bytes");
    }
    let used: BTreeSet<&str> = volumes.iter().map(|volume| text(&volume["dataVolume"], "name")).collect();
    for template in list(spec, "dataVolumeTemplates") {
        let name = text(&template["metadata"], "name");
        refuse(out, !is_dns_label(name), "a volume template needs a name of at most 63 characters");
        refuse(out, !used.contains(name), format!("volume template {name} is not used"));
        refuse(out, !template["metadata"]["namespace"].is_null(), "a volume template in a namespace");
        labels(&template["metadata"], out);
        data_volume(&template["spec"], false, out);
    }
}

const DATA_SOURCES: &[&str] =
    &["http", "s3", "gcs", "registry", "pvc", "upload", "blank", "imageio", "vddk", "snapshot"];

/// `checks_sums`: CDI's own objects have a checksum, KubeVirt's templates of them do not (yet).
fn data_volume(spec: &Value, checks_sums: bool, out: &mut Vec<String>) {
    refuse(out, present(spec, &["pvc", "storage"]) != 1, "exactly one of pvc and storage is needed");
    refuse(
        out,
        present(spec, &["source", "sourceRef"]) != 1,
        "exactly one of source and sourceRef is needed",
    );
    let source = &spec["source"];
    if !source.is_null() {
        refuse(out, present(source, DATA_SOURCES) != 1, "exactly one source is needed");
    }
    let claim = if spec["pvc"].is_null() { &spec["storage"] } else { &spec["pvc"] };
    let modes = list(claim, "accessModes");
    refuse(out, !spec["pvc"].is_null() && modes.len() != 1, "a claim needs exactly one access mode");
    let known = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"];
    refuse(out, !modes.iter().all(|m| known.contains(&m.as_str().unwrap_or(""))), "bad access mode");
    let size = milli(&claim["resources"]["requests"]["storage"]);
    refuse(out, size.is_none_or(|size| size < 1000 << 20), "the size is missing or below 1Mi");
    let mode = claim["volumeMode"].as_str();
    refuse(out, mode.is_some_and(|mode| !["Block", "Filesystem"].contains(&mode)), "bad volume mode");
    if let Some(url) = source["registry"]["url"].as_str() {
        let known = url.starts_with("docker://") || url.starts_with("oci-archive://");
        refuse(out, !known, "bad registry address");
        let method = source["registry"]["pullMethod"].as_str();
        refuse(out, method.is_some_and(|method| !["pod", "node"].contains(&method)), "bad pull method");
    }
    let http = &source["http"];
    refuse(out, !http.is_null() && !text(http, "url").starts_with("http"), "bad web address");
    refuse(out, !http["checksum"].is_null() && !checks_sums, "unknown field checksum");
    for clone in ["pvc", "snapshot"] {
        let clone = &source[clone];
        let complete = !text(clone, "name").is_empty() && !text(clone, "namespace").is_empty();
        refuse(out, !clone.is_null() && !complete, "a clone source needs a name and a namespace");
    }
    let reference = &spec["sourceRef"];
    refuse(out, !reference.is_null() && reference["kind"] != "DataSource", "unknown sourceRef kind");
}

fn networks(instance: &Value, out: &mut Vec<String>) {
    let networks = list(instance, "networks");
    let interfaces = list(&instance["domain"]["devices"], "interfaces");
    refuse(out, networks.is_empty() || interfaces.is_empty(), "networks and interfaces are left to defaults");
    refuse(out, names(networks) != names(interfaces), "interfaces and networks do not match");
    let on_pods: Vec<&str> = networks
        .iter()
        .filter(|network| !network["pod"].is_null())
        .map(|network| text(network, "name"))
        .collect();
    refuse(out, on_pods.len() > 1, "more than one interface on the pod network");
    let defaults = networks.iter().filter(|network| network["multus"]["default"] == true).count();
    refuse(out, defaults + on_pods.len() > 1, "more than one default network");
    for network in networks {
        refuse(out, present(network, &["pod", "multus", "resourceClaim"]) != 1, "a network needs one source");
        let multus = &network["multus"];
        let is_path = text(multus, "networkName").split('/').filter(|part| !part.is_empty()).count() == 2;
        refuse(out, !multus.is_null() && !is_path, "a Multus network needs namespace and name");
    }
    for interface in interfaces {
        refuse(
            out,
            present(interface, &["masquerade", "bridge", "sriov", "binding"]) != 1,
            "one binding is needed",
        );
        let is_pod = on_pods.contains(&text(interface, "name"));
        refuse(out, !interface["masquerade"].is_null() && !is_pod, "masquerade off the pod network");
        refuse(out, !interface["sriov"].is_null() && is_pod, "SR-IOV on the pod network");
        if let Some(mac) = interface["macAddress"].as_str() {
            let parts: Vec<u8> =
                mac.split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
            refuse(out, parts.len() != 6 || mac.len() != 17, format!("bad hardware address {mac}"));
            refuse(out, mac == "02:00:00:00:00:00", "reserved hardware address");
            refuse(out, parts.first().is_some_and(|first| first & 1 == 1), "multicast hardware address");
        }
    }
}

fn firmware(instance: &Value, out: &mut Vec<String>) {
    let domain = &instance["domain"];
    let architecture = text(instance, "architecture");
    refuse(out, !["amd64", "arm64", "s390x"].contains(&architecture), "unknown architecture");
    if architecture == "arm64" {
        let cpu = &domain["cpu"];
        let model = cpu["model"].as_str();
        refuse(out, model.is_some_and(|model| model != "host-passthrough"), "bad CPU model for arm64");
        let pinned_threads = cpu["dedicatedCpuPlacement"] == true && cpu["threads"].as_u64() > Some(1);
        refuse(out, pinned_threads, "arm64 has no threads to pin");
        let buses = list(&domain["devices"], "disks").iter().map(|disk| text(&disk["disk"], "bus"));
        refuse(out, buses.into_iter().any(|bus| bus == "sata" || bus == "usb"), "bad disk bus for arm64");
    }
    let loader = &domain["firmware"]["bootloader"];
    refuse(out, present(loader, &["bios", "efi"]) > 1, "two boot loaders");
    let efi = &loader["efi"];
    let secure = !efi.is_null() && efi["secureBoot"] != false;
    refuse(out, secure && domain["features"]["smm"]["enabled"] != true, "secure boot needs SMM");
    refuse(out, secure && architecture != "amd64", "secure boot off x86");
    refuse(out, architecture == "arm64" && !loader["bios"].is_null(), "arm64 has no BIOS");
    refuse(out, architecture == "s390x" && !loader.is_null(), "s390x has no such boot loader");
    let uuid = text(&domain["firmware"], "uuid");
    let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
    let is_hex = uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    refuse(out, groups != [8, 4, 4, 4, 12] || !is_hex, "bad firmware UUID");
    let bits = (uuid.get(14..15), uuid.get(19..20));
    refuse(out, !matches!(bits, (Some("5"), Some("8" | "9" | "a" | "b"))), "no UUID of version 5");
}

fn pod(instance: &Value, out: &mut Vec<String>) {
    refuse(out, !is_dns_label(text(instance, "hostname")), "bad host name");
    let strategies = ["None", "LiveMigrate", "LiveMigrateIfPossible", "External"];
    refuse(out, !strategies.contains(&text(instance, "evictionStrategy")), "bad eviction strategy");
    let dns = &instance["dnsConfig"];
    let no_server = list(dns, "nameservers").is_empty();
    refuse(out, instance["dnsPolicy"] == "None" && no_server, "DNS policy None without name server");
    refuse(out, list(dns, "nameservers").len() > 3, "more than three name servers");
    for toleration in list(instance, "tolerations") {
        let operator = text(toleration, "operator");
        refuse(
            out,
            operator != "Exists" && toleration["key"].is_null(),
            "operator must be Exists without a key",
        );
        refuse(out, operator == "Exists" && !toleration["value"].is_null(), "a value with Exists");
    }
    for constraint in list(instance, "topologySpreadConstraints") {
        let choices = ["ScheduleAnyway", "DoNotSchedule"];
        refuse(out, !choices.contains(&text(constraint, "whenUnsatisfiable")), "bad whenUnsatisfiable");
        refuse(out, constraint["maxSkew"].as_u64().unwrap_or(0) == 0, "maxSkew below 1");
        refuse(out, text(constraint, "topologyKey").is_empty(), "no topology key");
    }
    let hosts = &instance["affinity"]["nodeAffinity"];
    let required = &hosts["requiredDuringSchedulingIgnoredDuringExecution"];
    refuse(
        out,
        !required.is_null() && list(required, "nodeSelectorTerms").is_empty(),
        "no node selector term",
    );
    let preferred = list(hosts, "preferredDuringSchedulingIgnoredDuringExecution");
    let terms = list(required, "nodeSelectorTerms").iter().chain(preferred.iter().map(|p| &p["preference"]));
    for expression in terms.flat_map(|term| list(term, "matchExpressions")) {
        let has_values = !list(expression, "values").is_empty();
        let fits = match text(expression, "operator") {
            "In" | "NotIn" => has_values,
            "Exists" | "DoesNotExist" => !has_values,
            _ => false,
        };
        refuse(out, !fits, "operator and values do not fit");
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = &instance["affinity"][kind];
        let preferred = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
        let bad_weight = |term: &Value| !(1..=100).contains(&term["weight"].as_i64().unwrap_or(0));
        refuse(out, preferred.iter().any(bad_weight), "bad weight");
        let terms = list(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
        let terms = terms.iter().chain(preferred.iter().map(|term| &term["podAffinityTerm"]));
        for term in terms {
            refuse(out, text(term, "topologyKey").is_empty(), "no topology key");
        }
    }
}

fn instancetype(spec: &Value, out: &mut Vec<String>) {
    let (cpu, memory) = (&spec["cpu"], &spec["memory"]);
    refuse(out, cpu["guest"].as_u64().unwrap_or(0) == 0, "no CPUs");
    refuse(out, milli(&memory["guest"]).unwrap_or(0) == 0, "no memory");
    let overcommit = memory["overcommitPercent"].as_u64().unwrap_or(0);
    refuse(out, overcommit > 100, "more than all memory overcommitted");
    refuse(out, overcommit > 0 && !memory["hugepages"].is_null(), "huge pages cannot be overcommitted");
    let dedicated = cpu["dedicatedCPUPlacement"] == true;
    refuse(
        out,
        cpu["isolateEmulatorThread"] == true && !dedicated,
        "isolated emulator thread without pinning",
    );
    let numa = !cpu["numa"].is_null();
    refuse(out, numa && (!dedicated || memory["hugepages"].is_null()), "NUMA needs pinning and huge pages");
}

fn preference(spec: &Value, out: &mut Vec<String>) {
    let cpu = &spec["cpu"];
    let topology = text(cpu, "preferredCPUTopology");
    refuse(out, !["sockets", "cores", "threads", "spread", "any"].contains(&topology), "bad CPU topology");
    let spread = &cpu["spreadOptions"];
    refuse(out, !spread.is_null() && topology != "spread", "spread options without spread");
    let pairs = text(spread, "across") == "CoresThreads";
    refuse(out, pairs && spread["ratio"] != 2, "only a ratio of 2 is accepted");
}

fn service(object: &Value, out: &mut Vec<String>) {
    let (name, spec) = (text(&object["metadata"], "name"), &object["spec"]);
    refuse(out, !name.starts_with(|c: char| c.is_ascii_lowercase()), "a Service's name begins with a letter");
    let headless = spec["clusterIP"] == "None";
    let ports = list(spec, "ports");
    refuse(out, ports.is_empty() && !headless, "a Service needs a port");
    refuse(out, ports.len() > 1 && names(ports).contains(&""), "several ports need names");
    refuse(out, headless && spec["type"] == "LoadBalancer", "a headless load balancer");
    refuse(out, spec["selector"]["trellis.dev/cluster"].is_null(), "it selects beyond the cluster");
}

fn network_policy(spec: &Value, out: &mut Vec<String>) {
    let selected = &spec["podSelector"]["matchLabels"]["trellis.dev/cluster"];
    refuse(out, selected.is_null(), "it selects machines of other clusters");
    let types: Vec<&str> = list(spec, "policyTypes").iter().filter_map(Value::as_str).collect();
    for (direction, peers, rules) in [("Ingress", "from", "ingress"), ("Egress", "to", "egress")] {
        let rules = list(spec, rules);
        refuse(out, !rules.is_empty() && !types.contains(&direction), format!("rules without {direction}"));
        for peer in rules.iter().flat_map(|rule| list(rule, peers)) {
            let block = &peer["ipBlock"];
            let by_label = present(peer, &["podSelector", "namespaceSelector"]) > 0;
            refuse(out, block.is_null() != by_label, "a peer is an address range or a selector");
            let v6 = text(block, "cidr").contains(':');
            let excepted = list(block, "except").iter().filter_map(Value::as_str);
            for range in excepted {
                refuse(out, range.contains(':') != v6, "an exception outside its range");
            }
        }
        // A rule without anything allows everything in its direction.
        let empty = |rule: &Value| list(rule, peers).is_empty() && list(rule, "ports").is_empty();
        refuse(out, rules.iter().any(empty), "a rule that allows everything");
    }
}

fn attachment(spec: &Value, out: &mut Vec<String>) {
    let config: Result<Value, _> = serde_json::from_str(text(spec, "config"));
    let names_plugin = config.is_ok_and(|config| present(&config, &["type", "plugins"]) > 0);
    refuse(out, !names_plugin, "no CNI configuration");
}

fn secret(object: &Value, out: &mut Vec<String>) {
    use base64::Engine as _;
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        let decoded = base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or("?"));
        refuse(out, decoded.is_err(), format!("{key} is no base64"));
        refuse(out, !["userdata", "networkdata"].contains(&key.as_str()), format!("KubeVirt reads no {key}"));
    }
    refuse(out, object["data"].as_object().is_none_or(serde_json::Map::is_empty), "an empty Secret");
}

#[test]
fn the_oracle_refuses_what_it_should() {
    let mut vm = serde_json::json!({
        "kind": "VirtualMachine", "metadata": { "name": "m", "namespace": "n" },
        "spec": { "runStrategy": "Always", "instancetype": { "kind": "VirtualMachineInstancetype", "name": "x" },
            "template": { "metadata": { "labels": { "kubevirt.io/nodeName": "x" } }, "spec": {
                "architecture": "amd64", "hostname": "m", "evictionStrategy": "None",
                "domain": { "cpu": { "sockets": 1 }, "firmware": { "uuid": "00000000-0000-5000-8000-000000000000" },
                    "devices": { "disks": [{ "name": "a", "disk": { "bus": "sata" }, "dedicatedIOThread": true }],
                        "interfaces": [{ "name": "i", "masquerade": {} }] } },
                "networks": [{ "name": "i", "multus": { "networkName": "n/x" } }],
                "volumes": [{ "name": "b", "dataVolume": { "name": "b" } }],
            } } },
    });
    let said = refusals(std::slice::from_ref(&vm)).join("\n");
    for wanted in
        ["is reserved", "conflicts with selected", "IO thread", "masquerade off", "disk without volume"]
    {
        assert!(said.contains(wanted), "{wanted} is missing from\n{said}");
    }
    vm["spec"]["running"] = true.into();
    assert!(refusals(&[vm]).join("\n").contains("RunStrategy must be specified"));
}
