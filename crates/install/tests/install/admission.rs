//! Webhook and policies on a server: what is good passes, what is bad is refused with its reason, and nothing holds up
//! a removal or a status.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trellis_engine::admission::{self, policies};
use trellis_engine::families::Family;
use trellis_install::{Settings, crds, objects};
use trellis_runtime::credentials::Source;
use trellis_runtime::webhook::{Keys, OwnAuthority, Webhook, keep_trusted};
use trellis_runtime::{Clock, Key};

use crate::objects::{Bad, By, Sample, bad_ones, deployment, good, machine, merged};
use crate::server::Server;

const PATIENCE: Duration = Duration::from_mins(1);

/// A server that knows all kinds.
async fn with_kinds() -> Option<Server> {
    let server = Server::start().await?;
    server.kubectl_apply(&crds(&Family::all()));
    for sample in good() {
        let begin = Instant::now();
        while server.admin.get(sample.path).await.unwrap().status != 200 {
            assert!(begin.elapsed() < PATIENCE, "{} is not served", sample.path);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Some(server)
}

fn of(sample: &Sample) -> String {
    format!("{}/{}", sample.path, sample.object["metadata"]["name"].as_str().unwrap())
}

async fn create(server: &Server, sample: &Sample) -> (u16, String) {
    let answer = server.admin.post(sample.path, &sample.object).await.unwrap();
    (answer.status, answer.json().to_string())
}

async fn remove(server: &Server, sample: &Sample) {
    let answer = server.admin.delete(of(sample)).await.unwrap();
    assert!(matches!(answer.status, 200 | 202 | 404), "{}: {}", of(sample), answer.json());
}

async fn merge(server: &Server, path: String, patch: &Value) -> (u16, String) {
    let answer = server.admin.merge_patch(path, patch).await.unwrap();
    (answer.status, answer.json().to_string())
}

/// What is written when nobody looks yet: old objects with a fault and a finalizer.
fn spoiled() -> Vec<Sample> {
    let old = |sample: Sample, patch: &Value| {
        let mut object = merged(&sample.object, patch);
        object["metadata"]["name"] = "old".into();
        object["metadata"]["finalizers"] = json!(["example.com/kept"]);
        Sample { object, ..sample }
    };
    let strategy = json!({"spec": {"strategy": {"type": "Recreate"}}});
    vec![old(deployment(), &strategy), old(machine(), &json!({"spec": {"versions": {"kubelet": "new"}}}))]
}

/// Writes that only the webhook, or both, refuse.
async fn try_all(server: &Server, by: &dyn Fn(By) -> bool) {
    for sample in good() {
        let (status, said) = create(server, &sample).await;
        assert_eq!(status, 201, "{said}");
        remove(server, &sample).await;
    }
    for one in bad_ones().iter().filter(|bad| by(bad.by)) {
        try_one(server, one).await;
    }
}

async fn try_one(server: &Server, bad: &Bad) {
    let Bad { sample, patch, as_change, field, says, .. } = bad;
    let (status, said) = if *as_change {
        let (status, said) = create(server, sample).await;
        assert_eq!(status, 201, "{said}");
        let answer = merge(server, of(sample), patch).await;
        remove(server, sample).await;
        answer
    } else {
        create(server, &Sample { object: merged(&sample.object, patch), ..sample.clone() }).await
    };
    assert!((400..500).contains(&status), "{field}: {status} {said}");
    assert!(said.contains(field) && said.contains(says), "{field}, {says}: {said}");
}

/// Old faults are nobody's trouble: labels, statuses, finalizers and removals pass.
async fn let_go(server: &Server) {
    for sample in spoiled() {
        let path = of(&sample);
        let (status, said) = merge(server, path.clone(), &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(status, 200, "{said}");
        let state = json!({"status": {"phase": "Running", "replicas": 1}});
        let apart = if path.contains("machinedeployments") { format!("{path}/status") } else { path.clone() };
        let (status, said) = merge(server, apart, &state).await;
        assert_eq!(status, 200, "{said}");
        remove(server, &sample).await;
        let (status, said) = merge(server, path.clone(), &json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(status, 200, "{said}");
        assert_eq!(server.admin.get(path).await.unwrap().status, 404);
    }
}

async fn store_spoiled(server: &Server) {
    for sample in spoiled() {
        let (status, said) = create(server, &sample).await;
        assert_eq!(status, 201, "{said}");
    }
}

/// Waits until what was installed is at work: a bad object is refused, without being stored.
async fn until_refused(server: &Server, bad: &Bad) {
    let sample = Sample { object: merged(&bad.sample.object, &bad.patch), ..bad.sample.clone() };
    let begin = Instant::now();
    loop {
        let answer = server.admin.post(format!("{}?dryRun=All", sample.path), &sample.object).await.unwrap();
        if answer.status != 201 {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "nobody refuses {}", bad.field);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_refuse_what_cel_can_tell() {
    let Some(server) = with_kinds().await else { return };
    store_spoiled(&server).await;
    server.kubectl_apply(&policies::policies(&admission::kinds(&Family::all())));
    // Each policy begins by itself.
    for bad in bad_ones().iter().filter(|bad| bad.by == By::Both && !bad.as_change) {
        until_refused(&server, bad).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    try_all(&server, &|by| by == By::Both).await;
    let_go(&server).await;
    // The server has nothing against the expressions themselves.
    let all = server.kubectl(&["get", "validatingadmissionpolicies", "-o", "json"], "").unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    for policy in all["items"].as_array().unwrap() {
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        assert!(warnings.is_null(), "{}: {warnings}", policy["metadata"]["name"]);
    }
}

/// The configurations as they are installed, but for where the webhook is.
fn configurations(base: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for family in Family::all() {
        let settings = Settings { family, ..Settings::default() };
        for mut object in objects(&settings) {
            if !object["kind"].as_str().unwrap().ends_with("WebhookConfiguration") {
                continue;
            }
            for hook in object["webhooks"].as_array_mut().unwrap() {
                let path = hook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
                hook["clientConfig"] = json!({"url": format!("{base}{path}")});
            }
            match all.iter_mut().find(|one| one["kind"] == object["kind"]) {
                Some(one) => {
                    let known = one["webhooks"].as_array_mut().unwrap();
                    for hook in object["webhooks"].as_array().unwrap() {
                        if !known.iter().any(|one| one["name"] == hook["name"]) {
                            known.push(hook.clone());
                        }
                    }
                }
                None => all.push(object),
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_refuses_everything_that_cannot_be_used() {
    let Some(server) = with_kinds().await else { return };
    store_spoiled(&server).await;
    let source = Source::File { path: server.target.kubeconfig.clone(), context: None };
    let followed = source.connect("control", trellis_runtime::client::Manners::default()).await.unwrap();
    let site = followed.site.clone();
    let own = OwnAuthority {
        site: site.clone(),
        secret: Key::new("default", "trellis-webhook"),
        names: vec!["127.0.0.1".to_owned()],
        clock: Clock::of_machine(),
    };
    let (identity, renew) = own.identity().await.unwrap();
    let (again, _) = own.identity().await.unwrap();
    assert!(identity == again, "replicas share one certificate");
    assert!(renew > own.clock.now());
    let keys = Arc::new(Keys::new(identity).unwrap());
    let webhook =
        Webhook::listen("127.0.0.1:0".parse().unwrap(), Arc::clone(&keys), admission::review).await.unwrap();
    let base = format!("https://{}", webhook.address().unwrap());
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move { webhook.run(&token).await });
    let authority = keys.authority();
    tokio::spawn(async move { keep_trusted(&site, "trellis", authority).await });
    // They come after the webhook, and are told whom to believe all the same.
    server.kubectl_apply(&configurations(&base));
    for bad in bad_ones().iter().filter(|bad| !bad.as_change) {
        until_refused(&server, bad).await;
    }
    until_believed(&server).await;
    try_all(&server, &|_| true).await;
    // Every problem at once, each with its field, and what is left out is filled in.
    let kubelet = json!({"spec": {"template": {"spec": {"versions": {"kubelet": "new"}}}}});
    let mut two = merged(&deployment().object, &kubelet);
    let machine = "/spec/template/spec/providerSpec/value/cloudProviderSpec/virtualMachine/template";
    two.pointer_mut(machine).unwrap()["cpus"] = "many".into();
    let answer = server.admin.post(deployment().path, &two).await.unwrap().json();
    let causes = answer["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    assert!(fields.len() >= 2 && fields.contains(&"spec.template.spec.versions.kubelet"), "{answer}");
    let (status, made) = create(&server, &deployment()).await;
    assert_eq!(status, 201, "{made}");
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["spec"]["progressDeadlineSeconds"], 600);
    assert_eq!(made["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
    assert_eq!(made["spec"]["template"], deployment().object["spec"]["template"]);
    // Nobody answers any more: what is going goes, what changes nothing passes.
    stop.cancel();
    remove(&server, &deployment()).await;
    let_go(&server).await;
}

/// Waits until all configurations name the authority, so that the server asks at all.
async fn until_believed(server: &Server) {
    let begin = Instant::now();
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}/trellis");
        loop {
            let answer = server.admin.get(path.as_str()).await.unwrap().json();
            let hooks = answer["webhooks"].as_array().unwrap();
            if hooks.iter().all(|hook| hook["clientConfig"]["caBundle"].is_string()) {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // The server takes a moment to hear of it, and refuses everything until then.
    while create(server, &deployment()).await.0 != 201 {
        assert!(begin.elapsed() < PATIENCE, "{}", create(server, &deployment()).await.1);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    remove(server, &deployment()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}
