//! Checking values against a schema, with the sentences of the server.

use serde_json::{Map, Number, Value};

use crate::{
    gotext::{float, json, quote},
    status::{FieldProblem, Problem},
};

use super::{
    correlate,
    formats::Format,
    path::Path,
    schema::{Additional, Checks, Kind, Schema},
};

/// What checking a value came to.
///
/// The number of checks that held decides which alternative of `anyOf` and `oneOf` is complained about.
#[derive(Debug, Default)]
struct Outcome {
    problems: Vec<Found>,
    held: u32,
}

/// A problem, the place it is reported at, and its sentence, by which repetitions are known.
#[derive(Debug, Clone)]
struct Found {
    sentence: String,
    /// The place, or none when only the sentence names it.
    place: Option<String>,
    problem: Problem,
}

impl Outcome {
    fn valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, found: Found) {
        if self.problems.iter().all(|known| known.sentence != found.sentence) {
            self.problems.push(found);
        }
    }

    fn merge(&mut self, other: Outcome) {
        for found in other.problems {
            self.add(found);
        }
        self.held += other.held;
    }

    /// A complaint that belongs to no field.
    fn about_nothing(&mut self, sentence: String) {
        self.add(Found { problem: Problem::Invalid("".into(), sentence.clone()), sentence, place: None });
    }

    fn invalid(&mut self, path: &Path<'_>, value: Value, rule: &str) {
        let place = path.dotted();
        let sentence = format!("{place} in body {rule}");
        self.add(Found { problem: Problem::Invalid(value, sentence.clone()), sentence, place: Some(place) });
    }

    fn wrong_type(&mut self, path: &Path<'_>, wanted: &str, found: &str) {
        let place = path.dotted();
        let sentence = format!("{place} in body must be of type {wanted}: {}", quote(found));
        let problem = Problem::TypeInvalid(found.into(), sentence.clone());
        self.add(Found { problem, sentence, place: Some(place) });
    }
}

/// Checks a value; `old` is the value it replaces, whose problems are forgiven where nothing changed.
///
/// `prefix` is where the value is in its object, when it is not the whole of it.
pub(crate) fn check(
    value: &Value,
    schema: &Schema,
    old: Option<&Value>,
    prefix: Option<&str>,
) -> Vec<FieldProblem> {
    let outcome = node(value, schema, &Path::Root, old);
    outcome
        .problems
        .into_iter()
        .map(|found| {
            let field = match (prefix, found.place.as_deref().map(|place| place.trim_start_matches('.'))) {
                (None, None | Some("")) => "<nil>".to_owned(),
                (None, Some(place)) => place.to_owned(),
                (Some(prefix), None | Some("")) => prefix.to_owned(),
                (Some(prefix), Some(place)) => format!("{prefix}.{place}"),
            };
            FieldProblem::new(field, found.problem)
        })
        .collect()
}

/// Checks a value at a place that may have had another value before.
fn node(value: &Value, schema: &Schema, path: &Path<'_>, old: Option<&Value>) -> Outcome {
    let mut outcome = plain(value, schema, path, old);
    if !outcome.valid() && old.is_some_and(|old| correlate::unchanged(schema, value, old)) {
        outcome.problems.clear();
    }
    outcome
}

/// All checks of one node, in the order of the server.
fn plain(value: &Value, schema: &Schema, path: &Path<'_>, old: Option<&Value>) -> Outcome {
    let mut outcome = Outcome::default();
    let checks = &schema.checks;
    if value.is_null() {
        if schema.kind == Kind::Any && !schema.int_or_string || schema.nullable {
            outcome.held += 1;
        } else {
            outcome.wrong_type(path, &types(schema), "null");
        }
        choices(value, checks, path, &mut outcome);
        return outcome;
    }
    if schema.kind != Kind::Any || schema.int_or_string || checks.format.is_some() {
        outcome.held += 1;
        kind(value, schema, path, &mut outcome);
    }
    outcome.held += 2;
    if !(checks.all_of.is_empty()
        && checks.any_of.is_empty()
        && checks.one_of.is_empty()
        && checks.not.is_none())
    {
        combined(value, checks, path, &mut outcome);
    }
    match value {
        Value::String(value) => {
            outcome.held += 1;
            text(value, checks, path, &mut outcome);
            if let Some(check) = &checks.format
                && let Format::Text(format) = check.format
            {
                outcome.held += 1;
                if !format.accepts(value) {
                    outcome.wrong_type(path, &check.name, value);
                }
            }
        }
        Value::Number(value) => {
            outcome.held += 2;
            number(value, schema, path, &mut outcome);
        }
        Value::Array(items) => {
            outcome.held += 2;
            list(items, schema, path, old, &mut outcome);
        }
        _ => {}
    }
    outcome.held += 1;
    choices(value, checks, path, &mut outcome);
    if let Value::Object(fields) = value {
        outcome.held += 1;
        object(fields, schema, path, old, &mut outcome);
    }
    outcome.held += 1;
    outcome
}

/// The types a schema has, as messages list them.
fn types(schema: &Schema) -> String {
    if schema.int_or_string { "integer,string".to_owned() } else { schema.kind.name().to_owned() }
}

/// The type of a value and the format that comes with it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn kind(value: &Value, schema: &Schema, path: &Path<'_>, outcome: &mut Outcome) {
    let (name, format) = type_of(value);
    let wants = |kind: Kind| {
        if schema.int_or_string { matches!(kind, Kind::Integer | Kind::String) } else { schema.kind == kind }
    };
    let fits = match value {
        Value::Bool(_) => wants(Kind::Boolean),
        Value::Number(number) if number.is_i64() => wants(Kind::Integer) || wants(Kind::Number),
        Value::Number(number) => {
            wants(Kind::Number) || (wants(Kind::Integer) && number.as_f64().is_some_and(is_json_integer))
        }
        Value::String(_) => wants(Kind::String),
        Value::Array(_) => wants(Kind::Array),
        _ => wants(Kind::Object),
    };
    let textual = matches!(value, Value::String(_) | Value::Array(_));
    if let Some(check) = &schema.checks.format {
        if !textual && !fits && check.name != format {
            outcome.wrong_type(path, &check.name, format);
            return;
        }
        // The format has the say about text; lists slip through, as they do with the server.
        if textual && !wants(Kind::Number) && !wants(Kind::Integer) {
            outcome.held += 1;
            return;
        }
    }
    if fits {
        outcome.held += 1;
    } else {
        outcome.wrong_type(path, &types(schema), name);
    }
}

/// True for floats that are whole numbers within what JSON can tell apart.
fn is_json_integer(number: f64) -> bool {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > LIMIT {
        return false;
    }
    let rounded = number.round();
    #[expect(clippy::float_cmp, reason = "whole numbers are exact")]
    if number == rounded {
        return true;
    }
    rounded != 0.0 && (number - rounded).abs() < 1e-9 * rounded.abs()
}

fn combined(value: &Value, checks: &Checks, path: &Path<'_>, outcome: &mut Outcome) {
    let shown = || quote(&path.dotted());
    if !checks.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut success = None;
        for schema in &checks.any_of {
            let one = plain(value, schema, path, None);
            if one.valid() {
                success = Some(one);
                break;
            }
            if best.as_ref().is_none_or(|best| one.held > best.held) {
                best = Some(one);
            }
        }
        if success.is_none() {
            outcome.about_nothing(format!("{} must validate at least one schema (anyOf)", shown()));
        }
        if let Some(chosen) = success.or(best) {
            outcome.merge(chosen);
        }
    }
    if !checks.one_of.is_empty() {
        let (mut best, mut success) = (None::<Outcome>, None);
        let mut valid = 0;
        for schema in &checks.one_of {
            let one = plain(value, schema, path, None);
            if one.valid() {
                valid += 1;
                success.get_or_insert(one);
            } else if valid == 0 && best.as_ref().is_none_or(|best| one.held > best.held) {
                best = Some(one);
            }
        }
        if valid == 1 {
            outcome.merge(success.unwrap_or_default());
        } else {
            let found = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            outcome
                .about_nothing(format!("{} must validate one and only one schema (oneOf). {found}", shown()));
            if let Some(best) = best.filter(|_| valid == 0) {
                outcome.merge(best);
            }
        }
    }
    if !checks.all_of.is_empty() {
        let mut valid = 0;
        for schema in &checks.all_of {
            let one = plain(value, schema, path, None);
            valid += usize::from(one.valid());
            outcome.merge(one);
        }
        if valid != checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.about_nothing(format!("{} must validate all the schemas (allOf){none}", shown()));
        }
    }
    if let Some(schema) = &checks.not
        && plain(value, schema, path, None).valid()
    {
        outcome.about_nothing(format!("{} must not validate the schema (not)", shown()));
    }
}

fn text(value: &str, checks: &Checks, path: &Path<'_>, outcome: &mut Outcome) {
    let count = || i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
    if let Some(limit) = checks.max_length
        && i64::try_from(value.len()).unwrap_or(i64::MAX) > limit
        && count() > limit
    {
        let place = path.dotted();
        let sentence = format!("{place} in body should be at most {limit} chars long");
        let problem = Problem::TooLong(u64::try_from(limit).unwrap_or(0));
        outcome.add(Found { sentence, place: Some(place), problem });
        return;
    }
    if let Some(limit) = checks.min_length
        && count() < limit
    {
        outcome.invalid(path, value.into(), &format!("should be at least {limit} chars long"));
        return;
    }
    if let Some(pattern) = &checks.pattern {
        let shown = &pattern.text;
        match &pattern.regex {
            Ok(regex) if regex.is_match(value) => {}
            Ok(_) => outcome.invalid(path, value.into(), &format!("should match '{shown}'")),
            Err(problem) => {
                let rule = format!("should match '{shown}, but pattern is invalid: {problem}'");
                outcome.invalid(path, value.into(), &rule);
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the server does the same")]
fn number(value: &Number, schema: &Schema, path: &Path<'_>, outcome: &mut Outcome) {
    let checks = &schema.checks;
    let whole = value.as_i64();
    let number = whole.map_or_else(|| value.as_f64().unwrap_or(f64::INFINITY), |whole| whole as f64);
    let integer = schema.kind == Kind::Integer && !schema.int_or_string;
    let format = checks.format.as_ref().map(|check| check.format);
    let range = |outcome: &mut Outcome, what: &str, whole: Option<i64>, number: f64| {
        let fits = if integer {
            // A float is read back from its digits.
            let whole =
                whole.or_else(|| (number.fract() == 0.0 && number.abs() < 9.2e18).then_some(number as i64));
            whole.is_some_and(|whole| format != Some(Format::Int32) || i32::try_from(whole).is_ok())
        } else {
            format != Some(Format::Float) || (number as f32).is_finite()
        };
        if !fits {
            let kind = if integer { "integer" } else { "number" };
            let form = match (format, &checks.format) {
                (Some(Format::Int32 | Format::Int64 | Format::Float | Format::Double), Some(check)) => {
                    format!("with format {}", check.name)
                }
                _ => "(default format)".to_owned(),
            };
            outcome.about_nothing(format!("{what} value must be of type {kind} {form} in {}", path.dotted()));
        }
        fits
    };
    range(outcome, "Checked", whole, number);
    if let Some(factor) = checks.multiple_of {
        let fits = range(outcome, "MultipleOf", None, factor);
        multiple(whole.filter(|_| fits), number, factor, path, outcome);
    }
    for (bound, exclusive, what, upper) in [
        (checks.minimum, checks.exclusive_minimum, "Minimum boundary", false),
        (checks.maximum, checks.exclusive_maximum, "Maximum boundary", true),
    ] {
        let Some(bound) = bound else { continue };
        let fits = range(outcome, what, None, bound);
        let (broken, shown, value) = if let Some(whole) = whole.filter(|_| fits) {
            let limit = bound as i64;
            let broken = if upper { whole > limit } else { whole < limit } || (exclusive && whole == limit);
            (broken, limit.to_string(), Value::from(whole))
        } else {
            #[expect(clippy::float_cmp, reason = "the bound itself is meant")]
            let at = number == bound;
            let broken = if upper { number > bound } else { number < bound } || (exclusive && at);
            (broken, float(bound), Value::from(number))
        };
        if broken {
            let side = if upper { "less than" } else { "greater than" };
            let or_equal = if exclusive { "" } else { " or equal to" };
            outcome.invalid(path, value, &format!("should be {side}{or_equal} {shown}"));
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the server does the same")]
fn multiple(whole: Option<i64>, number: f64, factor: f64, path: &Path<'_>, outcome: &mut Outcome) {
    let (positive, holds, shown, shown_factor) = if let Some(whole) = whole {
        let factor = factor as i64;
        (factor > 0, factor > 0 && whole % factor == 0, Value::from(whole), factor.to_string())
    } else {
        let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
        (factor > 0.0, is_json_integer(quotient), Value::from(number), float(factor))
    };
    if !positive {
        let place = path.dotted();
        let sentence = format!("factor MultipleOf declared for {place} must be positive: {shown_factor}");
        let value = whole.map_or_else(|| Value::from(factor), |_| Value::from(factor as i64));
        outcome.add(Found {
            problem: Problem::Invalid(value, sentence.clone()),
            sentence,
            place: Some(place),
        });
    } else if !holds {
        outcome.invalid(path, shown, &format!("should be a multiple of {shown_factor}"));
    }
}

fn list(items: &[Value], schema: &Schema, path: &Path<'_>, old: Option<&Value>, outcome: &mut Outcome) {
    if let Some(below) = schema.items.as_deref() {
        let earlier = old.and_then(|old| correlate::OldItems::new(schema, old));
        for (index, item) in items.iter().enumerate() {
            let old = earlier.as_ref().and_then(|earlier| earlier.find(item));
            outcome.merge(node(item, below, &path.index(index), old));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(limit) = schema.checks.min_items
        && size < limit
    {
        outcome.invalid(path, size.into(), &format!("should have at least {limit} items"));
    }
    if let Some(limit) = schema.checks.max_items
        && size > limit
    {
        too_many(path, size, limit, "items", outcome);
    }
}

fn too_many(path: &Path<'_>, size: i64, limit: i64, what: &str, outcome: &mut Outcome) {
    let place = path.dotted();
    let sentence = format!("{place} in body should have at most {limit} {what}");
    let problem = Problem::TooMany(u64::try_from(size).unwrap_or(0), u64::try_from(limit).unwrap_or(0));
    outcome.add(Found { sentence, place: Some(place), problem });
}

/// The value must be one of the choices, if there are any.
fn choices(value: &Value, checks: &Checks, path: &Path<'_>, outcome: &mut Outcome) {
    if checks.choices.is_empty() || checks.choices.iter().any(|choice| same_choice(value, choice)) {
        return;
    }
    let place = path.dotted();
    let shown: Vec<String> = checks
        .choices
        .iter()
        .map(|choice| choice.as_str().map_or_else(|| json(choice), str::to_owned))
        .collect();
    let sentence = format!("{place} in body should be one of [{}]", shown.join(" "));
    let problem = Problem::NotSupported(value.clone(), shown);
    outcome.add(Found { sentence, place: Some(place), problem });
}

/// A value is compared after conversion to the type of the choice, as Go converts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "Go's conversions"
)]
fn same_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => match (value.as_i64(), choice.as_i64()) {
            (Some(value), Some(choice)) => value == choice,
            (None, Some(choice)) => value.as_f64().is_some_and(|value| value as i64 == choice),
            (Some(value), None) => choice.as_f64().is_some_and(|choice| value as f64 == choice),
            (None, None) => value.as_f64() == choice.as_f64(),
        },
        (Value::Number(value), Value::String(choice)) => value
            .as_i64()
            .and_then(|value| u32::try_from(value).ok())
            .and_then(char::from_u32)
            .is_some_and(|value| choice.chars().eq([value])),
        _ => value == choice,
    }
}

fn object(
    fields: &Map<String, Value>,
    schema: &Schema,
    path: &Path<'_>,
    old: Option<&Value>,
    outcome: &mut Outcome,
) {
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(limit) = schema.checks.min_properties
        && size < limit
    {
        outcome.invalid(path, size.into(), &format!("should have at least {limit} properties"));
    }
    if let Some(limit) = schema.checks.max_properties
        && size > limit
    {
        too_many(path, size, limit, "properties", outcome);
    }
    let earlier = old.and_then(Value::as_object);
    match &schema.additional {
        Some(Additional::Allowed(false)) => {
            for key in fields.keys().filter(|key| schema.property(key).is_none()) {
                let place = path.dotted();
                let sentence = format!("{place}.{key} in body is a forbidden property");
                let problem = Problem::Invalid(key.as_str().into(), sentence.clone());
                outcome.add(Found { sentence, place: Some(place), problem });
            }
        }
        Some(Additional::Schema(below)) => {
            for (key, value) in fields {
                if schema.property(key).is_none() {
                    let old = earlier.and_then(|earlier| earlier.get(key));
                    outcome.merge(node(value, below, &path.key(key), old));
                }
            }
        }
        _ => {}
    }
    for (name, property) in &schema.properties {
        if let Some(value) = fields.get(name) {
            // What kind of object it is was decided by the path of the request, not by what is stored.
            let hidden = path.is_root() && matches!(name.as_str(), "kind" | "apiVersion");
            let old = earlier.filter(|_| !hidden).and_then(|earlier| earlier.get(name));
            outcome.merge(node(value, property, &path.field(name), old));
        }
    }
    for name in &schema.checks.required {
        if !fields.contains_key(name) {
            let place = format!("{}.{name}", path.dotted());
            let sentence = format!("{place} in body is required");
            outcome.add(Found { sentence, place: Some(place), problem: Problem::Required(String::new()) });
        }
    }
}
