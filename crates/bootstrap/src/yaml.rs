//! YAML out of JSON values.

use serde_json::Value;

/// A value as one YAML document that ends with a line break.
pub(crate) fn to_yaml(value: &Value) -> String {
    // Long lines stay whole, so that people can copy what stands in them.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    // The writer fails on nothing a JSON value can hold; if it ever should, JSON is YAML too.
    let mut text = serde_saphyr::to_string_with_options(value, options).unwrap_or_else(|_| value.to_string());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Values as documents of one text.
pub(crate) fn to_yaml_documents(values: &[Value]) -> String {
    values.iter().map(to_yaml).collect::<Vec<_>>().join("---\n")
}
