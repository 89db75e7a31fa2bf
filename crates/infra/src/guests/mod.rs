//! Guests: what happens inside a running machine.
//!
//! A simulated guest reads its config drive as the real thing would, fetches over the fabric what that leads to, and
//! runs the programs it starts. It can be slow, fail to boot, never join, lose its network or panic: all of that is
//! said by the stages `guest.*` and by commands to its machine.

pub mod boot;
pub mod cloud_init;
pub mod ignition;
pub mod kubelet;
pub mod program;
pub mod servers;
mod terminal;
pub mod wire;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use program::{Guest, Program, Programs, RootDisk};

use crate::context::Context;
use crate::kubevirt::instance;
use crate::object::Object as _;
use crate::quantity;
use crate::world::machine::{Agent, Command, Machine, Plan, State};
use boot::{Boot, BootError, UserData};
use wire::Network;

/// How long systemd waits before it starts a failed program again.
const RESTART: Duration = Duration::from_secs(5);

/// How much of a disk is used where there is room.
const USED: u64 = 2 << 30;

/// Runs a machine from power-on to power-off, obeying its commands. Whoever starts a machine spawns this, and learns
/// from `started` that its domain came up, whatever has become of it since.
pub async fn run(
    context: Context,
    machine: Arc<Machine>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    started: Arc<AtomicBool>,
) {
    let vmi = machine.plan().vmi;
    if let Err(message) = context.stages.pass("domain.start", &vmi, 0).await {
        machine.set_state(State::Crashed(message));
        return;
    }
    started.store(true, Ordering::Release);
    machine.set_state(State::Running);
    // Everything inside ends when this is dropped: no guest outlives its machine.
    let mut inside = JoinSet::new();
    inside.spawn(guest(context.clone(), Arc::clone(&machine)));
    let mut shutdowns: JoinSet<bool> = JoinSet::new();
    loop {
        let command = tokio::select! {
            biased;
            Some(done) = shutdowns.join_next() => {
                if done.unwrap_or_default() {
                    machine.set_state(State::Shutdown);
                    return;
                }
                continue;
            }
            Some(done) = inside.join_next() => {
                // Only a panic ends a guest before its machine.
                if let Ok(Some(message)) = done {
                    machine.console.show(&format!("\r\nKernel panic - not syncing: {message}\r\n"));
                    machine.set_state(State::Crashed(message));
                    return;
                }
                continue;
            }
            command = commands.recv() => command,
        };
        match command {
            None | Some(Command::Destroy) => {
                machine.set_state(State::Destroyed);
                return;
            }
            Some(Command::Shutdown) if shutdowns.is_empty() => {
                machine.console.show("\r\n[  OK  ] Stopped target Multi-User System.\r\n");
                let (stages, vmi) = (context.stages.clone(), vmi.clone());
                // A guest that hangs does not listen to its power button.
                shutdowns.spawn(async move { stages.pass("guest.shutdown", &vmi, 0).await.is_ok() });
            }
            Some(Command::Panic(message)) => {
                machine.console.show(&format!("\r\nKernel panic - not syncing: {message}\r\n"));
                machine.set_state(State::Crashed(message));
                return;
            }
            Some(Command::Reset | Command::Reboot) => {
                machine.set_agent(None);
                inside.abort_all();
                inside = JoinSet::new();
                inside.spawn(guest(context.clone(), Arc::clone(&machine)));
            }
            Some(other) => obey(&machine, other),
        }
    }
}

/// The commands that change the machine and not whether it runs.
fn obey(machine: &Machine, command: Command) {
    match command {
        Command::Pause => machine.set_state(State::Paused),
        Command::Resume => machine.set_state(State::Running),
        // Asked twice, it is there already.
        Command::Attach(disk) if machine.plan().disks.iter().any(|known| known.name == disk.name) => {}
        Command::Attach(disk) => machine.change_plan(|plan| disk.join(&mut plan.disks)),
        Command::Detach(name) => machine.change_plan(|plan| plan.disks.retain(|disk| disk.name != name)),
        Command::Move(place, interfaces) => machine.change_plan(|plan| {
            plan.pod = place;
            plan.interfaces = interfaces;
        }),
        // A second press of the power button, and what the caller has done already.
        Command::Shutdown | Command::Destroy | Command::Panic(_) | Command::Reset | Command::Reboot => {}
    }
}

/// What happens inside, from the boot loader on. Ends only by a panic, with its message.
async fn guest(context: Context, machine: Arc<Machine>) -> Option<String> {
    let plan = machine.plan();
    let vmi = &plan.vmi;
    if !plan.disks.iter().any(|disk| disk.bootable) {
        machine.console.show(terminal::NO_DISK);
        return std::future::pending().await;
    }
    machine.console.show(&terminal::kernel(vmi, processors(vmi), &memory(vmi)));
    if let Err(message) = context.stages.pass("guest.boot", vmi, 0).await {
        return Some(message);
    }
    let network = Network::new(&context.world.fabric, &machine, &context.stages);
    let boot = match booted(&context, &machine, &network).await {
        Ok(boot) => Arc::new(boot),
        Err(error) => {
            // As on a real machine: it sits in an emergency shell, and nobody joins anything.
            machine.console.show(&format!("ignition[682]: {error}\r\nYou are in emergency mode.\r\n"));
            return std::future::pending().await;
        }
    };
    machine.console.show(&terminal::greeting(&boot));
    let mut tasks = JoinSet::new();
    tasks.spawn(terminal::attend(Arc::clone(&machine), Arc::clone(&boot), context.clock));
    tasks.spawn(agent(context.clone(), Arc::clone(&machine), Arc::clone(&boot)));
    for program in context.programs.started_by(&boot) {
        let guest = Guest {
            boot: Arc::clone(&boot),
            machine: Arc::clone(&machine),
            network: network.clone(),
            clock: context.clock,
            stages: context.stages.clone(),
            volumes: Arc::clone(&context.world.volumes),
        };
        tasks.spawn(kept_running(program, guest));
    }
    while tasks.join_next().await.is_some() {}
    std::future::pending().await
}

/// What the user's data makes of the guest. Like cloud-init and Ignition it is read once for each instance: what the
/// first boot installed is on the disk, and later boots find it there, whatever has become of the data.
async fn booted(context: &Context, machine: &Machine, network: &Network) -> Result<Boot, BootError> {
    let plan = machine.plan();
    let (volumes, instance) = (&context.world.volumes, boot::instance(&plan.drive));
    let root = root_volume(&plan);
    if let Some(boot) = root.and_then(|root| volumes.installed(root, &instance)) {
        return Ok(boot);
    }
    let (data, hostname) = boot::read(&plan.drive)?;
    let mut boot = match data {
        UserData::None => Boot::default(),
        UserData::CloudInit(data) => {
            for warning in &data.warnings {
                machine.console.show(&format!("cloud-init[612]: {warning}\r\n"));
            }
            data.boot
        }
        UserData::Ignition(config) => ignition::carry_out(&config, network).await?,
    };
    if boot.hostname.is_empty() {
        boot.hostname = if hostname.is_empty() { plan.vmi.name().to_owned() } else { hostname };
    }
    if let Some(root) = root {
        volumes.install(root, &instance, boot.clone());
    }
    Ok(boot)
}

/// The volume a machine boots from; nothing where all is lost when it is switched off.
fn root_volume(plan: &Plan) -> Option<&str> {
    let root = plan.disks.iter().find(|disk| disk.bootable)?;
    Some(root.volume.as_str()).filter(|volume| !volume.is_empty())
}

/// Runs a program, and again when it fails.
async fn kept_running(program: Arc<dyn Program>, guest: Guest) {
    let mut wait = guest.stages.pause(RESTART);
    loop {
        guest.log("systemd", &format!("Started {}.", program.name()));
        match program.run(guest.clone()).await {
            Ok(()) => return,
            Err(why) => {
                guest.log(program.name(), &format!("failed: {why}"));
                guest.sleep(wait).await;
                // What does not help soon does not help often.
                wait = (wait * 3 / 2).min(RESTART);
            }
        }
    }
}

/// The guest agent: tells what it sees, while the image has one.
async fn agent(context: Context, machine: Arc<Machine>, boot: Arc<Boot>) {
    let vmi = machine.plan().vmi;
    if context.stages.pass("guest.agent", &vmi, 0).await.is_err() {
        return;
    }
    let plan = machine.plan();
    let interfaces = plan.interfaces.iter().enumerate().map(|(place, interface)| {
        let addresses: Vec<IpAddr> = interface.addresses.clone();
        (format!("eth{place}"), interface.mac.clone(), addresses)
    });
    let total = plan.disks.first().map_or(0, |disk| disk.size);
    machine.set_agent(Some(Agent {
        os: json!({
            "name": "Trellis Lab Linux", "id": "trellis-lab", "version": "1.0", "versionId": "1.0",
            "prettyName": terminal::OS, "kernelRelease": terminal::KERNEL, "kernelVersion": "#1 SMP",
            "machine": "x86_64",
        }),
        hostname: boot.hostname.clone(),
        interfaces: interfaces.collect(),
        users: json!([]),
        filesystems: json!([{
            "diskName": "vda4", "mountPoint": "/", "fileSystemType": "xfs",
            "usedBytes": USED.min(total / 2), "totalBytes": total,
        }]),
        frozen: None,
    }));
}

/// How many processors a machine has.
pub(crate) fn processors(vmi: &Value) -> i64 {
    instance::processors(vmi.at("/spec"))
}

/// How much memory a machine has.
pub(crate) fn memory(vmi: &Value) -> String {
    quantity::bytes(instance::guest_memory(vmi.at("/spec")))
}
