//! The JSON schemas of the types that are read, made ready for the structural check.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// How a field's documentation says what Trellis does with it: the paragraph that begins so.
pub const TREATMENTS: &[(&str, Treatment)] = &[
    ("Honoured:", Treatment::Honoured),
    ("Mapped:", Treatment::Mapped),
    ("Warned about:", Treatment::Warned),
    ("Refused:", Treatment::Refused),
    ("Ignored:", Treatment::Ignored),
];

/// What Trellis does with a field of a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Treatment {
    /// It does what the field says.
    Honoured,
    /// It does what is meant, in another way.
    Mapped,
    /// It says that the field has no effect, or not the expected one.
    Warned,
    /// It says that this cannot be done.
    Refused,
    /// It has nothing to do with tenant machines; a notice says so.
    Ignored,
}

impl Treatment {
    /// As a word of the field tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Mapped => "mapped",
            Self::Warned => "warned about",
            Self::Refused => "refused",
            Self::Ignored => "ignored",
        }
    }
}

/// Splits a field's documentation into what the field is and what Trellis does with it.
pub fn split_description(description: &str) -> (String, Option<(Treatment, String)>) {
    let mut about = Vec::new();
    let mut treatment = None;
    for paragraph in description.split("\n\n") {
        let found =
            TREATMENTS.iter().find_map(|(prefix, kind)| Some((*kind, paragraph.strip_prefix(prefix)?)));
        match found {
            Some((kind, text)) => treatment = Some((kind, one_line(text))),
            None => about.push(one_line(paragraph)),
        }
    }
    (about.join("\n\n"), treatment)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The schema of a type, made once.
pub fn schema_of<T: JsonSchema + ?Sized>() -> &'static Value {
    static SCHEMAS: LazyLock<Mutex<HashMap<&str, &'static Value>>> = LazyLock::new(Mutex::default);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    schemas.entry(std::any::type_name::<T>()).or_insert_with(|| {
        let mut schema =
            SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
        prepare(&mut schema);
        // One leak for each type that is read: there are a few dozen.
        Box::leak(Box::new(schema))
    })
}

/// Tells the check which fields are not looked at, from their documentation, and writes maps in one way.
fn prepare(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let why =
                map.get("description").and_then(Value::as_str).and_then(
                    |description| match split_description(description).1 {
                        Some((Treatment::Ignored, why)) => Some(why),
                        _ => None,
                    },
                );
            if let Some(why) = why {
                map.insert("x-trellis-ignored".to_owned(), Value::String(why));
            }
            // Keys of maps are checked when they are decoded, with a better message than a pattern gives.
            if let Some(Value::Object(patterns)) = map.remove("patternProperties")
                && let Some((_, values)) = patterns.into_iter().next()
            {
                map.insert("additionalProperties".to_owned(), values);
            }
            map.values_mut().for_each(prepare);
        }
        Value::Array(list) => list.iter_mut().for_each(prepare),
        _ => {}
    }
}
