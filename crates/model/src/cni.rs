//! The configuration of a tenant network: the JSON text a CNI runtime reads.

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::network::Cidr;

/// Why a text is not a CNI configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCniConfig {
    /// It is not JSON.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but not an object.
    #[error("must be a JSON object")]
    NotAnObject,
    /// Neither `type` nor `plugins` says what to run.
    #[error("must name a plugin: either `type` or a list `plugins` whose items have a `type`")]
    NoPlugin,
}

/// A CNI configuration: a JSON object that names a plugin or a chain of them.
///
/// Kubernetes keeps it as text in a network attachment definition. It is held here parsed, so that
/// two spellings of one configuration are equal and its address range can be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CniConfig {
    canonical: String,
    subnets: Vec<Cidr>,
}

impl CniConfig {
    /// The address ranges its plugins hand out addresses from.
    pub fn subnets(&self) -> &[Cidr] {
        &self.subnets
    }

    /// The text, in one spelling.
    pub fn as_str(&self) -> &str {
        &self.canonical
    }
}

impl std::str::FromStr for CniConfig {
    type Err = InvalidCniConfig;
    fn from_str(text: &str) -> Result<Self, InvalidCniConfig> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| InvalidCniConfig::NotJson(error.to_string()))?;
        let object = value.as_object().ok_or(InvalidCniConfig::NotAnObject)?;
        let names_plugin =
            |value: &serde_json::Value| value.get("type").is_some_and(serde_json::Value::is_string);
        let plugins = object.get("plugins").and_then(serde_json::Value::as_array);
        if !names_plugin(&value)
            && !plugins.is_some_and(|list| !list.is_empty() && list.iter().all(names_plugin))
        {
            return Err(InvalidCniConfig::NoPlugin);
        }
        let mut subnets = Vec::new();
        for plugin in plugins.into_iter().flatten().chain([&value]) {
            collect_subnets(plugin.get("ipam"), &mut subnets);
        }
        Ok(Self { canonical: value.to_string(), subnets })
    }
}

/// Finds the ranges of an `ipam` block: `subnet`, or `ranges` as a list of lists.
fn collect_subnets(ipam: Option<&serde_json::Value>, out: &mut Vec<Cidr>) {
    let Some(ipam) = ipam else { return };
    let nested = ipam.get("ranges").and_then(serde_json::Value::as_array).into_iter().flatten();
    let inner = nested.filter_map(serde_json::Value::as_array).flatten();
    for subnet in inner.chain([ipam]).filter_map(|range| range.get("subnet")?.as_str()) {
        if let Ok(net) = subnet.parse::<IpNet>() {
            out.push(Cidr::new(net));
        }
    }
}

impl TryFrom<String> for CniConfig {
    type Error = InvalidCniConfig;
    fn try_from(text: String) -> Result<Self, InvalidCniConfig> {
        text.parse()
    }
}

impl From<CniConfig> for String {
    fn from(config: CniConfig) -> String {
        config.canonical
    }
}

impl fmt::Display for CniConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

impl schemars::JsonSchema for CniConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CniConfig".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_and_order_make_no_difference_and_subnets_are_found() {
        let a: CniConfig = r#"{"cniVersion":"0.4.0","plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.100.0.0/16"}},{"type":"firewall"}]}"#.parse().unwrap();
        let b: CniConfig = r#"{ "plugins": [ { "ipam": {"subnet":"10.100.0.0/16","type":"host-local"}, "type":"bridge" }, {"type":"firewall"} ], "cniVersion":"0.4.0" }"#.parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(a.subnets(), ["10.100.0.0/16".parse().unwrap()]);
    }

    #[test]
    fn what_no_runtime_could_run_is_refused() {
        assert!(matches!("{...}".parse::<CniConfig>(), Err(InvalidCniConfig::NotJson(_))));
        assert_eq!("[]".parse::<CniConfig>(), Err(InvalidCniConfig::NotAnObject));
        assert_eq!("{}".parse::<CniConfig>(), Err(InvalidCniConfig::NoPlugin));
        assert_eq!(r#"{"plugins":[]}"#.parse::<CniConfig>(), Err(InvalidCniConfig::NoPlugin));
    }
}
