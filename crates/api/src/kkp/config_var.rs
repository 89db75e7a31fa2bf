//! Settings that are written out, or kept in a Secret or ConfigMap.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::common::Text;

/// A setting that is written out, or a reference to where it is kept.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct ConfigVar {
    /// It, written out.
    pub value: Option<String>,
    /// The key of a Secret it is kept under.
    pub secret_key_ref: Option<KeyRef>,
    /// The key of a ConfigMap it is kept under.
    pub config_map_key_ref: Option<KeyRef>,
}

impl ConfigVar {
    /// A setting that is written out.
    #[expect(clippy::needless_pass_by_value, reason = "words, numbers and names are all given alike")]
    pub fn of(value: impl ToString) -> Self {
        Self { value: Some(value.to_string()), ..Self::default() }
    }
}

impl std::fmt::Debug for ConfigVar {
    /// Leaves out the value: it may be a kubeconfig.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, secret_key_ref, config_map_key_ref } = self;
        f.debug_struct("ConfigVar")
            .field("value", &value.as_ref().map(|_| "(hidden)"))
            .field("secret_key_ref", secret_key_ref)
            .field("config_map_key_ref", config_map_key_ref)
            .finish()
    }
}

/// How a [`ConfigVar`] stands in a document.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Scalar(String),
    Long(LongForm),
}

/// A setting with a reference to where it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct LongForm {
    /// It, written out.
    ///
    /// Honoured: unless a reference stands beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    /// The key of a Secret it is kept under.
    ///
    /// Refused: except for a kubeconfig, whose place is all that Trellis needs to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_key_ref: Option<KeyRef>,
    /// The key of a ConfigMap it is kept under.
    ///
    /// Honoured: if the ConfigMap is read together with it; for a kubeconfig its place is all that is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    config_map_key_ref: Option<KeyRef>,
}

impl From<Form> for ConfigVar {
    fn from(form: Form) -> Self {
        match form {
            Form::Scalar(value) => Self::of(value),
            Form::Long(long) => Self {
                value: long.value.map(|text| text.0),
                secret_key_ref: long.secret_key_ref,
                config_map_key_ref: long.config_map_key_ref,
            },
        }
    }
}

impl From<ConfigVar> for Form {
    fn from(var: ConfigVar) -> Self {
        match var {
            ConfigVar { value: Some(value), secret_key_ref: None, config_map_key_ref: None } => {
                Self::Scalar(value)
            }
            ConfigVar { value, secret_key_ref, config_map_key_ref } => {
                Self::Long(LongForm { value: value.map(Text), secret_key_ref, config_map_key_ref })
            }
        }
    }
}

impl JsonSchema for ConfigVar {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConfigVar".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = generator.subschema_for::<Text>();
        let long = generator.subschema_for::<LongForm>();
        json_schema!({ "anyOf": [text, long], "x-trellis-kind": "config variable" })
    }
}

/// A key of a Secret or ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyRef {
    /// The namespace of the object.
    ///
    /// Honoured: for a kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    ///
    /// Honoured: for a kubeconfig.
    pub name: String,
    /// The key inside it.
    ///
    /// Honoured: for a kubeconfig.
    pub key: String,
}
