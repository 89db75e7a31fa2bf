//! The generated CRDs are structural, and say in CEL what the types cannot.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use serde_json::Value;

/// Walks every schema node below a CRD's root schema.
fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&schema[key], &format!("{path}[]"), visit);
        }
    }
}

/// The definitions of our own kinds and of the machine kinds of others.
fn all() -> Vec<Value> {
    trellis_api::trellis::crds().into_iter().chain(trellis_api::machine_crds::machine_crds()).collect()
}

fn each_node(visit: &mut dyn FnMut(&str, &Value)) {
    for crd in all() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        walk(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &kind, visit);
    }
}

#[test]
fn an_api_server_accepts_them_as_structural() {
    each_node(&mut |path, node| {
        let typed = node["type"].is_string() || node["x-kubernetes-int-or-string"] == Value::Bool(true);
        assert!(typed, "{path} has no type: {node}");
        for forbidden in ["$ref", "$defs", "patternProperties", "const", "definitions"] {
            assert!(node.get(forbidden).is_none(), "{path} has {forbidden}");
        }
        if let Some(format) = node["format"].as_str() {
            assert!(["int32", "int64", "date-time"].contains(&format), "{path} has the format {format}");
        }
        assert_ne!(node["uniqueItems"], Value::Bool(true), "{path} has uniqueItems");
        assert_ne!(node["additionalProperties"], Value::Bool(false), "{path} is closed");
        assert!(
            node.get("properties").is_none() || node.get("additionalProperties").is_none(),
            "{path} has both"
        );
        for branch in node["oneOf"].as_array().into_iter().flatten() {
            let keys: Vec<&String> = branch.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["required"], "{path}: a oneOf branch may only require");
        }
    });
}

#[test]
fn every_field_is_described() {
    each_node(&mut |path, node| {
        let of_spec = path.contains(".spec.") && !path.ends_with("[]");
        assert!(
            !of_spec || node["description"].as_str().is_some_and(|text| !text.is_empty()),
            "{path} is not described"
        );
    });
}

#[test]
fn rules_the_types_cannot_say_are_there() {
    let mut rules = Vec::new();
    each_node(&mut |_, node| {
        rules.extend(node["x-kubernetes-validations"].as_array().cloned().unwrap_or_default());
    });
    let has =
        |text: &str| rules.iter().any(|rule| rule["rule"].as_str().is_some_and(|rule| rule.contains(text)));
    for text in [
        "self.cluster == oldSelf.cluster",
        "self.min <= self.max",
        "maxSurge",
        "has(self.topology)",
        "pageMerging",
    ] {
        assert!(has(text), "no rule about {text} among {rules:#?}");
    }
}

#[test]
fn pools_scale_and_all_kinds_have_a_status_and_columns() {
    for crd in trellis_api::trellis::crds() {
        let version = &crd["spec"]["versions"][0];
        assert!(version["subresources"]["status"].is_object());
        assert!(version["additionalPrinterColumns"].as_array().unwrap().len() >= 6);
        if crd["spec"]["names"]["kind"] == "MachinePool" {
            assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.replicas");
            assert_eq!(version["subresources"]["scale"]["labelSelectorPath"], ".status.selector");
        }
    }
}

#[test]
fn foreign_kinds_keep_what_others_write_and_can_be_handed_back() {
    let crds = trellis_api::machine_crds::machine_crds();
    let names: Vec<&str> = crds.iter().map(|crd| crd["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "machinedeployments.cluster.k8s.io",
            "machinesets.cluster.k8s.io",
            "machines.cluster.k8s.io",
            "machinehealthchecks.cluster.k8s.io",
            "machinesets.machine.openshift.io",
            "machines.machine.openshift.io",
            "machinehealthchecks.machine.openshift.io",
        ]
    );
    for crd in &crds {
        let (group, kind) = (crd["spec"]["group"].as_str().unwrap(), &crd["spec"]["names"]["kind"]);
        let version = &crd["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(schema["status"]["x-kubernetes-preserve-unknown-fields"], true, "{kind}");
        // The machine-controller writes the status of a Machine together with the object.
        let apart = !(group == "cluster.k8s.io" && kind == "Machine");
        assert_eq!(version["subresources"]["status"].is_object(), apart, "{group} {kind}");
        let scales = kind == "MachineSet" || kind == "MachineDeployment";
        assert_eq!(version["subresources"]["scale"].is_object(), scales, "{group} {kind}");
        let approved = crd["metadata"]["annotations"]["api-approved.kubernetes.io"].is_string();
        assert_eq!(approved, group.ends_with(".k8s.io"), "{group}");
        if kind == "Machine" {
            let value = &schema["spec"]["properties"]["providerSpec"]["properties"]["value"];
            assert_eq!(value["x-kubernetes-preserve-unknown-fields"], true);
        }
    }
}
