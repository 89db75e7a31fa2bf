//! Making and taking away tenant clusters as a person does it: the built program against a lab that is a process of its
//! own, over sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a step that fails fails the test")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trellis_runtime::client::{Delete, Manners};
use trellis_runtime::credentials::Source;
use trellis_runtime::{Key, Resource, Selection, Site};

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const ACCOUNTS: Resource = Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
const ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role");
const BINDINGS: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding");
const DEFINITIONS: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
const CLUSTERS: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "tenantclusters", "TenantCluster");
const POOLS: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
const MACHINES: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machines", "Machine");
const VMS: Resource = Resource::namespaced("kubevirt.io", "v1", "virtualmachines", "VirtualMachine");

/// The kinds that something of a cluster may be left of.
const KINDS: [Resource; 8] = [
    VMS,
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance"),
    Resource::namespaced("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume"),
    Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource::namespaced("", "v1", "pods", "Pod"),
    SECRETS,
    Resource::namespaced("", "v1", "services", "Service"),
    Resource::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
];

/// How long anything may take; far more than it does, for machines that are busy with other things.
const PATIENCE: Duration = Duration::from_mins(5);

/// A program that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    // Nothing of whoever runs the tests.
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// Starts a program and reads what it says until a line fits.
fn start(command: &mut Command, ready: impl Fn(&str) -> bool) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.by_ref().map_while(Result::ok).find(|line| ready(line));
    assert!(said.is_some(), "it ended before it was ready: {command:?}");
    std::thread::spawn(move || lines.for_each(drop));
    Running(child)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn site(path: &Path) -> Site {
    let source = Source::File { path: path.to_owned(), context: None };
    source.connect("test", Manners::default()).await.unwrap().site
}

/// An infra cluster, and a person's folders.
struct Stage {
    home: tempfile::TempDir,
    admin: Site,
    kubeconfig: PathBuf,
    _lab: Running,
}

impl Stage {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("lab");
        let mut command = binary();
        command.args(["lab", "--memory", "--profile", "instant", "--seed", "1", "--dir"]).arg(&dir);
        let lab = start(&mut command, |line| line.starts_with("Ctrl-C"));
        let kubeconfig = dir.join("kubeconfig");
        Self { admin: site(&kubeconfig).await, home, kubeconfig, _lab: lab }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    async fn namespace(&self, name: &str) {
        self.admin.create::<Value>(&NAMESPACES, "", &json!({"metadata": {"name": name}})).await.unwrap();
    }

    /// A kubeconfig of somebody who may do in one namespace what `trellis rbac` says, and nothing else anywhere.
    async fn person(&self, namespace: &str) -> PathBuf {
        let account = json!({"metadata": {"name": "ann"}});
        self.admin.create::<Value>(&ACCOUNTS, namespace, &account).await.unwrap();
        let printed = binary()
            .args(["rbac", "--site", "install", "-o", "json", "--namespace", namespace, "--account"])
            .arg(format!("{namespace}/ann"))
            .output()
            .unwrap();
        let list: Value = serde_json::from_slice(&printed.stdout).unwrap();
        for object in list["items"].as_array().unwrap() {
            let resource = if object["kind"] == "Role" { ROLES } else { BINDINGS };
            self.admin.create::<Value>(&resource, namespace, object).await.unwrap();
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token: Value =
            self.admin.post(&ACCOUNTS, &Key::new(namespace, "ann"), "token", &request).await.unwrap();
        let text = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let mut config: Value = serde_saphyr::from_str(&text).unwrap();
        config["users"][0]["user"] = json!({"token": token["status"]["token"]});
        let path = self.path("ann");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// What is there of a cluster, by its label alone.
    async fn remains(&self, namespace: &str, cluster: &str) -> Vec<String> {
        let mut all = Vec::new();
        let selection = Selection::namespace(namespace).labels(&format!("trellis.dev/cluster={cluster}"));
        for kind in KINDS {
            let found: Vec<Value> = self.admin.list(&kind, &selection).await.unwrap();
            all.extend(found.iter().map(|one| format!("{} {}", kind.kind, one["metadata"]["name"])));
        }
        all
    }

    fn manifests(&self, cluster: &str, namespace: &str) -> PathBuf {
        let pool = |name: &str, role: &str, replicas: u32| {
            json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "MachinePool", "metadata": {"name": format!("{cluster}-{name}")},
                "spec": {
                    "cluster": cluster, "role": role, "replicas": replicas,
                    "template": {
                        "shape": {"custom": {"cpu": {"topology": {"sockets": 2}}, "memory": {"guest": "2Gi"}}},
                        "image": {"os": "flatcar", "source": {"registry": {"url": "docker://lab.trellis.dev/images/flatcar:stable"}}},
                        "rootDisk": {"size": "20Gi"},
                    },
                },
            })
        };
        let documents = [
            json!({
                "apiVersion": "trellis.dev/v1alpha1", "kind": "TenantCluster", "metadata": {"name": cluster},
                "spec": {
                    "platform": {"kubevirt": {"namespace": namespace, "storage": {"class": "replicated"}}},
                    "version": "1.34.2",
                    "network": {"pods": [{"cidr": "172.26.0.0/16"}], "services": ["10.241.0.0/20"]},
                },
            }),
            pool("m", "control-plane", 1),
            pool("w", "worker", 1),
        ];
        let path = self.path(&format!("{cluster}.yaml"));
        let text: Vec<String> = documents.iter().map(|document| format!("---\n{document}\n")).collect();
        std::fs::write(&path, text.concat()).unwrap();
        path
    }

    fn trellis(&self, words: &[&str], dir: &str, kubeconfig: &Path) -> Command {
        let mut command = binary();
        command.args(words).arg("--dir").arg(self.path(dir)).arg("--kubeconfig").arg(kubeconfig);
        command
    }

    /// The nodes of the tenant of a folder that are ready.
    async fn ready_nodes(&self, dir: &str) -> usize {
        let tenant = site(&self.path(dir).join("auth/kubeconfig")).await;
        let nodes: Vec<Value> = tenant.list(&NODES, &Selection::default()).await.unwrap();
        let is_ready = |node: &&Value| {
            let conditions = node["status"]["conditions"].as_array().unwrap();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        nodes.iter().filter(is_ready).count()
    }
}

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Nothing of ours is installed, a person has rights in one namespace, and two clusters share it.
#[tokio::test(flavor = "multi_thread")]
async fn rights_in_one_namespace_are_enough_for_two_clusters_that_go_one_by_one() {
    let stage = Stage::start().await;
    stage.namespace("team").await;
    let ann = stage.person("team").await;
    let blue = stage.manifests("blue", "team");
    let mut create = stage.trellis(&["create", "cluster", "-o", "json"], "blue", &ann);
    create.arg("-f").arg(&blue);
    // It is ended without a chance to tidy up, as soon as there is a machine.
    let mut begun = start(&mut create, |line| line.contains("\"reason\":\"Bootstrapping\""));
    eventually("a machine", async || {
        let all: Vec<Value> = stage.admin.list(&VMS, &Selection::namespace("team")).await.unwrap();
        (!all.is_empty()).then_some(())
    })
    .await;
    begun.0.kill().unwrap();
    begun.0.wait().unwrap();
    let waited = stage.trellis(&["wait-for", "install-complete"], "blue", &ann).output().unwrap();
    assert_eq!(waited.status.code(), Some(12), "nobody looks after it: {}", said(&waited));
    // Meanwhile nothing is lost: the same command goes on, now from the folder.
    let output = stage.trellis(&["create", "cluster", "--timeout", "4m"], "blue", &ann).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("its objects are in the folder"), "{}", said(&output));
    assert_eq!(stage.ready_nodes("blue").await, 2);
    let waited = stage.trellis(&["wait-for", "install-complete"], "blue", &ann).output().unwrap();
    assert!(waited.status.success(), "{}", said(&waited));
    // What shows how it is comes without secrets, and from all three places.
    let gathered = stage.trellis(&["gather", "-o", "json"], "blue", &ann).output().unwrap();
    assert!(gathered.status.success(), "{}", said(&gathered));
    let gathered: Value = serde_json::from_slice(&gathered.stdout).unwrap();
    let opened = stage.path("opened");
    std::fs::create_dir(&opened).unwrap();
    let archive = gathered["archive"].as_str().unwrap();
    let tar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&opened).status().unwrap();
    assert!(tar.success());
    let text = |name: &str| {
        let folder = std::fs::read_dir(&opened).unwrap().next().unwrap().unwrap().path();
        std::fs::read_to_string(folder.join(name)).unwrap()
    };
    assert!(text("infra/virtualmachines.yaml").contains("blue-blue-m-"));
    assert!(text("control/tenantclusters.yaml").contains("InstallComplete"));
    assert!(text("tenant/nodes.yaml").contains("kind: Node"));
    assert!(text("infra/secrets.yaml").contains("<removed, "));
    let red = stage.manifests("red", "team");
    let output = stage
        .trellis(&["create", "cluster", "--timeout", "4m"], "red", &ann)
        .arg("-f")
        .arg(&red)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // Another cluster has no place in this folder.
    let output = stage.trellis(&["create", "cluster"], "blue", &ann).arg("-f").arg(&red).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    // Looking changes nothing, and nobody is asked where nobody can answer.
    let before = stage.remains("team", "red").await;
    let looked = stage.trellis(&["destroy", "cluster", "--dry-run"], "blue", &ann).output().unwrap();
    assert!(looked.status.success() && said(&looked).contains("VirtualMachines: blue-"), "{}", said(&looked));
    assert!(!said(&looked).contains("red"), "{}", said(&looked));
    let asked = stage.trellis(&["destroy", "cluster"], "blue", &ann).output().unwrap();
    assert_eq!(asked.status.code(), Some(2), "{}", said(&asked));
    let gone = stage.trellis(&["destroy", "cluster", "--yes"], "blue", &ann).output().unwrap();
    assert!(gone.status.success() && said(&gone).contains("nothing of blue is left"), "{}", said(&gone));
    assert_eq!(stage.remains("team", "blue").await, Vec::<String>::new());
    assert_eq!(stage.remains("team", "red").await, before, "the other one stays as it was");
    assert_eq!(stage.ready_nodes("red").await, 2);
    assert!(!stage.path("blue/control").exists() && !stage.path("blue/metadata.json").exists());
    // By its id alone, without the folder.
    let mut command = binary();
    command.args([
        "destroy",
        "cluster",
        "--cluster-id",
        "red",
        "--namespace",
        "team",
        "--yes",
        "--kubeconfig",
    ]);
    let gone = command.arg(&ann).output().unwrap();
    assert!(gone.status.success(), "{}", said(&gone));
    assert_eq!(stage.remains("team", "red").await, Vec::<String>::new());
    let again = stage.trellis(&["destroy", "cluster", "--yes"], "red", &ann).output().unwrap();
    assert!(again.status.success(), "what is gone may be destroyed again: {}", said(&again));
}

/// Where the infra cluster serves our kinds, they are there, controllers take over, and deleting the object is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_objects_are_in_the_infra_cluster_goes_with_its_object() {
    let stage = Stage::start().await;
    for crd in trellis_api::trellis::crds() {
        stage.admin.create::<Value>(&DEFINITIONS, "", &crd).await.unwrap();
    }
    let file = stage.manifests("green", "green");
    let admin = stage.kubeconfig.clone();
    let output = stage
        .trellis(&["create", "cluster", "--timeout", "4m"], "green", &admin)
        .arg("-f")
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("its objects are in the infra cluster"), "{}", said(&output));
    assert!(!stage.path("green/control").exists());
    let key = Key::new("green", "green");
    let cluster: Value = stage.admin.get(&CLUSTERS, &key).await.unwrap();
    let annotations = &cluster["metadata"]["annotations"];
    assert!(annotations["trellis.dev/reserved-for"].is_null(), "others may look after it: {cluster}");
    assert_eq!(cluster["metadata"]["finalizers"], json!(["trellis.dev/teardown"]));
    // A controller takes over, and takes everything away when the object is deleted.
    let mut command = binary();
    command.args(["controller", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(&admin);
    let controller = start(&mut command, |line| line.starts_with("Looks after"));
    let uid = cluster["metadata"]["uid"].as_str().unwrap();
    stage.admin.delete(&CLUSTERS, &key, &Delete::uid(uid)).await.unwrap();
    eventually("the object is gone", async || {
        stage.admin.find::<Value>(&CLUSTERS, &key).await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(stage.remains("green", "green").await, Vec::<String>::new());
    for kind in [POOLS, MACHINES] {
        let left: Vec<Value> = stage.admin.list(&kind, &Selection::namespace("green")).await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
    drop(controller);
}

/// The survey without a terminal: everything that is wrong at once, and then a file that makes a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn flags_answer_the_survey_and_what_it_writes_makes_a_cluster() {
    let stage = Stage::start().await;
    let admin = stage.kubeconfig.clone();
    let config = ["create", "install-config"];
    let bad = stage
        .trellis(&config, "oc", &admin)
        .args(["--storage-class", "nowhere", "--masters", "2"])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(2), "{}", said(&bad));
    for part in [
        "--namespace: it is missing",
        "\"nowhere\" is no storage class; there are ",
        "--masters 2: ",
        "--image: ",
    ] {
        assert!(said(&bad).contains(part), "{part} is not in {}", said(&bad));
    }
    assert!(!stage.path("oc").exists());
    let image = "docker://lab.trellis.dev/images/rhcos:stable";
    let size = "2,2Gi,20Gi";
    let flags = [
        "--namespace",
        "oc",
        "--storage-class",
        "replicated",
        "--masters",
        "1",
        "--workers",
        "1",
        "--image",
        image,
    ];
    let mut command = stage.trellis(&config, "oc", &admin);
    command.args(flags).args(["--master-size", size, "--worker-size", size]);
    command.args(["--pod-network", "172.26.0.0/16", "--service-network", "10.241.0.0/20"]);
    let good = command.output().unwrap();
    assert!(good.status.success() && said(&good).contains("--image docker://"), "{}", said(&good));
    let again = command.output().unwrap();
    assert_eq!(again.status.code(), Some(5), "what is there is not written over: {}", said(&again));
    let create = ["create", "cluster", "--timeout", "4m", "--image", image];
    let output = stage.trellis(&create, "oc", &admin).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(stage.ready_nodes("oc").await, 2);
    // Day 2 goes on from the folder: another worker, and nobody else may have the folder meanwhile.
    let mut command = binary();
    command
        .args(["controller", "--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(&admin)
        .arg("--dir")
        .arg(stage.path("oc"));
    let controller = start(&mut command, |line| line.starts_with("Looks after"));
    let mut scale = binary();
    scale.args(["scale", "worker", "-n", "oc", "--replicas", "2", "--kubeconfig"]);
    let scaled = scale.arg(stage.path("oc/control/kubeconfig")).output().unwrap();
    assert!(scaled.status.success(), "{}", said(&scaled));
    eventually("another worker", async || (stage.ready_nodes("oc").await == 3).then_some(())).await;
    let waited =
        stage.trellis(&["wait-for", "install-complete", "--timeout", "2m"], "oc", &admin).output().unwrap();
    assert!(waited.status.success(), "{}", said(&waited));
    // Whoever looks after it takes it away.
    let gone = stage.trellis(&["destroy", "cluster", "--yes"], "oc", &admin).output().unwrap();
    assert!(gone.status.success(), "{}", said(&gone));
    assert_eq!(stage.remains("oc", "oc").await, Vec::<String>::new());
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_said_before_anything_is_made() {
    let stage = Stage::start().await;
    let admin = stage.kubeconfig.clone();
    let empty = stage.trellis(&["create", "cluster"], "empty", &admin).output().unwrap();
    assert_eq!(empty.status.code(), Some(4));
    assert!(said(&empty).contains("create install-config"), "{}", said(&empty));
    let missing = stage.trellis(&["destroy", "cluster", "--yes"], "empty", &admin).output().unwrap();
    assert_eq!(missing.status.code(), Some(4), "{}", said(&missing));
    // A storage class that does not exist is found by the preflight, and nothing is made.
    let file = stage.manifests("gray", "gray");
    let text = std::fs::read_to_string(&file).unwrap().replace("replicated", "nowhere");
    std::fs::write(&file, text).unwrap();
    let unfit = stage.trellis(&["create", "cluster"], "gray", &admin).arg("-f").arg(&file).output().unwrap();
    assert_eq!(unfit.status.code(), Some(13), "{}", said(&unfit));
    assert!(said(&unfit).contains("FAILED") && said(&unfit).contains("nowhere"), "{}", said(&unfit));
    assert!(stage.admin.find::<Value>(&NAMESPACES, &Key::cluster("gray")).await.unwrap().is_none());
    assert!(!stage.path("gray").exists());
    // Time runs out with the last reason, and the same command goes on.
    let file = stage.manifests("late", "late");
    let create = ["create", "cluster", "--timeout", "0s"];
    let late = stage.trellis(&create, "late", &admin).arg("-f").arg(&file).output().unwrap();
    assert_eq!(late.status.code(), Some(11), "{}", said(&late));
    assert!(said(&late).contains("late is not bootstrap-complete after"), "{}", said(&late));
    let nobody = stage.trellis(&["destroy", "bootstrap", "--yes"], "late", &admin).output().unwrap();
    assert_eq!(nobody.status.code(), Some(5), "the control plane needs it: {}", said(&nobody));
}
