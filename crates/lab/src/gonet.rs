//! Addresses as Go reads them: IP addresses, networks, hardware addresses and mail addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::gotext::quote;

/// An address and the zone it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Whether a zone was written behind it.
    pub zone: bool,
}

/// Reads an IP address strictly; the error is the sentence of `netip.ParseAddr`.
pub(crate) fn parse_address(text: &str) -> Result<Address, String> {
    let failure = |(problem, place): (&str, &str)| {
        let at = if place.is_empty() { String::new() } else { format!(" (at {})", quote(place)) };
        format!("ParseAddr({}): {problem}{at}", quote(text))
    };
    for byte in text.bytes() {
        match byte {
            b'.' => return parse_v4(text).map(Address::from).map_err(failure),
            b':' => return parse_v6(text).map_err(failure),
            b'%' => return Err(failure(("missing IPv6 address", ""))),
            _ => {}
        }
    }
    Err(failure(("unable to parse IP", "")))
}

impl From<Ipv4Addr> for Address {
    fn from(ip: Ipv4Addr) -> Self {
        Self { ip: ip.into(), zone: false }
    }
}

type Complaint<'t> = (&'static str, &'t str);

fn parse_v4(text: &str) -> Result<Ipv4Addr, Complaint<'_>> {
    let mut octets = [0_u8; 4];
    let (mut value, mut place, mut digits) = (0_u32, 0_usize, 0_usize);
    for (offset, character) in text.char_indices() {
        let rest = &text[offset..];
        match character {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + (u32::from(character) - u32::from('0'));
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            '.' => {
                // .1.2.3 and 1..2.3 and 1.2.3.
                if offset == 0 || offset == text.len() - 1 || text.as_bytes()[offset - 1] == b'.' {
                    return Err(("IPv4 field must have at least one digit", rest));
                }
                if place == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                octets[place] = u8::try_from(value).unwrap_or(u8::MAX);
                place += 1;
                value = 0;
                digits = 0;
            }
            _ => return Err(("unexpected character", rest)),
        }
    }
    if place < 3 {
        return Err(("IPv4 address too short", ""));
    }
    octets[3] = u8::try_from(value).unwrap_or(u8::MAX);
    Ok(octets.into())
}

fn parse_v6(text: &str) -> Result<Address, Complaint<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, _)) => (address, true),
        None => (text, false),
    };
    let mut groups = [0_u16; 8];
    let (mut count, mut gap) = (0_usize, None);
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok(Address { ip: Ipv6Addr::UNSPECIFIED.into(), zone });
        }
    }
    while count < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        if digits > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        let group = u16::from_str_radix(&rest[..digits], 16).unwrap_or_default();
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if gap.is_none() && count != 6 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if count + 2 > 8 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            let [a, b, c, d] = parse_v4(rest)?.octets();
            groups[count] = u16::from_be_bytes([a, b]);
            groups[count + 1] = u16::from_be_bytes([c, d]);
            count += 2;
            rest = "";
            break;
        }
        groups[count] = group;
        count += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(("multiple :: in address", rest));
            }
            gap = Some(count);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match (count < 8, gap) {
        (true, None) => return Err(("address string too short", "")),
        (false, Some(_)) => return Err(("the :: must expand to at least one field of zeros", "")),
        (true, Some(start)) => {
            let missing = 8 - count;
            groups.copy_within(start..count, start + missing);
            groups[start..start + missing].fill(0);
        }
        (false, None) => {}
    }
    Ok(Address { ip: Ipv6Addr::from(groups).into(), zone })
}

/// Reads an IP address leniently: leading zeros are fine, zones are not.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    for byte in text.bytes() {
        match byte {
            b'.' => return parse_v4(&without_leading_zeros(text)?).ok().map(IpAddr::from),
            b':' => break,
            _ => {}
        }
    }
    let tail = text.rfind(':').map_or("", |colon| &text[colon + 1..]);
    let text = if tail.contains('.') {
        let head = &text[..text.len() - tail.len()];
        format!("{head}{}", without_leading_zeros(tail)?)
    } else {
        text.to_owned()
    };
    parse_address(&text).ok().filter(|address| !address.zone).map(|address| address.ip)
}

fn without_leading_zeros(text: &str) -> Option<String> {
    let octets: Vec<String> = text
        .split('.')
        .map(|octet| {
            let digits =
                octet.len() <= 3 && !octet.is_empty() && octet.bytes().all(|byte| byte.is_ascii_digit());
            digits
                .then(|| octet.trim_start_matches('0'))
                .map(|short| if short.is_empty() { "0" } else { short }.to_owned())
        })
        .collect::<Option<_>>()?;
    Some(octets.join("."))
}

/// Reads a network leniently.
pub(crate) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let ip = parse_ip(address)?;
    if bits.is_empty() || bits.len() > 3 || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let length: u8 = bits.parse().ok()?;
    (length <= address_bits(ip)).then_some((ip, length))
}

/// How many bits an address has.
pub(crate) fn address_bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// True for an address of the fourth version in the clothes of the sixth.
pub(crate) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Reads a network strictly; the error is the sentence of `netip.ParsePrefix`.
pub(crate) fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let failure = |problem: &str| Err(format!("netip.ParsePrefix({}): {problem}", quote(text)));
    let Some(slash) = text.rfind('/') else { return failure("no '/'") };
    let address = match parse_address(&text[..slash]) {
        Ok(address) => address,
        Err(problem) => return failure(&problem),
    };
    if address.zone {
        return failure("IPv6 zones cannot be present in a prefix");
    }
    let bits = &text[slash + 1..];
    let strange = bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9');
    match bits.parse::<i64>() {
        Ok(length) if !strange => match u8::try_from(length) {
            Ok(length) if length <= address_bits(address.ip) => Ok((address.ip, length)),
            _ => failure("prefix length out of range"),
        },
        _ => failure(&format!("bad bits after slash: {}", quote(bits))),
    }
}

/// True for a hardware address of 6, 8 or 20 bytes.
pub(crate) fn is_mac(text: &str) -> bool {
    let hex =
        |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bytes = if let Some(separator @ (b':' | b'-')) = text.as_bytes().get(2) {
        let parts: Vec<&str> = text.split(char::from(*separator)).collect();
        if !parts.iter().all(|part| hex(part, 2)) {
            return false;
        }
        parts.len()
    } else {
        let parts: Vec<&str> = text.split('.').collect();
        if !parts.iter().all(|part| hex(part, 4)) {
            return false;
        }
        parts.len() * 2
    };
    matches!(bytes, 6 | 8 | 20)
}

/// True for one mail address, with or without a name in front of it.
pub(crate) fn is_mail(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if let Some(before) = text.strip_suffix('>') {
        let Some(open) = before.rfind('<') else { return false };
        return is_display_name(before[..open].trim()) && is_mail_spec(&before[open + 1..]);
    }
    is_mail_spec(text)
}

fn is_display_name(text: &str) -> bool {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.strip_suffix('"').is_some_and(is_quoted);
    }
    text.split([' ', '\t']).all(|word| word.split('.').all(|part| part.is_empty() || is_atom(part)))
}

fn is_mail_spec(text: &str) -> bool {
    let Some(at) = text.rfind('@') else { return false };
    let (local, domain) = (text[..at].trim(), text[at + 1..].trim());
    let local = match local.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').is_some_and(|inner| !inner.is_empty() && is_quoted(inner)),
        None => is_dot_atom(local),
    };
    let domain = match domain.strip_prefix('[') {
        Some(literal) => literal
            .strip_suffix(']')
            .is_some_and(|literal| parse_ip(literal.strip_prefix("IPv6:").unwrap_or(literal)).is_some()),
        None => is_dot_atom(domain),
    };
    local && domain
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(is_atom)
}

fn is_atom(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|one| {
            one.is_ascii_alphanumeric()
                || "!#$%&'*+-/=?^_`{|}~".contains(one)
                || (!one.is_ascii() && one != '\u{fffd}')
        })
}

fn is_quoted(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(one) = characters.next() {
        match one {
            '"' | '\0'..='\x08' | '\n'..='\x1f' | '\x7f' => return false,
            '\\' if characters.next().is_none() => return false,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_refused_like_go_does() {
        for (text, problem) in [
            ("x", "unable to parse IP"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("01.2.3.4", "IPv4 field has octet with leading zero"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            (":::1", "each colon-separated field must have at least one digit (at \":1\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("1:2", "address string too short"),
        ] {
            assert_eq!(parse_address(text).unwrap_err(), format!("ParseAddr({text:?}): {problem}"));
        }
        for text in ["::", "::1", "2001:db8::abcd", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "0.0.0.0", "1::"] {
            assert_eq!(parse_address(text).unwrap().ip, text.parse::<IpAddr>().unwrap());
        }
        assert_eq!(parse_ip("010.1.2.3"), Some(IpAddr::from([10, 1, 2, 3])));
        assert_eq!(parse_cidr("10.0.0.0/33"), None);
        assert_eq!(
            parse_prefix("10.0.0.0/08").unwrap_err(),
            "netip.ParsePrefix(\"10.0.0.0/08\"): bad bits after slash: \"08\""
        );
    }

    #[test]
    fn hardware_and_mail_addresses() {
        assert!(
            is_mac("01:23:45:67:89:ab") && is_mac("0123.4567.89ab") && !is_mac("01:23:45") && !is_mac("é:")
        );
        assert!(
            is_mail("a@b.example")
                && is_mail("A B <a@b>")
                && is_mail("\"x y\"@b")
                && !is_mail("a@")
                && !is_mail("a b@c")
        );
    }
}
