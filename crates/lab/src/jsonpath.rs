//! The path language of printer columns and field selectors.

use std::{borrow::Cow, fmt};

use serde_json::{Number, Value};

use crate::gotext::{float, json};

/// A compiled path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

/// What is wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathError(String);

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for PathError {}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// From, to, step.
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        derived: bool,
        step: Option<i64>,
    },
    Filter {
        left: Vec<Step>,
        operator: String,
        right: Vec<Step>,
    },
    Wildcard,
    Recursive,
    Union(Vec<Vec<Step>>),
    Literal(Value),
    Identifier(String),
}

/// Things a path found; an error ends the search without a result.
type Found<'v> = Result<Vec<Cow<'v, Value>>, PathError>;

fn fail<T>(problem: impl Into<String>) -> Result<T, PathError> {
    Err(PathError(problem.into()))
}

impl JsonPath {
    /// Reads a path such as `.spec.replicas` or `{.status.conditions[?(@.type=="Ready")].status}`.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        Ok(Self { steps: Parser::new(inner).run(0)? })
    }

    /// Everything the path leads to; fields that are missing lead nowhere.
    pub(crate) fn find<'v>(&self, value: &'v Value) -> Found<'v> {
        walk(&self.steps, vec![Cow::Borrowed(value)])
    }

    /// The first thing the path leads to.
    pub(crate) fn first<'v>(&self, value: &'v Value) -> Option<Cow<'v, Value>> {
        // The usual path is a chain of fields.
        let mut here = value;
        for step in &self.steps {
            match step {
                Step::Field(name) => here = here.get(name.as_str())?,
                _ => return self.find(value).ok()?.into_iter().next(),
            }
        }
        Some(Cow::Borrowed(here))
    }
}

/// How deep filters and unions may nest.
const DEPTH_LIMIT: usize = 32;

struct Parser<'t> {
    rest: &'t str,
    steps: Vec<Step>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: text, steps: Vec::new() }
    }

    fn run(mut self, depth: usize) -> Result<Vec<Step>, PathError> {
        if depth > DEPTH_LIMIT {
            return fail("path nests too deeply");
        }
        while let Some(first) = self.rest.chars().next() {
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                self.filter(depth)?;
            } else if let Some(rest) = self.rest.strip_prefix("..") {
                if self.steps.last() == Some(&Step::Recursive) {
                    return fail("invalid multiple recursive descent");
                }
                self.rest = rest;
                self.steps.push(Step::Recursive);
                if self.rest.starts_with(is_word) {
                    self.field();
                }
            } else {
                match first {
                    '\n' | '\r' => return fail("unclosed action"),
                    ' ' | '@' | '$' => self.rest = &self.rest[1..],
                    '[' => self.array(depth)?,
                    '"' | '\'' => self.quoted(first)?,
                    '.' => {
                        self.rest = &self.rest[1..];
                        self.field();
                    }
                    '+' | '-' | '0'..='9' => self.number()?,
                    word if is_word(word) => self.identifier(),
                    other => return fail(format!("unrecognized character in action: {other:?}")),
                }
            }
        }
        Ok(self.steps)
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn field(&mut self) {
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((place, one)) = characters.next() {
            if one == '\\' {
                if let Some((_, escaped)) = characters.next() {
                    name.push(escaped);
                }
            } else if is_terminator(one) {
                end = place;
                break;
            } else {
                name.push(one);
            }
        }
        let written = self.take(end);
        self.steps.push(if written == "*" { Step::Wildcard } else { Step::Field(name) });
    }

    fn identifier(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let word = self.take(end);
        self.steps.push(match word {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            other => Step::Identifier(other.to_owned()),
        });
    }

    fn number(&mut self) -> Result<(), PathError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].find(|one: char| one != '.' && !one.is_ascii_digit());
        let text = self.take(digits.map_or(self.rest.len(), |digits| sign + digits));
        let value = match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => Value::from(whole),
            (_, Ok(number)) => Number::from_f64(number).map_or(Value::Null, Value::Number),
            _ => return fail(format!("cannot parse number {text}")),
        };
        self.steps.push(Step::Literal(value));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), PathError> {
        let mut text = String::new();
        let mut characters = self.rest[1..].char_indices();
        while let Some((place, one)) = characters.next() {
            match one {
                '\n' => break,
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, escaped @ ('\\' | '"' | '\''))) => text.push(escaped),
                    _ => return fail("unquote string error invalid syntax"),
                },
                end if end == quote => {
                    self.rest = &self.rest[place + 2..];
                    self.steps.push(Step::Literal(text.into()));
                    return Ok(());
                }
                other => text.push(other),
            }
        }
        fail("unterminated quoted string")
    }

    fn array(&mut self, depth: usize) -> Result<(), PathError> {
        let Some(end) = self.rest.find([']', '\n']).filter(|end| self.rest[*end..].starts_with(']')) else {
            return fail("unterminated array");
        };
        let whole = self.take(end + 1);
        let text = &whole[1..whole.len() - 1];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text
                .split(',')
                .map(|part| Parser::new(&format!("[{}]", part.trim_matches(' '))).run(depth + 1));
            self.steps.push(Step::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        if let Some(key) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''))
            && !key.contains('\'')
        {
            self.steps.extend(Parser::new(&format!(".{key}")).run(depth + 1)?);
            return Ok(());
        }
        let number = |part: &str| -> Result<Option<i64>, PathError> {
            if part.is_empty() {
                return Ok(None);
            }
            part.parse().map(Some).or_else(|_| fail(format!("array index {part} is not a number")))
        };
        let mut parts = text.split(':');
        let valid =
            |part: &str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
        if text.split(':').count() > 3 || !text.split(':').all(valid) {
            return fail(format!("invalid array index {text}"));
        }
        let from = number(parts.next().unwrap_or(""))?;
        let (to, derived) = match parts.next() {
            Some(part) => (number(part)?, false),
            None => (Some(from.unwrap_or(0).saturating_add(1)), true),
        };
        let step = number(parts.next().unwrap_or(""))?;
        self.steps.push(Step::Slice { from, to, derived, step });
        Ok(())
    }

    fn filter(&mut self, depth: usize) -> Result<(), PathError> {
        let Some(end) = filter_end(self.rest) else { return fail("unterminated filter") };
        let text = self.take(end);
        let Some(rest) = self.rest.strip_prefix(")]") else { return fail("unclosed array expect ]") };
        self.rest = rest;
        let is_operator = |one: char| matches!(one, '!' | '<' | '>' | '=');
        let start = text.find(is_operator).filter(|start| *start > 0);
        let split = start.and_then(|start| {
            let length = text[start..].find(|one| !is_operator(one))?;
            Some((&text[..start], &text[start..start + length], &text[start + length..]))
        });
        self.steps.push(match split {
            Some((left, operator, right)) => Step::Filter {
                left: Parser::new(left).run(depth + 1)?,
                operator: operator.to_owned(),
                right: Parser::new(right).run(depth + 1)?,
            },
            None => Step::Filter {
                left: Parser::new(text).run(depth + 1)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            },
        });
        Ok(())
    }
}

/// Where the closing parenthesis of a filter is: the first one outside of its one quoted string.
fn filter_end(text: &str) -> Option<usize> {
    let (mut quote, mut closed, mut previous) = (None, false, ' ');
    for (place, one) in text.char_indices() {
        match one {
            '\n' => return None,
            '"' | '\'' => match quote {
                None => quote = Some(one),
                Some(open) if open == one && previous != '\\' => closed = true,
                Some(_) => {}
            },
            ')' if quote.is_some() == closed => return Some(place),
            _ => {}
        }
        previous = one;
    }
    None
}

fn is_word(one: char) -> bool {
    one == '_' || one.is_alphanumeric()
}

fn is_terminator(one: char) -> bool {
    matches!(one, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn walk<'v>(steps: &[Step], input: Vec<Cow<'v, Value>>) -> Found<'v> {
    let mut here = input;
    for step in steps {
        here = match step {
            Step::Field(name) => here.into_iter().filter_map(|value| field(value, name)).collect(),
            Step::Literal(value) => here.iter().map(|_| Cow::Owned(value.clone())).collect(),
            Step::Wildcard => here.into_iter().flat_map(contents).collect(),
            Step::Recursive => {
                let mut all = Vec::new();
                for value in here {
                    everything(value, &mut all);
                }
                all
            }
            Step::Union(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(walk(part, here.clone())?);
                }
                all
            }
            Step::Slice { from, to, derived, step } => {
                let mut all = Vec::new();
                for value in here {
                    slice(value, *from, *to, *derived, *step, &mut all)?;
                }
                all
            }
            Step::Filter { left, operator, right } => {
                let mut all = Vec::new();
                for value in here {
                    filtered(value, left, operator, right, &mut all)?;
                }
                all
            }
            Step::Identifier(name) => return fail(format!("unrecognized identifier {name}")),
        };
    }
    Ok(here)
}

fn field<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(Value::Object(mut fields)) => fields.remove(name).map(Cow::Owned),
        Cow::Owned(_) => None,
    }
}

/// The values of a map or the items of a list.
fn contents(value: Cow<'_, Value>) -> Vec<Cow<'_, Value>> {
    match value {
        Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(fields)) => fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

fn everything<'v>(value: Cow<'v, Value>, all: &mut Vec<Cow<'v, Value>>) {
    let inside = contents(value.clone());
    if !inside.is_empty() {
        all.push(value);
        for one in inside {
            everything(one, all);
        }
    }
}

fn slice<'v>(
    value: Cow<'v, Value>,
    from: Option<i64>,
    to: Option<i64>,
    derived: bool,
    step: Option<i64>,
    all: &mut Vec<Cow<'v, Value>>,
) -> Result<(), PathError> {
    if value.is_null() {
        return Ok(());
    }
    let Value::Array(list) = value.as_ref() else { return fail("is not array or slice") };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let mut from = from.unwrap_or(0);
    if from < 0 {
        from += length;
    }
    let mut to = to.unwrap_or(length);
    if to < 0 || (to == 0 && derived) {
        to += length;
    }
    if from == to {
        return Ok(());
    }
    if !(0..length).contains(&from) || !(0..=length).contains(&to) || from > to {
        return fail(format!("array index out of bounds: index {from}, length {length}"));
    }
    let step = step.unwrap_or(1);
    if step <= 0 {
        return fail("step must be > 0");
    }
    let places = (from..to)
        .step_by(usize::try_from(step).unwrap_or(usize::MAX))
        .filter_map(|place| usize::try_from(place).ok());
    match value {
        Cow::Borrowed(Value::Array(list)) => {
            all.extend(places.filter_map(|place| list.get(place)).map(Cow::Borrowed));
        }
        Cow::Owned(Value::Array(mut list)) => {
            all.extend(places.filter_map(|place| list.get_mut(place).map(Value::take)).map(Cow::Owned));
        }
        _ => {}
    }
    Ok(())
}

fn filtered<'v>(
    value: Cow<'v, Value>,
    left: &[Step],
    operator: &str,
    right: &[Step],
    all: &mut Vec<Cow<'v, Value>>,
) -> Result<(), PathError> {
    if !value.is_array() {
        return fail("is not array or slice and cannot be filtered");
    }
    for item in contents(value) {
        let lefts = walk(left, vec![item.clone()]);
        if operator == "exists" {
            if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                all.push(item);
            }
            continue;
        }
        let (lefts, rights) = (lefts?, walk(right, vec![item.clone()])?);
        let (left, right) = match (lefts.as_slice(), rights.as_slice()) {
            ([], _) | ([_], []) => continue,
            ([left], [right]) => (left.as_ref(), right.as_ref()),
            _ => return fail("can only compare one element at a time"),
        };
        if compare(left, operator, right)? {
            all.push(item);
        }
    }
    Ok(())
}

fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, PathError> {
    let ordering = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) if matches!(operator, "==" | "!=") => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            (None, None) => match left.as_f64().partial_cmp(&right.as_f64()) {
                Some(ordering) => ordering,
                None => return Ok(operator == "!="),
            },
            _ => return fail("incompatible types for comparison"),
        },
        _ => return fail("incompatible types for comparison"),
    };
    Ok(match operator {
        "==" => ordering.is_eq(),
        "!=" => ordering.is_ne(),
        "<" => ordering.is_lt(),
        "<=" => ordering.is_le(),
        ">" => ordering.is_gt(),
        ">=" => ordering.is_ge(),
        _ => return fail(format!("unrecognized filter operator {operator}")),
    })
}

/// A value as text, the way columns and selectors show it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => json(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"name": "x", "annotations": {"a.b/c": "dotted"}},
            "spec": {"replicas": 3, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Live", "status": "False"}, {"status": "None"},
            ]},
        })
    }

    fn found(path: &str) -> Value {
        let object = object();
        let path = JsonPath::parse(path).unwrap();
        let all: Vec<Value> = path.find(&object).unwrap().into_iter().map(Cow::into_owned).collect();
        assert_eq!(path.first(&object).map(Cow::into_owned), all.first().cloned());
        all.into()
    }

    #[test]
    fn paths_lead_where_they_say() {
        assert_eq!(found(".spec.replicas"), json!([3]));
        assert_eq!(found("{.spec.replicas}"), json!([3]));
        assert_eq!(found(".spec.missing.more"), json!([]));
        assert_eq!(found(".metadata.annotations.a\\.b/c"), json!(["dotted"]));
        assert_eq!(found(".metadata.annotations['a\\.b/c']"), json!(["dotted"]));
        assert_eq!(found(".spec.ports[1].name"), json!(["b"]));
        assert_eq!(found(".spec.ports[-1].name"), json!(["b"]));
        assert_eq!(found(".spec.ports[*].port"), json!([1, 2]));
        assert_eq!(found(".spec.ports[0:1].port"), json!([1]));
        assert_eq!(found(".spec.ports[0,1].name"), json!(["a", "b"]));
        assert_eq!(found(".status.conditions[?(@.type==\"Ready\")].status"), json!(["True"]));
        assert_eq!(found(".status.conditions[?(@.type != 'Ready')].status"), json!(["False"]));
        assert_eq!(found(".status.conditions[?(@.type)].status"), json!(["True", "False"]));
        assert_eq!(found(".spec.ports[?(@.port>1)].name"), json!(["b"]));
        assert_eq!(found("..port"), json!([1, 2]));
        assert_eq!(found(".metadata.*"), json!([{"a.b/c": "dotted"}, "x"]));
    }

    #[test]
    fn bad_paths_and_places() {
        for path in [".spec[", ".a[?(@.b", ".a[x]", "~"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
        let object = object();
        for path in
            [".spec.ports[5]", ".spec[0]", ".spec[?(@.a==1)]", ".spec.ports[?(@.port==1.5)]", ".range"]
        {
            let path = JsonPath::parse(path).unwrap();
            assert!(path.find(&object).is_err() || path.find(&object).unwrap().is_empty());
        }
    }
}
