//! Which sick machines of a pool may be replaced now.
//!
//! A health check that sees too many sick machines sees something else: a broken network, a broken zone, a broken
//! check. Then replacing machines makes it worse, so nothing is replaced and it is said why.

use std::collections::BTreeMap;

use trellis_model::quantity::Count;

use super::seen::Member;
use super::set::count;
use crate::Condition;
use crate::machines::{SiteHealth, Sites};

/// The condition of a health check that says whether it may act; both machine APIs use this word.
pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";

/// The reason of that condition while nothing stops it.
pub const WITHIN_LIMITS: &str = "WithinLimits";

/// How much a health check may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// With more sick machines than that nothing is replaced; a percentage is rounded down.
    pub max_unhealthy: Count,
    /// A zone in which more than that part of the machines is sick is an outage of the zone: nothing is replaced in
    /// it. Only with two zones or more, else it would say the same as the limit above.
    pub zone_percent: u32,
    /// How many machines may be on their way out at once because they were sick, or for any other reason.
    pub at_once: Count,
}

impl Default for Limits {
    /// What both machine APIs do when nothing is said, a majority for a zone, and a fifth at once.
    fn default() -> Self {
        Self { max_unhealthy: Count::Percent(100), zone_percent: 55, at_once: Count::Percent(20) }
    }
}

/// A machine a health check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patient<'a> {
    /// The machine.
    pub member: &'a Member,
    /// The check found it sick for long enough.
    pub sick: bool,
    /// Something is wrong with it, though not for long enough, or it has not come up yet: it counts, and is left.
    pub ailing: bool,
}

impl Patient<'_> {
    /// Whether it does not do its work, whatever the reason.
    fn is_down(&self) -> bool {
        self.sick || self.ailing || self.member.goes()
    }
}

/// What may be done about a sick machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Verdict {
    /// It may be replaced now.
    #[error("it is replaced")]
    Replace,
    /// It is kept for debugging.
    #[error("it is kept for debugging")]
    Preserved,
    /// It is already on its way out.
    #[error("it is being removed already")]
    Going,
    /// A site cannot be reached, so what was seen through it proves nothing.
    #[error("the {site} site cannot be reached: nothing is replaced for what was seen there")]
    Frozen {
        /// The site.
        site: &'static str,
    },
    /// Too many are sick.
    #[error("{sick} of {machines} machines are sick, at most {most} may be: none is replaced")]
    TooMany {
        /// Sick machines.
        sick: u32,
        /// All machines.
        machines: u32,
        /// The limit.
        most: u32,
    },
    /// Too many in the zone are sick.
    #[error(
        "{sick} of {machines} machines in zone {zone} are sick: it is the zone, none of them is replaced"
    )]
    ZoneOut {
        /// The zone.
        zone: String,
        /// Sick machines in it.
        sick: u32,
        /// All machines in it.
        machines: u32,
    },
    /// Others are replaced first.
    #[error("{going} machines are being removed, at most {most} may be at once: it waits")]
    Queued {
        /// Machines on their way out.
        going: u32,
        /// The limit.
        most: u32,
    },
}

impl Verdict {
    /// Why the machine is left as it is, in words that stay the same while others fall ill or recover: a status that
    /// counted them would be written with each of them. Nothing where it may be replaced.
    pub fn held(&self) -> Option<&'static str> {
        Some(match self {
            Self::Replace | Self::Going => return None,
            Self::Preserved => "it is kept for debugging",
            Self::Frozen { .. } => "a site cannot be reached",
            Self::TooMany { .. } => "too many machines are sick",
            Self::ZoneOut { .. } => "most machines of its zone are sick, so it is the zone's trouble",
            Self::Queued { .. } => "others are replaced first",
        })
    }

    /// One word in `CamelCase` for events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Replace => "Replaced",
            Self::Preserved => "Preserved",
            Self::Going => "Going",
            Self::Frozen { .. } => "SiteUnreachable",
            Self::TooMany { .. } => "TooManyUnhealthy",
            Self::ZoneOut { .. } => "ZoneOutage",
            Self::Queued { .. } => "Queued",
        }
    }
}

/// What a health check may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedies {
    /// What may be done about each sick machine, by its name.
    pub verdicts: BTreeMap<String, Verdict>,
    /// How many machines the check looks at.
    pub expected: u32,
    /// How many of them are well.
    pub healthy: u32,
    /// How many more may be sick before nothing is replaced any more.
    pub allowed: u32,
    /// Whether it may act, and why not.
    pub condition: Condition,
}

/// Plans the remedies of a pool.
pub fn plan(limits: &Limits, sites: &Sites, patients: &[Patient<'_>]) -> Remedies {
    let counted = || patients.iter().filter(|patient| !patient.member.preserved);
    let machines = count(counted());
    // One that is going is no longer there to do its work, whatever it was.
    let sick = count(counted().filter(|patient| patient.is_down()));
    let going = count(counted().filter(|patient| patient.member.goes()));
    let most = limits.max_unhealthy.of(machines, false);
    let stop = frozen(sites).or((sick > most).then_some(Verdict::TooMany { sick, machines, most }));
    let zones = zones_out(limits, patients);
    let at_once = limits.at_once.of(machines, true).max(1);
    let mut free = at_once.saturating_sub(going);
    let mut verdict = |patient: &Patient<'_>| {
        let member = patient.member;
        if member.preserved {
            return Verdict::Preserved;
        }
        if member.goes() {
            return Verdict::Going;
        }
        if let Some(stop) = &stop {
            return stop.clone();
        }
        if let Some(out) = member.zone.as_deref().and_then(|zone| zones.get(zone)) {
            return out.clone();
        }
        if free == 0 {
            return Verdict::Queued { going, most: at_once };
        }
        free -= 1;
        Verdict::Replace
    };
    // The oldest first, so that a machine which never comes up does not keep others waiting for ever.
    let mut ill: Vec<&Patient<'_>> = patients.iter().filter(|patient| patient.sick).collect();
    ill.sort_by_key(|patient| (patient.member.created, &patient.member.name));
    let verdicts = ill.into_iter().map(|patient| (patient.member.name.clone(), verdict(patient))).collect();
    Remedies {
        verdicts,
        expected: machines,
        healthy: machines - sick,
        allowed: most.saturating_sub(sick),
        condition: condition(stop.as_ref(), &zones),
    }
}

fn frozen(sites: &Sites) -> Option<Verdict> {
    let all = [("control", sites.control), ("tenant", sites.tenant), ("infra", sites.infra)];
    let down = all.into_iter().find(|(_, health)| matches!(health, SiteHealth::Down(_)));
    down.map(|(site, _)| Verdict::Frozen { site })
}

/// The zones that are out, with the verdict on their machines.
fn zones_out(limits: &Limits, patients: &[Patient<'_>]) -> BTreeMap<String, Verdict> {
    let mut zones: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for patient in patients.iter().filter(|patient| !patient.member.preserved) {
        if let Some(zone) = patient.member.zone.as_deref() {
            let (sick, machines) = zones.entry(zone).or_default();
            *sick += u32::from(patient.is_down());
            *machines += 1;
        }
    }
    if zones.len() < 2 {
        return BTreeMap::new();
    }
    zones
        .into_iter()
        // A single sick machine is not yet an outage.
        .filter(|(_, (sick, machines))| {
            *sick > 1 && u64::from(*sick) * 100 > u64::from(*machines) * u64::from(limits.zone_percent)
        })
        .map(|(zone, (sick, machines))| {
            (zone.to_owned(), Verdict::ZoneOut { zone: zone.to_owned(), sick, machines })
        })
        .collect()
}

fn condition(stop: Option<&Verdict>, zones: &BTreeMap<String, Verdict>) -> Condition {
    let (holds, reason, message) = match (stop, zones.values().next()) {
        (Some(stop), _) => (false, stop.reason(), stop.to_string()),
        // The other zones are still looked after.
        (None, Some(zone)) => (true, zone.reason(), zone.to_string()),
        (None, None) => (true, WITHIN_LIMITS, "sick machines are replaced".to_owned()),
    };
    Condition { kind: REMEDIATION_ALLOWED, holds: Some(holds), reason, message }
}

#[cfg(test)]
#[path = "remedy_tests.rs"]
mod tests;
