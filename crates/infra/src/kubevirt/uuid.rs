//! Names made of other names by SHA-1, as KubeVirt makes them.

use sha1::{Digest as _, Sha1};

use crate::object::hex;

/// What the identities of machines are derived from.
const MACHINES: [u8; 16] =
    [0x6a, 0x1a, 0x24, 0xa1, 0x40, 0x61, 0x46, 0x07, 0x8b, 0xf4, 0xa3, 0x96, 0x3d, 0x0c, 0x58, 0x95];

/// How long a label may be.
const LABEL: usize = 63;

/// The firmware's UUID of a machine that has none of its own: a version 5 UUID of its name.
pub fn of_machine(name: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(MACHINES);
    hash.update(name.as_bytes());
    let digest = hash.finalize();
    let mut bytes: Vec<u8> = digest.iter().copied().take(16).collect();
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// A name that fits into a label: longer ones are cut and told apart by a hash.
pub fn label(name: &str) -> String {
    if name.len() <= LABEL {
        return name.to_owned();
    }
    let cut: String = name.chars().take(54).collect();
    format!("{cut}-{}", &hex(&Sha1::digest(name.as_bytes()))[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_derived_from_names() {
        let uuid = of_machine("testvm");
        assert_eq!(uuid, of_machine("testvm"));
        assert_ne!(uuid, of_machine("other"));
        assert_eq!((&uuid[14..15], uuid.len()), ("5", 36));
        assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"));
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        assert_eq!(label("short"), "short");
        let (one, other) = (label(&"a".repeat(70)), label(&"a".repeat(71)));
        assert_eq!(one.len(), 63);
        assert_ne!(one, other);
    }
}
