//! Rules for the machines of a pool.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use crate::image::{Image, ImageSource};
use crate::machine::{Compute, Cpu, Memory, Shape};
use crate::network::{Dns, DnsPolicy};
use crate::placement::{Placement, Preset, Strength};
use crate::pool::Pool;
use crate::problem::Problems;
use crate::quantity::Bytes;
use crate::volume::{CONFIG_DRIVE, ROOT_DISK};

pub(super) fn check(cluster: Option<&Cluster>, pool: &Pool, problems: &mut Problems<'_>) {
    let template = &pool.spec.template;
    match &template.shape {
        Shape::Custom(compute) => {
            let engine_has_it = template.ovirt.as_ref().is_some_and(|ovirt| ovirt.instance_type_id.is_some());
            if !engine_has_it {
                check_compute(compute, "template.shape.custom", problems);
            }
        }
        Shape::Flavor(name) => check_flavor(cluster, name, problems),
        Shape::Instancetype(_) => {}
    }
    if template.image.source.is_none() {
        problems.warning(
            IMAGE_WITHOUT_SOURCE,
            "template.image.source",
            match &template.image.version {
                Some(version) => {
                    format!("nothing says where the image {} {version} is", template.image.os.as_str())
                }
                None => format!("nothing says where the image {} is", template.image.os.as_str()),
            },
            "give the image's source; for a Shoot read its CloudProfile as well, for an install-config pass --image to render",
        );
    }
    check_address(&template.image, problems);
    if !check_counts(pool, problems) {
        return;
    }
    check_disks(pool, problems);
    super::nics::check(cluster, pool, problems);
    check_dns(&template.dns, problems);
    check_placement(&template.placement, pool.spec.replicas, problems);
    let user_data = &template.user_data;
    if user_data.secret.is_some() && user_data.inline.is_some() {
        problems.error(
            "two-user-data",
            "template.userData",
            "user data comes from a Secret and is written out as well",
            "keep one of them",
        );
    }
}

/// The most interfaces and data disks a machine can have. More is a slip, and costs time to look at.
const MAX_NICS: usize = 32;
const MAX_DATA_DISKS: usize = 250;

/// Whether lists are of a size that is worth looking into.
fn check_counts(pool: &Pool, problems: &mut Problems<'_>) -> bool {
    let template = &pool.spec.template;
    let counts = [
        ("template.nics", template.nics.len(), MAX_NICS),
        ("template.dataDisks", template.data_disks.len(), MAX_DATA_DISKS),
    ];
    for (path, count, most) in counts.into_iter().filter(|(_, count, most)| count > most) {
        problems.error("too-many", path, format!("{count} are more than the {most} a machine can have"), "");
    }
    counts.iter().all(|(_, count, most)| count <= most)
}

/// The code of the problem that an image given later solves.
pub const IMAGE_WITHOUT_SOURCE: &str = "image-without-source";

/// The code of the problem whose place must not be shown.
pub const PASSWORD_IN_ADDRESS: &str = "password-in-address";

fn check_address(image: &Image, problems: &mut Problems<'_>) {
    let (path, url) = match &image.source {
        Some(ImageSource::Http(http)) => ("template.image.source.http.url", &http.url),
        Some(ImageSource::Registry(registry)) => ("template.image.source.registry.url", &registry.url),
        _ => return,
    };
    // The digest of a registry image stands behind an `@` too.
    let place = url.split_once("://").map_or("", |(_, rest)| rest);
    let has_user = place.split("@sha").next().is_some_and(|place| place.contains('@'));
    if has_user {
        problems.error(
            PASSWORD_IN_ADDRESS,
            path,
            "the address of the image holds a user or a password, which everyone who may look at the machine would see",
            "put them into a Secret and name it beside the address",
        );
    }
}

fn check_flavor(cluster: Option<&Cluster>, name: &crate::names::FlavorName, problems: &mut Problems<'_>) {
    let catalogue = crate::flavor::catalogue();
    let known = catalogue.contains_key(name) || cluster.is_some_and(|c| c.spec.flavors.contains_key(name));
    if !known {
        let names: Vec<&str> = catalogue.keys().map(AsRef::as_ref).collect();
        problems.warning(
            "unknown-flavor",
            "template.shape.flavor",
            format!("nothing says what flavor {name} is"),
            &format!(
                "read it together with the CloudProfile that lists it, define it in the cluster's flavors, or use one of {}",
                names.join(", ")
            ),
        );
    }
}

/// Rules for CPU and memory that are written out.
pub(super) fn check_compute(compute: &Compute, path: &str, problems: &mut Problems<'_>) {
    check_cpu(&compute.cpu, &format!("{path}.cpu"), problems);
    check_memory(&compute.memory, &format!("{path}.memory"), problems);
    let numa = compute.cpu.dedicated.is_some_and(|dedicated| dedicated.numa_passthrough);
    if numa && compute.memory.hugepages.is_none() {
        problems.error(
            "numa-without-hugepages",
            format!("{path}.cpu.dedicated.numaPassthrough"),
            "the host's NUMA layout can only be shown to a guest that has huge pages",
            "set memory.hugepages",
        );
    }
}

fn check_cpu(cpu: &Cpu, path: &str, problems: &mut Problems<'_>) {
    let Some(guest) = cpu.guest_cpus().filter(|n| *n > 0) else {
        problems.error(
            "no-cpu",
            path,
            "nothing says how many CPUs a machine has",
            "give a topology or a request",
        );
        return;
    };
    if guest > 512 {
        problems.error(
            "too-many-cpus",
            path,
            format!("{guest} CPUs are more than the 512 a machine can have"),
            "",
        );
    }
    if let (Some(request), Some(limit)) = (cpu.request, cpu.limit)
        && request > limit
    {
        problems.error(
            "cpu-request-above-limit",
            format!("{path}.request"),
            format!("the request {request} is above the limit {limit}"),
            "lower the request or raise the limit",
        );
    }
    if cpu.dedicated.is_none() {
        return;
    }
    for (field, amount) in [("request", cpu.request), ("limit", cpu.limit)] {
        let Some(amount) = amount else { continue };
        if !amount.is_whole() {
            problems.error(
                "pinned-fractional-cpu",
                format!("{path}.{field}"),
                format!("CPUs can only be pinned whole; {amount} is not a whole number"),
                "use a whole number, or do not pin",
            );
        } else if amount.ceil() != guest {
            problems.error(
                "pinned-cpu-mismatch",
                format!("{path}.{field}"),
                format!("the guest sees {guest} CPUs but {amount} are set aside; pinned CPUs must be the same number"),
                "make them equal, or leave the amount out",
            );
        }
    }
}

fn check_memory(memory: &Memory, path: &str, problems: &mut Problems<'_>) {
    let Some(guest) = memory.guest_bytes() else {
        problems.error("no-memory", path, "nothing says how much memory a machine has", "give memory.guest");
        return;
    };
    if guest < Bytes::mebi(32) {
        problems.error(
            "too-little-memory",
            path,
            format!("{guest} of memory is too little for any operating system"),
            "was a unit forgotten? write 2Gi for two gibibytes",
        );
    }
    if let (Some(request), Some(limit)) = (memory.request, memory.limit)
        && request > limit
    {
        problems.error(
            "memory-request-above-limit",
            format!("{path}.request"),
            format!("the request {request} is above the limit {limit}"),
            "lower the request or raise the limit",
        );
    }
    if memory.limit.is_some_and(|limit| guest > limit) {
        problems.error(
            "guest-memory-above-limit",
            format!("{path}.guest"),
            format!("the guest sees {guest}, more than the limit lets it use"),
            "raise the limit or lower memory.guest",
        );
    }
    let Some(page) = memory.hugepages else { return };
    if guest.get() % page.bytes().get() != 0 {
        problems.error(
            "hugepages-do-not-divide",
            format!("{path}.hugepages"),
            format!("{guest} is not a whole number of pages of {}", page.bytes()),
            "choose a multiple of the page size",
        );
    }
    if memory.page_merging {
        problems.error(
            "hugepages-with-page-merging",
            format!("{path}.pageMerging"),
            "the kernel never merges huge pages, so page merging would only cost time",
            "keep one of hugepages and pageMerging",
        );
    }
    if memory.request.is_some_and(|request| request < guest) {
        problems.error(
            "hugepages-overcommitted",
            format!("{path}.request"),
            "huge pages are set aside whole; less than the guest sees cannot be requested",
            "make the request equal to memory.guest, or drop hugepages",
        );
    }
    if memory.overcommit_guest_overhead {
        problems.warning(
            "hugepages-with-overcommit",
            format!("{path}.overcommitGuestOverhead"),
            "the guest's memory is set aside in huge pages while the emulator's own is not set aside at all",
            "drop one of them: together they make the emulator the first to be killed when memory is short",
        );
    }
}

fn check_disks(pool: &Pool, problems: &mut Problems<'_>) {
    let template = &pool.spec.template;
    let disks = template
        .data_disks
        .iter()
        .map(|disk| (format!("template.dataDisks[{}]", disk.name), disk.size, &disk.device));
    let root = ("template.rootDisk".to_owned(), template.root_disk.size, &template.root_disk.device);
    let mut serials = BTreeSet::new();
    for (path, size, device) in std::iter::once(root).chain(disks) {
        if size < Bytes::mebi(1) {
            problems.error(
                "disk-too-small",
                format!("{path}.size"),
                format!("a disk of {size} bytes is too small; one mebibyte is the least"),
                "was a unit forgotten? write 20Gi for twenty gibibytes",
            );
        }
        if let Some(serial) = &device.serial
            && !serials.insert(serial)
        {
            problems.error(
                "duplicate-serial",
                format!("{path}.device.serial"),
                format!("two disks have the serial {serial}; the guest could not tell them apart"),
                "give each disk a serial of its own",
            );
        }
    }
    let mut names = BTreeSet::new();
    for disk in &template.data_disks {
        if [ROOT_DISK, CONFIG_DRIVE].contains(&disk.name.as_str()) || !names.insert(&disk.name) {
            problems.error(
                "duplicate-disk",
                format!("template.dataDisks[{}].name", disk.name),
                format!("the name {} is taken by another disk of the machine", disk.name),
                "choose another name",
            );
        }
    }
    if let Some(size) = template.image.virtual_size
        && template.root_disk.size < size
    {
        problems.error(
            "root-disk-smaller-than-image",
            "template.rootDisk.size",
            format!("the image is {size}, which does not fit on a root disk of {}", template.root_disk.size),
            "make the root disk at least as large as the image",
        );
    }
}

fn check_dns(dns: &Dns, problems: &mut Problems<'_>) {
    if dns.policy == DnsPolicy::None && dns.nameservers.is_empty() {
        problems.error(
            "dns-none-without-nameserver",
            "template.dns.policy",
            "with the DNS policy None a machine needs at least one name server of its own",
            "add one to nameservers, or use ClusterFirst",
        );
    }
    if dns.nameservers.len() > 3 {
        problems.error(
            "too-many-nameservers",
            "template.dns.nameservers",
            format!("{} name servers are more than the three Kubernetes allows", dns.nameservers.len()),
            "keep three",
        );
    }
    if dns.searches.len() > 32 {
        problems.error(
            "too-many-searches",
            "template.dns.searches",
            "more than 32 search domains are not allowed",
            "",
        );
    }
}

fn check_placement(placement: &Placement, replicas: u32, problems: &mut Problems<'_>) {
    for wanted in &placement.wanted_hosts {
        for avoided in placement.avoided_hosts.iter().filter(|avoided| avoided.key == wanted.key) {
            let shared = wanted.values.is_empty()
                || avoided.values.is_empty()
                || wanted.values.intersection(&avoided.values).next().is_some();
            if !shared {
                continue;
            }
            let message = format!("hosts with the label {} are wanted and avoided at once", wanted.key);
            if wanted.strength == Strength::Hard && avoided.strength == Strength::Hard {
                problems.error(
                    "placement-contradiction",
                    "template.placement.avoidedHosts",
                    message,
                    "keep one of them",
                );
            } else {
                problems.warning(
                    "placement-contradiction",
                    "template.placement.avoidedHosts",
                    message,
                    "keep one of them",
                );
            }
        }
    }
    match (placement.together, placement.apart) {
        (Preset::Hard, Preset::Hard) if replicas > 1 => problems.error(
            "together-and-apart",
            "template.placement.apart",
            "machines must be on one host and on different hosts at once; the second would never start",
            "keep one of them",
        ),
        (Preset::None, _) | (_, Preset::None) => {}
        (together, apart) if together == apart => problems.warning(
            "together-and-apart",
            "template.placement.apart",
            "machines want to be on one host and on different hosts, equally strongly",
            "keep one of them",
        ),
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for zone in placement.zones.iter().filter(|zone| !seen.insert(*zone)) {
        problems.error(
            "duplicate-zone",
            "template.placement.zones",
            format!("the zone {} is listed twice", zone.as_str()),
            "list each zone once; machines are shared out equally",
        );
    }
    let mut seen = BTreeSet::new();
    for rule in placement.spread.iter().flatten() {
        if !seen.insert(&rule.over) {
            problems.error(
                "duplicate-spread",
                "template.placement.spread",
                format!("there are two spread rules over {}", rule.over),
                "keep one of them",
            );
        }
        if rule.max_skew == 0 {
            problems.error("zero-skew", "template.placement.spread", "maxSkew must be at least 1", "");
        }
    }
}
