//! The network plugin a tenant is given: the manifests somebody provided, checked and adapted.
//!
//! They are not part of Trellis. Whoever runs it puts those of the version they trust into a ConfigMap, with their
//! SHA-256. What is adapted is what would clash with the infra cluster otherwise: the range of pods, the kind of
//! encapsulation, and its port. Plugins find the MTU themselves from the machine's interface, which has the infra
//! cluster's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use ipnet::IpNet;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trellis_model::network::NetworkPlugin;
use trellis_runtime::Resource;

/// The key of the ConfigMap with the SHA-256 of all manifests, one after the other by the names of their keys.
pub const SUM: &str = "sha256";

/// The port tenants encapsulate with: none of those that network plugins of infra clusters use by themselves
/// (4789 Calico and OpenShift SDN, 8472 Flannel and Cilium, 6081 OVN).
pub const ENCAPSULATION_PORT: u16 = 4799;

/// Why manifests cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// There is no plugin of that name to give.
    #[error(
        "the network plugin {0} is not one Trellis gives to a tenant: take calico, cilium, flannel or none"
    )]
    NotGiven(String),
    /// There is nothing in the ConfigMap.
    #[error("the ConfigMap has no manifests: put them under a key that ends in .yaml")]
    Empty,
    /// There is no sum, or it is another one.
    #[error("the manifests have the SHA-256 {found}, and the key {SUM} says {said}")]
    Sum {
        /// What it is.
        found: String,
        /// What the ConfigMap says.
        said: String,
    },
    /// One of them cannot be read.
    #[error("{0} cannot be read as YAML: {1}")]
    Unreadable(String, String),
    /// There is an object of a kind that no network plugin needs.
    #[error("there is an object {1} of the kind {0}, which is not applied to tenants")]
    Kind(String, String),
    /// What has to be adapted is not there.
    #[error("the manifests are not those of {plugin}: they have no {missing}")]
    NotIts {
        /// The plugin.
        plugin: &'static str,
        /// What was looked for.
        missing: &'static str,
    },
}

/// The kinds that are applied, those that others need first.
const KINDS: [Resource; 15] = [
    Resource::cluster("", "v1", "namespaces", "Namespace"),
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount"),
    Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
    Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"),
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Resource::namespaced("", "v1", "configmaps", "ConfigMap"),
    Resource::namespaced("", "v1", "secrets", "Secret"),
    Resource::namespaced("", "v1", "services", "Service"),
    Resource::cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"),
    Resource::cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass"),
    Resource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet"),
    Resource::namespaced("apps", "v1", "deployments", "Deployment"),
];

/// The name of a plugin, as a cluster names it; nothing for one that is not given to tenants.
pub fn name_of(plugin: NetworkPlugin) -> Option<&'static str> {
    match plugin {
        NetworkPlugin::Calico => Some("calico"),
        NetworkPlugin::Cilium => Some("cilium"),
        NetworkPlugin::Flannel => Some("flannel"),
        NetworkPlugin::OvnKubernetes | NetworkPlugin::OpenshiftSdn | NetworkPlugin::None => None,
    }
}

/// The ConfigMap with the manifests of a plugin, beside the TenantCluster.
pub fn config_map(plugin: &str) -> String {
    format!("trellis-network-{plugin}")
}

/// What a tenant is given, in the order in which it is applied.
pub fn given(
    plugin: NetworkPlugin,
    data: &BTreeMap<String, String>,
    pods: &[IpNet],
) -> Result<Vec<(Resource, Value)>, PluginError> {
    let mut objects = read(data)?;
    adapt(plugin, &mut objects, pods)?;
    let mut known = Vec::new();
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let place = KINDS.iter().position(|one| one.kind == kind && api_version(one) == version);
        let unknown = || PluginError::Kind(format!("{version}/{kind}"), name(&object).to_owned());
        let place = place.ok_or_else(unknown)?;
        known.push((place, object));
    }
    known.sort_by_key(|(place, _)| *place);
    Ok(known.into_iter().filter_map(|(place, object)| Some((*KINDS.get(place)?, object))).collect())
}

fn api_version(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.version.to_owned()
    } else {
        format!("{}/{}", resource.group, resource.version)
    }
}

/// The objects in a ConfigMap, if they are those its sum was made of.
fn read(data: &BTreeMap<String, String>) -> Result<Vec<Value>, PluginError> {
    let is_yaml = |key: &str| Path::new(key).extension().is_some_and(|end| end == "yaml" || end == "yml");
    let manifests = || data.iter().filter(|(key, _)| is_yaml(key));
    if manifests().next().is_none() {
        return Err(PluginError::Empty);
    }
    let mut sum = Sha256::new();
    for (_, text) in manifests() {
        sum.update(text.as_bytes());
    }
    let found = hexadecimal(&sum.finalize());
    let said = data.get(SUM).map_or("nothing", |said| said.trim());
    if !found.eq_ignore_ascii_case(said) {
        return Err(PluginError::Sum { found, said: said.to_owned() });
    }
    let mut objects = Vec::new();
    for (key, text) in manifests() {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| PluginError::Unreadable(key.clone(), error.to_string()))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            match document["items"].as_array() {
                Some(items) if document["kind"] == "List" => objects.extend(items.iter().cloned()),
                _ => objects.push(document),
            }
        }
    }
    Ok(objects)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a text never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn find<'o>(objects: &'o mut [Value], kind: &str, wanted: &str) -> Option<&'o mut Value> {
    objects.iter_mut().find(|object| object["kind"] == kind && name(object) == wanted)
}

/// Sets what must not clash with the infra cluster.
fn adapt(plugin: NetworkPlugin, objects: &mut [Value], pods: &[IpNet]) -> Result<(), PluginError> {
    let v4 = pods.iter().find(|range| matches!(range, IpNet::V4(_))).map(ToString::to_string);
    let v6 = pods.iter().find(|range| matches!(range, IpNet::V6(_))).map(ToString::to_string);
    match plugin {
        NetworkPlugin::Calico => calico(objects, v4, v6),
        NetworkPlugin::Cilium => cilium(objects, v4, v6),
        NetworkPlugin::Flannel => flannel(objects, v4, v6),
        other => Err(PluginError::NotGiven(format!("{other:?}"))),
    }
}

/// Behind masquerade only what is TCP or UDP gets through: VXLAN does, IP in IP does not.
fn calico(objects: &mut [Value], v4: Option<String>, v6: Option<String>) -> Result<(), PluginError> {
    let lacks = |missing| PluginError::NotIts { plugin: "calico", missing };
    let config = find(objects, "ConfigMap", "calico-config").ok_or(lacks("ConfigMap calico-config"))?;
    config["data"]["calico_backend"] = "vxlan".into();
    let node = find(objects, "DaemonSet", "calico-node").ok_or(lacks("DaemonSet calico-node"))?;
    let containers = node.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    let container = containers.into_iter().flatten().find(|one| one["name"] == "calico-node");
    let container = container.ok_or(lacks("container calico-node"))?;
    let settings = [
        ("CALICO_IPV4POOL_CIDR", v4),
        ("CALICO_IPV6POOL_CIDR", v6),
        ("CALICO_IPV4POOL_IPIP", Some("Never".to_owned())),
        ("CALICO_IPV4POOL_VXLAN", Some("Always".to_owned())),
        ("CALICO_IPV6POOL_VXLAN", Some("Always".to_owned())),
        ("FELIX_VXLANPORT", Some(ENCAPSULATION_PORT.to_string())),
    ];
    let mut all = container["env"].as_array().cloned().unwrap_or_default();
    for (name, value) in settings {
        all.retain(|one| one["name"] != name);
        all.extend(value.map(|value| json!({"name": name, "value": value})));
    }
    container["env"] = all.into();
    Ok(())
}

fn cilium(objects: &mut [Value], v4: Option<String>, v6: Option<String>) -> Result<(), PluginError> {
    let missing = "ConfigMap cilium-config";
    let config = find(objects, "ConfigMap", "cilium-config");
    let config = config.ok_or(PluginError::NotIts { plugin: "cilium", missing })?;
    let data = &mut config["data"];
    data["routing-mode"] = "tunnel".into();
    data["tunnel-protocol"] = "vxlan".into();
    data["tunnel-port"] = ENCAPSULATION_PORT.to_string().into();
    for (family, range) in [("ipv4", v4), ("ipv6", v6)] {
        data[format!("enable-{family}")] = range.is_some().to_string().into();
        if let Some(range) = range {
            data[format!("cluster-pool-{family}-cidr")] = range.into();
        }
    }
    Ok(())
}

fn flannel(objects: &mut [Value], v4: Option<String>, v6: Option<String>) -> Result<(), PluginError> {
    let lacks = |missing| PluginError::NotIts { plugin: "flannel", missing };
    let config = find(objects, "ConfigMap", "kube-flannel-cfg").ok_or(lacks("ConfigMap kube-flannel-cfg"))?;
    let mut settings: Value = config["data"]["net-conf.json"]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .ok_or(lacks("net-conf.json that can be read"))?;
    settings["EnableIPv4"] = v4.is_some().into();
    settings["EnableIPv6"] = v6.is_some().into();
    if let Some(range) = v4 {
        settings["Network"] = range.into();
    }
    if let Some(range) = v6 {
        settings["IPv6Network"] = range.into();
    }
    settings["Backend"] = json!({"Type": "vxlan", "Port": ENCAPSULATION_PORT});
    config["data"]["net-conf.json"] = settings.to_string().into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> BTreeMap<String, String> {
        let sum = hexadecimal(&Sha256::digest(text)).to_uppercase();
        [("manifests.yaml".to_owned(), text.to_owned()), (SUM.to_owned(), format!("{sum}\n"))].into()
    }

    fn pods() -> Vec<IpNet> {
        vec!["10.200.0.0/16".parse().unwrap(), "fd00:1::/56".parse().unwrap()]
    }

    fn one(given: &[(Resource, Value)], kind: &str) -> Value {
        given.iter().find(|(_, object)| object["kind"] == kind).unwrap().1.clone()
    }

    const FLANNEL: &str = "kind: DaemonSet\napiVersion: apps/v1\nmetadata: {name: ds, namespace: kube-flannel}\n---\n\
                           ---\napiVersion: v1\nkind: List\nitems:\n\
                           - {apiVersion: v1, kind: ConfigMap, metadata: {name: kube-flannel-cfg}, data: {net-conf.json: \
                           '{\"Network\": \"10.244.0.0/16\", \"Backend\": {\"Type\": \"host-gw\"}, \"kept\": 1}'}}\n\
                           - {apiVersion: v1, kind: Namespace, metadata: {name: kube-flannel}}\n";

    #[test]
    fn what_others_need_comes_first_and_ranges_are_the_tenants() {
        let given = given(NetworkPlugin::Flannel, &data(FLANNEL), &pods()).unwrap();
        let kinds: Vec<&str> = given.iter().map(|(resource, _)| resource.kind).collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "DaemonSet"]);
        let config = one(&given, "ConfigMap");
        let settings: Value =
            serde_json::from_str(config["data"]["net-conf.json"].as_str().unwrap()).unwrap();
        assert_eq!((&settings["Network"], &settings["kept"]), (&json!("10.200.0.0/16"), &json!(1)));
        assert_eq!(
            (&settings["IPv6Network"], &settings["EnableIPv6"]),
            (&json!("fd00:1::/56"), &json!(true))
        );
        assert_eq!(settings["Backend"], json!({"Type": "vxlan", "Port": ENCAPSULATION_PORT}));
    }

    #[test]
    fn calico_and_cilium_are_told_the_same_in_their_words() {
        let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: calico-config}, data: {calico_backend: bird}}\n---\n\
                    {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: calico-node}, spec: {template: {spec: {containers: \
                    [{name: calico-node, env: [{name: CALICO_IPV4POOL_IPIP, value: Always}, {name: OTHER, value: x}]}]}}}}\n";
        let calico = given(NetworkPlugin::Calico, &data(text), &pods()[..1]).unwrap();
        let node = one(&calico, "DaemonSet");
        let env = node["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
        let value = |name: &str| env.iter().find(|one| one["name"] == name).map(|one| one["value"].clone());
        assert_eq!(value("CALICO_IPV4POOL_CIDR"), Some(json!("10.200.0.0/16")));
        assert_eq!((value("CALICO_IPV4POOL_IPIP"), value("OTHER")), (Some(json!("Never")), Some(json!("x"))));
        assert_eq!((value("FELIX_VXLANPORT"), value("CALICO_IPV6POOL_CIDR")), (Some(json!("4799")), None));
        assert_eq!(one(&calico, "ConfigMap")["data"]["calico_backend"], "vxlan");
        let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: cilium-config}, data: {enable-ipv6: 'true'}}\n";
        let cilium = given(NetworkPlugin::Cilium, &data(text), &pods()[..1]).unwrap();
        let settings = &one(&cilium, "ConfigMap")["data"];
        assert_eq!(
            (&settings["cluster-pool-ipv4-cidr"], &settings["enable-ipv6"]),
            (&json!("10.200.0.0/16"), &json!("false"))
        );
    }

    #[test]
    fn other_manifests_than_those_that_were_summed_up_are_refused() {
        let refused =
            |data: &BTreeMap<String, String>| given(NetworkPlugin::Flannel, data, &pods()).unwrap_err();
        let mut altered = data(FLANNEL);
        altered.insert("more.yaml".to_owned(), "kind: ClusterRole".to_owned());
        assert!(matches!(refused(&altered), PluginError::Sum { .. }));
        let mut unsummed = data(FLANNEL);
        unsummed.remove(SUM);
        assert!(refused(&unsummed).to_string().ends_with("says nothing"));
        assert_eq!(refused(&BTreeMap::new()), PluginError::Empty);
        assert!(matches!(refused(&data("a: [")), PluginError::Unreadable(..)));
        let lacks = refused(&data("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")).to_string();
        assert_eq!(lacks, "the manifests are not those of flannel: they have no ConfigMap kube-flannel-cfg");
        let job = format!("{FLANNEL}---\n{{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}}}\n");
        assert_eq!(refused(&data(&job)), PluginError::Kind("batch/v1/Job".to_owned(), "j".to_owned()));
        let other = given(NetworkPlugin::OvnKubernetes, &data(FLANNEL), &pods()).unwrap_err();
        assert!(matches!(other, PluginError::NotGiven(_)));
    }
}
