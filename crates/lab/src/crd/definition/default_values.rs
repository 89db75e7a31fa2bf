//! Checking the defaults of a schema: they have to be values the schema accepts.

use serde_json::{Map, Value};

use crate::{
    crd::{
        defaults::{Segment, surround},
        metadata::{self, Malformed},
        path::Path,
        rule_tree::{RuleTree, check_default},
        schema::Schema,
        shape::{self, Unknown, is_meta},
        validate,
    },
    status::{FieldProblem, Problem},
};

/// Checks all defaults of the schema of a resource; `pruned` also asks that they have no unknown fields.
pub(crate) fn check(schema: &Schema, path: &Path<'_>, pruned: bool) -> Vec<FieldProblem> {
    let mut checker = Checker { pruned, problems: Vec::new(), budget: crate::crd::rules::BUDGET };
    checker.node(schema, true, &Resource { schema, segments: &mut Vec::new(), inside_meta: false }, path);
    checker.problems
}

struct Checker {
    pruned: bool,
    problems: Vec<FieldProblem>,
    budget: i64,
}

/// The resource a default is part of, and the way to it.
struct Resource<'s, 'p> {
    schema: &'s Schema,
    segments: &'p mut Vec<Segment>,
    inside_meta: bool,
}

impl Checker {
    fn node(&mut self, schema: &Schema, root: bool, resource: &Resource<'_, '_>, path: &Path<'_>) {
        if !schema.below.defaults || self.budget < 0 {
            return;
        }
        let starts_resource = root || schema.embedded;
        let mut own = Vec::new();
        let mut inner = if starts_resource {
            Resource { schema, segments: &mut own, inside_meta: false }
        } else {
            own.clone_from(resource.segments);
            Resource { schema: resource.schema, segments: &mut own, inside_meta: resource.inside_meta }
        };
        if let Some(default) = &schema.default {
            let place = path.field("default");
            if inner.inside_meta {
                self.in_meta(default, schema, &inner, &place);
            } else {
                self.value(default, schema, starts_resource, root, &place);
            }
        }
        if let Some(items) = schema.items.as_deref() {
            inner.segments.push(Segment::Index);
            self.node(items, false, &inner, &path.field("items"));
            inner.segments.pop();
        }
        let properties = path.field("properties");
        for (name, property) in &schema.properties {
            inner.segments.push(Segment::Field(name.clone()));
            let outside = inner.inside_meta;
            inner.inside_meta |= starts_resource && is_meta(name);
            self.node(property, false, &inner, &properties.key(name));
            inner.inside_meta = outside;
            inner.segments.pop();
        }
    }

    /// A default in the metadata of a resource is checked together with the rest of it.
    fn in_meta(&mut self, default: &Value, schema: &Schema, resource: &Resource<'_, '_>, place: &Path<'_>) {
        let mut object = surround(default.clone(), resource.segments);
        if let Value::Object(fields) = &mut object {
            add_type(fields);
        }
        let wrong = |why: String| {
            FieldProblem::new(
                place.text(),
                Problem::Invalid(default.clone(), format!("must result in valid metadata: {why}")),
            )
        };
        let refused = metadata::coerce_embedded(
            &mut object,
            resource.schema,
            true,
            Malformed::Refuse,
            &Path::Root,
            &mut None,
        );
        if let Err(problem) = refused {
            self.problems.push(wrong(sentence(problem)));
            return;
        }
        let mut found = Vec::new();
        metadata::check_all_embedded(&object, resource.schema, true, &Path::Root, &mut found);
        let mut sentences: Vec<String> = found.into_iter().map(sentence).collect();
        if let [one] = sentences.as_mut_slice() {
            self.problems.push(wrong(std::mem::take(one)));
        } else if !sentences.is_empty() {
            self.problems.push(wrong(format!("[{}]", sentences.join(", "))));
        } else {
            self.against_schema(default, schema, false, place);
        }
    }

    fn value(&mut self, default: &Value, schema: &Schema, is_resource: bool, root: bool, place: &Path<'_>) {
        if self.pruned {
            let mut pruned = default.clone();
            shape::prune(&mut pruned, Some(schema), is_resource, &mut Unknown::new(false));
            if pruned != *default {
                let why = "must not have unknown fields".to_owned();
                self.problems.push(FieldProblem::new(place.text(), Problem::Invalid(default.clone(), why)));
            }
        }
        let mut coerced = default.clone();
        let refused =
            metadata::coerce_embedded(&mut coerced, schema, is_resource, Malformed::Refuse, place, &mut None);
        if let Err(problem) = refused {
            self.problems.push(problem);
            return;
        }
        let mut found = Vec::new();
        metadata::check_all_embedded(&coerced, schema, is_resource, place, &mut found);
        if found.is_empty() {
            self.against_schema(&coerced, schema, root || is_resource, place);
        } else {
            self.problems.extend(found);
        }
    }

    fn against_schema(&mut self, default: &Value, schema: &Schema, is_resource: bool, place: &Path<'_>) {
        let found = validate::check(default, schema, None, Some(&place.text()));
        if found.is_empty() {
            if let Some(tree) = RuleTree::compile(schema, is_resource) {
                self.problems.extend(check_default(&tree, schema, default, place, &mut self.budget));
            }
        } else {
            self.problems.extend(found);
        }
    }
}

fn sentence(problem: FieldProblem) -> String {
    let cause = problem.cause();
    format!("{}: {}", cause.field, cause.message)
}

fn add_type(fields: &mut Map<String, Value>) {
    fields.entry("kind").or_insert_with(|| "Validation".into());
    fields.entry("apiVersion").or_insert_with(|| "validation/v1".into());
}
