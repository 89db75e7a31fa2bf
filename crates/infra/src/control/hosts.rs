//! The power and the cables of hosts.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::world::hosts::Host;

/// How a host is to be; what is not said stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    powered: Option<bool>,
    connected: Option<bool>,
}

pub(super) fn told(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    let hosts = &context.world.hosts;
    match (method, steps) {
        (&Method::GET, []) => {
            let items: Vec<Value> = hosts.all().iter().map(|(name, host)| shown(name, *host)).collect();
            Ok(json!({"kind": "HostList", "apiVersion": super::GROUP_VERSION, "items": items}))
        }
        (_, [name]) => {
            let mut host = hosts
                .get(name)
                .ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no host {name:?}")))?;
            if *method == Method::PUT {
                let wanted: Wanted = serde_json::from_value(body.clone()).map_err(bad)?;
                host.powered = wanted.powered.unwrap_or(host.powered);
                host.connected = wanted.connected.unwrap_or(host.connected);
                hosts.set(name, host);
            }
            Ok(shown(name, host))
        }
        _ => Err(nothing_here()),
    }
}

fn shown(name: &str, host: Host) -> Value {
    json!({
        "kind": "Host", "apiVersion": super::GROUP_VERSION, "metadata": {"name": name},
        "powered": host.powered, "connected": host.connected,
    })
}
