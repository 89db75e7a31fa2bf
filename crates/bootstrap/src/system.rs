//! What differs between operating systems, as a table.

use trellis_model::image::OperatingSystem;

/// How an operating system is made to run Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct System {
    /// How packages are installed, and which are needed.
    pub(crate) packages: Packages,
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// Where programs go that are no packages. Some systems have a read-only `/usr`.
    pub(crate) bin: &'static str,
    /// Whether files made by programs must be labelled before they may be run.
    pub(crate) selinux: bool,
    /// The name servers the machine got from its network, without a resolver of its own in front.
    pub(crate) resolv_conf: &'static str,
    /// Where systemd-resolved reads more settings from; nothing where it is not in use.
    pub(crate) resolved: bool,
    /// How the node exporter is run.
    pub(crate) node_exporter: NodeExporter,
}

/// How packages are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    /// By apt.
    Apt(&'static [&'static str]),
    /// By dnf, with the repository that has containerd.
    Dnf(&'static [&'static str]),
    /// Not at all: everything is in the image, or downloaded.
    None,
}

/// A container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runtime {
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Its socket.
    pub(crate) socket: &'static str,
    /// Whether our configuration takes the place of the image's. Where it does not, the image's has the cgroups of
    /// systemd already.
    pub(crate) configured: bool,
}

/// How the node exporter is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeExporter {
    /// A package with this unit.
    Package(&'static str),
    /// A static pod.
    Pod,
}

const CONTAINERD: Runtime = Runtime {
    unit: "containerd.service",
    socket: "unix:///run/containerd/containerd.sock",
    configured: true,
};
const CRIO: Runtime =
    Runtime { unit: "crio.service", socket: "unix:///var/run/crio/crio.sock", configured: false };

const APT: &[&str] =
    &["conntrack", "containerd", "curl", "ethtool", "iptables", "prometheus-node-exporter", "socat"];
const DNF: &[&str] = &["conntrack-tools", "containerd.io", "curl", "ethtool", "iptables-nft", "socat", "tar"];

const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";
const NETWORK_MANAGER: &str = "/run/NetworkManager/no-stub-resolv.conf";

const DEBIAN: System = System {
    packages: Packages::Apt(APT),
    runtime: CONTAINERD,
    bin: "/usr/local/bin",
    selinux: false,
    resolv_conf: RESOLVED,
    resolved: true,
    node_exporter: NodeExporter::Package("prometheus-node-exporter.service"),
};
const ENTERPRISE: System = System {
    packages: Packages::Dnf(DNF),
    selinux: true,
    resolv_conf: NETWORK_MANAGER,
    resolved: false,
    node_exporter: NodeExporter::Pod,
    ..DEBIAN
};
const COREOS: System =
    System { packages: Packages::None, selinux: true, node_exporter: NodeExporter::Pod, ..DEBIAN };

impl System {
    /// The row of an operating system; nothing for one that cannot be bootstrapped.
    pub(crate) fn of(os: OperatingSystem) -> Option<Self> {
        Some(match os {
            OperatingSystem::Ubuntu | OperatingSystem::Debian => DEBIAN,
            OperatingSystem::Centos | OperatingSystem::RockyLinux | OperatingSystem::Rhel => ENTERPRISE,
            OperatingSystem::Flatcar => System {
                bin: "/opt/bin",
                selinux: false,
                runtime: Runtime { configured: false, ..CONTAINERD },
                ..COREOS
            },
            OperatingSystem::FedoraCoreos => COREOS,
            OperatingSystem::Rhcos => {
                System { runtime: CRIO, resolv_conf: NETWORK_MANAGER, resolved: false, ..COREOS }
            }
            OperatingSystem::AmazonLinux2 | OperatingSystem::Sles => return None,
        })
    }
}
