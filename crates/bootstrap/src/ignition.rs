//! Machines as Ignition configurations, for Flatcar, Fedora CoreOS and RHCOS.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::machine::Config;
use crate::secret::Secret;

/// The version of the specification. Every image of the last years reads it.
const VERSION: &str = "3.4.0";

/// The configuration of a machine.
pub(crate) fn write(config: &Config) -> Secret {
    let hostname = file("/etc/hostname", 0o644, &format!("{}\n", config.hostname));
    let files = config.files.iter().map(|one| file(&one.path, one.mode, one.content.expose()));
    let units: Vec<Value> = config
        .units
        .iter()
        .map(|unit| {
            let mut value = json!({"name": unit.name, "enabled": unit.enabled});
            if let Some(text) = &unit.text {
                value["contents"] = text.as_str().into();
            }
            value
        })
        .collect();
    let document = json!({
        "ignition": {"version": VERSION},
        "passwd": {"users": users(config)},
        "storage": {"files": std::iter::once(hostname).chain(files).collect::<Vec<_>>()},
        "systemd": {"units": units},
    });
    Secret::new(document.to_string())
}

/// A configuration that is replaced by the one at an address.
pub(crate) fn replaced_by(url: &str, authority: &str, headers: &[(&str, &str)]) -> Secret {
    let headers: Vec<Value> =
        headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let document = json!({
        "ignition": {
            "version": VERSION,
            "config": {"replace": {"source": url, "httpHeaders": headers}},
            "security": {"tls": {"certificateAuthorities": [{"source": data_url(authority)}]}},
            // No end: the server may not be there for a while.
            "timeouts": {"httpTotal": 0, "httpResponseHeaders": 10},
        },
    });
    Secret::new(document.to_string())
}

fn users(config: &Config) -> Vec<Value> {
    let users = config.users.iter();
    users.map(|user| json!({"name": user.name, "sshAuthorizedKeys": user.ssh_keys})).collect()
}

fn file(path: &str, mode: u32, content: &str) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": data_url(content)}})
}

/// In base64, where nothing in a content can mean anything.
fn data_url(content: &str) -> String {
    format!("data:;base64,{}", STANDARD.encode(content))
}
