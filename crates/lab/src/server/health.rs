//! `/healthz`, `/livez` and `/readyz`, with the checks operators and probes know by name.
//!
//! The lab serves only when all of its parts work, so each check passes from the first request on.

use std::collections::BTreeSet;

use http::header::X_CONTENT_TYPE_OPTIONS;

use crate::api::Call;
use crate::api::reply::Reply;

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

/// All paths health is told at.
pub(super) fn paths() -> impl Iterator<Item = String> {
    PROBES.into_iter().flat_map(|probe| {
        let each = checks(probe).map(move |check| format!("/{probe}/{check}"));
        std::iter::once(format!("/{probe}")).chain(each)
    })
}

/// The answer of a probe, or of one of its checks.
pub(super) fn answer(call: &Call, probe: &str, check: &str) -> Option<Reply> {
    if !check.is_empty() {
        return checks(probe).any(|known| known == check).then(|| Reply::text(200, "ok"));
    }
    let mut reply = if call.parameters.get("verbose").is_some() {
        Reply::text(200, &report(probe, call.parameters.all("exclude").collect()))
    } else {
        Reply::text(200, "ok")
    };
    reply.set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    Some(reply)
}

/// One line for each check.
fn report(probe: &str, mut excluded: BTreeSet<&str>) -> String {
    let mut lines: Vec<String> = checks(probe)
        .map(|check| {
            if excluded.remove(check) {
                format!("[+]{check} excluded: ok\n")
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
    lines.push(format!("{probe} check passed\n"));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_checks_are_told_and_unknown_ones_too() {
        let text = report("readyz", BTreeSet::from(["etcd", "nope"]));
        assert!(text.contains("[+]etcd excluded: ok\n[+]etcd-readiness ok\n"));
        assert!(text.ends_with(
            "[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \"nope\"\nreadyz check passed\n"
        ));
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
