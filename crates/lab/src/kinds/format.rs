//! The forms texts have to have, with the sentences the real server writes when they do not.
//!
//! Each check answers with one sentence per rule that is broken, none when all is well.

use std::net::{IpAddr, Ipv4Addr};

/// What is wrong with a text.
pub(crate) type Sentences = Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// The sentence about a text that is too long, as most checks write it.
pub(crate) fn max_characters(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn max_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// The sentence about a text that does not match.
pub(crate) fn no_match(what: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{what} (regex used for validation is '{pattern}')");
    }
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{what} (e.g. {}regex used for validation is '{pattern}')", quoted.join(" or "))
}

/// The sentence about a number outside of its range.
pub(crate) fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn ends_well(text: &str, good: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(&good) && text.bytes().next_back().is_some_and(&good)
}

fn small_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub(crate) fn is_label_form(text: &str) -> bool {
    ends_well(text, small_or_digit) && text.bytes().all(|byte| byte == b'-' || small_or_digit(byte))
}

/// Labels joined by dots.
pub(crate) fn is_subdomain_form(text: &str) -> bool {
    text.split('.').all(is_label_form)
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
pub(crate) fn is_key_form(text: &str) -> bool {
    ends_well(text, |byte| byte.is_ascii_alphanumeric())
        && text.bytes().all(|byte| matches!(byte, b'-' | b'_' | b'.') || byte.is_ascii_alphanumeric())
}

/// A label of the domain name system (RFC 1123), in small letters.
pub(crate) fn dns1123_label(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 63 {
        wrong.push(max_characters(63));
    }
    if !is_label_form(text) {
        wrong.push(if is_subdomain_form(text) {
            "must not contain dots".to_owned()
        } else {
            no_match(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// The same, with the sentence about its length that newer checks write.
pub(crate) fn short_name(text: &str) -> Sentences {
    let mut wrong = dns1123_label(text);
    if text.len() > 63 {
        wrong[0] = max_bytes(63);
    }
    wrong
}

/// A subdomain (RFC 1123), in small letters.
pub(crate) fn dns1123_subdomain(text: &str) -> Sentences {
    subdomain(text, max_characters(253))
}

/// The same, with the sentence about its length that newer checks write.
pub(crate) fn long_name(text: &str) -> Sentences {
    subdomain(text, max_bytes(253))
}

fn subdomain(text: &str, too_long: String) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 253 {
        wrong.push(too_long);
    }
    if !is_subdomain_form(text) {
        wrong.push(no_match(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    wrong
}

/// A subdomain in letters of any case.
pub(crate) fn long_name_caseless(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 253 {
        wrong.push(max_bytes(253));
    }
    if !is_subdomain_form(&text.to_ascii_lowercase()) {
        wrong.push(no_match(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["Example.com"],
        ));
    }
    wrong
}

/// A subdomain whose labels may have underscores.
pub(crate) fn dns1123_subdomain_with_underscore(text: &str) -> Sentences {
    const PATTERN: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
    let label = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        ends_well(part, small_or_digit)
            && part.bytes().all(|byte| matches!(byte, b'-' | b'_') || small_or_digit(byte))
    };
    let mut wrong = Sentences::new();
    if text.len() > 253 {
        wrong.push(max_characters(253));
    }
    if !text.split('.').all(label) {
        wrong.push(no_match(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            PATTERN,
            &["example.com"],
        ));
    }
    wrong
}

/// A label that starts with a letter (RFC 1035).
pub(crate) fn dns1035_label(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 63 {
        wrong.push(max_characters(63));
    }
    if !(is_label_form(text) && text.starts_with(|first: char| first.is_ascii_lowercase())) {
        wrong.push(no_match(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// A subdomain after `*.`.
pub(crate) fn wildcard_subdomain(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 253 {
        wrong.push(max_characters(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain_form) {
        wrong.push(no_match(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    wrong
}

/// The key of a label: a name, with a domain before a slash or without.
pub(crate) fn qualified_name(text: &str) -> Sentences {
    const WHAT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut wrong = Sentences::new();
    let mut parts = text.split('/');
    let (prefix, name) = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => (None, name),
        (Some(prefix), Some(name), None) => (Some(prefix), name),
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                no_match(WHAT, KEY, &EXAMPLES)
            )];
        }
    };
    match prefix {
        Some("") => wrong.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            wrong.extend(long_name(prefix).into_iter().map(|sentence| format!("prefix part {sentence}")));
        }
        None => {}
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", max_bytes(63)));
    }
    if !is_key_form(name) {
        wrong.push(format!("name part {}", no_match(WHAT, KEY, &EXAMPLES)));
    }
    wrong
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 63 {
        wrong.push(max_bytes(63));
    }
    if !text.is_empty() && !is_key_form(text) {
        wrong.push(no_match(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A name that is safe as a part of a path.
pub(crate) fn path_segment(text: &str) -> Sentences {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// The start of a name that is safe as a part of a path.
pub(crate) fn path_segment_prefix(text: &str) -> Sentences {
    ["/", "%"]
        .into_iter()
        .filter(|&bad| text.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// An identifier of the language C.
pub(crate) fn c_identifier(text: &str) -> Sentences {
    let mut bytes = text.bytes();
    let good = bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    if good {
        return Sentences::new();
    }
    vec![no_match(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The number of a port.
pub(crate) fn port_number(port: i64) -> Sentences {
    if (1..=65535).contains(&port) { Sentences::new() } else { vec![between(1, 65535)] }
}

/// The name of a port.
pub(crate) fn port_name(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 15 {
        wrong.push(max_characters(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte == b'-' || small_or_digit(byte)) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// A user or group of Unix.
pub(crate) fn unix_id(id: i64) -> Sentences {
    if (0..=i64::from(i32::MAX)).contains(&id) {
        Sentences::new()
    } else {
        vec![between(0, i64::from(i32::MAX))]
    }
}

/// A share in percent.
pub(crate) fn percent(text: &str) -> Sentences {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Sentences::new();
    }
    vec![no_match(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of a header of HTTP.
pub(crate) fn http_header(text: &str) -> Sentences {
    if !text.is_empty() && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric()) {
        return Sentences::new();
    }
    vec![no_match(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// The name of an environment variable.
pub(crate) fn env_name(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.is_empty() {
        wrong.push("environment variable name must be non-empty".to_owned());
    }
    if text.bytes().any(|byte| byte == b'=' || !(b' '..=b'~').contains(&byte)) {
        wrong.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    wrong
}

/// A key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Sentences {
    let mut wrong = Sentences::new();
    if text.len() > 253 {
        wrong.push(max_characters(253));
    }
    let good = |byte: u8| matches!(byte, b'-' | b'_' | b'.') || byte.is_ascii_alphanumeric();
    if text.is_empty() || !text.bytes().all(good) {
        wrong.push(no_match(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if text == "." || text == ".." {
        wrong.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

/// The reason of a condition.
pub(crate) fn condition_reason(text: &str) -> Sentences {
    let body = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    let good = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().next_back().is_some_and(body)
        && text.bytes().all(|byte| matches!(byte, b',' | b':') || body(byte));
    if good {
        return Sentences::new();
    }
    vec![no_match(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}

/// An address, also one whose numbers have leading zeros.
pub(crate) fn sloppy_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip);
    }
    let (before, four) = match text.rfind(':') {
        Some(colon) => text.split_at(colon + 1),
        None => ("", text),
    };
    let mut bytes = Vec::with_capacity(4);
    for part in four.split('.') {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        bytes.push(
            part.trim_start_matches('0')
                .parse::<u8>()
                .or_else(|error| if part.bytes().all(|byte| byte == b'0') { Ok(0) } else { Err(error) }),
        );
    }
    let [Ok(a), Ok(b), Ok(c), Ok(d)] = bytes.as_slice() else { return None };
    let four = Ipv4Addr::new(*a, *b, *c, *d);
    if before.is_empty() { Some(IpAddr::V4(four)) } else { format!("{before}{four}").parse().ok() }
}

/// The address as it is written, an IPv4 address inside of IPv6 as IPv4.
pub(crate) fn canonical_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// What is wrong with an address of a field that is older than the strict rules.
pub(crate) fn legacy_ip(text: &str) -> Sentences {
    let Some(ip) = sloppy_ip(text) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    if text.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if canonical_ip(ip) != ip {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    Sentences::new()
}

/// What is wrong with an address of a newer field.
pub(crate) fn strict_ip(text: &str) -> Sentences {
    let wrong = legacy_ip(text);
    if let (true, Some(ip)) = (wrong.is_empty(), sloppy_ip(text)) {
        let canonical = ip.to_string();
        if canonical != text {
            return vec![format!("must be in canonical form ({canonical:?})")];
        }
    }
    wrong
}

/// A network: its address as written, and how many bits count.
pub(crate) fn sloppy_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let ip = sloppy_ip(ip)?;
    if bits.is_empty() || bits.len() > 6 || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bits: u32 = bits.parse().ok()?;
    let limit = if ip.is_ipv4() { 32 } else { 128 };
    (bits <= limit).then(|| (ip, u8::try_from(bits).unwrap_or_default()))
}

/// The network an address belongs to.
pub(crate) fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or_default();
            IpAddr::V4((u32::from(four) & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or_default();
            IpAddr::V6((u128::from(six) & mask).into())
        }
    }
}

/// What is wrong with a network of a field that is older than the strict rules.
pub(crate) fn legacy_cidr(text: &str) -> Sentences {
    let Some((ip, bits)) = sloppy_cidr(text) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    let (address, length) = text.split_once('/').unwrap_or_default();
    let zeros = length.len() > 1 && length.starts_with('0');
    if address.parse::<IpAddr>().is_err() || zeros {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    }
    if canonical_ip(ip) != ip {
        return vec!["must not have an IPv4-mapped IPv6 address".to_owned()];
    }
    if masked(ip, bits) != ip {
        return vec!["must not have bits set beyond the prefix length".to_owned()];
    }
    Sentences::new()
}

/// What is wrong with a network of a newer field.
pub(crate) fn strict_cidr(text: &str) -> Sentences {
    let wrong = legacy_cidr(text);
    if let (true, Some((ip, bits))) = (wrong.is_empty(), sloppy_cidr(text)) {
        let canonical = format!("{}/{bits}", masked(ip, bits));
        if canonical != text {
            return vec![format!("must be in canonical form ({canonical:?})")];
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_like_the_server_reads_them() {
        assert_eq!(legacy_ip("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(legacy_ip("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
        assert!(legacy_ip("FE80:0:0:0:0:0:0:0abc").is_empty());
        assert_eq!(strict_ip("FE80:0:0:0:0:0:0:0abc"), ["must be in canonical form (\"fe80::abc\")"]);
        assert_eq!(legacy_cidr("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(legacy_cidr("10.0.0.0/08"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(masked("10.1.2.3".parse().unwrap(), 0), "0.0.0.0".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn names_may_be_hostile() {
        for text in ["", "é", "-", "a-", "A", "a..b", "\u{0}", &"a".repeat(300)] {
            assert!(!dns1123_subdomain(text).is_empty(), "{text}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert!(qualified_name("example.com/a_b.C").is_empty());
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
    }
}
