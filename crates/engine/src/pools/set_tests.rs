use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn member(name: &str, zone: &str, state: MachineState, created: i64) -> Member {
    Member {
        name: name.to_owned(),
        created: at(created),
        zone: (!zone.is_empty()).then(|| zone.to_owned()),
        ordinal: name.rsplit('-').next().and_then(|text| text.parse().ok()),
        state,
        delete_first: false,
        preserved: false,
    }
}

fn ready(name: &str, zone: &str) -> Member {
    member(name, zone, MachineState::Ready(at(0)), 0)
}

fn wish(size: u32) -> SetWish {
    SetWish {
        size,
        limit: None,
        zones: Vec::new(),
        leaving: false,
        delete_policy: DeletePolicy::Oldest,
        min_ready_seconds: 0,
        taken: BTreeSet::new(),
        starts: Starts::default(),
    }
}

fn zoned(size: u32, zones: &[&str]) -> SetWish {
    SetWish { zones: zones.iter().map(|zone| (*zone).to_owned()).collect(), ..wish(size) }
}

fn made(plan: &SetPlan) -> Vec<String> {
    plan.make.iter().map(|new| format!("{}{}", new.zone.as_deref().unwrap_or(""), new.ordinal)).collect()
}

#[test]
fn machines_are_spread_over_zones_with_the_smallest_free_numbers() {
    let members = [ready("p-0", "a"), ready("p-2", "a"), member("p-1", "b", MachineState::Going, 0)];
    assert_eq!(made(&plan(&zoned(7, &["a", "b", "c"]), &members, at(0))), ["b3", "c4", "b5", "c6", "a7"]);
    let elsewhere = SetWish { taken: BTreeSet::from([1, 3]), ..wish(3) };
    assert_eq!(made(&plan(&elsewhere, &[ready("p-0", "")], at(0))), ["2", "4"]);
}

#[test]
fn a_number_whose_name_others_have_is_passed_over() {
    let named = |ordinal| matches!(ordinal, 0 | 2 | 3);
    let plan = plan_around(wish(3), &[ready("p-1", "")], named, at(0));
    assert_eq!(made(&plan), ["4", "5"], "a foreign machine of a name takes nobody's place");
}

#[test]
fn machines_go_from_the_fullest_zone_and_from_one_no_longer_wished() {
    let members = [
        ready("p-0", "a"),
        ready("p-1", "a"),
        ready("p-2", "a"),
        ready("p-3", "b"),
        ready("p-4", "b"),
        ready("p-5", "x"),
    ];
    let two = plan(&zoned(2, &["a", "b"]), &members, at(0)).delete;
    assert_eq!(two, ["p-5", "p-0", "p-1", "p-3"]);
}

#[test]
fn those_that_are_missed_least_go_first() {
    let mut marked = ready("marked", "");
    marked.delete_first = true;
    let members = [
        ready("ready", ""),
        member("settling", "", MachineState::Ready(at(95)), 0),
        member("coming", "", MachineState::Coming, 0),
        member("unready", "", MachineState::Unready, 0),
        member("failed", "", MachineState::Failed, 0),
        marked,
    ];
    let wish = SetWish { min_ready_seconds: 10, ..wish(0) };
    let delete = plan(&wish, &members, at(100)).delete;
    assert_eq!(delete, ["marked", "failed", "unready", "coming", "settling", "ready"]);
    let delete = plan(&SetWish { leaving: true, ..wish }, &members, at(100)).delete;
    assert_eq!(delete, ["failed", "unready", "coming", "settling", "marked", "ready"]);
}

#[test]
fn policies_decide_between_equals() {
    let members: Vec<Member> =
        (0..6).map(|n| member(&format!("m-{n}"), "", MachineState::Ready(at(0)), 10 * n)).collect();
    let first = |delete_policy| plan(&SetWish { delete_policy, ..wish(0) }, &members, at(100)).delete;
    assert_eq!(first(DeletePolicy::Oldest)[0], "m-0");
    assert_eq!(first(DeletePolicy::Newest)[0], "m-5");
    let random = first(DeletePolicy::Random);
    assert_eq!(random, first(DeletePolicy::Random), "the same in each pass");
    assert_ne!(random, first(DeletePolicy::Oldest));
    assert_ne!(random, first(DeletePolicy::Newest));
}

#[test]
fn preserved_machines_are_neither_counted_nor_removed() {
    let mut kept = member("p-0", "", MachineState::Failed, 0);
    kept.preserved = true;
    let members = [kept, ready("p-1", "")];
    assert_eq!(made(&plan(&wish(2), &members, at(0))), ["2"]);
    assert_eq!(plan(&wish(0), &members, at(0)).delete, ["p-1"]);
    let limited = SetWish { limit: Some(2), ..wish(2) };
    assert_eq!(plan(&limited, &members, at(0)).make.len(), 1, "nor do they take room");
}

#[test]
fn those_that_are_going_take_room() {
    let members = [ready("p-0", ""), member("p-1", "", MachineState::Going, 0)];
    let held = plan(&SetWish { limit: Some(2), ..wish(2) }, &members, at(0));
    assert_eq!((held.make.len(), held.held_back), (0, 1));
    assert_eq!(plan(&SetWish { limit: Some(3), ..wish(2) }, &members, at(0)).make.len(), 1);
    assert_eq!(plan(&wish(2), &members, at(0)).make.len(), 1, "a family without surge makes it at once");
}

#[test]
fn a_pass_is_bounded() {
    assert_eq!(plan(&wish(1000), &[], at(0)).make.len(), BATCH as usize);
    let many: Vec<Member> = (0..1000).map(|n| ready(&format!("p-{n}"), "")).collect();
    assert_eq!(plan(&wish(0), &many, at(0)).delete.len(), BATCH as usize);
}

#[test]
fn after_failures_machines_are_made_slowly() {
    let mut starts = Starts::default().failed(at(100));
    let step = |starts, now| plan(&SetWish { starts, ..wish(100) }, &[], now);
    let waiting = step(starts, at(104));
    assert_eq!(waiting.make.len(), 0);
    assert_eq!(waiting.deadline, Some(Deadline { at: at(105), of: "CreationBackOff" }));
    let mut batches = Vec::new();
    for _ in 0..5 {
        let plan = step(starts, at(105));
        batches.push(plan.make.len());
        assert_eq!(plan.deadline, None);
        starts = starts.made(plan.make.len().try_into().unwrap());
    }
    assert_eq!(batches, [1, 2, 4, 8, 10], "doubled, at most a tenth of the set");
    let waits: Vec<i64> = (1..9)
        .map(|failures| Starts { failures, last_failure: Some(at(0)), since: 0 }.next().unwrap().as_second())
        .collect();
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(starts.made(BATCH), Starts::default(), "forgotten when it goes well");
}
