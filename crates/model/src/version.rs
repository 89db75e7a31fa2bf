//! Versions of Kubernetes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::InvalidQuantity;

/// A version of Kubernetes: major, minor and, where it matters, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion {
    /// Always 1 so far.
    pub major: u32,
    /// Rises with each release.
    pub minor: u32,
    /// Rises with each fix; the newest known when left out.
    pub patch: Option<u32>,
}

impl KubernetesVersion {
    /// How many minor releases this is behind another; negative when it is ahead.
    pub fn minors_behind(self, other: Self) -> i64 {
        i64::from(other.minor) - i64::from(self.minor)
    }
}

impl std::str::FromStr for KubernetesVersion {
    type Err = InvalidQuantity;
    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let invalid = || InvalidQuantity(text.to_owned(), "a Kubernetes version such as 1.34.2");
        let number = |part: &str| {
            if part.bytes().all(|b| b.is_ascii_digit()) {
                part.parse().map_err(|_| invalid())
            } else {
                Err(invalid())
            }
        };
        let parts: Vec<&str> = text.strip_prefix('v').unwrap_or(text).split('.').collect();
        match parts.as_slice() {
            [major, minor] => Ok(Self { major: number(major)?, minor: number(minor)?, patch: None }),
            [major, minor, patch] => {
                Ok(Self { major: number(major)?, minor: number(minor)?, patch: Some(number(patch)?) })
            }
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = InvalidQuantity;
    fn try_from(text: String) -> Result<Self, InvalidQuantity> {
        text.parse()
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> String {
        version.to_string()
    }
}

impl schemars::JsonSchema for KubernetesVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KubernetesVersion".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^v?[0-9]+\\.[0-9]+(\\.[0-9]+)?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_and_without_v_and_patch() {
        let parse = |text: &str| text.parse::<KubernetesVersion>();
        assert_eq!(parse("v1.21.10").unwrap(), parse("1.21.10").unwrap());
        assert_eq!(parse("1.34").unwrap().to_string(), "1.34");
        assert!(parse("1.9").unwrap() < parse("1.10").unwrap());
        for bad in ["", "1", "1.x", "1.2.3.4", "1.-2", "+1.2"] {
            assert!(parse(bad).is_err(), "{bad:?} should be refused");
        }
    }
}
