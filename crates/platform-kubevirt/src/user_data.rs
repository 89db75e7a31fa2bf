//! What a machine reads at first boot, and the Secrets it is kept in.
//!
//! Always in Secrets: inline user data is limited to 2048 bytes, and can be read by whoever can see
//! the machine.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{LocalObjectReference, Secret};
use serde::Serialize;
use trellis_api::kubevirt::CloudInitConfigDrive;
use trellis_model::Cluster;
use trellis_model::access::SshKey;
use trellis_model::image::FirstBoot;

use crate::labels::{self, metadata};
use crate::machine::Machine;
use crate::names;
use crate::network_data::network_data;

/// The keys KubeVirt looks for.
const USER_DATA_KEY: &str = "userdata";
const NETWORK_DATA_KEY: &str = "networkdata";

/// The Secrets of a machine; they must exist before it does.
pub(crate) fn secrets(machine: &Machine<'_>) -> Vec<Secret> {
    let network = network_data(machine).map(|text| (NETWORK_DATA_KEY, text));
    let (name, contents): (String, Vec<(&str, String)>) = match user_data(machine) {
        Some(text) => {
            (names::user_data(machine.name()), [(USER_DATA_KEY, text)].into_iter().chain(network).collect())
        }
        None => (names::network_data(machine.name()), network.into_iter().collect()),
    };
    if contents.is_empty() {
        return Vec::new();
    }
    let data = contents.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    vec![Secret {
        metadata: metadata(machine.cluster, name, labels::of_machine(machine)),
        type_: Some("Opaque".to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    }]
}

/// What the machine reads at first boot; nothing where only the place is known that it is kept in.
fn user_data(machine: &Machine<'_>) -> Option<String> {
    let wished = &machine.template().user_data;
    match (machine.user_data, &wished.inline, &wished.secret) {
        (Some(given), _, _) => Some(given.to_owned()),
        (None, Some(inline), _) => Some(inline.clone()),
        (None, None, Some(_)) => None,
        (None, None, None) => Some(generated(machine)),
    }
}

/// The volume of the config drive.
pub(crate) fn config_drive(machine: &Machine<'_>) -> CloudInitConfigDrive {
    let user = names::user_data(machine.name());
    let network =
        if user_data(machine).is_some() { user.clone() } else { names::network_data(machine.name()) };
    let has_network_data = crate::nics::has_static_addresses(&machine.template().nics);
    CloudInitConfigDrive {
        secret_ref: Some(LocalObjectReference { name: user }),
        network_data_secret_ref: has_network_data.then_some(LocalObjectReference { name: network }),
    }
}

#[derive(Serialize)]
struct CloudConfig<'a> {
    hostname: &'a str,
    fqdn: String,
    /// Distributions differ in what they make the host name; the node's name must be the machine's.
    prefer_fqdn_over_hostname: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ssh_authorized_keys: Vec<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    package_upgrade: bool,
}

#[derive(Serialize)]
struct IgnitionConfig<'a> {
    ignition: IgnitionVersion,
    passwd: Passwd<'a>,
    storage: Storage,
}

#[derive(Serialize)]
struct IgnitionVersion {
    version: &'static str,
}

#[derive(Serialize)]
struct Passwd<'a> {
    users: [User<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User<'a> {
    name: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ssh_authorized_keys: Vec<&'a str>,
}

#[derive(Serialize)]
struct Storage {
    files: [File; 1],
}

#[derive(Serialize)]
struct File {
    path: &'static str,
    mode: u32,
    overwrite: bool,
    contents: Contents,
}

#[derive(Serialize)]
struct Contents {
    source: String,
}

/// The user data of a machine that brings none: its name, and who may log in.
fn generated(machine: &Machine<'_>) -> String {
    let template = machine.template();
    let keys: Vec<&str> = template.ssh_keys.iter().map(SshKey::as_str).collect();
    match template.image.os.first_boot() {
        FirstBoot::CloudInit => {
            let config = CloudConfig {
                hostname: machine.name(),
                fqdn: fqdn(machine),
                prefer_fqdn_over_hostname: false,
                ssh_authorized_keys: keys,
                package_upgrade: template.user_data.upgrade_packages,
            };
            // JSON is YAML, and nothing in it can be mistaken for anything else.
            format!("#cloud-config\n{}\n", json(&config))
        }
        FirstBoot::Ignition => json(&IgnitionConfig {
            ignition: IgnitionVersion { version: "3.4.0" },
            passwd: Passwd {
                users: [User { name: template.image.os.login_user(), ssh_authorized_keys: keys }],
            },
            storage: Storage {
                files: [File {
                    path: "/etc/hostname",
                    mode: 0o644,
                    overwrite: true,
                    // A machine's name is a DNS label: nothing in it needs escaping.
                    contents: Contents { source: format!("data:,{}%0A", machine.name()) },
                }],
            },
        }),
    }
}

/// User data that says the host name and nothing else, for a machine that has read its own and may start again.
///
/// Ignition reads user data once in the life of a disk, cloud-init at each start: what is there then must be for
/// cloud-init.
pub(crate) fn nothing(machine: &str) -> String {
    #[derive(Serialize)]
    struct Hostname<'a> {
        hostname: &'a str,
    }
    format!("#cloud-config\n{}\n", json(&Hostname { hostname: machine }))
}

/// The machine's full name.
fn fqdn(machine: &Machine<'_>) -> String {
    format!("{}.{}", machine.name(), machine_domain(machine.cluster))
}

/// What follows a machine's name in its full name: the cluster's domain, else what its Service gives it. Names are
/// what stays: behind masquerade addresses change with every start.
pub fn machine_domain(cluster: &Cluster) -> String {
    match &cluster.spec.base_domain {
        Some(domain) => format!("{}.{domain}", cluster.name),
        None => format!("{}.svc.cluster.local", cluster.infra_namespace()),
    }
}

fn json(value: &impl Serialize) -> String {
    // Made of strings, numbers and lists only, which always serialise.
    serde_json::to_string(value).unwrap_or_default()
}
