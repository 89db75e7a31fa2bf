//! What has to be the same on both servers, and where it is not.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::support::client::Answer;

/// Names for values that differ by nature, such as uids: the first one seen is the first, and so on.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    fn name(&mut self, kind: &str, value: &str) -> String {
        let count = self.0.len() + 1;
        self.0.entry(value.to_owned()).or_insert_with(|| format!("<{kind} {count}>")).clone()
    }

    /// The text with all named values replaced.
    fn replace(&self, text: &str) -> String {
        // The longest first, since one may be the beginning of another.
        let mut pairs: Vec<_> = self.0.iter().filter(|(value, _)| value.len() > 7).collect();
        pairs.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        pairs.into_iter().fold(text.to_owned(), |text, (value, name)| text.replace(value.as_str(), name))
    }
}

/// Names of one server, each kind of value counted by itself.
#[derive(Debug, Default)]
pub(crate) struct Known {
    uids: Names,
    versions: Names,
    addresses: Names,
}

impl Known {
    /// An answer without what differs by nature.
    pub(crate) fn normal(&mut self, answer: &Answer) -> Value {
        let mut body = answer.json();
        if body["kind"] == "Status" {
            self.status(&mut body);
        } else {
            self.object(&mut body);
        }
        let mut warnings: Vec<String> = answer.warnings();
        warnings.sort();
        serde_json::json!({"status": answer.status, "warnings": warnings, "body": body})
    }

    fn object(&mut self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        rename(metadata, "uid", |text| self.uids.name("uid", text));
        rename(metadata, "resourceVersion", |text| self.versions.name("version", text));
        for field in ["creationTimestamp", "deletionTimestamp"] {
            rename(metadata, field, |_| "<time>".to_owned());
        }
        if let Some(Value::Array(entries)) = metadata.get_mut("managedFields") {
            for entry in entries.iter_mut() {
                entry.as_object_mut().map(|entry| entry.remove("time"));
            }
            // They are sorted by time, which may differ by a second.
            entries.sort_by_key(|entry| {
                ["manager", "operation", "apiVersion", "subresource"].map(|key| entry[key].to_string())
            });
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            rename(spec, "clusterIP", |text| self.addresses.name("address", text));
            if let Some(Value::Array(addresses)) = spec.get_mut("clusterIPs") {
                for address in addresses {
                    *address = self.addresses.name("address", address.as_str().unwrap_or_default()).into();
                }
            }
        }
    }

    fn status(&mut self, status: &mut Value) {
        if let Some(details) = status.get_mut("details").and_then(Value::as_object_mut) {
            rename(details, "uid", |text| self.uids.name("uid", text));
        }
        let causes = status["details"]["causes"].as_array().map_or(0, Vec::len);
        if let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") {
            for cause in causes.iter_mut() {
                if let Some(cause) = cause.as_object_mut() {
                    rename(cause, "message", |text| self.message(text));
                }
            }
            // Some of them come in the order of a map.
            causes.sort_by_key(ToString::to_string);
        }
        if let Some(status) = status.as_object_mut() {
            rename(status, "message", |text| {
                let message = self.message(text);
                if causes < 2 {
                    return message;
                }
                let mut parts: Vec<&str> =
                    message.split([',', '\n']).map(|part| part.trim_matches([' ', '[', ']'])).collect();
                parts.sort_unstable();
                parts.join(", ")
            });
        }
    }

    /// A sentence without what differs by nature.
    fn message(&self, text: &str) -> String {
        const UNDECLARED: &str = "field not declared in schema";
        let text = self.uids.replace(text);
        let text = without_versions(&self.addresses.replace(&text));
        if text.starts_with("failed to create typed patch object") && text.contains(UNDECLARED) {
            // The real server looks at fields in no particular order, and stops at the first one it does not know.
            return format!("{}: {UNDECLARED}", text.split(": ").next().unwrap_or_default());
        }
        // A whole object in a sentence is the object again, and has times and versions in it.
        match (text.find("Invalid value: \"{"), text.rfind("}\": ")) {
            (Some(start), Some(end)) if start < end => {
                format!("{}Invalid value: <object>: {}", &text[..start], &text[end + "}\": ".len()..])
            }
            _ => text,
        }
    }
}

/// A text in which no object tells its version.
fn without_versions(text: &str) -> String {
    const MARK: &str = "resourceVersion\":\"";
    let mut rest = text;
    let mut plain = String::new();
    while let Some(place) = rest.find(MARK) {
        let (before, after) = rest.split_at(place + MARK.len());
        plain.push_str(before);
        rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    plain + rest
}

fn rename(fields: &mut Map<String, Value>, field: &str, name: impl FnOnce(&str) -> String) {
    if let Some(Value::String(text)) = fields.get_mut(field) {
        *text = name(text);
    }
}

/// Where two values differ, as `place: one, not the other`.
pub(crate) fn differences(lab: &Value, real: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(lab, real, &mut String::new(), &mut found);
    found
}

fn visit(lab: &Value, real: &Value, place: &mut String, found: &mut Vec<String>) {
    let length = place.len();
    match (lab, real) {
        (Value::Object(labs), Value::Object(reals)) => {
            let mut keys: Vec<&String> = labs.keys().chain(reals.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                place.push('/');
                place.push_str(key);
                match (labs.get(key), reals.get(key)) {
                    (Some(lab), Some(real)) => visit(lab, real, place, found),
                    (Some(lab), None) => found.push(format!("{place}: lab has {lab}, real has nothing")),
                    (None, Some(real)) => found.push(format!("{place}: lab has nothing, real has {real}")),
                    (None, None) => {}
                }
                place.truncate(length);
            }
        }
        (Value::Array(labs), Value::Array(reals)) if labs.len() == reals.len() => {
            for (number, (lab, real)) in labs.iter().zip(reals).enumerate() {
                place.push('/');
                place.push_str(&number.to_string());
                visit(lab, real, place, found);
                place.truncate(length);
            }
        }
        _ if lab == real => {}
        _ => found.push(format!("{place}: lab has {lab}, real has {real}")),
    }
}
