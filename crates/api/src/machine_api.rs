//! What the machine APIs of Kubermatic and OpenShift share; both grew out of the first Cluster API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::placement::TaintEffect;

use crate::common::ServerWritten;

/// A selection by labels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels and the values they must have.
    ///
    /// Mapped: the labels of the template must have them too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Rules for labels.
    ///
    /// Mapped: the labels of the template must keep them too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRule>,
}

/// A rule for a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRule {
    /// The label's key.
    ///
    /// Mapped: with the whole rule.
    pub key: String,
    /// What must hold for its value.
    ///
    /// Mapped: with the whole rule.
    pub operator: LabelOperator,
    /// The values it is compared with.
    ///
    /// Mapped: with the whole rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What must hold for a label's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// It is one of the values.
    In,
    /// It is none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Its key.
    ///
    /// Honoured: as it stands.
    pub key: String,
    /// Its value.
    ///
    /// Honoured: as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What it does.
    ///
    /// Honoured: as it stands.
    pub effect: TaintEffect,
    /// When it was added.
    ///
    /// Ignored: a server writes it.
    #[serde(default, skip_serializing)]
    pub time_added: ServerWritten,
}
