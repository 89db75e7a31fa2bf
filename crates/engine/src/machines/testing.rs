//! A small machine that tests change: one Machine `demo-0`, what is seen of it, and a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use trellis_engine::machines::{
    Attached, Blocked, Deadlines, Flags, Input, MachinePlan, MachineSeen, NodeReady, NodeSeen, OwnedNodeMeta,
    PodSeen, ProviderIdForm, Record, Rights, SiteHealth, Sites, Step, plan,
};
use trellis_model::canonical::Revision;
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
use trellis_model::{Cluster, Pool};
use trellis_platform::{
    Action, HostSeen, HostState, Instance, InstanceState, MachineIdentity, Observation, VmSeen, VolumeSeen,
    VolumeState, Wish,
};

/// The name of the machine, its VM and its Node.
pub(crate) const NAME: &str = "demo-0";
/// The cluster it belongs to.
pub(crate) const CLUSTER: &str = "demo";
/// The infra namespace.
pub(crate) const NAMESPACE: &str = "infra-demo";

/// So many seconds after the beginning.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Everything a plan looks at, owned.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) machine: MachineSeen,
    pub(crate) wish: Result<Arc<Wish>, Blocked>,
    pub(crate) node_wish: OwnedNodeMeta,
    pub(crate) platform: Observation,
    pub(crate) node: Option<NodeSeen>,
    pub(crate) pods: Option<Vec<PodSeen>>,
    pub(crate) sites: Sites,
    pub(crate) calm_since: Option<Timestamp>,
    pub(crate) deadlines: Deadlines,
    pub(crate) form: ProviderIdForm,
    pub(crate) rights: Rights,
    pub(crate) held: Option<&'static str>,
    pub(crate) namespace: String,
}

impl Scene {
    /// A machine that belongs to a set and of which nothing exists.
    pub(crate) fn new(wish: Arc<Wish>) -> Self {
        let up = SiteHealth::Up;
        Self {
            machine: mk_machine(),
            wish: Ok(wish),
            node_wish: OwnedNodeMeta {
                labels: BTreeMap::from([("pool".to_owned(), "workers".to_owned())]),
                ..OwnedNodeMeta::default()
            },
            platform: Observation::default(),
            node: None,
            pods: None,
            sites: Sites { control: up, tenant: up, infra: up },
            calm_since: None,
            deadlines: Deadlines::default(),
            form: ProviderIdForm::Name,
            rights: Rights {
                in_set: true,
                may_replace: true,
                held: None,
                may_disrupt: true,
                may_change: true,
            },
            held: None,
            namespace: NAMESPACE.to_owned(),
        }
    }

    /// One whose VM exists, and runs if a run is given.
    pub(crate) fn made(instance: Option<Instance>) -> Self {
        let mut scene = Self::new(mk_wish());
        scene.machine.finalizer = true;
        scene.machine.provider_id = Some(format!("kubevirt://{NAME}"));
        scene.machine.record.vm_uid = Some("vm-1".to_owned());
        scene.machine.record.infra_namespace = Some(NAMESPACE.to_owned());
        scene.machine.record.firmware_uuid = Some("uuid-1".to_owned());
        scene.platform.user_data_stored = true;
        scene.platform.vm = Some(mk_vm(instance));
        scene.platform.volumes = vec![mk_volume(VolumeState::Ready)];
        scene
    }

    /// One that has joined and is well.
    pub(crate) fn joined() -> Self {
        let mut scene = Self::made(Some(mk_instance(InstanceState::Running)));
        scene.platform.user_data_stored = false;
        scene.node = Some(mk_node(&scene.node_wish));
        scene.machine.record.joined = Some(at(60));
        scene.machine.record.instance_uid = Some("run-1".to_owned());
        scene
    }

    /// One that has joined and is to go.
    pub(crate) fn going() -> Self {
        let mut scene = Self::joined();
        scene.machine.deleting = Some(at(100));
        scene
    }

    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            machine: &self.machine,
            wish: self.wish.as_ref(),
            node_wish: &self.node_wish,
            platform: &self.platform,
            node: self.node.as_ref(),
            pods: self.pods.as_deref(),
            sites: self.sites,
            calm_since: self.calm_since,
            deadlines: &self.deadlines,
            provider_id: self.form,
            cluster: CLUSTER,
            infra_namespace: &self.namespace,
            rights: self.rights,
            held: self.held,
        }
    }

    /// The plan so many seconds after the beginning.
    pub(crate) fn plan(&self, seconds: i64) -> MachinePlan {
        plan(&self.input(), at(seconds))
    }

    /// The plan after the status of the first was written: what a machine says when it is looked at again.
    pub(crate) fn remember(&mut self, seconds: i64) -> MachinePlan {
        let plan = self.plan(seconds);
        self.machine.record = plan.status.record.clone();
        plan
    }

    /// Its run.
    pub(crate) fn instance(&mut self) -> &mut Instance {
        self.platform.vm.as_mut().unwrap().instance.as_mut().unwrap()
    }

    /// The host of its run.
    pub(crate) fn host(&mut self, state: HostState) {
        self.instance().host.as_mut().unwrap().state = state;
    }

    /// Its Node's word.
    pub(crate) fn node_is(&mut self, ready: NodeReady) {
        self.node.as_mut().unwrap().ready = ready;
    }
}

/// The steps of a plan, one word each.
pub(crate) fn words(plan: &MachinePlan) -> Vec<&'static str> {
    plan.steps.iter().map(word).collect()
}

/// A step in one word.
pub(crate) fn word(step: &Step) -> &'static str {
    match step {
        Step::AddFinalizer => "finalizer",
        Step::RemoveFinalizer => "release",
        Step::SetProviderId(_) => "provider-id",
        Step::UpdateNode { .. } => "node",
        Step::Cordon { cordoned: true, .. } => "cordon",
        Step::Cordon { cordoned: false, .. } => "uncordon",
        Step::Evict { .. } => "evict",
        Step::DeletePod { force: false, .. } => "delete-pod",
        Step::DeletePod { force: true, .. } => "bury-pod",
        Step::DeleteNode { .. } => "delete-node",
        Step::DeleteMachine => "replace",
        Step::Platform(action) => match action {
            Action::StoreUserData(_) => "secret",
            Action::Create(_) => "create",
            Action::Update(_) => "update",
            Action::Migrate { .. } => "migrate",
            Action::CancelMigration { .. } => "cancel-migration",
            Action::StopInstance { force: false, .. } => "stop",
            Action::StopInstance { force: true, .. } => "fence",
            Action::Delete { .. } => "delete",
            Action::DeleteVolume { .. } => "delete-volume",
            Action::EraseUserData { .. } => "erase",
        },
    }
}

pub(crate) fn mk_machine() -> MachineSeen {
    MachineSeen {
        name: NAME.to_owned(),
        namespace: "default".to_owned(),
        uid: "machine-1".to_owned(),
        generation: 1,
        created: at(0),
        deleting: None,
        finalizer: false,
        provider_id: None,
        flags: Flags::default(),
        record: Record::default(),
        recorded: true,
        create_trouble: None,
    }
}

pub(crate) fn mk_vm(instance: Option<Instance>) -> VmSeen {
    VmSeen {
        uid: "vm-1".to_owned(),
        firmware_uuid: Some("uuid-1".to_owned()),
        created: at(5),
        deleting: None,
        cluster: CLUSTER.to_owned(),
        machine_uid: Some("machine-1".to_owned()),
        instance,
        trouble: None,
        crash_loop: None,
        drift: Vec::new(),
        restart_required: false,
    }
}

pub(crate) fn mk_instance(state: InstanceState) -> Instance {
    let started = matches!(state, InstanceState::Running | InstanceState::Paused);
    let host = HostSeen { name: "host-1".to_owned(), state: HostState::Ready, zone: None, region: None };
    Instance {
        uid: "run-1".to_owned(),
        created: at(10),
        state,
        running_since: started.then(|| at(30)),
        host: Some(host),
        addresses: Vec::new(),
        migratable: Some(Ok(())),
        evacuation: None,
        migration: None,
    }
}

pub(crate) fn mk_volume(state: VolumeState) -> VolumeSeen {
    VolumeSeen { name: format!("{NAME}-root"), uid: "volume-1".to_owned(), state, deleting: None }
}

/// A Node that is linked, carries what is wished and is ready.
pub(crate) fn mk_node(wish: &OwnedNodeMeta) -> NodeSeen {
    NodeSeen {
        name: NAME.to_owned(),
        uid: "node-1".to_owned(),
        created: at(50),
        deleting: None,
        provider_id: Some(format!("kubevirt://{NAME}")),
        system_uuid: "uuid-1".to_owned(),
        ready: NodeReady::Yes(at(60)),
        cordoned: false,
        cordoned_for: None,
        meta: wish.clone(),
        ours: wish.clone(),
        vm_uid: Some("vm-1".to_owned()),
        attached: Attached::default(),
        kubelet_version: "v1.34.2".to_owned(),
    }
}

pub(crate) fn mk_pod(name: &str) -> PodSeen {
    PodSeen {
        namespace: "apps".to_owned(),
        name: name.to_owned(),
        uid: format!("pod-{name}"),
        daemon: false,
        mirror: false,
        finished: false,
        deleting: None,
        refused: None,
        has_volumes: false,
    }
}

/// A wish; plans hand it on and do not look into it.
pub(crate) fn mk_wish() -> Arc<Wish> {
    let spec = ClusterSpec {
        platform: Platform::Kubevirt(KubevirtPlatform::default()),
        version: Some("1.34.2".parse().unwrap()),
        base_domain: None,
        network: Networking::default(),
        ssh_keys: BTreeSet::new(),
        flavors: BTreeMap::new(),
        cloud_controller: trellis_model::cluster::CloudController::default(),
        maintenance: trellis_model::cluster::Maintenance::default(),
    };
    let cluster = Cluster { name: CLUSTER.parse().unwrap(), namespace: None, spec };
    let pool = Pool {
        name: "workers".parse().unwrap(),
        namespace: None,
        spec: PoolSpec::new(CLUSTER.parse().unwrap(), 1, mk_template()),
    };
    let revision = Revision::of(&cluster, &pool);
    let identity = MachineIdentity { name: NAME.to_owned(), ordinal: 0, revision, zone: None };
    Arc::new(Wish {
        cluster: Arc::new(cluster),
        pool: Arc::new(pool),
        identity,
        owner: None,
        user_data: None,
    })
}

fn mk_template() -> MachineTemplate {
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
