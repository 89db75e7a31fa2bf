//! Where two JSON values differ, and how a value is shown without giving away secrets.

use serde_json::Value;

/// Fields whose values are never shown.
const HIDDEN: &[&str] = &["template.userData.inline", "template.image.source.http.headers"];

/// A value of a field as people see it: what may hold secrets is hidden.
pub fn shown(path: &str, value: &Value) -> String {
    let mut value = value.clone();
    for hidden in HIDDEN {
        if path == *hidden || path.starts_with(&format!("{hidden}.")) {
            return "(hidden)".to_owned();
        }
        if let Some(below) = hidden.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
            && let Some(secret) = value.pointer_mut(&format!("/{}", below.replace('.', "/")))
        {
            *secret = Value::String("(hidden)".to_owned());
        }
    }
    without_credentials(&match value {
        Value::String(text) => text,
        other => crate::canonical::text(&other),
    })
}

/// Hides what addresses may hold beside the way: `https://user:password@host/image?signature=…`.
pub fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out += before;
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '`'))
            .unwrap_or(after.len());
        let (address, behind) = after.split_at(end);
        // A password may hold a slash: all before the last `@` is hidden, even where that is too much.
        let (before_way, way) = address.split_at(address.find(['?', '#']).unwrap_or(address.len()));
        // The digest of a registry image stands behind an `@` too.
        let (place, digest) = before_way.split_at(before_way.find("@sha").unwrap_or(before_way.len()));
        out += &place.rfind('@').map_or_else(
            || place.to_owned(),
            |at| format!("(hidden){}", place.get(at..).unwrap_or_default()),
        );
        out += digest;
        out += if way.is_empty() { "" } else { "?(hidden)" };
        rest = behind;
    }
    out + rest
}

/// A place where two JSON values differ.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// The dotted path; items of named lists by name, `disks[a].size`.
    pub path: String,
    /// The value on the left, if there is one.
    pub old: Option<Value>,
    /// The value on the right, if there is one.
    pub new: Option<Value>,
}

/// Finds where two JSON values differ, as deep down as possible.
pub fn differences(path: &str, old: &Value, new: &Value, out: &mut Vec<Difference>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = join(key);
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differences(&path, a, b, out),
                    (a, b) => out.push(Difference { path, old: a.cloned(), new: b.cloned() }),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a != b => match (by_name(a), by_name(b)) {
            (Some(by_a), Some(by_b)) => {
                let names: std::collections::BTreeSet<&&str> = by_a.keys().chain(by_b.keys()).collect();
                let before = out.len();
                for name in names {
                    let path = format!("{path}[{name}]");
                    match (by_a.get(*name), by_b.get(*name)) {
                        (Some(a), Some(b)) => differences(&path, a, b, out),
                        (a, b) => out.push(Difference {
                            path,
                            old: a.map(|v| (*v).clone()),
                            new: b.map(|v| (*v).clone()),
                        }),
                    }
                }
                if out.len() == before {
                    // Same items in another order, which matters in these lists.
                    out.push(Difference {
                        path: path.to_owned(),
                        old: Some(old.clone()),
                        new: Some(new.clone()),
                    });
                }
            }
            _ => {
                out.push(Difference {
                    path: path.to_owned(),
                    old: Some(old.clone()),
                    new: Some(new.clone()),
                });
            }
        },
        (a, b) if a != b => {
            out.push(Difference { path: path.to_owned(), old: Some(a.clone()), new: Some(b.clone()) });
        }
        _ => {}
    }
}

/// A list of objects by their `name`, if all have one and no two the same.
fn by_name(list: &[Value]) -> Option<std::collections::BTreeMap<&str, &Value>> {
    let mut items = std::collections::BTreeMap::new();
    for item in list {
        if items.insert(item.get("name")?.as_str()?, item).is_some() {
            return None;
        }
    }
    (!items.is_empty()).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_credentials_and_nothing_else() {
        let cases = [
            ("see https://h/a.img, twice", "see https://h/a.img, twice"),
            ("https://u:p@h/a", "https://(hidden)@h/a"),
            ("https://u:p/q@h/a", "https://(hidden)@h/a"),
            ("https://h/a?sig=x", "https://h/a?(hidden)"),
            ("https://h/a#tok=x", "https://h/a?(hidden)"),
            ("docker://r/i@sha256:abc", "docker://r/i@sha256:abc"),
            ("docker://u:p@r/i@sha256:abc", "docker://(hidden)@r/i@sha256:abc"),
        ];
        for (text, shown) in cases {
            assert_eq!(without_credentials(text), shown);
        }
    }
}
