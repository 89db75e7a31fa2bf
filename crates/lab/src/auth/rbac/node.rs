//! What nodes may do: their own objects, and what the pods they run refer to.

use std::sync::LazyLock;

use serde_json::Value;

use super::rule::{Rule, Target};
use crate::attributes::{Attributes, User};
use crate::auth::bootstrap;
use crate::json::items;
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::selector::FieldSelector;

const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// What every node may do, whichever it is; subdivided below for some resources.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    bootstrap::cluster_role("system:node").map(|role| Rule::read_all(&role)).unwrap_or_default()
});

/// The name of the node a user is, if it is one. It is empty for one that does not say which.
pub(super) fn identity(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    user.groups.iter().any(|group| group == "system:nodes").then_some(name)
}

/// Kinds of objects that belong to a node by way of its pods or volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Related {
    Secret,
    ConfigMap,
    Claim,
    Volume,
    ResourceClaim,
    Account,
    Pod,
    /// Whatever names its node in its own spec.
    Named(&'static str, &'static str),
}

/// Lets a node pass, or says why not; with nothing to say the others decide.
pub(super) fn authorize(
    reader: &dyn Reader,
    node: &str,
    attributes: &Attributes,
    target: Target,
) -> Result<(), String> {
    if node.is_empty() {
        return Err(format!("unknown node for user {:?}", attributes.user.name));
    }
    let request = Request { reader, node, attributes };
    if target == Target::Resource {
        let verb = attributes.verb.as_str();
        match (attributes.group.as_str(), attributes.resource.as_str()) {
            ("", "secrets") => return request.read(Related::Secret),
            ("", "configmaps") => return request.read(Related::ConfigMap),
            ("", "persistentvolumeclaims") if attributes.subresource == "status" => {
                return match verb {
                    "update" | "patch" => request.related(Related::Claim),
                    _ => refuse("can only get/update/patch this type"),
                };
            }
            ("", "persistentvolumeclaims") => return request.get(Related::Claim),
            ("", "persistentvolumes") => return request.get(Related::Volume),
            ("resource.k8s.io", "resourceclaims") => return request.get(Related::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => {
                return request.get(Related::Named("storage.k8s.io", "volumeattachments"));
            }
            ("", "serviceaccounts") => return request.account(),
            ("coordination.k8s.io", "leases") => return request.lease(),
            ("storage.k8s.io", "csinodes") => return request.csi_node(),
            ("resource.k8s.io", "resourceslices") => return request.slice(),
            ("", "nodes") => return request.node(),
            ("", "pods") => return request.pod(),
            ("certificates.k8s.io", "podcertificaterequests") => return request.certificate_request(),
            _ => {}
        }
    }
    if RULES.iter().any(|rule| rule.allows(attributes, target)) { Ok(()) } else { Err(String::new()) }
}

fn refuse(reason: &str) -> Result<(), String> {
    Err(reason.to_owned())
}

struct Request<'a> {
    reader: &'a dyn Reader,
    node: &'a str,
    attributes: &'a Attributes,
}

impl Request<'_> {
    fn get(&self, kind: Related) -> Result<(), String> {
        if self.attributes.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        if !self.attributes.subresource.is_empty() {
            return refuse("cannot get subresource");
        }
        self.related(kind)
    }

    fn read(&self, kind: Related) -> Result<(), String> {
        if !matches!(self.attributes.verb.as_str(), "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        if !self.attributes.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if self.attributes.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.related(kind)
    }

    fn related(&self, kind: Related) -> Result<(), String> {
        let Attributes { name, namespace, .. } = self.attributes;
        if name.is_empty() {
            return refuse("No Object name found");
        }
        if self.belongs(kind, namespace, name) { Ok(()) } else { Err(self.unrelated()) }
    }

    fn unrelated(&self) -> String {
        format!("no relationship found between node '{}' and this object", self.node)
    }

    fn account(&self) -> Result<(), String> {
        let Attributes { verb, name, namespace, subresource, .. } = self.attributes;
        if verb == "get" && subresource.is_empty() {
            return self.read(Related::Account);
        }
        if verb != "create" || name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        if self.belongs(Related::Account, namespace, name) { Ok(()) } else { Err(self.unrelated()) }
    }

    fn lease(&self) -> Result<(), String> {
        let Attributes { verb, name, namespace, .. } = self.attributes;
        if !matches!(verb.as_str(), "get" | "create" | "update" | "patch" | "delete") {
            return refuse("can only get, create, update, patch, or delete a node lease");
        }
        if namespace != "kube-node-lease" {
            return refuse("can only access leases in the \"kube-node-lease\" system namespace");
        }
        if verb != "create" && name != self.node {
            return refuse("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn csi_node(&self) -> Result<(), String> {
        let Attributes { verb, name, subresource, .. } = self.attributes;
        match subresource.as_str() {
            "" if !matches!(verb.as_str(), "get" | "create" | "update" | "patch" | "delete") => {
                refuse("can only get, create, update, patch, or delete a CSINode")
            }
            "" if verb != "create" && name != self.node => {
                refuse("can only access CSINode with the same name as the requesting node")
            }
            "" => Ok(()),
            "status" => refuse("CSINode status access requires CSIVolumeHealth feature"),
            _ => refuse("cannot authorize CSINode subresources"),
        }
    }

    fn slice(&self) -> Result<(), String> {
        if !self.attributes.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match self.attributes.verb.as_str() {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(Related::Named("resource.k8s.io", "resourceslices"))
            }
            "watch" | "list" | "deletecollection" if self.selects("spec.nodeName") => Ok(()),
            "watch" | "list" | "deletecollection" => {
                refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, \
                 patch, delete, deletecollection",
            ),
        }
    }

    fn certificate_request(&self) -> Result<(), String> {
        if !self.attributes.subresource.is_empty() {
            return refuse("nodes may not access the status subresource of PodCertificateRequests");
        }
        match self.attributes.verb.as_str() {
            "create" => Ok(()),
            "get" => self.related(Related::Named("certificates.k8s.io", "podcertificaterequests")),
            "list" | "watch" if self.selects("spec.nodeName") => Ok(()),
            "list" | "watch" => {
                refuse("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn node(&self) -> Result<(), String> {
        let Attributes { verb, name, subresource, .. } = self.attributes;
        match (subresource.as_str(), verb.as_str()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == self.node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{}' cannot read all nodes, only its own Node object", self.node))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{}' cannot read '{name}', only its own Node object", self.node))
            }
            _ => Err(String::new()),
        }
    }

    fn pod(&self) -> Result<(), String> {
        let Attributes { verb, name, subresource, .. } = self.attributes;
        match (subresource.as_str(), verb.as_str()) {
            ("", "get") => self.get(Related::Pod),
            ("", "list" | "watch") if self.selects("spec.nodeName") => Ok(()),
            ("", "list" | "watch") if !name.is_empty() => self.related(Related::Pod),
            ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }

    /// True when the request is only about objects whose field names this node.
    fn selects(&self, field: &str) -> bool {
        FieldSelector::parse(&self.attributes.field_selector).is_ok_and(|selector| {
            selector.terms.iter().any(|(name, value, equal)| *equal && name == field && value == self.node)
        })
    }

    /// True when the object belongs to this node.
    fn belongs(&self, kind: Related, namespace: &str, name: &str) -> bool {
        match kind {
            Related::Pod => self
                .reader
                .get(&GroupResource::new("", "pods"), namespace, name)
                .is_some_and(|pod| pod["spec"]["nodeName"] == self.node),
            Related::Named(group, resource) => self
                .reader
                .get(&GroupResource::new(group, resource), namespace, name)
                .is_some_and(|object| object["spec"]["nodeName"] == self.node),
            Related::Volume => self
                .reader
                .get(&GroupResource::new("", "persistentvolumes"), "", name)
                .is_some_and(|volume| self.has_claim_of(&volume)),
            Related::Secret => {
                self.runs(namespace, |pod| pod_secrets(pod).contains(&name))
                    || self.volumes_need(namespace, name)
            }
            Related::ConfigMap => self.runs(namespace, |pod| pod_config_maps(pod).contains(&name)),
            Related::Claim => self.runs(namespace, |pod| pod_claims(pod).iter().any(|claim| claim == name)),
            Related::ResourceClaim => self.runs(namespace, |pod| pod_resource_claims(pod).contains(&name)),
            Related::Account => self.runs(namespace, |pod| pod["spec"]["serviceAccountName"] == name),
        }
    }

    /// True when a pod of the namespace runs on this node and is like that. Mirror pods give no rights: nodes
    /// create them by themselves.
    fn runs(&self, namespace: &str, like: impl Fn(&Value) -> bool) -> bool {
        self.reader.list(&GroupResource::new("", "pods"), Some(namespace)).iter().any(|pod| {
            pod["spec"]["nodeName"] == self.node
                && pod["metadata"]["annotations"].get(MIRROR_POD).is_none()
                && like(pod)
        })
    }

    fn has_claim_of(&self, volume: &Value) -> bool {
        let claim = &volume["spec"]["claimRef"];
        let (Some(namespace), Some(name)) = (claim["namespace"].as_str(), claim["name"].as_str()) else {
            return false;
        };
        self.belongs(Related::Claim, namespace, name)
    }

    /// True when a volume of this node needs the secret to be mounted.
    fn volumes_need(&self, namespace: &str, name: &str) -> bool {
        self.reader
            .list(&GroupResource::new("", "persistentvolumes"), None)
            .iter()
            .any(|volume| volume_secrets(volume).contains(&(namespace, name)) && self.has_claim_of(volume))
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| items(&pod["spec"][list]))
}

fn pod_secrets(pod: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    names.extend(items(&pod["spec"]["imagePullSecrets"]).map(|one| &one["name"]));
    for container in containers(pod) {
        names.extend(items(&container["envFrom"]).map(|one| &one["secretRef"]["name"]));
        names.extend(items(&container["env"]).map(|one| &one["valueFrom"]["secretKeyRef"]["name"]));
    }
    for volume in items(&pod["spec"]["volumes"]) {
        names.push(&volume["azureFile"]["secretName"]);
        names.push(&volume["secret"]["secretName"]);
        names.push(&volume["csi"]["nodePublishSecretRef"]["name"]);
        names.extend(items(&volume["projected"]["sources"]).map(|one| &one["secret"]["name"]));
        for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
            names.push(&volume[source]["secretRef"]["name"]);
        }
    }
    names.into_iter().filter_map(Value::as_str).collect()
}

fn pod_config_maps(pod: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    for container in containers(pod) {
        names.extend(items(&container["envFrom"]).map(|one| &one["configMapRef"]["name"]));
        names.extend(items(&container["env"]).map(|one| &one["valueFrom"]["configMapKeyRef"]["name"]));
    }
    for volume in items(&pod["spec"]["volumes"]) {
        names.push(&volume["configMap"]["name"]);
        names.extend(items(&volume["projected"]["sources"]).map(|one| &one["configMap"]["name"]));
    }
    names.into_iter().filter_map(Value::as_str).collect()
}

fn pod_claims(pod: &Value) -> Vec<String> {
    let own = pod["metadata"]["name"].as_str().unwrap_or_default();
    let claim = |volume: &Value| {
        if volume["ephemeral"].is_object() {
            return volume["name"].as_str().map(|name| format!("{own}-{name}"));
        }
        volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)
    };
    items(&pod["spec"]["volumes"]).filter_map(claim).collect()
}

fn pod_resource_claims(pod: &Value) -> Vec<&str> {
    let named = items(&pod["spec"]["resourceClaims"]).map(|one| &one["resourceClaimName"]);
    let made = items(&pod["status"]["resourceClaimStatuses"]).map(|one| &one["resourceClaimName"]);
    let extended = &pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"];
    named.chain(made).chain([extended]).filter_map(Value::as_str).collect()
}

/// The secrets a kubelet needs to mount a volume, each with its namespace.
fn volume_secrets(volume: &Value) -> Vec<(&str, &str)> {
    let spec = &volume["spec"];
    let mut references = vec![(&spec["azureFile"]["secretNamespace"], &spec["azureFile"]["secretName"])];
    for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
        let reference = &spec[source]["secretRef"];
        references.push((&reference["namespace"], &reference["name"]));
    }
    for kind in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        let reference = &spec["csi"][kind];
        references.push((&reference["namespace"], &reference["name"]));
    }
    // Without a namespace of its own a secret is in the one of the claim.
    let claim = spec["claimRef"]["namespace"].as_str().unwrap_or_default();
    references
        .into_iter()
        .filter_map(|(namespace, name)| {
            let namespace = namespace.as_str().filter(|text| !text.is_empty()).unwrap_or(claim);
            Some((namespace, name.as_str()?))
        })
        .collect()
}
