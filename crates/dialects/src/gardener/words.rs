//! What is said about fields that are missing and names that are not known.

use crate::path::FieldPath;
use crate::reading::Cx;

/// A value that must be there, or a complaint where it is missing.
pub(super) fn required<'a, T: ?Sized + AsRef<str>>(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    value: Option<&'a T>,
    why: &str,
) -> Option<&'a T> {
    let value = value.filter(|value| !value.as_ref().is_empty());
    if value.is_none() {
        missing(cx, at, why, "");
    }
    value
}

/// Complains that a field is missing; `why` is a sentence, `help` says what to write.
pub(super) fn missing(cx: &mut Cx<'_>, at: &FieldPath, why: &str, help: &str) {
    let name = at.last_key().unwrap_or("value").to_owned();
    let help = if help.is_empty() { format!("add `{name}`") } else { help.to_owned() };
    cx.error("missing-field", at, format!("missing field `{name}`: {why}"), &help);
}

/// What to write instead of a name that is not known.
pub(super) fn suggest(wrong: &str, names: &[&str]) -> String {
    match crate::suggest::closest(wrong, names) {
        _ if names.is_empty() => "there is nothing to choose from".to_owned(),
        Some(name) => format!("did you mean `{name}`? There are {}", crate::suggest::listed(names)),
        None => format!("there are {}", crate::suggest::listed(names)),
    }
}
