//! The Node of a machine: which one it is, what links the two, and what the pool put on it.

use trellis_platform::{Action, VmSeen};

use super::draft::Draft;
use super::facts::Facts;
use super::input::Input;
use super::seen::{NodeSeen, OwnedNodeMeta};
use super::step::Step;

/// Whether a Node is a machine's own. A name is no proof, nor is an address: both are used again.
///
/// The firmware's identifier decides wherever it is known on both sides, also against what was linked before: a new
/// machine of an old name takes over the Node object of the old one. Where it is not known, our annotation decides,
/// then the link that was recorded, then the provider id of a Node that is younger than the VM.
pub(super) fn is_its_node(input: &Input, vm: Option<&VmSeen>, node: &NodeSeen) -> bool {
    let record = &input.machine.record;
    let vm_uid = vm.map(|vm| &vm.uid).or(record.vm_uid.as_ref());
    let uuid = vm.and_then(|vm| vm.firmware_uuid.as_ref()).or(record.firmware_uuid.as_ref());
    if let Some(uuid) = uuid.filter(|_| !node.system_uuid.is_empty()) {
        return uuid.eq_ignore_ascii_case(&node.system_uuid);
    }
    if let Some(linked) = &node.vm_uid {
        return vm_uid == Some(linked);
    }
    if let Some((_, uid)) = &record.node {
        return *uid == node.uid;
    }
    let id = input.provider_id.of(input.infra_namespace, &input.machine.name);
    node.provider_id.as_ref() == Some(&id) && vm.is_some_and(|vm| node.created >= vm.created)
}

/// The steps that link a Node to its machine, bring it to what the pool wishes and, once it has joined, erase what
/// was secret of its first boot.
pub(super) fn steps(facts: &Facts, draft: &mut Draft, vm: &VmSeen) {
    let machine = facts.input.machine;
    let node = facts.node.filter(|node| node.deleting.is_none());
    if let Some(step) = node.and_then(|node| node_step(facts.input, vm, node)) {
        // A Node is linked only after its VM was recorded: whoever finds the link later must know whose it is.
        if machine.recorded && machine.record.vm_uid.is_some() {
            draft.step(facts, step);
        } else {
            draft.pressing = true;
        }
    }
    // Nobody waits for this: that it has joined is said first.
    if machine.record.joined.is_some() && facts.input.platform.user_data_stored {
        draft.act(facts, Action::EraseUserData { machine: machine.name.clone() });
    }
}

/// The one patch a Node needs, if it needs one. A provider id that is there stays as it is: it cannot change.
fn node_step(input: &Input, vm: &VmSeen, node: &NodeSeen) -> Option<Step> {
    let linked = node.vm_uid.as_ref() == Some(&vm.uid) && node.provider_id.is_some();
    let as_wished = node.ours == *input.node_wish && carries(&node.meta, input.node_wish);
    if linked && as_wished {
        return None;
    }
    let id = input.provider_id.of(input.infra_namespace, &input.machine.name);
    Some(Step::UpdateNode {
        node: node.name.clone(),
        uid: node.uid.clone(),
        provider_id: node.provider_id.is_none().then_some(id),
        vm_uid: vm.uid.clone(),
        infra_namespace: input.infra_namespace.to_owned(),
        wish: input.node_wish.clone(),
        before: node.ours.clone(),
    })
}

/// Whether everything wished is there; what else is there does not matter.
fn carries(seen: &OwnedNodeMeta, wish: &OwnedNodeMeta) -> bool {
    wish.labels.iter().all(|(key, value)| seen.labels.get(key) == Some(value))
        && wish.annotations.iter().all(|(key, value)| seen.annotations.get(key) == Some(value))
        && wish.taints.iter().all(|taint| seen.taints.contains(taint))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Phase, ProviderIdForm, reasons};
    use super::*;
    use trellis_platform::InstanceState;

    #[test]
    fn a_node_is_known_by_identity_and_never_by_name_alone() {
        /// What the Node shows: system UUID, linked VM, uid, provider id; and whether it is the machine's.
        type Case = (&'static str, Option<&'static str>, &'static str, Option<&'static str>, bool);
        let id = "kubevirt://demo-0";
        let with_uuid: [Case; 4] = [
            ("UUID-1", None, "node-9", None, true),
            ("uuid-2", None, "node-9", None, false),
            ("uuid-2", Some("vm-1"), "node-1", Some(id), false),
            ("", Some("vm-1"), "node-9", None, true),
        ];
        let without_uuid: [Case; 5] = [
            ("uuid-7", Some("vm-1"), "node-9", None, true),
            ("uuid-7", Some("vm-0"), "node-1", Some(id), false),
            ("uuid-7", None, "node-9", Some(id), true),
            ("uuid-7", None, "node-9", Some("kubevirt://other"), false),
            ("uuid-7", None, "node-9", None, false),
        ];
        for (known, cases) in [(true, &with_uuid[..]), (false, &without_uuid[..])] {
            for (uuid, linked, uid, provider_id, own) in cases {
                let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
                if !known {
                    scene.machine.record.firmware_uuid = None;
                    scene.platform.vm.as_mut().unwrap().firmware_uuid = None;
                }
                let mut node = mk_node(&scene.node_wish);
                node.system_uuid = (*uuid).to_owned();
                node.vm_uid = linked.map(str::to_owned);
                node.uid = (*uid).to_owned();
                node.provider_id = provider_id.map(str::to_owned);
                scene.node = Some(node);
                let told = format!("{known} {uuid} {linked:?} {uid} {provider_id:?}");
                let plan = scene.plan(61);
                assert_eq!(plan.status.record.node.is_some(), *own, "{told}");
                assert_eq!(plan.status.reason == reasons::NODE_NAME_TAKEN, !*own, "{told}");
            }
        }
    }

    #[test]
    fn a_node_older_than_the_vm_is_not_known_by_its_provider_id() {
        let mut scene = Scene::made(Some(mk_instance(InstanceState::Running)));
        scene.machine.record.firmware_uuid = None;
        scene.platform.vm.as_mut().unwrap().firmware_uuid = None;
        let mut node = mk_node(&scene.node_wish);
        (node.vm_uid, node.created) = (None, at(4));
        scene.node = Some(node);
        assert_eq!(scene.plan(61).status.record.node, None);
    }

    fn link(change: impl FnOnce(&mut Scene)) -> Option<Step> {
        let mut scene = Scene::joined();
        change(&mut scene);
        scene.plan(61).steps.into_iter().find(|step| matches!(step, Step::UpdateNode { .. }))
    }

    #[test]
    fn a_node_that_is_as_wished_is_left_alone() {
        assert!(link(|_| {}).is_none());
        let foreign = ("theirs".to_owned(), "kept".to_owned());
        assert!(link(|scene| scene.node.as_mut().unwrap().meta.labels.extend([foreign])).is_none());
        assert!(link(|scene| scene.node.as_mut().unwrap().deleting = Some(at(60))).is_none());
    }

    #[test]
    fn the_provider_id_is_set_once_in_the_form_of_the_family() {
        let id = |form| {
            let step = link(|scene| {
                scene.form = form;
                scene.node.as_mut().unwrap().provider_id = None;
            });
            match step {
                Some(Step::UpdateNode { provider_id, .. }) => provider_id,
                _ => None,
            }
        };
        assert_eq!(id(ProviderIdForm::Name).as_deref(), Some("kubevirt://demo-0"));
        assert_eq!(id(ProviderIdForm::NamespaceAndName).as_deref(), Some("kubevirt://infra-demo/demo-0"));
        let kept = link(|scene| {
            let node = scene.node.as_mut().unwrap();
            node.provider_id = Some("another://id".to_owned());
            node.vm_uid = None;
        });
        assert!(matches!(kept, Some(Step::UpdateNode { provider_id: None, .. })), "{kept:?}");
    }

    #[test]
    fn what_we_put_there_and_is_no_longer_wished_is_taken_away() {
        let step = link(|scene| scene.node_wish.labels.clear());
        let Some(Step::UpdateNode { wish, before, .. }) = step else { panic!("{step:?}") };
        assert!(wish.labels.is_empty());
        assert_eq!(before.labels.keys().collect::<Vec<_>>(), ["pool"]);
    }

    #[test]
    fn a_taint_that_somebody_took_away_is_put_back() {
        let taint: trellis_model::network::NodeTaint =
            serde_json::from_value(serde_json::json!({"key": "gpu", "effect": "NoSchedule"})).unwrap();
        let step = link(|scene| {
            scene.node_wish.taints = vec![taint.clone()];
            scene.node.as_mut().unwrap().ours.taints = vec![taint];
        });
        assert!(step.is_some());
    }

    #[test]
    fn a_node_is_not_linked_before_its_vm_is_recorded() {
        let mut scene = Scene::joined();
        scene.node.as_mut().unwrap().vm_uid = None;
        scene.machine.record.vm_uid = None;
        let first = scene.remember(61);
        assert!(!words(&first).contains(&"node"));
        assert!(first.patience.is_zero(), "the Node waits for it");
        assert!(words(&scene.plan(61)).contains(&"node"));
        assert_eq!(first.status.phase, Phase::Running);
        scene.machine.recorded = false;
        assert!(!words(&scene.plan(61)).contains(&"node"), "what is about to be written is not recorded");
    }
}
