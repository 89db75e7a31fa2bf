//! What a member answers its clients: etcd's JSON gateway, as far as it is about members and their health.

use http::Method;
use serde_json::{Value, json};

use super::cluster::{Cluster, Info, NO_LEADER, Refusal};
use crate::web::Asked;

/// What a learner says to nearly everything.
const LEARNER: Refusal = Refusal { code: 14, message: "etcdserver: rpc not supported for learner" };
const BAD: Refusal = Refusal { code: 3, message: "the request cannot be understood" };

/// Answers a request to a member; `cluster` is nothing while it has found none.
pub(super) fn answer(cluster: Option<&Cluster>, id: u64, asked: &Asked) -> (u16, Value) {
    if (&asked.method, asked.path.as_str()) == (&Method::GET, "/health") {
        return if cluster.is_some_and(|cluster| cluster.serves(id)) {
            (200, json!({"health": "true", "reason": ""}))
        } else {
            (503, json!({"health": "false", "reason": "RAFT NO LEADER"}))
        };
    }
    if asked.method != Method::POST {
        return (405, json!({"error": "Method Not Allowed", "code": 12, "message": "Method Not Allowed"}));
    }
    let Some(cluster) = cluster else { return refused(NO_LEADER) };
    let path = asked.path.as_str();
    match path {
        "/v3/maintenance/status" => return (200, cluster.status(id)),
        path if path.starts_with("/v3/") && !cluster.votes(id) => return refused(LEARNER),
        "/v3/cluster/member/list" => {
            // What it knows itself; only an answer that all agree on needs the others.
            if asked.body["linearizable"] == true && !cluster.serves(id) {
                return refused(NO_LEADER);
            }
            return (200, listed(cluster, id, None));
        }
        _ => {}
    }
    if !cluster.serves(id) {
        return refused(NO_LEADER);
    }
    let member = || asked.body["ID"].as_str().and_then(|id| id.parse().ok()).ok_or(BAD);
    let done = match path {
        "/v3/cluster/member/add" => {
            let urls = asked.body["peerURLs"].as_array().into_iter().flatten();
            let urls: Vec<String> = urls.filter_map(|url| url.as_str().map(str::to_owned)).collect();
            if urls.is_empty() {
                Err(BAD)
            } else {
                cluster.add(&urls, asked.body["isLearner"] == true).map(Some)
            }
        }
        "/v3/cluster/member/promote" => member().and_then(|id| cluster.promote(id)).map(|()| None),
        "/v3/cluster/member/remove" => member().and_then(|id| cluster.remove(id)).map(|()| None),
        _ => return (404, json!({"error": "Not Found", "code": 5, "message": "Not Found"})),
    };
    match done {
        Ok(added) => (200, listed(cluster, id, added.as_ref())),
        Err(refusal) => refused(refusal),
    }
}

fn listed(cluster: &Cluster, id: u64, added: Option<&Info>) -> Value {
    let members: Vec<Value> = cluster.members().iter().map(Info::json).collect();
    let mut out = json!({"header": cluster.header(id), "members": members});
    if let Some(added) = added {
        out["member"] = added.json();
    }
    out
}

fn refused(refusal: Refusal) -> (u16, Value) {
    let code = match refusal.code {
        3 | 9 => 400,
        5 => 404,
        _ => 503,
    };
    (code, json!({"error": refusal.message, "code": refusal.code, "message": refusal.message, "details": []}))
}
