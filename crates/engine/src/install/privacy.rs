//! What must not leave a cluster in an archive: secrets are taken out of objects and of logs before anything is written.
//!
//! Rather too much is taken out than too little. What is taken out leaves how long it was, never a part of it.

use serde_json::{Map, Value};

/// The keys under which objects hold what machines boot with, credentials, or copies of whole objects.
const HIDDEN: [&str; 15] = [
    "userdata",
    "userdatabase64",
    "networkdata",
    "networkdatabase64",
    "token",
    "bearertoken",
    "password",
    "passwd",
    "kubeconfig",
    "clientkeydata",
    "privatekey",
    "pullsecret",
    "accesskey",
    "secretkey",
    "kubectl.kubernetes.io/lastappliedconfiguration",
];

/// Takes the secrets out of an object.
pub fn redact(object: &Value) -> Value {
    let mut object = object.clone();
    if matches!(object["kind"].as_str(), Some("Secret")) || object.get("stringData").is_some() {
        for part in ["data", "stringData"] {
            if let Some(Value::Object(data)) = object.get_mut(part) {
                data.values_mut().for_each(hide);
            }
        }
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    walk(&mut object);
    object
}

fn walk(value: &mut Value) {
    match value {
        Value::Object(map) => {
            hide_named_values(map);
            for (key, value) in map.iter_mut() {
                if is_hidden(key) && value.is_string() { hide(value) } else { walk(value) }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(walk),
        Value::String(text) => {
            let clean = scrub(text);
            if clean != *text {
                *text = clean;
            }
        }
        _ => {}
    }
}

/// Hides the value of an environment variable or parameter whose name says what it is.
fn hide_named_values(map: &mut Map<String, Value>) {
    let named = map.get("name").and_then(Value::as_str).is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        ["token", "password", "secret", "private_key"].iter().any(|word| name.contains(word))
    });
    if named && let Some(value @ Value::String(_)) = map.get_mut("value") {
        hide(value);
    }
}

fn is_hidden(key: &str) -> bool {
    let key: String = key.chars().filter(|letter| !matches!(letter, '-' | '_')).collect();
    HIDDEN.contains(&key.to_ascii_lowercase().as_str())
}

fn hide(value: &mut Value) {
    let length = match value.as_str() {
        Some(text) => text.len(),
        None => value.to_string().len(),
    };
    *value = removed(length).into();
}

/// What stands where something was taken out.
fn removed(length: usize) -> String {
    format!("<removed, {length} characters>")
}

/// Takes the secrets out of a text such as a log: private keys, tokens of service accounts, of kubeadm and of machines.
pub fn scrub(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut in_key = false;
    for line in text.split_inclusive('\n') {
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY") {
            in_key = true;
            clean.push_str("<removed: a private key>\n");
        }
        if in_key {
            in_key = !(line.contains("-----END") && line.contains("PRIVATE KEY"));
            continue;
        }
        scrub_line(line, &mut clean);
    }
    clean
}

fn scrub_line(line: &str, clean: &mut String) {
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '+' | '/' | '=');
    let mut rest = line;
    let mut after_bearer = false;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|letter| !is_part(letter)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        clean.push_str(before);
        if after_bearer || is_token(word) {
            clean.push_str(&removed(word.len()));
        } else {
            clean.push_str(word);
        }
        after_bearer = word.eq_ignore_ascii_case("bearer");
        rest = after;
    }
    clean.push_str(rest);
}

/// Whether a word is a token: three parts of a signed one, or the two of kubeadm.
fn is_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let alphanumeric =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    match parts.as_slice() {
        [head, _, _] if head.starts_with("eyJ") => true,
        [id, secret] if id.len() == 6 && secret.len() == 16 => alphanumeric(id) && alphanumeric(secret),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_of_a_secret_is_left() {
        let secret = json!({
            "kind": "Secret",
            "metadata": {"name": "s", "managedFields": [{}], "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"a\":\"aHVudGVyMg==\"}}",
            }},
            "data": {"a": "aHVudGVyMg=="}, "stringData": {"b": "hunter2"},
        });
        let text = redact(&secret).to_string();
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
        assert!(
            text.contains("\"a\":\"<removed, 12 characters>\"") && !text.contains("managedFields"),
            "{text}"
        );
    }

    #[test]
    fn what_machines_boot_with_and_credentials_are_taken_out_of_any_object() {
        let vm = json!({
            "kind": "VirtualMachine",
            "spec": {"volumes": [{"cloudInitNoCloud": {"userData": "#cloud-config hunter2", "secretRef": {"name": "kept"}}}],
                "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "PORT", "value": "80"}],
                "users": {"client-key-data": "hunter2", "size": 3}},
        });
        let clean = redact(&vm);
        assert!(!clean.to_string().contains("hunter2"), "{clean}");
        assert_eq!(clean["spec"]["volumes"][0]["cloudInitNoCloud"]["secretRef"]["name"], "kept");
        assert_eq!(
            (&clean["spec"]["env"][1]["value"], &clean["spec"]["users"]["size"]),
            (&json!("80"), &json!(3))
        );
    }

    #[test]
    fn logs_lose_keys_and_tokens_and_nothing_else() {
        let log = "kubelet started on 10.0.0.1:6443\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----\n\
                   join --token abcdef.0123456789abcdef now\nAuthorization: Bearer hunter2hunter2\nuser eyJhbGciOi.eyJzdWIi.c2ln end\n\
                   image registry.example/a.b:v1.34.2";
        let clean = scrub(log);
        for secret in ["MHcCAQ", "0123456789abcdef", "hunter2", "c2ln"] {
            assert!(!clean.contains(secret), "{secret} is in {clean}");
        }
        for kept in
            ["kubelet started on 10.0.0.1:6443\n", " now\n", " end\n", "image registry.example/a.b:v1.34.2"]
        {
            assert!(clean.contains(kept), "{kept} is not in {clean}");
        }
    }
}
