//! What must not leave a cluster in an archive: secrets are taken out of objects and of logs before anything is written.
//!
//! Rather too much is taken out than too little. What is taken out leaves how long it was, never a part of it.

use serde_json::{Map, Value};

/// The keys under which objects hold what machines boot with, credentials, or copies of whole objects. Everything below
/// them goes, whatever it is made of.
const HIDDEN: [&str; 19] = [
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
    "inline",
    "headers",
    "extraheaders",
    "httpheaders",
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
                if is_hidden(key) && !value.is_null() { hide(value) } else { walk(value) }
            }
        }
        Value::Array(all) => {
            let mut after_flag = false;
            for value in all {
                let is_flag = value.as_str().is_some_and(is_secret_flag);
                match value {
                    Value::String(text) if after_flag && !text.starts_with("--") => hide(value),
                    _ => walk(value),
                }
                after_flag = is_flag;
            }
        }
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
        ["token", "password", "secret", "private_key", "authorization"].iter().any(|word| name.contains(word))
    });
    if named && let Some(value) = map.get_mut("value") {
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

/// Takes the secrets out of a text such as a log: private keys, tokens of service accounts, of kubeadm and of machines, values
/// of arguments that are called after secrets, and what lets somebody in at a URL.
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
        scrub_line(&without_url_secrets(&without_arguments(line)), &mut clean);
    }
    clean
}

/// Whether an argument of a command is followed by a secret: `--token`, `--client-secret`.
fn is_secret_flag(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with("--")
        && ["token", "password", "passwd", "secret"].iter().any(|secret| word.ends_with(secret))
}

/// A line without the values of such arguments, behind a `=` or as a word of their own.
fn without_arguments(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find("--") {
        let (before, flag) = rest.split_at(start);
        clean.push_str(before);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let (name, after) = flag.split_at(flag.find(|letter| !is_part(letter)).unwrap_or(flag.len()));
        clean.push_str(name);
        rest = after;
        let Some(value) = after.strip_prefix(['=', ' ']).filter(|_| is_secret_flag(name)) else { continue };
        clean.push_str(&after[..1]);
        rest = value;
        let length = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
            _ if value.starts_with("--") => 0,
            _ => value.find(char::is_whitespace).unwrap_or(value.len()),
        };
        if length > 0 {
            clean.push_str(&removed(length));
            rest = &value[length..];
        }
    }
    clean + rest
}

/// A line whose URLs say neither who asks nor what for: signatures of object stores are in queries.
fn without_url_secrets(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find("://") {
        let (before, from) = rest.split_at(start + 3);
        clean.push_str(before);
        let ends = |letter: char| letter.is_whitespace() || "\"'`<>\\".contains(letter);
        let (url, after) = from.split_at(from.find(ends).unwrap_or(from.len()));
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        match authority.rsplit_once('@') {
            Some((user, host)) => clean.extend([removed(user.len()).as_str(), "@", host]),
            None => clean.push_str(authority),
        }
        match path.split_once('?') {
            Some((path, query)) => clean.extend([path, "?", removed(query.len()).as_str()]),
            None => clean.push_str(path),
        }
        rest = after;
    }
    clean + rest
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
        // What an equals sign or a slash joins to a token goes with it.
        if after_bearer || word.split(['=', '/']).any(is_token) {
            clean.push_str(&removed(word.len()));
        } else {
            clean.push_str(word);
        }
        after_bearer = word.eq_ignore_ascii_case("bearer");
        rest = after;
    }
    clean.push_str(rest);
}

/// Whether a word is a token: the three parts of a signed one, the two of ours, or those of kubeadm.
fn is_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let alphanumeric =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    match parts.as_slice() {
        [head, _] | [head, _, _] if head.starts_with("eyJ") => true,
        [id, secret] if id.len() == 6 && secret.len() == 16 => alphanumeric(id) && alphanumeric(secret),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_bootstrap::tokens::{Bearer, LONGEST};
    use trellis_bootstrap::{Bundle, Names};
    use trellis_model::Cluster;
    use trellis_model::names::{MachineName, PoolName};

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
    fn everything_below_a_hidden_key_goes() {
        let object = json!({
            "kind": "MachinePool",
            "spec": {
                "userData": {"parts": [{"text": "hunter2"}], "size": 7},
                "source": {"http": {"url": "https://ann:hunter2@images.example:8443/u.img?sig=hunter2",
                    "extraHeaders": ["X-Auth: hunter2"], "headers": {"x-auth": "hunter2"}}},
                "ca": {"inline": "hunter2"},
                "env": [{"name": "API_TOKEN", "value": ["hunter2"]}],
                "command": ["join", "--token", "hunter2", "--password=hunter2", "--name", "kept"],
                "token": null,
            },
        });
        let clean = redact(&object);
        assert!(!clean.to_string().contains("hunter2"), "{clean}");
        let url = clean["spec"]["source"]["http"]["url"].as_str().unwrap();
        assert!(
            url.starts_with("https://<removed, 11 characters>@images.example:8443/u.img?<removed"),
            "{url}"
        );
        assert_eq!(clean["spec"]["command"][5], "kept");
        assert_eq!(clean["spec"]["token"], Value::Null);
    }

    #[test]
    fn our_own_tokens_are_known() {
        let name = MachineName::new("m0").unwrap();
        let (rng, now) = (&mut rand::rng(), jiff::Timestamp::UNIX_EPOCH);
        let bundle = Bundle::new(&Names::of(&cluster()), rng, now).unwrap();
        let bearer = Bearer::Machine { name, pool: PoolName::new("masters").unwrap() };
        let token = bundle.token_key().unwrap().issue(bearer, LONGEST, rng, now);
        let tag = token.expose().rsplit('.').next().unwrap();
        for line in ["refused {} from m0", "token={}", "url /config/{}", "\"{}\","] {
            let clean = scrub(&line.replace("{}", token.expose()));
            assert!(!clean.contains(tag) && !clean.contains("eyJ"), "{clean}");
        }
    }

    fn cluster() -> Cluster {
        let spec = json!({"platform": {"kubevirt": {}}});
        Cluster {
            name: "blue".parse().unwrap(),
            namespace: None,
            spec: serde_json::from_value(spec).unwrap(),
        }
    }

    #[test]
    fn arguments_and_urls_lose_what_lets_somebody_in() {
        let log = "run --password='hunter2 hunter2' --v=2 --token=abcdef.0123456789abcdef --discovery-token hunter2\n\
                   get \"https://ann:hunter2@registry.example/v2/?key=hunter2&x=1\" 200 https://plain.example/a?\n\
                   --client-secret --name kept --token";
        let clean = scrub(log);
        for secret in ["hunter2", "0123456789abcdef"] {
            assert!(!clean.contains(secret), "{secret} is in {clean}");
        }
        for kept in
            ["--v=2", "registry.example/v2/", "\" 200 https://plain.example/a?", "--name kept --token"]
        {
            assert!(clean.contains(kept), "{kept} is not in {clean}");
        }
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
