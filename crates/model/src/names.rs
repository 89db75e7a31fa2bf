//! Names, keys and other short strings that have rules: checked once, where they enter, and never again.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not a valid name of some type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct InvalidName {
    /// What was being named, for example "a cluster name".
    pub what: &'static str,
    /// What is wrong with the text, as the rest of a sentence.
    pub problem: String,
}

/// A lower-case DNS label: `web-1`.
pub(crate) fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Dot-separated DNS labels: `web-1.example`.
fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// The part of a label key behind the slash, or a non-empty label value.
fn is_qualified_part(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => {
            prefix.len() <= 253 && is_dns_subdomain(prefix) && name.len() <= 63 && is_qualified_part(name)
        }
        None => text.len() <= 63 && is_qualified_part(text),
    }
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_qualified_part(text)
}

fn is_mac_address(text: &str) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    parts.len() == 6 && parts.iter().all(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The characters KubeVirt accepts in a disk serial.
fn is_disk_serial(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'+' | b'-'))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}

macro_rules! names {
    ($($(#[$doc:meta])* $ty:ident: $what:literal, max $max:literal, $check:path $(, normalised by $normalise:path)?, pattern $pattern:literal, $rule:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $ty(String);

        impl $ty {
            /// The longest text of this type, in bytes.
            pub const MAX_LENGTH: usize = $max;

            /// Checks the text and wraps it.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let text: String = text.into();
                $(let text = $normalise(&text);)?
                let problem = if text.len() > Self::MAX_LENGTH {
                    format!("may have at most {} characters; {text:?} has {}", Self::MAX_LENGTH, text.len())
                } else if $check(&text) {
                    return Ok(Self(text));
                } else {
                    format!("must be {}; {text:?} is not", $rule)
                };
                Err(InvalidName { what: $what, problem })
            }

            /// Wraps a constant of this crate that is known to be valid.
            #[allow(dead_code, reason = "not every type has constants")]
            pub(crate) fn trusted(text: &'static str) -> Self {
                debug_assert!(Self::new(text).is_ok(), "{text}");
                Self(text.to_owned())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }

        impl TryFrom<String> for $ty {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $ty {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$ty> for String {
            fn from(name: $ty) -> String {
                name.0
            }
        }

        impl AsRef<str> for $ty {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl schemars::JsonSchema for $ty {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($ty).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "maxLength": $max, "pattern": $pattern })
            }
        }
    )*};
}

names! {
    /// The name of a tenant cluster; part of object names and the value of the cluster label.
    ClusterName: "a cluster name", max 63, is_dns_label, pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
    /// The name of a pool of machines.
    PoolName: "a pool name", max 63, is_dns_label, pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
    /// The name of one machine, its VM and its Node.
    MachineName: "a machine name", max 63, is_dns_label, pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
    /// The name of a flavor, Trellis's own or one a cluster defines.
    FlavorName: "a flavor name", max 50, is_dns_label, pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
    /// The name of a disk or of a network interface inside one machine.
    DeviceName: "a device name", max 63, is_dns_label, pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
    /// The name of a Kubernetes namespace.
    NamespaceName: "a namespace", max 63, is_dns_label, pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and dashes, beginning and ending with a letter or digit";
    /// The name of any other Kubernetes object.
    ObjectName: "an object name", max 253, is_dns_subdomain,
        pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "lower-case letters, digits, dashes and dots, as in a DNS name";
    /// A DNS domain below which the names of a cluster live.
    DomainName: "a domain", max 253, is_dns_subdomain,
        pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "lower-case letters, digits, dashes and dots, as in a DNS name";
    /// The key of a Kubernetes label, annotation or taint: `example.com/role`.
    LabelKey: "a label key", max 317, is_label_key,
        pattern "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "letters, digits, '-', '_' and '.', at most 63 of them, with an optional DNS prefix and a slash in front";
    /// The value of a Kubernetes label.
    LabelValue: "a label value", max 63, is_label_value, pattern "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";
    /// A MAC address in colon form.
    MacAddress: "a MAC address", max 17, is_mac_address, normalised by str::to_ascii_lowercase, pattern "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$",
        "six pairs of hexadecimal digits with colons between them";
    /// The serial number a guest sees on a disk.
    DiskSerial: "a disk serial", max 256, is_disk_serial, pattern "^[A-Za-z0-9_.+-]+$",
        "letters, digits, '_', '.', '+' and '-'";
    /// An identifier of an oVirt object.
    Uuid: "an identifier", max 36, is_uuid, normalised by str::to_ascii_lowercase, pattern "^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$",
        "a UUID such as 11111111-2222-3333-4444-555555555555";
}

impl MacAddress {
    /// Whether it stands for a group of interfaces.
    pub fn is_multicast(&self) -> bool {
        u8::from_str_radix(self.0.get(..2).unwrap_or("0"), 16).is_ok_and(|first| first & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_is_valid_and_explain_what_is_not() {
        assert_eq!(ClusterName::new("demo-1").unwrap().as_str(), "demo-1");
        for bad in ["", "-a", "a-", "A", "a_b", "a.b"] {
            assert!(ClusterName::new(bad).is_err(), "{bad:?} should be refused");
        }
        let long = "a".repeat(64);
        assert!(ClusterName::new(long).unwrap_err().to_string().contains("at most 63"));
        assert!(ObjectName::new("a.b-c").is_ok());
        assert!(ObjectName::new("a..b").is_err());
    }

    #[test]
    fn label_keys_and_values_follow_kubernetes() {
        assert!(LabelKey::new("system/cluster").is_ok());
        assert!(LabelKey::new("topology.kubernetes.io/zone").is_ok());
        assert!(LabelKey::new("a/b/c").is_err());
        assert!(LabelKey::new("/b").is_err());
        assert!(LabelValue::new("").is_ok());
        assert!(LabelValue::new("Foo_1.2").is_ok());
        assert!(LabelValue::new("-x").is_err());
    }

    #[test]
    fn serde_refuses_what_the_constructor_refuses() {
        assert!(serde_json::from_str::<ClusterName>("\"ok\"").is_ok());
        let error = serde_json::from_str::<ClusterName>("\"Not Ok\"").unwrap_err().to_string();
        assert!(error.contains("a cluster name must be"), "{error}");
    }
}
