//! `cdi.kubevirt.io/v1beta1`: volumes that are filled when they are made.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, VolumeResourceRequirements};
use serde::{Deserialize, Serialize};

use crate::kubevirt::{Empty, namespaced_object, parts};

namespaced_object! {
    /// A volume and what it is filled with. Its spec cannot be changed afterwards.
    DataVolume(DataVolumeSpec), "cdi.kubevirt.io", "v1beta1", "datavolumes"
}

parts! {
    /// What a volume is filled with and where it lies: one of `source` and `source_ref`, one of `pvc`
    /// and `storage`.
    struct DataVolumeSpec {
        /// What it is filled with.
        source: Option<DataVolumeSource>,
        /// An object that says what it is filled with.
        source_ref: Option<DataVolumeSourceRef>,
        /// A plain claim.
        pvc: Option<PersistentVolumeClaimSpec>,
        /// A claim whose gaps are filled from the storage profile.
        storage: Option<StorageSpec>,
    }

    /// A claim whose gaps are filled from the storage profile of its class.
    struct StorageSpec {
        /// How many hosts may use it at once.
        access_modes: Vec<String>,
        /// `Block` or `Filesystem`.
        volume_mode: Option<String>,
        /// The storage class.
        storage_class_name: Option<String>,
        /// Its size.
        resources: Option<VolumeResourceRequirements>,
    }

    /// What a volume is filled with: one of these.
    struct DataVolumeSource {
        /// A web server.
        http: Option<HttpSource>,
        /// A container registry.
        registry: Option<RegistrySource>,
        /// Another volume.
        pvc: Option<CloneSource>,
        /// A snapshot of a volume.
        snapshot: Option<CloneSource>,
        /// Nothing.
        blank: Option<Empty>,
        /// What somebody uploads.
        upload: Option<Empty>,
    }

    /// An image on a web server.
    struct HttpSource {
        /// Its address.
        url: String,
        /// The digest its bytes must have. Not known to the volume templates of a virtual machine.
        checksum: Option<String>,
        /// A Secret with `accessKeyId` and `secretKey`.
        secret_ref: Option<String>,
        /// A ConfigMap with certificate authorities.
        cert_config_map: Option<String>,
        /// Request headers: `Name: value`.
        extra_headers: Vec<String>,
        /// Secrets whose values are request headers.
        secret_extra_headers: Vec<String>,
    }

    /// An image in a container registry.
    struct RegistrySource {
        /// Its address: `docker://` or `oci-archive://`.
        url: Option<String>,
        /// Who pulls: `pod` or `node`.
        pull_method: Option<String>,
        /// A Secret with `accessKeyId` and `secretKey`.
        secret_ref: Option<String>,
        /// A ConfigMap with certificate authorities.
        cert_config_map: Option<String>,
    }

    /// A volume or snapshot that is copied.
    struct CloneSource {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    }

    /// An object that says what a volume is filled with.
    struct DataVolumeSourceRef {
        /// `DataSource`.
        kind: String,
        /// Its namespace; the volume's own when left out.
        namespace: Option<String>,
        /// Its name.
        name: String,
    }
}
