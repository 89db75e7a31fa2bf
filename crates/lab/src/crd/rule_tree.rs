//! The rules of a schema, applied to objects.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    cel::{Decl, DeclKind, Expression, Shape, Val, escape},
    status::{FieldProblem, Problem},
};

use super::{
    correlate::{OldItems, unchanged},
    definition::field_path,
    path::Path,
    rule_types,
    rules::{Compiled, compile},
    schema::{Kind, Rule, Schema},
};

/// What evaluating one rule may cost.
const CALL_LIMIT: u64 = 1_000_000;
/// The longest sentence a rule can make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The rules of a schema and of everything below it.
#[derive(Debug)]
pub(crate) struct RuleTree {
    rules: Vec<OwnRule>,
    /// How values are read by the rules here, if there are any.
    shape: Option<Shape>,
    /// Nothing is known about values here, so that no rule can be applied.
    unknown: bool,
    items: Option<Box<RuleTree>>,
    additional: Option<Box<RuleTree>>,
    properties: HashMap<String, RuleTree>,
    all_of: Vec<RuleTree>,
}

#[derive(Debug)]
struct OwnRule {
    written: Rule,
    compiled: Compiled,
    uses_old: bool,
    /// The field that is reported, as messages write it.
    field: Option<String>,
}

/// What came of applying rules, and what may still be spent.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) problems: Vec<FieldProblem>,
    pub(crate) warnings: Vec<String>,
    /// Below zero when no more rules are to be applied.
    pub(crate) budget: i64,
}

impl RuleTree {
    /// Compiles all rules of a schema. None when it has none.
    pub(crate) fn compile(schema: &Schema, resource: bool) -> Option<Self> {
        if !schema.below.rules {
            return None;
        }
        Self::node(schema, schema, resource, rule_types::declare(schema, resource).as_ref())
    }

    /// The rules of one schema about the values of another; these are the same but within `allOf`.
    fn node(schema: &Schema, values: &Schema, resource: bool, decl: Option<&Decl>) -> Option<Self> {
        let inner = match decl.map(|decl| &decl.kind) {
            Some(DeclKind::List(inner) | DeclKind::Map(inner)) => Some(&**inner),
            _ => None,
        };
        let rules: Vec<OwnRule> = decl.map_or_else(Vec::new, |decl| {
            schema.rules.iter().map(|rule| OwnRule::new(rule, values, decl)).collect()
        });
        let below = |schema: Option<&Schema>, values: Option<&Schema>| {
            schema
                .zip(values)
                .and_then(|(schema, values)| Self::node(schema, values, values.embedded, inner))
                .map(Box::new)
        };
        let mut properties = HashMap::new();
        for (name, property) in &schema.properties {
            let Some(value) = values.property(name) else { continue };
            let own;
            let field = if let Some(escaped) = escape(name) {
                match decl.map(|decl| &decl.kind) {
                    Some(DeclKind::Record(fields)) => fields.get(&*escaped).map(|field| &**field),
                    _ => None,
                }
            } else {
                own = rule_types::declare(value, value.embedded);
                own.as_ref()
            };
            if let Some(tree) =
                field.and_then(|field| Self::node(property, value, value.embedded, Some(field)))
            {
                properties.insert(name.clone(), tree);
            }
        }
        let tree = Self {
            shape: (!rules.is_empty()).then(|| rule_types::shape(values, resource)),
            rules,
            unknown: decl.is_none() && !schema.rules.is_empty(),
            items: below(schema.items.as_deref(), values.items.as_deref()),
            additional: below(schema.additional_schema(), values.additional_schema()),
            properties,
            all_of: schema
                .checks
                .all_of
                .iter()
                .filter_map(|part| Self::node(part, values, resource, decl))
                .collect(),
        };
        let useful = !tree.rules.is_empty()
            || tree.unknown
            || tree.items.is_some()
            || tree.additional.is_some()
            || !tree.properties.is_empty()
            || !tree.all_of.is_empty();
        useful.then_some(tree)
    }

    /// Applies all rules to an object. `old` is the one it replaces; what did not change is forgiven if `ratchet` is
    /// set.
    pub(crate) fn apply(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        ratchet: bool,
        path: &Path<'_>,
        budget: i64,
    ) -> Applied {
        let mut run = Run { problems: Vec::new(), warnings: Vec::new(), budget };
        let current = old.filter(|_| ratchet).map(|old| Pair { schema, new: value, old });
        run.node(self, schema, value, old, Forgiven { current, nearest: None }, path);
        Applied { problems: run.problems, warnings: run.warnings, budget: run.budget }
    }
}

/// Checks a default with all rules: as it would replace itself, and as it would come anew.
pub(crate) fn check_default(
    tree: &RuleTree,
    schema: &Schema,
    default: &Value,
    place: &Path<'_>,
    budget: &mut i64,
) -> Vec<FieldProblem> {
    let mut applied = tree.apply(schema, default, Some(default), false, place, *budget);
    if applied.problems.is_empty() {
        let anew = tree.apply(schema, default, None, false, place, *budget);
        applied.problems = anew.problems;
        applied.budget = applied.budget.min(anew.budget);
    }
    *budget = applied.budget;
    applied.problems
}

impl OwnRule {
    fn new(rule: &Rule, schema: &Schema, decl: &Decl) -> Self {
        let compiled = compile(rule, decl, (true, true));
        let uses_old = compiled.expression.as_ref().is_some_and(|expression| expression.uses("oldSelf"));
        let field = (!rule.field_path.is_empty())
            .then(|| field_path::resolve(&rule.field_path, schema, true).ok())
            .flatten()
            .map(|(written, _)| written);
        Self { written: rule.clone(), compiled, uses_old, field }
    }

    /// What the rule is called in messages.
    fn name(&self) -> &str {
        let message = &self.written.message;
        if message.is_empty() { self.written.rule.trim() } else { message.trim() }
    }

    fn default_message(&self) -> String {
        if self.written.message.is_empty() {
            format!("failed rule: {}", self.name())
        } else {
            self.name().to_owned()
        }
    }
}

/// A value and the one it replaces.
#[derive(Clone, Copy)]
struct Pair<'v> {
    schema: &'v Schema,
    new: &'v Value,
    old: &'v Value,
}

/// What decides whether a problem is forgiven: the value here, or the nearest one above that has an old one.
#[derive(Clone, Copy)]
struct Forgiven<'v> {
    current: Option<Pair<'v>>,
    nearest: Option<Pair<'v>>,
}

impl<'v> Forgiven<'v> {
    fn is_forgiven(self) -> bool {
        self.current.or(self.nearest).is_some_and(|pair| unchanged(pair.schema, pair.new, pair.old))
    }

    fn key(self, name: &str, new: &'v Value) -> Self {
        let Some(pair) = self.current else { return self };
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self { current: None, nearest: None };
        }
        let below = pair.schema.field(name).zip(pair.old.get(name)).filter(|_| pair.old.is_object());
        Self { current: below.map(|(schema, old)| Pair { schema, new, old }), nearest: Some(pair) }
    }

    fn item(self, new: &'v Value, earlier: Option<&OldItems<'v>>) -> Self {
        let Some(pair) = self.current else { return self };
        let old = earlier.and_then(|earlier| earlier.find(new));
        let below = pair.schema.items.as_deref().zip(old).map(|(schema, old)| Pair { schema, new, old });
        Self { current: below, nearest: Some(pair) }
    }
}

struct Run {
    problems: Vec<FieldProblem>,
    warnings: Vec<String>,
    budget: i64,
}

impl Run {
    fn node<'v>(
        &mut self,
        tree: &RuleTree,
        schema: &'v Schema,
        value: &'v Value,
        old: Option<&'v Value>,
        forgiven: Forgiven<'v>,
        path: &Path<'_>,
    ) {
        if value.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(tree, schema, value, old, forgiven, path);
        for part in &tree.all_of {
            if self.budget < 0 {
                return;
            }
            self.node(part, schema, value, old, Forgiven { current: None, nearest: forgiven.nearest }, path);
        }
        if self.budget < 0 {
            return;
        }
        match value {
            Value::Array(items) => self.list(tree, schema, items, old, forgiven, path),
            Value::Object(fields) => {
                self.object(tree, schema, fields, old.and_then(Value::as_object), forgiven, path);
            }
            _ => {}
        }
    }

    fn list<'v>(
        &mut self,
        tree: &RuleTree,
        schema: &'v Schema,
        items: &'v [Value],
        old: Option<&'v Value>,
        forgiven: Forgiven<'v>,
        path: &Path<'_>,
    ) {
        let (Some(below), Some(item_schema)) = (tree.items.as_deref(), schema.items.as_deref()) else {
            return;
        };
        let earlier = old.and_then(|old| OldItems::new(schema, old));
        let forgivable = forgiven.current.and_then(|pair| OldItems::new(pair.schema, pair.old));
        for (index, item) in items.iter().enumerate() {
            let old = earlier.as_ref().and_then(|earlier| earlier.find(item));
            self.node(
                below,
                item_schema,
                item,
                old,
                forgiven.item(item, forgivable.as_ref()),
                &path.index(index),
            );
            if self.budget < 0 {
                return;
            }
        }
    }

    fn object<'v>(
        &mut self,
        tree: &RuleTree,
        schema: &'v Schema,
        fields: &'v Map<String, Value>,
        old: Option<&'v Map<String, Value>>,
        forgiven: Forgiven<'v>,
        path: &Path<'_>,
    ) {
        if let (Some(below), Some(value_schema)) = (tree.additional.as_deref(), schema.additional_schema()) {
            for (key, value) in fields {
                let old = old.and_then(|old| old.get(key));
                self.node(below, value_schema, value, old, forgiven.key(key, value), &path.key(key));
                if self.budget < 0 {
                    return;
                }
            }
        }
        if tree.properties.is_empty() {
            return;
        }
        for (name, value) in fields {
            if let (Some(below), Some(property)) = (tree.properties.get(name), schema.property(name)) {
                let old = old.and_then(|old| old.get(name));
                self.node(below, property, value, old, forgiven.key(name, value), &path.field(name));
                if self.budget < 0 {
                    return;
                }
            }
        }
    }

    /// A problem that is about the rule more than about the value.
    fn complain(&mut self, schema: &Schema, path: &Path<'_>, why: String) {
        let kind = schema.kind.name();
        self.problems.push(FieldProblem::new(path.text(), Problem::Invalid(kind.into(), why)));
    }

    fn rules(
        &mut self,
        tree: &RuleTree,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        forgiven: Forgiven<'_>,
        path: &Path<'_>,
    ) {
        if tree.unknown {
            let why =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.complain(schema, path, why.to_owned());
            return;
        }
        let Some(shape) = &tree.shape else { return };
        if self.budget <= 0 {
            self.complain(schema, path, OUT_OF_BUDGET.to_owned());
            self.budget = -1;
            return;
        }
        for rule in &tree.rules {
            if let Some(error) = &rule.compiled.error {
                self.complain(schema, path, format!("rule compile error: {error}"));
                continue;
            }
            let Some(expression) = &rule.compiled.expression else { continue };
            let optional = rule.written.optional_old_self == Some(true);
            if rule.uses_old && old.is_none() && !optional {
                continue;
            }
            let values = Values { shape, value, old };
            let outcome = expression.evaluate(&|name| values.find(name, optional), CALL_LIMIT);
            if !self.spend(outcome.cost) {
                self.complain(schema, path, OUT_OF_BUDGET.to_owned());
                return;
            }
            match outcome.result {
                Ok(Val::Bool(true)) => {}
                Ok(_) => {
                    let message = self.message(rule, &values, schema, forgiven, path);
                    let Some(message) = message else { return };
                    let problem = rule.problem(schema, value, message, path);
                    self.add(rule, forgiven, problem);
                }
                Err(failure) => {
                    let (why, name) = (&failure.message, rule.name());
                    let sentence = if failure.cancelled {
                        format!(
                            "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                        )
                    } else if why.starts_with("no such overload") {
                        format!(
                            "'{why}': call arguments did not match a supported operator, function or macro signature for \
                             rule: {name}"
                        )
                    } else {
                        format!("{why} evaluating rule: {name}")
                    };
                    self.complain(schema, path, sentence);
                    if failure.cancelled {
                        self.budget = -1;
                        return;
                    }
                }
            }
        }
    }

    /// Pays for an evaluation; false when there is not enough left.
    fn spend(&mut self, cost: u64) -> bool {
        if let Some(cost) = i64::try_from(cost).ok().filter(|cost| *cost <= self.budget) {
            self.budget -= cost;
            true
        } else {
            self.budget = -1;
            false
        }
    }

    fn add(&mut self, rule: &OwnRule, forgiven: Forgiven<'_>, problem: FieldProblem) {
        if !rule.uses_old && forgiven.is_forgiven() {
            let cause = problem.cause();
            self.warnings.push(format!("{}: {}", cause.field, cause.message));
        } else {
            self.problems.push(problem);
        }
    }

    /// The sentence about a broken rule; none when no more rules are to be applied.
    fn message(
        &mut self,
        rule: &OwnRule,
        values: &Values<'_>,
        schema: &Schema,
        forgiven: Forgiven<'_>,
        path: &Path<'_>,
    ) -> Option<String> {
        let Some(Ok(expression)) = &rule.compiled.message else { return Some(rule.default_message()) };
        let outcome = expression.evaluate(&|name| values.find(name, false), CALL_LIMIT);
        let cancelled = outcome.result.as_ref().is_err_and(|failure| failure.cancelled);
        let why = if !self.spend(outcome.cost) {
            "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be \
             run"
            .to_owned()
        } else if cancelled {
            self.budget = -1;
            let source = crate::gotext::quote(&rule.written.message_expression);
            format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
            )
        } else {
            let made = match outcome.result {
                Ok(Val::Text(text)) => text.trim().to_owned(),
                _ => String::new(),
            };
            let good = !made.is_empty() && made.len() <= LONGEST_MESSAGE && !made.contains('\n');
            return Some(if good { made } else { rule.default_message() });
        };
        let place = rule.place(path);
        self.add(rule, forgiven, FieldProblem::new(place, Problem::Invalid(schema.kind.name().into(), why)));
        None
    }
}

impl OwnRule {
    fn place(&self, path: &Path<'_>) -> String {
        match &self.field {
            Some(field) if !field.is_empty() => path.field(field).text(),
            _ => path.text(),
        }
    }

    fn problem(&self, schema: &Schema, value: &Value, message: String, path: &Path<'_>) -> FieldProblem {
        let hidden = matches!(schema.kind, Kind::Object | Kind::Array);
        let problem = match self.written.reason.as_deref() {
            Some("FieldValueForbidden") => Problem::Forbidden(message),
            Some("FieldValueRequired") => Problem::Required(message),
            Some("FieldValueDuplicate") if hidden => Problem::DuplicateUnshown,
            Some("FieldValueDuplicate") => Problem::Duplicate(value.clone()),
            _ if hidden => Problem::InvalidAs(None, message),
            _ => Problem::Invalid(value.clone(), message),
        };
        FieldProblem::new(self.place(path), problem)
    }
}

/// The variables of rules.
struct Values<'v> {
    shape: &'v Shape,
    value: &'v Value,
    old: Option<&'v Value>,
}

impl<'v> Values<'v> {
    fn find(&self, name: &str, optional: bool) -> Option<crate::cel::Result<'v>> {
        match name {
            "self" => Some(Val::of_json(self.value, self.shape)),
            "oldSelf" if optional => Some(match self.old {
                Some(old) => Val::of_json(old, self.shape).map(|old| Val::Optional(Some(old.into()))),
                None => Ok(Val::Optional(None)),
            }),
            "oldSelf" => self.old.map(|old| Val::of_json(old, self.shape)),
            _ => None,
        }
    }
}

/// Keeps expressions that are shared between threads honest.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<RuleTree>();
    shared::<Expression>();
};
