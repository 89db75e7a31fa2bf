//! Questions about access: what somebody may do, who somebody is, whose a token is.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::authn::Authenticator;
use super::rbac::{Authorizer, Rule, Target};
use crate::attributes::{Attributes, User};
use crate::clock;
use crate::crd::names::{label_value, qualified_name};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{FieldProblem, Problem, Status};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
/// Metadata that the server sets by itself, or ignores in reviews.
const IGNORED: [&str; 6] =
    ["managedFields", "creationTimestamp", "uid", "deletionTimestamp", "selfLink", "namespace"];
const NOT_BOTH: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// May I do this?
    SelfSubjectAccess,
    /// May somebody do this?
    SubjectAccess,
    /// May somebody do this in this namespace?
    LocalSubjectAccess,
    /// What may I do in a namespace?
    SelfSubjectRules,
    /// Who am I?
    SelfSubject,
    /// Whose is this token?
    Token,
}

impl Review {
    /// The question that a resource stands for.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        match (group, resource) {
            (AUTHORIZATION, "selfsubjectaccessreviews") => Some(Self::SelfSubjectAccess),
            (AUTHORIZATION, "subjectaccessreviews") => Some(Self::SubjectAccess),
            (AUTHORIZATION, "localsubjectaccessreviews") => Some(Self::LocalSubjectAccess),
            (AUTHORIZATION, "selfsubjectrulesreviews") => Some(Self::SelfSubjectRules),
            (AUTHENTICATION, "selfsubjectreviews") => Some(Self::SelfSubject),
            (AUTHENTICATION, "tokenreviews") => Some(Self::Token),
            _ => None,
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::SelfSubjectAccess => (AUTHORIZATION, "SelfSubjectAccessReview"),
            Self::SubjectAccess => (AUTHORIZATION, "SubjectAccessReview"),
            Self::LocalSubjectAccess => (AUTHORIZATION, "LocalSubjectAccessReview"),
            Self::SelfSubjectRules => (AUTHORIZATION, "SelfSubjectRulesReview"),
            Self::SelfSubject => (AUTHENTICATION, "SelfSubjectReview"),
            Self::Token => (AUTHENTICATION, "TokenReview"),
        }
    }
}

/// Answers questions about access.
#[derive(Debug, Clone)]
pub struct Reviews {
    /// Who may do what.
    pub authorizer: Arc<Authorizer>,
    /// Who is who.
    pub authenticator: Arc<Authenticator>,
}

impl Reviews {
    /// Answers a question of a user. `namespace` is the one of the request, empty for none.
    pub fn answer(
        &self,
        review: Review,
        user: &User,
        namespace: &str,
        object: &Value,
        now: Timestamp,
    ) -> Result<Value, Status> {
        match review {
            Review::SelfSubjectAccess => {
                let user = user.clone();
                self.access(review, object, &problems(review, object), user)
            }
            Review::SubjectAccess => {
                self.access(review, object, &problems(review, object), user_in(&object["spec"], "user"))
            }
            Review::LocalSubjectAccess => self.local(object, namespace),
            Review::SelfSubjectRules => self.rules(user, object),
            Review::SelfSubject => Ok(who(user, object, now)),
            Review::Token => self.token(object, now),
        }
    }

    fn access(
        &self,
        review: Review,
        object: &Value,
        problems: &[FieldProblem],
        user: User,
    ) -> Result<Value, Status> {
        if !problems.is_empty() {
            // The real server does not name the kind either.
            return Err(Status::invalid(AUTHORIZATION, "", "", problems.to_vec()));
        }
        let (attributes, target, unread) = attributes(user, &object["spec"]);
        let verdict = self.authorizer.decide(&attributes, target, true);
        let mut status = json!({"allowed": verdict.allowed});
        for (field, text) in [("reason", verdict.reason), ("evaluationError", unread.join("; "))] {
            if !text.is_empty() {
                status[field] = text.into();
            }
        }
        Ok(answered(review, object, status))
    }

    fn local(&self, object: &Value, namespace: &str) -> Result<Value, Status> {
        let mut object = object.clone();
        if object["metadata"]["namespace"].as_str().unwrap_or_default().is_empty() {
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["namespace"] = namespace.into();
        }
        let mut problems = problems(Review::LocalSubjectAccess, &object);
        let mut wrong = |field: &str, value: Value, words: &str| {
            problems.push(FieldProblem::new(field, Problem::Invalid(value, words.to_owned())));
        };
        let spec = &object["spec"];
        let of_resource = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
        if spec["resourceAttributes"].is_object() && object["metadata"]["namespace"] != of_resource {
            let words = "must match metadata.namespace";
            wrong("spec.resourceAttributes.namespace", of_resource.into(), words);
        }
        if spec["nonResourceAttributes"].is_object() {
            let words = "disallowed on this kind of request";
            wrong("spec.nonResourceAttributes", path_attributes(spec), words);
        }
        if problems.is_empty() && object["metadata"]["namespace"] != namespace {
            return Err(Status::bad_request(format!(
                "spec.resourceAttributes.namespace must match namespace: {namespace}"
            )));
        }
        self.access(Review::LocalSubjectAccess, &object, &problems, user_in(&object["spec"], "user"))
    }

    fn rules(&self, user: &User, object: &Value) -> Result<Value, Status> {
        let namespace = object["spec"]["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let found = self.authorizer.rules_for(user, namespace);
        let pick = |wanted: fn(&Rule) -> bool, without: &[&str]| -> Vec<Value> {
            let rules = found.rules.iter().filter(|rule| wanted(rule)).map(Rule::to_value);
            rules
                .map(|mut rule| {
                    if let Some(fields) = rule.as_object_mut() {
                        fields.retain(|field, _| !without.contains(&field.as_str()));
                    }
                    rule
                })
                .collect()
        };
        let mut status = json!({
            "resourceRules": pick(|rule| !rule.resources.is_empty(), &["nonResourceURLs"]),
            "nonResourceRules": pick(
                |rule| !rule.non_resource_urls.is_empty(),
                &["apiGroups", "resources", "resourceNames"],
            ),
            "incomplete": found.incomplete,
        });
        if !found.problem.is_empty() {
            status["evaluationError"] = found.problem.into();
        }
        let mut answer = answered(Review::SelfSubjectRules, object, status);
        answer["metadata"] = json!({});
        answer["spec"] = json!({});
        Ok(answer)
    }

    fn token(&self, object: &Value, now: Timestamp) -> Result<Value, Status> {
        let spec = &object["spec"];
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let status = match self.authenticator.review_token(token, &texts(&spec["audiences"]), now) {
            Ok(found) => {
                json!({"authenticated": true, "user": user_info(&found.user), "audiences": found.audiences})
            }
            Err(problem) if problem.is_empty() => json!({"user": {}}),
            Err(problem) => json!({"user": {}, "error": problem}),
        };
        Ok(answered(Review::Token, object, status))
    }
}

/// The question with its answer.
fn answered(review: Review, object: &Value, status: Value) -> Value {
    let (group, kind) = review.names();
    let mut answer = if object.is_object() { object.clone() } else { json!({}) };
    if !answer["apiVersion"].is_string() {
        answer["apiVersion"] = format!("{group}/v1").into();
    }
    answer["kind"] = kind.into();
    if !answer["metadata"].is_object() {
        answer["metadata"] = json!({});
    }
    if review != Review::LocalSubjectAccess
        && let Some(metadata) = answer["metadata"].as_object_mut()
    {
        metadata.remove("namespace");
    }
    answer["status"] = status;
    answer
}

fn who(user: &User, object: &Value, now: Timestamp) -> Value {
    let mut answer = answered(Review::SelfSubject, object, json!({"userInfo": user_info(user)}));
    answer["metadata"] = json!({"creationTimestamp": clock::seconds(now)});
    answer
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(field.to_owned(), text.clone().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        let extra: Map<String, Value> =
            user.extra.iter().map(|(key, values)| (key.clone(), values.clone().into())).collect();
        info.insert("extra".to_owned(), extra.into());
    }
    info.into()
}

/// The user a specification names, under the key its kind has for that.
pub(super) fn user_in(spec: &Value, key: &str) -> User {
    User {
        name: spec[key].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

/// What a review asks about, and what of its selectors could not be read.
fn attributes(user: User, spec: &Value) -> (Attributes, Target, Vec<String>) {
    let resource = &spec["resourceAttributes"];
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    if !resource.is_object() {
        let path = &spec["nonResourceAttributes"];
        let attributes =
            Attributes { user, verb: text(path, "verb"), path: text(path, "path"), ..Attributes::default() };
        return (attributes, Target::Path, Vec::new());
    }
    let version = Some(text(resource, "version")).filter(|version| !version.is_empty());
    let (field_selector, unread_fields) = field_selector(&resource["fieldSelector"]);
    let (label_selector, unread_labels) = label_selector(&resource["labelSelector"]);
    let unread = [("fieldSelector", unread_fields), ("labelSelector", unread_labels)]
        .into_iter()
        .filter_map(|(name, unread)| {
            let how = match unread {
                Unread::Nothing => return None,
                Unread::Parts => "partially ignored",
                Unread::All => "ignored",
            };
            Some(format!("spec.resourceAttributes.{name} {how} due to parse error"))
        })
        .collect();
    let attributes = Attributes {
        user,
        verb: text(resource, "verb"),
        group: text(resource, "group"),
        version: version.unwrap_or_else(|| "*".to_owned()),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        path: String::new(),
        label_selector,
        field_selector,
    };
    (attributes, Target::Resource, unread)
}

/// How much of a selector makes no sense. It widens the question, which is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Nothing,
    Parts,
    All,
}

impl Unread {
    fn of(read: usize, all: usize) -> Self {
        match read {
            _ if read == all => Self::Nothing,
            0 => Self::All,
            _ => Self::Parts,
        }
    }
}

fn field_selector(selector: &Value) -> (String, Unread) {
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if requirements.is_empty() {
        let raw = selector["rawSelector"].as_str().unwrap_or_default();
        return match FieldSelector::parse(raw) {
            Ok(_) => (raw.to_owned(), Unread::Nothing),
            Err(_) => (String::new(), Unread::All),
        };
    }
    let escaped = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    let term = |requirement: &Value| {
        let values = texts(&requirement["values"]);
        let [value] = values.as_slice() else { return None };
        let operator = match requirement["operator"].as_str()? {
            "In" => "=",
            "NotIn" => "!=",
            _ => return None,
        };
        Some(format!("{}{operator}{}", requirement["key"].as_str()?, escaped(value)))
    };
    let terms: Vec<String> = requirements.iter().filter_map(term).collect();
    (terms.join(","), Unread::of(terms.len(), requirements.len()))
}

fn label_selector(selector: &Value) -> (String, Unread) {
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if requirements.is_empty() {
        let raw = selector["rawSelector"].as_str().unwrap_or_default();
        return match LabelSelector::parse(raw) {
            Ok(_) => (raw.to_owned(), Unread::Nothing),
            Err(_) => (String::new(), Unread::All),
        };
    }
    let term = |requirement: &Value| {
        let key = requirement["key"].as_str()?;
        let values = texts(&requirement["values"]).join(",");
        match requirement["operator"].as_str()? {
            "In" => Some(format!("{key} in ({values})")),
            "NotIn" => Some(format!("{key} notin ({values})")),
            "Exists" => Some(key.to_owned()),
            "DoesNotExist" => Some(format!("!{key}")),
            _ => None,
        }
    };
    let terms: Vec<String> = requirements.iter().filter_map(term).collect();
    (terms.join(","), Unread::of(terms.len(), requirements.len()))
}

/// What is wrong with a review of access.
fn problems(review: Review, object: &Value) -> Vec<FieldProblem> {
    let spec = &object["spec"];
    let mut problems = Vec::new();
    if spec["resourceAttributes"].is_object() == spec["nonResourceAttributes"].is_object() {
        let shown = Problem::Invalid(path_attributes(spec), NOT_BOTH.to_owned());
        problems.push(FieldProblem::new("spec", shown));
    }
    let nobody = spec["user"].as_str().unwrap_or_default().is_empty() && texts(&spec["groups"]).is_empty();
    if review != Review::SelfSubjectAccess && nobody {
        let words = "at least one of user or group must be specified".to_owned();
        problems.push(FieldProblem::new("spec.user", Problem::Invalid("".into(), words)));
    }
    for (name, of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
        selector_problems(&spec["resourceAttributes"][name], name, of_labels, &mut problems);
    }
    let given = object["metadata"].as_object();
    let left = given.into_iter().flatten().any(|(field, value)| {
        let empty = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            Value::Bool(value) => !value,
        };
        !empty && !IGNORED.contains(&field.as_str())
    });
    if left {
        let words = if review == Review::LocalSubjectAccess {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        let shown = Problem::Invalid(object["metadata"].clone(), words.to_owned());
        problems.push(FieldProblem::new("metadata", shown));
    }
    problems
}

/// The attributes of a path as the real server shows them: under the names of its own fields.
fn path_attributes(spec: &Value) -> Value {
    let path = &spec["nonResourceAttributes"];
    if !path.is_object() {
        return Value::Null;
    }
    let text = |field: &str| path[field].as_str().unwrap_or_default();
    json!({"Path": text("path"), "Verb": text("verb")})
}

fn selector_problems(selector: &Value, name: &str, of_labels: bool, problems: &mut Vec<FieldProblem>) {
    if !selector.is_object() {
        return;
    }
    let place = format!("spec.resourceAttributes.{name}");
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !raw.is_empty() && !requirements.is_empty() {
        let words = "may not specified at the same time as requirements".to_owned();
        let problem = Problem::Invalid(raw.into(), words);
        problems.push(FieldProblem::new(format!("{place}.rawSelector"), problem));
    }
    if raw.is_empty() && requirements.is_empty() {
        let words = format!("when {place} is specified, requirements or rawSelector is required");
        problems.push(FieldProblem::new(format!("{place}.requirements"), Problem::Required(words)));
    }
    for (number, requirement) in requirements.iter().enumerate() {
        let place = format!("{place}.requirements[{number}]");
        let key = requirement["key"].as_str().unwrap_or_default();
        let values = texts(&requirement["values"]);
        let mut add = |field: &str, problem: Problem| {
            problems.push(FieldProblem::new(format!("{place}.{field}"), problem));
        };
        if !of_labels && key.is_empty() {
            add("key", Problem::Required("must be specified".to_owned()));
        }
        match requirement["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values.is_empty() => {
                let words = "must be specified when `operator` is 'In' or 'NotIn'";
                add("values", Problem::Required(words.to_owned()));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                add("values", Problem::Forbidden(words.to_owned()));
            }
            _ => {}
        }
        if of_labels {
            for words in qualified_name(key) {
                add("key", Problem::Invalid(key.into(), words));
            }
            for (place, value) in values.iter().enumerate() {
                for words in label_value(value) {
                    add(&format!("values[{place}]"), Problem::Invalid(value.clone().into(), words));
                }
            }
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
