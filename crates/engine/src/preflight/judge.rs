//! What the facts mean for what is asked for: pure.

use trellis_model::image::ImageSource;
use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Pool};
use trellis_runtime::client::Verb;

use super::facts::{Asked, Facts, Installation, Right};
use super::image::ImageFacts;
use super::{Check, capacity, network, storage};

/// The oldest versions everything works with.
const OLDEST_KUBEVIRT: (u64, u64) = (1, 3);
const OLDEST_CDI: (u64, u64) = (1, 58);

/// Judges what was found: every check, in the order in which things are needed.
pub fn judge(cluster: &Cluster, pools: &[&Pool], facts: &Facts) -> Vec<Check> {
    let mut checks = vec![server(facts)];
    if facts.server.known().is_none() {
        return checks;
    }
    checks.push(namespace(cluster, facts));
    checks.push(rights(cluster, facts));
    checks.push(operator("KubeVirt", "kubevirt.io", &facts.kubevirt, OLDEST_KUBEVIRT, facts));
    checks.push(operator("CDI", "cdi.kubevirt.io", &facts.cdi, OLDEST_CDI, facts));
    checks.extend(storage::checks(cluster, pools, facts));
    checks.extend(network::checks(cluster, pools, facts));
    checks.extend(capacity::checks(cluster, pools, facts));
    checks.extend(images(cluster, pools, facts));
    checks
}

fn server(facts: &Facts) -> Check {
    let about = "API server";
    match &facts.server {
        Asked::Known(version) => {
            let who = facts.user.known().map(|user| format!(", as {user}")).unwrap_or_default();
            Check::passed(about, format!("{version}{who}"))
        }
        other => Check::failed(about, other.why_not().unwrap_or_default())
            .fix("look at the kubeconfig and its context, and whether the server runs"),
    }
}

fn namespace(cluster: &Cluster, facts: &Facts) -> Check {
    let name = cluster.infra_namespace();
    let about = format!("namespace {name}");
    let may_make = facts.rights.iter().any(|(right, answer)| {
        right.request.verb == Verb::Create
            && right.request.plural == "namespaces"
            && *answer == Asked::Known(true)
    });
    match &facts.namespace {
        Asked::Known(true) => Check::passed(about, "it is there"),
        Asked::Known(false) => {
            Check::failed(about, "it is being deleted").fix("wait until it is gone, or take another")
        }
        Asked::Absent if may_make => Check::passed(about, "it is made by the installation"),
        Asked::Absent => Check::failed(about, "there is none, and you may not make it")
            .fix(format!("ask an admin: kubectl create namespace {name}")),
        other => Check::unknown(about, format!("unknown: {}", other.why_not().unwrap_or_default())),
    }
}

fn rights(cluster: &Cluster, facts: &Facts) -> Check {
    let about = "rights";
    // Whether a namespace may be made is asked beside, of the whole cluster.
    let asked: Vec<&(Right, Asked<bool>)> =
        facts.rights.iter().filter(|(right, _)| right.request.plural != "namespaces").collect();
    let needed = asked.iter().filter(|(right, _)| right.needed);
    let unknown = needed.clone().filter(|(_, answer)| answer.known().is_none()).count();
    let needed = needed.count();
    let (denied, useful) = (denied(&asked, true), denied(&asked, false));
    let user = facts.user.known().map_or("YOU", String::as_str);
    let namespace = cluster.infra_namespace();
    let fix = format!(
        "ask an admin: trellis rbac --site install --namespace {namespace} --user '{user}' | kubectl apply -f -"
    );
    if !denied.is_empty() {
        return Check::failed(about, format!("you may not {}", denied.join("; "))).fix(fix);
    }
    if unknown > 0 {
        return Check::unknown(about, format!("{unknown} of {needed} could not be asked about"));
    }
    if !useful.is_empty() {
        let found = format!(
            "all {needed} that every cluster needs; what some need, or `destroy` and `gather` to see everything, you may \
             not: {}",
            useful.join("; ")
        );
        return Check::warning(about, found).fix(fix);
    }
    Check::passed(about, format!("all {needed} that are needed"))
}

/// What may not be done of what is needed, or of what is not: for each kind, what of it.
fn denied(asked: &[&(Right, Asked<bool>)], needed: bool) -> Vec<String> {
    let mut denied: Vec<(String, Vec<&str>)> = Vec::new();
    for (right, answer) in asked {
        if right.needed != needed || *answer != Asked::Known(false) {
            continue;
        }
        let (resource, verb) = (right.request.resource(), right.request.verb.word());
        match denied.iter_mut().find(|(of, _)| *of == resource) {
            Some((_, verbs)) => verbs.push(verb),
            None => denied.push((resource, vec![verb])),
        }
    }
    denied.iter().map(|(resource, verbs)| format!("{} {resource}", verbs.join(", "))).collect()
}

fn operator(
    name: &str,
    group: &str,
    asked: &Asked<Installation>,
    oldest: (u64, u64),
    facts: &Facts,
) -> Check {
    if facts.groups.known().is_some_and(|groups| !groups.contains(group)) {
        return Check::failed(name, format!("the server does not know {group}"))
            .fix(format!("an admin of the infra cluster must install {name}"));
    }
    let installation = match asked {
        Asked::Known(installation) => installation,
        other => {
            let why = other.why_not().unwrap_or_default();
            return Check::unknown(name, format!("it is there; its version is unknown: {why}"));
        }
    };
    let Installation { version, phase, disabled_gates, .. } = installation;
    if phase != "Deployed" {
        return Check::failed(name, format!("{version} is not deployed but {phase}"))
            .fix(format!("an admin must see that {name} works"));
    }
    match numbers(version) {
        Some(found) if found < oldest => {
            Check::failed(name, format!("{version} is older than v{}.{}", oldest.0, oldest.1))
                .fix(format!("an admin must update {name}"))
        }
        Some(_) if disabled_gates.contains("DeclarativeHotplugVolumes") => {
            Check::warning(name, format!("{version}, with DeclarativeHotplugVolumes switched off"))
                .fix("volumes of pods in the tenant cannot be attached while machines run")
        }
        Some(_) => Check::passed(name, version.clone()),
        None => Check::unknown(name, format!("its version {version:?} is none")),
    }
}

/// Major and minor number of a version such as `v1.9.0`.
fn numbers(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn images(cluster: &Cluster, pools: &[&Pool], facts: &Facts) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for pool in pools {
        let template = resolve(cluster, pool).template;
        let (url, checksum) = match &template.image.source {
            Some(ImageSource::Http(image)) => (&image.url, image.checksum.as_deref()),
            Some(ImageSource::Registry(image)) => (&image.url, Some("")),
            _ => continue,
        };
        let about = format!("image {}", without_user(url));
        let check = match facts.images.get(url) {
            Some(ImageFacts::There(size)) => {
                let size = size.map(|size| format!(", {} MiB", size >> 20)).unwrap_or_default();
                match checksum {
                    None => Check::warning(about, format!("it is there{size}; no checksum is said"))
                        .fix("say its checksum, so that nobody can replace it unseen"),
                    Some(_) => {
                        Check::passed(about, format!("it is there{size}; the import verifies its checksum"))
                    }
                }
            }
            Some(ImageFacts::NotThere(why)) => Check::warning(about, format!("from here: {why}"))
                .fix("see that the infra cluster reaches it: an import from there may still work"),
            Some(ImageFacts::NotAsked(why)) => Check::unknown(about, format!("unknown: {why}")),
            None => Check::unknown(about, "it was not asked for"),
        };
        if !checks.contains(&check) {
            checks.push(check);
        }
    }
    checks
}

/// A URL without what lets somebody in.
fn without_user(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            let path = path.split('?').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
