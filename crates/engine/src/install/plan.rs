//! What comes next on the way to a cluster.

use std::collections::BTreeSet;

use super::milestones::{Milestone, reached};

/// What is there of a cluster that is being grown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its keys and certificates.
    pub keys: bool,
    /// Whether some of them have to be signed anew.
    pub renewal_due: bool,
    /// The credentials with which its etcd is asked.
    pub etcd_credentials: bool,
    /// Where its API is reached from outside.
    pub address: bool,
    /// The kubeconfig of its administrator.
    pub kubeconfig: bool,
    /// The members it begins with, once they were decided on; without those that somebody removed since.
    pub founders: Option<BTreeSet<String>>,
    /// The bootstrap machine.
    pub bootstrap: Presence,
    /// Whether it runs.
    pub bootstrap_runs: bool,
    /// Whether its API answers.
    pub answers: bool,
    /// Whether a network plugin was given to it, or is not ours to give.
    pub plugged: bool,
    /// The Nodes it has.
    pub nodes: BTreeSet<String>,
    /// Whether the members have taken over from the bootstrap machine.
    pub handed_over: bool,
    /// Whether the members have what they serve configurations from.
    pub serves: bool,
    /// Whether that is what is known of the cluster now.
    pub serves_the_newest: bool,
    /// How many machines are asked for, and how many of them are available.
    pub machines: (u32, u32),
}

/// Whether a machine is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// It is not.
    #[default]
    Absent,
    /// It is.
    Present,
    /// It is going.
    Going,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make and keep the keys.
    MakeKeys,
    /// Sign anew what ends soon, wherever it is kept.
    RenewCertificates,
    /// Keep the credentials for etcd.
    StoreEtcdCredentials,
    /// Keep the kubeconfig.
    StoreKubeconfig,
    /// Make the bootstrap machine.
    MakeBootstrap,
    /// Give the tenant its network plugin.
    PlugIn,
    /// Record that the members have taken over.
    HandOver,
    /// Give the members what they serve configurations from.
    Publish,
    /// Remove the bootstrap machine.
    RemoveBootstrap,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What the machines need is made.
    Preparing,
    /// The control plane comes up.
    Bootstrapping,
    /// The other machines come up.
    Growing,
    /// Everything that was asked for is there.
    Complete,
}

impl Stage {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "Preparing",
            Self::Bootstrapping => "Bootstrapping",
            Self::Growing => "Growing",
            Self::Complete => "Complete",
        }
    }
}

/// How far it is, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// What it is on the way to; nothing when all is there.
    pub next: Option<Milestone>,
    /// How many milestones are behind it.
    pub done: usize,
    /// What it waits for.
    pub message: String,
}

/// What comes next, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What is to be done now. All of it can be done at once, and again.
    pub steps: Vec<Step>,
    /// How far it is before that.
    pub progress: Progress,
}

/// Decides what comes next.
pub fn plan(facts: &Facts) -> Plan {
    Plan { steps: steps(facts), progress: progress(facts) }
}

fn steps(facts: &Facts) -> Vec<Step> {
    if !facts.keys {
        return vec![Step::MakeKeys];
    }
    let mut steps = Vec::new();
    if facts.renewal_due {
        steps.push(Step::RenewCertificates);
    }
    if !facts.etcd_credentials {
        steps.push(Step::StoreEtcdCredentials);
    }
    if facts.address && !facts.kubeconfig {
        steps.push(Step::StoreKubeconfig);
    }
    if facts.answers && !facts.plugged && !facts.handed_over {
        steps.push(Step::PlugIn);
    }
    if facts.handed_over && facts.answers && !facts.serves_the_newest {
        steps.push(Step::Publish);
    }
    match (facts.handed_over, facts.bootstrap) {
        (false, _) if facts.took_over() => steps.extend(facts.plugged.then_some(Step::HandOver)),
        (false, Presence::Absent) if facts.founders.is_some() => steps.push(Step::MakeBootstrap),
        (true, Presence::Present) => steps.push(Step::RemoveBootstrap),
        _ => {}
    }
    steps
}

impl Facts {
    /// Whether every founder has its Node: only who was given its configuration has one.
    pub(super) fn took_over(&self) -> bool {
        self.answers
            && self.founders.as_ref().is_some_and(|all| !all.is_empty() && all.is_subset(&self.nodes))
    }
}

fn progress(facts: &Facts) -> Progress {
    let next = Milestone::ALL.into_iter().find(|one| !reached(facts, *one));
    let done = Milestone::ALL.into_iter().take_while(|one| reached(facts, *one)).count();
    let Some(next) = next else {
        let message = format!("all {} machines are available", facts.machines.0);
        return Progress { stage: Stage::Complete, next: None, done, message };
    };
    Progress { stage: next.stage(), next: Some(next), done, message: waits(facts, next) }
}

/// What it waits for on the way to a milestone.
fn waits(facts: &Facts, next: Milestone) -> String {
    let all = facts.founders.as_ref().map_or(0, BTreeSet::len);
    match next {
        Milestone::Keys => "its keys and certificates are made".to_owned(),
        Milestone::Founders => "waiting for the machines of the control plane to be decided on".to_owned(),
        Milestone::Bootstrap if facts.bootstrap == Presence::Absent => {
            "the bootstrap machine is made".to_owned()
        }
        Milestone::Bootstrap => "waiting for the bootstrap machine to run".to_owned(),
        Milestone::Api if !facts.address => "waiting for the address of the Service api".to_owned(),
        Milestone::Api => format!("waiting for its API, which {all} machines are to serve"),
        Milestone::Nodes => {
            let here = facts.founders.iter().flatten().filter(|name| facts.nodes.contains(*name)).count();
            format!("{here} of {all} machines of the control plane have joined")
        }
        Milestone::Network => "its network plugin is applied".to_owned(),
        Milestone::HandOver => "the control plane takes over from the bootstrap machine".to_owned(),
        Milestone::Serving => "waiting for the control plane to serve configurations".to_owned(),
        Milestone::BootstrapGone => "the bootstrap machine is removed".to_owned(),
        Milestone::Machines => {
            let (wanted, available) = facts.machines;
            format!("{available} of {wanted} machines are available")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn founded() -> Facts {
        Facts {
            keys: true,
            etcd_credentials: true,
            founders: Some(names(&["m0", "m1", "m2"])),
            machines: (5, 0),
            ..Facts::default()
        }
    }

    #[test]
    fn keys_come_before_everything() {
        let nothing = plan(&Facts::default());
        assert_eq!(nothing.steps, [Step::MakeKeys]);
        assert_eq!((nothing.progress.stage, nothing.progress.done), (Stage::Preparing, 0));
        let keys = plan(&Facts { keys: true, address: true, ..Facts::default() });
        assert_eq!(keys.steps, [Step::StoreEtcdCredentials, Step::StoreKubeconfig]);
    }

    #[test]
    fn the_bootstrap_machine_lives_until_every_founder_has_joined() {
        let facts = founded();
        assert_eq!(plan(&facts).steps, [Step::MakeBootstrap]);
        let facts = Facts { bootstrap: Presence::Present, address: true, kubeconfig: true, ..facts };
        assert_eq!(plan(&facts).progress.message, "waiting for the bootstrap machine to run");
        let facts = Facts { bootstrap_runs: true, ..facts };
        let waits = plan(&facts);
        assert!(waits.steps.is_empty());
        assert_eq!(waits.progress.message, "waiting for its API, which 3 machines are to serve");
        let facts = Facts { answers: true, nodes: names(&["m0", "m2"]), ..facts };
        assert_eq!(plan(&facts).steps, [Step::PlugIn]);
        assert!(plan(&facts).progress.message.starts_with("2 of 3"));
        let facts = Facts { plugged: true, nodes: names(&["m0", "m1", "m2"]), ..facts };
        assert_eq!(plan(&facts).steps, [Step::HandOver]);
        let facts = Facts { handed_over: true, ..facts };
        assert_eq!(plan(&facts).steps, [Step::Publish, Step::RemoveBootstrap]);
        let facts = Facts { serves: true, serves_the_newest: true, ..facts };
        assert_eq!(plan(&facts).steps, [Step::RemoveBootstrap]);
        let facts = Facts { bootstrap: Presence::Going, machines: (5, 5), ..facts };
        assert!(plan(&facts).steps.is_empty());
        assert_eq!(plan(&facts).progress.stage, Stage::Growing, "not before it is gone");
        let done = plan(&Facts { bootstrap: Presence::Absent, ..facts.clone() });
        assert_eq!((done.steps, done.progress.stage), (Vec::new(), Stage::Complete));
        assert_eq!((done.progress.done, done.progress.next), (Milestone::ALL.len(), None));
        // A pool that is new, or other than it was, is published before a machine of it asks.
        let changed = Facts { serves_the_newest: false, bootstrap: Presence::Absent, ..facts };
        assert_eq!(plan(&changed).steps, [Step::Publish]);
        assert_eq!(plan(&changed).progress.stage, Stage::Complete);
    }

    #[test]
    fn what_ends_soon_is_signed_anew_whatever_else_happens() {
        let facts = Facts { renewal_due: true, ..founded() };
        assert_eq!(plan(&facts).steps, [Step::RenewCertificates, Step::MakeBootstrap]);
    }

    #[test]
    fn a_bootstrap_machine_that_is_lost_before_the_hand_over_is_made_again() {
        let facts = Facts { answers: true, plugged: true, address: true, kubeconfig: true, ..founded() };
        assert_eq!(plan(&facts).steps, [Step::MakeBootstrap]);
        // After it, nobody needs one.
        let facts = Facts { handed_over: true, serves_the_newest: true, nodes: names(&["m0"]), ..facts };
        assert!(plan(&facts).steps.is_empty());
    }
}
