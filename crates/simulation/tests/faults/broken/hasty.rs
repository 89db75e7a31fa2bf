//! Controllers that do not wait for proof, and such as never do what they say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;

use super::{Sent, caught};

/// What a controller says of a Machine whose host does not answer.
const NO_PROOF: &str = "NoProofOfDeath";

/// Whether it says of a Machine that nothing proves its death.
fn gives_up(sent: &Sent) -> bool {
    sent.site == "control"
        && sent.path.contains("/machines/")
        && String::from_utf8_lossy(&sent.body).contains(NO_PROOF)
}

/// A delete of something else by whoever sends this.
fn delete(sent: &Sent, path: String) -> Sent {
    let body = bytes::Bytes::new();
    Sent {
        site: sent.site,
        method: Method::DELETE,
        path,
        headers: http::HeaderMap::new(),
        body,
        client: sent.client.clone(),
    }
}

#[test]
fn a_run_that_is_ended_although_its_host_may_be_alive() {
    caught("host-loss", "fencing", |sent: Sent| async move {
        let answer = sent.forward().await;
        if gives_up(&sent) {
            let machine = sent.path.split("/status").next().unwrap_or_default();
            let name = machine.rsplit('/').next().unwrap_or_default();
            // Both sites are one server here.
            let run = format!("/apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstances/{name}");
            delete(&sent, run).forward().await;
        }
        answer
    });
}

#[test]
fn a_machine_that_is_replaced_although_it_may_run() {
    caught("host-loss", "proof-before-replacement", |sent: Sent| async move {
        let answer = sent.forward().await;
        if gives_up(&sent) {
            let machine = sent.path.split("/status").next().unwrap_or_default().to_owned();
            delete(&sent, machine).forward().await;
        }
        answer
    });
}

#[test]
fn a_vm_for_a_machine_that_nothing_holds() {
    caught("scale-up", "finalizer-before-vm", |sent: Sent| async move {
        // Just before the VM is made the Machine is let go.
        if sent.site == "infra" && sent.is(&Method::POST, "virtualmachines") {
            let name = sent.json()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let merge =
                (http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/merge-patch+json"));
            let free = Sent {
                site: "control",
                method: Method::PATCH,
                path: format!("/apis/trellis.dev/v1alpha1/namespaces/machines/machines/{name}"),
                headers: std::iter::once(merge).collect(),
                body: bytes::Bytes::from_static(br#"{"metadata":{"finalizers":null}}"#),
                client: sent.client.clone(),
            };
            free.forward().await;
        }
        sent.forward().await
    });
}

#[test]
fn a_write_that_comes_after_the_end() {
    // A Service is written once more when it is gone, as by a retry that nobody called off.
    let written: Arc<Mutex<BTreeMap<String, (http::HeaderMap, bytes::Bytes)>>> = Arc::default();
    caught("scale-down", "leftovers", move |sent: Sent| {
        let written = Arc::clone(&written);
        async move {
            let path = sent.path.split('?').next().unwrap_or_default().to_owned();
            if sent.is(&Method::PATCH, "services") {
                let kept = (sent.headers.clone(), sent.body.clone());
                written.lock().unwrap().insert(path.clone(), kept);
            }
            let answer = sent.forward().await;
            let kept = written.lock().unwrap().get(&path).cloned();
            if let (true, Some((headers, body))) = (sent.is(&Method::DELETE, "services"), kept) {
                let again = Sent {
                    method: Method::PATCH,
                    path: format!("{path}?fieldManager=late&force=true"),
                    headers,
                    body,
                    ..sent
                };
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_mins(2)).await;
                    again.forward().await;
                });
            }
            answer
        }
    });
}

#[test]
fn a_machine_that_is_made_otherwise_than_asked() {
    caught("scale-up", "same-end", |sent: Sent| async move {
        if sent.site != "infra" || !sent.is(&Method::POST, "virtualmachines") {
            return sent.forward().await;
        }
        let mut vm = sent.json();
        vm["metadata"]["labels"]["stray"] = "yes".into();
        Sent { body: vm.to_string().into(), ..sent }.forward().await
    });
}

#[test]
fn everything_said_ten_times() {
    caught("scale-up", "restraint", |sent: Sent| async move {
        if sent.method == Method::PATCH {
            for _ in 0..9 {
                sent.forward().await;
            }
        }
        sent.forward().await
    });
}

#[test]
fn a_vm_that_is_only_said_to_be_made() {
    caught("scale-up", "convergence", |sent: Sent| async move {
        if sent.site == "infra" && sent.is(&Method::POST, "virtualmachines") {
            return sent.pretend().await;
        }
        sent.forward().await
    });
}
