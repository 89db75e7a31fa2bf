//! The order of things and the two forms.

use serde_json::json;

use super::*;

fn resource(group: &str, version: &str, plural: &str, kind: &str) -> ResourceDescriptor {
    ResourceDescriptor {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        namespaced: true,
        verbs: vec!["get".to_owned()],
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: None,
        custom: false,
    }
}

fn entry(group: &str, version: &str, priority: (i32, i32), resources: Vec<ResourceDescriptor>) -> Entry {
    Entry {
        group: group.to_owned(),
        version: version.to_owned(),
        group_priority: priority.0,
        version_priority: priority.1,
        stale: false,
        resources,
    }
}

#[test]
fn hashes_are_those_of_the_real_server() {
    assert_eq!(storage_version_hash("", "v1", "Pod"), "xPOwRZ+Yhw8=");
    assert_eq!(storage_version_hash("apps", "v1", "Deployment"), "8aSe+NMegvE=");
}

#[test]
fn groups_and_versions_are_in_the_order_of_their_priorities() {
    let catalogue = Catalogue::new(vec![
        entry("b.example.com", "v1beta1", CUSTOM_PRIORITY, vec![]),
        entry("b.example.com", "v2alpha1", CUSTOM_PRIORITY, vec![]),
        entry("b.example.com", "v1", CUSTOM_PRIORITY, vec![]),
        entry("b.example.com", "zeta", CUSTOM_PRIORITY, vec![]),
        entry("b.example.com", "alpha", CUSTOM_PRIORITY, vec![]),
        entry("b.example.com", "v10", CUSTOM_PRIORITY, vec![]),
        entry("autoscaling", "v1", builtin_priority("autoscaling", "v1"), vec![]),
        entry("autoscaling", "v2", builtin_priority("autoscaling", "v2"), vec![]),
        entry("", "v1", builtin_priority("", "v1"), vec![]),
        entry("a.example.com", "v1", CUSTOM_PRIORITY, vec![]),
        entry("apps", "v1", builtin_priority("apps", "v1"), vec![]),
    ]);
    let groups = catalogue.groups();
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["apps", "autoscaling", "a.example.com", "b.example.com"]);
    let group = catalogue.group("b.example.com").unwrap();
    let versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|each| each["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["v10", "v1", "v1beta1", "v2alpha1", "alpha", "zeta"]);
    assert_eq!(group["preferredVersion"], json!({"groupVersion": "b.example.com/v10", "version": "v10"}));
    assert_eq!(catalogue.group("autoscaling").unwrap()["preferredVersion"]["version"], "v2");
    assert_eq!(catalogue.group("nosuch"), None);
}

#[test]
fn plain_and_aggregated_forms_tell_subresources_their_own_way() {
    let scale = Subresource {
        name: "scale".to_owned(),
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        verbs: vec!["get".to_owned()],
    };
    let status = Subresource {
        name: "status".to_owned(),
        group: String::new(),
        version: String::new(),
        kind: "Widget".to_owned(),
        verbs: vec!["get".to_owned()],
    };
    let mut widgets = resource("proto.example.com", "v1", "widgets", "Widget");
    widgets.subresources = vec![status, scale];
    widgets.custom = true;
    let gadgets = resource("proto.example.com", "v1", "gadgets", "Gadget");
    let pods = resource("", "v1", "pods", "Pod");
    let catalogue = Catalogue::new(vec![
        entry("proto.example.com", "v1", CUSTOM_PRIORITY, vec![widgets, gadgets]),
        entry("", "v1", builtin_priority("", "v1"), vec![pods]),
    ]);
    let plain = catalogue.resources("proto.example.com", "v1").unwrap();
    assert_eq!(plain["apiVersion"], "v1");
    assert_eq!(
        plain["resources"][2],
        json!({"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
               "version": "v1", "kind": "Scale", "verbs": ["get"]})
    );
    let parsed = ResourceDescriptor::from_list("proto.example.com", "v1", &plain);
    assert_eq!(parsed[0], catalogue.entry("proto.example.com", "v1").unwrap().resources[0]);
    let aggregated = catalogue.aggregated_groups();
    let resources = &aggregated.document["items"][0]["versions"][0]["resources"];
    assert_eq!(resources[0]["resource"], "gadgets");
    assert_eq!(
        resources[1]["subresources"][0]["responseKind"],
        json!({"group": "proto.example.com", "version": "v1", "kind": "Widget"})
    );
    assert_eq!(aggregated.etag.len(), 130);
    let core = catalogue.aggregated_core().document;
    assert_eq!(core["items"][0]["metadata"], json!({}));
    assert_eq!(
        core["items"][0]["versions"][0]["resources"][0]["responseKind"],
        json!({"group": "", "version": "", "kind": "Pod"})
    );
    assert_eq!(catalogue.resources("", "v1").unwrap().get("apiVersion"), None);
}
