//! Doc comments of the API are data: `trellis explain` and the field tables are made from them.

use serde_json::Value;
use trellis_dialects::gardener::KINDS;
use trellis_dialects::schema::split_description;

/// Collects fields whose documentation does not say what Trellis does with them.
fn undocumented(schema: &Value, place: &str, found: &mut Vec<String>) {
    let Some(object) = schema.as_object() else { return };
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        for (name, field) in properties {
            let (about, treatment) =
                split_description(field.get("description").and_then(Value::as_str).unwrap_or_default());
            let server_writes = field.get("x-trellis-ignored").is_some_and(|why| why == "a server writes it");
            let why = treatment.map(|(_, why)| why).unwrap_or_default();
            if about.is_empty() || (why.is_empty() && !server_writes) {
                found.push(format!("{place}.{name}"));
            }
        }
    }
    for (key, inner) in object {
        undocumented(inner, &format!("{place}/{key}"), found);
    }
}

#[test]
fn every_field_says_what_becomes_of_it() {
    let mut found = Vec::new();
    for kind in KINDS {
        undocumented((kind.schema)(), kind.kind, &mut found);
    }
    assert_eq!(found, [] as [&str; 0]);
}
