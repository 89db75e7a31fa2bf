//! Small pieces of messages in the form the real server gives them.

pub(super) use crate::gotext::quote as quoted;

/// A list of texts: `["a" "b"]`.
pub(super) fn quoted_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Several problems as one: each is told once, in brackets when there is more than one.
pub(super) fn aggregated(problems: &[String]) -> String {
    let mut told: Vec<&str> = Vec::new();
    for problem in problems {
        if !told.contains(&problem.as_str()) {
            told.push(problem);
        }
    }
    match told.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}
