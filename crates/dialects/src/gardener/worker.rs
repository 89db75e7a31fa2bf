//! A worker pool of a Shoot becomes a pool.

use std::collections::BTreeSet;

use trellis_api::common::{IntOrText, Text};
use trellis_api::gardener::WorkerConfig;
use trellis_api::gardener::worker::{Machine, Taint, Worker};
use trellis_model::Pool;
use trellis_model::machine::{Architecture, Devices, Firmware, MachineTemplate};
use trellis_model::names::{ClusterName, NamespaceName, PoolName};
use trellis_model::network::{Dns, NodeTaint};
use trellis_model::placement::{Locality, Placement, TaintEffect};
use trellis_model::pool::{Autoscaling, PoolSpec, UpdatePolicy};
use trellis_model::quantity::Count;

use super::origins::Origins;
use super::profile::{ARCHITECTURES, Profile};
use super::words::{missing, required, suggest};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::{self, DNS_POLICIES, choose};

/// The effects of taints, as Kubernetes spells them.
const TAINT_EFFECTS: &[(&str, TaintEffect)] = &[
    ("NoSchedule", TaintEffect::NoSchedule),
    ("PreferNoSchedule", TaintEffect::PreferNoSchedule),
    ("NoExecute", TaintEffect::NoExecute),
];

/// A pool while it is put together.
pub(super) struct Draft<'d, 'r> {
    /// The Shoot's document.
    pub(super) cx: &'d mut Cx<'r>,
    /// Where its parts were read.
    pub(super) origins: Origins,
    /// The CloudProfile, if it was read.
    pub(super) profile: Option<&'d Profile>,
    /// Where the worker stands.
    pub(super) at: FieldPath,
    /// Where its WorkerConfig stands, or would stand.
    pub(super) config_at: FieldPath,
    /// Its WorkerConfig.
    pub(super) config: Option<&'d WorkerConfig>,
    /// What only the CloudProfile can say, each as the rest of a sentence.
    pub(super) needs: Vec<String>,
}

/// What a pool takes over from its Shoot.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) cluster: &'a ClusterName,
    pub(super) namespace: Option<&'a NamespaceName>,
    pub(super) region: Option<&'a Locality>,
}

impl Draft<'_, '_> {
    /// Notes that a part of the pool was read at a field of the Shoot's document.
    pub(super) fn origin(&mut self, model: impl Into<String>, at: &FieldPath) {
        self.origins.add(model, self.cx.document(), at);
    }

    /// Notes that a part of the pool was read at a field of the WorkerConfig, if there is one.
    pub(super) fn config_origin(&mut self, model: impl Into<String>, field: &str) {
        if self.config.is_some() {
            let at = self.config_at.child(field);
            self.origin(model, &at);
        }
    }

    /// Reads the pool. It is left out when something is missing that no model can do without.
    pub(super) fn pool(&mut self, worker: &Worker, around: &Around<'_>) -> Option<Pool> {
        let at = self.at.clone();
        self.origin("", &at);
        self.origin("name", &at.child("name"));
        let name = required(self.cx, &at.child("name"), worker.name.as_deref(), "a pool needs a name");
        let name = name.and_then(|name| self.cx.parse::<PoolName>(&at.child("name"), name));
        let machine = worker.machine.clone().unwrap_or_default();
        let (shape, image) = (self.shape(&machine), self.image(&machine));
        let (root_disk, data_disks) = self.disks(worker);
        let (replicas, autoscaling) = self.numbers(worker);
        let update = self.update(worker);
        let placement = self.placement(worker, around.region);
        let architecture = self.architecture(&machine);
        let (devices, dns) = (self.other_devices(), self.dns());
        let node_labels = shared::labels(self.cx, &at.child("labels"), &worker.labels);
        let node_annotations = shared::annotations(self.cx, &at.child("annotations"), &worker.annotations);
        let node_taints = self.taints(&worker.taints);
        for (model, field) in
            [("nodeLabels", "labels"), ("nodeAnnotations", "annotations"), ("nodeTaints", "taints")]
        {
            self.origin(model, &at.child(field));
        }
        let version = worker.kubernetes.as_ref().and_then(|kubernetes| kubernetes.version.as_ref());
        let version_at = at.child("kubernetes").child("version");
        self.origin("kubeletVersion", &version_at);
        let kubelet_version = self.cx.parse_opt(&version_at, version.map(Text::as_str));
        self.warn_without_effect(worker);
        let template = MachineTemplate {
            data_disks,
            placement,
            devices,
            dns,
            firmware: firmware(architecture),
            architecture,
            ..shared::template(shape?, image?, root_disk?)
        };
        let spec = PoolSpec {
            autoscaling,
            update,
            node_labels,
            node_annotations,
            node_taints,
            kubelet_version,
            ..PoolSpec::new(around.cluster.clone(), replicas, template)
        };
        Some(Pool { name: name?, namespace: around.namespace.cloned(), spec })
    }

    fn numbers(&mut self, worker: &Worker) -> (u32, Option<Autoscaling>) {
        let (min_at, max_at) = (self.at.child("minimum"), self.at.child("maximum"));
        for (model, at) in [("replicas", &min_at), ("autoscaling.min", &min_at), ("autoscaling", &max_at)] {
            self.origin(model, at);
        }
        for (at, given) in [(&min_at, worker.minimum.is_some()), (&max_at, worker.maximum.is_some())] {
            if !given {
                missing(self.cx, at, "a pool needs its fewest and its most machines", "");
            }
        }
        let min = worker.minimum.or(worker.maximum).unwrap_or(1);
        let max = worker.maximum.unwrap_or(min);
        if min == 0 && max > 0 {
            let message = "this pool may shrink to no machine at all, which Gardener's extension refuses";
            self.cx.notice(
                "scale-to-zero",
                &min_at,
                message,
                "Trellis can do it; for Gardener, write at least 1",
            );
        }
        (min, (min != max).then_some(Autoscaling { min, max }))
    }

    fn update(&mut self, worker: &Worker) -> UpdatePolicy {
        let mut policy = UpdatePolicy::default();
        let surge = self.count("maxSurge", worker.max_surge.as_ref());
        let unavailable = self.count("maxUnavailable", worker.max_unavailable.as_ref());
        policy.max_surge = surge.unwrap_or(policy.max_surge);
        policy.max_unavailable = unavailable.unwrap_or(policy.max_unavailable);
        policy
    }

    fn count(&mut self, field: &str, value: Option<&IntOrText>) -> Option<Count> {
        let at = self.at.child(field);
        self.origin(format!("update.{field}"), &at);
        shared::count(self.cx, &at, value?)
    }

    fn placement(&mut self, worker: &Worker, region: Option<&Locality>) -> Placement {
        let at = self.at.child("zones");
        self.origin("template.placement.zones", &at);
        self.origin("template.placement.region", &FieldPath::root().child("spec").child("region"));
        if worker.zones.is_empty() {
            let help = "add `zones`: [default] means hosts that have no zone label";
            missing(self.cx, &at, "a pool must say which zones of the infra cluster it is in", help);
        }
        let mut zones = Vec::new();
        for (index, zone) in worker.zones.iter().enumerate() {
            let at = at.index(index);
            if let Some(label) =
                required(self.cx, &at, Some(zone.as_str()), "a zone has a name; `default` means none")
            {
                zones.extend(self.cx.parse(&at, label).map(Locality::new));
            }
        }
        self.check_zones(&zones, region);
        Placement { region: region.cloned(), zones, ..Placement::default() }
    }

    fn check_zones(&mut self, zones: &[Locality], region: Option<&Locality>) {
        let known =
            self.profile.zip(region).and_then(|(profile, region)| profile.regions.get(region.as_str()));
        let Some(known) = known.filter(|known| !known.is_empty()) else { return };
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        for (index, zone) in zones.iter().enumerate().filter(|(_, zone)| !known.contains(zone.as_str())) {
            let at = self.at.child("zones").index(index);
            let message = format!("the CloudProfile lists no zone `{}` in this region", zone.as_str());
            self.cx.warning("unknown-zone", &at, message, &suggest(zone.as_str(), &names));
        }
    }

    fn architecture(&mut self, machine: &Machine) -> Architecture {
        let at = self.at.child("machine").child("architecture");
        self.origin("template.architecture", &at);
        self.origin("template.firmware", &at);
        if let Some(name) = machine.architecture.as_deref().filter(|name| !name.is_empty()) {
            return choose(self.cx, &at, name, ARCHITECTURES).unwrap_or_default();
        }
        let found = self.profile.zip(machine.type_.as_ref());
        let found = found.and_then(|(profile, name)| profile.machine_types.get(name));
        found.and_then(|found| found.architecture).unwrap_or_default()
    }

    /// Reads the devices of the WorkerConfig that are no disks.
    pub(super) fn other_devices(&mut self) -> Devices {
        self.config_origin("template.devices", "devices");
        let Some(devices) = self.config.and_then(|config| config.devices.as_ref()) else {
            return Devices::default();
        };
        Devices {
            rng: devices.rng.is_some(),
            block_multi_queue: devices.block_multi_queue.unwrap_or_default(),
            network_multi_queue: devices.network_interface_multi_queue.unwrap_or_default(),
            ..Devices::default()
        }
    }

    /// Reads name resolution from the WorkerConfig.
    pub(super) fn dns(&mut self) -> Dns {
        self.config_origin("template.dns", "dnsConfig");
        self.config_origin("template.dns.policy", "dnsPolicy");
        let Some(config) = self.config else { return Dns::default() };
        let policy_at = self.config_at.child("dnsPolicy");
        let policy = config.dns_policy.as_deref().filter(|policy| !policy.is_empty());
        let policy = policy.and_then(|policy| choose(self.cx, &policy_at, policy, DNS_POLICIES));
        let dns = config.dns_config.clone().unwrap_or_default();
        let options = dns.options.into_iter();
        let options = options.map(|option| (option.name, option.value.map(|value| value.0)));
        let at = self.config_at.child("dnsConfig");
        shared::dns(self.cx, policy.unwrap_or_default(), &at, &dns.nameservers, &dns.searches, options)
    }

    fn taints(&mut self, taints: &[Taint]) -> BTreeSet<NodeTaint> {
        let mut read = BTreeSet::new();
        for (index, taint) in taints.iter().enumerate() {
            let at = self.at.child("taints").index(index);
            let key = required(self.cx, &at.child("key"), taint.key.as_deref(), "a taint needs a key");
            let effect_at = at.child("effect");
            let effect = required(self.cx, &effect_at, taint.effect.as_deref(), "a taint needs an effect");
            let effect = effect.and_then(|effect| choose(self.cx, &effect_at, effect, TAINT_EFFECTS));
            let (Some(key), Some(effect)) = (key, effect) else { continue };
            let value = taint.value.as_ref().map(Text::as_str);
            if let Some(taint) = shared::taint(self.cx, &at, key, value, effect)
                && !read.insert(taint)
            {
                self.cx.warning("duplicate-taint", &at, "this taint is listed twice", "list it once");
            }
        }
        read
    }

    fn warn_without_effect(&mut self, worker: &Worker) {
        if let Some(strategy) = worker.update_strategy.as_deref().filter(|name| *name != "AutoRollingUpdate")
        {
            let message = format!("`{strategy}` has no effect: machines are replaced one after another");
            self.cx.warning("no-effect", &self.at.child("updateStrategy"), message, "remove it");
        }
        if worker.kubelet_data_volume_name.is_some() {
            let message =
                "`kubeletDataVolumeName` has no effect: the kubelet keeps its data on the root disk";
            let help = "make the root disk large enough and remove it";
            self.cx.warning("no-effect", &self.at.child("kubeletDataVolumeName"), message, help);
        }
    }
}

/// A Shoot does not say how firmware starts; Arm machines have no BIOS.
pub(super) fn firmware(architecture: Architecture) -> Firmware {
    match architecture {
        Architecture::Arm64 => Firmware::Uefi,
        Architecture::Amd64 | Architecture::S390x => Firmware::Bios,
    }
}
