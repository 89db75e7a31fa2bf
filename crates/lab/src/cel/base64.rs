//! Bytes in base64.

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Letters of URLs, padded, with whatever bits are left over at the end.
const URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Reads base64 with the letters of URLs.
pub(crate) fn decode_url(text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.chars().filter(|one| !matches!(one, '\r' | '\n')).collect();
    URL.decode(&text).map_err(|error| {
        let place = match error {
            DecodeError::InvalidByte(place, _) => place,
            _ => text.len() / 4 * 4,
        };
        format!("illegal base64 data at input byte {place}")
    })
}
