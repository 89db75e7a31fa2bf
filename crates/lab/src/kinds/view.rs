//! How the rules of the kinds look at objects: fields that are missing read as their zero value, and paths are
//! only written out when something is wrong.

use std::fmt;

use serde_json::{Map, Value};

use crate::status::{FieldProblem, Problem};

/// Reading fields of a decoded object, the way a typed server sees them.
pub(crate) trait Look {
    /// The value of a field; null when it is missing.
    fn at(&self, field: &str) -> &Value;
    /// The text of a field; empty when it is missing.
    fn text(&self, field: &str) -> &str;
    /// The whole number of a field.
    fn int(&self, field: &str) -> Option<i64>;
    /// The truth of a field; false when it is missing.
    fn flag(&self, field: &str) -> bool;
    /// The items of a list; none when it is missing.
    fn list(&self, field: &str) -> &[Value];
    /// The entries of a map or object.
    fn fields(&self, field: &str) -> Option<&Map<String, Value>>;
    /// True when the field is there and not null.
    fn has(&self, field: &str) -> bool;
    /// The text of this value itself; empty when it is none.
    fn str(&self) -> &str;
}

static NULL: Value = Value::Null;

impl Look for Value {
    fn at(&self, field: &str) -> &Value {
        self.get(field).unwrap_or(&NULL)
    }

    fn text(&self, field: &str) -> &str {
        self.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn int(&self, field: &str) -> Option<i64> {
        self.get(field).and_then(Value::as_i64)
    }

    fn flag(&self, field: &str) -> bool {
        self.get(field).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, field: &str) -> &[Value] {
        self.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn fields(&self, field: &str) -> Option<&Map<String, Value>> {
        self.get(field).and_then(Value::as_object)
    }

    fn has(&self, field: &str) -> bool {
        self.get(field).is_some_and(|value| !value.is_null())
    }

    fn str(&self) -> &str {
        self.as_str().unwrap_or_default()
    }
}

/// Changing fields of a decoded object.
pub(crate) trait Edit {
    /// Sets a field unless it is there already.
    fn fill(&mut self, field: &str, value: impl Into<Value>);
    /// Sets a field that is missing or empty text.
    fn fill_text(&mut self, field: &str, value: &str);
    /// Sets a field.
    fn put(&mut self, field: &str, value: impl Into<Value>);
    /// Takes a field out.
    fn cut(&mut self, field: &str) -> Option<Value>;
    /// The object in a field, made when it is missing.
    fn object(&mut self, field: &str) -> &mut Value;
    /// The object or list in a field, when it is there.
    fn child(&mut self, field: &str) -> Option<&mut Value>;
    /// The items of a list.
    fn items(&mut self, field: &str) -> &mut [Value];
}

impl Edit for Value {
    fn fill(&mut self, field: &str, value: impl Into<Value>) {
        if !self.has(field) {
            self.put(field, value);
        }
    }

    fn fill_text(&mut self, field: &str, value: &str) {
        if self.text(field).is_empty() {
            self.put(field, value);
        }
    }

    fn put(&mut self, field: &str, value: impl Into<Value>) {
        if self.is_null() {
            *self = Value::Object(Map::new());
        }
        if let Some(fields) = self.as_object_mut() {
            fields.insert(field.to_owned(), value.into());
        }
    }

    fn cut(&mut self, field: &str) -> Option<Value> {
        self.as_object_mut().and_then(|fields| fields.remove(field))
    }

    fn object(&mut self, field: &str) -> &mut Value {
        if !self.at(field).is_object() {
            self.put(field, Map::new());
        }
        // `self` may be something that has no fields at all, such as a text: it is left as it is.
        if self.is_object() { &mut self[field] } else { self }
    }

    fn child(&mut self, field: &str) -> Option<&mut Value> {
        self.get_mut(field).filter(|value| value.is_object() || value.is_array())
    }

    fn items(&mut self, field: &str) -> &mut [Value] {
        self.get_mut(field).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
    }
}

/// Where in an object something is. Cheap to make: it is only written out for problems.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// A field of the object itself.
    pub(crate) const fn root(field: &'a str) -> Self {
        Self { parent: None, step: Step::Field(field) }
    }

    /// A field of what is here.
    pub(crate) const fn child(&'a self, field: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(field) }
    }

    /// An item of the list here.
    pub(crate) const fn index(&'a self, place: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(place) }
    }

    /// An entry of the map here.
    pub(crate) const fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            // A step without a name stands for the object itself, so that what is embedded has no path of its own.
            Step::Field("") => Ok(()),
            Step::Field(field) if self.parent.is_none_or(Path::is_nothing) => formatter.write_str(field),
            Step::Field(field) => write!(formatter, ".{field}"),
            Step::Index(place) => write!(formatter, "[{place}]"),
            Step::Key(key) => write!(formatter, "[{key}]"),
        }
    }
}

impl Path<'_> {
    fn is_nothing(&self) -> bool {
        matches!(self.step, Step::Field("")) && self.parent.is_none_or(Path::is_nothing)
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<FieldProblem>, Vec<FieldProblem>);

impl Problems {
    fn add(&mut self, at: &Path<'_>, kind: Problem) {
        self.0.push(FieldProblem::new(at.to_string(), kind));
    }

    /// What the schema itself says: it is told after everything else.
    pub(crate) fn declared(&mut self, work: impl FnOnce(&mut Self)) {
        let told = std::mem::take(&mut self.0);
        work(self);
        let declared = std::mem::replace(&mut self.0, told);
        self.1.extend(declared);
    }

    /// All of them, in the order they are told.
    pub(crate) fn finish(self) -> Vec<FieldProblem> {
        let Self(mut told, declared) = self;
        told.extend(declared);
        told
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// True when nothing is wrong so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many problems there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len() + self.1.len()
    }

    pub(crate) fn required(&mut self, at: &Path<'_>, more: impl Into<String>) {
        self.add(at, Problem::Required(more.into()));
    }

    pub(crate) fn invalid(&mut self, at: &Path<'_>, value: impl Into<Value>, why: impl Into<String>) {
        self.add(at, Problem::Invalid(value.into(), why.into()));
    }

    /// One problem for each sentence.
    pub(crate) fn invalid_each(&mut self, at: &Path<'_>, value: &str, why: Vec<String>) {
        for sentence in why {
            self.invalid(at, value, sentence);
        }
    }

    pub(crate) fn unsupported(&mut self, at: &Path<'_>, value: impl Into<Value>, choices: &[&str]) {
        self.add(
            at,
            Problem::NotSupported(value.into(), choices.iter().map(|&one| one.to_owned()).collect()),
        );
    }

    pub(crate) fn duplicate(&mut self, at: &Path<'_>, value: impl Into<Value>) {
        self.add(at, Problem::Duplicate(value.into()));
    }

    pub(crate) fn forbidden(&mut self, at: &Path<'_>, why: impl Into<String>) {
        self.add(at, Problem::Forbidden(why.into()));
    }

    pub(crate) fn too_long(&mut self, at: &Path<'_>, limit: u64) {
        self.add(at, Problem::TooLong(limit));
    }

    pub(crate) fn too_long_characters(&mut self, at: &Path<'_>, limit: u64) {
        self.add(at, Problem::TooLongCharacters(limit));
    }

    pub(crate) fn too_many(&mut self, at: &Path<'_>, count: usize, limit: u64) {
        self.add(at, Problem::TooMany(count as u64, limit));
    }

    pub(crate) fn not_found(&mut self, at: &Path<'_>, value: impl Into<Value>) {
        self.add(at, Problem::NotFound(value.into()));
    }

    /// A problem in words: for typed values, which are written in an order of their own.
    pub(crate) fn told(&mut self, at: &Path<'_>, reason: &'static str, message: impl Into<String>) {
        self.add(at, Problem::Told(reason, message.into()));
    }

    /// The same for a value that is not acceptable.
    pub(crate) fn invalid_shown(&mut self, at: &Path<'_>, value: &str, why: &str) {
        self.told(at, "FieldValueInvalid", format!("Invalid value: {value}: {why}"));
    }

    /// Something that has to be there; nothing when it is.
    pub(crate) fn need(&mut self, at: &Path<'_>, object: &Value, field: &str) {
        if object.text(field).is_empty() {
            self.required(&at.child(field), "");
        }
    }

    /// A text of a certain form.
    pub(crate) fn form(&mut self, at: &Path<'_>, text: &str, form: fn(&str) -> Vec<String>) {
        self.invalid_each(at, text, form(text));
    }

    /// Not one of the choices; nothing when it is.
    pub(crate) fn one_of(&mut self, at: &Path<'_>, value: &str, choices: &[&str]) {
        if !choices.contains(&value) {
            self.unsupported(at, value, choices);
        }
    }

    /// A number below zero; nothing when it is not.
    pub(crate) fn not_negative(&mut self, at: &Path<'_>, value: i64) {
        if value < 0 {
            self.invalid(at, value, "must be greater than or equal to 0");
        }
    }

    /// The same for a value of this type, which is shown in the form of the server.
    pub(crate) fn immutable_of(&mut self, at: &Path<'_>, of: &str, new: &Value, old: &Value) {
        if !same(new, old) {
            self.invalid_shown(at, &super::shown::internal(of, new), "field is immutable");
        }
    }

    /// The same, told without the value.
    pub(crate) fn immutable_unshown(&mut self, at: &Path<'_>, new: &Value, old: &Value) {
        if !same(new, old) {
            self.invalid(at, Value::Null, "field is immutable");
        }
    }

    /// Something that is not acceptable, told without its value.
    pub(crate) fn invalid_unshown(&mut self, at: &Path<'_>, why: &str) {
        self.told(at, "FieldValueInvalid", format!("Invalid value: {why}"));
    }

    /// A value that may not change; nothing when it did not.
    pub(crate) fn immutable(&mut self, at: &Path<'_>, new: &Value, old: &Value) {
        if !same(new, old) {
            self.invalid(at, new.clone(), "field is immutable");
        }
    }
}

/// Equal the way the server compares: a missing value, an empty list and an empty map are the same.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter().all(|(key, value)| same(value, right.get(key).unwrap_or(&NULL)))
                && right.iter().all(|(key, value)| left.contains_key(key) || is_nothing(value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
        }
        _ => one == other || (is_nothing(one) && is_nothing(other)),
    }
}

/// A missing value, an empty list or an object of nothing but such.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        _ => false,
    }
}
