//! A made-up manifest with a bit of everything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One row of a manifest.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-trellis-aliases" = {"count": "replicas", "amount": "replicas"}))]
pub(super) struct Manifest {
    /// The name of the cluster. It must be unique.
    #[schemars(regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"), length(max = 10), extend("x-trellis-rule" = "a lower-case name"))]
    name: String,
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    small: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-text" = true))]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pools: Vec<Pool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-sensitive" = true), regex(pattern = "^[a-z]+$"))]
    password: Option<String>,
    #[serde(skip_serializing, default)]
    #[schemars(extend("x-trellis-ignored" = "addons come from elsewhere"))]
    addons: Option<String>,
    #[serde(skip_serializing, default)]
    #[schemars(extend("x-trellis-ignored" = "the cluster writes it", "x-trellis-silent" = true))]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "port")]
    port: Option<serde_json::Value>,
}

fn port(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true})
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Pool {
    /// The name of the pool.
    name: String,
    /// Its disk.
    disk: Disk,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Disk {
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_class: Option<String>,
}

/// How.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) enum Mode {
    /// Fast.
    Fast,
    /// Slow.
    Slow,
    On,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Source {
    /// From the network.
    Http {
        url: String,
    },
    Registry(Disk),
    Blank,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum Action {
    Wait { seconds: u32 },
    Run { command: String },
}
