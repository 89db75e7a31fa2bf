//! Who may log in to machines.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::InvalidName;

/// A public SSH key in one line: type, key and an optional comment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SshKey(String);

const KEY_TYPES: &[&str] = &[
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

impl SshKey {
    /// Checks the form and folds white space, so that a key wrapped over two lines is the same key.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let problem = match words.as_slice() {
            [] => "is empty".to_owned(),
            [kind, ..] if kind.starts_with("-----BEGIN") => {
                "must be a public key in one line; this is a PEM block, perhaps even a private key".to_owned()
            }
            [kind, ..] if !KEY_TYPES.contains(kind) => {
                "must begin with a key type such as ssh-ed25519 or ssh-rsa".to_owned()
            }
            [_] => "has a type but no key behind it".to_owned(),
            [_, key, ..] if !is_base64(key) => "must have base64 behind its type".to_owned(),
            _ => return Ok(Self(words.join(" "))),
        };
        Err(InvalidName { what: "an SSH public key", problem })
    }

    /// The key without what stands behind it.
    #[must_use]
    pub fn without_comment(&self) -> Self {
        Self(self.0.split(' ').take(2).collect::<Vec<_>>().join(" "))
    }

    /// The key in one line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len() - body.len() <= 2
        && body.len() >= 16
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

impl fmt::Display for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SshKey {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<SshKey> for String {
    fn from(key: SshKey) -> String {
        key.0
    }
}

impl schemars::JsonSchema for SshKey {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SshKey".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_key_is_the_same_key() {
        let one_line = SshKey::new("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB me@here").unwrap();
        assert_eq!(SshKey::new("  ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB\n   me@here \n").unwrap(), one_line);
    }

    #[test]
    fn what_is_no_public_key_is_refused_without_repeating_it() {
        for bad in ["", "ssh-rsa", "ssh-foo AAAAB3NzaC1yc2EAAAADAQAB", "ssh-rsa not*base64*not*base64"] {
            assert!(SshKey::new(bad).is_err(), "{bad:?}");
        }
        let error = SshKey::new("-----BEGIN OPENSSH PRIVATE KEY----- c2VjcmV0").unwrap_err().to_string();
        assert!(error.contains("private key") && !error.contains("c2VjcmV0"), "{error}");
    }
}
