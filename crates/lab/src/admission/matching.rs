//! Which requests a webhook or a policy is about.

use serde_json::Value;

use super::json::{items, text};
use super::review::{Operation, Review};
use super::selector::Selector;
use super::{Equivalent, Kinds};
use crate::names::{GroupResource, Gvk};
use crate::reader::Reader;
use crate::status::Status;

/// The resource a webhook or a policy is called for, which may be another version than the one of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matched {
    /// The group of the resource.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its plural name.
    pub resource: String,
    /// The kind of its objects.
    pub kind: Gvk,
}

/// A compiled rule: `RuleWithOperations`, with the names that policies may add.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<(String, String)>,
    scope: Option<String>,
    names: Vec<String>,
}

impl Rule {
    /// Reads a rule.
    pub(crate) fn read(rule: &Value) -> Self {
        let texts = |key: &str| items(&rule[key]).map(|item| text(item).to_owned()).collect();
        let resources = items(&rule["resources"])
            .map(|item| {
                let (resource, sub) = text(item).split_once('/').unwrap_or((text(item), ""));
                (resource.to_owned(), sub.to_owned())
            })
            .collect();
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources,
            scope: rule["scope"].as_str().map(str::to_owned),
            names: texts("resourceNames"),
        }
    }

    /// Reads a list of rules.
    pub(crate) fn read_all(rules: &Value) -> Vec<Self> {
        items(rules).map(Self::read).collect()
    }

    fn matches(&self, review: &Review<'_>, group: &str, version: &str, resource: &str) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        self.scope_matches(review, group, version, resource)
            && any(&self.operations, review.operation.as_str())
            && any(&self.groups, group)
            && any(&self.versions, version)
            && self.resources.iter().any(|(wanted, sub)| {
                (wanted == "*" || wanted == resource) && (sub == "*" || *sub == review.attributes.subresource)
            })
    }

    /// Namespaces themselves belong to the cluster although requests for them carry a namespace.
    fn scope_matches(&self, review: &Review<'_>, group: &str, version: &str, resource: &str) -> bool {
        let is_namespace = group.is_empty() && version == "v1" && resource == "namespaces";
        let in_cluster = is_namespace || review.namespace().is_empty();
        match self.scope.as_deref() {
            None | Some("*") => true,
            Some("Namespaced") => !in_cluster,
            Some("Cluster") => in_cluster,
            Some(_) => false,
        }
    }

    fn names_match(&self, review: &Review<'_>) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name == review.name())
    }
}

/// The first of the rules that a request matches: under the name it was made by, or, if asked for, under an
/// equivalent one.
pub(crate) fn by_rules(
    rules: &[Rule],
    equivalent: bool,
    review: &Review<'_>,
    kinds: &dyn Kinds,
) -> Result<Option<Matched>, Status> {
    let asked = &review.attributes;
    let direct = rules.iter().any(|rule| {
        rule.matches(review, &asked.group, &asked.version, &asked.resource) && rule.names_match(review)
    });
    if direct {
        return Ok(Some(as_asked(review)));
    }
    if !equivalent {
        return Ok(None);
    }
    let others = kinds.equivalents(&asked.group, &asked.version, &asked.resource, &asked.subresource);
    for rule in rules {
        for other in &others {
            let Equivalent { group, version, resource, kind } = other;
            if (group, version, resource) == (&asked.group, &asked.version, &asked.resource) {
                continue;
            }
            if !rule.matches(review, group, version, resource) || !rule.names_match(review) {
                continue;
            }
            if kind.kind.is_empty() {
                return Err(Status::internal(format!(
                    "unable to convert to {group}/{version}, Resource={resource}: unknown kind"
                )));
            }
            return Ok(Some(Matched {
                group: group.clone(),
                version: version.clone(),
                resource: resource.clone(),
                kind: kind.clone(),
            }));
        }
    }
    Ok(None)
}

/// What a request is about, under the name it was made by.
pub(crate) fn as_asked(review: &Review<'_>) -> Matched {
    Matched {
        group: review.attributes.group.clone(),
        version: review.attributes.version.clone(),
        resource: review.attributes.resource.clone(),
        kind: review.kind.clone(),
    }
}

/// True if the namespace of a request is selected. Requests outside of namespaces always are.
pub(crate) fn by_namespace(
    selector: &Selector,
    review: &Review<'_>,
    reader: &dyn Reader,
) -> Result<bool, Status> {
    let namespace = review.namespace();
    if (namespace.is_empty() && review.attributes.resource != "namespaces") || selector.is_empty() {
        return Ok(true);
    }
    let writes_namespace = review.attributes.resource == "namespaces"
        && review.attributes.subresource.is_empty()
        && matches!(review.operation, Operation::Create | Operation::Update);
    if writes_namespace {
        let labels = review.object.as_ref().map_or(&Value::Null, |object| &object["metadata"]["labels"]);
        return Ok(selector.matches(labels));
    }
    match reader.get(&GroupResource::new("", "namespaces"), "", namespace) {
        Some(object) => Ok(selector.matches(&object["metadata"]["labels"])),
        None => Err(Status::not_found("", "namespaces", namespace)),
    }
}

/// True if the object as it will be, or as it is, is selected.
pub(crate) fn by_object(selector: &Selector, review: &Review<'_>) -> bool {
    let labels = |object: &Value| selector.matches(&object["metadata"]["labels"]);
    selector.is_empty()
        || review.object.as_ref().is_some_and(labels)
        || review.old.as_deref().is_some_and(labels)
}

/// Compiled `MatchResources` of a policy or a binding.
#[derive(Debug, Clone)]
pub(crate) struct Constraints {
    namespace: Result<Selector, String>,
    object: Result<Selector, String>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    equivalent: bool,
}

impl Constraints {
    /// Compiles the constraints.
    pub(crate) fn compile(constraints: &Value) -> Self {
        // Selectors that are not set select everything: the server sets them when it stores the object.
        let selector = |key: &str| match &constraints[key] {
            Value::Null => Selector::compile(&Value::Object(serde_json::Map::new())),
            field => Selector::compile(field),
        };
        Self {
            namespace: selector("namespaceSelector"),
            object: selector("objectSelector"),
            rules: Rule::read_all(&constraints["resourceRules"]),
            excluded: Rule::read_all(&constraints["excludeResourceRules"]),
            equivalent: constraints["matchPolicy"] != "Exact",
        }
    }

    /// What a policy is called for, if the request is one of those it is about. Failures are sentences.
    pub(crate) fn matches(
        &self,
        review: &Review<'_>,
        reader: &dyn Reader,
        kinds: &dyn Kinds,
    ) -> Result<Option<Matched>, String> {
        let by_namespace = match &self.namespace {
            Ok(selector) => by_namespace(selector, review, reader).map_err(|status| status.message),
            Err(error) => Err(error.clone()),
        };
        if by_namespace == Ok(false) {
            return Ok(None);
        }
        let selector = self.object.as_ref();
        if selector.is_ok_and(|selector| !by_object(selector, review)) {
            return Ok(None);
        }
        let told = |status: Status| status.message;
        if by_rules(&self.excluded, self.equivalent, review, kinds).map_err(told)?.is_some() {
            return Ok(None);
        }
        let matched = if self.rules.is_empty() {
            Some(as_asked(review))
        } else {
            by_rules(&self.rules, self.equivalent, review, kinds).map_err(told)?
        };
        if matched.is_some() {
            by_namespace?;
            selector.map_err(Clone::clone)?;
        }
        Ok(matched)
    }
}

/// Kinds that API-registered webhooks and policies are never called for, lest they lock each other out.
pub(crate) fn is_exempt(review: &Review<'_>) -> bool {
    const CONFIGURATIONS: [&str; 6] = [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ];
    review.kind.group == "admissionregistration.k8s.io" && CONFIGURATIONS.contains(&review.kind.kind.as_str())
}

/// Questions about who may do what, which nobody outside may answer.
pub(crate) fn is_virtual(review: &Review<'_>) -> bool {
    let resource = review.attributes.resource.as_str();
    match review.attributes.group.as_str() {
        "authentication.k8s.io" => matches!(resource, "selfsubjectreviews" | "tokenreviews"),
        "authorization.k8s.io" => matches!(
            resource,
            "localsubjectaccessreviews"
                | "selfsubjectaccessreviews"
                | "selfsubjectrulesreviews"
                | "subjectaccessreviews"
        ),
        _ => false,
    }
}
