//! `kubeadm init phase` and `kubectl apply` in a guest: what a unit of a control plane gives to its cluster.
//!
//! The commands are read from the guest's units and carried out in their order, with the credentials of its disk. What
//! kubeadm would make is made in its names and shape, as far as anybody in a tenant looks at it.

use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use trellis_infra::client::{Client, Identity};
use trellis_infra::guests::boot::Boot;
use trellis_infra::guests::kubelet::client_of;
use trellis_infra::guests::{Guest, Program};
use trellis_infra::kinds::{
    CLUSTER_ROLE_BINDING, CONFIG_MAP, DAEMON_SET, DEPLOYMENT, Kind, NODE, SERVICE, SERVICE_ACCOUNT,
};
use trellis_infra::object::{Key, Object as _};

use crate::manifest::text;

/// Who it is to the API: whoever the credentials say.
const KUBEADM: Identity = Identity { program: "kubeadm", user: "" };
/// Where the credentials are.
const ADMIN: &str = "/etc/kubernetes/admin.conf";
/// How long it waits before it asks an API again that does not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// The namespace of what every cluster has.
const SYSTEM: &str = "kube-system";

/// kubeadm in guests whose units run phases of it.
#[derive(Debug)]
pub struct Kubeadm;

impl Program for Kubeadm {
    fn name(&self) -> &'static str {
        "kubeadm"
    }

    fn is_started_by(&self, boot: &Boot) -> bool {
        commands(boot).next().is_some()
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let kubeconfig = text(&guest.boot, ADMIN).map_err(|why| format!("{ADMIN}: {why}"))?;
            let client = Client::new(client_of(&guest, &kubeconfig).await?, KUBEADM);
            for command in commands(&guest.boot) {
                carry_out(&guest, &client, &command).await?;
            }
            guest.log("kubeadm", "the cluster and this node have what every one has");
            Ok(())
        })
    }
}

/// What a command does.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    /// A phase of kubeadm, by the configuration at a path.
    Phase { words: Vec<String>, config: String },
    /// Applies the file at a path.
    Apply(String),
}

/// The commands of the guest's units, in their order.
fn commands(boot: &Boot) -> impl Iterator<Item = Command> {
    let runs = boot.units.values().filter(|unit| unit.contains("kubeadm init phase "));
    runs.flat_map(|unit| unit.lines()).filter_map(command)
}

fn command(line: &str) -> Option<Command> {
    let line = line.strip_prefix("ExecStart=")?;
    let mut words = line.split_whitespace().map(|word| word.trim_matches('"'));
    let program = words.next()?.rsplit('/').next()?;
    let words: Vec<&str> = words.collect();
    let after =
        |flag: &str| words.iter().skip_while(|word| **word != flag).nth(1).map(|word| (*word).to_owned());
    match program {
        "kubeadm" => {
            let phase = words.strip_prefix(&["init", "phase"])?;
            let phase = phase.iter().take_while(|word| !word.starts_with("--"));
            Some(Command::Phase {
                words: phase.map(|word| (*word).to_owned()).collect(),
                config: after("--config")?,
            })
        }
        "kubectl" if words.contains(&"apply") => Some(Command::Apply(after("--filename")?)),
        _ => None,
    }
}

async fn carry_out(guest: &Guest, client: &Client, command: &Command) -> Result<(), String> {
    match command {
        Command::Phase { words, config } => {
            let documents = documents(guest, config)?;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["mark-control-plane"] => mark(guest, client, &documents).await,
                ["upload-config", _] => give(guest, client, &settings(&documents)).await,
                ["addon", "coredns"] => give(guest, client, &coredns(&documents)).await,
                ["addon", "kube-proxy"] => give(guest, client, &kube_proxy(&documents)).await,
                other => Err(format!("kubeadm: there is no phase {}", other.join(" "))),
            }
        }
        Command::Apply(path) => {
            for document in documents(guest, path)? {
                apply(guest, client, &document).await?;
            }
            Ok(())
        }
    }
}

fn documents(guest: &Guest, path: &str) -> Result<Vec<Value>, String> {
    let text = text(&guest.boot, path).map_err(|why| format!("{path}: {why}"))?;
    serde_saphyr::from_multiple(&text).map_err(|error| format!("{path}: {error}"))
}

fn of_kind<'d>(documents: &'d [Value], kind: &str) -> &'d Value {
    documents.iter().find(|document| document["kind"] == kind).unwrap_or(&Value::Null)
}

/// Labels the node of this machine, and keeps others off it, as soon as it is there.
async fn mark(guest: &Guest, client: &Client, documents: &[Value]) -> Result<(), String> {
    let registration = &of_kind(documents, "InitConfiguration")["nodeRegistration"];
    let name = registration["name"].as_str().filter(|name| !name.is_empty());
    let key = Key::new("", name.unwrap_or(&guest.boot.hostname));
    let taint = json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"});
    let taints = registration["taints"].as_array().cloned().unwrap_or_else(|| vec![taint]);
    loop {
        // Until then its kubelet has not registered it, or nobody answers yet.
        if let Ok(Some(node)) = client.get(&NODE, &key).await {
            let mut all = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let has = |all: &[Value], taint: &Value| all.iter().any(|has| has["key"] == taint["key"]);
            let missing: Vec<Value> = taints.iter().filter(|taint| !has(&all, taint)).cloned().collect();
            all.extend(missing);
            let patch = json!({
                "metadata": {
                    "labels": {
                        "node-role.kubernetes.io/control-plane": "",
                        "node.kubernetes.io/exclude-from-external-load-balancers": "",
                    },
                    "resourceVersion": node.text("/metadata/resourceVersion"),
                },
                "spec": {"taints": all},
            });
            if client.merge(&NODE, &key, &patch).await.is_ok() {
                return Ok(());
            }
        }
        guest.pause(AGAIN).await;
    }
}

/// Creates what is not there.
async fn give(guest: &Guest, client: &Client, objects: &[(&'static Kind, Value)]) -> Result<(), String> {
    for (kind, object) in objects {
        loop {
            match client.create_if_absent(kind, object.clone()).await {
                Ok(()) => break,
                // A Service whose address is taken is refused before anybody looks whether it is there already.
                Err(error) if error.is_refused() && is_there(client, kind, object).await => break,
                Err(error) if !error.is_refused() => guest.pause(AGAIN).await,
                Err(error) => return Err(format!("kubeadm: {} {}: {error}", kind.kind, object.name())),
            }
        }
    }
    Ok(())
}

async fn is_there(client: &Client, kind: &Kind, object: &Value) -> bool {
    matches!(client.get(kind, &Key::of(object)).await, Ok(Some(_)))
}

/// Applies an object of a kind whose place in the API follows from its name.
async fn apply(guest: &Guest, client: &Client, object: &Value) -> Result<(), String> {
    let (version, kind) = (object.text("/apiVersion"), object.text("/kind"));
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let space = object.text("/metadata/namespace");
    let space = if space.is_empty() { String::new() } else { format!("/namespaces/{space}") };
    let plural = format!("{}s", kind.to_ascii_lowercase());
    let path = format!("{root}{space}/{plural}/{}?fieldManager=kubectl&force=true", object.name());
    loop {
        match client.send(Method::PATCH, &path, Some(("application/apply-patch+yaml", object))).await {
            Ok(_) => return Ok(()),
            Err(error) if !error.is_refused() => guest.pause(AGAIN).await,
            Err(error) => return Err(format!("kubectl: {kind} {}: {error}", object.name())),
        }
    }
}

fn named(name: &str) -> Value {
    json!({"namespace": SYSTEM, "name": name})
}

fn yaml(document: &Value) -> String {
    document.to_string()
}

/// The settings others read when they join or are upgraded.
fn settings(documents: &[Value]) -> Vec<(&'static Kind, Value)> {
    let cluster = yaml(of_kind(documents, "ClusterConfiguration"));
    let kubelet = yaml(of_kind(documents, "KubeletConfiguration"));
    vec![
        (
            &CONFIG_MAP,
            json!({"metadata": named("kubeadm-config"), "data": {"ClusterConfiguration": cluster}}),
        ),
        (&CONFIG_MAP, json!({"metadata": named("kubelet-config"), "data": {"kubelet": kubelet}})),
    ]
}

/// Cluster DNS: the Service at the address kubelets tell their pods, and what answers behind it.
fn coredns(documents: &[Value]) -> Vec<(&'static Kind, Value)> {
    let labels = json!({"k8s-app": "kube-dns"});
    let address = of_kind(documents, "KubeletConfiguration")["clusterDNS"][0].clone();
    let domain = of_kind(documents, "ClusterConfiguration")["networking"]["dnsDomain"].clone();
    let domain = domain.as_str().unwrap_or("cluster.local").to_owned();
    let corefile = format!(
        ".:53 {{\n    errors\n    health\n    ready\n    kubernetes {domain}\n    forward . /etc/resolv.conf\n}}\n"
    );
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol, "targetPort": 53});
    let mut service = json!({"selector": labels, "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]});
    if address.is_string() {
        service["clusterIP"] = address;
    }
    let container = json!({
        "name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.14.6",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}],
    });
    vec![
        (&SERVICE_ACCOUNT, json!({"metadata": named("coredns")})),
        (&CONFIG_MAP, json!({"metadata": named("coredns"), "data": {"Corefile": corefile}})),
        (
            &SERVICE,
            json!({"metadata": {"namespace": SYSTEM, "name": "kube-dns", "labels": labels}, "spec": service}),
        ),
        (
            &DEPLOYMENT,
            json!({
                "metadata": {"namespace": SYSTEM, "name": "coredns", "labels": labels},
                "spec": {
                    "replicas": 2, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "serviceAccountName": "coredns", "priorityClassName": "system-cluster-critical",
                        "tolerations": [
                            {"key": "CriticalAddonsOnly", "operator": "Exists"},
                            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                        ],
                        "containers": [container],
                    }},
                },
            }),
        ),
    ]
}

/// kube-proxy, on every node.
fn kube_proxy(documents: &[Value]) -> Vec<(&'static Kind, Value)> {
    let labels = json!({"k8s-app": "kube-proxy"});
    let version = of_kind(documents, "ClusterConfiguration")["kubernetesVersion"].clone();
    let image = format!("registry.k8s.io/kube-proxy:{}", version.as_str().unwrap_or("v1.36.0"));
    let role = json!({
        "metadata": {"name": "kubeadm:node-proxier"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"},
        "subjects": [{"kind": "ServiceAccount", "name": "kube-proxy", "namespace": SYSTEM}],
    });
    vec![
        (&SERVICE_ACCOUNT, json!({"metadata": named("kube-proxy")})),
        (&CLUSTER_ROLE_BINDING, role),
        (
            &DAEMON_SET,
            json!({
                "metadata": {"namespace": SYSTEM, "name": "kube-proxy", "labels": labels},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "serviceAccountName": "kube-proxy", "priorityClassName": "system-node-critical",
                        "hostNetwork": true, "tolerations": [{"operator": "Exists"}],
                        "containers": [{"name": "kube-proxy", "image": image}],
                    }},
                },
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

    use super::*;

    #[test]
    fn commands_are_those_of_units_that_run_phases() {
        let mut boot = Boot::default();
        let unit = "[Service]\nExecStart=/opt/bin/kubeadm init phase addon coredns --config /etc/kubernetes/kubeadm.yaml\n\
                    ExecStart=/opt/bin/kubectl apply --server-side --filename /etc/trellis/given.yaml\n\
                    ExecStart=/usr/bin/touch /var/lib/trellis/given\n";
        boot.units.insert("trellis-addons.service".to_owned(), unit.to_owned());
        boot.units.insert(
            "other.service".to_owned(),
            "[Service]\nExecStart=/opt/bin/kubectl apply --filename x\n".to_owned(),
        );
        let phase = Command::Phase {
            words: vec!["addon".to_owned(), "coredns".to_owned()],
            config: "/etc/kubernetes/kubeadm.yaml".to_owned(),
        };
        let apply = Command::Apply("/etc/trellis/given.yaml".to_owned());
        assert_eq!(commands(&boot).collect::<Vec<_>>(), [phase, apply]);
        assert!(!Kubeadm.is_started_by(&Boot::default()));
    }
}
