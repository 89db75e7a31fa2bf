//! The status of a validating policy: what its expressions get wrong about the kinds they are about.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::Kinds;
use super::super::json::{items, text};
use super::expression::{Expression, Scope, Variables, Wanted};
use super::{kind_of, shown};
use crate::cel::{Record, Type, escape};
use crate::names::Gvk;
use crate::schema::{Embedding, Shape, TypeId, TypeRef};

/// So many kinds are checked per policy.
const MOST_KINDS: usize = 10;

/// The status a policy has to get, or nothing if it has been checked as it is.
pub(crate) fn status(policy: &Value, kinds: &dyn Kinds) -> Option<Value> {
    let generation = policy["metadata"]["generation"].as_i64().unwrap_or_default();
    if generation <= policy["status"]["observedGeneration"].as_i64().unwrap_or_default() {
        return None;
    }
    let warnings = warnings(policy, kinds);
    let mut checking = json!({});
    if !warnings.is_empty() {
        checking["expressionWarnings"] = warnings.into();
    }
    Some(json!({"observedGeneration": generation, "typeChecking": checking}))
}

fn warnings(policy: &Value, kinds: &dyn Kinds) -> Vec<Value> {
    let spec = &policy["spec"];
    let has_params = spec["paramKind"].is_object();
    let params =
        if has_params { kinds.type_of(&kind_of(&spec["paramKind"])) } else { None }.unwrap_or(Type::Dyn);
    let subjects: Vec<(Gvk, Type)> = kinds_of(spec, kinds)
        .into_iter()
        .filter_map(|kind| Some((kind.clone(), kinds.type_of(&kind)?)))
        .collect();
    let scope = Scope { params: has_params, authorizer: true, patches: false, stored: true };
    let told = |source: &str| {
        let mut messages = Vec::new();
        for (kind, object) in &subjects {
            let types = (object.clone(), params.clone());
            let mut variables = Variables::default();
            for variable in items(&spec["variables"]) {
                let source = text(&variable["expression"]);
                let expression =
                    Expression::compile_typed(source, Wanted::Any, scope, &variables, types.clone());
                variables.push(text(&variable["name"]), expression);
            }
            let expression = Expression::compile_typed(source, Wanted::Any, scope, &variables, types);
            if let Some(why) = expression.problem() {
                let why = why.strip_prefix("compilation failed: ").unwrap_or(why);
                messages.push(format!("{}: {why}\n", shown(kind)));
            }
        }
        (!messages.is_empty()).then(|| messages.join("\n"))
    };
    let mut warnings = Vec::new();
    for (place, validation) in items(&spec["validations"]).enumerate() {
        for key in ["expression", "messageExpression"] {
            let source = text(&validation[key]);
            if let Some(warning) = Some(source).filter(|source| !source.is_empty()).and_then(told) {
                let field = format!("spec.validations[{place}].{key}");
                warnings.push(json!({"fieldRef": field, "warning": warning}));
            }
        }
    }
    warnings
}

/// The kinds a policy names, as far as it names any.
fn kinds_of(spec: &Value, kinds: &dyn Kinds) -> Vec<Gvk> {
    let mut found: Vec<Gvk> = Vec::new();
    for rule in items(&spec["matchConstraints"]["resourceRules"]) {
        let sorted = |key: &str| {
            let mut texts: Vec<&str> = items(&rule[key]).map(text).collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions) = (sorted("apiGroups"), sorted("apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let resources: Vec<&str> =
            sorted("resources").into_iter().filter(|name| !name.contains(['*', '/'])).collect();
        for group in &groups {
            for version in &versions {
                let of = resources.iter().filter_map(|resource| kinds.kind_of(group, version, resource));
                found.extend(of.take(MOST_KINDS.saturating_sub(found.len())));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The type of objects of a shape as expressions know it.
pub(crate) fn type_of_shape(of: TypeRef<'_>, name: &str) -> Type {
    convert(of, name, &mut Vec::new()).unwrap_or(Type::Dyn)
}

/// The type of a shape; none for shapes that expressions do not know, whose fields they do not know either.
fn convert(of: TypeRef<'_>, name: &str, outer: &mut Vec<TypeId>) -> Option<Type> {
    // Shapes that contain themselves have no end.
    if outer.contains(&of.id) {
        return Some(Type::Dyn);
    }
    outer.push(of.id);
    let record =
        |fields: BTreeMap<String, Type>| Type::Record(Arc::new(Record { name: name.to_owned(), fields }));
    let found = match of.shape() {
        Shape::String | Shape::Duration => Some(Type::String),
        Shape::Boolean => Some(Type::Bool),
        Shape::Integer(_) => Some(Type::Int),
        Shape::Number => Some(Type::Double),
        Shape::Time | Shape::MicroTime => Some(Type::Timestamp),
        Shape::Bytes => Some(Type::Bytes),
        Shape::Quantity => None,
        Shape::Any(Embedding::Raw | Embedding::FieldsV1) => Some(record(BTreeMap::new())),
        Shape::IntOrString | Shape::Any(Embedding::None) | Shape::SchemaOr { .. } => Some(Type::Dyn),
        Shape::Map { values, .. } => convert(of.at(*values), &format!("{name}.@elem"), outer)
            .map(|values| Type::map(Type::String, values)),
        Shape::List { items, .. } => convert(of.at(*items), &format!("{name}.@idx"), outer).map(Type::list),
        Shape::Object { fields, preserve_unknown, .. } if fields.is_empty() && *preserve_unknown => {
            Some(Type::Dyn)
        }
        Shape::Object { fields, .. } => Some(record(
            fields
                .iter()
                .filter_map(|field| {
                    let escaped = escape(&field.name)?.into_owned();
                    let of = convert(of.at(field.of), &format!("{name}.{}", field.name), outer)?;
                    Some((escaped, of))
                })
                .collect(),
        )),
    };
    outer.pop();
    found
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::PlainKinds;
    use super::*;

    fn checked(validations: &Value) -> Value {
        let policy = json!({
            "metadata": {"generation": 2},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["*"]},
                ]},
                "validations": validations,
            },
            "status": {"observedGeneration": 1},
        });
        status(&policy, &PlainKinds).unwrap()
    }

    #[test]
    fn confused_types_are_told_like_by_the_real_server() {
        let fine = json!([
            {"expression": "object.spec.replicas > 1 && object.metadata.labels['x'] == 'y'"},
            {"expression": "object.spec.strategy.rollingUpdate.maxSurge == 1"},
        ]);
        assert_eq!(checked(&fine), json!({"observedGeneration": 2, "typeChecking": {}}));
        let confused = json!([{
            "expression": "object.spec.replicas > '1'",
            "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
        }, {"expression": "object.spec.template.spec.containers[0].resources.requests['cpu'] == 1"}]);
        assert_eq!(
            checked(&confused)["typeChecking"]["expressionWarnings"],
            json!([
                {"fieldRef": "spec.validations[0].expression",
                 "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' \
                             applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n"},
                {"fieldRef": "spec.validations[0].messageExpression",
                 "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:28: found no matching overload for '_+_' \
                             applied to '(string, int)'\n | 'wants replicas > 1, got ' + object.spec.replicas\n | \
                             ...........................^\n"},
                {"fieldRef": "spec.validations[1].expression",
                 "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:50: undefined field 'requests'\n | \
                             object.spec.template.spec.containers[0].resources.requests['cpu'] == 1\n | \
                             .................................................^\n"},
            ])
        );
    }
}
