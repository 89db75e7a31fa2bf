//! Whether a machine is sick, by the rules of a health check.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::seen::MachineState;
use crate::families::health::{HealthCheck, UnhealthyCondition};
use crate::machines::Phase;

/// What holds for a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// What is spoken of, such as `Ready`.
    pub kind: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Since when.
    pub since: Timestamp,
}

/// What is known of the Node of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFound<'a> {
    /// The tenant cannot be asked.
    NotAsked,
    /// It has not joined yet.
    Never,
    /// It had one, and has none now.
    Gone,
    /// This holds for it.
    Here(&'a [NodeCondition]),
}

/// A machine as a health check looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Where it is.
    pub state: MachineState,
    /// The part of its life it is in, and since when.
    pub stage: Option<(Phase, Timestamp)>,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it runs is not known, and nothing proves that it does not.
    pub in_doubt: bool,
    /// Its Node.
    pub node: NodeFound<'a>,
    /// No limit is counted from before the end of the last outage of a site.
    pub calm_since: Option<Timestamp>,
}

/// What a health check finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Nothing is wrong.
    Well,
    /// Something is wrong, though not for long enough.
    Ailing {
        /// When it will have been for long enough, if time alone can tell.
        due: Option<Timestamp>,
    },
    /// It has been wrong for long enough.
    Sick {
        /// What, for people.
        why: String,
    },
}

/// Looks at a machine.
pub fn examine(check: &HealthCheck, subject: &Subject<'_>, now: Timestamp) -> Finding {
    // Whether it runs decides whether it may be replaced, and that takes proof, not patience.
    if subject.in_doubt {
        return Finding::Ailing { due: None };
    }
    if subject.state == MachineState::Failed {
        return Finding::Sick { why: "it failed".to_owned() };
    }
    match subject.node {
        NodeFound::NotAsked => match subject.state {
            MachineState::Ready(_) => Finding::Well,
            _ => Finding::Ailing { due: None },
        },
        NodeFound::Never => startup(check, subject, now),
        NodeFound::Gone => Finding::Sick { why: "its Node is gone".to_owned() },
        NodeFound::Here(conditions) => conditions_of(check, subject, conditions, now),
    }
}

/// A machine that has not joined: counted from its last step on the way, because an image that is still imported or a
/// host that is missing would be no different for another machine.
fn startup(check: &HealthCheck, subject: &Subject<'_>, now: Timestamp) -> Finding {
    let Some((Phase::Creating | Phase::Starting | Phase::Joining, since)) = subject.stage else {
        return Finding::Ailing { due: None };
    };
    let Some(limit) = check.startup else { return Finding::Ailing { due: None } };
    let due = due(subject, since.max(subject.created), limit);
    if due <= now {
        let why = format!("it has not joined within {} seconds", limit.as_secs());
        return Finding::Sick { why };
    }
    Finding::Ailing { due: Some(due) }
}

fn conditions_of(
    check: &HealthCheck,
    subject: &Subject<'_>,
    conditions: &[NodeCondition],
    now: Timestamp,
) -> Finding {
    let mut next: Option<Timestamp> = None;
    for rule in &check.unhealthy {
        let Some(found) = conditions.iter().find(|condition| is_met(rule, condition)) else { continue };
        let due = due(subject, found.since, rule.timeout);
        if due <= now {
            let (kind, status, seconds) = (&rule.kind, &rule.status, rule.timeout.as_secs());
            let why = format!("the condition {kind} of its Node is {status} for {seconds} seconds");
            return Finding::Sick { why };
        }
        next = Some(next.map_or(due, |next| next.min(due)));
    }
    next.map_or(Finding::Well, |due| Finding::Ailing { due: Some(due) })
}

fn is_met(rule: &UnhealthyCondition, condition: &NodeCondition) -> bool {
    *condition.kind == *rule.kind && *condition.status == *rule.status
}

fn due(subject: &Subject<'_>, since: Timestamp, limit: Duration) -> Timestamp {
    let since = subject.calm_since.map_or(since, |calm| calm.max(since));
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    since.checked_add(limit).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trellis_model::quantity::Count;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn check() -> HealthCheck {
        let rule = |kind: &str, status: &str, seconds| UnhealthyCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            timeout: Duration::from_secs(seconds),
        };
        HealthCheck {
            selector: trellis_api::machine_api::LabelSelector::default(),
            unhealthy: vec![
                rule("Ready", "False", 300),
                rule("Ready", "Unknown", 300),
                rule("Disk", "True", 60),
            ],
            max_unhealthy: Count::Percent(100),
            startup: Some(Duration::from_mins(10)),
        }
    }

    fn condition(kind: &str, status: &str, since: i64) -> NodeCondition {
        NodeCondition { kind: kind.into(), status: status.into(), since: at(since) }
    }

    fn subject(node: NodeFound<'_>) -> Subject<'_> {
        Subject {
            state: MachineState::Unready,
            stage: Some((Phase::Joining, at(100))),
            created: at(50),
            in_doubt: false,
            node,
            calm_since: None,
        }
    }

    fn is_sick(subject: &Subject<'_>, now: i64) -> bool {
        matches!(examine(&check(), subject, at(now)), Finding::Sick { .. })
    }

    #[test]
    fn the_first_rule_that_has_held_for_long_enough_makes_it_sick() {
        let both = [condition("Ready", "False", 1000), condition("Disk", "True", 1100)];
        let it = subject(NodeFound::Here(&both));
        assert_eq!(examine(&check(), &it, at(1159)), Finding::Ailing { due: Some(at(1160)) });
        assert!(is_sick(&it, 1160));
        let late = [condition("Ready", "False", 1000), condition("Disk", "False", 1100)];
        let it = subject(NodeFound::Here(&late));
        assert!(!is_sick(&it, 1299) && is_sick(&it, 1300));
        let well = [condition("Ready", "True", 0), condition("Disk", "False", 0)];
        assert_eq!(examine(&check(), &subject(NodeFound::Here(&well)), at(9000)), Finding::Well);
    }

    #[test]
    fn an_outage_of_a_site_begins_every_limit_anew() {
        let silent = [condition("Ready", "Unknown", 1000)];
        let it = Subject { calm_since: Some(at(5000)), ..subject(NodeFound::Here(&silent)) };
        assert!(!is_sick(&it, 5299) && is_sick(&it, 5300));
        let coming = Subject { calm_since: Some(at(5000)), ..subject(NodeFound::Never) };
        assert!(!is_sick(&coming, 5599) && is_sick(&coming, 5600));
    }

    #[test]
    fn who_does_not_join_is_sick_unless_others_would_not_join_either() {
        assert!(!is_sick(&subject(NodeFound::Never), 699) && is_sick(&subject(NodeFound::Never), 700));
        for stage in [Phase::Pending, Phase::ImageImporting, Phase::Scheduling] {
            let it = Subject { stage: Some((stage, at(100))), ..subject(NodeFound::Never) };
            assert_eq!(examine(&check(), &it, at(90_000)), Finding::Ailing { due: None }, "{stage:?}");
        }
        let patient = HealthCheck { startup: None, ..check() };
        let finding = examine(&patient, &subject(NodeFound::Never), at(90_000));
        assert_eq!(finding, Finding::Ailing { due: None });
    }

    #[test]
    fn what_needs_no_time_is_sick_at_once_and_what_is_in_doubt_never() {
        assert!(is_sick(&subject(NodeFound::Gone), 0));
        let failed = Subject { state: MachineState::Failed, ..subject(NodeFound::NotAsked) };
        assert!(is_sick(&failed, 0));
        let doubtful = Subject { in_doubt: true, ..failed };
        assert_eq!(examine(&check(), &doubtful, at(90_000)), Finding::Ailing { due: None });
        let unseen = subject(NodeFound::NotAsked);
        assert_eq!(examine(&check(), &unseen, at(90_000)), Finding::Ailing { due: None });
    }

    proptest! {
        /// A machine becomes sick exactly at the moment that was named, and stays so while nothing changes.
        #[test]
        fn the_named_moment_is_the_moment(since in 0_i64..5000, calm in proptest::option::of(0_i64..5000), now in 0_i64..9000) {
            let silent = [condition("Ready", "Unknown", since)];
            let it = Subject { calm_since: calm.map(at), ..subject(NodeFound::Here(&silent)) };
            match examine(&check(), &it, at(now)) {
                Finding::Ailing { due: Some(due) } => {
                    prop_assert!(due > at(now));
                    let second = due.as_second();
                    prop_assert!(!is_sick(&it, second - 1));
                    prop_assert!(is_sick(&it, second));
                }
                Finding::Sick { .. } => prop_assert!(is_sick(&it, now + 1000)),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
