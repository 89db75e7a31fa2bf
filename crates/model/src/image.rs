//! What machines boot from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{NamespaceName, ObjectName};
use crate::quantity::Bytes;
use crate::util::is_default;

/// The operating system of a pool's machines and where its disk image comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    /// The operating system family; decides between cloud-init and Ignition.
    pub os: OperatingSystem,
    /// Its version, as its makers count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the disk image is. Needed before machines can be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ImageSource>,
    /// The size of the image once unpacked; the golden volume is made that large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<Bytes>,
    /// Whether the image is imported once and cloned, or imported for each machine.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delivery: ImageDelivery,
}

/// Whether an image is shared by the machines of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum ImageDelivery {
    /// Imported once into a golden volume, which each machine clones.
    #[default]
    Golden,
    /// Imported anew for each machine.
    PerMachine,
}

/// Where a disk image is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImageSource {
    /// A web server.
    Http(HttpImage),
    /// A container registry.
    Registry(RegistryImage),
    /// A volume that already exists in the infra cluster.
    Pvc(InfraRef),
    /// A volume snapshot of the infra cluster.
    Snapshot(InfraRef),
    /// A CDI `DataSource`, which may follow new images.
    DataSource(InfraRef),
    /// A template of the oVirt engine, by name.
    OvirtTemplate(String),
}

impl ImageSource {
    /// The image at an address: `http://`, `https://`, `docker://` or `oci-archive://`.
    pub fn at(address: &str) -> Option<Self> {
        let is = |schemes: &[&str]| {
            schemes.iter().any(|scheme| address.len() > scheme.len() && address.starts_with(scheme))
        };
        if is(&["http://", "https://"]) {
            return Some(Self::Http(HttpImage::at(address)));
        }
        let registry =
            || RegistryImage { url: address.to_owned(), pull_method: PullMethod::default(), secret: None };
        is(&["docker://", "oci-archive://"]).then(|| Self::Registry(registry()))
    }
}

/// An object of the infra cluster in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InfraRef {
    /// Its namespace; the tenant's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// Its name.
    pub name: ObjectName,
}

/// An image on a web server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpImage {
    /// The address: `http://` or `https://`.
    #[schemars(regex(pattern = r"^https?://.+"))]
    pub url: String,
    /// The digest the bytes must have, for example `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(md5|sha1|sha256|sha512):[0-9a-f]+$"))]
    pub checksum: Option<String>,
    /// A Secret with `accessKeyId` and `secretKey` for basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectName>,
    /// A ConfigMap with the certificate authorities to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_config_map: Option<ObjectName>,
    /// Request headers, in the clear. Never shown in plans.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Secrets whose values are request headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub header_secrets: Vec<ObjectName>,
}

impl HttpImage {
    /// An image at that address and nothing else.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            checksum: None,
            secret: None,
            cert_config_map: None,
            headers: BTreeMap::new(),
            header_secrets: Vec::new(),
        }
    }
}

impl std::fmt::Debug for HttpImage {
    /// Leaves out what headers hold: it may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, checksum, secret, cert_config_map, headers, header_secrets } = self;
        f.debug_struct("HttpImage")
            .field("url", url)
            .field("checksum", checksum)
            .field("secret", secret)
            .field("cert_config_map", cert_config_map)
            .field("headers", &headers.keys())
            .field("header_secrets", header_secrets)
            .finish()
    }
}

/// An image in a container registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryImage {
    /// The address: `docker://` or `oci-archive://`.
    #[schemars(regex(pattern = r"^(docker|oci-archive)://.+"))]
    pub url: String,
    /// Who pulls the layers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pull_method: PullMethod,
    /// A Secret with the registry's credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectName>,
}

/// Who pulls a registry image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PullMethod {
    /// The importer pod.
    #[default]
    Pod,
    /// The host, through its container runtime and its cache.
    Node,
}

macro_rules! operating_systems {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $family:ident, $user:literal;)*) => {
        /// An operating system family.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum OperatingSystem {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl OperatingSystem {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in manifests.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The system with that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// What its images read at first boot.
            pub fn first_boot(self) -> FirstBoot {
                match self { $(Self::$variant => FirstBoot::$family),* }
            }

            /// The user its images let in over SSH.
            pub fn login_user(self) -> &'static str {
                match self { $(Self::$variant => $user),* }
            }
        }
    };
}

operating_systems! {
    /// Ubuntu.
    Ubuntu = "ubuntu", CloudInit, "ubuntu";
    /// Debian.
    Debian = "debian", CloudInit, "debian";
    /// CentOS Linux and CentOS Stream.
    Centos = "centos", CloudInit, "centos";
    /// Red Hat Enterprise Linux.
    Rhel = "rhel", CloudInit, "cloud-user";
    /// Rocky Linux.
    RockyLinux = "rockylinux", CloudInit, "rocky";
    /// Amazon Linux 2.
    AmazonLinux2 = "amzn2", CloudInit, "ec2-user";
    /// SUSE Linux Enterprise Server.
    Sles = "sles", CloudInit, "sles";
    /// Flatcar Container Linux.
    Flatcar = "flatcar", Ignition, "core";
    /// Fedora CoreOS.
    FedoraCoreos = "fedora-coreos", Ignition, "core";
    /// Red Hat Enterprise Linux CoreOS.
    Rhcos = "rhcos", Ignition, "core";
}

/// What an image reads at first boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBoot {
    /// cloud-init user data.
    CloudInit,
    /// An Ignition configuration.
    Ignition,
}
