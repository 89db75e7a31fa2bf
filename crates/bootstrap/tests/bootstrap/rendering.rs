//! What is on a machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use trellis_bootstrap::machine::Config;
use trellis_bootstrap::render::{self, RenderError};
use trellis_model::image::{FirstBoot, OperatingSystem};

use crate::site::{Known, Mode, SYSTEMS, command, name, pool, site};

fn known(mode: Mode) -> Known {
    Known::new(site(OperatingSystem::Flatcar, mode))
}

/// The layout of kubeadm below `/etc/kubernetes`, but for keys.
const LAYOUT: &[&str] = &[
    "pki/ca",
    "pki/apiserver",
    "pki/apiserver-kubelet-client",
    "pki/apiserver-etcd-client",
    "pki/front-proxy-ca",
    "pki/front-proxy-client",
    "pki/etcd/ca",
    "pki/etcd/server",
    "pki/etcd/peer",
    "pki/etcd/healthcheck-client",
];

#[test]
fn a_master_has_the_layout_of_kubeadm() {
    for mode in [Mode::Pod, Mode::Secondary] {
        let master = known(mode).master("m1");
        let mode_of = |path: &str| master.files.iter().find(|file| file.path == path).map(|file| file.mode);
        for name in LAYOUT {
            assert_eq!(mode_of(&format!("/etc/kubernetes/{name}.crt")), Some(0o644), "{name}");
            assert_eq!(mode_of(&format!("/etc/kubernetes/{name}.key")), Some(0o600), "{name}");
        }
        assert_eq!(mode_of("/etc/kubernetes/pki/sa.key"), Some(0o600));
        assert!(master.content("/etc/kubernetes/pki/sa.pub").unwrap().contains("BEGIN PUBLIC KEY"));
        for pod in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            assert_eq!(command(&master, pod)[0], pod);
        }
        for kubeconfig in ["admin", "kubelet", "controller-manager", "scheduler"] {
            let path = format!("/etc/kubernetes/{kubeconfig}.conf");
            assert_eq!(mode_of(&path), Some(0o600), "{path}");
            let document: Value = serde_saphyr::from_str(master.content(&path).unwrap()).unwrap();
            let server = &document["clusters"][0]["cluster"]["server"];
            assert_eq!(server, "https://api-int.demo.svc.cluster.local:6443");
        }
        assert!(master.units.iter().any(|unit| unit.name == "kubelet.service" && unit.enabled));
        // Each path is written once.
        let mut paths: Vec<&str> = master.files.iter().map(|file| file.path.as_str()).collect();
        paths.sort_unstable();
        let all = paths.len();
        paths.dedup();
        assert_eq!(paths.len(), all);
    }
}

#[test]
fn members_of_etcd_know_each_other_by_name() {
    let mut known = known(Mode::Pod);
    let flag = |config: &Config, name: &str| {
        let prefix = format!("--{name}=");
        command(config, "etcd")
            .iter()
            .find_map(|flag| flag.strip_prefix(&prefix).map(ToOwned::to_owned))
            .unwrap()
    };
    let cluster = "m0=https://m0.demo.svc.cluster.local:2380,m1=https://m1.demo.svc.cluster.local:2380,m2=https://m2.demo.svc.cluster.local:2380";
    let master = known.master("m1");
    assert_eq!(flag(&master, "initial-cluster"), cluster);
    assert_eq!(flag(&master, "initial-cluster-state"), "new");
    assert_eq!(flag(&master, "advertise-client-urls"), "https://m1.demo.svc.cluster.local:2379");
    known.site.masters[2].joins = true;
    assert_eq!(flag(&known.master("m2"), "initial-cluster-state"), "existing");
    assert_eq!(flag(&known.master("m2"), "initial-cluster"), cluster);
}

#[test]
fn workers_have_no_key_of_an_authority() {
    let known = known(Mode::Pod);
    let worker = known.worker();
    assert!(
        worker
            .files
            .iter()
            .all(|file| !file.path.contains("ca.key") && !file.path.contains("machine-config"))
    );
    let config: Value =
        serde_saphyr::from_str(worker.content("/var/lib/kubelet/config.yaml").unwrap()).unwrap();
    assert_eq!(config["registerWithTaints"][0]["key"], "dedicated");
    assert_eq!(config["clusterDNS"][0], "172.30.0.10");
    let unit = worker.units.iter().find(|unit| unit.name == "kubelet.service").unwrap();
    let text = unit.text.as_ref().unwrap();
    assert!(
        text.contains("--node-labels=example.com/tier=one\n"),
        "a label the kubelet refuses is left out: {text}"
    );
    let master = known.master("m0");
    let config: Value =
        serde_saphyr::from_str(master.content("/var/lib/kubelet/config.yaml").unwrap()).unwrap();
    assert_eq!(config["registerWithTaints"][0]["key"], "node-role.kubernetes.io/control-plane");
}

#[test]
fn the_bootstrap_machine_has_a_ledger_of_its_own_and_masters_share_one() {
    let known = known(Mode::Pod);
    let folder = "/etc/trellis/machine-config";
    let bootstrap = known.bootstrap();
    assert!(bootstrap.units.iter().any(|unit| unit.name == "bootkube.service" && unit.enabled));
    assert!(bootstrap.content(&format!("{folder}/ledger.json")).unwrap().contains("opened"));
    let master = known.master("m0");
    for left in ["ledger.json", "site.json"] {
        assert_eq!(master.content(&format!("{folder}/{left}")), None);
    }
    let unit = master.units.iter().find(|unit| unit.name == "trellis-machine-config-server.service").unwrap();
    let credentials = "/etc/kubernetes/machine-config-server.conf";
    assert!(unit.enabled && unit.text.as_ref().unwrap().contains(&format!("--shared-ledger {credentials}")));
    assert!(master.content(credentials).unwrap().contains("trellis:machine-config-server"));
    // They may use the one Secret, and the first of them sees to that.
    let given = master.content("/etc/trellis/given.yaml").unwrap();
    let given: Vec<Value> = serde_saphyr::from_multiple(given).unwrap();
    let role = given.iter().find(|one| one["kind"] == "Role").unwrap();
    assert_eq!(role["rules"][0]["resourceNames"][0], "trellis-machine-config");
    assert_eq!(role["rules"][0]["verbs"], serde_json::json!(["get", "patch"]));
    assert_eq!(known.master("m1").content("/etc/trellis/given.yaml"), None);
}

#[test]
fn the_api_is_behind_a_balancer_where_machines_keep_its_address() {
    let port = |config: &Config| {
        command(config, "kube-apiserver")
            .iter()
            .find_map(|flag| flag.strip_prefix("--secure-port=").map(ToOwned::to_owned))
    };
    let pod = known(Mode::Pod).master("m0");
    assert_eq!(port(&pod).as_deref(), Some("6443"));
    assert_eq!(pod.content("/etc/keepalived/keepalived.conf"), None);
    let secondary = known(Mode::Secondary);
    let master = secondary.master("m0");
    assert_eq!(port(&master).as_deref(), Some("6444"));
    assert!(command(&master, "kube-apiserver").contains(&"--advertise-address=192.0.2.20".to_owned()));
    let keepalived = master.content("/etc/keepalived/keepalived.conf").unwrap();
    for peer in ["192.0.2.19", "192.0.2.21", "192.0.2.22"] {
        assert!(keepalived.contains(&format!("        {peer}\n")), "{keepalived}");
    }
    assert!(keepalived.contains("priority 40\n"));
    assert!(
        secondary.bootstrap().content("/etc/keepalived/keepalived.conf").unwrap().contains("priority 70\n")
    );
    let worker = secondary.worker();
    assert!(worker.content("/etc/keepalived/keepalived.conf").unwrap().contains("192.0.2.11/32"));
    assert!(worker.content("/etc/hosts").unwrap().contains("192.0.2.10 api-int.demo.svc.cluster.local\n"));
    // The bootstrap machine passes the API on in both modes.
    let haproxy = known(Mode::Pod).bootstrap().content("/etc/haproxy/haproxy.cfg").unwrap().to_owned();
    assert!(haproxy.contains("server m2 m2.demo.svc.cluster.local:6443 "), "{haproxy}");
}

#[test]
fn every_problem_has_words() {
    let mut known = known(Mode::Secondary);
    let render = |known: &Known| {
        render::master(&known.site, &known.site.pools[0], &known.bundle, &name("m0")).map(drop)
    };
    let stranger = render::master(&known.site, &known.site.pools[0], &known.bundle, &name("m9")).unwrap_err();
    assert!(matches!(stranger, RenderError::NotAMember(who) if who == "m9"));
    known.site.masters[1].address = None;
    assert!(render(&known).unwrap_err().to_string().contains("m1 has no fixed address"));
    known.site.router_ids = None;
    assert!(matches!(render(&known), Err(RenderError::NoRouterIds)));
    known.site.sources.trellis = None;
    assert!(matches!(render(&known), Err(RenderError::NoProgram)));
    known.site.pools[0] = pool("masters", "control-plane", OperatingSystem::AmazonLinux2);
    assert!(render(&known).unwrap_err().to_string().contains("amzn2"));
}

/// The files of a machine as its operating system would write them.
fn written(os: OperatingSystem, text: &str) -> Vec<(String, Vec<u8>)> {
    match os.first_boot() {
        FirstBoot::Ignition => {
            let document: Value = serde_json::from_str(text).unwrap();
            let files = document["storage"]["files"].as_array().unwrap();
            let read = |file: &Value| {
                let source = file["contents"]["source"].as_str().unwrap();
                let bytes = STANDARD.decode(source.strip_prefix("data:;base64,").unwrap()).unwrap();
                (file["path"].as_str().unwrap().to_owned(), bytes)
            };
            files.iter().map(read).collect()
        }
        FirstBoot::CloudInit => {
            let document: Value = serde_saphyr::from_str(text).unwrap();
            let files = document["write_files"].as_array().unwrap();
            let read = |file: &Value| {
                let bytes = STANDARD.decode(file["content"].as_str().unwrap()).unwrap();
                (file["path"].as_str().unwrap().to_owned(), bytes)
            };
            files.iter().map(read).collect()
        }
    }
}

#[test]
fn both_families_write_the_same_files() {
    for &os in SYSTEMS {
        let known = Known::new(site(os, Mode::Secondary));
        for (kind, config) in known.machines() {
            let text = render::user_data(os, &config);
            let files = written(os, text.expose());
            for file in &config.files {
                let found = files.iter().find(|(path, _)| *path == file.path);
                let (_, bytes) = found.unwrap_or_else(|| panic!("{} of {os:?} {kind}", file.path));
                assert_eq!(bytes, file.content.expose().as_bytes(), "{} of {os:?} {kind}", file.path);
            }
        }
    }
}

#[test]
fn ignition_is_what_coreos_reads() {
    for &os in SYSTEMS.iter().filter(|os| os.first_boot() == FirstBoot::Ignition) {
        for mode in [Mode::Pod, Mode::Secondary] {
            let known = Known::new(site(os, mode));
            let machines = known.machines().map(|(kind, config)| (kind, render::user_data(os, &config)));
            for (kind, text) in machines.into_iter().chain([("stub", known.stub())]) {
                let (_, warnings) = ignition_config::Config::parse_slice(text.expose().as_bytes())
                    .unwrap_or_else(|error| panic!("{os:?} {kind}: {error}"));
                assert!(warnings.is_empty(), "{os:?} {kind}: {warnings:?}");
            }
        }
    }
}

#[test]
fn a_stub_says_where_to_ask_and_whom_to_trust() {
    for mode in [Mode::Pod, Mode::Secondary] {
        let known = known(mode);
        let stub: Value = serde_json::from_str(known.stub().expose()).unwrap();
        let replace = &stub["ignition"]["config"]["replace"];
        let expected = match mode {
            Mode::Pod => "https://api-int.demo.svc.cluster.local:22623/config/master",
            Mode::Secondary => "https://192.0.2.10:22623/config/master",
        };
        assert_eq!(replace["source"], expected);
        assert_eq!(replace["httpHeaders"][0]["value"], format!("Bearer {}", known.token.expose()));
        assert_eq!(replace["httpHeaders"][1]["value"], "m0");
        assert!(stub["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"].is_string());
    }
}
