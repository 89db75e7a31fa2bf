//! What can be done to a running machine from below.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::kinds::VMI;
use crate::object::{Key, Object as _};
use crate::world::machine::Command;

pub(super) fn told(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    let [namespace, name, what] = steps else {
        return Err(bad("a machine is named by its namespace and its name: default/web"));
    };
    if *method != Method::POST {
        return Err(nothing_here());
    }
    let key = Key::new(namespace, name);
    let machine = context
        .client
        .cache(&VMI)
        .get(&key)
        .and_then(|vmi| context.world.machines.get(vmi.uid()))
        .ok_or_else(|| (StatusCode::NOT_FOUND, format!("no machine {key} runs")))?;
    let message = body.text("/message");
    let command = match *what {
        "panic" => Command::Panic(if message.is_empty() { "told to by the lab" } else { message }.to_owned()),
        "poweroff" => Command::Destroy,
        "reset" => Command::Reset,
        _ => return Err(nothing_here()),
    };
    machine.command(command);
    Ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
}
