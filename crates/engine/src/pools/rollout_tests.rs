use trellis_model::pool::{DeletePolicy, UpdatePolicy};
use trellis_model::quantity::Count;

use super::*;
use crate::pools::report::conditions;

const NOW: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A set from a text with one letter per machine: Available, Coming, Unready, Failed, Going, Marked, Preserved.
fn set(revision: &str, number: u64, wished: u32, machines: &str) -> SetSeen {
    let member = |(index, letter): (usize, char)| Member {
        name: format!("{revision}-{index}"),
        created: at(i64::try_from(index).unwrap()),
        zone: None,
        ordinal: None,
        state: match letter {
            'A' | 'M' => MachineState::Ready(at(0)),
            'C' => MachineState::Coming,
            'U' => MachineState::Unready,
            'F' | 'P' => MachineState::Failed,
            'G' => MachineState::Going,
            'S' => MachineState::Ready(at(NOW - 1)),
            other => panic!("no machine is {other}"),
        },
        delete_first: letter == 'M',
        preserved: letter == 'P',
    };
    SetSeen {
        name: format!("set-{revision}-{number}"),
        revision: revision.to_owned(),
        number,
        wished,
        members: machines.chars().enumerate().map(member).collect(),
    }
}

fn wish(replicas: u32, surge: &str, unavailable: &str) -> PoolWish {
    PoolWish {
        replicas,
        update: UpdatePolicy {
            max_surge: surge.parse::<Count>().unwrap(),
            max_unavailable: unavailable.parse::<Count>().unwrap(),
            ..UpdatePolicy::default()
        },
        delete_policy: DeletePolicy::Oldest,
        revision: "new".to_owned(),
        zones: Vec::new(),
        control_plane: false,
    }
}

fn paused(wish: PoolWish) -> PoolWish {
    PoolWish { update: UpdatePolicy { paused: true, ..wish.update }, ..wish }
}

fn on_delete(wish: PoolWish) -> PoolWish {
    PoolWish { update: UpdatePolicy { strategy: UpdateStrategy::OnDelete, ..wish.update }, ..wish }
}

/// The sizes of a plan as `revision=size`, or `revision=size/limit` where the limit holds the size back.
fn sizes(wish: &PoolWish, sets: &[SetSeen]) -> String {
    let plan = plan(wish, sets, None, at(NOW));
    let text = |sizing: &Sizing| {
        let going = sets
            .iter()
            .find(|set| Some(&set.name) == sizing.name.as_ref())
            .map_or(0, |set| count(set.members.iter().filter(|member| member.goes())));
        let held = sizing.limit < sizing.size + going;
        let limit = if held { format!("/{}", sizing.limit) } else { String::new() };
        format!("{}={}{limit}", sizing.revision, sizing.size)
    };
    plan.sets.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn rows(rows: &[(PoolWish, Vec<SetSeen>, &str, &str)]) {
    for (wish, sets, expected, why) in rows {
        assert_eq!(sizes(wish, sets), *expected, "{why}");
    }
}

#[test]
fn bounds_are_rounded_as_rollouts_do() {
    let bounds = |wish: PoolWish| (Bounds::of(&wish).most(), Bounds::of(&wish).least());
    assert_eq!(bounds(wish(10, "25%", "25%")), (13, 8));
    assert_eq!(bounds(wish(3, "0", "25%")), (3, 2), "both nothing: one may be unavailable");
    assert_eq!(bounds(wish(0, "1", "1")), (1, 0));
    let control_plane = |surge, unavailable| PoolWish { control_plane: true, ..wish(5, surge, unavailable) };
    assert_eq!(bounds(control_plane("3", "2")), (6, 5));
    assert_eq!(bounds(control_plane("0", "2")), (5, 4));
}

#[test]
fn a_rolling_update_moves_within_its_bounds() {
    let old = |wished, machines| set("old", 1, wished, machines);
    let new = |wished, machines| set("new", 2, wished, machines);
    rows(&[
        (wish(3, "1", "0"), vec![], "new=3", "a new pool is made at once"),
        (wish(3, "1", "0"), vec![old(3, "AAA")], "new=1 old=3", "the surge comes first"),
        (wish(3, "0", "1"), vec![old(3, "AAA")], "new=0 old=2", "without surge one goes first"),
        (wish(3, "0", "1"), vec![old(2, "AAG"), new(0, "")], "new=0 old=2", "what is going still takes room"),
        (wish(3, "0", "1"), vec![old(2, "AA"), new(0, "")], "new=1 old=2", "it is gone"),
        (
            wish(3, "1", "0"),
            vec![old(3, "AAA"), new(1, "C")],
            "new=1 old=3",
            "nothing is missed before it comes",
        ),
        (wish(3, "1", "0"), vec![old(3, "AAA"), new(1, "")], "new=1 old=3", "told, not made: counts"),
        (wish(3, "1", "0"), vec![old(3, "AAA"), new(1, "A")], "new=1 old=2", "one for one"),
        (wish(3, "1", "0"), vec![old(2, "AAA"), new(1, "A")], "new=1 old=2", "told once is enough"),
        (wish(4, "1", "1"), vec![old(4, "AAAA")], "new=1 old=3", "both at once"),
        (wish(10, "30%", "20%"), vec![old(10, "AAAAAAAAAA")], "new=3 old=8", "percentages"),
        (wish(3, "1", "0"), vec![old(1, "A"), new(3, "AAA")], "new=3 old=0", "the last"),
        (wish(0, "1", "0"), vec![old(3, "AAA")], "new=0 old=0", "scaled to nothing"),
    ]);
}

#[test]
fn old_machines_that_do_not_work_go_first_and_block_nothing() {
    let old = |wished, machines| set("old", 1, wished, machines);
    let new = |wished, machines| set("new", 2, wished, machines);
    rows(&[
        (
            wish(3, "1", "0"),
            vec![old(3, "AFC"), new(1, "C")],
            "new=1 old=1",
            "failed and unborn ones are not missed",
        ),
        (wish(3, "1", "0"), vec![old(3, "A")], "new=1 old=1", "what was not made yet never is"),
        (
            wish(3, "1", "0"),
            vec![old(3, "UUU")],
            "new=1 old=3",
            "a silent network is no reason to remove all",
        ),
        (
            wish(3, "1", "0"),
            vec![old(3, "UUU"), new(1, "A")],
            "new=1 old=2",
            "but one by one they are replaced",
        ),
        (
            wish(3, "1", "0"),
            vec![old(3, "MAF"), new(1, "A")],
            "new=1 old=2",
            "failed ones are let go, and marked ones are missed like others",
        ),
        (wish(3, "1", "0"), vec![old(3, "MMM")], "new=1 old=3", "marks say which goes first, and not when"),
        (wish(3, "0", "1"), vec![old(3, "AMM")], "new=0 old=2", "and not how many"),
        (
            wish(3, "1", "0"),
            vec![old(3, "AAA"), new(1, "F")],
            "new=1 old=3",
            "a failing revision takes nothing",
        ),
        (
            wish(3, "1", "0"),
            vec![set("older", 0, 1, "A"), old(2, "AF"), new(1, "A")],
            "new=1 old=1 older=1",
            "sick before old",
        ),
        (
            wish(3, "1", "1"),
            vec![set("older", 0, 2, "AA"), old(1, "A"), new(1, "A")],
            "new=1 old=1 older=0",
            "the oldest first",
        ),
    ]);
}

#[test]
fn scaling_during_an_update() {
    let old = |wished, machines| set("old", 1, wished, machines);
    let new = |wished, machines| set("new", 2, wished, machines);
    rows(&[
        (wish(6, "1", "0"), vec![old(2, "AA"), new(2, "AA")], "new=5 old=2", "out: to the new revision"),
        (
            wish(4, "2", "0"),
            vec![old(8, "AAAAAAAA"), new(4, "AAAA")],
            "new=2 old=2",
            "in: in proportion, then as an update does",
        ),
        (
            wish(6, "0", "1"),
            vec![old(6, "AAAAAA"), new(3, "AAA")],
            "new=2 old=3",
            "in proportion and one more old",
        ),
        (
            wish(4, "2", "0"),
            vec![old(4, "AAAA"), new(4, "CCCC")],
            "new=2 old=4",
            "those that are not available are not missed",
        ),
        (wish(4, "1", "0"), vec![old(4, "AAAF"), new(4, "AAFA")], "new=3 old=1", "failed ones first"),
        (wish(2, "1", "0"), vec![new(5, "AAAAA")], "new=2", "no update: exactly"),
    ]);
}

#[test]
fn paused_pools_only_scale() {
    let old = |wished, machines| set("old", 1, wished, machines);
    let new = |wished, machines| set("new", 2, wished, machines);
    rows(&[
        (paused(wish(3, "1", "0")), vec![old(3, "AAA")], "old=3", "no new revision"),
        (paused(wish(5, "1", "0")), vec![old(3, "AAA")], "old=5", "scaled out as it is"),
        (paused(wish(1, "1", "0")), vec![old(3, "AAA")], "old=1", "scaled in"),
        (paused(wish(3, "1", "0")), vec![old(2, "AA"), new(2, "AA")], "new=2 old=2", "left where it was"),
        (paused(wish(9, "1", "0")), vec![old(4, "AAAA"), new(2, "AA")], "new=3 old=6", "out in proportion"),
        (
            paused(wish(5, "1", "0")),
            vec![old(8, "AAAAAAAA"), new(4, "AAAA")],
            "new=2 old=4",
            "in in proportion",
        ),
        (paused(wish(0, "1", "0")), vec![old(2, "AA"), new(2, "AA")], "new=0 old=0", "nothing is nothing"),
        (paused(wish(3, "1", "0")), vec![], "new=3", "there is only one revision"),
        (paused(wish(3, "1", "0")), vec![old(3, "AAG")], "old=3", "a lost machine is made again as it was"),
    ]);
}

#[test]
fn on_delete_only_new_machines_are_made_the_new_way() {
    let old = |wished, machines| set("old", 1, wished, machines);
    let new = |wished, machines| set("new", 2, wished, machines);
    rows(&[
        (on_delete(wish(3, "1", "0")), vec![old(3, "AAA")], "new=0 old=3", "nothing is replaced"),
        (on_delete(wish(3, "1", "0")), vec![old(2, "AAG")], "new=1 old=2", "a deleted one comes back new"),
        (on_delete(wish(3, "0", "1")), vec![old(2, "AAG")], "new=0 old=2", "when there is room"),
        (on_delete(wish(5, "1", "0")), vec![old(2, "AA"), new(1, "A")], "new=3 old=2", "scaled out new"),
        (
            on_delete(wish(2, "1", "0")),
            vec![old(2, "AA"), new(2, "AA")],
            "new=1 old=1",
            "scaled in in proportion",
        ),
    ]);
}

#[test]
fn a_replacement_waits_for_room() {
    // A failed machine was removed by somebody while the surge is used up: its set may not make another yet.
    let sets = [set("old", 1, 3, "AAA"), set("new", 2, 1, "G")];
    assert_eq!(sizes(&wish(3, "1", "0"), &sets), "new=1/1 old=3");
    let sets = [set("old", 1, 3, "AAA"), set("new", 2, 1, "")];
    assert_eq!(sizes(&wish(3, "1", "0"), &sets), "new=1 old=3");
}

#[test]
fn going_back_is_an_update_with_a_new_number() {
    let mut back = wish(3, "1", "0");
    back.revision = "old".to_owned();
    let sets = [set("old", 1, 2, "AA"), set("new", 2, 2, "CA")];
    let plan = plan(&back, &sets, None, at(NOW));
    let numbers: Vec<_> =
        plan.sets.iter().map(|sizing| (sizing.revision.as_str(), sizing.number, sizing.size)).collect();
    assert_eq!(numbers, [("old", 3, 2), ("new", 2, 1)]);
    assert_eq!(next_number(&sets), 3);
    assert_eq!(next_number(&[]), 1);
}

#[test]
fn sets_that_differ_in_spelling_only_are_one_revision() {
    let sets = [set("new", 1, 2, "AA"), set("new", 2, 1, "A")];
    let plan = plan(&wish(3, "1", "0"), &sets, None, at(NOW));
    assert_eq!(plan.progress, Ok(()));
    assert!(plan.sets.iter().zip([1, 2]).all(|(sizing, size)| sizing.size == size), "{:?}", plan.sets);
}

#[test]
fn the_history_keeps_only_so_many_and_only_what_is_empty_goes() {
    let mut wish = wish(1, "1", "0");
    let sets = |last: &str| {
        vec![
            set("a", 1, 0, ""),
            set("b", 2, 0, "P"),
            set("c", 3, 0, ""),
            set("d", 4, 0, ""),
            set("new", 5, 1, last),
        ]
    };
    assert_eq!(plan(&wish, &sets("A"), None, at(NOW)).prune, ["set-a-1", "set-c-3", "set-d-4"]);
    wish.update.history_limit = 3;
    assert_eq!(plan(&wish, &sets("A"), None, at(NOW)).prune, ["set-a-1"]);
    assert_eq!(plan(&wish, &sets("C"), None, at(NOW)).prune, [""; 0], "not before the update is complete");
}

fn condition(plan: &RolloutPlan, kind: &str) -> (Option<bool>, &'static str) {
    let found = plan.conditions.iter().find(|condition| condition.kind == kind).unwrap();
    (found.holds, found.reason)
}

#[test]
fn the_progress_deadline_is_evaluated() {
    let wish = wish(3, "1", "0");
    let sets = |new: &str| [set("old", 1, 3, "AAA"), set("new", 2, 1, new)];
    let first = plan(&wish, &sets("C"), None, at(NOW));
    assert_eq!(first.deadline, Some(Deadline { at: at(NOW + 600), of: "Progress" }));
    assert_eq!(first.progress, Err(NotYet::Making { updated: 1, replicas: 3 }));
    assert_eq!(condition(&first, conditions::PROGRESSING), (Some(true), "MakingMachines"));
    let late = plan(&wish, &sets("C"), Some(&first.mark), at(NOW + 600));
    assert_eq!(condition(&late, conditions::PROGRESSING), (Some(false), "ProgressDeadlineExceeded"));
    assert_eq!(condition(&late, conditions::STALLED), (Some(true), "ProgressDeadlineExceeded"));
    assert_eq!(late.deadline, None);
    let moved = plan(&wish, &sets("A"), Some(&late.mark), at(NOW + 700));
    assert_eq!(condition(&moved, conditions::PROGRESSING), (Some(true), "MakingMachines"));
    assert_eq!(moved.mark.at, at(NOW + 700));
    let fallen = plan(&wish, &sets("F"), Some(&moved.mark), at(NOW + 800));
    let risen = plan(&wish, &sets("A"), Some(&fallen.mark), at(NOW + 900));
    assert_eq!(risen.mark.at, at(NOW + 700), "to come back is no progress");
}

#[test]
fn after_an_update_the_loss_of_a_machine_is_not_a_stuck_update() {
    let wish = wish(2, "1", "0");
    let done = plan(&wish, &[set("new", 1, 2, "AA")], None, at(NOW));
    assert_eq!((done.progress, done.deadline.clone()), (Ok(()), None));
    assert_eq!(condition(&done, conditions::READY), (Some(true), "AsWished"));
    let lost = plan(&wish, &[set("new", 1, 2, "AF")], Some(&done.mark), at(NOW + 5000));
    assert_eq!(condition(&lost, conditions::PROGRESSING), (Some(true), "Updated"));
    assert_eq!(condition(&lost, conditions::AVAILABLE), (Some(false), "TooFewAvailable"));
    assert_eq!(condition(&lost, conditions::REPLICA_FAILURE), (Some(true), "MachinesFailed"));
    assert_eq!(condition(&lost, conditions::READY), (Some(false), "StartingMachines"));
}

#[test]
fn a_node_must_be_ready_for_a_while() {
    let mut wish = wish(3, "1", "0");
    wish.update.min_ready_seconds = 30;
    let plan = plan(&wish, &[set("old", 1, 3, "AAA"), set("new", 2, 1, "S")], None, at(NOW));
    assert_eq!(plan.deadline, Some(Deadline { at: at(NOW + 29), of: "Available" }));
    assert_eq!(plan.sets.iter().map(|set| set.size).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((plan.counts.ready, plan.counts.available), (4, 3));
}

#[test]
fn what_is_missing_is_told_in_numbers() {
    let rows: Vec<(PoolWish, Vec<SetSeen>, &str)> = vec![
        (
            paused(wish(3, "1", "0")),
            vec![set("old", 1, 2, "AA"), set("new", 2, 1, "A")],
            "the update is paused: 1 of 3 machines have the new revision",
        ),
        (
            on_delete(wish(2, "1", "0")),
            vec![set("old", 1, 2, "AA")],
            "2 machines have an old revision until somebody deletes them",
        ),
        (
            wish(3, "1", "0"),
            vec![set("old", 1, 3, "AAA"), set("new", 2, 1, "A")],
            "1 of 3 machines have been made with the new revision",
        ),
        (
            wish(2, "1", "0"),
            vec![set("new", 2, 2, "AC")],
            "1 of 2 machines of the new revision are available",
        ),
        (
            wish(2, "1", "0"),
            vec![set("old", 1, 1, "A"), set("new", 2, 2, "AA")],
            "1 old machines are still to be removed",
        ),
        (
            wish(2, "1", "0"),
            vec![set("old", 1, 0, "G"), set("new", 2, 2, "AA")],
            "1 machines are still being removed",
        ),
    ];
    for (wish, sets, expected) in rows {
        let plan = plan(&wish, &sets, None, at(NOW));
        assert_eq!(plan.progress.unwrap_err().to_string(), expected);
        assert!(plan.conditions.iter().any(|condition| condition.message == expected));
    }
}
