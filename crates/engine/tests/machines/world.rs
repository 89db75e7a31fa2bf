//! A small world for one machine: an infra that makes VMs, a tenant with Nodes and pods, people and faults.
//!
//! Things happen in it whether or not anybody sees them; what a plan sees is a view, which may lag behind what others
//! did, never behind what the plan itself wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use trellis_engine::machines::{
    Attached, Flags, MachineSeen, NodeReady, NodeSeen, OwnedNodeMeta, PodSeen, Refusal, SiteHealth, Step,
};
use trellis_platform::{
    Action, Evacuation, HostState, Instance, InstanceState, MigrationSeen, MigrationState, Observation,
    VolumeState, Wish,
};

use crate::testing::{Scene, at, mk_instance, mk_node, mk_pod, mk_vm, mk_volume};

/// Something that happens besides looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Passes(u16),
    Progress(u8),
    InfraDown,
    InfraUp,
    TenantDown,
    TenantUp,
    PersonDeletesMachine,
    PersonDeletesVm,
    PersonStripsVm,
    PersonDeletesNode,
    SomebodyTakesTheName,
    RunEnds,
    HostFallsSilent,
    HostComesBack,
    HostIsTakenOut,
    HostIsVouchedDead,
    HostIsDrained,
    HostIsUncordoned,
    CannotMove,
    MovesFail,
    BudgetRefuses,
    BudgetAllows,
    Pause,
    Resume,
    Skip,
    Drift,
}

/// The world.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) machine: Option<MachineSeen>,
    pub(crate) platform: Observation,
    pub(crate) node: Option<NodeSeen>,
    pub(crate) pods: Vec<PodSeen>,
    /// What a plan sees of the infra and of the tenant.
    view: (Observation, Option<NodeSeen>, Vec<PodSeen>),
    scene: Scene,
    host: HostState,
    cordoned: bool,
    movable: bool,
    moves_fail: bool,
    refusing: bool,
    watching_pods: bool,
    serial: u32,
    /// The VMs our steps made.
    pub(crate) made: BTreeSet<String>,
    /// A person removed the VM, or a fault did: the machine cannot come back.
    pub(crate) lost: bool,
    /// A machine of somebody else had the name for a while: what carries the name was left to be on the safe side.
    taken: bool,
}

impl World {
    pub(crate) fn new(wish: Arc<Wish>, in_set: bool) -> Self {
        let mut scene = Scene::new(wish);
        scene.rights.in_set = in_set;
        Self {
            now: 0,
            machine: Some(scene.machine.clone()),
            platform: Observation::default(),
            node: None,
            pods: Vec::new(),
            view: (Observation::default(), None, Vec::new()),
            scene,
            host: HostState::Ready,
            cordoned: false,
            movable: true,
            moves_fail: false,
            refusing: false,
            watching_pods: false,
            serial: 0,
            made: BTreeSet::new(),
            lost: false,
            taken: false,
        }
    }

    pub(crate) fn time(&self) -> Timestamp {
        at(self.now)
    }

    fn uid(&mut self, what: &str) -> String {
        self.serial += 1;
        format!("{what}-{}", self.serial)
    }

    /// What a plan sees now; what others did lately is not in it when it lags. A site that is down shows nothing new.
    pub(crate) fn look(&mut self, lags: bool) -> Option<Scene> {
        let machine = self.machine.clone()?;
        if !lags {
            self.refresh(true, true);
        }
        let mut scene = self.scene.clone();
        scene.machine = machine;
        scene.platform = self.view.0.clone();
        scene.node = self.view.1.clone();
        scene.pods = self.watching_pods.then(|| self.view.2.clone());
        Some(scene)
    }

    fn refresh(&mut self, infra: bool, tenant: bool) {
        if infra && self.scene.sites.infra == SiteHealth::Up {
            self.view.0 = self.platform.clone();
        }
        if tenant && self.scene.sites.tenant == SiteHealth::Up {
            self.view.1 = self.node.clone();
            self.view.2 = self.pods.clone();
        }
    }

    /// A status is written; a drain that it tells of makes somebody watch the pods.
    pub(crate) fn write_status(&mut self, status: &trellis_engine::machines::MachineStatus) {
        if let Some(machine) = &mut self.machine {
            machine.record = status.record.clone();
        }
        self.watch_pods(status.record.drain_started.is_some());
    }

    pub(crate) fn watch_pods(&mut self, wanted: bool) {
        self.watching_pods = wanted;
    }

    /// Does one step; tells whether it was taken.
    pub(crate) fn apply(&mut self, step: &Step) -> bool {
        let done = self.try_apply(step);
        self.refresh(matches!(step, Step::Platform(_)), !matches!(step, Step::Platform(_)));
        done
    }

    fn try_apply(&mut self, step: &Step) -> bool {
        match step {
            Step::Platform(action) => {
                return self.scene.sites.infra == SiteHealth::Up && self.act(action);
            }
            Step::AddFinalizer => self.machine.as_mut().unwrap().finalizer = true,
            Step::SetProviderId(id) => self.machine.as_mut().unwrap().provider_id = Some(id.clone()),
            Step::RemoveFinalizer => self.machine = None,
            Step::DeleteMachine => self.delete_machine(),
            _ if self.scene.sites.tenant != SiteHealth::Up => return false,
            Step::UpdateNode { uid, provider_id, vm_uid, wish, before, .. } => {
                let Some(node) = self.node.as_mut().filter(|node| node.uid == *uid) else { return false };
                node.provider_id = node.provider_id.take().or(provider_id.clone());
                node.vm_uid = Some(vm_uid.clone());
                node.meta.labels.retain(|key, _| !before.labels.contains_key(key));
                node.meta.labels.extend(wish.labels.clone());
                node.ours = wish.clone();
            }
            Step::Cordon { uid, cordoned, vm_uid, .. } => {
                let Some(node) = self.node.as_mut().filter(|node| node.uid == *uid) else { return false };
                (node.cordoned, node.cordoned_for) = (*cordoned, vm_uid.clone());
            }
            Step::Evict { uid, .. } => self.evict(uid),
            Step::DeletePod { uid, force: false, .. } => {
                let now = self.time();
                self.pods
                    .iter_mut()
                    .filter(|pod| pod.uid == *uid)
                    .for_each(|pod| pod.deleting = Some((now, 30)));
            }
            Step::DeletePod { uid, force: true, .. } => self.pods.retain(|pod| pod.uid != *uid),
            Step::DeleteNode { uid, .. } => {
                if self.node.as_ref().is_none_or(|node| node.uid != *uid) {
                    return false;
                }
                self.node = None;
                self.pods.clear();
            }
        }
        true
    }

    fn evict(&mut self, uid: &str) {
        let (now, refusing) = (self.time(), self.refusing);
        for pod in self.pods.iter_mut().filter(|pod| pod.uid == uid) {
            if refusing {
                let times = pod.refused.as_ref().map_or(1, |refusal| refusal.times + 1);
                pod.refused = Some(Refusal { why: "the budget is used up".to_owned(), at: now, times });
            } else {
                pod.deleting = Some((now, 30));
            }
        }
    }

    fn act(&mut self, action: &Action) -> bool {
        let now = self.time();
        match action {
            Action::StoreUserData(_) => self.platform.user_data_stored = true,
            Action::EraseUserData { .. } => self.platform.user_data_stored = false,
            Action::Create(_) => {
                if self.platform.vm.is_some() {
                    return false;
                }
                let mut vm = mk_vm(None);
                vm.uid = self.uid("vm");
                vm.firmware_uuid = Some(format!("uuid-of-{}", vm.uid));
                vm.created = now;
                self.made.insert(vm.uid.clone());
                self.platform.vm = Some(vm);
                let uid = self.uid("volume");
                let waiting = VolumeState::Waiting("for the storage".to_owned());
                self.platform.volumes = vec![trellis_platform::VolumeSeen { uid, ..mk_volume(waiting) }];
            }
            Action::Update(_) => {
                if let Some(vm) = &mut self.platform.vm {
                    vm.drift.clear();
                }
            }
            Action::Migrate { instance_uid, .. } => {
                let name = self.uid("move");
                let state = MigrationState::Going("Scheduling".to_owned());
                let Some(instance) = self.run(instance_uid) else { return false };
                instance.migration = Some(MigrationSeen { name, ours: true, state, created: now });
            }
            Action::CancelMigration { migration } => {
                if let Some(instance) = self.platform.vm.as_mut().and_then(|vm| vm.instance.as_mut()) {
                    instance.migration.take_if(|seen| seen.name == *migration);
                }
            }
            Action::StopInstance { instance_uid, force, .. } => {
                let stops = *force || self.host == HostState::Ready;
                if stops && self.run(instance_uid).is_some() {
                    self.end_run();
                }
            }
            Action::Delete { uid, .. } => {
                let Some(vm) = self.platform.vm.as_mut().filter(|vm| vm.uid == *uid) else { return false };
                vm.deleting = vm.deleting.or(Some(now));
            }
            Action::DeleteVolume { uid, .. } => {
                let volumes = self.platform.volumes.iter_mut().filter(|volume| volume.uid == *uid);
                volumes.for_each(|volume| volume.deleting = Some(now));
            }
        }
        true
    }

    fn run(&mut self, uid: &str) -> Option<&mut Instance> {
        let run = match &mut self.platform.vm {
            Some(vm) => vm.instance.as_mut(),
            None => self.platform.leftover.as_mut(),
        };
        run.filter(|run| run.uid == uid)
    }

    fn end_run(&mut self) {
        self.platform.leftover = None;
        if let Some(vm) = &mut self.platform.vm {
            vm.instance = None;
        }
        // What starts next starts on another host.
        self.host = HostState::Ready;
        self.cordoned = false;
    }

    fn delete_machine(&mut self) {
        let now = self.time();
        let Some(machine) = &mut self.machine else { return };
        machine.deleting = machine.deleting.or(Some(now));
        if !machine.finalizer {
            self.machine = None;
        }
    }

    fn flags(&mut self, change: impl FnOnce(&mut Flags)) {
        if let Some(machine) = &mut self.machine {
            change(&mut machine.flags);
        }
    }

    /// Something happens.
    pub(crate) fn happen(&mut self, event: Event) {
        let now = self.time();
        match event {
            Event::Passes(seconds) => self.now += i64::from(seconds),
            Event::Progress(times) => (0..times).for_each(|_| {
                self.progress();
            }),
            Event::InfraDown => self.scene.sites.infra = SiteHealth::Down(now),
            Event::InfraUp => self.scene.sites.infra = SiteHealth::Up,
            Event::TenantDown => self.scene.sites.tenant = SiteHealth::Down(now),
            Event::TenantUp => self.scene.sites.tenant = SiteHealth::Up,
            Event::PersonDeletesMachine => self.delete_machine(),
            Event::PersonDeletesVm => {
                if let Some(vm) = self.platform.vm.as_mut() {
                    vm.deleting = vm.deleting.or(Some(now));
                    self.lost = true;
                }
            }
            Event::PersonStripsVm => {
                if let Some(vm) = self.platform.vm.take() {
                    self.platform.leftover = vm.instance;
                    self.lost = true;
                }
            }
            Event::PersonDeletesNode => {
                self.node = None;
                self.pods.clear();
            }
            Event::SomebodyTakesTheName => {
                if self.platform.vm.is_none() && self.platform.leftover.is_none() {
                    let mut vm = mk_vm(None);
                    vm.uid = self.uid("foreign");
                    vm.cluster = "another".to_owned();
                    vm.machine_uid = None;
                    self.platform.vm = Some(vm);
                    self.lost = true;
                    self.taken = true;
                }
            }
            Event::RunEnds => {
                if let Some(run) = self.platform.vm.as_mut().and_then(|vm| vm.instance.as_mut()) {
                    run.state = InstanceState::Failed("the guest panicked".to_owned());
                }
            }
            Event::HostFallsSilent => self.host_is(HostState::Silent(now)),
            Event::HostComesBack => self.host_is(HostState::Ready),
            Event::HostIsTakenOut => self.host_is(HostState::Gone),
            Event::HostIsVouchedDead => self.host_is(HostState::OutOfService),
            Event::HostIsDrained => self.cordoned = true,
            Event::HostIsUncordoned => self.cordoned = false,
            Event::CannotMove => self.movable = false,
            Event::MovesFail => self.moves_fail = true,
            Event::BudgetRefuses => self.refusing = true,
            Event::BudgetAllows => self.refusing = false,
            Event::Pause => self.flags(|flags| flags.paused = true),
            Event::Resume => self.flags(|flags| flags.paused = false),
            Event::Skip => self.flags(|flags| flags.skip_drain = true),
            Event::Drift => {
                if let Some(vm) = &mut self.platform.vm {
                    vm.drift = vec![trellis_platform::Drift { what: "memory".to_owned() }];
                }
            }
        }
        self.show_host();
    }

    fn host_is(&mut self, state: HostState) {
        self.host = state;
    }

    /// All faults end.
    pub(crate) fn heal(&mut self) {
        for event in [
            Event::InfraUp,
            Event::TenantUp,
            Event::HostComesBack,
            Event::HostIsUncordoned,
            Event::BudgetAllows,
            Event::Resume,
        ] {
            self.happen(event);
        }
        self.moves_fail = false;
        self.scene.calm_since = Some(self.time());
    }

    /// Shows the state of the host on the run.
    fn show_host(&mut self) {
        let (host, cordoned, movable) = (self.host, self.cordoned, self.movable);
        let run = match &mut self.platform.vm {
            Some(vm) => vm.instance.as_mut(),
            None => self.platform.leftover.as_mut(),
        };
        if let Some(run) = run {
            if let Some(seen) = &mut run.host {
                seen.state = host;
            }
            run.migratable = Some(if movable { Ok(()) } else { Err("it has a host disk".to_owned()) });
            let evacuation = Evacuation { host: "host-1".to_owned(), host_cordoned: true };
            run.evacuation = cordoned.then_some(evacuation);
        }
    }

    /// The next thing that happens by itself; tells whether anything did.
    pub(crate) fn progress(&mut self) -> bool {
        let moved =
            self.progress_pods() || self.progress_node() || self.progress_vm() || self.progress_volumes();
        self.show_host();
        moved
    }

    fn is_alive(&self) -> bool {
        let run = match &self.platform.vm {
            Some(vm) if self.made.contains(&vm.uid) => vm.instance.as_ref(),
            Some(_) => None,
            None => self.platform.leftover.as_ref(),
        };
        self.host == HostState::Ready && run.is_some_and(|run| run.state == InstanceState::Running)
    }

    fn progress_pods(&mut self) -> bool {
        let before = self.pods.len();
        if self.is_alive() {
            self.pods.retain(|pod| pod.deleting.is_none());
        }
        let held = self.pods.iter().any(|pod| pod.has_volumes);
        if let Some(node) = &mut self.node {
            let attached = if held { vec!["pv-1".to_owned()] } else { Vec::new() };
            let seen = Attached { attached: attached.clone(), in_use: attached };
            if node.attached != seen {
                node.attached = seen;
                return true;
            }
        }
        before != self.pods.len()
    }

    fn progress_node(&mut self) -> bool {
        let (now, alive) = (self.time(), self.is_alive());
        let uuid = self.platform.vm.as_ref().and_then(|vm| vm.firmware_uuid.clone());
        match &mut self.node {
            // A kubelet takes over the Node object that has its name.
            Some(node) if alive && uuid.as_ref().is_some_and(|uuid| node.system_uuid != *uuid) => {
                node.system_uuid = uuid.unwrap_or_default();
                node.ready = NodeReady::Yes(now);
            }
            Some(node) => match node.ready {
                NodeReady::Yes(_) if !alive => node.ready = NodeReady::Silent(now),
                NodeReady::Yes(_) => return false,
                _ if alive => {
                    node.ready = NodeReady::Yes(now);
                    if self.pods.is_empty() && !node.cordoned {
                        let daemon = PodSeen { daemon: true, ..mk_pod("agent") };
                        let keeper = PodSeen { has_volumes: true, ..mk_pod("db") };
                        self.pods = vec![mk_pod("web"), keeper, daemon];
                    }
                }
                _ => return false,
            },
            None => {
                let Some(uuid) = uuid.filter(|_| alive) else { return false };
                let mut node = mk_node(&OwnedNodeMeta::default());
                node.uid = self.uid("node");
                node.created = now;
                node.system_uuid = uuid;
                node.provider_id = None;
                node.vm_uid = None;
                node.ready = NodeReady::Never;
                self.node = Some(node);
            }
        }
        true
    }

    fn progress_vm(&mut self) -> bool {
        let (now, host) = (self.time(), self.host);
        if self.platform.leftover.is_some() && host == HostState::Ready {
            self.end_run();
            return true;
        }
        let ready = self.platform.volumes.iter().all(|volume| volume.state == VolumeState::Ready);
        let next = format!("run-{}", self.serial + 1);
        let moves_fail = self.moves_fail;
        let Some(vm) = &mut self.platform.vm else { return false };
        if !self.made.contains(&vm.uid) {
            return false;
        }
        let going = vm.deleting.is_some();
        let Some(run) = &mut vm.instance else {
            if going {
                self.platform.vm = None;
                return true;
            }
            if ready {
                self.serial += 1;
                let mut run = mk_instance(InstanceState::Pending);
                run.uid = next;
                run.created = now;
                vm.instance = Some(run);
            }
            return ready;
        };
        if run.state.is_final() || (going && host == HostState::Ready) {
            vm.instance = None;
            return true;
        }
        if host != HostState::Ready {
            return false;
        }
        run.state = match run.state {
            InstanceState::Pending => InstanceState::Scheduling(None),
            InstanceState::Scheduling(_) => InstanceState::Starting,
            InstanceState::Starting => {
                run.running_since = Some(now);
                InstanceState::Running
            }
            _ => return self.progress_move(moves_fail),
        };
        true
    }

    fn progress_move(&mut self, fails: bool) -> bool {
        let Some(run) = self.platform.vm.as_mut().and_then(|vm| vm.instance.as_mut()) else { return false };
        let Some(migration) = &mut run.migration else { return false };
        if !matches!(migration.state, MigrationState::Going(_)) {
            return false;
        }
        if fails {
            migration.state = MigrationState::Failed("no target fits".to_owned());
        } else {
            migration.state = MigrationState::Succeeded;
            self.cordoned = false;
        }
        true
    }

    fn progress_volumes(&mut self) -> bool {
        let before = self.platform.volumes.len();
        self.platform.volumes.retain(|volume| volume.deleting.is_none());
        if before != self.platform.volumes.len() {
            return true;
        }
        let alive = self.platform.vm.is_some();
        for volume in self.platform.volumes.iter_mut().filter(|_| alive) {
            volume.state = match &volume.state {
                VolumeState::Waiting(_) => {
                    VolumeState::Filling { way: "clone".to_owned(), progress: Some(40) }
                }
                VolumeState::Filling { .. } => VolumeState::Ready,
                VolumeState::Ready | VolumeState::Failed(_) => continue,
            };
            return true;
        }
        false
    }

    /// What is left of the machine: the names of what is there although it should be gone.
    pub(crate) fn left(&self) -> Vec<&'static str> {
        let foreign = self.platform.vm.as_ref().is_some_and(|vm| !self.made.contains(&vm.uid));
        let ours = |uid: &str| self.made.iter().any(|vm| uid == format!("uuid-of-{vm}"));
        [
            (self.platform.vm.is_some() && !foreign, "VM"),
            (self.platform.leftover.is_some(), "run"),
            (!self.platform.volumes.is_empty() && !self.taken, "volumes"),
            (self.platform.user_data_stored && !self.taken, "user data"),
            // A Node that was never linked, of a VM that was never seen, is nobody's for certain.
            (self.node.as_ref().is_some_and(|node| node.vm_uid.is_some() && ours(&node.system_uuid)), "Node"),
        ]
        .into_iter()
        .filter_map(|(there, what)| there.then_some(what))
        .collect()
    }
}
