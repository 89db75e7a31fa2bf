//! Definitions of the machine kinds of Kubermatic and OpenShift, for clusters that do not have them.
//!
//! Where the kinds are installed already, theirs stay. These accept what theirs accept, so that objects can be taken
//! over and handed back: what only a provider or another controller understands is kept as it is.

use serde_json::{Value, json};

use crate::{kkp, openshift};

/// The definitions, as JSON.
pub fn machine_crds() -> Vec<Value> {
    let mut crds = Vec::new();
    for family in [&KKP, &OPENSHIFT] {
        if family.deployments {
            crds.push(family.definition(&DEPLOYMENT, &deployment_spec(), &set_status(), true));
        }
        crds.push(family.definition(&SET, &set_spec(), &set_status(), true));
        // The machine-controller writes statuses of Machines with the object: beside a status subresource they
        // would be dropped, and machines could not be handed back.
        crds.push(family.definition(&MACHINE, &machine_spec(), &machine_status(), !family.deployments));
        crds.push(family.definition(&HEALTH_CHECK, &health_check_spec(), &health_check_status(), true));
    }
    crds
}

/// What the definitions of one API group have in common.
struct Group {
    api_version: &'static str,
    /// It has deployments, and keeps to the machine-controller's ways.
    deployments: bool,
    /// Where the printed platform and system are found below a machine's spec.
    columns: &'static [(&'static str, &'static str)],
}

const KKP: Group = Group {
    api_version: kkp::API_VERSION,
    deployments: true,
    columns: &[
        ("Provider", ".providerSpec.value.cloudProvider"),
        ("OS", ".providerSpec.value.operatingSystem"),
        ("Kubelet", ".versions.kubelet"),
    ],
};

const OPENSHIFT: Group = Group {
    api_version: openshift::API_VERSION,
    deployments: false,
    columns: &[("Type", ".providerSpec.value.kind")],
};

/// A kind and how it is shown.
struct Kind {
    name: &'static str,
    plural: &'static str,
    short: &'static str,
    about: &'static str,
    /// Columns before those of the group: name, type and place.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// Where the spec of a machine is found in it.
    machine: Option<&'static str>,
    scales: bool,
}

const DEPLOYMENT: Kind = Kind {
    name: "MachineDeployment",
    plural: "machinedeployments",
    short: "md",
    about: "A pool of machines whose template is rolled out step by step.",
    columns: SET.columns,
    machine: SET.machine,
    scales: true,
};

const SET: Kind = Kind {
    name: "MachineSet",
    plural: "machinesets",
    short: "ms",
    about: "A set of equal machines.",
    columns: &[
        ("Desired", "integer", ".spec.replicas"),
        ("Current", "integer", ".status.replicas"),
        ("Ready", "integer", ".status.readyReplicas"),
        ("Available", "integer", ".status.availableReplicas"),
    ],
    machine: Some(".spec.template.spec"),
    scales: true,
};

const MACHINE: Kind = Kind {
    name: "Machine",
    plural: "machines",
    short: "ma",
    about: "One machine.",
    columns: &[
        ("Phase", "string", ".status.phase"),
        ("Node", "string", ".status.nodeRef.name"),
        ("Address", "string", ".status.addresses[0].address"),
    ],
    machine: Some(".spec"),
    scales: false,
};

const HEALTH_CHECK: Kind = Kind {
    name: "MachineHealthCheck",
    plural: "machinehealthchecks",
    short: "mhc",
    about: "When machines count as unhealthy and are replaced, and how many of them at most.",
    columns: &[
        ("MaxUnhealthy", "string", ".spec.maxUnhealthy"),
        ("ExpectedMachines", "integer", ".status.expectedMachines"),
        ("CurrentHealthy", "integer", ".status.currentHealthy"),
    ],
    machine: None,
    scales: false,
};

impl Group {
    fn definition(&self, kind: &Kind, spec: &Value, status: &Value, status_apart: bool) -> Value {
        let (group, version) = self.api_version.split_once('/').unwrap_or((self.api_version, "v1"));
        let mut version = json!({
            "name": version,
            "served": true,
            "storage": true,
            "additionalPrinterColumns": self.columns(kind),
            "schema": { "openAPIV3Schema": {
                "type": "object",
                "description": kind.about,
                "properties": { "spec": spec, "status": status },
            } },
        });
        if status_apart {
            version["subresources"] = json!({ "status": {} });
        }
        if kind.scales {
            version["subresources"]["scale"] = json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.labelSelector",
            });
        }
        let name = format!("{}.{group}", kind.plural);
        let mut metadata = json!({ "name": name });
        if group.ends_with(".k8s.io") {
            // Groups of that domain are refused without it.
            metadata["annotations"] = json!({ "api-approved.kubernetes.io": "unapproved, legacy API" });
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "kind": kind.name,
                    "listKind": format!("{}List", kind.name),
                    "plural": kind.plural,
                    "singular": kind.name.to_lowercase(),
                    "shortNames": [kind.short],
                },
                "versions": [version],
            },
        })
    }

    fn columns(&self, kind: &Kind) -> Vec<Value> {
        let column =
            |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
        let mut columns: Vec<Value> =
            kind.columns.iter().map(|(name, kind, path)| column(name, kind, path)).collect();
        if let Some(machine) = kind.machine {
            columns.extend(
                self.columns.iter().map(|(name, path)| column(name, "string", &format!("{machine}{path}"))),
            );
        }
        columns.push(column("Age", "date", ".metadata.creationTimestamp"));
        columns
    }
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn number(about: &str) -> Value {
    json!({ "type": "integer", "format": "int32", "minimum": 0, "description": about })
}

fn time(about: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": about })
}

/// A number or a text, such as a share in percent.
fn either(about: &str) -> Value {
    json!({ "x-kubernetes-int-or-string": true, "description": about })
}

fn list(items: &Value, about: &str) -> Value {
    json!({ "type": "array", "items": items, "description": about })
}

fn map(about: &str) -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": about })
}

/// What others understand is kept as it is.
fn open(about: &str) -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": about })
}

/// Metadata that is to reach another object.
fn metadata(about: &str) -> Value {
    json!({
        "type": "object",
        "description": about,
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "labels": map("Labels."), "annotations": map("Annotations.") },
    })
}

fn selector(about: &str) -> Value {
    let rule = json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": text("The label's key."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": list(&json!({ "type": "string" }), "The values it is compared with."),
        },
    });
    json!({
        "type": "object",
        "description": about,
        "properties": {
            "matchLabels": map("Labels and the values they must have."),
            "matchExpressions": list(&rule, "Rules for labels."),
        },
    })
}

fn machine_spec() -> Value {
    let taint = json!({
        "type": "object",
        "required": ["key", "effect"],
        "properties": {
            "key": text("Its key."),
            "value": text("Its value."),
            "effect": text("NoSchedule, PreferNoSchedule or NoExecute."),
            "timeAdded": time("When it was added."),
        },
    });
    json!({
        "type": "object",
        "description": "What the machine is.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": metadata("Labels and annotations of the node."),
            "taints": list(&taint, "Taints of the node."),
            "providerSpec": {
                "type": "object",
                "description": "What the machine is on its platform.",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "value": open("It, written out.") },
            },
            "providerID": text("How the tenant's Node calls the machine."),
        },
    })
}

fn template() -> Value {
    json!({
        "type": "object",
        "description": "What each machine is.",
        "properties": {
            "metadata": metadata("Labels and annotations of the machines."),
            "spec": machine_spec(),
        },
    })
}

fn set_spec() -> Value {
    json!({
        "type": "object",
        "description": "What the set is.",
        "required": ["selector"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "replicas": { "type": "integer", "format": "int32", "minimum": 0, "default": 1, "description": "How many machines there are." },
            "minReadySeconds": number("Seconds a node must be ready before it counts as available."),
            "deletePolicy": {
                "type": "string",
                "enum": ["", "Random", "Newest", "Oldest"],
                "description": "Which machines go first when there are too many.",
            },
            "selector": selector("Which machines belong to it."),
            "template": template(),
        },
    })
}

fn deployment_spec() -> Value {
    let mut spec = set_spec();
    if let Some(properties) = spec["properties"].as_object_mut() {
        properties.remove("deletePolicy");
        properties.insert(
            "paused".to_owned(),
            json!({ "type": "boolean", "description": "Stops updating; scaling goes on." }),
        );
        properties.insert("revisionHistoryLimit".to_owned(), number("How many old revisions are kept."));
        properties.insert(
            "progressDeadlineSeconds".to_owned(),
            number("Seconds without progress after which an update counts as failed."),
        );
        properties.insert("strategy".to_owned(), json!({
            "type": "object",
            "description": "How a changed template reaches the machines.",
            "properties": {
                "type": text("RollingUpdate."),
                "rollingUpdate": {
                    "type": "object",
                    "description": "How many machines may be more or fewer meanwhile.",
                    "properties": {
                        "maxSurge": either("How many machines more than replicas may exist meanwhile."),
                        "maxUnavailable": either("How many machines fewer than replicas may be available meanwhile."),
                    },
                },
            },
        }));
    }
    spec
}

fn conditions() -> Value {
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "type": text("What is spoken of."),
            "status": text("True, False or Unknown."),
            "reason": text("One word: why."),
            "message": text("The same for people."),
            "lastTransitionTime": time("When the status last changed."),
        },
    });
    let mut conditions = list(&condition, "What holds, and why.");
    conditions["x-kubernetes-list-type"] = "map".into();
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    conditions
}

/// The status of sets and deployments. Other controllers write it too, so that nothing is dropped.
fn set_status() -> Value {
    let mut properties = json!({
        "observedGeneration": { "type": "integer", "format": "int64", "description": "The generation the status speaks of." },
        "labelSelector": text("Which objects are its machines, for the scale subresource."),
        "conditions": conditions(),
    });
    for (name, about) in [
        ("replicas", "How many machines there are."),
        ("fullyLabeledReplicas", "How many have all labels of the template."),
        ("updatedReplicas", "How many have the newest revision."),
        ("readyReplicas", "How many have a ready node."),
        ("availableReplicas", "How many have had one for long enough."),
        ("unavailableReplicas", "How many of those wished for are not available."),
    ] {
        properties[name] = number(about);
    }
    let mut status = open("What a controller says about it.");
    status["properties"] = properties;
    status
}

fn machine_status() -> Value {
    let address = json!({
        "type": "object",
        "required": ["type", "address"],
        "properties": { "type": text("What kind of address."), "address": text("The address.") },
    });
    let mut status = open("What a controller says about the machine.");
    status["properties"] = json!({
        "phase": text("Where it is in its life."),
        "nodeRef": open("Its Node."),
        "addresses": list(&address, "Its addresses."),
        "conditions": conditions(),
        "lastUpdated": time("When the status last changed."),
        "errorReason": text("One word: why it failed."),
        "errorMessage": text("The same for people."),
        "providerStatus": open("What is known of it on its platform."),
    });
    status
}

fn health_check_spec() -> Value {
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "timeout"],
        "properties": {
            "type": text("The condition of the Node."),
            "status": text("The value that is unhealthy: True, False or Unknown."),
            "timeout": text("For how long it must have that value, such as 300s or 5m."),
        },
    });
    json!({
        "type": "object",
        "description": "What unhealthy means.",
        "required": ["selector"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "selector": selector("Which machines are checked; all when empty."),
            "unhealthyConditions": list(&condition, "Conditions of a Node, one of which is enough."),
            "maxUnhealthy": either("Nothing is replaced while more machines than that are unhealthy; 100% when left out."),
            "nodeStartupTimeout": text("How long a machine may take to join; 10m when left out, 0 for no limit."),
        },
    })
}

fn health_check_status() -> Value {
    let mut status = open("What a controller says about the check.");
    status["properties"] = json!({
        "observedGeneration": { "type": "integer", "format": "int64", "description": "The generation the status speaks of." },
        "expectedMachines": number("How many machines are checked."),
        "currentHealthy": number("How many of them are healthy."),
        "remediationsAllowed": number("How many more may be replaced now."),
        "conditions": conditions(),
    });
    status
}
