//! What the agent in the guest tells.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Asked, Do, Refusal, told};
use crate::object::Object as _;
use crate::service::{Body, plain};
use crate::world::machine::Agent;

/// What an agent of this version can be asked to do.
const COMMANDS: &[&str] = &[
    "guest-get-osinfo",
    "guest-get-users",
    "guest-get-fsinfo",
    "guest-get-timezone",
    "guest-get-host-name",
    "guest-network-get-interfaces",
    "guest-fsfreeze-freeze",
    "guest-fsfreeze-status",
    "guest-fsfreeze-thaw",
    "guest-ping",
    "guest-info",
    "guest-shutdown",
];
/// The version of the agent.
const AGENT_VERSION: &str = "9.1.0";

/// The answer to `guestosinfo`.
fn guest_info(agent: &Agent) -> Value {
    let commands: Vec<Value> = COMMANDS.iter().map(|name| json!({"name": name, "enabled": true})).collect();
    json!({
        "kind": "VirtualMachineInstanceGuestAgentInfo", "apiVersion": "kubevirt.io/v1",
        "guestAgentVersion": AGENT_VERSION, "supportedCommands": commands, "hostname": agent.hostname,
        "os": agent.os, "timezone": "UTC, 0",
        "userList": items(&agent.users), "fsInfo": {"disks": items(&agent.filesystems)},
        "fsFreezeStatus": if agent.is_frozen() { "frozen" } else { "thawed" },
    })
}

fn list(kind: &str, items_of: &Value) -> Value {
    json!({"kind": kind, "apiVersion": "kubevirt.io/v1", "metadata": {}, "items": items(items_of)})
}

/// The elements, however they come: alone or in a list object.
fn items(of: &Value) -> Value {
    match of {
        Value::Array(_) => of.clone(),
        Value::Object(list) => list.get("items").cloned().unwrap_or_else(|| json!([])),
        _ => json!([]),
    }
}

impl Asked {
    /// What the guest tells. Every failure is an internal one here, told in plain words, as by the real one.
    pub(super) async fn tell_of_guest(&self, what: Do) -> Response<Body> {
        match self.agent().await {
            Err(refusal) => plain(StatusCode::INTERNAL_SERVER_ERROR, &refusal.to_string()),
            Ok(agent) => told(&match what {
                Do::Users => list("VirtualMachineInstanceGuestOSUserList", &agent.users),
                Do::Filesystems => list("VirtualMachineInstanceFileSystemList", &agent.filesystems),
                _ => guest_info(&agent),
            }),
        }
    }

    async fn agent(&self) -> Result<Agent, Refusal> {
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict("VMI is not running"));
        }
        let disconnected = || self.vmi_conflict("VMI does not have guest agent connected");
        if !vmi.condition_holds("AgentConnected") {
            return Err(disconnected());
        }
        let agent = self.machine(&vmi)?.agent().borrow().clone();
        agent.ok_or_else(disconnected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::machine::Thaw;

    #[test]
    fn all_that_is_known_is_told() {
        let agent = Agent {
            hostname: "h".to_owned(),
            users: json!([{"userName": "root"}]),
            filesystems: json!({"items": [{"diskName": "vda1"}]}),
            frozen: Some(Thaw::Asked),
            ..Agent::default()
        };
        let info = guest_info(&agent);
        assert_eq!((&info["hostname"], &info["fsFreezeStatus"]), (&json!("h"), &json!("frozen")));
        assert_eq!(info["fsInfo"]["disks"][0]["diskName"], "vda1");
        assert_eq!(list("X", &agent.users)["items"][0]["userName"], "root");
        assert_eq!(list("X", &Value::Null)["items"], json!([]));
    }
}
