use jiff::Timestamp;

use super::*;
use crate::pools::MachineState;

const UP: Sites = Sites { control: SiteHealth::Up, tenant: SiteHealth::Up, infra: SiteHealth::Up };

/// Machines from words of a zone and one letter per machine: `w`ell, `s`ick, `a`iling, `g`oing, `p`reserved.
fn members(text: &str) -> Vec<(Member, char)> {
    let mut all = Vec::new();
    for word in text.split_whitespace() {
        let (zone, letters) = word.split_once(':').unwrap();
        for letter in letters.chars() {
            let created = Timestamp::from_second(i64::try_from(all.len()).unwrap()).unwrap();
            let member = Member {
                name: format!("m{}", all.len()),
                created,
                zone: (!zone.is_empty()).then(|| zone.to_owned()),
                ordinal: None,
                state: if letter == 'g' { MachineState::Going } else { MachineState::Ready(created) },
                delete_first: false,
                preserved: letter == 'p',
            };
            all.push((member, letter));
        }
    }
    all
}

fn remedies(text: &str, max_unhealthy: &str, at_once: &str, sites: &Sites) -> Remedies {
    let members = members(text);
    let patients: Vec<Patient<'_>> = members
        .iter()
        .map(|(member, letter)| Patient { member, sick: matches!(letter, 's' | 'p'), ailing: *letter == 'a' })
        .collect();
    let limits = Limits {
        max_unhealthy: max_unhealthy.parse().unwrap(),
        at_once: at_once.parse().unwrap(),
        ..Limits::default()
    };
    plan(&limits, sites, &patients)
}

fn reasons(remedies: &Remedies) -> String {
    remedies.verdicts.values().map(Verdict::reason).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_may_be_replaced() {
    let rows = [
        (":wwww", "40%", "1", "", "nobody is sick"),
        (":wwws", "40%", "1", "Replaced", "one of four"),
        (":wsss", "40%", "9", "TooManyUnhealthy TooManyUnhealthy TooManyUnhealthy", "three of four"),
        (":wwss", "1", "9", "TooManyUnhealthy TooManyUnhealthy", "a number"),
        (":wwss", "2", "9", "Replaced Replaced", "just as many"),
        (":wwss", "0", "9", "TooManyUnhealthy TooManyUnhealthy", "nothing means never"),
        (":wwwwwwwwss", "100%", "1", "Replaced Queued", "one at once"),
        (":wwwwwwwgss", "100%", "1", "Queued Queued", "what is going counts"),
        (":wwwwwwwgss", "100%", "20%", "Replaced Queued", "a part at once"),
        (":wwwwggss", "3", "9", "TooManyUnhealthy TooManyUnhealthy", "what is going is not well either"),
        (":wwps", "50%", "9", "Preserved Replaced", "kept machines do not count: one of three"),
        ("a:www b:sss", "100%", "9", "ZoneOutage ZoneOutage ZoneOutage", "a zone is out"),
        ("a:sww b:wss", "100%", "9", "Replaced ZoneOutage ZoneOutage", "others are looked after"),
        ("a:sww b:s", "100%", "9", "Replaced Replaced", "one machine is no outage"),
        ("a:sss", "100%", "9", "Replaced Replaced Replaced", "a single zone is not told apart"),
        (":wwas", "1", "9", "TooManyUnhealthy", "what is about to be sick counts"),
        (":wwwa", "100%", "9", "", "and is left"),
        ("a:www b:saw", "100%", "9", "ZoneOutage", "it counts for its zone, too"),
    ];
    for (world, most, at_once, expected, why) in rows {
        assert_eq!(reasons(&remedies(world, most, at_once, &UP)), expected, "{why}: {world}");
    }
}

#[test]
fn nothing_is_replaced_while_a_site_is_down() {
    let down = Sites { tenant: SiteHealth::Down(Timestamp::UNIX_EPOCH), ..UP };
    let frozen = remedies(":wws", "100%", "9", &down);
    assert_eq!(frozen.verdicts["m2"], Verdict::Frozen { site: "tenant" });
    assert_eq!((frozen.condition.holds, frozen.condition.reason), (Some(false), "SiteUnreachable"));
    let absent = Sites { tenant: SiteHealth::Absent, ..UP };
    assert_eq!(reasons(&remedies(":wws", "100%", "9", &absent)), "Replaced");
}

#[test]
fn the_limit_is_told_in_numbers() {
    let stopped = remedies(":wsss", "40%", "1", &UP);
    assert_eq!(stopped.condition.message, "3 of 4 machines are sick, at most 1 may be: none is replaced");
    assert_eq!((stopped.expected, stopped.healthy, stopped.allowed), (4, 1, 0));
    let within = remedies(":wwws", "50%", "1", &UP);
    assert_eq!((within.condition.holds, within.allowed), (Some(true), 1));
}
