//! Links that are cut, and the question who reaches whom.

use std::net::IpAddr;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::kinds::{POD, VMI};
use crate::network::fabric::{Party, Protocol, Source};
use crate::object::{Key, Object as _};

/// A link: what is between two parties.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    between: (Party, Party),
}

/// Lists, cuts and mends links.
pub(super) fn told(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    let fabric = &context.world.fabric;
    if !steps.is_empty() {
        return Err(nothing_here());
    }
    if *method != Method::GET {
        let Link { between: (one, other) } = serde_json::from_value(body.clone()).map_err(bad)?;
        if *method == Method::POST {
            fabric.cut(one, other);
        } else if !fabric.mend(one, other) {
            return Err((StatusCode::NOT_FOUND, "that link is not cut".to_owned()));
        }
    }
    let items: Vec<Value> = fabric.cuts().iter().map(|between| json!({"between": between})).collect();
    Ok(json!({"kind": "LinkList", "apiVersion": super::GROUP_VERSION, "items": items}))
}

/// Somebody on the network, as people name them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Who {
    /// A pod, as `namespace/name`.
    Pod(String),
    /// A running machine, as `namespace/name`.
    Machine(String),
    /// A host.
    Host(String),
    /// An address, for who is to be reached.
    Address(IpAddr),
    /// Anybody outside, for who reaches.
    Outside,
}

/// Who wants to reach whom.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    from: Who,
    to: Who,
    port: u16,
    #[serde(default)]
    protocol: Protocol,
}

/// Answers who reaches whom.
pub(super) fn reach(context: &Context, method: &Method, body: &Value) -> Told {
    if *method != Method::POST {
        return Err(nothing_here());
    }
    let Question { from, to, port, protocol } = serde_json::from_value(body.clone()).map_err(bad)?;
    let from = found(context, &from)?;
    let fabric = &context.world.fabric;
    let verdict = match to {
        Who::Address(address) => fabric.reach_address(&from, address, port, protocol),
        to => fabric.reach(&from, &found(context, &to)?, port, protocol),
    };
    serde_json::to_value(verdict).map_err(bad)
}

fn found(context: &Context, who: &Who) -> Result<Source, (StatusCode, String)> {
    let missing = |what: &str| (StatusCode::NOT_FOUND, format!("there is no {what}"));
    let key = |text: &str| text.split_once('/').map(|(namespace, name)| Key::new(namespace, name));
    let pods = context.client.cache(&POD);
    match who {
        Who::Host(name) => Ok(Source::Host(name.clone())),
        Who::Outside => Ok(Source::Outside),
        Who::Address(address) => Err(bad(format!("nobody is known to be {address}"))),
        Who::Pod(name) => {
            let pod = key(name).and_then(|key| pods.get(&key));
            pod.map(|pod| Source::Pod(pod.uid().to_owned())).ok_or_else(|| missing(&format!("pod {name}")))
        }
        Who::Machine(name) => {
            let vmi = key(name).and_then(|key| context.client.cache(&VMI).get(&key));
            let machine = vmi.and_then(|vmi| context.world.machines.get(vmi.uid()));
            machine
                .map(|machine| Source::Pod(machine.plan().pod.pod_uid))
                .ok_or_else(|| missing(&format!("running machine {name}")))
        }
    }
}
