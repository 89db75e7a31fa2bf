//! The kinds the sequences work on, and random objects of them.
//!
//! Names and values come from small sets, so that writers meet.

use serde_json::{Value, json};

use crate::random::Random;

/// A kind under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Deployment,
    StatefulSet,
    PodTemplate,
    Service,
    Widget,
}

/// The group of the custom resource.
pub(crate) const GROUP: &str = "differential.example.com";

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::ConfigMap,
        Self::Deployment,
        Self::StatefulSet,
        Self::PodTemplate,
        Self::Service,
        Self::Widget,
    ];

    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::PodTemplate => "podtemplates",
            Self::Service => "services",
            Self::Widget => "widgets",
        }
    }

    fn type_meta(self) -> (String, &'static str) {
        match self {
            Self::ConfigMap => ("v1".to_owned(), "ConfigMap"),
            Self::Deployment => ("apps/v1".to_owned(), "Deployment"),
            Self::StatefulSet => ("apps/v1".to_owned(), "StatefulSet"),
            Self::PodTemplate => ("v1".to_owned(), "PodTemplate"),
            Self::Service => ("v1".to_owned(), "Service"),
            Self::Widget => (format!("{GROUP}/v1"), "Widget"),
        }
    }

    /// The collection in a namespace.
    pub(crate) fn collection(self, namespace: &str) -> String {
        let root = match self {
            Self::ConfigMap | Self::PodTemplate | Self::Service => "/api/v1".to_owned(),
            Self::Deployment | Self::StatefulSet => "/apis/apps/v1".to_owned(),
            Self::Widget => format!("/apis/{GROUP}/v1"),
        };
        format!("{root}/namespaces/{namespace}/{}", self.resource())
    }

    pub(crate) fn has_status(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet | Self::Service | Self::Widget)
    }

    pub(crate) fn has_scale(self) -> bool {
        matches!(self, Self::Deployment | Self::StatefulSet | Self::Widget)
    }

    /// A random object; a `whole` one could be created.
    pub(crate) fn object(self, random: &mut Random, whole: bool) -> Value {
        let (api_version, kind) = self.type_meta();
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata(random)});
        match self {
            Self::ConfigMap => config_map(random, &mut object),
            Self::Deployment => deployment(random, whole, &mut object),
            Self::StatefulSet => stateful_set(random, whole, &mut object),
            Self::PodTemplate => {
                random.maybe(if whole { 100 } else { 70 }, &mut object, "template", |random| {
                    template(random, whole)
                });
            }
            Self::Service => service(random, whole, &mut object),
            Self::Widget => random.maybe(if whole { 90 } else { 80 }, &mut object, "spec", widget),
        }
        if random.chance(3) {
            object["bogus"] = 1.into();
        }
        object
    }

    /// A random object that says something about the status only.
    pub(crate) fn status(self, random: &mut Random) -> Value {
        let (api_version, kind) = self.type_meta();
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        if random.chance(20) {
            object["metadata"]["labels"] = random.map(&["x", "y"], &["1", "2"]);
        }
        object["status"] = match self {
            Self::Service => {
                let addresses = random.some(&["192.0.2.1", "192.0.2.2"]);
                let ingress: Vec<Value> = addresses.into_iter().map(|ip| json!({"ip": ip})).collect();
                json!({"loadBalancer": {"ingress": ingress}})
            }
            Self::Widget => {
                let mut status = json!({});
                random.maybe(60, &mut status, "n", |random| (*random.pick(&[1, 2])).into());
                random.maybe(60, &mut status, "conditions", conditions);
                status
            }
            _ => {
                let mut status = json!({"replicas": random.pick(&[0, 1, 2])});
                random.maybe(60, &mut status, "conditions", conditions);
                random.maybe(30, &mut status, "observedGeneration", |random| (*random.pick(&[1, 2])).into());
                status
            }
        };
        object
    }

    /// Places inside an object that JSON patches name.
    pub(crate) fn places(self) -> &'static [&'static str] {
        match self {
            Self::ConfigMap => {
                &["/data", "/data/a", "/data/b", "/metadata/labels/x", "/metadata/finalizers/0", "/nothing/x"]
            }
            Self::Deployment | Self::StatefulSet => &[
                "/spec/replicas",
                "/metadata/labels",
                "/spec/template/spec/containers/0/image",
                "/spec/template/spec/containers/0/args",
                "/spec/template/spec/containers/0/args/0",
                "/spec/template/spec/containers/1",
                "/spec/template/spec/volumes",
                "/spec/template/metadata/labels/x",
            ],
            Self::PodTemplate => &[
                "/template/spec/containers/0/args/-",
                "/template/metadata/labels",
                "/metadata/annotations/x",
            ],
            Self::Service => {
                &["/spec/ports/0/targetPort", "/spec/selector", "/spec/selector/app", "/spec/sessionAffinity"]
            }
            Self::Widget => &[
                "/spec/set/0",
                "/spec/map/0/size",
                "/spec/whole",
                "/spec/granular/x",
                "/spec/n",
                "/spec/nested/b",
                "/status/n",
            ],
        }
    }

    /// A value for a place that JSON patches name.
    pub(crate) fn value(self, random: &mut Random, place: &str) -> Value {
        let last = place.rsplit('/').next().unwrap_or_default();
        match last {
            "replicas" | "n" | "size" => random.pick(&[json!(1), json!(2), json!(3), json!("text")]).clone(),
            "labels" | "data" | "selector" | "granular" => random.map(&["x", "y", "app"], &["1", "2"]),
            "args" | "whole" => json!(random.some(&["p", "q", "r"])),
            "volumes" => volumes(random),
            "1" => json!({"name": "side", "image": "i:1"}),
            "b" if self == Self::Widget => json!({"c": random.pick(&[1, 2])}),
            "sessionAffinity" => random.pick(&[json!("None"), json!("ClientIP"), json!("Nonsense")]).clone(),
            "targetPort" => random.pick(&[json!(8080), json!("http")]).clone(),
            _ => (*random.pick(&["1", "2", "example.com/f"])).into(),
        }
    }
}

fn metadata(random: &mut Random) -> Value {
    let mut metadata = json!({"name": "a"});
    random.maybe(45, &mut metadata, "labels", |random| random.map(&["x", "y", "z"], &["1", "2"]));
    random.maybe(25, &mut metadata, "annotations", |random| random.map(&["x", "example.com/y"], &["1", "2"]));
    random.maybe(15, &mut metadata, "finalizers", |random| {
        json!(random.some(&["example.com/f", "example.com/g"]))
    });
    metadata
}

fn conditions(random: &mut Random) -> Value {
    let kinds = random.some(&["Available", "Progressing", "Other"]);
    kinds.into_iter().map(|kind| json!({"type": kind, "status": random.pick(&["True", "False"])})).collect()
}

fn config_map(random: &mut Random, object: &mut Value) {
    random.maybe(85, object, "data", |random| random.map(&["a", "b", "c", "d.e"], &["1", "2", ""]));
    random.maybe(15, object, "binaryData", |random| random.map(&["p", "q"], &["AA==", "AAEC"]));
    if random.chance(3) {
        object["data"] = json!({"a": 5});
    }
}

fn deployment(random: &mut Random, whole: bool, object: &mut Value) {
    let mut spec = json!({});
    if whole {
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
    }
    random.maybe(50, &mut spec, "replicas", |random| (*random.pick(&[0, 1, 2, 3])).into());
    random.maybe(15, &mut spec, "paused", |random| random.chance(50).into());
    random.maybe(15, &mut spec, "minReadySeconds", |random| (*random.pick(&[0, 5])).into());
    random.maybe(25, &mut spec, "strategy", |random| {
        random
            .pick(&[
                json!({"type": "Recreate"}),
                json!({"type": "RollingUpdate"}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}),
                json!({"rollingUpdate": {"maxUnavailable": "50%"}}),
            ])
            .clone()
    });
    random.maybe(if whole { 100 } else { 60 }, &mut spec, "template", |random| template(random, whole));
    object["spec"] = spec;
}

fn stateful_set(random: &mut Random, whole: bool, object: &mut Value) {
    let mut spec = json!({});
    if whole {
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
        spec["serviceName"] = "s".into();
    }
    random.maybe(50, &mut spec, "replicas", |random| (*random.pick(&[0, 1, 2])).into());
    random.maybe(20, &mut spec, "updateStrategy", |random| {
        random
            .pick(&[
                json!({"type": "OnDelete"}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
            ])
            .clone()
    });
    random.maybe(if whole { 100 } else { 60 }, &mut spec, "template", |random| template(random, whole));
    object["spec"] = spec;
}

fn template(random: &mut Random, whole: bool) -> Value {
    let mut template = json!({});
    if whole || random.chance(30) {
        let mut labels = random.map(&["x", "y"], &["1", "2"]);
        labels["app"] = "a".into();
        template["metadata"] = json!({"labels": labels});
    }
    let mut spec = json!({});
    let mut names = random.some(&["main", "side", "extra"]);
    if whole && !names.contains(&"main") {
        names.push("main");
    }
    if !names.is_empty() {
        spec["containers"] = names.into_iter().map(|name| container(random, name, whole)).collect();
    }
    random.maybe(20, &mut spec, "volumes", volumes);
    random.maybe(15, &mut spec, "nodeSelector", |random| random.map(&["x", "y"], &["1", "2"]));
    random.maybe(15, &mut spec, "tolerations", |random| {
        json!(random.some(&[json!({"key": "k", "operator": "Exists"}), json!({"key": "l", "value": "v"})]))
    });
    random.maybe(10, &mut spec, "hostAliases", |random| {
        json!(random.some(&[
            json!({"ip": "10.0.0.1", "hostnames": ["h"]}),
            json!({"ip": "10.0.0.2", "hostnames": ["i", "j"]})
        ]))
    });
    random.maybe(10, &mut spec, "imagePullSecrets", |random| {
        json!(random.some(&[json!({"name": "p"}), json!({"name": "q"})]))
    });
    random.maybe(10, &mut spec, "terminationGracePeriodSeconds", |random| (*random.pick(&[5, 30])).into());
    random.maybe(10, &mut spec, "securityContext", |random| {
        random.pick(&[json!({}), json!({"runAsUser": 5, "supplementalGroups": [1, 2]})]).clone()
    });
    template["spec"] = spec;
    template
}

fn container(random: &mut Random, name: &str, whole: bool) -> Value {
    let mut container = json!({"name": name});
    random.maybe(if whole { 100 } else { 60 }, &mut container, "image", |random| {
        (*random.pick(&["i:1", "i:2", "i"])).into()
    });
    random.maybe(30, &mut container, "env", |random| {
        let names = random.some(&["A", "B", "C"]);
        names
            .into_iter()
            .map(|name| match random.below(3) {
                0 => json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
                1 => json!({"name": name, "value": "1"}),
                _ => json!({"name": name, "value": "2"}),
            })
            .collect()
    });
    random.maybe(20, &mut container, "args", |random| json!(random.some(&["p", "q", "r"])));
    random.maybe(25, &mut container, "ports", |random| {
        json!(random.some(&[
            json!({"containerPort": 80}),
            json!({"containerPort": 80, "protocol": "UDP", "name": "u"}),
            json!({"containerPort": 443, "name": "https"}),
        ]))
    });
    random.maybe(20, &mut container, "resources", |random| {
        random
            .pick(&[
                json!({"limits": {"cpu": "1"}}),
                json!({"requests": {"memory": "1024Mi"}}),
                json!({"limits": {"cpu": 0.5}, "requests": {"cpu": "100m"}}),
                json!({}),
            ])
            .clone()
    });
    random.maybe(10, &mut container, "securityContext", |random| {
        random.pick(&[json!({"capabilities": {"add": ["A", "B"]}}), json!({"privileged": false})]).clone()
    });
    container
}

fn volumes(random: &mut Random) -> Value {
    let names = random.some(&["v", "w"]);
    names
        .into_iter()
        .map(|name| match random.below(3) {
            0 => json!({"name": name, "emptyDir": {}}),
            1 => json!({"name": name, "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}),
            _ => json!({"name": name, "projected": {"sources": [{"secret": {"name": "s"}}]}}),
        })
        .collect()
}

fn service(random: &mut Random, whole: bool, object: &mut Value) {
    let mut spec = json!({});
    random.maybe(if whole { 100 } else { 60 }, &mut spec, "ports", |random| {
        let mut ports = random.some(&[
            json!({"name": "http", "port": 80}),
            json!({"name": "dns", "port": 80, "protocol": "UDP"}),
            json!({"name": "https", "port": 443, "targetPort": 8443}),
            json!({"name": "http", "port": 80, "targetPort": "web"}),
        ]);
        if ports.is_empty() {
            ports.push(json!({"name": "http", "port": 80}));
        }
        json!(ports)
    });
    random.maybe(60, &mut spec, "selector", |random| random.map(&["app", "x"], &["1", "2"]));
    random.maybe(20, &mut spec, "sessionAffinity", |random| (*random.pick(&["None", "ClientIP"])).into());
    random.maybe(15, &mut spec, "externalIPs", |random| json!(random.some(&["192.0.2.1", "192.0.2.2"])));
    random.maybe(10, &mut spec, "publishNotReadyAddresses", |random| random.chance(50).into());
    random.maybe(5, &mut spec, "type", |_| "LoadBalancer".into());
    if spec["type"] == "LoadBalancer" {
        spec["allocateLoadBalancerNodePorts"] = false.into();
    }
    object["spec"] = spec;
}

fn widget(random: &mut Random) -> Value {
    let mut spec = json!({});
    random.maybe(40, &mut spec, "set", |random| json!(random.some(&["p", "q", "r"])));
    random.maybe(40, &mut spec, "map", |random| {
        json!(random.some(&[
            json!({"name": "p", "size": 1}),
            json!({"name": "p", "zone": "there", "size": 2}),
            json!({"name": "q"}),
            json!({"name": "p", "size": 3, "tags": ["t"]}),
        ]))
    });
    random.maybe(25, &mut spec, "whole", |random| json!(random.some(&["p", "q", "r"])));
    random.maybe(25, &mut spec, "plain", |random| {
        json!(random.some(&[json!({"name": "p"}), json!({"name": "q", "size": 1})]))
    });
    random.maybe(30, &mut spec, "granular", |random| random.map(&["x", "y", "z"], &["1", "2"]));
    random.maybe(25, &mut spec, "atomic", |random| random.map(&["a", "b"], &["1", "2"]));
    random.maybe(30, &mut spec, "n", |random| {
        random.pick(&[json!(1), json!(2), json!(2), json!("text"), Value::Null]).clone()
    });
    random.maybe(25, &mut spec, "nested", |random| {
        random
            .pick(&[json!({"a": "1"}), json!({"a": "2", "b": {"c": 1}}), json!({"b": {}}), json!({})])
            .clone()
    });
    random.maybe(15, &mut spec, "free", |random| {
        random.pick(&[json!({"any": [1, {"x": null}]}), json!({"any": {"y": 1.5}}), json!({})]).clone()
    });
    random.maybe(15, &mut spec, "port", |random| random.pick(&[json!(80), json!("http")]).clone());
    random.maybe(8, &mut spec, "unknown", |_| json!({"x": 1}));
    spec
}

/// The definition of the custom resource.
pub(crate) fn definition() -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "zone": {"type": "string", "default": "here"},
        "size": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}},
    }});
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "zone"], "items": item},
        "whole": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
        "plain": {"type": "array", "items": item},
        "granular": {"type": "object", "additionalProperties": {"type": "string"}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        "n": {"type": "integer", "default": 7},
        "nested": {"type": "object", "properties": {
            "a": {"type": "string", "default": "d"},
            "b": {"type": "object", "properties": {"c": {"type": "integer", "default": 3}}},
        }},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
    }});
    let status = json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
            }],
        },
    })
}
