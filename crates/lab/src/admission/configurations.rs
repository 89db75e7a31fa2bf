//! The expressions in webhook configurations and policies: whether they make sense.

use std::collections::BTreeSet;

use serde_json::Value;

use super::json::{items, text};
use super::policies::expression::{Expression, Scope, Variables, Wanted};
use crate::names::Gvk;
use crate::status::{FieldProblem, Problem};

/// The problems of the expressions in an object of `admissionregistration.k8s.io`; none for other objects.
///
/// What was there before and stays is judged more mildly: it may use what new expressions may not use yet, and
/// conditions that do not change at all are not looked at.
pub(crate) fn expression_problems(kind: &Gvk, object: &Value, old: Option<&Value>) -> Vec<FieldProblem> {
    if kind.group != "admissionregistration.k8s.io" {
        return Vec::new();
    }
    let mut check = Check { known: BTreeSet::new(), problems: Vec::new() };
    if let Some(old) = old {
        collect(old, &mut check.known);
    }
    match kind.kind.as_str() {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            webhooks(object, old, &mut check);
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => policy(object, old, &mut check),
        _ => {}
    }
    check.problems
}

struct Check {
    /// Expressions that were there before.
    known: BTreeSet<String>,
    problems: Vec<FieldProblem>,
}

/// Gathers all expressions of an object.
fn collect(value: &Value, known: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                match inner {
                    Value::String(text) if key.to_lowercase().ends_with("expression") => {
                        known.insert(text.clone());
                        known.insert(text.trim().to_owned());
                    }
                    _ => collect(inner, known),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, known)),
        _ => {}
    }
}

impl Check {
    /// Compiles an expression and notes what is wrong with it.
    fn expression(
        &mut self,
        source: &str,
        wanted: Wanted,
        scope: Scope,
        variables: &Variables,
        at: &str,
    ) -> Expression {
        let scope = Scope { stored: self.known.contains(source), ..scope };
        let expression = Expression::compile(source, wanted, scope, variables);
        if let Some(why) = expression.problem() {
            self.problems.push(FieldProblem::new(at, Problem::Invalid(source.into(), why.to_owned())));
        }
        expression
    }

    fn conditions(&mut self, list: &Value, scope: Scope, at: &str) {
        for (place, condition) in items(list).enumerate() {
            let source = text(&condition["expression"]).trim();
            if !source.is_empty() {
                let at = format!("{at}[{place}].expression");
                self.expression(source, Wanted::Bool, scope, &Variables::default(), &at);
            }
        }
    }
}

fn webhooks(object: &Value, old: Option<&Value>, check: &mut Check) {
    let conditions = |configuration: &Value| -> Vec<Value> {
        items(&configuration["webhooks"]).map(|hook| hook["matchConditions"].clone()).collect()
    };
    let lists = conditions(object);
    if old.is_some_and(|old| conditions(old) == lists) {
        return;
    }
    let scope = Scope { params: false, authorizer: true, patches: false, stored: false };
    for (place, list) in lists.iter().enumerate() {
        check.conditions(list, scope, &format!("webhooks[{place}].matchConditions"));
    }
}

fn policy(object: &Value, old: Option<&Value>, check: &mut Check) {
    let spec = &object["spec"];
    let params = spec["paramKind"].is_object();
    let scope = Scope { params, authorizer: true, patches: false, stored: false };
    let unchanged =
        |old: &Value| ["paramKind", "matchConditions"].iter().all(|key| old["spec"][*key] == spec[*key]);
    if !old.is_some_and(unchanged) {
        check.conditions(&spec["matchConditions"], scope, "spec.matchConditions");
    }
    let mut variables = Variables::default();
    for (place, variable) in items(&spec["variables"]).enumerate() {
        let source = text(&variable["expression"]);
        if !source.trim().is_empty() {
            let at = format!("spec.variables[{place}].expression");
            let expression = check.expression(source, Wanted::Any, scope, &variables, &at);
            variables.push(text(&variable["name"]), expression);
        }
    }
    for (place, validation) in items(&spec["validations"]).enumerate() {
        let at = format!("spec.validations[{place}]");
        let source = text(&validation["expression"]);
        if !source.trim().is_empty() {
            check.expression(source, Wanted::Bool, scope, &variables, &format!("{at}.expression"));
        }
        let source = text(&validation["messageExpression"]);
        if !source.trim().is_empty() {
            let scope = Scope { authorizer: false, ..scope };
            check.expression(source, Wanted::Text, scope, &variables, &format!("{at}.messageExpression"));
        }
    }
    for (place, annotation) in items(&spec["auditAnnotations"]).enumerate() {
        let source = text(&annotation["valueExpression"]).trim();
        if !source.is_empty() && source.len() <= 5 * 1024 {
            let at = format!("spec.auditAnnotations[{place}].valueExpression");
            check.expression(source, Wanted::TextOrNull, scope, &variables, &at);
        }
    }
    let scope = Scope { patches: true, ..scope };
    for (place, mutation) in items(&spec["mutations"]).enumerate() {
        let (key, wanted) = match text(&mutation["patchType"]) {
            "ApplyConfiguration" => ("applyConfiguration", Wanted::Object),
            "JSONPatch" => ("jsonPatch", Wanted::Patches),
            _ => continue,
        };
        let source = text(&mutation[key]["expression"]).trim();
        if !source.is_empty() {
            check.expression(
                source,
                wanted,
                scope,
                &variables,
                &format!("spec.mutations[{place}].{key}.expression"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let kind = Gvk::new("admissionregistration.k8s.io", "v1", kind);
        expression_problems(&kind, object, old)
            .into_iter()
            .map(|problem| {
                let cause = problem.cause();
                format!("{}: {}", cause.field, cause.message)
            })
            .collect()
    }

    #[test]
    fn expressions_that_make_no_sense_are_told_like_by_the_real_server() {
        let policy = json!({"spec": {"validations": [
            {"expression": "object.metadata.name.startsWith(1)"},
            {"expression": "object.metadata.name", "messageExpression": "string(request)"},
            {"expression": "variables == null"},
        ]}});
        assert_eq!(
            problems("ValidatingAdmissionPolicy", &policy, None),
            [
                "spec.validations[0].expression: Invalid value: \"object.metadata.name.startsWith(1)\": compilation \
                 failed: ERROR: <input>:1:32: found no matching overload for 'startsWith' applied to 'dyn.(int)'\n | \
                 object.metadata.name.startsWith(1)\n | ...............................^",
                "spec.validations[1].expression: Invalid value: \"object.metadata.name\": must evaluate to bool but \
                 got dyn",
                "spec.validations[1].messageExpression: Invalid value: \"string(request)\": compilation failed: ERROR: \
                 <input>:1:7: found no matching overload for 'string' applied to '(kubernetes.AdmissionRequest)'\n | \
                 string(request)\n | ......^",
                "spec.validations[2].expression: Invalid value: \"variables == null\": compilation failed: ERROR: \
                 <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables == null\n | ^",
            ]
        );
    }

    #[test]
    fn patches_have_their_types() {
        let of = |mutation: Value| json!({"spec": {"mutations": [mutation]}});
        let apply = |expression: &str| {
            of(json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}))
        };
        let patch =
            |expression: &str| of(json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}));
        let told = |policy: &Value| problems("MutatingAdmissionPolicy", policy, None).join("");
        assert_eq!(
            told(&apply("{'a': 1}")),
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"{'a': 1}\": must evaluate to Object but \
             got map(string, int)"
        );
        assert_eq!(
            told(&patch("1")),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"1\": must evaluate to list(JSONPatch) but got int"
        );
        assert!(told(&patch("[JSONPatch{oop: \"boo\", path: \"/foo\", value: 1}]")).ends_with(
            "compilation failed: ERROR: <input>:1:15: expected type of field 'oop' is '' but provided type is \
             'string'\n | [JSONPatch{oop: \"boo\", path: \"/foo\", value: 1}]\n | ..............^"
        ));
        assert_eq!(told(&apply("has(object.foo) ? Object{} : Object{data: {\"z\": \"1\"}}")), "");
    }

    #[test]
    fn conditions_that_stay_are_not_judged_again() {
        let of = |expression: &str, name: &str| json!({"webhooks": [{"name": name, "matchConditions": [{"name": "a", "expression": expression}]}]});
        let bad = of("object.spec ==", "one");
        assert_eq!(problems("MutatingWebhookConfiguration", &bad, None).len(), 1);
        let renamed = of("object.spec ==", "two");
        assert!(problems("MutatingWebhookConfiguration", &renamed, Some(&bad)).is_empty());
    }
}
