//! Guests: what happens inside a running machine.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::context::Context;
use crate::world::machine::{Command, Machine, State};

/// What guests can run, keyed by what their user data starts.
#[derive(Debug, Default)]
pub struct Programs {}

/// Runs a machine from power-on to power-off, obeying its commands. Whoever starts a machine spawns this.
pub async fn run(context: Context, machine: Arc<Machine>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let vmi = machine.plan().vmi;
    if let Err(message) = context.stages.pass("domain.start", &vmi, 0).await {
        machine.set_state(State::Crashed(message));
        return;
    }
    machine.set_state(State::Running);
    while let Some(command) = commands.recv().await {
        match command {
            Command::Shutdown => {
                // A guest that hangs does not listen to its power button.
                let passed = context.stages.pass("guest.shutdown", &vmi, 0).await;
                machine.set_state(if passed.is_ok() { State::Shutdown } else { State::Running });
            }
            Command::Destroy => machine.set_state(State::Destroyed),
            Command::Pause => machine.set_state(State::Paused),
            Command::Resume => machine.set_state(State::Running),
            Command::Panic(message) => machine.set_state(State::Crashed(message)),
            Command::Attach(disk) => machine.change_plan(|plan| plan.disks.push(disk)),
            Command::Detach(name) => machine.change_plan(|plan| plan.disks.retain(|disk| disk.name != name)),
            Command::Move(place, interfaces) => machine.change_plan(|plan| {
                plan.pod = place;
                plan.interfaces = interfaces;
            }),
            Command::Reset | Command::Reboot => {}
        }
        if machine.state().borrow().is_over() {
            return;
        }
    }
}
