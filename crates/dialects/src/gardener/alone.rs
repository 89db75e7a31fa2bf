//! Documents of the KubeVirt extension that stand alone instead of inside a Shoot or a CloudProfile.

use trellis_api::gardener::{KUBEVIRT, WorkerConfig};
use trellis_model::cluster::{KubevirtPlatform, Platform};
use trellis_model::image::{Image, ImageDelivery, OperatingSystem};
use trellis_model::machine::{MachineTemplate, Shape};
use trellis_model::names::{ClusterName, DeviceName, PoolName};
use trellis_model::network::MachineNetwork;
use trellis_model::pool::PoolSpec;
use trellis_model::quantity::Bytes;
use trellis_model::volume::{DataDisk, ROOT_DISK, RootDisk, Storage};
use trellis_model::{Estate, Pool};

use super::disks::DeviceTable;
use super::origins::Origins;
use super::worker::Draft;
use super::{Object, network, profile};
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId, Reading};
use crate::shared;

/// Complains if an embedded document says that it is something else.
pub(super) fn check_kind(cx: &mut Cx<'_>, at: &FieldPath, api_version: &str, kind: &str, expected: &str) {
    for (field, found, expected) in [("apiVersion", api_version, KUBEVIRT), ("kind", kind, expected)] {
        if found != expected {
            let message = match found {
                "" => format!("missing field `{field}`"),
                found => format!("expected a {expected} here, found `{found}`"),
            };
            cx.error("wrong-kind", &at.child(field), message, &format!("write `{field}: {expected}`"));
        }
    }
}

/// Checks a document that stands alone as far as that is possible, and says where it belongs.
pub(super) fn read(reading: &mut Reading, document: DocumentId, object: &Object, has_shoots: bool) {
    let mut cx = reading.within(document);
    let root = FieldPath::root();
    let mut origins = Origins::default();
    let (kind, place, estate) = match object {
        Object::InfrastructureConfig(config) => {
            let networks = network::machine_networks(&mut cx, &mut origins, &root, config);
            (
                "InfrastructureConfig",
                "spec.provider.infrastructureConfig of a Shoot",
                made_up_cluster(networks),
            )
        }
        // Its structure is all there is to check.
        Object::ControlPlaneConfig(_) => {
            ("ControlPlaneConfig", "spec.provider.controlPlaneConfig of a Shoot", None)
        }
        Object::WorkerConfig(config) => {
            let (estate, found) = worker_config(&mut cx, config);
            origins = found;
            ("WorkerConfig", "spec.provider.workers[].providerConfig of a Shoot", estate)
        }
        Object::CloudProfileConfig(config) => {
            profile::images(&mut cx, &root, config);
            profile::limits(&mut cx, &root, config);
            ("CloudProfileConfig", "spec.providerConfig of a CloudProfile", None)
        }
        Object::Shoot(_)
        | Object::CloudProfile(_)
        | Object::SecretBinding(_)
        | Object::CredentialsBinding(_)
        | Object::Secret(_) => return,
    };
    let but = if has_shoots {
        "; it is not attached to the Shoot it was read with, as Gardener would not either"
    } else {
        ""
    };
    let message = format!("this {kind} describes no machines on its own{but}");
    cx.notice("standalone-document", &root.child("kind"), message, &format!("put it into {place}"));
    if let Some(estate) = estate {
        origins.say_problems(reading, &estate);
    }
}

/// A cluster that is nothing but its networks.
fn made_up_cluster(machine_networks: Vec<MachineNetwork>) -> Option<Estate> {
    let platform = Platform::Kubevirt(KubevirtPlatform::default());
    let mut cluster = shared::cluster(ClusterName::new("alone").ok()?, platform);
    cluster.spec.network.machine_networks = machine_networks;
    Some(Estate { clusters: vec![cluster], pools: Vec::new() })
}

/// Reads a WorkerConfig into a pool that is nothing but what the WorkerConfig says.
fn worker_config(cx: &mut Cx<'_>, config: &WorkerConfig) -> (Option<Estate>, Origins) {
    let mut draft = Draft {
        cx,
        origins: Origins::default(),
        profile: None,
        at: FieldPath::root(),
        config_at: FieldPath::root(),
        config: Some(config),
        needs: Vec::new(),
    };
    let shape = Shape::Custom(Box::new(draft.refinement()));
    let disks = draft.devices();
    for (name, (_, at)) in &disks {
        let model = if name == ROOT_DISK {
            "template.rootDisk.device".to_owned()
        } else {
            format!("template.dataDisks[{name}]")
        };
        draft.origin(model, at);
    }
    let (devices, dns) = (draft.other_devices(), draft.dns());
    let (root_disk, data_disks) = made_up_disks(disks);
    let image = Image {
        os: OperatingSystem::Ubuntu,
        version: None,
        source: None,
        virtual_size: None,
        delivery: ImageDelivery::Golden,
    };
    let template = MachineTemplate { data_disks, devices, dns, ..shared::template(shape, image, root_disk) };
    let pool = |(cluster, name)| Pool { name, namespace: None, spec: PoolSpec::new(cluster, 1, template) };
    let names = ClusterName::new("alone").ok().zip(PoolName::new("alone").ok());
    (names.map(|names| Estate { clusters: Vec::new(), pools: vec![pool(names)] }), draft.origins)
}

fn made_up_disks(disks: DeviceTable) -> (RootDisk, Vec<DataDisk>) {
    let (size, storage) = (Bytes::gibi(1), Storage::default());
    let mut root =
        RootDisk { size, storage: storage.clone(), device: trellis_model::volume::DiskDevice::default() };
    let mut data = Vec::new();
    for (name, (device, _)) in disks {
        if name == ROOT_DISK {
            root.device = device;
        } else if let Ok(name) = DeviceName::new(name) {
            data.push(DataDisk { name, size, storage: storage.clone(), device });
        }
    }
    (root, data)
}
