//! The rules the real server has built in and switched on, each as functions over the stored objects.
//!
//! `mutate` functions change the object under review, `validate` functions only refuse it. They are called in
//! the order of the real server by [`super::Admission`].

pub(crate) mod certificates;
pub(crate) mod classes;
pub(crate) mod limit_ranger;
pub(crate) mod namespace_lifecycle;
pub(crate) mod nodes;
pub(crate) mod pod_resize;
pub(crate) mod priority;
pub(crate) mod resources;
pub(crate) mod runtime_class;
pub(crate) mod service_account;
mod service_account_secrets;
pub(crate) mod storage;
pub(crate) mod tolerations;

/// Sentences as one: a single one bare, several in brackets and without repetitions.
pub(super) fn aggregated(problems: &[String]) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for problem in problems {
        if !seen.contains(&problem.as_str()) {
            seen.push(problem);
        }
    }
    match seen.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests;
