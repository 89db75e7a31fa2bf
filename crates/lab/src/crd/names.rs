//! The forms names have, and what is said when one does not have its form.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// The sentence about a form, with examples and the pattern.
fn not_like(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn matches_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if is_lower(first) && is_lower(last))
        && bytes.iter().all(|&byte| is_lower(byte) || byte == b'-')
}

fn matches_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last))
        if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// What is wrong with a DNS label (RFC 1123).
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !matches_label(text) {
        if text.split('.').all(matches_label) {
            problems.push("must not contain dots".to_owned());
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                        must start and end with an alphanumeric character";
            problems.push(not_like(rule, LABEL, &["my-name", "123-abc"]));
        }
    }
    problems
}

/// What is wrong with a DNS subdomain (RFC 1123).
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !text.split('.').all(matches_label) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                    and must start and end with an alphanumeric character";
        problems.push(not_like(rule, &format!("{LABEL}(\\.{LABEL})*"), &["example.com"]));
    }
    problems
}

/// What is wrong with a DNS label that starts with a letter (RFC 1035).
pub(crate) fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !matches_label(text) || text.starts_with(|one: char| one.is_ascii_digit()) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                    alphabetic character, and end with an alphanumeric character";
        problems.push(not_like(rule, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    problems
}

/// The name a prefix is checked as: a dash at its end is fine, since something will follow.
pub(crate) fn as_prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        // The character in front of the dash goes too; so does the server.
        Some(front) if !front.is_empty() => {
            let mut shorter = front.to_owned();
            shorter.pop();
            shorter.push('a');
            shorter
        }
        _ => text.to_owned(),
    }
}

/// What is wrong with a name that has an optional domain in front: keys of labels, finalizers.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character";
    let not_like_key = || not_like(rule, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut problems = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    dns_subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                not_like_key()
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !matches_qualified(name) {
        problems.push(format!("name part {}", not_like_key()));
    }
    problems
}

/// What is wrong with the value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !text.is_empty() && !matches_qualified(text) {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                    and must start and end with an alphanumeric character";
        problems.push(not_like(rule, &format!("({QUALIFIED})?"), &["MyValue", "my_value", "12345"]));
    }
    problems
}

/// What is wrong with a name that stands in a path.
pub(crate) fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    if !prefix && (text == "." || text == "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| text.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_in_the_words_of_the_server() {
        assert!(
            dns_label("a-b").is_empty()
                && dns_subdomain("a.b-c").is_empty()
                && dns1035_label("a1").is_empty()
        );
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns1035_label("1a"),
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                 character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                 validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(qualified_name("/a")[0], "prefix part must be non-empty");
        assert_eq!(qualified_name("a/").len(), 2);
        assert!(label_value("").is_empty() && !label_value("-a").is_empty());
        assert_eq!(path_segment("a/%", false), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(as_prefix("é-"), "a");
    }
}
