//! A cluster to render.

use std::path::PathBuf;

use jiff::Timestamp;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use trellis_bootstrap::machine::Config;
use trellis_bootstrap::site::{Member, Program};
use trellis_bootstrap::tokens::{Bearer, LONGEST, Token};
use trellis_bootstrap::vip::RouterIds;
use trellis_bootstrap::{Bundle, Secret, Site, render};
use trellis_model::Pool;
use trellis_model::image::OperatingSystem;
use trellis_model::names::MachineName;

/// The time in tests.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

pub(crate) fn name(text: &str) -> MachineName {
    MachineName::new(text).unwrap()
}

/// The operating systems that can be bootstrapped.
pub(crate) const SYSTEMS: &[OperatingSystem] = &[
    OperatingSystem::Flatcar,
    OperatingSystem::FedoraCoreos,
    OperatingSystem::Rhcos,
    OperatingSystem::Ubuntu,
    OperatingSystem::Debian,
    OperatingSystem::RockyLinux,
    OperatingSystem::Centos,
];

/// How a cluster's machines are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pod,
    Secondary,
}

pub(crate) fn pool(name: &str, role: &str, os: OperatingSystem) -> Pool {
    serde_json::from_value(json!({
        "name": name,
        "namespace": null,
        "spec": {
            "cluster": "demo",
            "role": role,
            "replicas": 3,
            "nodeLabels": {"example.com/tier": "one", "node-role.kubernetes.io/infra": ""},
            "nodeTaints": if role == "worker" { json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]) } else { json!([]) },
            "template": {
                "shape": {"flavor": "medium"},
                "image": {"os": os},
                "rootDisk": {"size": "20Gi"},
            },
        },
    }))
    .unwrap()
}

/// A cluster with three members of the control plane and a bootstrap machine.
pub(crate) fn site(os: OperatingSystem, mode: Mode) -> Site {
    let network = match mode {
        Mode::Pod => {
            json!({"services": ["172.30.0.0/16"], "pods": [{"cidr": "10.128.0.0/14", "nodePrefix": 23}]})
        }
        Mode::Secondary => json!({
            "attachPodNetwork": false,
            "machineNetworks": [{"name": "vlan", "source": {"shared": {"name": "vlan"}}, "default": true}],
            "apiVips": ["192.0.2.10", "2001:db8::10"],
            "ingressVips": ["192.0.2.11"],
        }),
    };
    let cluster = serde_json::from_value(json!({
        "name": "demo",
        "namespace": null,
        "spec": {
            "platform": {"kubevirt": {}},
            "version": "1.37.1",
            "baseDomain": "svc.cluster.local",
            "network": network,
            "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA me@here"],
        },
    }))
    .unwrap();
    let pools = vec![pool("masters", "control-plane", os), pool("workers", "worker", os)];
    let mut site = Site::new(cluster, pools);
    let member = |text: &str, last: u8| Member {
        address: (mode == Mode::Secondary).then(|| [192, 0, 2, last].into()),
        ..Member::new(name(text))
    };
    site.masters = vec![member("m0", 20), member("m1", 21), member("m2", 22)];
    site.bootstrap = Some(member("bootstrap", 19));
    site.router_ids = RouterIds::allocate("demo", &[].into());
    site.sources.trellis =
        Some(Program { url: "https://example.com/trellis".to_owned(), sha256: "0".repeat(64) });
    site
}

/// Everything that is known of a cluster, with the certificates of its machines.
pub(crate) struct Known {
    pub(crate) site: Site,
    pub(crate) bundle: Bundle,
    pub(crate) token: Token,
}

impl Known {
    pub(crate) fn new(site: Site) -> Self {
        Self::at(site, now())
    }

    /// Made at another time: who checks certificates for real looks at the real clock.
    pub(crate) fn at(site: Site, now: Timestamp) -> Self {
        let mut rng = rng();
        let mut bundle = Bundle::new(&site.names, &mut rng, now).unwrap();
        for master in &site.masters {
            bundle.ensure_master(&site.names, &master.name, &mut rng, now).unwrap();
        }
        bundle.ensure_node(&name("w0"), &mut rng, now).unwrap();
        let bearer = Bearer::Machine { name: name("m0"), pool: site.pools[0].name.clone() };
        let token = bundle.token_key().unwrap().issue(bearer, LONGEST, &mut rng, now);
        Self { site, bundle, token }
    }

    pub(crate) fn master(&self, machine: &str) -> Config {
        render::master(&self.site, &self.site.pools[0], &self.bundle, &name(machine)).unwrap()
    }

    pub(crate) fn worker(&self) -> Config {
        render::worker(&self.site, &self.site.pools[1], &self.bundle, &name("w0")).unwrap()
    }

    pub(crate) fn bootstrap(&self) -> Config {
        let pool = &self.site.pools[0];
        render::bootstrap(&self.site, pool, &self.bundle, now()).unwrap()
    }

    pub(crate) fn stub(&self) -> Secret {
        render::stub(&self.site, &self.site.pools[0], &self.bundle, &name("m0"), &self.token).unwrap()
    }

    /// One machine of each kind.
    pub(crate) fn machines(&self) -> [(&'static str, Config); 3] {
        [("bootstrap", self.bootstrap()), ("master", self.master("m0")), ("worker", self.worker())]
    }
}

/// The command line of a static pod.
pub(crate) fn command(config: &Config, pod: &str) -> Vec<String> {
    let text = config.content(&format!("/etc/kubernetes/manifests/{pod}.yaml")).unwrap();
    let manifest: Value = serde_saphyr::from_str(text).unwrap();
    serde_json::from_value(manifest["spec"]["containers"][0]["command"].clone()).unwrap()
}

/// A program of this machine; where there is none, the test is told why it ends.
///
/// `TRELLIS_BOOTSTRAP=real` makes a missing program a failure: nothing is skipped then.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).chain(parts());
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    if found.is_none() {
        let real = std::env::var_os("TRELLIS_BOOTSTRAP").is_some_and(|value| value == "real");
        assert!(!real, "{program} is not here");
        eprintln!("skipped: {program} is not here");
    }
    found
}

/// The folder of the real Kubernetes programs, if they were built.
pub(crate) fn parts() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = variable("TRELLIS_REAL_PARTS") {
        return Some(named);
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    let folders = std::fs::read_dir(cache.join("trellis/real-parts")).ok()?.flatten();
    let whole = folders.filter(|folder| folder.path().join("coredns").is_file());
    whole
        .max_by_key(|folder| folder.metadata().and_then(|data| data.modified()).ok())
        .map(|folder| folder.path())
}
