//! What is left of machines that are gone, and what proves that it is.
//!
//! Deleting what only looks left over is the worst a controller can do: a watch that lags, a kubeconfig of another
//! cluster or a Machine that is made this very moment all look like it. So a thing goes only if
//!
//! - it carries our labels, and the uid of the Machine it was made for (a Node: the uid of its VM);
//! - no Machine has that uid (no VM does, and no Machine has the Node's name);
//! - that was so during the whole of a grace period, in which every site answered and every cache was complete;
//! - nothing speaks against it: a VM whose Node is ready is in use, whoever made it, and a namespace without a single
//!   Machine, set or pool may be the wrong one;
//! - the server still says so when it is asked directly, and the delete names uid and version.
//!
//! What lacks proof is told, and stays.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

/// What kind of thing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A virtual machine.
    Vm,
    /// A volume.
    Volume,
    /// A Secret.
    Secret,
    /// A Service.
    Service,
    /// A Node of the tenant.
    Node,
}

/// A thing that says that it belongs to a machine of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version it was seen at.
    pub version: u64,
    /// The machine it belongs to, by name.
    pub machine: String,
    /// What it was made for: the uid of a Machine, or, for a Node, that of its VM.
    pub made_for: Option<String>,
    /// Somebody has asked for its removal already.
    pub going: bool,
}

/// What is known while things are judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The Machines there are: uids by name.
    pub machines: BTreeMap<String, String>,
    /// The VMs there are, anybody's: uids by name.
    pub vms: BTreeMap<String, String>,
    /// The Nodes that say that they are ready, by name.
    pub ready: BTreeSet<String>,
    /// The VMs that those Nodes say they are, by uid: a kubelet may call itself by another name than its machine's.
    pub ready_vms: BTreeSet<String>,
    /// The Machines that those Nodes say they are, by name.
    pub ready_machines: BTreeSet<String>,
    /// Whether there is any Machine, set or pool at all.
    pub inhabited: bool,
    /// Why nothing can be concluded from what is not seen: a site is down, or a cache is not complete.
    pub doubt: Option<&'static str>,
    /// Since when all sites have answered.
    pub calm_since: Option<Timestamp>,
}

/// What is thought of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It belongs to a machine, or somebody is removing it.
    Belongs,
    /// It looks left over; how long it has is not up yet, or it goes after something else.
    Waits(Option<Timestamp>),
    /// It looks left over, and nothing proves it.
    Unproven(&'static str),
    /// It is left over.
    Proven,
}

/// What is to be done about what is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What goes.
    pub remove: Vec<Thing>,
    /// What stays although it looks left over, and why.
    pub tell: Vec<(Thing, &'static str)>,
    /// Since when each thing has looked left over, by uid: to be handed in again.
    pub since: BTreeMap<String, Timestamp>,
    /// When to look again.
    pub wake: Option<Timestamp>,
}

/// Judges all things. `since` says since when each has looked left over.
pub fn plan(
    things: Vec<Thing>,
    known: &Known,
    since: &BTreeMap<String, Timestamp>,
    grace: SignedDuration,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if known.doubt.is_some() {
        // What was seen before the doubt begins anew after it.
        return plan;
    }
    for thing in things {
        let first = since.get(&thing.uid).copied().unwrap_or(now);
        let first = known.calm_since.map_or(first, |calm| calm.max(first));
        let due = first.checked_add(grace).unwrap_or(Timestamp::MAX);
        let judgement = judge(&thing, known, due, now);
        if judgement == Judgement::Belongs {
            continue;
        }
        plan.since.insert(thing.uid.clone(), first);
        match judgement {
            Judgement::Belongs => {}
            Judgement::Waits(at) => {
                plan.wake = [plan.wake, at].into_iter().flatten().min();
            }
            Judgement::Unproven(why) => plan.tell.push((thing, why)),
            Judgement::Proven => plan.remove.push(thing),
        }
    }
    plan
}

/// Judges one thing, which has had its time at `due`.
pub fn judge(thing: &Thing, known: &Known, due: Timestamp, now: Timestamp) -> Judgement {
    if thing.going || belongs(thing, known) {
        return Judgement::Belongs;
    }
    if now < due {
        return Judgement::Waits(Some(due));
    }
    if thing.made_for.is_none() {
        return Judgement::Unproven(match thing.kind {
            Kind::Node => "it does not say which VM it was",
            _ => "it does not say which Machine it was made for",
        });
    }
    if !known.inhabited {
        return Judgement::Unproven(
            "there is no Machine, set or pool at all where they are looked for: it may be the wrong place",
        );
    }
    if is_in_use(thing, known) {
        return Judgement::Unproven("its Node is ready: somebody may use it");
    }
    // What a VM reads and writes goes after it.
    if matches!(thing.kind, Kind::Volume | Kind::Secret | Kind::Service)
        && known.vms.contains_key(&thing.machine)
    {
        return Judgement::Waits(None);
    }
    Judgement::Proven
}

/// Whether a VM is at work, as a Node says that is ready; or a Node is.
fn is_in_use(thing: &Thing, known: &Known) -> bool {
    match thing.kind {
        Kind::Node => known.ready.contains(&thing.name),
        Kind::Vm => {
            let names = [&known.ready, &known.ready_machines];
            known.ready_vms.contains(&thing.uid) || names.iter().any(|names| names.contains(&thing.name))
        }
        Kind::Volume | Kind::Secret | Kind::Service => false,
    }
}

fn belongs(thing: &Thing, known: &Known) -> bool {
    let named = known.machines.contains_key(&thing.machine);
    match (thing.kind, &thing.made_for) {
        (Kind::Node, Some(vm)) => named || known.vms.values().any(|uid| uid == vm),
        (_, None) => named,
        (_, Some(uid)) => known.machines.values().any(|machine| machine == uid),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GRACE: SignedDuration = SignedDuration::from_mins(15);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn thing(kind: Kind, name: &str, made_for: Option<&str>) -> Thing {
        Thing {
            kind,
            name: name.to_owned(),
            uid: format!("{kind:?}-{name}"),
            version: 7,
            machine: "m1".to_owned(),
            made_for: made_for.map(str::to_owned),
            going: false,
        }
    }

    fn known() -> Known {
        Known { machines: [("m2".to_owned(), "u2".to_owned())].into(), inhabited: true, ..Known::default() }
    }

    /// Looks at a thing again and again, as often as the plan asks for it; when it goes.
    fn goes_at(thing: &Thing, known: &Known) -> Option<i64> {
        let (mut now, mut since) = (at(1000), BTreeMap::new());
        for _ in 0..5 {
            let plan = plan(vec![thing.clone()], known, &since, GRACE, now);
            if !plan.remove.is_empty() {
                return Some(now.as_second());
            }
            since = plan.since;
            now = plan.wake?;
        }
        None
    }

    #[test]
    fn what_is_proven_goes_after_its_time_and_not_before() {
        for kind in [Kind::Vm, Kind::Volume, Kind::Secret, Kind::Service, Kind::Node] {
            assert_eq!(goes_at(&thing(kind, "m1", Some("u1")), &known()), Some(1900), "{kind:?}");
        }
    }

    #[test]
    fn what_is_not_proven_stays() {
        type Change = fn(&mut Thing, &mut Known);
        let rows: [(&str, Kind, Change); 15] = [
            ("its Machine is there", Kind::Vm, |thing, _| thing.made_for = Some("u2".to_owned())),
            ("nobody says whose it is", Kind::Vm, |thing, _| thing.made_for = None),
            ("nobody says whose it is", Kind::Secret, |thing, _| thing.made_for = None),
            ("nobody says which VM it was", Kind::Node, |thing, _| thing.made_for = None),
            ("it goes already", Kind::Vm, |thing, _| thing.going = true),
            ("its Node is ready", Kind::Vm, |_, known| known.ready = ["m1".to_owned()].into()),
            ("a Node of another name says that it is its VM", Kind::Vm, |thing, known| {
                known.ready = ["m1.example".to_owned()].into();
                known.ready_vms = [thing.uid.clone()].into();
            }),
            ("a Node of another name says that it is its Machine", Kind::Vm, |_, known| {
                known.ready = ["m1.example".to_owned()].into();
                known.ready_machines = ["m1".to_owned()].into();
            }),
            ("it is ready", Kind::Node, |_, known| known.ready = ["m1".to_owned()].into()),
            ("its VM is there", Kind::Secret, |_, known| known.vms = [("m1".into(), "v".into())].into()),
            ("its VM is there", Kind::Volume, |_, known| known.vms = [("m1".into(), "v".into())].into()),
            ("its VM is there", Kind::Node, |_, known| known.vms = [("x".into(), "u1".into())].into()),
            ("its Machine is there", Kind::Node, |_, known| {
                known.machines.insert("m1".to_owned(), "other".to_owned());
            }),
            ("the place is empty", Kind::Vm, |_, known| known.inhabited = false),
            ("a site is down", Kind::Vm, |_, known| known.doubt = Some("down")),
        ];
        for (what, kind, change) in rows {
            let (mut thing, mut known) = (thing(kind, "m1", Some("u1")), known());
            change(&mut thing, &mut known);
            assert_eq!(goes_at(&thing, &known), None, "{kind:?}: {what}");
        }
    }

    #[test]
    fn a_machine_of_the_same_name_does_not_keep_what_an_earlier_one_left() {
        let mut known = known();
        known.machines.insert("m1".to_owned(), "later".to_owned());
        assert_eq!(goes_at(&thing(Kind::Vm, "m1", Some("u1")), &known), Some(1900));
    }

    #[test]
    fn a_doubt_in_between_begins_the_time_anew() {
        let it = thing(Kind::Vm, "m1", Some("u1"));
        let first = plan(vec![it.clone()], &known(), &BTreeMap::new(), GRACE, at(1000));
        let doubt = Known { doubt: Some("down"), ..known() };
        let second = plan(vec![it.clone()], &doubt, &first.since, GRACE, at(1500));
        assert!(second.since.is_empty());
        let third = plan(vec![it.clone()], &known(), &second.since, GRACE, at(1900));
        assert_eq!((third.remove.len(), third.wake), (0, Some(at(2800))));
        let calm = Known { calm_since: Some(at(1800)), ..known() };
        let fourth = plan(vec![it], &calm, &first.since, GRACE, at(1900));
        assert_eq!((fourth.remove.len(), fourth.wake), (0, Some(at(2700))));
    }

    proptest! {
        /// Whatever is seen, nothing goes whose Machine is there, or that was not left over for the whole time.
        #[test]
        fn nothing_goes_without_proof(
            kinds in proptest::collection::vec((0_usize..5, 0_usize..4, 0_usize..4, any::<bool>()), 0..12),
            machines in proptest::collection::btree_map(0_usize..4, 0_usize..4, 0..4),
            looks in proptest::collection::vec((0_i64..1200, any::<bool>()), 1..8),
        ) {
            let all = [Kind::Vm, Kind::Volume, Kind::Secret, Kind::Service, Kind::Node];
            let things: Vec<Thing> = kinds.iter().enumerate().map(|(number, (kind, name, made, says))| Thing {
                uid: number.to_string(),
                machine: format!("m{name}"),
                made_for: says.then(|| format!("u{made}")),
                ..thing(all[*kind], &format!("m{name}"), None)
            }).collect();
            let mut known = Known { inhabited: true, ..Known::default() };
            known.machines = machines.iter().map(|(name, uid)| (format!("m{name}"), format!("u{uid}"))).collect();
            let (mut now, mut since) = (0, BTreeMap::new());
            let mut calm_from = 0;
            for (step, doubt) in looks {
                now += step;
                known.doubt = doubt.then_some("down");
                let plan = plan(things.clone(), &known, &since, GRACE, at(now));
                if doubt {
                    calm_from = i64::MAX;
                    prop_assert!(plan.remove.is_empty());
                } else if calm_from == i64::MAX {
                    calm_from = now;
                }
                for gone in &plan.remove {
                    prop_assert!(now - calm_from >= GRACE.as_secs());
                    prop_assert!(gone.made_for.is_some());
                    if gone.kind != Kind::Node {
                        prop_assert!(!known.machines.values().any(|uid| Some(uid) == gone.made_for.as_ref()));
                    }
                }
                since = plan.since;
            }
        }
    }
}
