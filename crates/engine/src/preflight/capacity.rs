//! Whether the machines asked for fit: into the hosts, and into the quota.

use std::collections::BTreeMap;

use trellis_model::placement::Preset;
use trellis_model::quantity::Bytes;
use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Pool};
use trellis_platform_kubevirt::golden_name;

use super::Check;
use super::facts::{Asked, Facts, Host, Quota};

/// KubeVirt asks for a tenth of a processor for each that the guest sees, where nothing else is said.
const CPU_SHARE: u64 = 10;
/// What KubeVirt's own processes need beside each guest, and what grows with the guest.
const OVERHEAD: u64 = 280 << 20;
const OVERHEAD_PER_CPU: u64 = 8 << 20;
const OVERHEAD_DIVISOR: u64 = 512;

/// What the machines of a pool ask for.
struct Wish<'a> {
    pool: &'a Pool,
    count: u64,
    /// Millicores and bytes of one machine; nothing where an instance type of the infra cluster says it.
    each: Option<(u64, u64)>,
    /// How much storage one machine has, in how many volumes.
    disks: u64,
    volumes: u64,
    /// The volume that its disks are cloned from, and how large that is.
    golden: Option<(String, u64)>,
    apart: bool,
}

impl<'a> Wish<'a> {
    fn of(cluster: &Cluster, pool: &'a Pool) -> Self {
        let resolved = resolve(cluster, pool);
        let template = &resolved.template;
        let each = resolved.compute().and_then(|compute| {
            let cpus = u64::from(compute.cpu.guest_cpus()?);
            let guest = compute.memory.guest_bytes()?.get();
            let memory = compute.memory.request.map_or(guest, Bytes::get);
            let cpu = match (&compute.cpu.dedicated, compute.cpu.request) {
                (Some(_), _) => cpus * 1000,
                (None, Some(request)) => request.get(),
                (None, None) => cpus * 1000 / CPU_SHARE,
            };
            Some((cpu, memory + OVERHEAD + cpus * OVERHEAD_PER_CPU + guest / OVERHEAD_DIVISOR))
        });
        let disks = template.data_disks.iter().map(|disk| disk.size.get()).sum::<u64>();
        let image = template.image.virtual_size.unwrap_or(template.root_disk.size);
        Self {
            pool,
            count: u64::from(pool.spec.replicas),
            each,
            disks: disks + template.root_disk.size.get(),
            volumes: template.data_disks.len() as u64 + 1,
            golden: golden_name(cluster, pool).map(|name| (name, image.get())),
            apart: template.placement.apart == Preset::Hard,
        }
    }
}

/// The checks of capacity and quota.
pub(super) fn checks(cluster: &Cluster, pools: &[&Pool], facts: &Facts) -> Vec<Check> {
    let wishes: Vec<Wish<'_>> = pools.iter().map(|pool| Wish::of(cluster, pool)).collect();
    let mut checks = vec![capacity(&wishes, &facts.hosts)];
    match &facts.quotas {
        Asked::Known(quotas) => checks.extend(quotas.iter().map(|quota| quota_of(&wishes, quota))),
        other => {
            let why = other.why_not().unwrap_or_default();
            checks.push(Check::unknown("quota", format!("unknown: {why}")));
        }
    }
    checks
}

fn capacity(wishes: &[Wish<'_>], hosts: &Asked<Vec<Host>>) -> Check {
    let about = "capacity";
    let hosts = match hosts {
        Asked::Known(hosts) => hosts,
        other => return Check::unknown(about, format!("unknown: {}", other.why_not().unwrap_or_default())),
    };
    let usable: Vec<&Host> = hosts.iter().filter(|host| host.usable).collect();
    if usable.is_empty() {
        return Check::failed(about, format!("none of {} hosts takes machines", hosts.len()))
            .fix("uncordon hosts, or look whether KubeVirt runs on them");
    }
    if let Some(wish) = wishes.iter().find(|wish| wish.apart && wish.count > usable.len() as u64) {
        let found = format!(
            "{} machines of pool {} must be on as many hosts, and {} take machines",
            wish.count,
            wish.pool.name,
            usable.len()
        );
        return Check::failed(about, found).fix("ask for fewer machines, or let `apart` be soft");
    }
    let free = |host: &Host| {
        let (cpu, memory) = host.requested.unwrap_or_default();
        (host.allocatable.0.saturating_sub(cpu), host.allocatable.1.saturating_sub(memory))
    };
    let mut left: Vec<(u64, u64)> = usable.iter().map(|host| free(host)).collect();
    let mut sized: Vec<(&Wish<'_>, (u64, u64))> =
        wishes.iter().filter_map(|wish| Some((wish, wish.each?))).collect();
    // The largest first, each where most is left: what does not fit so hardly fits at all.
    sized.sort_by_key(|(_, each)| std::cmp::Reverse(each.1));
    for (wish, (cpu, memory)) in &sized {
        for placed in 0..wish.count {
            left.sort_by_key(|free| std::cmp::Reverse(free.1));
            let Some(host) = left.iter_mut().find(|free| free.0 >= *cpu && free.1 >= *memory) else {
                let found = format!(
                    "{placed} of {} machines of pool {} fit: each needs {} of memory and {} millicores",
                    wish.count,
                    wish.pool.name,
                    gibibytes(*memory),
                    cpu
                );
                return Check::failed(about, found).fix("ask for fewer or smaller machines, or add hosts");
            };
            *host = (host.0 - cpu, host.1 - memory);
        }
    }
    let memory: u64 = sized.iter().map(|(wish, (_, memory))| wish.count * memory).sum();
    let machines: u64 = wishes.iter().map(|wish| wish.count).sum();
    let found = format!("{machines} machines with {} of memory on {} hosts", gibibytes(memory), usable.len());
    if wishes.iter().any(|wish| wish.each.is_none()) {
        return Check::unknown(about, format!("{found}; the size of others is said by instance types"));
    }
    if usable.iter().any(|host| host.requested.is_none()) {
        return Check::unknown(
            about,
            format!("{found}, if they were empty: not allowed to see what runs there"),
        );
    }
    Check::passed(about, found)
}

fn quota_of(wishes: &[Wish<'_>], quota: &Quota) -> Check {
    let about = format!("quota {}", quota.name);
    let sum = |of: &dyn Fn(&Wish<'_>) -> u64| -> u128 {
        wishes.iter().map(|wish| u128::from(wish.count) * u128::from(of(wish)) * 1000).sum()
    };
    let machines = sum(&|_| 1);
    // Pools with the same image share its volume.
    let golden: BTreeMap<&String, u64> =
        wishes.iter().filter_map(|wish| wish.golden.as_ref().map(|(name, size)| (name, *size))).collect();
    let images = golden.len() as u128 * 1000;
    let imaged = golden.values().map(|size| u128::from(*size) * 1000).sum::<u128>();
    let cpu = sum(&|wish| wish.each.unwrap_or_default().0) / 1000;
    let memory = sum(&|wish| wish.each.unwrap_or_default().1);
    let needs: BTreeMap<&str, u128> = [
        ("pods", machines),
        ("count/pods", machines),
        ("count/virtualmachines.kubevirt.io", machines),
        ("count/virtualmachineinstances.kubevirt.io", machines),
        ("persistentvolumeclaims", sum(&|wish| wish.volumes) + images),
        ("cpu", cpu),
        ("requests.cpu", cpu),
        ("memory", memory),
        ("requests.memory", memory),
        ("requests.storage", sum(&|wish| wish.disks) + imaged),
    ]
    .into();
    let short: Vec<String> = quota
        .limits
        .iter()
        .filter_map(|(what, (hard, used))| {
            let need = needs.get(what.as_str())?;
            let left = hard.saturating_sub(*used);
            (*need > left)
                .then(|| format!("{what}: {} needed, {} left", plain(what, *need), plain(what, left)))
        })
        .collect();
    if short.is_empty() {
        return Check::passed(about, "leaves room for the machines");
    }
    Check::failed(about, short.join("; ")).fix("ask for a larger quota or for fewer or smaller machines")
}

/// An amount in thousandths, for people.
fn plain(what: &str, thousandths: u128) -> String {
    let whole = thousandths / 1000;
    if what.ends_with("memory") || what.ends_with("storage") {
        return gibibytes(u64::try_from(whole).unwrap_or(u64::MAX));
    }
    if thousandths.is_multiple_of(1000) { whole.to_string() } else { format!("{thousandths}m") }
}

/// A size rounded up to tenths of a gibibyte: what is needed is never said smaller than it is.
fn gibibytes(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
