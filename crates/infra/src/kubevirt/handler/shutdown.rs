//! Ending a machine: first by its power button, then by its plug.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Handler, Run};
use crate::controller::{Looked, Next};
use crate::kinds::VMI;
use crate::kubevirt::vmi::pod::grace;
use crate::object::{Key, Object as _};
use crate::world::machine::{Command, State};

/// How often the button is pressed.
const PRESS: Duration = Duration::from_secs(5);

/// How the end of a machine is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shutdown {
    /// When it began.
    since: Instant,
    /// When the button is to be pressed next.
    next: Instant,
}

/// What is to be done next for ending a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Press {
    /// The button, and then to wait.
    Button(Duration),
    /// Nothing but to wait.
    Wait(Duration),
    /// The plug.
    Plug,
}

/// What is due at a moment of a shutdown, with so much time for the guest.
fn due(shutdown: Shutdown, grace: Duration, now: Instant) -> Press {
    let left = grace.saturating_sub(now.saturating_duration_since(shutdown.since));
    if left.is_zero() {
        return Press::Plug;
    }
    match shutdown.next.saturating_duration_since(now) {
        Duration::ZERO => Press::Button(left.min(PRESS)),
        wait => Press::Wait(wait.min(left)),
    }
}

impl Handler {
    /// Does the next thing for ending a machine.
    pub(super) async fn shut_down(&self, key: &Key, vmi: &Value, run: &Run) -> Looked {
        let now = Instant::now();
        let first = run.shutdown.is_none();
        let mut shutdown = run.shutdown.unwrap_or(Shutdown { since: now, next: now });
        let button = vmi.at("/spec/domain/features/acpi/enabled") != &Value::Bool(false);
        let seconds = if button { grace(vmi) } else { 0 };
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        match due(shutdown, grace, now) {
            Press::Plug => {
                run.machine.command(Command::Destroy);
                // A guest that does not even obey this has no say in it.
                run.machine.set_state(State::Destroyed);
                self.recorder.normal(&VMI, vmi, "Deleted", "VirtualMachineInstance stopping").await;
                Ok(Next::After(Duration::ZERO))
            }
            Press::Button(wait) => {
                run.machine.command(Command::Shutdown);
                shutdown.next = now + PRESS;
                self.change_run(key, |run| run.shutdown = Some(shutdown));
                if first {
                    self.recorder.normal(&VMI, vmi, "ShuttingDown", "Signaled Graceful Shutdown").await;
                }
                Ok(Next::After(wait))
            }
            Press::Wait(wait) => Ok(Next::After(wait)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_button_is_pressed_until_the_plug_is_pulled() {
        let start = Instant::now();
        let grace = Duration::from_secs(12);
        let mut shutdown = Shutdown { since: start, next: start };
        assert_eq!(due(shutdown, grace, start), Press::Button(PRESS));
        shutdown.next = start + PRESS;
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(due(shutdown, grace, after(3)), Press::Wait(Duration::from_secs(2)));
        assert_eq!(due(shutdown, grace, after(10)), Press::Button(Duration::from_secs(2)));
        assert_eq!(due(shutdown, grace, after(12)), Press::Plug);
        assert_eq!(due(shutdown, Duration::ZERO, start), Press::Plug);
    }
}
