//! Objects, kustomization and chart mean the same, and servers accept them.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};
use trellis_engine::families::{Family, KKP};
use trellis_install::{Settings, chart, kustomize, objects};

use crate::server::{Server, helm, kubectl, run};

/// The Kubernetes that charts are rendered for.
const KUBERNETES: &str = "1.37.0";

/// Objects by what tells them apart.
fn named(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| {
        let part =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{} {}/{}", part("/kind"), part("/metadata/namespace"), part("/metadata/name"))
    };
    let count = objects.len();
    let all: BTreeMap<String, Value> =
        objects.into_iter().map(|object| (name(&object), plain(object))).collect();
    assert_eq!(all.len(), count, "two objects have one name");
    all
}

/// Numbers by their value: some programs write large ones with an exponent.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, plain(value))).collect(),
        other => other,
    }
}

fn read(yaml: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { budget: None };
    let all: Vec<Value> = serde_saphyr::from_multiple_with_options(yaml, options).unwrap();
    all.into_iter().filter(|object| !object.is_null()).collect()
}

fn write(folder: &std::path::Path, files: Vec<(String, String)>) {
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

fn each_is_the_same(one: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) {
    let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(one), names(other));
    for (name, object) in one {
        assert_eq!(object, &other[name], "{name}");
    }
}

#[test]
fn a_kustomization_means_the_same() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), kustomize::files(&Settings::default()));
    let built = match run(Command::new(kubectl()).arg("kustomize").arg(folder.path()), "") {
        Ok(built) => built,
        Err(why) if why.contains("No such file") => {
            eprintln!("skipped: there is no kubectl");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    each_is_the_same(&named(objects(&Settings::default())), &named(read(&built)));
}

#[test]
fn a_chart_means_the_same() {
    let Some(helm) = helm() else { return };
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("trellis");
    write(&chart, chart::files());
    run(Command::new(&helm).args(["lint", "--strict", "--kube-version", KUBERNETES]).arg(&chart), "")
        .unwrap();
    let render = |namespace: &str, values: &[&str]| {
        let mut command = Command::new(&helm);
        command.args(["template", "trellis"]).arg(&chart).args([
            "--namespace",
            namespace,
            "--kube-version",
            KUBERNETES,
        ]);
        for value in values {
            command.args(["--set", value]);
        }
        named(read(&run(&mut command, "").unwrap()))
    };
    // The namespace is helm's own business.
    let expected = |settings: &Settings| {
        let all = objects(settings).into_iter().filter(|object| object["kind"] != "Namespace");
        named(all.collect())
    };
    // The order of arguments is not.
    let sorted = |mut all: BTreeMap<String, Value>| {
        for object in all.values_mut() {
            if let Some(arguments) = object.pointer_mut("/spec/template/spec/containers/0/args") {
                arguments.as_array_mut().unwrap()[1..].sort_by_key(ToString::to_string);
            }
            // What is left empty by its conditions.
            for pointer in ["/spec/template/spec", "/spec/template/spec/containers/0"] {
                if let Some(Value::Object(part)) = object.pointer_mut(pointer) {
                    part.retain(|_, value| !value.is_null());
                }
            }
        }
        all
    };
    let same = |settings: &Settings, values: &[&str]| {
        each_is_the_same(&sorted(expected(settings)), &sorted(render(&settings.namespace, values)));
    };
    same(&Settings::default(), &[]);
    let other = Settings {
        fleet: false,
        namespace: "elsewhere".to_owned(),
        image: "own/trellis:2".to_owned(),
        replicas: 3,
        cluster: Some("blue".to_owned()),
        family: &KKP,
        machines: "kube-system".to_owned(),
        infra: "vms".to_owned(),
        infra_kubeconfig: Some("infra-access".to_owned()),
        tenant_kubeconfig: Some("tenant-access".to_owned()),
        hosts: false,
        webhook: false,
        policies: true,
        monitor: true,
    };
    let values = [
        "image=own/trellis:2",
        "replicas=3",
        "cluster=blue",
        "family=kkp",
        "machines.namespace=kube-system",
        "infra.namespace=vms",
        "infra.kubeconfigSecret=infra-access",
        "tenant.kubeconfigSecret=tenant-access",
        "infra.seesHosts=false",
        "webhook.enabled=false",
        "monitor=true",
    ];
    same(&other, &values);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_accepts_what_is_installed() {
    let Some(server) = Server::start().await else { return };
    for family in Family::all() {
        let namespaces = ["tenant", "kube-system", "cloud-init-settings"];
        for name in namespaces {
            // One that is there already is as good.
            let _ = server.kubectl(&["create", "namespace", name], "");
        }
        // The monitor's kind is somebody else's.
        let settings = Settings { family, machines: "kube-system".to_owned(), ..Settings::default() };
        let mut all = objects(&settings);
        // Nobody answers here, and the next family's objects must pass.
        all.retain(|object| !object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"));
        server.kubectl_apply(&all);
        let said = server.kubectl_apply(&all);
        assert!(said.lines().count() == all.len(), "{said}");
    }
    let webhooks: Vec<Value> = objects(&Settings::default())
        .into_iter()
        .filter(|object| object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"))
        .collect();
    assert_eq!(webhooks.len(), 2);
    server.kubectl_apply(&webhooks);
    // Least rights, seen by the server: it acts in its namespaces and sees hosts, and no Secrets elsewhere.
    let may = async |verb: &str, group: &str, resource: &str, namespace: &str| {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:serviceaccount:trellis-system:trellis",
                "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace},
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        server.admin.post(path, &review).await.unwrap().json()["status"]["allowed"] == true
    };
    for (allowed, verb, group, resource, namespace) in [
        (true, "create", "kubevirt.io", "virtualmachines", "tenant"),
        (false, "create", "kubevirt.io", "virtualmachines", "default"),
        (true, "list", "", "nodes", ""),
        (false, "patch", "", "nodes", ""),
        (true, "list", "", "secrets", "tenant"),
        (false, "list", "", "secrets", ""),
        (false, "list", "", "secrets", "trellis-system"),
        (true, "patch", "trellis.dev", "machines", "kube-system"),
        // A cluster that is deleted takes its pools along; new ones are people's.
        (true, "delete", "trellis.dev", "machinepools", "kube-system"),
        (false, "create", "trellis.dev", "machinepools", "kube-system"),
        (false, "update", "rbac.authorization.k8s.io", "roles", "kube-system"),
    ] {
        assert_eq!(
            may(verb, group, resource, namespace).await,
            allowed,
            "{verb} {resource} in {namespace:?}"
        );
    }
}

#[test]
fn a_fleet_is_told_of_no_cluster_and_may_act_where_its_tenants_are() {
    let everywhere = Settings {
        fleet: true,
        cluster: None,
        machines: String::new(),
        infra: String::new(),
        ..Settings::default()
    };
    let all = objects(&everywhere);
    let args = |all: &[Value]| {
        let deployment = all.iter().find(|object| object["kind"] == "Deployment").unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
    };
    for word in ["--cluster", "--family", "--infra-namespace", "--namespace"] {
        assert!(!args(&all).contains(word), "{word}");
    }
    let roles = |all: &[Value], kind: &str| -> Vec<String> {
        let of_kind = all.iter().filter(|object| object["kind"] == kind);
        of_kind.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for name in ["trellis-control-tenants", "trellis-infra-tenants"] {
        assert!(roles(&all, "ClusterRole").contains(&name.to_owned()), "{:?}", roles(&all, "ClusterRole"));
    }
    let one = Settings { machines: "tenants".to_owned(), infra: "vms".to_owned(), ..everywhere };
    let some = objects(&one);
    assert!(args(&some).contains("--namespace=tenants"));
    assert!(!roles(&some, "ClusterRole").iter().any(|name| name.ends_with("-tenants")));
    let role =
        some.iter().find(|object| object["kind"] == "Role" && object["metadata"]["name"] == "trellis-infra");
    assert_eq!(role.unwrap()["metadata"]["namespace"], "vms");
}
