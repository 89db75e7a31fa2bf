//! What is measured of the controller on one server, in which order.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::Source;
use trellis_runtime::{Cache, Narrow, Selection, Site};

use super::calibration::Costs;
use super::controller::{Controller, Requests};
use super::infra;
use super::objects::{self, CLUSTER, CONTROL, MACHINE, Machine, VM, Vm};
use crate::outcome::{percentile, ratio};
use crate::servers::{Server, Which};
use crate::support::Result;

/// The names of the measurements.
pub(crate) const NAMES: [&str; 7] = [RATE, REQUESTS, OPEN, BURST, READY, MEMORY, IDLE];
const RATE: &str = "machines: until the last VM object";
const REQUESTS: &str = "machines: requests per machine";
const OPEN: &str = "machines: from spec to VM, open loop";
const BURST: &str = "machines: from spec to VM, burst";
const READY: &str = "machines: from Node ready to Machine ready";
const MEMORY: &str = "machines: memory of the controller";
const IDLE: &str = "machines: idle controller";

/// Machines of this name wait until they are told to be ready.
const OPEN_PREFIX: &str = "open-";
/// After this, what a controller does by itself is done.
const SETTLING: Duration = Duration::from_secs(4);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(15);

/// How much is measured.
struct Effort {
    machines: usize,
    /// As many again, on a server that can hold them.
    many: Option<usize>,
    burst: usize,
    /// Machines of the open loop, ten each second.
    open: usize,
    idle: Duration,
}

/// Measures the controller on a server of its own.
pub(crate) async fn measure(
    which: &Which,
    program: &Path,
    quick: bool,
) -> Result<Vec<(&'static str, Value)>> {
    let effort = if quick {
        Effort { machines: 300, many: None, burst: 200, open: 60, idle: Duration::from_secs(5) }
    } else {
        // The real server would need most of the memory of a small machine for its own copy.
        let many = matches!(which, Which::Lab(_)).then_some(10_000);
        Effort { machines: 1_000, many, burst: 1_000, open: 600, idle: Duration::from_mins(1) }
    };
    Stage::start(which, program).await?.run(&effort).await
}

/// A server with kinds and namespaces, and who looks at it.
struct Stage<'a> {
    server: Server,
    program: &'a Path,
    site: Site,
    machines: Cache<Machine>,
    vms: Cache<Vm>,
    _watches: JoinSet<()>,
}

impl<'a> Stage<'a> {
    async fn start(which: &Which, program: &'a Path) -> Result<Self> {
        let server = which.start().await?;
        let source = Source::File { path: server.kubeconfig.clone(), context: None };
        let site = source.connect("bench", Manners::default()).await?.site;
        objects::prepare(&site).await?;
        let machines = Cache::new(MACHINE, Selection::namespace(CONTROL));
        let vms = Cache::new(VM, Selection::namespace(CLUSTER));
        let mut watches = JoinSet::new();
        let (one, other) = ((machines.clone(), site.clone()), (vms.clone(), site.clone()));
        watches.spawn(async move { one.0.run(&one.1, 1).await });
        watches.spawn(async move { other.0.run(&other.1, 1).await });
        machines.synced().await;
        vms.synced().await;
        Ok(Self { server, program, site, machines, vms, _watches: watches })
    }

    fn controller(&self) -> Result<Controller> {
        let kubeconfig = &self.server.kubeconfig;
        Controller::start(self.program, kubeconfig, &kubeconfig.with_file_name("controller.log"))
    }

    async fn run(&self, effort: &Effort) -> Result<Vec<(&'static str, Value)>> {
        let mut idle = self.controller()?;
        idle.until_ready().await?;
        tokio::time::sleep(SETTLING).await;
        let empty = idle.usage()?.resident;
        idle.end().await?;

        eprintln!("  {} machines to their VMs", effort.machines);
        objects::set_with_machines(&self.site, 0, effort.machines).await?;
        let before = self.server.usage()?.cpu;
        let mut controller = self.controller()?;
        until(&self.vms, effort.machines, |_| true, &mut controller).await?;
        let took = controller.began.elapsed();
        let (server, own) = (self.server.usage()?.cpu.saturating_sub(before), controller.usage()?.cpu);
        let to_vm = controller.requests().await?;
        tokio::time::sleep(SETTLING).await;
        let costs = Costs::measure(&self.site, &self.server.processes, "workers-0").await?;
        let rate = rate(effort.machines, took, &costs, server, own)?;

        eprintln!("  the same until they are ready");
        let running = infra::start(&self.site, &self.vms, OPEN_PREFIX);
        until(&self.machines, effort.machines, Machine::is_ready, &mut controller).await?;
        let to_ready = controller.requests().await?;
        tokio::time::sleep(SETTLING).await;
        let after = controller.requests().await?;
        let requests = requests(effort.machines, [&to_vm, &to_ready, &after])?;
        let resident = controller.usage()?.resident;
        let mut memory = json!({
            "empty_bytes": empty, "machines": effort.machines, "resident_bytes": resident,
            "bytes_per_machine": resident.saturating_sub(empty) / u64::try_from(effort.machines)?,
        });

        eprintln!("  idle for {} s", effort.idle.as_secs());
        let (before, then) = (controller.usage()?.cpu, controller.requests().await?);
        tokio::time::sleep(effort.idle).await;
        let asked = controller.requests().await?.since(&then).idle();
        let used = controller.usage()?.cpu.saturating_sub(before);
        let idle = json!({
            "machines": effort.machines, "seconds": effort.idle.as_secs_f64(), "requests": asked,
            "cpu_percent": 100.0 * used.as_secs_f64() / effort.idle.as_secs_f64(),
        });

        eprintln!("  ten machines a second");
        let open = self.open_loop(effort.open).await?;
        let ready = self.get_ready(effort.open).await?;
        eprintln!("  {} machines at once", effort.burst);
        let mut burst = self.burst(effort.burst).await?;
        burst["limit_seconds"] =
            (costs.of_machine().as_secs_f64() * f64::from(u32::try_from(effort.burst)?) / cores()).into();
        controller.check()?;

        if let Some(many) = effort.many {
            eprintln!("  {many} machines");
            objects::set_with_machines(&self.site, effort.machines, many).await?;
            let of_set =
                |machine: &Machine| machine.is_ready() && machine.metadata.name().starts_with("workers-");
            until(&self.machines, many, of_set, &mut controller).await?;
            tokio::time::sleep(SETTLING).await;
            let all = u64::try_from(self.machines.len())?;
            let resident = controller.usage()?.resident;
            memory["many"] = json!({
                "machines": all, "resident_bytes": resident,
                "bytes_per_machine": resident.saturating_sub(empty) / all.max(1),
            });
        }
        drop(running);
        let measured = [rate, requests, open, burst, ready, memory, idle];
        Ok(NAMES.into_iter().zip(measured).collect())
    }

    /// Makes machines at fixed moments, whatever became of the ones before.
    async fn open_loop(&self, count: usize) -> Result<Value> {
        let arrivals = self.arrivals(OPEN_PREFIX, count);
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        let mut sent = HashMap::new();
        let mut creations = JoinSet::new();
        for number in 0..count {
            ticks.tick().await;
            let name = format!("{OPEN_PREFIX}{number}");
            sent.insert(name.clone(), Instant::now());
            let site = self.site.clone();
            creations.spawn(async move { objects::machine(&site, &name).await });
        }
        while let Some(created) = creations.join_next().await {
            created??;
        }
        latencies(&sent, &patient(arrivals).await??)
    }

    /// Makes machines all at once.
    async fn burst(&self, count: usize) -> Result<Value> {
        const PREFIX: &str = "burst-";
        let arrivals = self.arrivals(PREFIX, count);
        let began = Instant::now();
        let sent: HashMap<String, Instant> = stream::iter(0..count)
            .map(|number| async move {
                let name = format!("{PREFIX}{number}");
                let sent = Instant::now();
                objects::machine(&self.site, &name).await.map(|()| (name, sent))
            })
            .buffer_unordered(64)
            .try_collect()
            .await?;
        let seen = patient(arrivals).await??;
        let mut measured = latencies(&sent, &seen)?;
        let last = seen.values().max().map_or(Duration::ZERO, |last| *last - began);
        measured["last_seconds"] = last.as_secs_f64().into();
        Ok(measured)
    }

    /// When the VMs of these machines are heard of.
    fn arrivals(&self, prefix: &'static str, count: usize) -> Arrivals {
        let mut changes = self.vms.changes();
        tokio::spawn(async move {
            let mut seen = HashMap::new();
            while seen.len() < count {
                let Some(change) = changes.recv().await else { return Err("the watch has ended".into()) };
                if let (None, Some(vm)) = (change.old, change.new)
                    && vm.metadata.name().starts_with(prefix)
                {
                    seen.insert(vm.metadata.name().to_owned(), Instant::now());
                }
            }
            Ok(seen)
        })
    }

    /// The Nodes of the open loop get ready one after the other.
    async fn get_ready(&self, count: usize) -> Result<Value> {
        let mut changes = self.machines.changes();
        let arrivals: Arrivals = tokio::spawn(async move {
            let mut seen = HashMap::new();
            while seen.len() < count {
                let Some(change) = changes.recv().await else { return Err("the watch has ended".into()) };
                if let Some(machine) = change.new
                    && machine.is_ready()
                    && machine.metadata.name().starts_with(OPEN_PREFIX)
                {
                    seen.entry(machine.metadata.name().to_owned()).or_insert_with(Instant::now);
                }
            }
            Ok(seen)
        });
        // What was said of them while they waited is written by now.
        tokio::time::sleep(SETTLING).await;
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let mut sent = HashMap::new();
        for number in 0..count {
            ticks.tick().await;
            let name = format!("{OPEN_PREFIX}{number}");
            sent.insert(name.clone(), Instant::now());
            infra::get_ready(&self.site, &name).await?;
        }
        latencies(&sent, &patient(arrivals).await??)
    }
}

type Arrivals = tokio::task::JoinHandle<Result<HashMap<String, Instant>>>;

async fn patient(arrivals: Arrivals) -> Result<Result<HashMap<String, Instant>>> {
    Ok(tokio::time::timeout(PATIENCE, arrivals).await.map_err(|_| "not all machines came")??)
}

/// Waits until so many objects are as wanted.
async fn until<T: Narrow>(
    cache: &Cache<T>,
    count: usize,
    wanted: impl Fn(&T) -> bool,
    controller: &mut Controller,
) -> Result {
    let mut changes = cache.changes();
    let began = Instant::now();
    let mut found = 0;
    let fits = |object: &Option<Arc<T>>| object.as_ref().is_some_and(|object| wanted(object));
    while found < count {
        if let Ok(change) = tokio::time::timeout(Duration::from_secs(5), changes.recv()).await {
            let change = change.ok_or("the watch has ended")?;
            found += usize::from(fits(&change.new) && !fits(&change.old));
            found -= usize::from(fits(&change.old) && !fits(&change.new));
        } else {
            controller.check()?;
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("only {found} of {count} machines came").into());
        }
    }
    Ok(())
}

fn cores() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    f64::from(u32::try_from(cores).unwrap_or(1))
}

fn rate(machines: usize, took: Duration, costs: &Costs, server: Duration, own: Duration) -> Result<Value> {
    let count = f64::from(u32::try_from(machines)?);
    let each = |time: Duration| time.as_secs_f64() * 1e3 / count;
    let least = costs.of_machine().as_secs_f64();
    let per_second = ratio(u64::try_from(machines)?, took);
    let limit = cores() / least;
    Ok(json!({
        "machines": machines, "seconds": took.as_secs_f64(), "per_second": per_second,
        "limit_per_second": limit, "of_limit": per_second / limit,
        "server_cpu_ms": each(server), "controller_cpu_ms": each(own),
        // The share of all processor time that is the least the server needs: what the ratio would be on a machine
        // with nothing else to do.
        "cpu_of_limit": least * 1e3 / (each(server) + each(own)),
        "secret_create_ms": costs.secret.as_secs_f64() * 1e3,
        "vm_create_ms": costs.vm.as_secs_f64() * 1e3,
        "status_patch_ms": costs.patch.as_secs_f64() * 1e3,
    }))
}

fn requests(machines: usize, [to_vm, to_ready, after]: [&Requests; 3]) -> Result<Value> {
    let machines = u64::try_from(machines)?;
    let each = |count: u64| ratio(count, Duration::from_secs(machines));
    Ok(json!({
        "to_vm": each(to_vm.of_machines()),
        "to_ready": each(to_ready.of_machines()),
        "in_all": each(after.of_machines()),
        "events": each(after.of_events()),
    }))
}

/// From when each was sent until it was seen.
fn latencies(sent: &HashMap<String, Instant>, seen: &HashMap<String, Instant>) -> Result<Value> {
    let mut micros = Vec::new();
    for (name, sent) in sent {
        let seen = seen.get(name).ok_or_else(|| format!("{name} never came"))?;
        micros.push(u32::try_from(seen.saturating_duration_since(*sent).as_micros())?);
    }
    micros.sort_unstable();
    Ok(json!({
        "machines": micros.len(), "p50_ms": percentile(&micros, 50), "p99_ms": percentile(&micros, 99),
        "worst_ms": percentile(&micros, 100),
    }))
}
