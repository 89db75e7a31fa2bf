//! What objects of a resource count as.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::json::{entries, items, text};
use super::super::plugins::resources::{Amounts, amount, amounts, count, of_pod, sum};
use super::super::review::{Operation, Review};
use super::{hard, scopes, scopes_of};
use crate::names::GroupResource;
use crate::quantity::Quantity;
use crate::status::qualified;

const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// Claims for all devices count as so many.
const ALL_DEVICES: i64 = 32;

/// Knows how objects of one resource count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// Objects that only count by their number.
    Count(GroupResource),
}

impl Evaluator {
    pub(super) fn of(group: &str, resource: &str) -> Self {
        match (group, resource) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Self::DeviceClaims,
            _ => Self::Count(GroupResource::new(group, resource)),
        }
    }

    /// Everybody who may count some of the names.
    pub(super) fn for_names(names: &[String]) -> Vec<Self> {
        let mut found = vec![Self::Pods, Self::Services, Self::VolumeClaims, Self::DeviceClaims];
        for name in names {
            let (resource, group) = match name.strip_prefix("count/") {
                Some(counted) => counted.split_once('.').unwrap_or((counted, "")),
                None if is_legacy_count(name) => (name.as_str(), ""),
                None => continue,
            };
            let evaluator = Self::of(group, resource);
            if !found.contains(&evaluator) {
                found.push(evaluator);
            }
        }
        found
    }

    pub(super) fn resource(&self) -> GroupResource {
        match self {
            Self::Pods => GroupResource::new("", "pods"),
            Self::Services => GroupResource::new("", "services"),
            Self::VolumeClaims => GroupResource::new("", "persistentvolumeclaims"),
            Self::DeviceClaims => GroupResource::new("resource.k8s.io", "resourceclaims"),
            Self::Count(resource) => resource.clone(),
        }
    }

    /// True if a request can change the usage.
    pub(super) fn handles(&self, review: &Review<'_>) -> bool {
        let creates = review.operation == Operation::Create;
        let updates = review.operation == Operation::Update;
        let old = review.old.as_deref().unwrap_or(&Value::Null);
        let new = review.object.as_ref().unwrap_or(&Value::Null);
        match (self, review.attributes.subresource.as_str()) {
            (Self::Pods, "") => {
                let terminates =
                    |pod: &Value| pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|one| one >= 0);
                creates || (updates && terminates(old) != terminates(new))
            }
            (Self::Pods, "resize") => updates,
            (Self::Services | Self::VolumeClaims | Self::DeviceClaims, "") => creates || updates,
            (Self::VolumeClaims, "status") => {
                ["allocatedResources", "currentVolumeAttributesClassName", "modifyVolumeStatus"]
                    .iter()
                    .any(|key| old["status"][*key] != new["status"][*key])
            }
            (Self::Count(_), "") => creates,
            _ => false,
        }
    }

    /// The names among those given that this counts.
    pub(super) fn matching(&self, names: &[String]) -> Vec<String> {
        let own = self.count_name();
        let counts = |name: &str| {
            name == own
                || match self {
                    Self::Pods => is_of_pods(name),
                    Self::Services => {
                        matches!(name, "services" | "services.nodeports" | "services.loadbalancers")
                    }
                    Self::VolumeClaims => {
                        let bare = name.split_once(BY_CLASS).map_or(name, |(_, rest)| rest);
                        matches!(bare, "persistentvolumeclaims" | "requests.storage")
                    }
                    Self::DeviceClaims => name.ends_with(DEVICES),
                    Self::Count(resource) => {
                        resource.group.is_empty() && name == resource.resource && is_legacy_count(name)
                    }
                }
        };
        names.iter().filter(|name| counts(name)).cloned().collect()
    }

    fn count_name(&self) -> String {
        let resource = self.resource();
        format!("count/{}", qualified(&resource.group, &resource.resource))
    }

    /// True if a quota limits an object.
    pub(super) fn matches(&self, quota: &Value, object: &Value) -> bool {
        !self.matching(&hard(quota)).is_empty() && self.in_scopes(quota, object)
    }

    /// True if an object is in all scopes of a quota.
    pub(super) fn in_scopes(&self, quota: &Value, object: &Value) -> bool {
        scopes_of(quota).all(|scope| match self {
            Self::Pods => scopes::pod_matches(&scope, object),
            Self::VolumeClaims => scopes::claim_matches(&scope, object),
            _ => false,
        })
    }

    /// Every container has to say how much it wants of what is limited.
    pub(super) fn constraints(&self, restricted: &[String], object: &Value) -> Result<(), String> {
        const NEEDED: [&str; 6] =
            ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
        let spec = &object["spec"];
        let whole = &spec["resources"];
        let for_all = entries(&whole["requests"]).chain(entries(&whole["limits"])).next().is_some();
        if *self != Self::Pods || for_all {
            return Ok(());
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in items(&spec["containers"]).chain(items(&spec["initContainers"])) {
            let resources = &container["resources"];
            let said = of_amounts(&amounts(&resources["requests"]), &amounts(&resources["limits"]));
            for name in restricted.iter().filter(|name| NEEDED.contains(&name.as_str())) {
                if !said.contains_key(name) {
                    missing.entry(name).or_default().insert(text(&container["name"]));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let parts: Vec<String> = missing
            .iter()
            .map(|(name, containers)| {
                let containers: Vec<&str> = containers.iter().copied().collect();
                format!("{name} for: {}", containers.join(","))
            })
            .collect();
        Err(format!("must specify {}", parts.join("; ")))
    }

    /// What an object uses.
    pub(super) fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let mut usage = Amounts::from([(self.count_name(), count(1))]);
        match self {
            Self::Pods if is_over(object, now) => {}
            Self::Pods => {
                let spec = &object["spec"];
                usage.extend(of_amounts(&of_pod(spec, "requests", true), &of_pod(spec, "limits", true)));
            }
            Self::Services => usage.extend(of_service(&object["spec"])),
            Self::VolumeClaims => usage.extend(of_claim(object)),
            Self::DeviceClaims => usage.extend(of_device_claim(&object["spec"])),
            Self::Count(resource) => {
                if resource.group.is_empty() && is_legacy_count(&resource.resource) {
                    usage.insert(resource.resource.clone(), count(1));
                }
            }
        }
        usage
    }
}

/// Resources that quotas count by their bare name.
fn is_legacy_count(name: &str) -> bool {
    matches!(name, "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets")
}

fn is_of_pods(name: &str) -> bool {
    const KNOWN: [&str; 10] = [
        "pods",
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ];
    KNOWN.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || (name.starts_with("requests.") && is_extended(name))
}

/// True for resources that others than Kubernetes define, such as devices.
fn is_extended(name: &str) -> bool {
    (name.contains('/') && !name.contains("kubernetes.io/"))
        || name.starts_with("requests.deviceclass.resource.kubernetes.io/")
}

/// Requests and limits by the names quotas have for them.
fn of_amounts(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), count(1))]);
    for (name, amount) in requests {
        let is_plain = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if is_plain || name.starts_with("hugepages-") {
            usage.insert(name.clone(), amount.clone());
            usage.insert(format!("requests.{name}"), amount.clone());
        } else if is_extended(name) || name.starts_with("deviceclass.resource.kubernetes.io/") {
            usage.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

/// Pods that are done, or should be by now, use nothing.
fn is_over(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(&pod["status"]["phase"]), "Failed" | "Succeeded") {
        return true;
    }
    let metadata = &pod["metadata"];
    let deleted = text(&metadata["deletionTimestamp"]).parse::<Timestamp>().ok();
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    match (deleted, grace) {
        (Some(deleted), Some(grace)) => {
            deleted.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
        }
        _ => false,
    }
}

fn of_service(spec: &Value) -> Amounts {
    let number = |ports: usize| count(i64::try_from(ports).unwrap_or(i64::MAX));
    let ports = items(&spec["ports"]).count();
    let fixed =
        items(&spec["ports"]).filter(|port| port["nodePort"].as_i64().unwrap_or_default() != 0).count();
    let (balancers, node_ports) = match text(&spec["type"]) {
        "NodePort" => (0, ports),
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => (1, fixed),
        "LoadBalancer" => (1, ports),
        _ => (0, 0),
    };
    Amounts::from([
        ("services".to_owned(), count(1)),
        ("services.loadbalancers".to_owned(), number(balancers)),
        ("services.nodeports".to_owned(), number(node_ports)),
    ])
}

fn of_claim(claim: &Value) -> Amounts {
    let annotated = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = annotated.as_str().unwrap_or_else(|| text(&claim["spec"]["storageClassName"]));
    let mut usage = Amounts::new();
    let mut add = |name: &str, amount: Quantity| {
        usage.insert(name.to_owned(), amount.clone());
        if !class.is_empty() {
            usage.insert(format!("{class}{BY_CLASS}{name}"), amount);
        }
    };
    add("persistentvolumeclaims", count(1));
    if let Some(asked) = amount(&claim["spec"]["resources"]["requests"]["storage"]) {
        let allocated = amount(&claim["status"]["allocatedResources"]["storage"]);
        let mut most = allocated.map_or(asked.clone(), |allocated| allocated.max(asked));
        most.round_up(0);
        add("requests.storage", most);
    }
    usage
}

fn of_device_claim(spec: &Value) -> Amounts {
    let devices = |request: &Value| match text(&request["allocationMode"]) {
        "All" => ALL_DEVICES,
        "" | "ExactCount" => request["count"].as_i64().unwrap_or(1),
        _ => 0,
    };
    let mut usage = Amounts::new();
    for request in items(&spec["devices"]["requests"]) {
        // Of alternatives the largest of each class counts.
        let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
        let exactly = request.get("exactly").into_iter();
        for one in items(&request["firstAvailable"]).chain(exactly) {
            let most = wanted.entry(text(&one["deviceClassName"])).or_default();
            *most = devices(one).max(*most);
        }
        for (class, devices) in wanted {
            let name = format!("{class}{DEVICES}");
            let total = usage.get(&name).map_or_else(|| count(devices), |known| sum(known, &count(devices)));
            usage.insert(name, total);
        }
    }
    usage
}
