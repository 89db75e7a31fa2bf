//! The formats of text that schemas can ask for.

use std::sync::LazyLock;

use crate::{
    gonet,
    goregex::GoRegex,
    gotime::{self, Layout},
    gourl,
};

use super::schema::Kind;

/// A format that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number of 32 bits.
    Float,
    /// A number of 64 bits.
    Double,
    /// A form of text.
    Text(TextFormat),
}

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

/// The format by its name, for a schema of this type; none when it is not checked there.
pub(crate) fn checked(name: &str, kind: &Kind, int_or_string: bool) -> Option<Format> {
    if name.is_empty() {
        return None;
    }
    match kind {
        _ if int_or_string => TextFormat::named(name).map(Format::Text),
        Kind::Any | Kind::String => TextFormat::named(name).map(Format::Text),
        Kind::Integer => match name {
            "int32" => Some(Format::Int32),
            "int64" => Some(Format::Int64),
            _ => None,
        },
        Kind::Number => match name {
            "float" => Some(Format::Float),
            "double" => Some(Format::Double),
            _ => None,
        },
        _ => None,
    }
}

impl TextFormat {
    /// The format by its name; dashes make no difference.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name: String = name.chars().filter(|one| *one != '-').collect();
        Some(match name.as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    /// True when the text has this form.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Uri => gourl::parse_request(text).is_ok(),
            Self::Email => gonet::is_mail(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && gonet::parse_ip(text).is_some(),
            Self::Ipv6 => text.contains(':') && gonet::parse_address(text).is_ok_and(|address| !address.zone),
            Self::Cidr => gonet::parse_cidr(text).is_some(),
            Self::Mac => gonet::is_mac(text),
            Self::Uuid => is_uuid(text, None),
            Self::Uuid3 => is_uuid(text, Some(b'3')),
            Self::Uuid4 => is_uuid(text, Some(b'4')),
            Self::Uuid5 => is_uuid(text, Some(b'5')),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => text.len() == 11 && is_ssn(text.as_bytes()),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Self::RgbColor => RGB_COLOR.as_ref().is_ok_and(|regex| regex.is_match(text)),
            Self::Byte => is_base64(text),
            Self::Password => true,
            Self::Date => gotime::parse_time(text, Layout::Date).is_ok(),
            Self::Duration => parse_duration(text).is_ok(),
            Self::DateTime => is_date_time(text),
            Self::ShortName => text.len() <= 63 && is_label(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(is_label),
        }
    }
}

static HOSTNAME: LazyLock<Result<GoRegex, String>> = LazyLock::new(|| {
    GoRegex::new(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)",
        r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z\p{L}]){2,63})$"
    ))
});

static RGB_COLOR: LazyLock<Result<GoRegex, String>> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    GoRegex::new(&format!(r"^rgb\({part},{part},{part}\)$"))
});

fn is_hostname(text: &str) -> bool {
    HOSTNAME.as_ref().is_ok_and(|regex| regex.is_match(text))
        && text.len() <= 255
        && text.split('.').all(|part| part.len() <= 63)
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !text.is_empty()
        && text.bytes().all(|byte| inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().next_back().is_some_and(inner)
}

/// Five groups of hexadecimal digits, each dash optional.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let bytes = text.as_bytes();
    let mut place = 0;
    for (group, length) in [8_usize, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 && bytes.get(place) == Some(&b'-') {
            place += 1;
        }
        let Some(digits) = bytes.get(place..place + length) else { return false };
        let variant = group == 3 && matches!(version, Some(b'4' | b'5'));
        if !digits.iter().all(u8::is_ascii_hexdigit)
            || (group == 2 && version.is_some_and(|version| digits[0] != version))
            || (variant && !b"89abAB".contains(&digits[0]))
        {
            return false;
        }
        place += length;
    }
    place == bytes.len()
}

fn without_space_and_dash(text: &str) -> String {
    text.chars().filter(|one| !matches!(one, '-' | ' ' | '\t' | '\n' | '\x0c' | '\r')).collect()
}

fn digit(byte: u8) -> u32 {
    u32::from(byte.wrapping_sub(b'0'))
}

fn is_isbn10(text: &str) -> bool {
    let text = without_space_and_dash(text);
    let bytes = text.as_bytes();
    let [front @ .., last] = bytes else { return false };
    if front.len() != 9 || !front.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X')
    {
        return false;
    }
    let sum: u32 = front.iter().zip(1..).map(|(byte, weight)| weight * digit(*byte)).sum();
    let check = if *last == b'X' { 10 } else { digit(*last) };
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = without_space_and_dash(text);
    let bytes = text.as_bytes();
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 =
        bytes[..12].iter().zip([1, 3].into_iter().cycle()).map(|(byte, weight)| weight * digit(*byte)).sum();
    digit(bytes[12]) == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let Ok(number) = std::str::from_utf8(&digits) else { return false };
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| number.starts_with(prefix));
    let known = match number.len() {
        13 => starts(&["4"]),
        14 => starts(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => starts(&["34", "37", "2131", "1800"]),
        16 => starts(&["4", "51", "52", "53", "54", "55", "6011", "65", "35"]),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, byte)| {
            let value = digit(*byte) * if place % 2 == 1 { 2 } else { 1 };
            if value >= 10 { value % 10 + 1 } else { value }
        })
        .sum();
    known && sum.is_multiple_of(10)
}

fn is_ssn(bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(place, byte)| match place {
        3 | 6 => matches!(byte, b'-' | b' '),
        _ => byte.is_ascii_digit(),
    })
}

fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    !bytes.is_empty()
        && bytes.len().is_multiple_of(4)
        && padding <= 2
        && bytes[..bytes.len() - padding]
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte))
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    if gotime::parse_time(date, Layout::Date).is_err() {
        return false;
    }
    let bytes = time.as_bytes();
    let two = |place: usize, most: u8| {
        matches!(bytes.get(place..place + 2), Some([tens, ones])
            if tens.is_ascii_digit() && ones.is_ascii_digit() && (tens - b'0') * 10 + (ones - b'0') <= most)
    };
    if !(two(0, 23) && bytes.get(2) == Some(&b':') && two(3, 59) && bytes.get(5) == Some(&b':') && two(6, 59))
    {
        return false;
    }
    let mut rest = &time[8..];
    // Any one character may stand in front of the fraction.
    let mut characters = rest.chars();
    characters.next();
    let digits = characters.as_str().bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && !rest.starts_with(['+', '-']) {
        rest = &characters.as_str()[digits..];
    }
    rest == "z"
        || matches!(rest.as_bytes(), [b'+' | b'-', a, b, b':', c, d]
            if [a, b, c, d].into_iter().all(u8::is_ascii_digit))
}

/// Reads a duration of the notation of Go, or words such as `3 days`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    if let Ok(nanos) = gotime::parse_duration(text) {
        return Ok(nanos);
    }
    let failure = || format!("unable to parse {text} as duration");
    let (mut total, mut found) = (0_i64, false);
    let mut rest = text;
    while let Some(start) = rest.find(|one: char| one.is_ascii_digit()) {
        rest = &rest[start..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = rest[digits..].trim_start_matches([' ', '\t', '\n', '\x0c', '\r']);
        let letters =
            after.find(|one: char| !(one.is_ascii_alphabetic() || one == 'µ')).unwrap_or(after.len());
        if letters == 0 {
            rest = &rest[digits..];
            continue;
        }
        let factor: i64 = rest[..digits].parse().map_err(|_| failure())?;
        let unit = after[..letters].to_lowercase();
        for (variants, nanos) in UNITS {
            for (place, variant) in variants.iter().enumerate() {
                if (place == variants.len() - 1 && unit.starts_with(variant)) || unit == *variant {
                    found = true;
                    total = total.wrapping_add(factor.wrapping_mul(nanos));
                }
            }
        }
        rest = &after[letters..];
    }
    if found { Ok(total) } else { Err(failure()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_they_name() {
        for (name, good, bad) in [
            ("date-time", "2014-12-15T19:30:20.000Z", "2014-12-15 19:30:20"),
            ("datetime", "2014-12-15t19:30:20+01:00", "2014-12-15T24:30:20Z"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "3 days", "three"),
            ("duration", "1h30m", ""),
            ("uuid", "123E4567-e89b12d3-a456-426614174000", "123e4567"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
            ("byte", "aGVsbG8=", "aGVsbG8"),
            ("ipv4", "10.01.2.3", "::1"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("email", "a@b.example", "a"),
            ("hostname", "a.example", "-a.example"),
            ("uri", "https://example.com/a", "a"),
            ("isbn", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-22-3333", "111223333"),
            ("hexcolor", "#FFF", "#FFFF"),
            ("rgbcolor", "rgb(255, 1,2)", "rgb(256,1,2)"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "A.b"),
        ] {
            let format = TextFormat::named(name).unwrap();
            assert!(format.accepts(good), "{name} {good}");
            assert!(!format.accepts(bad), "{name} {bad}");
        }
        assert_eq!(TextFormat::named("foo"), None);
        assert_eq!(checked("int64", &Kind::String, false), None);
    }
}
