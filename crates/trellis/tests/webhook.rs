//! `trellis controller` with a webhook, `trellis rbac` and `trellis install-manifests`, as people run them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trellis_lab::{Lab, Options};

fn trellis(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trellis")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn printed(args: &[&str]) -> Vec<Value> {
    let output = trellis(&[&["--output", "json"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["kind"].as_str().unwrap()).collect()
}

#[test]
fn roles_are_printed_for_each_site() {
    let infra = printed(&["rbac", "--site", "infra", "--namespace", "blue", "--user", "me", "--no-hosts"]);
    assert_eq!(kinds(&infra), ["Role", "RoleBinding"]);
    assert_eq!(infra[0]["metadata"]["namespace"], "blue");
    assert_eq!(infra[1]["subjects"][0]["name"], "me");
    let tenant = printed(&["rbac", "--site", "tenant"]);
    assert_eq!(kinds(&tenant), ["ClusterRole", "ClusterRoleBinding"]);
    let control = printed(&["rbac", "--site", "control", "--family", "kkp", "--namespace", "kube-system"]);
    assert_eq!(kinds(&control), ["Role", "RoleBinding", "Role", "RoleBinding"]);
    assert_eq!(trellis(&["rbac", "--site", "control", "--account", "nobody"]).status.code(), Some(2));
}

#[test]
fn what_is_installed_is_printed_or_written() {
    let all = printed(&["install-manifests", "--cluster", "blue", "--no-webhook", "--no-policies"]);
    assert!(kinds(&all).contains(&"Deployment") && !kinds(&all).contains(&"ValidatingAdmissionPolicy"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(trellis(&["install-manifests", "--helm", path]).status.success());
    assert!(folder.path().join("templates/deployment.yaml").is_file());
    assert!(trellis(&["install-manifests", "--cluster", "blue", "--kustomize", path]).status.success());
    let deployment = std::fs::read_to_string(folder.path().join("deployment.yaml")).unwrap();
    assert!(deployment.contains("--cluster=blue"), "{deployment}");
}

/// A controller that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn post(client: &kube::Client, path: &str, object: &Value) -> Result<Value, String> {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    client.request(request).await.map_err(|error| error.to_string())
}

fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "MachinePool", "metadata": {"name": name},
        "spec": {"cluster": "blue", "template": {
            "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
            "image": {"os": "ubuntu", "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}}},
            "rootDisk": {"size": "10Gi"}, "userData": {"secret": "join"},
        }},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_answers_with_a_certificate_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut lab = Lab::start(Options::default()).await.unwrap();
    let listening = lab.listen(0).await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig.expose()).unwrap();
    let client = kube::Client::new(lab.service(), "default");
    for crd in trellis_api::trellis::crds() {
        post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
    }
    // Free when it is looked for; the controller takes it in a moment.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _running = Running(
        Command::new(env!("CARGO_BIN_EXE_trellis"))
            .args([
                "controller",
                "--cluster",
                "blue",
                "--listen",
                "127.0.0.1:0",
                "--webhook-listen",
                &address,
            ])
            .args(["--webhook-service", "default/trellis", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    for mut object in printed(&["install-manifests", "--cluster", "blue"]) {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        if !plural.ends_with("webhookconfigurations") {
            continue;
        }
        for hook in object["webhooks"].as_array_mut().unwrap() {
            let path = hook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            hook["clientConfig"] = json!({"url": format!("https://{address}{path}")});
        }
        post(&client, &format!("/apis/admissionregistration.k8s.io/v1/{plural}"), &object).await.unwrap();
    }
    let pools = "/apis/trellis.dev/v1alpha1/namespaces/default/machinepools";
    let begin = Instant::now();
    // Nothing passes until the server knows whom to believe.
    let made = loop {
        match post(&client, pools, &pool("good")).await {
            Ok(made) if made["spec"]["replicas"] == 1 => break made,
            // What is not filled in may pass before the one who fills in is believed.
            Ok(_) => {
                let gone = http::Request::delete(format!("{pools}/good")).body(Vec::new()).unwrap();
                client.request::<Value>(gone).await.unwrap();
            }
            Err(why) => assert!(begin.elapsed() < Duration::from_mins(1), "{why}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(made["metadata"]["name"], "good");
    let mut bad = pool("bad");
    bad["spec"]["template"]["image"]["source"]["registry"]["url"] = "nowhere".into();
    let why = post(&client, pools, &bad).await.unwrap_err();
    assert!(why.contains("spec.template.image.source.registry.url"), "{why}");
}
