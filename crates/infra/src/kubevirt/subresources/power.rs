//! Holding a machine, starting it anew, and freezing its file systems.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::lifecycle::VM_NOT_RUNNING;
use super::{Answer, Asked, Refusal, done, dry_run};
use crate::object::Object as _;
use crate::world::machine::{Agent, Command, Machine, State, Thaw};

/// How long a launcher may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long file systems stay frozen where nobody says how long.
const FROZEN: Duration = Duration::from_mins(5);

impl Asked {
    pub(super) async fn pause(&self, body: &Value) -> Answer {
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict(VM_NOT_RUNNING));
        }
        if vmi.at("/spec/livenessProbe").is_object() {
            let why = "Pausing VMIs with LivenessProbe is currently not supported";
            return Err(Refusal::forbidden("virtualmachineinstance", &self.place.name, why));
        }
        if !vmi.condition("Paused").is_null() {
            return Err(self.vmi_conflict("VMI is already paused"));
        }
        self.turn(&vmi, Command::Pause, &State::Paused, dry_run(body)).await
    }

    pub(super) async fn unpause(&self, body: &Value) -> Answer {
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict("VMI is not running"));
        }
        if vmi.condition("Paused").is_null() {
            return Err(self.vmi_conflict("VMI is not paused"));
        }
        self.turn(&vmi, Command::Resume, &State::Running, dry_run(body)).await
    }

    /// Does something to a machine and waits until it is so.
    async fn turn(&self, vmi: &Value, command: Command, wanted: &State, dry_run: bool) -> Answer {
        let machine = self.machine(vmi)?;
        if dry_run {
            return Ok(done());
        }
        let mut state = machine.state();
        machine.command(command);
        let turned = timeout(PATIENCE, state.wait_for(|state| state == wanted || state.is_over())).await;
        match turned {
            Ok(Ok(state)) if *state == *wanted => Ok(done()),
            _ => Err(Refusal::internal("the launcher of the VMI does not answer")),
        }
    }

    pub(super) async fn freeze(&self, body: &Value) -> Answer {
        let machine = self.freezable().await?;
        let until = body.at("/unfreezeTimeout");
        let frozen = until.as_str().map_or(Some(FROZEN), duration);
        let Some(frozen) = frozen else {
            return Err(super::unreadable(&format!("time: invalid duration {until}")));
        };
        let end = Instant::now().checked_add(frozen).filter(|_| !frozen.is_zero());
        set_frozen(&machine, Some(end.map_or(Thaw::Asked, Thaw::At)))?;
        Ok(done())
    }

    pub(super) async fn unfreeze(&self) -> Answer {
        let machine = self.freezable().await?;
        set_frozen(&machine, None)?;
        Ok(done())
    }

    async fn freezable(&self) -> Result<Arc<Machine>, Refusal> {
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict("VMI is not running"));
        }
        self.machine(&vmi)
    }

    pub(super) async fn soft_reboot(&self) -> Answer {
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict(VM_NOT_RUNNING));
        }
        if vmi.condition_holds("Paused") {
            return Err(self.vmi_conflict("VMI is paused"));
        }
        if !vmi.condition_holds("AgentConnected") && !listens_to_power(&vmi) {
            return Err(
                self.vmi_conflict("VMI neither have the agent connected nor the ACPI feature enabled")
            );
        }
        self.machine(&vmi)?.command(Command::Reboot);
        Ok(done())
    }

    pub(super) async fn reset(&self) -> Answer {
        let vmi = self.vmi().await?;
        match self.machine(&vmi) {
            Ok(machine) => machine.command(Command::Reset),
            Err(refusal) => {
                let phase = vmi.text("/status/phase");
                let why = format!("Failed to reset non-running VMI with phase {phase}: {refusal}");
                return Err(Refusal::internal(why));
            }
        }
        Ok(done())
    }

    /// Nothing can be redirected: no instance here has client passthrough.
    pub(super) async fn usb_redirect(&self) -> Answer {
        let vmi = self.vmi().await?;
        if vmi.at("/spec/domain/devices/clientPassthrough").is_null() {
            return Err(Refusal::bad("Not configured with USB Redirection"));
        }
        self.machine(&vmi)?;
        Err(Refusal::internal("no USB channel is free"))
    }
}

/// Whether the guest hears its power button.
fn listens_to_power(vmi: &Value) -> bool {
    let features = vmi.at("/spec/domain/features");
    features.is_object() && features.at("/acpi/enabled").as_bool().unwrap_or(true)
}

/// Freezes or thaws the file systems through the agent.
fn set_frozen(machine: &Machine, frozen: Option<Thaw>) -> Result<(), Refusal> {
    let agent = machine.agent().borrow().clone();
    let Some(agent) = agent else {
        return Err(Refusal::internal("command Freeze failed: guest agent is not connected"));
    };
    machine.set_agent(Some(Agent { frozen, ..agent }));
    Ok(())
}

/// A duration as Go writes it: `1h2m3.5s`.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..number].parse().ok()?;
        rest = &rest[number..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        total += value * seconds;
        rest = &rest[unit..];
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_go_s() {
        assert_eq!(duration("5m"), Some(Duration::from_mins(5)));
        assert_eq!(duration("1h0m1.5s"), Some(Duration::from_secs_f64(3601.5)));
        assert_eq!((duration(""), duration("5"), duration("x")), (None, None, None));
    }

    #[test]
    fn a_guest_hears_its_power_button_unless_told_otherwise() {
        let vmi = |features: Value| json!({"spec": {"domain": {"features": features}}});
        assert!(listens_to_power(&vmi(json!({"acpi": {"enabled": true}}))));
        assert!(!listens_to_power(&vmi(json!({"acpi": {"enabled": false}}))));
        assert!(!listens_to_power(&json!({})));
    }
}
