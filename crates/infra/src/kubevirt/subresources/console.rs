//! The serial console.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::broadcast::error::RecvError;

use super::stream::{Caller, carry};
use super::{Answer, Asked, Refusal};
use crate::object::Object as _;
use crate::service::Call;
use crate::world::machine::Machine;

/// Whether an instance has a console to look at.
fn check(vmi: &Value, name: &str) -> Result<(), Refusal> {
    if vmi.at("/spec/domain/devices/autoattachSerialConsole") == &Value::Bool(false) {
        return Err(Refusal::bad("No serial consoles are present."));
    }
    if vmi.text("/status/phase") == "Failed" {
        return Err(Refusal::conflict("virtualmachineinstance", name, "VMI is in failed status"));
    }
    Ok(())
}

/// What is on the other end of a console: shows what the machine shows, types what is typed.
async fn attend(machine: Arc<Machine>, stream: DuplexStream) {
    let (mut typed, mut screen) = tokio::io::split(stream);
    let (shown, mut more) = machine.console.look();
    let mut state = machine.state();
    let show = async {
        if screen.write_all(&shown).await.is_err() {
            return;
        }
        loop {
            match more.recv().await {
                Ok(bytes) => {
                    if screen.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                // A reader that is too slow misses something, as on a wire.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    let listen = async {
        let mut buffer = vec![0; 1024];
        while let Ok(length @ 1..) = typed.read(&mut buffer).await {
            machine.console.type_in(bytes::Bytes::copy_from_slice(&buffer[..length]));
        }
    };
    tokio::select! {
        biased;
        () = show => {}
        () = listen => {}
        _ = state.wait_for(crate::world::machine::State::is_over) => {}
    }
}

impl Asked {
    pub(super) async fn console(&self, call: Call) -> Answer {
        let vmi = self.vmi().await?;
        check(&vmi, &self.place.name)?;
        let machine = self.machine(&vmi)?;
        let caller = Caller::of(call.request)?;
        // Whoever was there before has to leave.
        let session = machine.console.sessions.take();
        Ok(caller.accept(|socket| async move {
            let (near, far) = tokio::io::duplex(64 * 1024);
            tokio::join!(carry(socket, near, session.ended()), attend(machine, far));
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn some_instances_have_no_console() {
        let vmi = |auto: bool, phase: &str| json!({"spec": {"domain": {"devices": {"autoattachSerialConsole": auto}}}, "status": {"phase": phase}});
        assert!(check(&vmi(false, "Running"), "m").unwrap_err().to_string().contains("No serial consoles"));
        assert!(check(&vmi(true, "Failed"), "m").unwrap_err().to_string().contains("failed status"));
        assert_eq!(check(&vmi(true, "Running"), "m"), Ok(()));
    }
}
