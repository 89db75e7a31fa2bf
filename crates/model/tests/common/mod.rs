//! A small valid estate that tests change.

use std::collections::BTreeSet;

use trellis_model::cluster::{ClusterSpec, KubevirtPlatform, Platform};
use trellis_model::image::{HttpImage, Image, ImageDelivery, ImageSource, OperatingSystem};
use trellis_model::machine::{
    Architecture, Compute, Cpu, Devices, Eviction, Firmware, MachineTemplate, Memory, Shape, UserData,
};
use trellis_model::network::{Dns, Networking};
use trellis_model::placement::Placement;
use trellis_model::pool::PoolSpec;
use trellis_model::quantity::{Bytes, MilliCpu};
use trellis_model::volume::{DiskDevice, RootDisk, Storage};
use trellis_model::{Cluster, Estate, Pool};

pub(crate) fn mk_template() -> MachineTemplate {
    MachineTemplate {
        shape: Shape::Custom(Box::new(Compute {
            cpu: Cpu { request: Some(MilliCpu::whole(2)), ..Cpu::default() },
            memory: Memory { guest: Some(Bytes::gibi(4)), ..Memory::default() },
        })),
        preference: None,
        image: Image {
            os: OperatingSystem::Ubuntu,
            version: None,
            source: Some(ImageSource::Http(HttpImage::at("https://images.example/ubuntu.img"))),
            virtual_size: None,
            delivery: ImageDelivery::Golden,
        },
        root_disk: RootDisk {
            size: Bytes::gibi(20),
            storage: Storage::default(),
            device: DiskDevice::default(),
        },
        data_disks: Vec::new(),
        nics: Vec::new(),
        placement: Placement::default(),
        devices: Devices::default(),
        dns: Dns::default(),
        eviction: Eviction::default(),
        firmware: Firmware::default(),
        architecture: Architecture::default(),
        user_data: UserData::default(),
        ssh_keys: BTreeSet::new(),
        stop_grace_seconds: 30,
        ovirt: None,
    }
}

pub(crate) fn mk_estate() -> Estate {
    let name = "demo".parse().unwrap();
    let platform = Platform::Kubevirt(KubevirtPlatform::default());
    let spec = ClusterSpec {
        platform,
        version: Some("1.34.2".parse().unwrap()),
        base_domain: None,
        network: Networking::default(),
        ssh_keys: BTreeSet::new(),
        flavors: std::collections::BTreeMap::new(),
        cloud_controller: trellis_model::cluster::CloudController::default(),
        maintenance: trellis_model::cluster::Maintenance::default(),
    };
    let pool = PoolSpec::new("demo".parse().unwrap(), 3, mk_template());
    Estate {
        clusters: vec![Cluster { name, namespace: None, spec }],
        pools: vec![Pool { name: "workers".parse().unwrap(), namespace: None, spec: pool }],
    }
}
