//! Ignition, as far as it decides what a guest runs: files, units, and configurations that lead to others.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha512};

use super::boot::{Boot, BootError};
use crate::object::Object as _;
use crate::object::hex;

/// How deep configurations may lead to others.
const DEEPEST: usize = 10;

/// Something that gets what is behind a URL, with the certificates to trust beyond the system's, as PEM.
pub trait Fetch: Sync {
    /// The bytes behind a URL. Waits for servers that are not there yet, as Ignition does.
    fn fetch<'f>(
        &'f self,
        url: &'f str,
        headers: &'f [(String, String)],
        authorities: &'f [Vec<u8>],
    ) -> BoxFuture<'f, Result<Vec<u8>, String>>;
}

/// Reads a configuration.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, BootError> {
    let config: Value =
        serde_json::from_slice(bytes).map_err(|error| BootError::Ignition(error.to_string()))?;
    match config.text("/ignition/version").split('.').next() {
        Some("2" | "3") => Ok(config),
        Some("") | None => Err(BootError::Ignition("there is no ignition.version".to_owned())),
        Some(other) => Err(BootError::Ignition(format!("version {other} is not supported"))),
    }
}

/// Carries a configuration out: gets what it leads to, and does what all of them say.
pub async fn carry_out(config: &Value, fetch: &dyn Fetch) -> Result<Boot, BootError> {
    let merged = resolved(config, fetch, 0).await?;
    let mut boot = Boot::default();
    let authorities = authorities_of(&merged, fetch).await?;
    for file in merged.list("/storage/files") {
        let contents = &file["contents"];
        let mut bytes = match contents["source"].as_str() {
            Some(_) => content(contents, fetch, &authorities).await?,
            None => Vec::new(),
        };
        for part in file.list("/append") {
            bytes.extend(content(part, fetch, &authorities).await?);
        }
        boot.files.insert(file.text("/path").to_owned(), bytes);
    }
    let mut units = BTreeMap::new();
    for unit in merged.list("/systemd/units") {
        let mut text = unit.text("/contents").to_owned();
        for dropin in unit.list("/dropins") {
            text += "\n";
            text += dropin.text("/contents");
        }
        if unit.flag("/enabled")
            || unit.flag("/enable")
            || text.contains("[Install]") && unit["enabled"].is_null()
        {
            units.insert(unit.text("/name").to_owned(), text);
        }
    }
    boot.units = units;
    if let Some(name) = boot.text("/etc/hostname").map(|name| name.trim().to_owned()) {
        boot.hostname = name;
    }
    for user in merged.list("/passwd/users") {
        let keys = user.list("/sshAuthorizedKeys").iter().filter_map(Value::as_str).map(ToOwned::to_owned);
        boot.users.entry(user.text("/name").to_owned()).or_default().extend(keys);
    }
    Ok(boot)
}

/// The configuration with everything it leads to merged in.
fn resolved<'f>(
    config: &'f Value,
    fetch: &'f dyn Fetch,
    depth: usize,
) -> BoxFuture<'f, Result<Value, BootError>> {
    Box::pin(async move {
        if depth > DEEPEST {
            return Err(BootError::Ignition("configurations lead to each other without end".to_owned()));
        }
        let authorities = authorities_of(config, fetch).await?;
        let replace = &config["ignition"]["config"]["replace"];
        if replace["source"].is_string() {
            let bytes = content(replace, fetch, &authorities).await?;
            return resolved(&parse(&bytes)?, fetch, depth + 1).await;
        }
        let mut merged = Value::Null;
        // Version 2 calls it `append`.
        let sources =
            config.list("/ignition/config/merge").iter().chain(config.list("/ignition/config/append"));
        for source in sources {
            let bytes = content(source, fetch, &authorities).await?;
            merge(&mut merged, resolved(&parse(&bytes)?, fetch, depth + 1).await?);
        }
        merge(&mut merged, config.clone());
        Ok(merged)
    })
}

/// Merges a configuration into another: lists by path or name, later ones winning.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            for value in from {
                let same = |one: &Value| {
                    ["path", "name"]
                        .iter()
                        .any(|field| one[*field].is_string() && one[*field] == value[*field])
                };
                match into.iter_mut().find(|one| same(one)) {
                    Some(old) => merge(old, value),
                    None => into.push(value),
                }
            }
        }
        (into, from) => *into = from,
    }
}

/// The certificates a configuration trusts, as PEM.
async fn authorities_of(config: &Value, fetch: &dyn Fetch) -> Result<Vec<Vec<u8>>, BootError> {
    let mut authorities = Vec::new();
    for authority in config.list("/ignition/security/tls/certificateAuthorities") {
        authorities.push(content(authority, fetch, &[]).await?);
    }
    Ok(authorities)
}

/// The bytes of a resource: a `data:` URL, or what has to be fetched; checked against its hash.
async fn content(resource: &Value, fetch: &dyn Fetch, authorities: &[Vec<u8>]) -> Result<Vec<u8>, BootError> {
    let url = resource.text("/source");
    let failed = |why: String| BootError::Fetch { url: shown(url), why };
    let mut bytes = if let Some(data) = url.strip_prefix("data:") {
        inline(data).ok_or_else(|| failed("it is no data URL".to_owned()))?
    } else {
        let headers: Vec<(String, String)> = resource
            .list("/httpHeaders")
            .iter()
            .map(|header| (header.text("/name").to_owned(), header.text("/value").to_owned()))
            .collect();
        fetch.fetch(url, &headers, authorities).await.map_err(failed)?
    };
    if resource.text("/compression") == "gzip" {
        use std::io::Read as _;
        let mut plain = Vec::new();
        let read = flate2::read::GzDecoder::new(bytes.as_slice()).take(64 << 20).read_to_end(&mut plain);
        read.map_err(|error| failed(error.to_string()))?;
        bytes = plain;
    }
    let expected = resource.text("/verification/hash");
    let sum = match expected.split_once('-') {
        Some(("sha512", _)) => Some(format!("sha512-{}", hex(&Sha512::digest(&bytes)))),
        Some(("sha256", _)) => Some(format!("sha256-{}", hex(&Sha256::digest(&bytes)))),
        _ => None,
    };
    if sum.is_some_and(|sum| sum != expected) {
        return Err(failed("its hash is not the one expected".to_owned()));
    }
    Ok(bytes)
}

/// A URL for people: what is after the `?` may be secret, and data is long.
fn shown(url: &str) -> String {
    if url.starts_with("data:") {
        "the data URL".to_owned()
    } else {
        url.split('?').next().unwrap_or_default().to_owned()
    }
}

/// The bytes of a `data:` URL, after its scheme.
fn inline(data: &str) -> Option<Vec<u8>> {
    let (head, body) = data.split_once(',')?;
    let plain = percent_decoded(body)?;
    if head.ends_with(";base64") { STANDARD.decode(plain).ok() } else { Some(plain) }
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(&byte) = bytes.get(place) {
        if byte == b'%' {
            let code = std::str::from_utf8(bytes.get(place + 1..place + 3)?).ok()?;
            plain.push(u8::from_str_radix(code, 16).ok()?);
            place += 3;
        } else {
            plain.push(byte);
            place += 1;
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Web(BTreeMap<&'static str, Value>);

    impl Fetch for Web {
        fn fetch<'f>(
            &'f self,
            url: &'f str,
            _: &'f [(String, String)],
            _: &'f [Vec<u8>],
        ) -> BoxFuture<'f, Result<Vec<u8>, String>> {
            Box::pin(async move {
                self.0.get(url).map(|value| value.to_string().into_bytes()).ok_or_else(|| "404".to_owned())
            })
        }
    }

    #[tokio::test]
    async fn what_a_stub_leads_to_is_carried_out() {
        let web = Web(BTreeMap::from([(
            "https://api-int:22623/config/worker",
            json!({
                "ignition": {"version": "3.2.0"},
                "storage": {"files": [{"path": "/etc/hostname", "contents": {"source": "data:,w%31"}}]},
                "systemd": {"units": [{"name": "kubelet.service", "enabled": true, "contents": "ExecStart=kubelet"}]},
            }),
        )]));
        let stub = json!({"ignition": {"version": "3.2.0", "config": {"merge": [{"source": "https://api-int:22623/config/worker"}]}}});
        let boot = carry_out(&stub, &web).await.unwrap();
        assert_eq!(boot.hostname, "w1");
        assert!(boot.units["kubelet.service"].contains("ExecStart=kubelet"));
    }

    #[tokio::test]
    async fn hashes_are_checked_and_missing_things_told() {
        let web = Web(BTreeMap::new());
        let bad = json!({"ignition": {"version": "3.0.0"}, "storage": {"files": [{"path": "/a", "contents": {
            "source": "data:,x", "verification": {"hash": "sha256-00"}}}]}});
        assert!(carry_out(&bad, &web).await.unwrap_err().to_string().contains("hash"));
        let gone = json!({"ignition": {"version": "3.0.0", "config": {"replace": {"source": "http://a/b?token=x"}}}});
        let error = carry_out(&gone, &web).await.unwrap_err().to_string();
        assert!(error.contains("http://a/b") && !error.contains("token"), "{error}");
    }

    #[test]
    fn versions_that_nobody_knows_are_refused() {
        assert!(parse(br#"{"ignition": {"version": "4.0.0"}}"#).is_err());
        assert!(parse(b"{}").is_err());
    }
}
