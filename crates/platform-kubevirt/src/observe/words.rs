//! What the platform says, in fewer words.

use std::fmt::Write as _;

/// The longest message that is passed on.
const LONGEST: usize = 400;

/// A message that fits into a status: quotas in our words, everything else cut where it is too long.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    if let Some(quota) = quota(text) {
        return quota;
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

/// How hosts that do not fit are counted by the scheduler, and what that means of one and of several.
const REASONS: &[(&str, &str, &str)] = &[
    ("node(s) were unschedulable", "is cordoned", "are cordoned"),
    ("node(s) had untolerated taint", "is tainted", "are tainted"),
    ("node(s) had taint", "is tainted", "are tainted"),
    ("node(s) had untolerated taints", "is tainted", "are tainted"),
    (
        "node(s) didn't match Pod's node affinity/selector",
        "is not one of those wanted",
        "are not of those wanted",
    ),
    ("node(s) didn't match node selector", "is not one of those wanted", "are not of those wanted"),
    (
        "node(s) didn't match pod anti-affinity rules",
        "has a machine to keep apart from",
        "have a machine to keep apart from",
    ),
    (
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "has a machine that keeps apart",
        "have a machine that keeps apart",
    ),
    (
        "node(s) didn't match pod affinity rules",
        "lacks a machine to be near to",
        "lack a machine to be near to",
    ),
    (
        "node(s) didn't match pod topology spread constraints",
        "would spoil the spread",
        "would spoil the spread",
    ),
    ("node(s) had volume node affinity conflict", "does not reach the volume", "do not reach the volume"),
    (
        "node(s) didn't find available persistent volumes to bind",
        "has no room for the volume",
        "have no room for the volume",
    ),
    ("node(s) did not have enough free storage", "has no room for the volume", "have no room for the volume"),
    ("node(s) exceed max volume count", "has too many volumes", "have too many volumes"),
    ("node(s) didn't have free ports for the requested pod ports", "lacks a free port", "lack a free port"),
    ("Too many pods", "is full", "are full"),
];

/// Why no host fits: `no infra node fits: 3 lack memory, 1 is tainted`. The scheduler's own words where they are
/// not understood.
pub(crate) fn no_host(message: &str) -> String {
    let message = message.trim();
    let own_words = || {
        if message.is_empty() {
            "no infra node fits".to_owned()
        } else {
            format!("no infra node fits: {}", shortened(message))
        }
    };
    let Some((_, reasons)) = message.split_once("nodes are available: ") else { return own_words() };
    // What follows tells why nothing would be gained by removing others.
    let end = [". preemption:", ". no new claims", ", preemption:"]
        .iter()
        .filter_map(|end| reasons.find(end))
        .min();
    let reasons = reasons.get(..end.unwrap_or(reasons.len())).unwrap_or(reasons).trim_end_matches('.');
    let mut counted: Vec<(u64, Reason<'_>)> = Vec::new();
    for part in reasons.split(", ") {
        let Some((count, what)) =
            part.split_once(' ').and_then(|(n, what)| Some((n.parse::<u64>().ok()?, what)))
        else {
            // The second half of a reason with a comma in it belongs to the one before.
            if counted.is_empty() {
                return own_words();
            }
            continue;
        };
        let reason = Reason::of(what.trim());
        match counted.iter_mut().find(|(_, known)| *known == reason) {
            Some((sum, _)) => *sum = sum.saturating_add(count),
            None => counted.push((count, reason)),
        }
    }
    let mut text = "no infra node fits: ".to_owned();
    for (i, (count, reason)) in counted.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = match reason {
            Reason::Lacks(what) if *count == 1 => write!(text, "{comma}1 lacks {what}"),
            Reason::Lacks(what) => write!(text, "{comma}{count} lack {what}"),
            Reason::Known(one, _) if *count == 1 => write!(text, "{comma}1 {one}"),
            Reason::Known(_, several) => write!(text, "{comma}{count} {several}"),
            Reason::Unknown(what) => write!(text, "{comma}{count} {what}"),
        };
    }
    shortened(&text)
}

#[derive(PartialEq)]
enum Reason<'a> {
    /// Too little of something.
    Lacks(&'a str),
    /// Something there is a word for, for one and for several.
    Known(&'static str, &'static str),
    /// In the scheduler's words.
    Unknown(&'a str),
}

impl<'a> Reason<'a> {
    fn of(text: &'a str) -> Self {
        if let Some(what) = text.strip_prefix("Insufficient ") {
            return Self::Lacks(what);
        }
        let known = REASONS.iter().find(|(scheduler, ..)| text.starts_with(scheduler));
        known.map_or(Self::Unknown(text), |(_, one, several)| Self::Known(one, several))
    }
}

/// What a quota does not allow: `quota demo leaves no room: requests.memory 4Gi more, 6Gi of 8Gi used`.
fn quota(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("exceeded quota: ")?;
    let (name, rest) = rest.split_once(", requested: ")?;
    let (requested, rest) = rest.split_once(", used: ")?;
    let (used, limited) = rest.split_once(", limited: ")?;
    let amount_in = |list: &str, what: &str| {
        let found =
            list.split(',').find_map(|pair| pair.trim().split_once('=').filter(|(key, _)| *key == what));
        found.map(|(_, amount)| amount.split_whitespace().next().unwrap_or_default().to_owned())
    };
    let mut parts = Vec::new();
    for pair in requested.split(',') {
        let (what, more) = pair.trim().split_once('=')?;
        let (used, limit) = (amount_in(used, what)?, amount_in(limited, what)?);
        parts.push(format!("{what} {more} more, {used} of {limit} used"));
    }
    Some(format!("quota {name} leaves no room: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_understood() {
        let cases = [
            (
                "0/3 nodes are available: 3 Insufficient memory. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
                "no infra node fits: 3 lack memory",
            ),
            (
                "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 3 Insufficient memory. preemption: 0/4 nodes are available: 1 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod.",
                "no infra node fits: 1 is tainted, 3 lack memory",
            ),
            (
                "0/5 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate, 2 node(s) had taint {c: }, that the pod didn't tolerate, 2 node(s) were unschedulable.",
                "no infra node fits: 3 are tainted, 2 are cordoned",
            ),
            (
                "0/2 nodes are available: 1 Insufficient devices.kubevirt.io/kvm, 1 node(s) were out of paint.",
                "no infra node fits: 1 lacks devices.kubevirt.io/kvm, 1 node(s) were out of paint",
            ),
            (
                "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: none.",
                "no infra node fits: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: none.",
            ),
            (
                "no nodes available to schedule pods",
                "no infra node fits: no nodes available to schedule pods",
            ),
            ("", "no infra node fits"),
        ];
        for (scheduler, expected) in cases {
            assert_eq!(no_host(scheduler), expected);
        }
    }

    #[test]
    fn a_quota_says_what_is_missing() {
        let message = "failed to create virtual machine pod: pods \"virt-launcher-a-x\" is forbidden: exceeded quota: demo, requested: requests.memory=4Gi,pods=1, used: requests.memory=6Gi,pods=3, limited: requests.memory=8Gi,pods=3";
        assert_eq!(
            shortened(message),
            "quota demo leaves no room: requests.memory 4Gi more, 6Gi of 8Gi used; pods 1 more, 3 of 3 used"
        );
        assert_eq!(shortened("exceeded quota: odd"), "exceeded quota: odd");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let text = shortened(&"é".repeat(1000));
        assert_eq!(text.chars().count(), LONGEST + 1);
    }
}
