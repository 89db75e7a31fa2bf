//! What follows from an input at once: whose VM and whose Node these are, and which sites can be believed.

use jiff::Timestamp;
use trellis_platform::{Instance, InstanceState, VmSeen};

use super::fencing::{self, Verdict};
use super::input::{Input, ProviderIdForm};
use super::joining;
use super::seen::{MachineSeen, NodeReady, NodeSeen, Record, SiteHealth};
use super::status::Phase;
use super::{reasons, text};

/// The VM of a machine's name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vm<'a> {
    /// There is none.
    None,
    /// It is this machine's.
    Ours(&'a VmSeen),
    /// It is somebody else's, and never touched.
    Foreign(&'a VmSeen),
}

/// An input, and what follows from it at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// The input.
    pub(super) input: &'a Input<'a>,
    /// Now.
    pub(super) now: Timestamp,
    /// The VM of its name.
    pub(super) vm: Vm<'a>,
    /// Its Node.
    pub(super) node: Option<&'a NodeSeen>,
    /// A Node of its name that is another machine's.
    pub(super) stranger: Option<&'a NodeSeen>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(input: &'a Input<'a>, now: Timestamp) -> Self {
        let vm = match &input.platform.vm {
            None => Vm::None,
            Some(vm) if is_ours(input, vm) => Vm::Ours(vm),
            Some(vm) => Vm::Foreign(vm),
        };
        let known = match vm {
            Vm::Ours(vm) => Some(vm),
            Vm::None | Vm::Foreign(_) => None,
        };
        let own = |node: &&NodeSeen| joining::is_its_node(input, known, node);
        let node = input.node.filter(own);
        let stranger = input.node.filter(|node| !own(node));
        Self { input, now, vm, node, stranger }
    }

    /// Its own VM.
    pub(super) fn own_vm(&self) -> Option<&'a VmSeen> {
        match self.vm {
            Vm::Ours(vm) => Some(vm),
            Vm::None | Vm::Foreign(_) => None,
        }
    }

    /// What runs of it; also when its VM object is gone already.
    pub(super) fn instance(&self) -> Option<&'a Instance> {
        match self.vm {
            Vm::Ours(vm) => vm.instance.as_ref(),
            Vm::None => self.input.platform.leftover.as_ref(),
            Vm::Foreign(_) => None,
        }
    }

    /// Whether it runs, as far as its platform can say.
    pub(super) fn runs(&self) -> bool {
        self.instance()
            .is_some_and(|instance| matches!(instance.state, InstanceState::Running | InstanceState::Paused))
    }

    /// Whether what the infra site shows can be believed.
    pub(super) fn infra_up(&self) -> bool {
        self.input.sites.infra == SiteHealth::Up
    }

    /// Whether what the tenant shows can be believed.
    pub(super) fn tenant_up(&self) -> bool {
        self.input.sites.tenant == SiteHealth::Up
    }

    /// Whether there is no tenant that could have Nodes.
    pub(super) fn tenant_absent(&self) -> bool {
        self.input.sites.tenant == SiteHealth::Absent
    }

    /// The first site that is down, as a reason and for people: nothing is removed, replaced or given up then.
    pub(super) fn frozen(&self) -> Option<(&'static str, String)> {
        let sites = self.input.sites;
        let down = [
            (sites.control, reasons::CONTROL_UNREACHABLE, "control site"),
            (sites.infra, reasons::INFRA_UNREACHABLE, "infra site"),
            (sites.tenant, reasons::TENANT_UNREACHABLE, "tenant"),
        ];
        down.into_iter().find_map(|(health, reason, what)| match health {
            SiteHealth::Down(since) => {
                Some((reason, format!("the {what} has not answered since {}", text::clock(since))))
            }
            SiteHealth::Up | SiteHealth::Absent => None,
        })
    }

    /// Whether nothing is late now: a site is down, or people said that the machine is not to be touched.
    pub(super) fn rests(&self) -> bool {
        self.frozen().is_some() || self.input.machine.flags.paused
    }

    /// The moment a limit is counted from: not before the last outage ended.
    pub(super) fn counted_from(&self, since: Timestamp) -> Timestamp {
        self.input.calm_since.map_or(since, |calm| calm.max(since))
    }

    /// Whether the status that was recorded could not say where it was.
    pub(super) fn was_in_doubt(&self) -> bool {
        self.input.machine.record.phase.is_some_and(|(phase, _)| phase == Phase::Unknown)
    }

    /// What is known of the machine, with what is seen now: nothing that was known is forgotten.
    pub(super) fn record(&self) -> Record {
        let mut record = self.input.machine.record.clone();
        if let Some(vm) = self.own_vm() {
            record.infra_namespace.get_or_insert_with(|| self.input.infra_namespace.to_owned());
            record.vm_uid = Some(vm.uid.clone());
            record.vm_removal_seen |= vm.deleting.is_some();
            record.create_failures = (0, None);
            if let Some(uuid) = &vm.firmware_uuid {
                record.firmware_uuid = Some(uuid.clone());
            }
        }
        if let Some(instance) = self.instance().filter(|_| self.runs()) {
            record.instance_uid = Some(instance.uid.clone());
            if let Some(host) = &instance.host {
                record.host = Some(host.name.clone());
            }
        }
        if let Some(node) = self.node {
            record.node = Some((node.name.clone(), node.uid.clone()));
            if let NodeReady::Yes(since) = node.ready {
                record.joined.get_or_insert(since);
            }
        }
        record.unready_since = self.unready_since(&record);
        record
    }

    /// Since when its Node has not been ready; what was known stays while the tenant cannot be asked. A machine that
    /// was in doubt and is not any more gets its time again: its kubelet needs a moment to come back.
    fn unready_since(&self, record: &Record) -> Option<Timestamp> {
        let before = record.unready_since;
        let goes = self.input.machine.deleting.is_some();
        if goes || !self.tenant_up() || record.joined.is_none() {
            return before;
        }
        let in_doubt = matches!(fencing::verdict_of(self, self.instance()), Verdict::InDoubt(_));
        let resolved = self.was_in_doubt() && self.own_vm().is_some() && !in_doubt;
        match self.node.map(|node| node.ready) {
            Some(NodeReady::Yes(_)) => None,
            _ if resolved => Some(self.now),
            Some(NodeReady::No(since) | NodeReady::Silent(since)) => before.or(Some(since)),
            Some(NodeReady::Never) | None => before.or(Some(self.now)),
        }
    }
}

/// Whether the VM of a machine's name is the machine's own: the one recorded, or, when none is, one that says so. One
/// that others made is taken over only if the Machine it was made for is this one.
fn is_ours(input: &Input, vm: &VmSeen) -> bool {
    owns(input.machine, vm, input.cluster, input.infra_namespace, input.provider_id)
}

/// Whether a VM of a machine's name is that machine's own, in a cluster and an infra namespace.
pub fn owns(
    machine: &MachineSeen,
    vm: &VmSeen,
    cluster: &str,
    infra_namespace: &str,
    provider_id: ProviderIdForm,
) -> bool {
    if let Some(uid) = &machine.record.vm_uid {
        return *uid == vm.uid;
    }
    let made_for = vm.machine_uid.as_ref();
    if vm.cluster == cluster {
        return made_for.is_none_or(|uid| *uid == machine.uid);
    }
    let id = provider_id.of(infra_namespace, &machine.name);
    let vouched = made_for == Some(&machine.uid)
        || (made_for.is_none()
            && (machine.provider_id.as_ref() == Some(&id) || machine.record.node.is_some()));
    vm.cluster.is_empty() && vouched
}
