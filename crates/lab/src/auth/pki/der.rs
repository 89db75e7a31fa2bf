//! The little of DER that certificates need.

use jiff::{Timestamp, tz::Offset};

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// A value with its tag and length.
pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    if let Ok(short @ 0..128) = u8::try_from(content.len()) {
        out.push(short);
    } else {
        let bytes = content.len().to_be_bytes();
        let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(0)..];
        // A length has at most eight bytes.
        out.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(content);
    out
}

/// A sequence, set or constructed value of parts that are encoded already.
pub(super) fn constructed(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(tag, &parts.concat())
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    constructed(SEQUENCE, parts)
}

/// A set of values of one type: DER wants them sorted by their encoding.
pub(super) fn set(mut parts: Vec<Vec<u8>>) -> Vec<u8> {
    parts.sort();
    constructed(SET, &parts)
}

/// A number that is not negative, from its big-endian bytes.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let significant = &bytes[start..];
    let mut content = Vec::with_capacity(significant.len() + 1);
    if significant.first().is_none_or(|first| *first >= 0x80) {
        content.push(0);
    }
    content.extend_from_slice(significant);
    tagged(INTEGER, &content)
}

pub(super) fn boolean(value: bool) -> Vec<u8> {
    tagged(BOOLEAN, &[if value { 0xff } else { 0 }])
}

pub(super) fn octets(content: &[u8]) -> Vec<u8> {
    tagged(OCTET_STRING, content)
}

/// A bit string whose bits fill whole bytes.
pub(super) fn bits(content: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], content].concat())
}

/// A list of named bits: bit 0 is the highest of the first byte, trailing zeros are left out.
pub(super) fn named_bits(flags: u16) -> Vec<u8> {
    let mut bytes = [0_u8; 2];
    for bit in 0..16 {
        if flags & (1 << bit) != 0 {
            bytes[bit / 8] |= 0x80 >> (bit % 8);
        }
    }
    let used: &[u8] = if bytes[1] != 0 { &bytes } else { &bytes[..usize::from(bytes[0] != 0)] };
    let unused = used.last().map_or(0, |last| u8::try_from(last.trailing_zeros()).unwrap_or(0));
    tagged(BIT_STRING, &[&[unused], used].concat())
}

pub(super) fn oid(arcs: &[u64]) -> Vec<u8> {
    let mut content = Vec::new();
    let (first, rest) = match arcs {
        [one, two, rest @ ..] => (one * 40 + two, rest),
        _ => (0, arcs),
    };
    for arc in std::iter::once(&first).chain(rest) {
        let mut groups = vec![u8::try_from(arc & 0x7f).unwrap_or(0)];
        let mut left = arc >> 7;
        while left > 0 {
            groups.push(0x80 | u8::try_from(left & 0x7f).unwrap_or(0));
            left >>= 7;
        }
        content.extend(groups.iter().rev());
    }
    tagged(OID, &content)
}

/// A text of a name: the plain alphabet where it is enough, otherwise UTF-8.
pub(super) fn text(value: &str) -> Vec<u8> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
    tagged(if value.bytes().all(plain) { PRINTABLE_STRING } else { UTF8_STRING }, value.as_bytes())
}

/// A moment, in the short form up to the year 2049 as the standard demands.
pub(super) fn time(at: Timestamp) -> Vec<u8> {
    if (1950..2050).contains(&Offset::UTC.to_datetime(at).year()) {
        tagged(UTC_TIME, at.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        tagged(GENERALIZED_TIME, at.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_standard_says() {
        assert_eq!(oid(&[1, 2, 840, 10045, 4, 3, 2]), [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]);
        assert_eq!(unsigned(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(unsigned(&[]), [2, 1, 0]);
        // digitalSignature and keyEncipherment
        assert_eq!(named_bits(0b101), [3, 2, 5, 0xa0]);
        assert_eq!(named_bits(0), [3, 1, 0]);
        assert_eq!(named_bits(1 << 8), [3, 3, 7, 0, 0x80]);
        assert_eq!(tagged(4, &[7; 200])[..4], [4, 0x81, 200, 7]);
        assert_eq!(tagged(4, &[7; 300])[..5], [4, 0x82, 1, 44, 7]);
        assert_eq!(time(Timestamp::UNIX_EPOCH), b"\x17\x0d700101000000Z");
        assert_eq!(text("a*"), b"\x0c\x02a*");
    }
}
