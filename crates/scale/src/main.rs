//! Fills an emulated infra cluster with machines until all of them run, and reports what that took.
//!
//! `cargo xtask bench` builds and calls it. The report is JSON on standard output; how far it is goes to standard
//! error. Two measurements: as many machines as hosts on the machine's own clock, as KubeVirt's test with KWOK does;
//! and machines with realistic delays in virtual time.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_infra::client::{Client, Identity};
use trellis_infra::guests::Programs;
use trellis_infra::kinds::{NAMESPACE, VM, VMI};
use trellis_infra::object::Object as _;
use trellis_infra::service::install::SERVICES;
use trellis_infra::stages::Profile;
use trellis_infra::{Infra, Settings};
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};

/// What can be asked for.
const USAGE: &str = "usage: trellis-scale [--quick]";
/// How many machines are created at the same time.
const TOGETHER: usize = 64;
/// The namespaces machines are spread over.
const NAMESPACES: usize = 8;

/// Anything that goes wrong ends the measurement.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut quick = false;
    for argument in std::env::args().skip(1) {
        if argument == "--quick" {
            quick = true;
        } else {
            eprintln!("error: unknown argument `{argument}`\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    let (hosts, few) = if quick { (1_000, 200) } else { (8_000, 1_000) };
    let measured = [
        ("machines, as many hosts, to Running", measure(hosts, hosts, false)),
        ("machines in virtual time to Running", measure(few, 50, true)),
    ];
    let report: Vec<Value> = measured
        .into_iter()
        .map(|(name, outcome)| match outcome {
            Ok(mut entry) => {
                entry["name"] = name.into();
                entry
            }
            Err(error) => json!({"name": name, "not_measured": error.to_string()}),
        })
        .collect();
    println!("{}", Value::from(report));
    ExitCode::SUCCESS
}

/// Brings up machines on hosts, and says what it took.
fn measure(machines: usize, hosts: usize, virtual_time: bool) -> Outcome<Value> {
    let mut builder = if virtual_time {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.start_paused(true);
        builder
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    builder.enable_all().build()?.block_on(fill(machines, hosts, virtual_time))
}

async fn fill(machines: usize, hosts: usize, virtual_time: bool) -> Outcome<Value> {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    let mut options = Options { seed: Some(1), ..Options::default() };
    let mut settings = Settings { hosts, seed: 1, ..Settings::default() };
    if virtual_time {
        options.clock = Arc::new(TokioClock::starting_at(start));
        settings.virtual_start = Some(start);
        settings.profile = Profile::Realistic;
    }
    let lab = Lab::start(options).await?;
    let kube = kube::Client::new(lab.service(), "default");
    let mut infra = Infra::new(kube, settings, Programs::default());
    for (namespace, name) in SERVICES {
        let service = infra.service();
        lab.mount(namespace, name, move |stream| service.clone().connection(stream));
    }
    eprintln!("setting up {hosts} hosts");
    infra.start_mounted().await?;
    let client = infra.context().client(Identity { program: "scale", user: "scale" });
    for number in 0..NAMESPACES {
        client.create(&NAMESPACE, json!({"metadata": {"name": namespace(number)}})).await?;
    }
    let before = (client.traffic().reads(), client.traffic().writes());
    let (began, began_virtual) = (Instant::now(), tokio::time::Instant::now());
    let watching = tokio::spawn(until_running(client.clone(), machines));
    eprintln!("creating {machines} machines");
    stream::iter(0..machines)
        .map(|number| {
            let client = client.clone();
            async move { client.create(&VM, machine(number)).await }
        })
        .buffer_unordered(TOGETHER)
        .try_collect::<Vec<_>>()
        .await?;
    let created = began.elapsed();
    watching.await?;
    let (took, took_virtual) = (began.elapsed(), began_virtual.elapsed());
    let count = u32::try_from(machines)?;
    let requests =
        |now: u64, then: u64| u32::try_from(now - then).map(|number| f64::from(number) / f64::from(count));
    let mut entry = json!({
        "machines": machines, "hosts": hosts,
        "seconds": took.as_secs_f64(), "created_seconds": created.as_secs_f64(),
        "per_second": f64::from(count) / took.as_secs_f64(),
        "writes_per_machine": requests(client.traffic().writes(), before.1)?,
        "reads_per_machine": requests(client.traffic().reads(), before.0)?,
        "memory_bytes": resident()?,
    });
    if virtual_time {
        entry["virtual_seconds"] = took_virtual.as_secs_f64().into();
    }
    Ok(entry)
}

/// Waits until so many machines run.
async fn until_running(client: Client, machines: usize) {
    let cache = client.cache(&VMI);
    let mut changes = cache.changes();
    let mut running = 0;
    while running < machines {
        let Some(change) = changes.recv().await else { return };
        let runs =
            |vmi: &Option<Arc<Value>>| vmi.as_ref().is_some_and(|vmi| vmi.text("/status/phase") == "Running");
        if runs(&change.after) && !runs(&change.before) {
            running += 1;
            if running % 1_000 == 0 {
                eprintln!("{running} run");
            }
        }
    }
}

fn namespace(number: usize) -> String {
    format!("scale-{}", number % NAMESPACES)
}

/// A small machine that boots from a container image.
fn machine(number: usize) -> Value {
    json!({
        "metadata": {"namespace": namespace(number), "name": format!("m{number:05}")},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "domain": {
                "devices": {
                    "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                    "interfaces": [{"name": "default", "masquerade": {}}],
                },
                "memory": {"guest": "128Mi"},
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/cirros:1"}}],
        }}},
    })
}

/// How much memory this process has.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the system does not tell")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}
