//! What is right, in the wrong order.

use std::sync::{Arc, Mutex};

use http::Method;

use super::{Sent, caught};

/// Has what is held back sent after the first VM: until then the controller believes that it was done.
fn late(line: &str, rule: &str, resource: &'static str) {
    let held: Arc<Mutex<Vec<Sent>>> = Arc::default();
    caught(line, rule, move |sent: Sent| {
        let held = Arc::clone(&held);
        async move {
            if sent.site == "infra" && sent.is(&Method::PATCH, resource) {
                let answer = sent.pretend().await;
                held.lock().unwrap().push(sent);
                return answer;
            }
            let makes =
                sent.site == "infra" && sent.method != Method::GET && sent.path.contains("/virtualmachines");
            let answer = sent.forward().await;
            if makes {
                let due = std::mem::take(&mut *held.lock().unwrap());
                for one in due {
                    one.forward().await;
                }
            }
            answer
        }
    });
}

#[test]
fn a_vm_before_its_secret() {
    late("scale-up", "secret-before-vm", "secrets");
}

#[test]
fn a_vm_before_its_isolation() {
    late("scale-up", "isolation-before-vm", "networkpolicies");
}

#[test]
fn a_finalizer_that_is_dropped_early() {
    caught("scale-down", "finalizer-held", |sent: Sent| async move {
        let stops = sent.site == "control"
            && sent.path.contains("/status")
            && sent.json()["status"]["phase"] == "Stopping";
        let answer = sent.forward().await;
        if stops {
            let machine = sent.path.split("/status").next().unwrap_or_default().to_owned();
            let free = Sent {
                method: Method::PATCH,
                body: r#"{"metadata":{"finalizers":null}}"#.into(),
                path: machine.clone(),
                ..sent
            };
            free.forward().await;
        }
        answer
    });
}

#[test]
fn a_retry_under_another_name() {
    // The answer to the making of a VM is lost; whoever does not know what came of it makes another one.
    let line = "scale-up lost@infra:create:virtualmachines/blue-workers-REVISION-0#1";
    let line = super::super::repeatable::with_names(line);
    caught(&line, "one-vm-per-machine", |sent: Sent| async move {
        let makes =
            sent.site == "infra" && sent.method == Method::POST && sent.is(&Method::POST, "virtualmachines");
        if !makes {
            return sent.forward().await;
        }
        if let Ok(answer) = tokio::time::timeout(std::time::Duration::from_secs(10), sent.forward()).await {
            return answer;
        }
        let name = sent.json()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let body = String::from_utf8_lossy(&sent.body).replacen(
            &format!("\"name\":\"{name}\""),
            &format!("\"name\":\"{name}-again\""),
            1,
        );
        Sent { body: body.into(), ..sent }.forward().await
    });
}

#[test]
fn a_node_that_goes_with_the_first_sign_that_its_vm_is_gone() {
    let tenant: Arc<Mutex<Option<kube::Client>>> = Arc::default();
    caught("scale-down", "node-after-vm", move |sent: Sent| {
        let tenant = Arc::clone(&tenant);
        async move {
            if sent.site == "tenant" {
                *tenant.lock().unwrap() = Some(sent.client.clone());
            }
            let client = tenant.lock().unwrap().clone();
            let removes = sent.site == "infra" && sent.is(&Method::DELETE, "virtualmachines");
            let answer = sent.forward().await;
            if let (true, Some(client)) = (removes, client) {
                let path = format!("/api/v1/nodes/{}", sent.name());
                let body = bytes::Bytes::new();
                Sent { site: "tenant", path, client, body, ..sent }.forward().await;
            }
            answer
        }
    });
}
