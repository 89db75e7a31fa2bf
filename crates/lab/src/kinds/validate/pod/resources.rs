//! What containers and pods ask for.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kinds::format;
use crate::kinds::prepare::{pod_limits, pod_requests};
use crate::kinds::quantity::{Amount, Quantity};
use crate::kinds::view::{Look, Path, Problems};

const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(in crate::kinds::validate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// True for resources that are known everywhere.
pub(in crate::kinds::validate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && format::qualified_name(&format!("requests.{name}")).is_empty()
}

/// True for resources of which more may be promised than there is.
pub(in crate::kinds::validate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// True for resources quotas know without a prefix.
pub(in crate::kinds::validate) fn is_quota_resource(name: &str) -> bool {
    (STANDARD.contains(&name) && name != "storage") || is_quota_huge_page(name)
}

/// The name of any resource.
pub(in crate::kinds::validate) fn resource_name(name: &str, at: &Path<'_>, problems: &mut Problems) -> bool {
    let wrong = format::qualified_name(name);
    let mut good = wrong.is_empty();
    problems.invalid_each(at, name, wrong);
    if good && !name.contains('/') && !STANDARD.contains(&name) && !is_quota_huge_page(name) {
        good = false;
        problems.invalid(at, name, "must be a standard resource type or fully qualified");
    }
    good
}

/// The name of a resource of containers.
pub(in crate::kinds::validate) fn container_resource(name: &str, at: &Path<'_>, problems: &mut Problems) {
    resource_name(name, at, problems);
    if name.split('/').count() == 1 {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_page(name) {
            problems.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        problems.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn pod_resource(name: &str, at: &Path<'_>, problems: &mut Problems) {
    let known = matches!(name, "cpu" | "memory") || is_huge_page(name);
    if resource_name(name, at, problems) && !known {
        problems.unsupported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// An amount of a resource.
pub(in crate::kinds::validate) fn amount(name: &str, value: &Value, at: &Path<'_>, problems: &mut Problems) {
    let quantity = Quantity::or_zero(value);
    if quantity.is_negative() {
        problems.invalid(at, quantity.to_string(), "must be greater than or equal to 0");
    }
    if (WHOLE.contains(&name) || is_extended(name)) && quantity.milli_value() % 1000 != 0 {
        problems.invalid(at, quantity.to_string(), "must be an integer");
    }
}

/// What a container asks for.
pub(in crate::kinds::validate) fn requirements(
    resources: &Value,
    claims: &BTreeSet<&str>,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    check(resources, container_resource, claims, at, problems);
}

type NameCheck = fn(&str, &Path<'_>, &mut Problems);

fn check(
    resources: &Value,
    name_check: NameCheck,
    claims: &BTreeSet<&str>,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    let (limits_at, requests_at) = (at.child("limits"), at.child("requests"));
    let (mut compute, mut huge) = (false, false);
    let mut either = |name: &str, value: &Value, here: &Path<'_>, problems: &mut Problems| {
        name_check(name, here, problems);
        amount(name, value, here, problems);
        compute |= matches!(name, "cpu" | "memory");
        if let Some(size) = name.strip_prefix("hugepages-") {
            huge = true;
            let (quantity, size) = (Quantity::or_zero(value), Quantity::parse(size));
            let size = size.filter(|size| size.is_whole() && size.value() > 0);
            if size.is_none_or(|size| quantity.value() % size.value() != 0) {
                let text = quantity.to_string();
                let why = format!("{text} is not positive integer multiple of {name}");
                problems.invalid(here, text, why);
            }
        }
    };
    for (name, value) in resources.fields("limits").into_iter().flatten() {
        either(name, value, &limits_at.key(name), problems);
    }
    for (name, value) in resources.fields("requests").into_iter().flatten() {
        let here = requests_at.key(name);
        either(name, value, &here, problems);
        let quantity = Quantity::or_zero(value);
        match Quantity::of(resources.at("limits").at(name)) {
            Some(limit) if quantity != limit && !may_overcommit(name) => {
                let why = format!("must be equal to {name} limit of {limit}");
                problems.invalid(&requests_at, quantity.to_string(), why);
            }
            Some(limit) if quantity > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                problems.invalid(&requests_at, quantity.to_string(), why);
            }
            None if !may_overcommit(name) => {
                problems.required(&limits_at, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    if huge && !compute {
        problems.forbidden(at, "HugePages require cpu or memory");
    }
    claim_names(resources.list("claims"), claims, &at.child("claims"), problems);
}

fn claim_names(used: &[Value], known: &BTreeSet<&str>, at: &Path<'_>, problems: &mut Problems) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (place, claim) in used.iter().enumerate() {
        let here = at.index(place);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            problems.required(&here, "");
            continue;
        }
        if names.contains(name) {
            problems.duplicate(&here, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                problems.form(&here.child("request"), request, format::dns1123_label);
                key = format!("{name}/{request}");
            }
            if names.contains(&key) {
                problems.duplicate(&here, key.as_str());
            } else if request.is_empty() {
                for _ in
                    names.iter().filter(|other| other.split_once('/').is_some_and(|(first, _)| first == name))
                {
                    problems.duplicate(&here, name);
                }
            }
            names.insert(key);
        }
        if !known.contains(name) {
            let list: Vec<&str> = known.iter().copied().collect();
            let more =
                if list.is_empty() { " which is empty".to_owned() } else { format!(": {}", list.join(", ")) };
            problems.told(
                &here,
                "FieldValueNotFound",
                format!("Not found: {name:?}: must be one of the names in pod.spec.resourceClaims{more}"),
            );
        }
    }
}

/// What a pod asks for as a whole.
pub(super) fn pod_level(spec: &Value, claims: &BTreeSet<&str>, at: &Path<'_>, problems: &mut Problems) {
    if !spec.has("resources") {
        return;
    }
    let resources = spec.at("resources");
    let here = at.child("resources");
    if spec.at("os").text("name") == "windows" {
        problems.forbidden(&here, "may not be set for a windows pod");
        return;
    }
    if resources.has("claims") {
        problems.forbidden(&here.child("claims"), "claims may not be set for Resources at pod-level");
    }
    check(resources, pod_resource, claims, &here, problems);
    let (requests_at, limits_at) = (here.child("requests"), here.child("limits"));
    for (name, sum) in pod_requests(spec) {
        if let Some(own) = Quantity::of(resources.at("requests").at(&name))
            && sum > own
        {
            let why = format!("must be greater than or equal to aggregate container requests of {sum}");
            problems.invalid(&requests_at.key(&name), own.to_string(), why);
        }
    }
    for (name, sum) in pod_limits(spec).into_iter().filter(|(name, _)| is_huge_page(name)) {
        if let Some(own) = Quantity::of(resources.at("limits").at(&name))
            && sum > own
        {
            let why = format!("must be greater than or equal to aggregate container limits of {sum}");
            problems.invalid(&limits_at.key(&name), own.to_string(), why);
        }
    }
    let containers = here.child("containers");
    for (place, container) in spec.list("containers").iter().enumerate() {
        for (name, value) in container.at("resources").fields("limits").into_iter().flatten() {
            let (limit, own) = (Quantity::or_zero(value), Quantity::of(resources.at("limits").at(name)));
            if let Some(own) = own.filter(|own| limit > *own) {
                let why = format!("must be less than or equal to pod limits of {own}");
                problems.invalid(&containers.index(place).key(name).child("limits"), limit.to_string(), why);
            }
        }
    }
}

/// The claims of a pod.
pub(super) fn resource_claims(spec: &Value, mirror: bool, at: &Path<'_>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (place, claim) in spec.list("resourceClaims").iter().enumerate() {
        let here = at.index(place);
        if mirror {
            problems.forbidden(&Path::root(""), "static pods do not support resource claims");
            continue;
        }
        let name = claim.text("name");
        if name.is_empty() {
            problems.required(&here.child("name"), "");
        } else if seen.contains(name) {
            problems.duplicate(&here.child("name"), name);
        } else {
            problems.form(&here.child("name"), name, format::dns1123_label);
            seen.insert(name);
        }
        let shown = || {
            let text = |field: &str| claim.get(field).map_or("null".to_owned(), ToString::to_string);
            format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                Value::from(name),
                text("resourceClaimName"),
                text("resourceClaimTemplateName")
            )
        };
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => problems.invalid_shown(
                &here,
                &shown(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
            (false, false) => problems.invalid_shown(
                &here,
                &shown(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim.has(field) {
                problems.form(&here.child(field), claim.text(field), format::dns1123_subdomain);
            }
        }
    }
}
