//! The `authorizer` of expressions: who may do what.

use std::fmt;
use std::sync::Arc;

use super::super::{Decision, SharedAuthorizer};
use super::conditions::Subject;
use crate::attributes::{Attributes, User};
use crate::cel::{Failure, Host, Val};

/// Something that can be asked about permissions, or asked further.
#[derive(Clone)]
struct Asking {
    authorizer: SharedAuthorizer,
    step: Step,
    attributes: Attributes,
}

/// How far a question is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Start,
    Path,
    Group,
    Resource,
    Decided(Decision),
}

impl fmt::Debug for Asking {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple(self.type_name()).finish()
    }
}

/// The variable `authorizer`.
pub(super) fn authorizer(subject: &Subject<'_>, authorizer: &SharedAuthorizer) -> Val<'static> {
    let attributes = Attributes { user: subject.attributes.user.clone(), ..Attributes::default() };
    host(Asking { authorizer: Arc::clone(authorizer), step: Step::Start, attributes })
}

/// The variable `authorizer.requestResource`.
pub(super) fn request_resource(subject: &Subject<'_>, authorizer: &SharedAuthorizer) -> Val<'static> {
    let asked = subject.attributes;
    let text = |key: &str| subject.request[key].as_str().unwrap_or_default().to_owned();
    let attributes = Attributes {
        user: asked.user.clone(),
        group: asked.group.clone(),
        version: "*".to_owned(),
        resource: asked.resource.clone(),
        subresource: asked.subresource.clone(),
        namespace: text("namespace"),
        name: text("name"),
        ..Attributes::default()
    };
    host(Asking { authorizer: Arc::clone(authorizer), step: Step::Resource, attributes })
}

fn host(asking: Asking) -> Val<'static> {
    Val::Host(Arc::new(asking))
}

impl Asking {
    /// The same question with something more known.
    fn with(&self, step: Step, set: impl FnOnce(&mut Attributes)) -> Self {
        let mut more = Self { step, ..self.clone() };
        set(&mut more.attributes);
        more
    }

    fn answer(&self, function: &str, args: &[&str]) -> Option<Result<Val<'static>, Failure>> {
        let not_empty = |what: &str, value: &str| {
            if value.trim().is_empty() {
                Err(Failure::new(format!("{what} must not be empty")))
            } else {
                Ok(())
            }
        };
        let owned = |value: &str| value.to_owned();
        Some(match (&self.step, function, args) {
            (Step::Start, "path", [path]) => not_empty("path", path)
                .map(|()| host(self.with(Step::Path, |attributes| attributes.path = owned(path)))),
            (Step::Start, "group", [group]) => {
                Ok(host(self.with(Step::Group, |attributes| attributes.group = owned(group))))
            }
            (Step::Start, "serviceAccount", [namespace, name]) => service_account(namespace, name)
                .map(|user| host(self.with(Step::Start, |attributes| attributes.user = user))),
            (Step::Group, "resource", [resource]) => not_empty("resource", resource).map(|()| {
                host(self.with(Step::Resource, |attributes| {
                    attributes.resource = owned(resource);
                    "*".clone_into(&mut attributes.version);
                }))
            }),
            (Step::Resource, "subresource", [name]) => {
                Ok(host(self.with(Step::Resource, |attributes| attributes.subresource = owned(name))))
            }
            (Step::Resource, "namespace", [name]) => {
                Ok(host(self.with(Step::Resource, |attributes| attributes.namespace = owned(name))))
            }
            (Step::Resource, "name", [name]) => {
                Ok(host(self.with(Step::Resource, |attributes| attributes.name = owned(name))))
            }
            (Step::Resource, "fieldSelector", [selector]) => {
                Ok(host(self.with(Step::Resource, |attributes| attributes.field_selector = owned(selector))))
            }
            (Step::Resource, "labelSelector", [selector]) => {
                Ok(host(self.with(Step::Resource, |attributes| attributes.label_selector = owned(selector))))
            }
            (Step::Path | Step::Resource, "check", [verb]) => {
                let attributes = Attributes { verb: owned(verb), ..self.attributes.clone() };
                let decision = self.authorizer.decide(&attributes);
                Ok(host(self.with(Step::Decided(decision), |_| ())))
            }
            (Step::Decided(decision), "allowed", []) => Ok(Val::Bool(decision.allowed)),
            (Step::Decided(decision), "reason", []) => Ok(Val::text(decision.reason.as_str())),
            (Step::Decided(decision), "errored", []) => Ok(Val::Bool(decision.error.is_some())),
            (Step::Decided(decision), "error", []) => {
                Ok(Val::text(decision.error.clone().unwrap_or_default()))
            }
            _ => return None,
        })
    }
}

impl Host for Asking {
    fn type_name(&self) -> &str {
        match self.step {
            Step::Start => "kubernetes.authorization.Authorizer",
            Step::Path => "kubernetes.authorization.PathCheck",
            Step::Group => "kubernetes.authorization.GroupCheck",
            Step::Resource => "kubernetes.authorization.ResourceCheck",
            Step::Decided(_) => "kubernetes.authorization.Decision",
        }
    }

    fn call<'a>(&self, function: &str, args: &[Val<'a>]) -> Option<Result<Val<'a>, Failure>> {
        let texts: Vec<&str> = args
            .iter()
            .map(|arg| match arg {
                Val::Text(text) => Some(&**text),
                _ => None,
            })
            .collect::<Option<_>>()?;
        self.answer(function, &texts)
    }

    fn field(&self, _: &str) -> Option<Result<Val<'static>, Failure>> {
        None
    }
}

/// The user that a service account is.
fn service_account(namespace: &str, name: &str) -> Result<User, Failure> {
    let is_label = |text: &str| {
        !text.is_empty()
            && text.len() <= 63
            && text.bytes().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-')
    };
    if name.len() > 253 || name.is_empty() || !name.split('.').all(is_label) {
        return Err(Failure::new("Invalid service account name"));
    }
    if !is_label(namespace) {
        return Err(Failure::new("Invalid service account namespace"));
    }
    Ok(User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        ..User::default()
    })
}
