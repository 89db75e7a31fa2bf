//! Programs as people start them: labs, controllers and commands, each a process of its own, and somebody who plays the
//! kubelets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::Source;
use trellis_runtime::{Key, Resource, Selection, Site};

pub(crate) const CONTROL: &str = "machines";
pub(crate) const CLUSTER: &str = "blue";
pub(crate) const POOLS: Resource =
    Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
pub(crate) const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
pub(crate) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const DEFINITIONS: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
const INSTANCES: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance");

/// How long anything may take; far more than it does, for machines that are busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// A program that ends with this.
pub(crate) struct Program {
    child: Child,
    /// What it said when it was ready.
    ready: String,
}

impl Program {
    /// Ends it at once: it gets no chance to tidy up.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it is the one of several controllers that looks after the tenant, as its numbers say.
    pub(crate) fn acts(&self) -> bool {
        let address = self.ready.rsplit(" on ").next().unwrap().trim_end_matches('.');
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page.lines().any(|line| line == "trellis_tenants 1")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    // Nothing of whoever runs the tests.
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Starts a program that says when it is ready, and waits for that.
fn start(command: &mut Command, ready: impl Fn(&str) -> bool) -> Program {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.by_ref().map_while(Result::ok).find(|line| ready(line));
    let ready = said.unwrap_or_else(|| panic!("it ended before it was ready: {command:?}"));
    // Whatever else it says is read, so that it never waits for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    Program { child, ready }
}

/// A lab in a process of its own.
pub(crate) struct Lab {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) site: Site,
    _program: Program,
}

impl Lab {
    pub(crate) async fn start(folder: &Path, name: &str, flags: &[&str]) -> Self {
        let dir = folder.join(name);
        let mut command = binary();
        command.args(["lab", "--memory", "--dir"]).arg(&dir).args(flags);
        let program = start(&mut command, |line| line.starts_with("Ctrl-C"));
        let kubeconfig = dir.join("kubeconfig");
        let source = Source::File { path: kubeconfig.clone(), context: None };
        let site = source.connect(name, Manners::default()).await.unwrap().site;
        Self { kubeconfig, site, _program: program }
    }

    /// Makes a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        self.site.create::<Value>(&NAMESPACES, "", &json!({"metadata": {"name": name}})).await.unwrap();
    }

    /// Installs the kinds of all machine APIs, and waits until they are served.
    pub(crate) async fn install(&self) {
        let all = trellis_api::machine_crds::machine_crds().into_iter().chain(trellis_api::trellis::crds());
        for crd in all {
            let made: Value = self.site.create(&DEFINITIONS, "", &crd).await.unwrap();
            let key = Key::cluster(made["metadata"]["name"].as_str().unwrap());
            eventually("a kind is served", async || {
                let crd: Value = self.site.get(&DEFINITIONS, &key).await.unwrap();
                let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions
                    .iter()
                    .any(|one| one["type"] == "Established" && one["status"] == "True")
                    .then_some(())
            })
            .await;
        }
    }

    /// Runs a command against it, in the namespace of the machine objects.
    pub(crate) fn trellis(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().unwrap();
        Said::of(&output)
    }

    /// The same, to be started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = binary();
        command.args(args).arg("--kubeconfig").arg(&self.kubeconfig);
        if !args.contains(&"-n") && !args.contains(&"-A") {
            command.args(["-n", CONTROL]);
        }
        command
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// What was printed, of a command that succeeded.
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// What was printed for programs, of a command that succeeded.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.well()).unwrap()
    }

    /// What was complained about, of a command that ended with this code.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err
    }
}

/// Waits until something is there.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An infra cluster that also has the machine objects, and a tenant.
pub(crate) struct Stage {
    _folder: tempfile::TempDir,
    pub(crate) infra: Lab,
    pub(crate) tenant: Lab,
    _kubelets: tokio::task::JoinSet<()>,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let infra = Lab::start(folder.path(), "infra", &["--profile", "instant", "--seed", "1"]).await;
        let tenant = Lab::start(folder.path(), "tenant", &["--api-only"]).await;
        infra.install().await;
        for namespace in [CONTROL, CLUSTER, "cloud-init-settings"] {
            infra.namespace(namespace).await;
        }
        let data = json!({"metadata": {"name": "join"}, "stringData": {"userData": "#cloud-config\n{}\n"}});
        infra.site.create::<Value>(&SECRETS, CONTROL, &data).await.unwrap();
        let mut kubelets = tokio::task::JoinSet::new();
        kubelets.spawn(play_kubelets(infra.site.clone(), tenant.site.clone()));
        Self { _folder: folder, infra, tenant, _kubelets: kubelets }
    }

    /// Starts a controller; `host` is what its identity in the lease begins with.
    pub(crate) fn controller(&self, family: &str, host: &str) -> Program {
        let mut command = binary();
        command.env("HOSTNAME", host).args(["controller", "--cluster", CLUSTER, "--family", family]);
        command.args(["--namespace", CONTROL, "--infra-namespace", CLUSTER, "--listen", "127.0.0.1:0"]);
        command.arg("--kubeconfig").arg(&self.infra.kubeconfig);
        command.arg("--tenant-kubeconfig").arg(&self.tenant.kubeconfig);
        start(&mut command, |line| line.starts_with("Looks after"))
    }

    /// Makes a pool of ours.
    pub(crate) async fn pool(&self, name: &str, replicas: u32) {
        self.infra.site.create::<Value>(&POOLS, CONTROL, &pool(name, replicas)).await.unwrap();
    }

    /// Gives a pool another image: all its machines are replaced.
    pub(crate) async fn image(&self, name: &str, tag: &str) {
        let url = format!("docker://registry.example/ubuntu:{tag}");
        let patch = json!({"spec": {"template": {"image": {"source": {"registry": {"url": url}}}}}});
        self.infra.site.merge_patch::<Value>(&POOLS, &Key::new(CONTROL, name), &patch).await.unwrap();
    }

    /// The machines, as programs see them.
    pub(crate) fn machines(&self) -> Vec<Value> {
        let said = self.infra.trellis(&["get", "machines", "-o", "json"]).json();
        said["machines"].as_array().unwrap().clone()
    }
}

/// A pool of ours, whose machines can move.
pub(crate) fn pool(name: &str, replicas: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "cluster": CLUSTER,
            "replicas": replicas,
            "update": {"historyLimit": 5},
            "template": {
                "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                "image": {"os": "ubuntu", "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}}},
                "rootDisk": {"size": "10Gi", "storage": {"accessMode": "ReadWriteMany"}},
                "eviction": "LiveMigrate",
                "userData": {"secret": "join"},
            },
        },
    })
}

/// Every VM that runs has a Node in the tenant that is ready.
async fn play_kubelets(infra: Site, tenant: Site) {
    loop {
        let instances: Vec<Value> =
            infra.list(&INSTANCES, &Selection::namespace(CLUSTER)).await.unwrap_or_default();
        for instance in instances {
            let runs = instance["status"]["phase"] == "Running";
            if runs && instance["metadata"].get("deletionTimestamp").is_none() {
                play_kubelet(&tenant, &instance).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn play_kubelet(tenant: &Site, instance: &Value) {
    let name = instance["metadata"]["name"].as_str().unwrap();
    let uuid = &instance["spec"]["domain"]["firmware"]["uuid"];
    let key = Key::cluster(name);
    if tenant.find::<Value>(&NODES, &key).await.unwrap_or_default().is_some() {
        return;
    }
    let _ = tenant.create::<Value>(&NODES, "", &json!({"metadata": {"name": name}})).await;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"status": {
        "nodeInfo": {
            "systemUUID": uuid, "kubeletVersion": "v1.34.2", "machineID": "", "bootID": "", "kernelVersion": "",
            "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        }],
    }});
    let _ = tenant.merge_patch_status::<Value>(&NODES, &key, &status).await;
}
