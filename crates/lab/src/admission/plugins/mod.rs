//! The rules the real server has built in and switched on, each as functions over the stored objects.
//!
//! `mutate` functions change the object under review, `validate` functions only refuse it. They are called in
//! the order of the real server by [`super::Admission`].

pub mod certificates;
pub mod classes;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod nodes;
pub mod pod_resize;
pub mod priority;
pub mod resources;
pub mod runtime_class;
pub mod service_account;
mod service_account_secrets;
pub mod storage;
pub mod tolerations;

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
