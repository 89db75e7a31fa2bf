//! Definitions of custom resources for scenarios.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::support::Result;

/// Where definitions are kept.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A namespaced `Widget` of the scenario's own group, with one version `v1` of the given schema.
pub(crate) fn definition(cx: &Cx, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{}", cx.group)},
        "spec": {
            "group": cx.group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// A schema whose `spec` is given and whose `status` may be anything.
pub(crate) fn with_spec(spec: &Value) -> Value {
    json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }})
}

/// Creates a definition and waits until its resources are served; the established definition.
pub(crate) async fn establish(cx: &Cx, definition: &Value) -> Result<Value> {
    let created = cx.create(DEFINITIONS, definition).await?;
    until_served(cx, &created).await
}

/// Waits until the resources of a definition are served.
pub(crate) async fn until_served(cx: &Cx, definition: &Value) -> Result<Value> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let established = cx
        .until(format!("{DEFINITIONS}/{name}"), "the definition is established", |_, crd| {
            condition(crd, "Established") == "True"
        })
        .await?;
    for version in established["spec"]["versions"].as_array().into_iter().flatten() {
        if version["served"] == true {
            let plural = established["spec"]["names"]["plural"].as_str().unwrap_or_default();
            let root = format!("/apis/{}/{}", cx.group, version["name"].as_str().unwrap_or_default());
            cx.until(format!("{root}/{plural}"), "the resource is served", |status, _| status == 200).await?;
            cx.until(root, "the version is discovered", |status, list| {
                status == 200
                    && list["resources"].as_array().into_iter().flatten().any(|entry| entry["name"] == plural)
            })
            .await?;
        }
    }
    Ok(established)
}

/// The status of a condition, or nothing.
pub(crate) fn condition<'object>(object: &'object Value, kind: &str) -> &'object str {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .find(|entry| entry["type"] == kind)
        .and_then(|entry| entry["status"].as_str())
        .unwrap_or_default()
}

impl Cx {
    /// The collection of the scenario's widgets.
    pub(crate) fn widgets(&self) -> String {
        self.apis(&format!("{}/v1", self.group), "widgets")
    }

    /// The path of one of the scenario's widgets, or of its subresource.
    pub(crate) fn a_widget(&self, name: &str) -> String {
        format!("{}/{name}", self.widgets())
    }

    /// A widget with this `spec`.
    pub(crate) fn widget(&self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": name},
            "spec": spec})
    }
}
