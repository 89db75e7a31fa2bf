//! The four programs of a control plane, with every flag written out.

use std::net::IpAddr;

use trellis_model::names::MachineName;

use crate::names::Names;
use crate::site::{Member, Site};
use crate::static_pods::{Mount, Pod, Probe};
use crate::version::Version;

/// Where certificates are.
pub(crate) const PKI: &str = "/etc/kubernetes/pki";
/// Where etcd keeps its data.
const ETCD_DATA: &str = "/var/lib/etcd";

/// `--name=value`, each as one argument: nothing in a value can be taken for another flag.
fn command(program: &str, flags: &[(&str, String)]) -> Vec<String> {
    let flags = flags.iter().map(|(name, value)| format!("--{name}={value}"));
    std::iter::once(program.to_owned()).chain(flags).collect()
}

fn pki(file: &str) -> String {
    format!("{PKI}/{file}")
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Where other members find a member of etcd.
fn peer_url(names: &Names, machine: &MachineName) -> String {
    format!("https://{}:2380", names.machine(machine))
}

/// A member of etcd.
pub(crate) fn etcd(site: &Site, version: &Version, member: &Member) -> Pod {
    let (names, machine) = (&site.names, &member.name);
    // Behind masquerade a machine does not know the address it is reached at, so it listens on all it has.
    let any =
        if names.services.first().is_some_and(|range| range.addr().is_ipv6()) { "[::]" } else { "0.0.0.0" };
    let peers: Vec<String> =
        site.masters.iter().map(|peer| format!("{}={}", peer.name, peer_url(names, &peer.name))).collect();
    let flags = [
        ("name", machine.to_string()),
        ("data-dir", ETCD_DATA.to_owned()),
        ("listen-client-urls", format!("https://{any}:2379")),
        ("listen-peer-urls", format!("https://{any}:2380")),
        ("listen-metrics-urls", "http://127.0.0.1:2381".to_owned()),
        ("advertise-client-urls", format!("https://{}:2379", names.machine(machine))),
        ("initial-advertise-peer-urls", peer_url(names, machine)),
        ("initial-cluster", peers.join(",")),
        ("initial-cluster-state", if member.joins { "existing" } else { "new" }.to_owned()),
        ("initial-cluster-token", names.cluster.clone()),
        ("cert-file", pki("etcd/server.crt")),
        ("key-file", pki("etcd/server.key")),
        ("trusted-ca-file", pki("etcd/ca.crt")),
        ("client-cert-auth", "true".to_owned()),
        ("peer-cert-file", pki("etcd/peer.crt")),
        ("peer-key-file", pki("etcd/peer.key")),
        ("peer-trusted-ca-file", pki("etcd/ca.crt")),
        ("peer-client-cert-auth", "true".to_owned()),
        ("feature-gates", "InitialCorruptCheck=true".to_owned()),
        ("watch-progress-notify-interval", "5s".to_owned()),
    ];
    Pod {
        name: "etcd",
        image: format!("{}/etcd:{}", site.sources.images, version.etcd),
        command: command("etcd", &flags),
        mounts: vec![Mount::writable(ETCD_DATA), Mount::folder(&pki("etcd"))],
        cpu: "100m",
        probes: Probe::usual(2381, "HTTP", "/livez", "/readyz"),
        capabilities: &[],
    }
}

/// An API server.
pub(crate) fn apiserver(site: &Site, version: &Version, member: &Member, port: u16) -> Pod {
    let names = &site.names;
    let mut flags = vec![
        ("secure-port", port.to_string()),
        ("allow-privileged", "true".to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("enable-bootstrap-token-auth", "true".to_owned()),
        ("client-ca-file", pki("ca.crt")),
        ("tls-cert-file", pki("apiserver.crt")),
        ("tls-private-key-file", pki("apiserver.key")),
        ("etcd-servers", "https://127.0.0.1:2379".to_owned()),
        ("etcd-cafile", pki("etcd/ca.crt")),
        ("etcd-certfile", pki("apiserver-etcd-client.crt")),
        ("etcd-keyfile", pki("apiserver-etcd-client.key")),
        ("kubelet-client-certificate", pki("apiserver-kubelet-client.crt")),
        ("kubelet-client-key", pki("apiserver-kubelet-client.key")),
        ("kubelet-preferred-address-types", preferred_addresses(site).to_owned()),
        ("proxy-client-cert-file", pki("front-proxy-client.crt")),
        ("proxy-client-key-file", pki("front-proxy-client.key")),
        ("requestheader-client-ca-file", pki("front-proxy-ca.crt")),
        ("requestheader-allowed-names", "front-proxy-client".to_owned()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("service-account-issuer", format!("https://kubernetes.default.svc.{}", names.cluster_domain)),
        ("service-account-key-file", pki("sa.pub")),
        ("service-account-signing-key-file", pki("sa.key")),
        ("service-cluster-ip-range", joined(&names.services)),
    ];
    if let Some(address) = advertised(site, member) {
        flags.push(("advertise-address", address.to_string()));
    }
    Pod {
        name: "kube-apiserver",
        image: image(site, version, "kube-apiserver"),
        command: command("kube-apiserver", &flags),
        mounts: vec![Mount::folder(PKI), Mount::folder("/etc/ssl/certs")],
        cpu: "250m",
        probes: Probe::usual(port, "HTTPS", "/livez", "/readyz"),
        capabilities: &[],
    }
}

/// The address at which the tenant's pods reach an API server, if it can be known.
pub(crate) fn advertised(site: &Site, member: &Member) -> Option<IpAddr> {
    site.names.advertised.or(member.address)
}

/// How API servers reach kubelets: by name where addresses mean nothing.
fn preferred_addresses(site: &Site) -> &'static str {
    if site.has_addresses() { "InternalIP,Hostname" } else { "Hostname,InternalDNS,InternalIP" }
}

/// A controller manager.
pub(crate) fn controller_manager(site: &Site, version: &Version) -> Pod {
    const KUBECONFIG: &str = "/etc/kubernetes/controller-manager.conf";
    let names = &site.names;
    let mut flags = vec![
        ("bind-address", "127.0.0.1".to_owned()),
        ("leader-elect", "true".to_owned()),
        ("kubeconfig", KUBECONFIG.to_owned()),
        ("authentication-kubeconfig", KUBECONFIG.to_owned()),
        ("authorization-kubeconfig", KUBECONFIG.to_owned()),
        ("client-ca-file", pki("ca.crt")),
        ("requestheader-client-ca-file", pki("front-proxy-ca.crt")),
        ("root-ca-file", pki("ca.crt")),
        ("service-account-private-key-file", pki("sa.key")),
        ("cluster-signing-cert-file", pki("ca.crt")),
        ("cluster-signing-key-file", pki("ca.key")),
        ("use-service-account-credentials", "true".to_owned()),
        ("controllers", "*,bootstrapsigner,tokencleaner".to_owned()),
        ("cluster-name", names.cluster.clone()),
        ("allocate-node-cidrs", "true".to_owned()),
        ("cluster-cidr", joined(&names.pods)),
        ("service-cluster-ip-range", joined(&names.services)),
    ];
    for range in &site.cluster.spec.network.pods {
        if let Some(prefix) = range.node_prefix {
            let flag = if range.cidr.net().addr().is_ipv4() {
                "node-cidr-mask-size-ipv4"
            } else {
                "node-cidr-mask-size-ipv6"
            };
            flags.push((flag, prefix.to_string()));
        }
    }
    // With one family there is one size, under the name without a family.
    let families =
        [IpAddr::is_ipv4, IpAddr::is_ipv6].map(|is| names.pods.iter().any(|range| is(&range.addr())));
    if families != [true, true] {
        for (name, _) in &mut flags {
            if name.starts_with("node-cidr-mask-size-") {
                *name = "node-cidr-mask-size";
            }
        }
    }
    Pod {
        name: "kube-controller-manager",
        image: image(site, version, "kube-controller-manager"),
        command: command("kube-controller-manager", &flags),
        mounts: vec![Mount::folder(PKI), Mount::folder("/etc/ssl/certs"), Mount::file(KUBECONFIG)],
        cpu: "200m",
        probes: Probe::usual(10257, "HTTPS", "/healthz", "/healthz"),
        capabilities: &[],
    }
}

/// A scheduler.
pub(crate) fn scheduler(site: &Site, version: &Version) -> Pod {
    const KUBECONFIG: &str = "/etc/kubernetes/scheduler.conf";
    let flags = [
        ("bind-address", "127.0.0.1".to_owned()),
        ("leader-elect", "true".to_owned()),
        ("kubeconfig", KUBECONFIG.to_owned()),
        ("authentication-kubeconfig", KUBECONFIG.to_owned()),
        ("authorization-kubeconfig", KUBECONFIG.to_owned()),
    ];
    Pod {
        name: "kube-scheduler",
        image: image(site, version, "kube-scheduler"),
        command: command("kube-scheduler", &flags),
        mounts: vec![Mount::file(KUBECONFIG)],
        cpu: "100m",
        probes: Probe::usual(10259, "HTTPS", "/livez", "/readyz"),
        capabilities: &[],
    }
}

fn image(site: &Site, version: &Version, program: &str) -> String {
    format!("{}/{program}:v{}", site.sources.images, version.kubernetes)
}
