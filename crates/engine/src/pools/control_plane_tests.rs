use trellis_model::pool::{DeletePolicy, UpdatePolicy};
use trellis_model::quantity::Count;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn wish(replicas: u32, surge: u32) -> PoolWish {
    PoolWish {
        replicas,
        update: UpdatePolicy {
            max_surge: Count::Absolute(surge),
            max_unavailable: Count::Absolute(2),
            ..UpdatePolicy::default()
        },
        delete_policy: DeletePolicy::Oldest,
        revision: "new".to_owned(),
        zones: Vec::new(),
        control_plane: true,
    }
}

/// Machines and members from words: name, revision (`o`ld or `n`ew), state (Ready, Coming, Failed, Going, Lost for a
/// machine that is gone), member (`v`oting, `l`earner, upper case when unhealthy, `-` for none, `_` for none any more): `a:oRv`.
fn world(text: &str) -> (Vec<ControlPlaneMachine>, EtcdSeen) {
    let (mut machines, mut members) = (Vec::new(), Vec::new());
    for (index, word) in text.split_whitespace().enumerate() {
        let (name, letters) = word.split_once(':').unwrap();
        let letters: Vec<char> = letters.chars().collect();
        let state = match letters[1] {
            'R' => Some(MachineState::Ready(at(0))),
            'C' => Some(MachineState::Coming),
            'U' => Some(MachineState::Unready),
            'F' => Some(MachineState::Failed),
            'G' => Some(MachineState::Going),
            _ => None,
        };
        machines.extend(state.map(|state| ControlPlaneMachine {
            member: Member {
                name: name.to_owned(),
                created: at(i64::try_from(index).unwrap()),
                zone: None,
                ordinal: None,
                state,
                delete_first: false,
                preserved: false,
            },
            revision: if letters[0] == 'n' { "new" } else { "old" }.to_owned(),
            left: letters[2] == '_',
        }));
        if letters[2].is_alphabetic() {
            let voting = letters[2].eq_ignore_ascii_case(&'v');
            let healthy = letters[2].is_lowercase();
            members.push(EtcdMember { machine: name.to_owned(), healthy, voting, elsewhere: false });
        }
    }
    (machines, EtcdSeen::Members(members))
}

fn told(wish: &PoolWish, text: &str) -> String {
    let (machines, etcd) = world(text);
    let plan = plan(wish, &machines, &etcd, at(100));
    let step = match (plan.step, plan.waits) {
        (Some(Step::Make(count)), None) => format!("make {count}"),
        (Some(Step::Promote(name)), None) => format!("promote {name}"),
        (Some(Step::RemoveMember(name)), None) => format!("leave {name}"),
        (Some(Step::Delete(name)), None) => format!("delete {name}"),
        (None, Some(waits)) => waits.to_string(),
        (None, None) => "nothing".to_owned(),
        both => panic!("{both:?}"),
    };
    if plan.may_go.is_empty() { step } else { format!("{step}; go {}", plan.may_go.join(" ")) }
}

#[test]
fn a_member_is_added_before_one_is_removed() {
    let wish = wish(3, 3);
    let rows = [
        ("a:nRv b:nRv c:nRv", "nothing"),
        ("a:oRv b:oRv c:oRv", "make 1"),
        ("a:oRv b:oRv c:oRv d:nC-", "one at a time: d is still joining"),
        ("a:oRv b:oRv c:oRv d:nR-", "one at a time: d is still joining"),
        ("a:oRv b:oRv c:oRv d:nRL", "one at a time: d is still joining"),
        ("a:oRv b:oRv c:oRv d:nRl", "promote d"),
        ("a:oRv b:oRv c:oRv d:nRv", "leave a"),
        ("a:oR- b:oRv c:oRv d:nRv", "delete a"),
        ("a:oG- b:oRv c:oRv d:nRv", "one at a time: a is still being removed; go a"),
        ("b:oRv c:oRv d:nRv", "make 1"),
        ("c:oRv d:nRv e:nRv f:nRv", "leave c"),
        ("d:nRv e:nRv f:nRv", "nothing"),
    ];
    for (world, expected) in rows {
        assert_eq!(told(&wish, world), expected, "{world}");
    }
}

#[test]
fn without_surge_a_member_is_removed_before_one_is_added() {
    let wish = wish(3, 0);
    let rows = [
        ("a:oRv b:oRv c:oRv", "leave a"),
        ("a:oR- b:oRv c:oRv", "delete a"),
        ("a:oG- b:oRv c:oRv", "one at a time: a is still being removed; go a"),
        ("b:oRv c:oRv", "make 1"),
        ("b:oRv c:oRv d:nC-", "one at a time: d is still joining"),
        ("b:oRv c:oRv d:nRl", "promote d"),
        ("b:oRv c:oRv d:nRv", "leave b"),
    ];
    for (world, expected) in rows {
        assert_eq!(told(&wish, world), expected, "{world}");
    }
    assert_eq!(told(&super::tests::wish(1, 0), "a:oRv"), "make 1", "the only member cannot go first");
    assert_eq!(told(&super::tests::wish(1, 0), "a:oRv b:nRv"), "leave a");
}

#[test]
fn the_quorum_is_guarded() {
    let wish = wish(3, 1);
    let lost = "etcd has lost its quorum: 1 of 3 members answer, 2 must; nothing is changed";
    let rows = [
        ("a:oRv b:oUV c:oFV", lost),
        ("a:oRv b:oG- c:oFV d:nUV", lost),
        ("a:oRv b:oRv c:oUV", "the member of etcd on c does not answer; nothing else is changed meanwhile"),
        ("a:oRv b:oRv c:oFV", "leave c"),
        ("a:oRv b:oRv c:oF-", "delete c"),
        ("a:nRv b:nRv c:nXV", "leave c"),
        ("a:nRv b:nRv", "make 1"),
        ("a:nRv b:nRv c:nGV", "leave c"),
        ("a:nRv b:nRv c:nG-", "one at a time: c is still being removed; go c"),
        ("a:oRv b:oRv c:oRv d:nFL", "leave d"),
        ("a:oRv b:oRv c:oRv d:nF-", "delete d"),
    ];
    for (world, expected) in rows {
        assert_eq!(told(&wish, world), expected, "{world}");
    }
}

#[test]
fn what_people_delete_waits_for_its_place_to_be_filled() {
    let rows = [
        ("a:nGv b:nRv c:nRv", "make 1"),
        ("a:nGv b:nRv c:nRv d:nC-", "one at a time: d is still joining"),
        ("a:nGv b:nRv c:nRv d:nRl", "promote d"),
        ("a:nGv b:nRv c:nRv d:nRv", "leave a"),
        // Two at once: one place is filled, one member leaves, and only then it is the other's turn.
        ("a:nGv b:nGv c:nRv", "make 1"),
        ("a:nGv b:nGv c:nRv d:nRv", "leave a"),
        ("a:nG- b:nGv c:nRv d:nRv", "one at a time: a is still being removed; go a"),
        ("b:nGv c:nRv d:nRv", "make 1"),
        ("a:nGv b:nRv c:nRv d:nR_ e:nG-", "one at a time: e is still being removed; go e"),
    ];
    for (world, expected) in rows {
        assert_eq!(told(&wish(3, 1), world), expected, "{world}");
    }
}

#[test]
fn scaling_is_one_at_a_time() {
    let rows = [
        (5, "a:nRv b:nRv c:nRv", "make 1"),
        (5, "a:nRv b:nRv c:nRv d:nC-", "one at a time: d is still joining"),
        (3, "a:nRv b:nRv c:nRv d:nRv e:nRv", "leave a"),
        (3, "a:nR- b:nRv c:nRv d:nRv e:nRv", "delete a"),
        (3, "a:nG- b:nRv c:nRv d:nRv e:nRv", "one at a time: a is still being removed; go a"),
        (3, "b:nRv c:nRv d:nRv e:nRv", "leave b"),
        (3, "b:nRv c:oRv d:nRv e:nRv", "leave c"),
        (3, "a:nR_ b:nRv c:nRv", "delete a"),
        (3, "a:nR_ b:nGv c:nRv", "delete a"),
    ];
    for (replicas, world, expected) in rows {
        assert_eq!(told(&wish(replicas, 1), world), expected, "{world}");
    }
}

#[test]
fn the_first_machines_come_together_and_nothing_is_done_blindly() {
    let plan = |etcd| plan(&wish(3, 1), &[], &etcd, at(0));
    assert_eq!(plan(EtcdSeen::Absent).step, Some(Step::Make(3)));
    assert_eq!(plan(EtcdSeen::Unknown).waits, Some(Waits::EtcdUnknown));
}

#[test]
fn paused_control_planes_are_kept_but_not_updated() {
    let mut paused = wish(3, 1);
    paused.update.paused = true;
    let mut on_delete = wish(3, 1);
    on_delete.update.strategy = UpdateStrategy::OnDelete;
    for wish in [paused, on_delete] {
        assert_eq!(told(&wish, "a:oRv b:oRv c:oRv"), "nothing");
        assert_eq!(told(&wish, "a:oRv b:oRv"), "make 1");
        assert_eq!(told(&wish, "a:oRv b:oRv c:oC-"), "one at a time: c is still joining");
        assert_eq!(told(&wish, "a:oRv b:oRv c:oRv d:oRv"), "leave a");
    }
}
