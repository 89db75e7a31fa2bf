//! Paths that rules and selectable fields name, followed through the schema.

use crate::crd::schema::Schema;

/// Follows a path such as `.spec.map['a.b']`; the path as messages write it and the schema it leads to.
///
/// The error says where it leads nowhere. `brackets` allows keys in brackets.
pub(crate) fn resolve<'s>(
    text: &str,
    schema: &'s Schema,
    brackets: bool,
) -> Result<(String, &'s Schema), String> {
    let mut here = schema;
    let mut written = String::new();
    let mut tokens = tokens(text).into_iter();
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" => {
                if !brackets {
                    return Err("array notation is not allowed".to_owned());
                }
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|quoted| quoted.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                unescape(inner)?
            }
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if !here.properties.is_empty() {
            here = here.property(&name).ok_or("does not refer to a valid field")?;
            if !written.is_empty() {
                written.push('.');
            }
            written.push_str(&name);
        } else if here.additional.is_some() {
            here = here.additional_schema().ok_or("does not refer to a valid field")?;
            written.extend(["[", &name, "]"]);
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err(end()),
            }
        }
    }
    Ok((written, here))
}

/// Dots and brackets are words of their own; quoted text is one word.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let mut previous = ' ';
                rest.char_indices()
                    .skip(1)
                    .find(|(_, one)| {
                        let end = *one == '\'' && previous != '\\';
                        previous = *one;
                        end
                    })
                    .map_or(rest.len(), |(place, _)| place + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(one) = characters.next() {
        if one != '\\' {
            out.push(one);
            continue;
        }
        match characters.next() {
            Some('a') => out.push('\x07'),
            Some('b') => out.push('\x08'),
            Some('f') => out.push('\x0c'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\x0b'),
            Some(same @ ('\'' | '\\')) => out.push(same),
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_followed_through_the_schema() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a.b": {"type": "string"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            }},
        }}))
        .unwrap();
        let resolve = |text| resolve(text, &schema, true).map(|(written, _)| written);
        assert_eq!(resolve(".spec['a.b']").unwrap(), "spec.a.b");
        assert_eq!(resolve(".spec.map['k']").unwrap(), "spec.map[k]");
        assert_eq!(resolve(".spec.map.k").unwrap(), "spec.map[k]");
        assert_eq!(resolve(".spec.x").unwrap_err(), "does not refer to a valid field");
        assert_eq!(resolve("spec").unwrap_err(), "expected [ or . but got: spec");
        assert_eq!(resolve(".spec[").unwrap_err(), "unexpected end of JSON path");
        assert_eq!(resolve(".spec[x]").unwrap_err(), "expected single quoted string but got x");
        assert_eq!(resolve(".").unwrap_err(), "unexpected end of JSON path");
    }
}
