//! YAML bodies as JSON, by the rules of YAML 1.1 that the API follows: `yes` is true, `0777` is octal.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

use super::syntax::DEEPEST;
use super::words::quoted;
use super::{Decoded, bytes};

/// The most values aliases may add up to.
const MOST_NODES: usize = 1_000_000;

/// Reads the first document of a text. Repeated keys are told as the one problem the API makes of them; the last
/// one counts. The failure is the message.
pub(super) fn parse(text: &str) -> Result<Decoded, String> {
    let mut options = granit_parser::options! { emit_unresolved_aliases: true };
    options.set_emit_comments(false);
    let parser = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { parser, anchors: HashMap::new(), nodes: 0, repeated: Vec::new() };
    let value = loop {
        match reader.next()? {
            None | Some((Event::StreamEnd | Event::DocumentEnd, _)) => break Value::Null,
            Some((
                event @ (Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
                | Event::Alias(_)
                | Event::UnresolvedAlias(_)),
                place,
            )) => break reader.node(event, &place, 0)?.value,
            Some(_) => {}
        }
    };
    let problems = if reader.repeated.is_empty() {
        Vec::new()
    } else {
        vec![format!("yaml: unmarshal errors:\n  {}", reader.repeated.join("\n  "))]
    };
    Ok(Decoded { value, problems })
}

struct Reader<'text> {
    parser: Parser<'text, StrInput<'text>>,
    /// Values that aliases may stand for, and how many values each is made of.
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    repeated: Vec<String>,
}

/// A value and how it was written, which matters for keys.
#[derive(Clone)]
struct Node {
    value: Value,
    /// A plain `<<`.
    merge: bool,
    line: usize,
}

impl<'text> Reader<'text> {
    fn next(&mut self) -> Result<Option<(Event<'text>, Span)>, String> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok((event, place))) => Ok(Some((event, place))),
            Some(Err(problem)) => {
                let info = problem.info();
                // What the parser was doing comes first in the message; the API tells what is wrong only.
                let what = match info.split_once(", ") {
                    Some((doing, what)) if doing.starts_with("while ") => what,
                    _ => &info,
                };
                Err(match problem.marker().line() {
                    0 | 1 => format!("yaml: {what}"),
                    line => format!("yaml: line {line}: {what}"),
                })
            }
        }
    }

    /// The next event, which has to be there.
    fn need(&mut self) -> Result<(Event<'text>, Span), String> {
        self.next()?.ok_or_else(|| "yaml: unexpected end of document".to_owned())
    }

    fn node(&mut self, event: Event<'text>, place: &Span, depth: usize) -> Result<Node, String> {
        self.count(1)?;
        if depth > DEEPEST {
            return Err("yaml: exceeded max depth".to_owned());
        }
        let line = place.start.line();
        let before = self.nodes;
        let (value, merge, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let absent = style == ScalarStyle::Plain && place.start.index() == place.end.index();
                let text = if absent { "" } else { text.as_ref() };
                let tag = tag.as_deref().map(|tag| {
                    let uri = format!("{}{}", tag.handle(), tag.suffix());
                    uri.strip_prefix("tag:yaml.org,2002:").unwrap_or("other").to_owned()
                });
                let plain = style == ScalarStyle::Plain;
                (scalar(text, plain, tag.as_deref())?, plain && tag.is_none() && text == "<<", anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut list = Vec::new();
                loop {
                    match self.need()? {
                        (Event::SequenceEnd, _) => break,
                        (event, place) => list.push(self.node(event, &place, depth + 1)?.value),
                    }
                }
                (Value::Array(list), false, anchor)
            }
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, false, anchor),
            Event::Alias(anchor) => {
                let (node, size) = self
                    .anchors
                    .get(&anchor)
                    .cloned()
                    .ok_or_else(|| "yaml: anchor value contains itself".to_owned())?;
                self.count(size)?;
                return Ok(Node { line, ..node });
            }
            Event::UnresolvedAlias(name) => return Err(format!("yaml: unknown anchor '{name}' referenced")),
            _ => (Value::Null, false, 0),
        };
        let node = Node { value, merge, line };
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before + 1));
        }
        Ok(node)
    }

    fn count(&mut self, more: usize) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MOST_NODES {
            return Err("yaml: document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        loop {
            let key = match self.need()? {
                (Event::MappingEnd, _) => return Ok(Value::Object(map)),
                (event, place) => self.node(event, &place, depth + 1)?,
            };
            let (event, place) = self.need()?;
            let value = self.node(event, &place, depth + 1)?;
            if key.merge {
                self.merge(&mut map, value)?;
                continue;
            }
            let (name, shown) = match key.value {
                Value::String(text) => (text.clone(), quoted(&text)),
                Value::Number(number) => (number.to_string(), number.to_string()),
                Value::Bool(truth) => (truth.to_string(), truth.to_string()),
                Value::Null => return Err("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned()),
                other => return Err(format!("yaml: invalid map key: {}", go_syntax(&other))),
            };
            if map.contains_key(&name) {
                self.repeated.push(format!("line {}: key {shown} already set in map", value.line));
            }
            map.insert(name, value.value);
        }
    }

    fn merge(&mut self, map: &mut Map<String, Value>, from: Node) -> Result<(), String> {
        const WRONG: &str = "yaml: map merge requires map or sequence of maps as the value";
        let sources = match from.value {
            Value::Array(list) => list.into_iter().rev().collect(),
            one => vec![one],
        };
        for source in sources {
            let Value::Object(source) = source else { return Err(WRONG.to_owned()) };
            for (key, value) in source {
                if map.contains_key(&key) {
                    let shown = quoted(&key);
                    self.repeated.push(format!("line {}: key {shown} already set in map", from.line));
                }
                map.insert(key, value);
            }
        }
        Ok(())
    }
}

/// A value as it is written in Go.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", quoted(key), go_syntax(value))).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// What a scalar is.
fn scalar(text: &str, plain: bool, tag: Option<&str>) -> Result<Value, String> {
    let wanted = match tag {
        None if plain => None,
        Some("binary") => {
            let decoded = bytes::decode(text)
                .map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
            return Ok(Value::String(String::from_utf8_lossy(&decoded).into_owned()));
        }
        None | Some("str" | "other") => return Ok(Value::String(text.to_owned())),
        Some(tag) => Some(tag),
    };
    let found = resolved(text)?;
    let kind = match &found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    };
    match wanted {
        Some("int" | "float" | "bool" | "null")
            if wanted != Some(kind) && (wanted, kind) != (Some("float"), "int") =>
        {
            Err(format!("yaml: cannot decode !!{kind} `{text}` as a !!{}", wanted.unwrap_or_default()))
        }
        _ => Ok(found),
    }
}

/// What a plain scalar is by its look.
fn resolved(text: &str) -> Result<Value, String> {
    let unsupported = |name: &str| Err(format!("json: unsupported value: {name}"));
    Ok(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" => return unsupported("NaN"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return unsupported("+Inf"),
        "-.inf" | "-.Inf" | "-.INF" => return unsupported("-Inf"),
        _ => number(text).unwrap_or_else(|| Value::String(text.to_owned())),
    })
}

fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return None;
    }
    let plain = text.replace('_', "");
    if let Some(whole) = whole(&plain) {
        return Some(whole);
    }
    // Only what looks like a number of YAML: Rust would read `inf` and `1.e` as well.
    let digits = plain.trim_start_matches(['+', '-']);
    let sound = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && !digits.starts_with(['e', 'E']);
    if !sound {
        return None;
    }
    let number: f64 = plain.parse().ok()?;
    if number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0 {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range")]
        return Some((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number)
}

/// A whole number: decimal, octal with a leading zero, or with the prefix of its base.
fn whole(text: &str) -> Option<Value> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return i64::try_from(-i128::from(magnitude)).ok().map(Value::from);
    }
    // Beyond 63 bits the API keeps a number with a fraction.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    i64::try_from(magnitude)
        .map(Value::from)
        .ok()
        .or_else(|| Number::from_f64(magnitude as f64).map(Value::Number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_read_by_the_rules_of_yaml_1_1() {
        let text = "{a: yes, b: 0777, c: 0x1F, d: 1.0, e: 1e3, f: ~, g: '1', h: 1_000, i: 2024-01-01, j: on, k: -0.5,\n\
                    l: 0o17, m: !!str 5, n: , 5: x, y: z, o: 1.2.3, p: 0b11, q: .5, r: +1, s: 08}";
        let expected = json!({
            "a": true, "b": 511, "c": 31, "d": 1, "e": 1000, "f": null, "g": "1", "h": 1000, "i": "2024-01-01",
            "j": true, "k": -0.5, "l": 15, "m": "5", "false": null, "5": "x", "true": "z", "o": "1.2.3", "p": 3,
            "q": 0.5, "r": 1, "s": 8,
        });
        assert_eq!(parse(text).unwrap().value, expected);
    }

    #[test]
    fn repeated_keys_are_told_with_their_line_and_the_last_one_counts() {
        let decoded = parse("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
        assert_eq!(decoded.value, json!({"a": 3, "b": {"c": 2}}));
        let expected = "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  \
                        line 5: key \"a\" already set in map";
        assert_eq!(decoded.problems, [expected]);
    }

    #[test]
    fn aliases_and_merges_are_written_out_within_bounds() {
        let decoded = parse("a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\n").unwrap();
        assert_eq!(decoded.value["e"], json!({"b": 1, "c": 3}));
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            let below = level - 1;
            let ten = vec![format!("*a{below}"); 10].join(",");
            bomb = format!("{bomb}a{level}: &a{level} [{ten}]\n");
        }
        assert_eq!(parse(&bomb).unwrap_err(), "yaml: document contains excessive aliasing");
        assert_eq!(parse("a: b: c").unwrap_err(), "yaml: mapping values are not allowed in this context");
        assert!(parse(&"[".repeat(10_000)).is_err());
    }
}
