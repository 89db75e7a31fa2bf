//! Sums of bytes, for telling whether what came is what was meant.

use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use super::md5::Md5;
use crate::cdi::names::hex;

/// A checksum that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChecksumError {
    /// There is no colon.
    #[error("invalid checksum format: expected 'algorithm:hash', got: {0}")]
    Format(String),
    /// There is no such algorithm.
    #[error("unsupported checksum algorithm: {0}. Supported algorithms: md5, sha1, sha256, sha512")]
    Algorithm(String),
    /// The digits are too many, too few or none.
    #[error("invalid {algorithm} checksum: expected {expected} hexadecimal characters, got {found}")]
    Digits {
        /// The algorithm.
        algorithm: String,
        /// How many digits it has.
        expected: usize,
        /// How many there were.
        found: usize,
    },
}

/// What bytes have to add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksum {
    algorithm: String,
    digits: String,
}

impl Checksum {
    /// Reads `algorithm:digits`.
    pub(crate) fn parse(text: &str) -> Result<Self, ChecksumError> {
        let (algorithm, digits) =
            text.split_once(':').ok_or_else(|| ChecksumError::Format(text.to_owned()))?;
        let (algorithm, digits) = (algorithm.to_lowercase(), digits.to_lowercase());
        let expected = match algorithm.as_str() {
            "md5" => 32,
            "sha1" => 40,
            "sha256" => 64,
            "sha512" => 128,
            _ => return Err(ChecksumError::Algorithm(algorithm)),
        };
        if digits.len() != expected || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ChecksumError::Digits { algorithm, expected, found: digits.len() });
        }
        Ok(Self { algorithm, digits })
    }

    /// Something that adds up bytes for this.
    pub(crate) fn sum(&self) -> Sum {
        match self.algorithm.as_str() {
            "md5" => Sum::Md5(Md5::default()),
            "sha1" => Sum::Sha1(Sha1::new()),
            "sha512" => Sum::Sha512(Sha512::new()),
            _ => Sum::Sha256(Sha256::new()),
        }
    }

    /// Fails with the words of the real importer where the sum is another.
    pub(crate) fn check(&self, sum: Sum) -> Result<(), String> {
        let found = sum.digits();
        if found == self.digits {
            return Ok(());
        }
        let algorithm = &self.algorithm;
        Err(format!(
            "checksum mismatch: expected {algorithm}:{}, calculated {algorithm}:{found}",
            self.digits
        ))
    }
}

/// Adds up bytes.
#[derive(Debug, Clone)]
pub(crate) enum Sum {
    /// MD5.
    Md5(Md5),
    /// SHA-1.
    Sha1(Sha1),
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-512.
    Sha512(Sha512),
}

impl Sum {
    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(sum) => sum.update(bytes),
            Self::Sha1(sum) => sum.update(bytes),
            Self::Sha256(sum) => sum.update(bytes),
            Self::Sha512(sum) => sum.update(bytes),
        }
    }

    /// The sum in digits.
    pub(crate) fn digits(self) -> String {
        match self {
            Self::Md5(sum) => hex(&sum.finish()),
            Self::Sha1(sum) => hex(&sum.finalize()),
            Self::Sha256(sum) => hex(&sum.finalize()),
            Self::Sha512(sum) => hex(&sum.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standards() {
        for (algorithm, digits) in [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let checksum = Checksum::parse(&format!("{algorithm}:{digits}")).unwrap();
            let mut sum = checksum.sum();
            sum.update(b"a");
            sum.update(b"bc");
            assert_eq!(checksum.check(sum), Ok(()), "{algorithm}");
        }
    }

    #[test]
    fn another_sum_is_told_with_both() {
        let checksum = Checksum::parse(&format!("SHA256:{}", "0".repeat(64))).unwrap();
        let message = checksum.check(checksum.sum()).unwrap_err();
        assert!(message.starts_with("checksum mismatch: expected sha256:0000"), "{message}");
        assert!(message.contains(", calculated sha256:e3b0c442"), "{message}");
    }

    #[test]
    fn what_is_no_checksum_is_refused() {
        assert!(matches!(Checksum::parse("abc"), Err(ChecksumError::Format(_))));
        assert!(matches!(Checksum::parse("crc:abc"), Err(ChecksumError::Algorithm(_))));
        assert!(matches!(Checksum::parse("md5:abc"), Err(ChecksumError::Digits { .. })));
    }
}
