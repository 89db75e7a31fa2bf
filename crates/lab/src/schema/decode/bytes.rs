//! Bytes as base64, with the failures of Go's decoder.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Writes bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads bytes. Line ends are ignored, as are odd bits at the end; the failure is the message.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let corrupt = |at: usize| format!("illegal base64 data at input byte {at}");
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut digits = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')).peekable();
    while digits.peek().is_some() {
        let mut four = 0_u32;
        let mut count = 0;
        let mut padded = false;
        while count < 4 {
            let Some((at, byte)) = digits.next() else {
                // The place of a failure at the end is that of the first digit that has no company.
                if count == 0 {
                    return Ok(out);
                }
                return Err(corrupt(text.len() - count));
            };
            if let Some(six) = six_bits(byte) {
                four = four << 6 | six;
                count += 1;
                continue;
            }
            if byte != b'=' {
                return Err(corrupt(at));
            }
            match count {
                0 | 1 => return Err(corrupt(at)),
                2 => match digits.next() {
                    None => return Err(corrupt(text.len())),
                    Some((_, b'=')) => {}
                    Some((at, _)) => return Err(corrupt(at.saturating_sub(1))),
                },
                _ => {}
            }
            if let Some((at, _)) = digits.next() {
                return Err(corrupt(at));
            }
            padded = true;
            break;
        }
        let bytes = (four << (6 * (4 - count))).to_be_bytes();
        let length = if padded { count - 1 } else { 3 };
        out.extend_from_slice(&bytes[1..=length]);
    }
    Ok(out)
}

fn six_bits(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_like_the_real_server_does() {
        assert_eq!(decode("aGVsbG8=").unwrap(), b"hello");
        assert_eq!(decode("aGVs\nbG8=\n").unwrap(), b"hello");
        assert_eq!(decode("").unwrap(), b"");
        assert_eq!(decode("aB==").unwrap(), b"h");
        for (text, at) in
            [("hello!", 5), ("abc", 0), ("a", 0), ("aa", 0), ("aGVsbG8", 4), ("aa=a", 2), ("aaaa=", 4)]
        {
            assert_eq!(decode(text), Err(format!("illegal base64 data at input byte {at}")), "{text}");
        }
    }
}
