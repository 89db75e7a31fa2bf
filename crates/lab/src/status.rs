//! Failures as the API tells them: the `Status` object.

use serde_json::{Map, Value, json};

use crate::gotext::{quote, shown};

/// A request that failed, or the ends of a watch: what becomes a `Status` of kind `Failure`.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason clients branch on, such as `NotFound`.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// What it is about.
    pub details: Details,
    /// True when the details are sent although they are empty.
    pub empty_details: bool,
    /// The token with which an expired list can be resumed.
    pub resume: Option<String>,
}

/// What a failure is about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// The name of the object.
    pub name: String,
    /// The group of the resource.
    pub group: String,
    /// The resource or kind.
    pub kind: String,
    /// The uid of the object.
    pub uid: String,
    /// One entry per problem.
    pub causes: Vec<Cause>,
    /// When to try again.
    pub retry_after_seconds: Option<u32>,
}

/// One problem of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable kind, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// The field, such as `spec.replicas`.
    pub field: String,
}

impl Status {
    /// A failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Details::default(),
            empty_details: false,
            resume: None,
        }
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500: the server's own fault.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut status = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        status.details.causes.push(Cause { reason: "", message, field: String::new() });
        status
    }

    /// 404 for an object.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::about(404, "NotFound", group, resource, name, "not found")
    }

    /// 409 for a name that is taken.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::about(409, "AlreadyExists", group, resource, name, "already exists")
    }

    /// 409 for a write that came too late.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let mut status = Self::about(409, "Conflict", group, resource, name, "");
        status.message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, resource));
        status
    }

    /// 403 for an object, with the reason in words.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let mut status = Self::about(403, "Forbidden", group, resource, name, "");
        status.message = if resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{} is forbidden: {why}", qualified(group, resource))
        } else {
            format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource))
        };
        status
    }

    /// 422 with the problems of an object, told by its kind.
    pub fn invalid(group: &str, kind: &str, name: &str, problems: Vec<FieldProblem>) -> Self {
        let causes: Vec<Cause> = problems.into_iter().map(FieldProblem::cause).collect();
        let list = match causes.as_slice() {
            [] => "[]".to_owned(),
            [one] => format!("{}: {}", one.field, one.message),
            many => {
                // The real server leaves out repetitions of the same sentence.
                let mut seen = Vec::new();
                for cause in many {
                    let text = format!("{}: {}", cause.field, cause.message);
                    if !seen.contains(&text) {
                        seen.push(text);
                    }
                }
                if let [one] = seen.as_slice() { one.clone() } else { format!("[{}]", seen.join(", ")) }
            }
        };
        let mut status = Self::about(422, "Invalid", group, kind, name, "");
        status.message = format!("{} \"{name}\" is invalid: {list}", qualified(group, kind));
        status.details.causes = causes;
        status
    }

    /// A failure about a named thing; `what` follows its name in the message.
    fn about(code: u16, reason: &'static str, group: &str, kind: &str, name: &str, what: &str) -> Self {
        let mut status = Self::new(code, reason, format!("{} \"{name}\" {what}", qualified(group, kind)));
        name.clone_into(&mut status.details.name);
        group.clone_into(&mut status.details.group);
        kind.clone_into(&mut status.details.kind);
        status
    }

    /// The same, with details even though there are none.
    #[must_use]
    pub fn with_empty_details(mut self) -> Self {
        self.empty_details = true;
        self
    }

    /// The object that is sent.
    pub fn to_value(&self) -> Value {
        let mut details = Map::new();
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        };
        text("name", &self.details.name);
        text("group", &self.details.group);
        text("kind", &self.details.kind);
        text("uid", &self.details.uid);
        if !self.details.causes.is_empty() {
            let causes: Vec<Value> = self.details.causes.iter().map(Cause::to_value).collect();
            details.insert("causes".to_owned(), causes.into());
        }
        if let Some(seconds) = self.details.retry_after_seconds {
            details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.reason.is_empty() {
            status.as_object_mut().map(|fields| fields.remove("reason"));
        }
        // The details of a refusal are told even when there are none.
        if !details.is_empty() || self.empty_details || self.reason == "Forbidden" {
            status["details"] = details.into();
        }
        if let Some(token) = &self.resume {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut cause = Map::new();
        for (key, value) in [("reason", self.reason), ("message", &self.message), ("field", &self.field)] {
            if !value.is_empty() {
                cause.insert(key.to_owned(), value.into());
            }
        }
        cause.into()
    }
}

/// Reasons that others gave, kept for as long as the program runs: [`Status::reason`] borrows them.
static INTERNED: std::sync::Mutex<std::collections::BTreeSet<&'static str>> =
    std::sync::Mutex::new(std::collections::BTreeSet::new());
/// So many foreign reasons are kept; more would be a leak.
const MOST_INTERNED: usize = 4096;

/// A reason that came from outside, such as a webhook's, in the form a [`Status`] carries it.
pub fn interned(reason: &str) -> &'static str {
    if reason.is_empty() {
        return "";
    }
    let Ok(mut known) = INTERNED.lock() else { return "Unknown" };
    if let Some(same) = known.get(reason) {
        return same;
    }
    if known.len() >= MOST_INTERNED || reason.len() > 1024 {
        return "Unknown";
    }
    let kept: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    known.insert(kept);
    kept
}

/// `deployments.apps`, or just `pods` for the group without a name.
pub fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// A problem with the value of one field, in the words of the real server.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldProblem {
    /// The field, such as `spec.ports[0].port`.
    pub field: String,
    /// What is wrong with it.
    pub kind: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// It has to be there; with more words, or none.
    Required(String),
    /// The value is not acceptable.
    Invalid(Value, String),
    /// The value is not acceptable; it is already written as the message shows it, or not shown at all.
    InvalidAs(Option<String>, String),
    /// The type is wrong.
    TypeInvalid(Value, String),
    /// The value is not one of the choices.
    NotSupported(Value, Vec<String>),
    /// The value occurs twice.
    Duplicate(Value),
    /// The value occurs twice, and is too big to show.
    DuplicateUnshown,
    /// The field may not be set.
    Forbidden(String),
    /// The value is too long: the limit in bytes.
    TooLong(u64),
    /// The value is too long: the limit in characters.
    TooLongCharacters(u64),
    /// The value is too short: the least number of characters.
    TooShort(u64),
    /// There are too many items: how many and the limit.
    TooMany(u64, u64),
    /// There are too few items: how many and the least number.
    TooFew(u64, u64),
    /// It refers to something that is not there.
    NotFound(Value),
    /// Something failed inside the server.
    Internal(String),
    /// A reason and its whole sentence: for typed values, which are written in an order of their own.
    Told(&'static str, String),
}

impl FieldProblem {
    /// A problem with a field.
    pub fn new(field: impl Into<String>, kind: Problem) -> Self {
        Self { field: field.into(), kind }
    }

    /// The problem as a cause, with the sentence the real server writes.
    pub fn cause(self) -> Cause {
        let with =
            |start: String, more: &str| if more.is_empty() { start } else { format!("{start}: {more}") };
        let (reason, message) = match &self.kind {
            Problem::Required(more) => ("FieldValueRequired", with("Required value".to_owned(), more)),
            Problem::Invalid(value, more) => {
                ("FieldValueInvalid", with(format!("Invalid value: {}", shown(value)), more))
            }
            Problem::InvalidAs(value, more) => {
                let start = value
                    .as_ref()
                    .map_or("Invalid value".to_owned(), |value| format!("Invalid value: {value}"));
                ("FieldValueInvalid", with(start, more))
            }
            Problem::TypeInvalid(value, more) => {
                ("FieldValueTypeInvalid", with(format!("Invalid value: {}", shown(value)), more))
            }
            Problem::NotSupported(value, choices) => {
                let texts: Vec<String> = choices.iter().map(|choice| quote(choice)).collect();
                let values = if choices.is_empty() {
                    String::new()
                } else {
                    format!("supported values: {}", texts.join(", "))
                };
                ("FieldValueNotSupported", with(format!("Unsupported value: {}", shown(value)), &values))
            }
            Problem::Duplicate(value) => {
                ("FieldValueDuplicate", format!("Duplicate value: {}", shown(value)))
            }
            Problem::DuplicateUnshown => ("FieldValueDuplicate", "Duplicate value".to_owned()),
            Problem::Forbidden(more) => ("FieldValueForbidden", with("Forbidden".to_owned(), more)),
            Problem::TooLong(limit) => {
                ("FieldValueTooLong", format!("Too long: may not be more than {}", counted(*limit, "byte")))
            }
            Problem::TooLongCharacters(limit) => (
                "FieldValueTooLong",
                format!("Too long: may not be more than {}", counted(*limit, "character")),
            ),
            Problem::TooShort(limit) => (
                "FieldValueTooShort",
                format!("Too short: must be at least {}", counted(*limit, "character")),
            ),
            Problem::TooMany(count, limit) => (
                "FieldValueTooMany",
                format!("Too many: {count}: must have at most {}", counted(*limit, "item")),
            ),
            Problem::TooFew(count, limit) => (
                "FieldValueTooFew",
                format!("Too few: {count}: must have at least {}", counted(*limit, "item")),
            ),
            Problem::Told(reason, message) => (*reason, message.clone()),
            Problem::NotFound(value) => ("FieldValueNotFound", format!("Not found: {}", shown(value))),
            Problem::Internal(more) => ("InternalError", with("Internal error".to_owned(), more)),
        };
        Cause { reason, message, field: self.field }
    }
}

/// `1 item`, `2 items`.
fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
