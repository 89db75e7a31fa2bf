//! URLs as Go reads them.

use std::collections::BTreeMap;

use crate::{gonet::parse_address, gotext::quote};

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// The text it was read from.
    pub text: String,
    /// The scheme, in lower case.
    pub scheme: String,
    /// The host with its port.
    pub host: String,
    /// The query, as written.
    pub raw_query: String,
    /// What follows the scheme when it is no path.
    pub opaque: String,
    path: Vec<u8>,
    raw_path: String,
}

/// Which part of a URL an escape is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
}

/// Reads a URL as it comes with a request: absolute, or an absolute path, without a fragment.
pub(crate) fn parse_request(text: &str) -> Result<Url, String> {
    parse(text, true).map_err(|problem| format!("parse {}: {problem}", quote(text)))
}

/// Reads any URL, also relative ones.
pub(crate) fn parse_any(text: &str) -> Result<Url, String> {
    let (front, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse(front, false).map_err(|problem| format!("parse {}: {problem}", quote(front)))?;
    unescape(fragment, Part::Path).map_err(|problem| format!("parse {}: {problem}", quote(text)))?;
    text.clone_into(&mut url.text);
    Ok(url)
}

fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url {
        text: text.to_owned(),
        scheme: String::new(),
        host: String::new(),
        raw_query: String::new(),
        opaque: String::new(),
        path: Vec::new(),
        raw_path: String::new(),
    };
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, mut rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    if let Some((front, query)) = rest.split_once('?') {
        rest = front;
        query.clone_into(&mut url.raw_query);
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let authority_allowed = !url.scheme.is_empty() || (!request && !rest.starts_with("///"));
    if let Some(after) = rest.strip_prefix("//").filter(|_| authority_allowed) {
        let slash = after.find('/').unwrap_or(after.len());
        url.host = parse_authority(&url.scheme, &after[..slash])?;
        rest = &after[slash..];
    }
    url.path = unescape(rest, Part::Path)?;
    if escape_path(&url.path) != rest {
        rest.clone_into(&mut url.raw_path);
    }
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if place > 0 => {}
            b':' if place == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..place], &text[place + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_authority(scheme: &str, authority: &str) -> Result<String, String> {
    let Some(at) = authority.rfind('@') else { return parse_host(scheme, authority) };
    let host = parse_host(scheme, &authority[at + 1..])?;
    let user = &authority[..at];
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user, Part::User)?;
    Ok(host)
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => {
            let Some(close) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
            let port = &host[close + 1..];
            check_port(port)?;
            let name = &host[1..close];
            let zone = name.find("%25").unwrap_or(name.len());
            let mut unescaped = unescape(&name[..zone], Part::Host)?;
            unescaped.extend(unescape(&name[zone..], Part::Zone)?);
            let unescaped = String::from_utf8_lossy(&unescaped).into_owned();
            let address = parse_address(&unescaped).map_err(|problem| format!("invalid host: {problem}"))?;
            if address.ip.is_ipv4() {
                return Err("invalid IP-literal".to_owned());
            }
            return Ok(format!("[{unescaped}]{port}"));
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let Some(first) = host.find(':') {
        let strict = scheme == "http" || scheme == "https";
        let colon = if strict { first } else { host.rfind(':').unwrap_or(first) };
        check_port(&host[colon..])?;
    }
    Ok(String::from_utf8_lossy(&unescape(host, Part::Host)?).into_owned())
}

fn check_port(port: &str) -> Result<(), String> {
    if is_port(port) { Ok(()) } else { Err(format!("invalid port {} after host", quote(port))) }
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(&byte) = bytes.get(place) {
        match byte {
            b'%' => {
                let shown = || {
                    let end = bytes.len().min(place + 3);
                    format!("invalid URL escape {}", quote(&String::from_utf8_lossy(&bytes[place..end])))
                };
                let Some(value) = escaped_byte(&bytes[place..]) else { return Err(shown()) };
                let percent = value == b'%';
                if part == Part::Host && value < 0x80 && !percent {
                    return Err(shown());
                }
                if part == Part::Zone && !percent && value != b' ' && !is_host_byte(value) {
                    return Err(shown());
                }
                out.push(value);
                place += 3;
            }
            b'+' if part == Part::Query => {
                out.push(b' ');
                place += 1;
            }
            _ => {
                if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !is_host_byte(byte) {
                    let shown = quote(&char::from(byte).to_string());
                    return Err(format!("invalid character {shown} in host name"));
                }
                out.push(byte);
                place += 1;
            }
        }
    }
    Ok(out)
}

/// The byte that a text begins with as an escape such as `%2F`.
pub(crate) fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

fn escape_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for &byte in path {
        if is_path_byte(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend(
                [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
            );
        }
    }
    out
}

impl Url {
    /// The host without its port.
    pub(crate) fn hostname(&self) -> &str {
        self.split_host().0
    }

    /// The port; empty when there is none.
    pub(crate) fn port(&self) -> &str {
        self.split_host().1
    }

    fn split_host(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(':') {
            Some(colon) if is_port(&self.host[colon..]) => (&self.host[..colon], &self.host[colon + 1..]),
            _ => (self.host.as_str(), ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }

    /// The path with what has to be escaped escaped.
    pub(crate) fn escaped_path(&self) -> String {
        let valid = |byte: u8| is_path_byte(byte) || b"!$&'()*+,;=:@[]%".contains(&byte);
        if !self.raw_path.is_empty() && self.raw_path.bytes().all(valid) {
            return self.raw_path.clone();
        }
        if self.path == b"*" { "*".to_owned() } else { escape_path(&self.path) }
    }

    /// The values of the query by name; what cannot be read is left out.
    pub(crate) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let read = |text: &str| {
            unescape(text, Part::Query).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        for pair in self.raw_query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (read(key), read(value)) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_refused_like_go_does() {
        for (text, problem) in [
            ("foo", "invalid URI for request"),
            ("", "empty url"),
            (":a", "missing protocol scheme"),
            ("http://a b/", "invalid character \" \" in host name"),
            ("http://a:x/", "invalid port \":x\" after host"),
            ("/%zz", "invalid URL escape \"%zz\""),
            ("http://[1.2.3.4]/", "invalid IP-literal"),
        ] {
            assert_eq!(parse_request(text).unwrap_err(), format!("parse {text:?}: {problem}"));
        }
        let url = parse_any("https://u:p@[::1]:80/path with spaces/?k1=a&k2=b&k2=c#frag").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host.as_str(), url.hostname(), url.port()),
            ("https", "[::1]:80", "::1", "80")
        );
        assert_eq!(url.escaped_path(), "/path%20with%20spaces/");
        assert_eq!(url.query()["k2"], ["b", "c"]);
        assert_eq!(parse_request("mailto:a@b").unwrap().opaque, "a@b");
    }
}
