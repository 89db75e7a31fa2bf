//! A tenant whose control plane is made of guests: its authorities, and what each of its machines reads at first boot.
//!
//! What is written here is what kubeadm leaves on a machine of a control plane: keys and certificates, kubeconfigs and
//! static pods, everything by names that stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
use trellis_engine::controllers::{EtcdBirth, MasterUserData, NewMaster};

/// Where kubeadm keeps keys and certificates.
const PKI: &str = "/etc/kubernetes/pki";

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// An authority.
pub struct Authority {
    /// Its own certificate and key.
    pub pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name = named(name, "");
        let certificate = params.self_signed(&key)?.pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        Ok(Self { pair, issuer: Issuer::new(params, key) })
    }

    /// A certificate for a server and a client, under these names.
    pub fn issue(&self, name: &str, group: &str, names: &[&str]) -> Result<Pair, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name = named(name, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

fn named(name: &str, group: &str) -> DistinguishedName {
    let mut out = DistinguishedName::new();
    if !group.is_empty() {
        out.push(DnType::OrganizationName, group);
    }
    out.push(DnType::CommonName, name);
    out
}

/// What a test does to the files of a machine before it gets them.
pub type Spoil = Arc<dyn Fn(&str, &mut BTreeMap<String, String>) + Send + Sync>;

/// The authorities of a tenant, from which machines of its control plane get their files.
pub struct Plane {
    domain: String,
    cluster: Authority,
    etcd: Authority,
    front_proxy: Authority,
    service_accounts: Pair,
    spoil: Option<Spoil>,
}

impl Plane {
    /// New authorities of a tenant whose names are below a domain.
    pub fn new(domain: &str) -> Result<Self, rcgen::Error> {
        let accounts = KeyPair::generate()?;
        Ok(Self {
            domain: domain.to_owned(),
            cluster: Authority::new("kubernetes")?,
            etcd: Authority::new("etcd-ca")?,
            front_proxy: Authority::new("front-proxy-ca")?,
            service_accounts: Pair { certificate: accounts.public_key_pem(), key: accounts.serialize_pem() },
            spoil: None,
        })
    }

    /// The same, with something wrong with the files of machines.
    #[must_use]
    pub fn spoiled(self, spoil: Spoil) -> Self {
        Self { spoil: Some(spoil), ..self }
    }

    /// The data of the Secret with which etcd is asked.
    pub fn etcd_credentials(&self) -> Result<Value, rcgen::Error> {
        let client = self.etcd.issue("trellis", "", &[])?;
        Ok(json!({
            "ca.crt": self.etcd.pair.certificate, "tls.crt": client.certificate, "tls.key": client.key,
        }))
    }

    /// The kubeconfig of an administrator.
    pub fn administrator(&self) -> Result<String, rcgen::Error> {
        self.kubeconfig("kubernetes-admin", "system:masters", "api")
    }

    fn kubeconfig(&self, user: &str, group: &str, endpoint: &str) -> Result<String, rcgen::Error> {
        let own = self.cluster.issue(user, group, &[])?;
        Ok(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://{endpoint}.{}:6443", self.domain),
                "certificate-authority-data": STANDARD.encode(&self.cluster.pair.certificate),
            }}],
            "users": [{"name": "u", "user": {
                "client-certificate-data": STANDARD.encode(own.certificate),
                "client-key-data": STANDARD.encode(own.key),
            }}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
        .to_string())
    }

    /// The files of a machine, by path.
    fn files(&self, master: &NewMaster) -> Result<BTreeMap<String, String>, rcgen::Error> {
        let (name, host) = (master.machine.as_str(), master.host.as_str());
        let own = [name, host, "localhost", "127.0.0.1"];
        let api = ["api", "api-int"].map(|endpoint| format!("{endpoint}.{}", self.domain));
        let names = [api[0].as_str(), api[1].as_str(), "kubernetes", "kubernetes.default.svc"];
        let of_api: Vec<&str> = own.into_iter().chain(names).collect();
        let pairs = [
            ("ca", self.cluster.pair.clone()),
            ("apiserver", self.cluster.issue("kube-apiserver", "", &of_api)?),
            (
                "apiserver-kubelet-client",
                self.cluster.issue("kube-apiserver-kubelet-client", "system:masters", &[])?,
            ),
            ("apiserver-etcd-client", self.etcd.issue("kube-apiserver-etcd-client", "", &[])?),
            ("front-proxy-ca", self.front_proxy.pair.clone()),
            ("front-proxy-client", self.front_proxy.issue("front-proxy-client", "", &[])?),
            ("etcd/ca", self.etcd.pair.clone()),
            ("etcd/server", self.etcd.issue(name, "", &own)?),
            ("etcd/peer", self.etcd.issue(name, "", &own)?),
            ("etcd/healthcheck-client", self.etcd.issue("kube-etcd-healthcheck-client", "", &[])?),
        ];
        let mut files = BTreeMap::new();
        for (path, pair) in pairs {
            files.insert(format!("{PKI}/{path}.crt"), pair.certificate);
            files.insert(format!("{PKI}/{path}.key"), pair.key);
        }
        files.insert(format!("{PKI}/sa.pub"), self.service_accounts.certificate.clone());
        files.insert(format!("{PKI}/sa.key"), self.service_accounts.key.clone());
        let node = format!("system:node:{name}");
        for (file, user, group) in [
            ("admin", "kubernetes-admin", "system:masters"),
            ("kubelet", node.as_str(), "system:nodes"),
            ("controller-manager", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
        ] {
            let endpoint = self.kubeconfig(user, group, "api-int")?;
            files.insert(format!("/etc/kubernetes/{file}.conf"), endpoint);
        }
        for (pod, flags) in [
            ("etcd", etcd_flags(master)),
            ("kube-apiserver", api_flags()),
            (
                "kube-controller-manager",
                vec!["kubeconfig=/etc/kubernetes/controller-manager.conf".to_owned()],
            ),
            ("kube-scheduler", vec!["kubeconfig=/etc/kubernetes/scheduler.conf".to_owned()]),
        ] {
            let command: Vec<String> = std::iter::once(pod.to_owned())
                .chain(flags.into_iter().map(|flag| format!("--{flag}")))
                .collect();
            let pod_json = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "kube-system"},
                "spec": {"hostNetwork": true, "containers": [{"name": pod, "command": command}]},
            });
            files.insert(format!("/etc/kubernetes/manifests/{pod}.yaml"), pod_json.to_string());
        }
        if let Some(spoil) = &self.spoil {
            spoil(name, &mut files);
        }
        Ok(files)
    }
}

fn etcd_flags(master: &NewMaster) -> Vec<String> {
    let (members, state) = match &master.etcd {
        EtcdBirth::New(members) => (members, "new"),
        EtcdBirth::Existing(members) => (members, "existing"),
    };
    let (name, host) = (&master.machine, &master.host);
    let initial: Vec<String> = members.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let mut flags: Vec<String> = [
        ("trusted-ca-file", "etcd/ca.crt"),
        ("cert-file", "etcd/server.crt"),
        ("key-file", "etcd/server.key"),
        ("peer-trusted-ca-file", "etcd/ca.crt"),
        ("peer-cert-file", "etcd/peer.crt"),
        ("peer-key-file", "etcd/peer.key"),
    ]
    .map(|(flag, file)| format!("{flag}={PKI}/{file}"))
    .to_vec();
    flags.extend([
        format!("name={name}"),
        "data-dir=/var/lib/etcd".to_owned(),
        format!("initial-cluster={}", initial.join(",")),
        format!("initial-cluster-state={state}"),
        format!("initial-cluster-token={}", master.cluster.name),
        format!("initial-advertise-peer-urls=https://{host}:2380"),
        "listen-peer-urls=https://0.0.0.0:2380".to_owned(),
        "listen-client-urls=https://0.0.0.0:2379".to_owned(),
        format!("advertise-client-urls=https://{host}:2379"),
        "client-cert-auth=true".to_owned(),
        "peer-client-cert-auth=true".to_owned(),
    ]);
    flags
}

fn api_flags() -> Vec<String> {
    let files = [
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("client-ca-file", "ca.crt"),
        ("requestheader-client-ca-file", "front-proxy-ca.crt"),
        ("proxy-client-cert-file", "front-proxy-client.crt"),
        ("proxy-client-key-file", "front-proxy-client.key"),
        ("kubelet-client-certificate", "apiserver-kubelet-client.crt"),
        ("kubelet-client-key", "apiserver-kubelet-client.key"),
        ("service-account-key-file", "sa.pub"),
        ("service-account-signing-key-file", "sa.key"),
        ("etcd-cafile", "etcd/ca.crt"),
        ("etcd-certfile", "apiserver-etcd-client.crt"),
        ("etcd-keyfile", "apiserver-etcd-client.key"),
    ];
    let mut flags: Vec<String> = files.map(|(flag, file)| format!("{flag}={PKI}/{file}")).to_vec();
    flags.extend(["etcd-servers=https://127.0.0.1:2379", "secure-port=6443"].map(str::to_owned));
    flags
}

impl MasterUserData for Plane {
    fn user_data<'a>(&'a self, master: &'a NewMaster) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let files = self.files(master).map_err(|error| error.to_string())?;
            let file = |(path, text): (&String, &String)| json!({"path": path, "contents": {"source": format!("data:;base64,{}", STANDARD.encode(text))}});
            let files: Vec<Value> = files.iter().map(file).collect();
            let kubelet = "[Service]\nExecStart=/usr/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf\n";
            Ok(json!({
                "ignition": {"version": "3.4.0"},
                "storage": {"files": files},
                "systemd": {"units": [{"name": "kubelet.service", "enabled": true, "contents": kubelet}]},
            })
            .to_string())
        })
    }
}
