//! Asking the infra cluster. Everything is asked at once: a person waits.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Value, json};
use trellis_model::image::ImageSource;
use trellis_model::network::Cidr;
use trellis_model::quantity::{Bytes, MilliCpu};
use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Pool};
use trellis_runtime::client::{self, Request, Selection, Verb};
use trellis_runtime::{Key, Resource, Site};

use super::facts::{
    Asked, Attachment, Class, Facts, Ground, Host, Installation, Profile, Quota, Right, Taken,
};
use super::image::{ImageFacts, probe};
use super::{network, rights};

const NAMESPACE: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const SERVICE: Resource = Resource::namespaced("", "v1", "services", "Service");
const QUOTA: Resource = Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota");
const KUBEVIRT: Resource = Resource::namespaced("kubevirt.io", "v1", "kubevirts", "KubeVirt");
const INSTANCE: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance");
const CDI: Resource = Resource::cluster("cdi.kubevirt.io", "v1beta1", "cdis", "CDI");
const PROFILE: Resource =
    Resource::cluster("cdi.kubevirt.io", "v1beta1", "storageprofiles", "StorageProfile");
const CLASS: Resource = Resource::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass");
const SERVICE_RANGE: Resource = Resource::cluster("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR");
const ATTACHMENT: Resource = Resource::namespaced(
    "k8s.cni.cncf.io",
    "v1",
    "network-attachment-definitions",
    "NetworkAttachmentDefinition",
);
const WHO: Resource =
    Resource::cluster("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview");

/// Asks what can be known of an infra cluster before anything of a cluster is decided.
pub async fn ground(infra: &Site) -> Ground {
    let everywhere = Selection::default();
    let server = Asked::of(infra.version().await);
    let (classes, profiles, nodes, ranges) = tokio::join!(
        infra.list::<Value>(&CLASS, &everywhere),
        infra.list::<Value>(&PROFILE, &everywhere),
        infra.list::<Value>(&NODE, &everywhere),
        infra.list::<Value>(&SERVICE_RANGE, &everywhere),
    );
    Ground {
        server,
        classes: Asked::of(classes).map(|classes| classes_of(&classes, &Asked::of(profiles))),
        hosts: Asked::of(nodes).map(|nodes| hosts_of(&nodes, None)),
        service_ranges: Asked::of(ranges).map(|ranges| ranges_of(&ranges)),
    }
}

fn ranges_of(ranges: &[Value]) -> Vec<Cidr> {
    ranges.iter().flat_map(|range| list(range, "/spec/cidrs")).filter_map(cidr).collect()
}

/// Asks everything that [`judge`](super::judge) wants to know.
pub async fn gather(infra: &Site, cluster: &Cluster, pools: &[&Pool]) -> Facts {
    let namespace = cluster.infra_namespace();
    let server = Asked::of(infra.version().await);
    let everywhere = Selection::default();
    let here = Selection::namespace(namespace);
    let namespace_key = Key::cluster(namespace);
    let nothing = json!({});
    let kept = Facts {
        user: Asked::NotAllowed,
        namespace: Asked::NotAllowed,
        rights: Vec::new(),
        groups: Asked::NotAllowed,
        kubevirt: Asked::NotAllowed,
        cdi: Asked::NotAllowed,
        classes: Asked::NotAllowed,
        attachments: BTreeMap::new(),
        hosts: Asked::NotAllowed,
        service_ranges: Asked::NotAllowed,
        taken: Asked::NotAllowed,
        quotas: Asked::NotAllowed,
        images: BTreeMap::new(),
        server,
    };
    if kept.server.known().is_none() {
        return kept;
    }
    let (user, found, groups, kubevirt, cdi) = tokio::join!(
        infra.review(&WHO, "", &nothing),
        infra.get::<Value>(&NAMESPACE, &namespace_key),
        infra.groups(),
        infra.list::<Value>(&KUBEVIRT, &everywhere),
        infra.list::<Value>(&CDI, &everywhere),
    );
    let (classes, profiles, nodes, pods, ranges, quotas) = tokio::join!(
        infra.list::<Value>(&CLASS, &everywhere),
        infra.list::<Value>(&PROFILE, &everywhere),
        infra.list::<Value>(&NODE, &everywhere),
        infra.list::<Value>(&POD, &everywhere),
        infra.list::<Value>(&SERVICE_RANGE, &everywhere),
        infra.list::<Value>(&QUOTA, &here),
    );
    Facts {
        user: Asked::of(user).map(|status| text(&status, "/userInfo/username")),
        namespace: Asked::of(found).map(|found| text(&found, "/status/phase") != "Terminating"),
        rights: rights_of(infra, namespace).await,
        groups: Asked::of(groups).map(BTreeSet::from_iter),
        kubevirt: first(kubevirt).map(|found| installation(&found, "/status/observedKubeVirtVersion")),
        cdi: first(cdi).map(|found| installation(&found, "/status/observedVersion")),
        classes: Asked::of(classes).map(|classes| classes_of(&classes, &Asked::of(profiles))),
        attachments: attachments_of(infra, cluster, pools).await,
        hosts: Asked::of(nodes).map(|nodes| hosts_of(&nodes, Asked::of(pods).known())),
        service_ranges: Asked::of(ranges).map(|ranges| ranges_of(&ranges)),
        taken: taken_in(infra, &here).await,
        quotas: Asked::of(quotas).map(|quotas| quotas.iter().map(quota_of).collect()),
        images: images_of(cluster, pools).await,
        ..kept
    }
}

async fn rights_of(infra: &Site, namespace: &str) -> super::Rights {
    let make = Right { request: Request::new(Verb::Create, &NAMESPACE, ""), needed: false };
    let asked = rights::needed().into_iter().map(|right| (right, namespace)).chain([(make, "")]);
    let answers =
        asked.map(|(right, place)| async move { (right, Asked::of(infra.may(&right.request, place).await)) });
    join_all(answers).await
}

async fn attachments_of(
    infra: &Site,
    cluster: &Cluster,
    pools: &[&Pool],
) -> BTreeMap<(String, String), Asked<Attachment>> {
    let wanted = network::attached(cluster, pools).into_iter().map(|(namespace, name)| async move {
        let found = infra.get::<Value>(&ATTACHMENT, &Key::new(&namespace, &name)).await;
        ((namespace, name), Asked::of(found).map(|found| attachment(&found)))
    });
    join_all(wanted).await.into_iter().collect()
}

async fn images_of(cluster: &Cluster, pools: &[&Pool]) -> BTreeMap<String, ImageFacts> {
    let urls: BTreeSet<String> = pools
        .iter()
        .filter_map(|pool| match resolve(cluster, pool).template.image.source {
            Some(ImageSource::Http(image)) => Some(image.url),
            Some(ImageSource::Registry(image)) => Some(image.url),
            _ => None,
        })
        .collect();
    let asked = urls.into_iter().map(|url| async move {
        let found = probe(&url).await;
        (url, found)
    });
    join_all(asked).await.into_iter().collect()
}

/// Addresses of Services and machines of the namespace.
async fn taken_in(infra: &Site, here: &Selection) -> Asked<Vec<Taken>> {
    let (services, instances) =
        tokio::join!(infra.list::<Value>(&SERVICE, here), infra.list::<Value>(&INSTANCE, here));
    let both = services.and_then(|services| instances.map(|instances| (services, instances)));
    Asked::of(both).map(|(services, instances)| {
        let of = |kind: &str, object: &Value, addresses: Vec<&str>| -> Vec<Taken> {
            let by = format!("the {kind} {}", text(object, "/metadata/name"));
            let taken = addresses.into_iter().filter_map(|address| address.parse().ok());
            taken.map(|address| Taken { address, by: by.clone() }).collect()
        };
        let services = services.iter().flat_map(|service| {
            let mut all = list(service, "/spec/clusterIPs");
            all.extend(list(service, "/status/loadBalancer/ingress").iter().map(|one| &one["ip"]));
            of("Service", service, all.into_iter().filter_map(Value::as_str).collect())
        });
        let instances = instances.iter().flat_map(|instance| {
            let all = list(instance, "/status/interfaces");
            let all = all.into_iter().flat_map(|interface| list(interface, "/ipAddresses"));
            of("machine", instance, all.filter_map(Value::as_str).collect())
        });
        services.chain(instances).collect()
    })
}

fn first(found: client::Result<Vec<Value>>) -> Asked<Value> {
    match Asked::of(found) {
        Asked::Known(all) => all.into_iter().next().map_or(Asked::Absent, Asked::Known),
        Asked::Absent => Asked::Absent,
        Asked::NotAllowed => Asked::NotAllowed,
        Asked::Failed(why) => Asked::Failed(why),
    }
}

fn installation(found: &Value, version: &str) -> Installation {
    let gates = |name: &str| {
        let all = list(found, &format!("/spec/configuration/developerConfiguration/{name}"));
        all.into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Installation {
        version: text(found, version),
        phase: text(found, "/status/phase"),
        enabled_gates: gates("featureGates"),
        disabled_gates: gates("disabledFeatureGates"),
    }
}

fn classes_of(classes: &[Value], profiles: &Asked<Vec<Value>>) -> Vec<Class> {
    let class = |class: &Value| {
        let name = text(class, "/metadata/name");
        let is = |key: &str| class["metadata"]["annotations"][key] == "true";
        let profile = match profiles {
            Asked::Known(all) => all
                .iter()
                .find(|profile| profile["metadata"]["name"] == *name)
                .map_or(Asked::Absent, |found| Asked::Known(profile(found))),
            Asked::Absent => Asked::Absent,
            Asked::NotAllowed => Asked::NotAllowed,
            Asked::Failed(why) => Asked::Failed(why.clone()),
        };
        Class {
            default: is("storageclass.kubernetes.io/is-default-class"),
            default_for_machines: is("storageclass.kubevirt.io/is-default-virt-class"),
            waits_for_consumer: class["volumeBindingMode"] == "WaitForFirstConsumer",
            grows: class["allowVolumeExpansion"] == true,
            name,
            profile,
        }
    };
    classes.iter().map(class).collect()
}

fn profile(found: &Value) -> Profile {
    let modes = list(found, "/status/claimPropertySets").into_iter().flat_map(|set| {
        let volume = set["volumeMode"].as_str().unwrap_or("Filesystem").to_owned();
        let access = list(set, "/accessModes").into_iter().filter_map(Value::as_str);
        access.map(|access| (access.to_owned(), volume.clone())).collect::<Vec<_>>()
    });
    Profile { modes: modes.collect(), clones: text(found, "/status/cloneStrategy") }
}

/// What a network says of itself: the configuration is JSON in a text, of one plugin or of several in a row.
fn attachment(found: &Value) -> Attachment {
    let config: Value = serde_json::from_str(&text(found, "/spec/config")).unwrap_or_default();
    let plugin = list(&config, "/plugins").into_iter().next().unwrap_or(&config);
    let range = [&plugin["ipam"]["range"], &plugin["ipam"]["subnet"]].into_iter().find_map(cidr);
    Attachment { plugin: text(plugin, "/type"), mtu: plugin["mtu"].as_u64(), range }
}

fn hosts_of(nodes: &[Value], pods: Option<&Vec<Value>>) -> Vec<Host> {
    let requested = pods.map(|pods| requested_on(pods));
    let host = |node: &Value| {
        let name = text(node, "/metadata/name");
        let labels = &node["metadata"]["labels"];
        let ready = list(node, "/status/conditions")
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let usable = ready
            && node["spec"]["unschedulable"] != true
            // Where nothing says so, KubeVirt has not looked at the host yet.
            && labels["kubevirt.io/schedulable"].as_str().is_none_or(|value| value == "true");
        let amount = &node["status"]["allocatable"];
        Host {
            zone: labels["topology.kubernetes.io/zone"].as_str().map(str::to_owned),
            usable,
            allocatable: (millicores(&amount["cpu"]), bytes(&amount["memory"])),
            requested: requested.as_ref().map(|all| all.get(&name).copied().unwrap_or_default()),
            pods: list(node, "/spec/podCIDRs").into_iter().filter_map(cidr).collect(),
            name,
        }
    };
    nodes.iter().map(host).collect()
}

/// What pods that have not ended ask for, by the host they are on.
fn requested_on(pods: &[Value]) -> BTreeMap<String, (u64, u64)> {
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for pod in pods {
        let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let host = text(pod, "/spec/nodeName");
        if over || host.is_empty() {
            continue;
        }
        let sum = all.entry(host).or_default();
        for container in list(pod, "/spec/containers") {
            let requests = &container["resources"]["requests"];
            sum.0 += millicores(&requests["cpu"]);
            sum.1 += bytes(&requests["memory"]);
        }
    }
    all
}

fn quota_of(quota: &Value) -> Quota {
    let amounts = |place: &str| quota.pointer(place).and_then(Value::as_object).cloned().unwrap_or_default();
    let used = amounts("/status/used");
    let limits = amounts("/status/hard").into_iter().map(|(what, hard)| {
        let used = used.get(&what).map(thousandths).unwrap_or_default();
        (what, (thousandths(&hard), used))
    });
    Quota { name: text(quota, "/metadata/name"), limits: limits.collect() }
}

/// An amount in thousandths: sizes are whole, processors and counts may be written with an `m`.
fn thousandths(amount: &Value) -> u128 {
    let text = amount.as_str().unwrap_or_default();
    let milli = text.parse::<MilliCpu>().map(|amount| u128::from(amount.get()));
    milli.or_else(|_| text.parse::<Bytes>().map(|size| u128::from(size.get()) * 1000)).unwrap_or_default()
}

fn millicores(amount: &Value) -> u64 {
    amount.as_str().and_then(|text| text.parse::<MilliCpu>().ok()).map_or(0, MilliCpu::get)
}

fn bytes(amount: &Value) -> u64 {
    amount.as_str().and_then(|text| text.parse::<Bytes>().ok()).map_or(0, Bytes::get)
}

fn text(value: &Value, place: &str) -> String {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, place: &str) -> Vec<&'a Value> {
    value.pointer(place).and_then(Value::as_array).map(|all| all.iter().collect()).unwrap_or_default()
}

fn cidr(value: &Value) -> Option<Cidr> {
    value.as_str()?.parse().ok()
}
