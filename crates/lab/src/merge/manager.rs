//! Under which name somebody writes.

use super::go;
use crate::status::{FieldProblem, Problem};

/// How long the name of a manager may be, in bytes.
pub(crate) const MANAGER_LENGTH: usize = 128;

/// The name under which fields are owned: the one that was asked for, or what the client calls itself.
pub(crate) fn manager_name(asked: &str, user_agent: &str) -> String {
    if !asked.is_empty() {
        return asked.to_owned();
    }
    let mut name = String::new();
    for character in user_agent.split('/').next().unwrap_or_default().chars().filter(|one| go::is_print(*one))
    {
        if name.len() + character.len_utf8() > MANAGER_LENGTH {
            break;
        }
        name.push(character);
    }
    name
}

/// What is wrong with the name of a manager that was asked for.
pub(crate) fn check_manager(name: &str) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let mut wrong = |kind: Problem| problems.push(FieldProblem::new("fieldManager", kind));
    if name.len() > MANAGER_LENGTH {
        wrong(Problem::TooLong(MANAGER_LENGTH as u64));
    }
    for (place, character) in name.char_indices().filter(|(_, character)| !go::is_print(*character)) {
        let code = u32::from(character);
        wrong(Problem::Invalid(name.into(), format!("invalid character U+{code:04X} (at position {place})")));
    }
    problems
}

/// What is wrong with the options of a patch that depend on whether it applies.
pub(crate) fn check_patch_options(applies: bool, manager: &str, force: Option<bool>) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    if applies && manager.is_empty() {
        let why = "is required for apply patch".to_owned();
        problems.push(FieldProblem::new("fieldManager", Problem::Required(why)));
    }
    if !applies && force.is_some() {
        let why = "may not be specified for non-apply patch".to_owned();
        problems.push(FieldProblem::new("force", Problem::Forbidden(why)));
    }
    problems.extend(check_manager(manager));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn clients_without_a_name_are_called_by_their_program() {
        assert_eq!(manager_name("", "kubectl/v1.37.1 (linux/amd64)"), "kubectl");
        assert_eq!(manager_name("asked", "kubectl/v1"), "asked");
        assert_eq!(manager_name("", "a\u{1}b\u{a0}c"), "abc");
        assert_eq!(manager_name("", &"ä".repeat(100)).len(), 128);
        assert_eq!(manager_name("", ""), "");
    }

    #[test]
    fn names_and_options_are_checked_in_the_words_of_the_real_server() {
        let message = |problems| Status::invalid("meta.k8s.io", "PatchOptions", "", problems).message;
        assert_eq!(
            message(check_patch_options(true, "", None)),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(
            message(check_patch_options(false, "", Some(true))),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert_eq!(
            message(check_patch_options(true, &"x".repeat(129), None)),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
        );
        let causes = check_manager("a\u{1}b\u{a0}");
        let more: Vec<String> = causes.into_iter().map(|problem| problem.cause().message).collect();
        assert!(more[0].ends_with("invalid character U+0001 (at position 1)"), "{more:?}");
        assert!(more[1].ends_with("invalid character U+00A0 (at position 3)"), "{more:?}");
    }
}
