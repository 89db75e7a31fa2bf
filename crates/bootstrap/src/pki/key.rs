//! Keys that follow from a source of chance, so that a seed gives the same ones again.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::CryptoRng;
use rcgen::{KeyPair, PublicKeyData as _};

use super::PkiError;
use crate::secret::Secret;

/// The beginning of a P-256 key in PKCS 8, up to the 32 bytes of its private half.
const BEFORE_PRIVATE: &[u8] = &[
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01,
    0x04, 0x20,
];
/// What stands between the halves; the 65 bytes of the public one end the key.
const BEFORE_PUBLIC: &[u8] = &[0xa1, 0x44, 0x03, 0x42, 0x00];
/// How often a number that is no key is thrown away. One in four billion is none.
const ATTEMPTS: usize = 8;

/// A new P-256 key.
pub(super) fn generate(rng: &mut dyn CryptoRng) -> Result<KeyPair, PkiError> {
    for _ in 0..ATTEMPTS {
        let mut private = [0; 32];
        rng.fill_bytes(&mut private);
        let Ok(key) = PrivateKey::from_private_key(&ECDH_P256, &private) else { continue };
        let public = key.compute_public_key().map_err(|_| PkiError::Crypto("no public key".to_owned()))?;
        let der = [BEFORE_PRIVATE, &private, BEFORE_PUBLIC, public.as_ref()].concat();
        return KeyPair::try_from(der.as_slice()).map_err(|error| PkiError::Crypto(error.to_string()));
    }
    Err(PkiError::Crypto("the source of chance gives no keys".to_owned()))
}

/// The key as PEM.
pub(super) fn private_pem(key: &KeyPair) -> Secret {
    Secret::new(key.serialize_pem())
}

/// The public half as PEM.
pub(super) fn public_pem(key: &KeyPair) -> String {
    pem("PUBLIC KEY", &key.subject_public_key_info())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + &format!("-----END {label}-----\n")
}
