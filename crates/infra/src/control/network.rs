//! Cutting links, and asking who reaches whom.

use std::net::IpAddr;

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::kinds::{NAMESPACE, POD, SERVICE, VMI};
use crate::network::ends::{Party, Protocol};
use crate::network::fabric::Source;
use crate::object::{Key, Object as _};

/// A link that is cut.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cut {
    one: Party,
    other: Party,
}

/// Who asks for whom. A machine, a pod (`pod/<name>`), a host (`host/<name>`) or `outside`; for whom may also be an
/// address or the name of a service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    from: String,
    to: String,
    port: u16,
    #[serde(default)]
    protocol: Protocol,
}

/// Links that are cut.
pub(super) fn cuts(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    let fabric = &context.world.fabric;
    let read = || serde_json::from_value::<Cut>(body.clone()).map_err(bad);
    match (method, steps) {
        (&Method::GET, []) => {
            let items: Vec<Cut> = fabric.cuts().into_iter().map(|(one, other)| Cut { one, other }).collect();
            Ok(json!({"kind": "CutList", "apiVersion": super::GROUP_VERSION, "items": items}))
        }
        (&Method::POST, []) => {
            let cut = read()?;
            is_there(context, &cut.one)?;
            is_there(context, &cut.other)?;
            fabric.cut(cut.one, cut.other);
            Ok(body.clone())
        }
        (&Method::DELETE, []) => {
            let cut = read()?;
            if !fabric.mend(cut.one, cut.other) {
                return Err((StatusCode::NOT_FOUND, "nothing is cut there".to_owned()));
            }
            Ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
        }
        _ => Err(nothing_here()),
    }
}

/// Who reaches whom.
pub(super) fn reach(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    if *method != Method::POST || !steps.is_empty() {
        return Err(nothing_here());
    }
    let question: Question = serde_json::from_value(body.clone()).map_err(bad)?;
    let from = source(context, &question.from)?;
    // An address is asked for as it is; anything else by where it is.
    let verdict = if let Ok(address) = question.to.parse() {
        context.world.fabric.reach_address(&from, address, question.port, question.protocol)
    } else if let Some(key) = service_named(context, &question.to) {
        let address = service_address(context, &key, from == Source::Outside)?;
        context.world.fabric.reach_address(&from, address, question.port, question.protocol)
    } else if question.to == "outside" {
        return Err(bad("the outside has many addresses: name the one that is meant, such as 192.0.2.1"));
    } else {
        let to = source(context, &question.to)?;
        context.world.fabric.reach(&from, &to, question.port, question.protocol)
    };
    let mut answer = serde_json::to_value(verdict).map_err(bad)?;
    answer["kind"] = "Verdict".into();
    answer["apiVersion"] = super::GROUP_VERSION.into();
    Ok(answer)
}

/// A party of a cut has to be there, or the cut would be of nothing. Labels may be of pods that are still to come.
fn is_there(context: &Context, party: &Party) -> Result<(), (StatusCode, String)> {
    let there = match party {
        Party::Host(name) => context.world.hosts.get(name).is_some(),
        Party::Namespace(name) => context.client.cache(&NAMESPACE).get(&Key::cluster(name)).is_some(),
        Party::Pod(uid) => !context.client.cache(&POD).find("uid", uid).is_empty(),
        Party::Everybody | Party::Api | Party::Outside | Party::Labelled(..) => true,
    };
    if there { Ok(()) } else { Err((StatusCode::NOT_FOUND, format!("there is no {party}"))) }
}

/// The service a name of the cluster is of: `<name>.<namespace>.svc`, with or without the domain.
fn service_named(context: &Context, text: &str) -> Option<Key> {
    let name = text.trim_end_matches('.');
    let short = name.strip_suffix(context.settings.cluster_domain.as_str());
    let short = short.and_then(|rest| rest.strip_suffix('.')).unwrap_or(name);
    let (name, namespace) = short.strip_suffix(".svc")?.split_once('.')?;
    Some(Key::new(namespace, name))
}

/// Where a service is reached: from outside at its load balancer, if it has one.
fn service_address(context: &Context, key: &Key, outside: bool) -> Result<IpAddr, (StatusCode, String)> {
    let service = context.client.cache(&SERVICE).get(key);
    let service = service.ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no service {key}")))?;
    let balancer = service.text("/status/loadBalancer/ingress/0/ip").parse().ok();
    let cluster = service.text("/spec/clusterIP").parse().ok();
    let address = if outside { balancer.or(cluster) } else { cluster };
    address.ok_or_else(|| bad(format!("service {key} has no address of its own: name one of its pods")))
}

/// A party of a question: `<namespace>/<machine>`, `pod/<namespace>/<name>`, `host/<name>` or `outside`.
fn source(context: &Context, text: &str) -> Result<Source, (StatusCode, String)> {
    let missing = |what: &str| (StatusCode::NOT_FOUND, format!("there is no {what} {text:?}"));
    match text.split('/').collect::<Vec<_>>().as_slice() {
        ["outside"] => Ok(Source::Outside),
        ["host", name] => Ok(Source::Host((*name).to_owned())),
        ["pod", namespace, name] => {
            let pod =
                context.client.cache(&POD).get(&Key::new(namespace, name)).ok_or_else(|| missing("pod"))?;
            Ok(Source::Pod(pod.uid().to_owned()))
        }
        [namespace, name] => {
            let vmi = context
                .client
                .cache(&VMI)
                .get(&Key::new(namespace, name))
                .ok_or_else(|| missing("machine"))?;
            let machine = context.world.machines.get(vmi.uid()).ok_or_else(|| missing("running machine"))?;
            Ok(Source::Pod(machine.plan().pod.pod_uid))
        }
        _ => Err(bad(format!(
            "{text:?} is neither <namespace>/<machine>, pod/<namespace>/<name>, host/<name> nor outside"
        ))),
    }
}
