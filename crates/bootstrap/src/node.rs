//! What every machine has: a container runtime, a kubelet, a node exporter, and what installs them.

use std::fmt::Write as _;

use trellis_model::Pool;
use trellis_model::access::SshKey;
use trellis_model::machine::Architecture;
use trellis_model::resolve::resolve;

use crate::kubeadm;
use crate::machine::{Config, Unit, User};
use crate::render::RenderError;
use crate::site::{Member, Site};
use crate::static_pods;
use crate::system::{NodeExporter, Packages, System};
use crate::unit::UnitText;
use crate::version::Version;
use crate::vip;
use crate::yaml::to_yaml;

/// The unit that installs what the image lacks; others wait for it.
pub(crate) const INSTALL_UNIT: &str = "trellis-install.service";
const INSTALL_PROGRAM: &str = "/etc/trellis/install";
/// Written when everything is installed.
const INSTALLED: &str = "/var/lib/trellis/installed";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";
/// Where Trellis itself is on machines that serve configurations.
pub(crate) const TRELLIS: &str = "/opt/trellis/bin/trellis";

/// What is known of a machine when it is rendered.
pub(crate) struct Node<'a> {
    pub(crate) site: &'a Site,
    pub(crate) pool: &'a Pool,
    pub(crate) machine: &'a Member,
    pub(crate) system: System,
    pub(crate) version: Version,
}

impl<'a> Node<'a> {
    /// Looks up what belongs to the machine's operating system and version.
    pub(crate) fn new(site: &'a Site, pool: &'a Pool, machine: &'a Member) -> Result<Self, RenderError> {
        let os = pool.spec.template.image.os;
        let system = System::of(os).ok_or(RenderError::System(os.as_str()))?;
        let version = Version::of(resolve(&site.cluster, pool).kubelet_version)?;
        Ok(Self { site, pool, machine, system, version })
    }

    /// Who the machine is, and who may log in to it.
    pub(crate) fn identity(&self) -> Config {
        let name = &self.machine.name;
        let template = resolve(&self.site.cluster, self.pool).template;
        let ssh_keys = template.ssh_keys.iter().map(|key| SshKey::as_str(key).to_owned()).collect();
        Config {
            hostname: name.to_string(),
            fqdn: self.site.names.machine(name),
            users: vec![User { name: template.image.os.login_user().to_owned(), ssh_keys }],
            ..Config::default()
        }
    }

    /// A machine with everything but what makes it a member of something.
    pub(crate) fn config(&self, serves: bool) -> Result<Config, RenderError> {
        let mut config = self.identity();
        config.file("/etc/modules-load.d/trellis.conf", "overlay\nbr_netfilter\n");
        config.file(
            "/etc/sysctl.d/90-trellis.conf",
            "net.ipv4.ip_forward = 1\nnet.ipv6.conf.all.forwarding = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n",
        );
        if self.system.runtime.configured {
            config.file("/etc/containerd/config.toml", self.containerd());
        }
        let program = match (serves, &self.site.sources.trellis) {
            (true, None) => return Err(RenderError::NoProgram),
            (true, Some(program)) => Some(program),
            (false, _) => None,
        };
        let mut downloads = self.downloads(self.pool.spec.template.architecture);
        if let Some(program) = program {
            downloads.push(Download::program(
                &program.url,
                Sum::Known(program.sha256.clone()),
                TRELLIS.to_owned(),
            ));
        }
        config.program(INSTALL_PROGRAM, self.install(&downloads));
        config.unit(INSTALL_UNIT, install_unit());
        config.units.push(Unit { name: self.system.runtime.unit.to_owned(), text: None, enabled: true });
        match self.system.node_exporter {
            NodeExporter::Package(unit) => {
                config.units.push(Unit { name: unit.to_owned(), text: None, enabled: true });
            }
            NodeExporter::Pod => {
                let pod = static_pods::node_exporter(&self.site.sources.node_exporter);
                config.file(format!("{}/{}.yaml", static_pods::FOLDER, pod.name), pod.manifest());
            }
        }
        Ok(config)
    }

    /// Adds the kubelet of a node.
    pub(crate) fn add_kubelet(&self, config: &mut Config) {
        let document = kubeadm::kubelet_configuration(&self.site.names, &self.system, self.pool);
        config.file(KUBELET_CONFIG, to_yaml(&document));
        let mut flags = vec![
            format!("--config={KUBELET_CONFIG}"),
            "--kubeconfig=/etc/kubernetes/kubelet.conf".to_owned(),
            format!("--hostname-override={}", self.machine.name),
        ];
        if let Some(address) = self.machine.address {
            flags.push(format!("--node-ip={address}"));
        }
        let labels: Vec<String> = self
            .pool
            .spec
            .node_labels
            .iter()
            .filter(|(key, _)| may_set_itself(key.as_str()))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if !labels.is_empty() {
            flags.push(format!("--node-labels={}", labels.join(",")));
        }
        self.add_kubelet_unit(config, &flags);
    }

    /// Adds a kubelet that only runs the static pods of its machine.
    pub(crate) fn add_standalone_kubelet(&self, config: &mut Config) {
        let document = kubeadm::standalone_kubelet_configuration(&self.system);
        config.file(KUBELET_CONFIG, to_yaml(&document));
        let flags =
            [format!("--config={KUBELET_CONFIG}"), format!("--hostname-override={}", self.machine.name)];
        self.add_kubelet_unit(config, &flags);
    }

    fn add_kubelet_unit(&self, config: &mut Config, flags: &[String]) {
        let program = format!("{}/kubelet", self.system.bin);
        let words: Vec<&str> =
            std::iter::once(program.as_str()).chain(flags.iter().map(String::as_str)).collect();
        let runtime = self.system.runtime.unit;
        let text = UnitText::default()
            .section("Unit")
            .set("Description", "The kubelet of this node")
            // Not `Requires`: what installs is tried again when it fails, and would take this one's start with it.
            .set("Wants", &format!("network-online.target {INSTALL_UNIT} {runtime}"))
            .set("After", &format!("network-online.target {INSTALL_UNIT} {runtime}"))
            .set("StartLimitIntervalSec", "0")
            .section("Service")
            .command("ExecStart", &words)
            .set("Restart", "always")
            .set("RestartSec", "5")
            .section("Install")
            .set("WantedBy", "multi-user.target")
            .text();
        config.unit("kubelet.service", text);
    }

    /// The configuration of containerd: cgroups by systemd, as the kubelet expects.
    fn containerd(&self) -> String {
        let pause = format!("{}/pause:{}", self.site.sources.images, self.version.pause);
        format!(
            "version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = {}\n\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n\
             runtime_type = \"io.containerd.runc.v2\"\n\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
            // A JSON string is a TOML string.
            serde_json::Value::from(pause)
        )
    }

    /// Units that are not there before their packages are, so that nobody can enable them earlier.
    fn packaged_units(&self) -> Vec<&'static str> {
        if self.system.packages == Packages::None {
            return Vec::new();
        }
        let exporter = match self.system.node_exporter {
            NodeExporter::Package(unit) => Some(unit),
            NodeExporter::Pod => None,
        };
        [Some(self.system.runtime.unit), exporter].into_iter().flatten().collect()
    }

    fn downloads(&self, architecture: Architecture) -> Vec<Download> {
        let (sources, bin) = (&self.site.sources, self.system.bin);
        let architecture = architecture.as_str();
        let base = sources.kubernetes.trim_end_matches('/');
        let mut downloads: Vec<Download> = ["kubelet", "kubeadm", "kubectl"]
            .map(|name| {
                let url = format!("{base}/v{}/bin/linux/{architecture}/{name}", self.version.kubernetes);
                let sum = Sum::At(format!("{url}.sha256"));
                Download::program(&url, sum, format!("{bin}/{name}"))
            })
            .into();
        let url = sources.cni_plugins.replace("{arch}", architecture);
        let sum = Sum::At(format!("{url}.sha256"));
        downloads.push(Download { url, sum, target: "/opt/cni/bin".to_owned(), archive: true });
        downloads
    }

    /// The program that installs what the image lacks. It may be interrupted and run again.
    fn install(&self, downloads: &[Download]) -> String {
        let mut text = String::from(INSTALL_HEAD);
        match self.system.packages {
            Packages::Apt(packages) => {
                text += "export DEBIAN_FRONTEND=noninteractive\nretry apt-get update\n";
                // Our own configuration of containerd is there before the package, and stays.
                text +=
                    "retry apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-confold ";
                let _ = writeln!(text, "{}", packages.join(" "));
            }
            Packages::Dnf(packages) => {
                text += DOCKER_REPOSITORY;
                let _ = writeln!(text, "retry dnf install --assumeyes {}", packages.join(" "));
            }
            Packages::None => {}
        }
        for download in downloads {
            let (kind, sum) = match &download.sum {
                Sum::Known(sum) => ("is", sum),
                Sum::At(url) => ("at", url),
            };
            let unpack = if download.archive { "archive" } else { "program" };
            let words = [download.url.as_str(), sum, &download.target].map(shell_quoted);
            let _ = writeln!(text, "retry fetch {unpack} {kind} {}", words.join(" "));
        }
        if self.system.selinux {
            let _ = writeln!(text, "restorecon -R /opt/cni/bin /opt/trellis {} || true", self.system.bin);
        }
        if self.site.has_addresses() {
            let of_address = match self.machine.address {
                Some(address) => format!("ip -brief address show to {address}"),
                None => "ip -brief link show dev \"$(ip route show default | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p' | head -n 1)\"".to_owned(),
            };
            let _ = writeln!(text, "interface=$({of_address} | head -n 1 | cut -d ' ' -f 1 | cut -d @ -f 1)");
            let _ = writeln!(text, "test -n \"$interface\"");
            let _ = writeln!(text, "sed -i \"s/{}/$interface/\" {}", vip::INTERFACE, vip::KEEPALIVED);
        }
        text += INSTALL_TAIL;
        for unit in self.packaged_units() {
            let _ = writeln!(text, "systemctl enable --now --no-block {unit}");
        }
        text + INSTALL_END
    }
}

/// Something to download.
struct Download {
    url: String,
    sum: Sum,
    target: String,
    archive: bool,
}

impl Download {
    fn program(url: &str, sum: Sum, target: String) -> Self {
        Self { url: url.to_owned(), sum, target, archive: false }
    }
}

/// How a download is checked.
enum Sum {
    /// By this SHA-256.
    Known(String),
    /// By the SHA-256 at this address.
    At(String),
}

const INSTALL_HEAD: &str = r#"#!/bin/bash
# Installs what the image lacks. Safe to run again.
set -euo pipefail

retry() {
    local tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 30 ] || return 1
        sleep 5
    done
}

# fetch KIND HOW URL SUM TARGET: gets a file, checks its SHA-256 (given, or found at SUM), and puts it in place.
fetch() {
    local kind=$1 how=$2 url=$3 sum=$4 target=$5 work
    work=$(mktemp -d)
    if ! curl --fail --silent --show-error --location --output "$work/file" "$url"; then
        rm -rf "$work"
        return 1
    fi
    if [ "$how" = at ]; then
        sum=$(curl --fail --silent --show-error --location "$sum" | cut -c 1-64)
    fi
    if ! echo "$sum  $work/file" | sha256sum --check --status; then
        echo "$url does not have the expected SHA-256" >&2
        rm -rf "$work"
        return 1
    fi
    if [ "$kind" = archive ]; then
        mkdir -p "$target"
        tar -xzf "$work/file" -C "$target"
    else
        mkdir -p "$(dirname "$target")"
        install -m 0755 "$work/file" "$target"
    fi
    rm -rf "$work"
}

"#;

const INSTALL_TAIL: &str = r"swapoff --all
modprobe overlay
modprobe br_netfilter
sysctl --system >/dev/null
mkdir -p /var/lib/trellis
";

/// What says that everything is installed.
const INSTALL_END: &str = "touch /var/lib/trellis/installed\n";

/// The repository that has containerd for systems that do not.
const DOCKER_REPOSITORY: &str = r"cat >/etc/yum.repos.d/docker-ce.repo <<'END'
[docker-ce-stable]
name=Docker CE Stable
baseurl=https://download.docker.com/linux/centos/$releasever/$basearch/stable
enabled=1
gpgcheck=1
gpgkey=https://download.docker.com/linux/centos/gpg
END
";

fn install_unit() -> String {
    UnitText::default()
        .section("Unit")
        .set("Description", "Install what Kubernetes needs")
        .set("Wants", "network-online.target")
        .set("After", "network-online.target")
        .set("ConditionPathExists", &format!("!{INSTALLED}"))
        .section("Service")
        .set("Type", "oneshot")
        .set("RemainAfterExit", "yes")
        .command("ExecStart", &["/bin/bash", INSTALL_PROGRAM])
        .set("Restart", "on-failure")
        .set("RestartSec", "10")
        .section("Install")
        .set("WantedBy", "multi-user.target")
        .text()
}

/// Whether a kubelet may label its own node so. It refuses to start with any other label of Kubernetes's own; those
/// are the business of whoever looks after machines.
fn may_set_itself(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    let below = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    below("kubelet.kubernetes.io")
        || below("node.kubernetes.io")
        || !(below("kubernetes.io") || below("k8s.io"))
}

/// A word in which a shell sees nothing special.
pub(crate) fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_a_kubelet_refuses_are_left_out() {
        for fine in ["a", "example.com/a", "node.kubernetes.io/x", "sub.kubelet.kubernetes.io/x"] {
            assert!(may_set_itself(fine), "{fine}");
        }
        for refused in ["node-role.kubernetes.io/infra", "kubernetes.io/x", "k8s.io/x", "a.k8s.io/x"] {
            assert!(!may_set_itself(refused), "{refused}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_shell_sees_words_as_they_are(word in "[ -~\n\t]{0,40}|\\$\\(id\\)'\"`") {
            let script = format!("printf %s {}", shell_quoted(&word));
            let said = Command::new("sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        }
    }
}
