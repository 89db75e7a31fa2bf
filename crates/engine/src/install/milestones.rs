//! The milestones on the way to a cluster, how long each may take, and why one is not reached.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use trellis_bootstrap::server::Sightings;

use super::plan::{Facts, Presence, Stage};

/// Something to be reached, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// There are keys and certificates.
    Keys,
    /// It is decided who begins.
    Founders,
    /// The bootstrap machine runs.
    Bootstrap,
    /// The API answers.
    Api,
    /// All who begin have their Nodes.
    Nodes,
    /// The network plugin is there.
    Network,
    /// The members have taken over.
    HandOver,
    /// The members serve configurations.
    Serving,
    /// The bootstrap machine is gone.
    BootstrapGone,
    /// All machines are available.
    Machines,
}

impl Milestone {
    /// All of them, in their order.
    pub const ALL: [Self; 10] = [
        Self::Keys,
        Self::Founders,
        Self::Bootstrap,
        Self::Api,
        Self::Nodes,
        Self::Network,
        Self::HandOver,
        Self::Serving,
        Self::BootstrapGone,
        Self::Machines,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "Keys",
            Self::Founders => "Founders",
            Self::Bootstrap => "Bootstrap",
            Self::Api => "Api",
            Self::Nodes => "Nodes",
            Self::Network => "Network",
            Self::HandOver => "HandOver",
            Self::Serving => "Serving",
            Self::BootstrapGone => "BootstrapGone",
            Self::Machines => "Machines",
        }
    }

    pub(super) fn stage(self) -> Stage {
        match self {
            Self::Keys | Self::Founders => Stage::Preparing,
            Self::Bootstrap | Self::Api | Self::Nodes | Self::Network | Self::HandOver => {
                Stage::Bootstrapping
            }
            Self::Serving | Self::BootstrapGone | Self::Machines => Stage::Growing,
        }
    }

    /// How long it may take before it is asked why it takes so long. Images may have to be imported first.
    pub fn patience(self) -> SignedDuration {
        SignedDuration::from_mins(match self {
            Self::Keys | Self::HandOver => 2,
            Self::Founders | Self::Network | Self::Serving => 5,
            Self::Api | Self::Nodes | Self::BootstrapGone => 10,
            Self::Bootstrap | Self::Machines => 20,
        })
    }
}

/// Whether a milestone is reached.
pub(super) fn reached(facts: &Facts, milestone: Milestone) -> bool {
    let later = facts.handed_over;
    match milestone {
        Milestone::Keys => facts.keys,
        Milestone::Founders => later || facts.founders.is_some(),
        Milestone::Bootstrap => {
            later || facts.answers || (facts.bootstrap == Presence::Present && facts.bootstrap_runs)
        }
        Milestone::Api => later || (facts.answers && facts.address),
        Milestone::Nodes => later || facts.took_over(),
        Milestone::Network => later || facts.plugged,
        Milestone::HandOver => later,
        Milestone::Serving => facts.serves,
        Milestone::BootstrapGone => later && facts.bootstrap == Presence::Absent,
        Milestone::Machines => facts.machines.1 >= facts.machines.0,
    }
}

/// What was found out about a cluster that does not get on. All of it can be seen from outside of its machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What its machines share and is not as it is to be, each in words.
    pub wrong: Vec<String>,
    /// What the server on the bootstrap machine has seen, or why it cannot be asked.
    pub server: Option<Result<Sightings, String>>,
    /// The machines that run.
    pub running: BTreeSet<String>,
    /// What is said of those that are not as they are to be.
    pub said: BTreeMap<String, String>,
}

/// Why a cluster does not get on: one word for its condition, and words for people.
pub fn why_stuck(facts: &Facts, next: Milestone, findings: &Findings) -> (&'static str, String) {
    let mut parts = findings.wrong.clone();
    let mut reason = match next {
        Milestone::Keys => "KeysNotMade",
        Milestone::Founders => "MachinesNotDecidedOn",
        Milestone::Bootstrap => "BootstrapMachineDoesNotRun",
        Milestone::Api => "ApiDoesNotAnswer",
        Milestone::Nodes => "MachinesNotJoined",
        Milestone::Network => "NetworkPluginNotApplied",
        Milestone::HandOver => "NotHandedOver",
        Milestone::Serving => "ConfigurationsNotServed",
        Milestone::BootstrapGone => "BootstrapMachineNotRemoved",
        Milestone::Machines => "MachinesNotAvailable",
    };
    if matches!(next, Milestone::Api | Milestone::Nodes) {
        match &findings.server {
            Some(Ok(seen)) => {
                let unserved = unserved(facts, findings, seen);
                if !unserved.is_empty() {
                    reason = "ConfigurationsNotFetched";
                    parts.extend(unserved);
                    parts.extend(seen.distrusted.as_ref().map(|trouble| {
                        format!(
                            "{} times somebody did not trust the certificate of the machine config server ({})",
                            trouble.times, trouble.why
                        )
                    }));
                }
            }
            Some(Err(why)) => {
                reason = "ConfigurationsNotServed";
                parts.push(format!(
                    "the machine config server on the bootstrap machine does not answer: {why}"
                ));
            }
            None => {}
        }
    }
    if parts.is_empty() {
        parts.extend(findings.said.iter().map(|(machine, said)| format!("{machine}: {said}")));
    }
    if parts.is_empty() && next == Milestone::Api {
        parts.push("its machines have their configurations, and its API does not answer yet".to_owned());
    }
    (reason, parts.join("; "))
}

/// Why founders have no configuration, for each that has none.
fn unserved(facts: &Facts, findings: &Findings, seen: &Sightings) -> Vec<String> {
    let founders = facts.founders.iter().flatten();
    let without = founders.filter(|name| !facts.nodes.contains(*name) && !seen.served.contains_key(*name));
    without
        .map(|name| match (seen.refused.get(name), findings.running.contains(name)) {
            (Some(trouble), _) => format!(
                "{name} asked {} times in vain for its configuration: {}",
                trouble.times, trouble.why
            ),
            (None, true) => format!(
                "{name} runs and has not asked for its configuration: it cannot read its user data, or does not reach \
                 api-int:22623"
            ),
            (None, false) => {
                let said = findings.said.get(name).map(|said| format!(": {said}")).unwrap_or_default();
                format!("{name} does not run{said}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use trellis_bootstrap::server::Trouble;

    use super::*;

    fn facts() -> Facts {
        let founders = ["m0", "m1"].map(str::to_owned).into();
        Facts { keys: true, founders: Some(founders), ..Facts::default() }
    }

    fn trouble(why: &str) -> Trouble {
        Trouble { why: why.to_owned(), times: 3, last: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn who_has_no_configuration_is_named_with_the_reason() {
        let mut seen = Sightings::default();
        seen.served.insert("m1".to_owned(), Timestamp::UNIX_EPOCH);
        seen.refused.insert("m0".to_owned(), trouble("its token has expired"));
        let findings = Findings { server: Some(Ok(seen.clone())), ..Findings::default() };
        let (reason, text) = why_stuck(&facts(), Milestone::Api, &findings);
        assert_eq!(reason, "ConfigurationsNotFetched");
        assert_eq!(text, "m0 asked 3 times in vain for its configuration: its token has expired");
        seen.refused.clear();
        seen.distrusted = Some(trouble("received fatal alert: UnknownCA"));
        let running = ["m0".to_owned()].into();
        let findings = Findings { server: Some(Ok(seen)), running, ..Findings::default() };
        let (_, text) = why_stuck(&facts(), Milestone::Api, &findings);
        assert!(
            text.starts_with("m0 runs and has not asked")
                && text.ends_with("(received fatal alert: UnknownCA)")
        );
    }

    #[test]
    fn what_is_not_as_it_is_to_be_comes_first() {
        let findings = Findings {
            wrong: vec!["the Service api-int selects other machines".to_owned()],
            server: Some(Err("no route".to_owned())),
            ..Findings::default()
        };
        let (reason, text) = why_stuck(&facts(), Milestone::Nodes, &findings);
        assert_eq!(reason, "ConfigurationsNotServed");
        assert!(
            text.starts_with("the Service api-int selects other machines; the machine config server"),
            "{text}"
        );
    }

    #[test]
    fn elsewhere_it_is_what_is_said_of_the_machines() {
        let said = [("blue-bootstrap".to_owned(), "no host has room".to_owned())].into();
        let findings = Findings { said, ..Findings::default() };
        let (reason, text) = why_stuck(&facts(), Milestone::Bootstrap, &findings);
        assert_eq!(
            (reason, text.as_str()),
            ("BootstrapMachineDoesNotRun", "blue-bootstrap: no host has room")
        );
    }
}
