//! `/healthz`, `/livez` and `/readyz`, with the checks operators and probes know by name.
//!
//! The lab serves only when all of its parts work, so each check passes from the first request on. What can fail
//! later is the disk, which stands in for etcd.

use std::collections::BTreeSet;

use http::header::X_CONTENT_TYPE_OPTIONS;

use crate::api::Call;
use crate::api::reply::Reply;
use crate::store::StoreError;

/// What is asked about.
pub(super) const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];

/// The checks of every probe that tell of parts which have started, in the order they are reported.
const STARTED: [&str; 31] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The checks of a probe.
fn checks(probe: &str) -> impl Iterator<Item = &'static str> {
    let ready = probe == "readyz";
    let first: &[&str] = if ready {
        &["ping", "log", "etcd", "etcd-readiness", "informer-sync"]
    } else {
        &["ping", "log", "loopback-serving-certificate", "etcd"]
    };
    let last: &[&str] = if ready { &["shutdown"] } else { &[] };
    first.iter().chain(&STARTED).chain(last).copied()
}

/// True for the checks that tell of where objects are stored.
fn is_about_storage(check: &str) -> bool {
    matches!(check, "etcd" | "etcd-readiness")
}

/// All paths health is told at.
pub(super) fn paths() -> impl Iterator<Item = String> {
    PROBES.into_iter().flat_map(|probe| {
        let each = checks(probe).map(move |check| format!("/{probe}/{check}"));
        std::iter::once(format!("/{probe}")).chain(each)
    })
}

/// The answer of a probe, or of one of its checks. `stored` says whether objects can be written.
pub(super) fn answer(
    call: &Call,
    probe: &str,
    check: &str,
    stored: &Result<(), StoreError>,
) -> Option<Reply> {
    if !check.is_empty() {
        checks(probe).find(|known| *known == check)?;
        return Some(match stored {
            Err(why) if is_about_storage(check) => {
                Reply::text(500, &format!("internal server error: {why}\n"))
            }
            _ => Reply::text(200, "ok"),
        });
    }
    let (passes, report) = report(probe, call.parameters.all("exclude").collect(), stored.is_ok());
    let mut reply = match passes {
        true if call.parameters.get("verbose").is_none() => Reply::text(200, "ok"),
        true => Reply::text(200, &report),
        false => Reply::text(500, &report),
    };
    reply.set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    Some(reply)
}

/// Whether all is well, and one line for each check.
fn report(probe: &str, mut excluded: BTreeSet<&str>, stored: bool) -> (bool, String) {
    let mut passes = true;
    let mut lines: Vec<String> = checks(probe)
        .map(|check| {
            if excluded.remove(check) {
                format!("[+]{check} excluded: ok\n")
            } else if !stored && is_about_storage(check) {
                passes = false;
                format!("[-]{check} failed: reason withheld\n")
            } else {
                format!("[+]{check} ok\n")
            }
        })
        .collect();
    if !excluded.is_empty() {
        let unknown: Vec<String> = excluded.iter().map(|check| format!("{check:?}")).collect();
        let unknown = unknown.join(", ");
        lines.push(format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
    }
    let outcome = if passes { "passed" } else { "failed" };
    lines.push(format!("{probe} check {outcome}\n"));
    (passes, lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_checks_are_told_and_unknown_ones_too() {
        let (_, text) = report("readyz", BTreeSet::from(["etcd", "nope"]), true);
        assert!(text.contains("[+]etcd excluded: ok\n[+]etcd-readiness ok\n"));
        assert!(text.ends_with(
            "[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \"nope\"\nreadyz check passed\n"
        ));
    }

    #[test]
    fn a_lost_disk_fails_what_tells_of_it() {
        let (passes, text) = report("readyz", BTreeSet::new(), false);
        assert!(!passes && text.contains("[+]log ok\n[-]etcd failed: reason withheld\n"), "{text}");
        assert!(text.ends_with("readyz check failed\n"));
        assert!(!report("livez", BTreeSet::new(), false).0);
        assert!(report("livez", BTreeSet::from(["etcd"]), false).0, "what is excluded does not count");
    }

    #[test]
    fn each_check_has_a_path() {
        let paths: Vec<String> = paths().collect();
        for path in ["/livez", "/readyz/shutdown", "/healthz/poststarthook/rbac/bootstrap-roles"] {
            assert!(paths.iter().any(|known| known == path), "{path}");
        }
        assert!(!paths.contains(&"/livez/shutdown".to_owned()));
    }
}
