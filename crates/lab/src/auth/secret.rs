//! Texts that must never be printed.

use std::fmt;

/// A text that is secret: a token, a private key, a file that holds one. It is never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever has to send or store it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True for the same text, in a time that does not tell how much of it is right.
    pub fn matches(&self, other: &[u8]) -> bool {
        same(self.0.as_bytes(), other)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

/// Compares two byte strings in a time that depends on their lengths only.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_but_compared() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert!(secret.matches(b"hunter2"));
        assert!(!secret.matches(b"hunter3") && !secret.matches(b"hunter"));
    }
}
