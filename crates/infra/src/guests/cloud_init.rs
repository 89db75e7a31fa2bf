//! cloud-init, as far as it decides what a guest runs.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::boot::Boot;
use crate::object::Object as _;

/// The largest user data that is unpacked.
const LARGEST: u64 = 16 << 20;

/// What cloud-init finds in the user data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    /// What it does.
    pub boot: Boot,
    /// What it cannot use, as it says so at the console. It goes on without.
    pub warnings: Vec<String>,
}

impl Data {
    /// Data that is no text at all.
    pub(super) fn unreadable() -> Self {
        let warning = "__init__.py[WARNING]: Unhandled non-multipart (text/x-not-multipart) userdata";
        Self { warnings: vec![warning.to_owned()], ..Self::default() }
    }
}

/// User data as text, unpacked where it is compressed; nothing where it is no text.
pub(super) fn unpacked(data: &[u8]) -> Option<String> {
    if data.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        GzDecoder::new(data).take(LARGEST).read_to_end(&mut text).ok()?;
        return String::from_utf8(text).ok();
    }
    String::from_utf8(data.to_vec()).ok()
}

/// Reads user data of any form cloud-init knows: a configuration, a script, or several of them in MIME parts.
pub(super) fn parse(text: &str) -> Data {
    let mut data = Data::default();
    take(&mut data, text);
    data
}

fn take(data: &mut Data, text: &str) {
    let boot = &mut data.boot;
    let text = text.trim_start_matches('\u{feff}');
    let first = text.lines().next().unwrap_or_default();
    if first.starts_with("#!") {
        boot.commands.push(text.to_owned());
    } else if first.starts_with("#cloud-config") || first.starts_with("## template: jinja") {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(config) => configure(boot, &config),
            Err(error) => {
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default();
                data.warnings.push(format!("util.py[WARNING]: Failed loading yaml blob. {first}"));
            }
        }
    } else if first.starts_with("#cloud-boothook") {
        boot.commands.push(text.to_owned());
    } else if first.to_lowercase().starts_with("content-type: multipart") || first.starts_with("MIME-Version")
    {
        for part in mime_parts(text) {
            take(data, &part);
        }
    }
    // Anything else is nothing cloud-init knows: it says so in its log and goes on.
}

/// The bodies of a multi-part message.
fn mime_parts(text: &str) -> Vec<String> {
    let Some(boundary) = text.split("boundary=").nth(1).and_then(|rest| rest.split(['\n', ';']).next())
    else {
        return Vec::new();
    };
    let fence = format!("--{}", boundary.trim().trim_matches('"'));
    let text = text.replace("\r\n", "\n");
    let parts = text.split(&fence).skip(1).filter(|part| !part.starts_with("--"));
    parts
        .filter_map(|part| {
            let (head, body) = part.trim_start_matches('\n').split_once("\n\n")?;
            if head.to_lowercase().contains("content-transfer-encoding: base64") {
                let compact: String = body.split_whitespace().collect();
                let bytes = STANDARD.decode(compact).ok()?;
                return unpacked(&bytes);
            }
            Some(body.to_owned())
        })
        .collect()
}

/// Does what a `#cloud-config` says.
fn configure(boot: &mut Boot, config: &Value) {
    for field in ["hostname", "fqdn"] {
        if let Some(name) = config[field].as_str() {
            name.clone_into(&mut boot.hostname);
        }
    }
    for file in config.list("/write_files") {
        let (path, content) = (file.text("/path"), file.text("/content"));
        let mut bytes = decoded(content, file.text("/encoding"));
        if file.flag("/append")
            && let Some(there) = boot.files.get(path)
        {
            bytes = [there.as_slice(), &bytes].concat();
        }
        boot.files.insert(path.to_owned(), bytes);
    }
    for field in ["/bootcmd", "/runcmd"] {
        boot.commands.extend(config.list(field).iter().map(command));
    }
    let keys = |value: &Value| -> Vec<String> {
        value.list("/ssh_authorized_keys").iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let default = config.text("/user").to_owned();
    let default =
        if default.is_empty() { config.text("/system_info/default_user/name").to_owned() } else { default };
    let default = if default.is_empty() { "cloud-user".to_owned() } else { default };
    boot.users.entry(default).or_default().extend(keys(config));
    for user in config.list("/users") {
        let name = user.as_str().unwrap_or(user.text("/name"));
        if !name.is_empty() && name != "default" {
            boot.users.entry(name.to_owned()).or_default().extend(keys(user));
        }
    }
}

/// A command in the form of a shell's line.
fn command(entry: &Value) -> String {
    match entry {
        Value::String(line) => line.clone(),
        Value::Array(words) => {
            let words =
                words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), ToOwned::to_owned));
            words.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// The bytes of a file of `write_files`.
fn decoded(content: &str, encoding: &str) -> Vec<u8> {
    let encoding = encoding.to_lowercase();
    let mut bytes = content.as_bytes().to_vec();
    if encoding.contains("b64") || encoding.contains("base64") {
        let compact: String = content.split_whitespace().collect();
        bytes = STANDARD.decode(compact).unwrap_or(bytes);
    }
    if encoding.starts_with("gz") || encoding.contains("gzip") {
        let mut plain = Vec::new();
        if GzDecoder::new(bytes.as_slice()).take(LARGEST).read_to_end(&mut plain).is_ok() {
            bytes = plain;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_commands_and_users_are_read() {
        let data = parse(
            "#cloud-config\nhostname: w1\nssh_authorized_keys: [k1]\nusers: [default, {name: a, ssh_authorized_keys: [k2]}]\n\
             write_files:\n- path: /a\n  content: hello\n- path: /b\n  encoding: b64\n  content: aGk=\n\
             runcmd:\n- [systemctl, enable, --now, kubelet]\n- kubeadm join x:6443\n",
        );
        let boot = data.boot;
        assert_eq!(boot.hostname, "w1");
        assert_eq!(boot.text("/a"), Some("hello"));
        assert_eq!(boot.text("/b"), Some("hi"));
        assert_eq!(boot.commands, ["systemctl enable --now kubelet", "kubeadm join x:6443"]);
        assert!(boot.users["a"].contains("k2") && boot.users["cloud-user"].contains("k1"));
    }

    #[test]
    fn scripts_and_parts_are_read() {
        let script = parse("#!/bin/sh\necho hi\n");
        assert_eq!(script.boot.commands.len(), 1);
        let parts = "Content-Type: multipart/mixed; boundary=\"XX\"\nMIME-Version: 1.0\n\n--XX\nContent-Type: text/x-shellscript\n\n#!/bin/sh\nls\n--XX\nContent-Type: text/cloud-config\n\n#cloud-config\nruncmd: [a]\n--XX--\n";
        assert_eq!(parse(parts).boot.commands.len(), 2);
        // One part that cannot be read does not spoil the others.
        let half = parse(&parts.replace("[a]", "[a"));
        assert_eq!((half.boot.commands.len(), half.warnings.len()), (1, 1));
        assert!(half.warnings[0].contains("Failed loading yaml blob"), "{:?}", half.warnings);
    }
}
