//! The rules of definitions: whether they make sense, and whether they are affordable.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    cel::{CompileError, Decl, DeclKind, Env, Expression, MAX_REQUEST, Type, escape},
    status::{FieldProblem, Problem},
};

use super::{
    definition::internal::shown_rule,
    path::Path,
    rule_types::declare,
    schema::{Rule, Schema, flag, list, text},
    shape::is_meta,
};

/// What all rules may cost together for one object.
pub(crate) const BUDGET: i64 = 10_000_000;
/// What one rule may be estimated to cost for one object.
const RULE_LIMIT: u64 = 10_000_000;
/// What all rules of a definition may be estimated to cost.
const TOTAL_LIMIT: u64 = 100_000_000;
/// The name of the type of `self`.
const SELF_TYPE: &str = "selfType0";

/// The expressions of a definition that is there already. They are not held against it when it changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    rules: HashSet<String>,
    messages: HashSet<String>,
}

impl Known {
    /// All expressions of these schemas.
    pub(crate) fn of(schemas: &[&Value]) -> Self {
        let mut known = Self::default();
        for schema in schemas {
            known.collect(schema);
        }
        known
    }

    fn collect(&mut self, schema: &Value) {
        match schema {
            Value::Object(fields) => {
                for rule in list(fields, "x-kubernetes-validations").iter().filter_map(Value::as_object) {
                    self.rules.insert(text(rule, "rule").to_owned());
                    self.messages.insert(text(rule, "messageExpression").to_owned());
                }
                fields.values().for_each(|value| self.collect(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }
}

/// A place in a schema as its rules see it.
#[derive(Clone)]
pub(crate) struct RuleScope<'r> {
    known: &'r Known,
    /// What is known about the values here; none when it was not found yet.
    decl: Option<Arc<Decl>>,
    /// How many values there can be here; none without bound.
    cardinality: Option<u64>,
    /// Whether there are rules here or above.
    within: bool,
    resource: bool,
}

fn has_rules(fields: &Map<String, Value>) -> bool {
    !list(fields, "x-kubernetes-validations").is_empty()
}

impl<'r> RuleScope<'r> {
    /// The root of the schema of a resource.
    pub(crate) fn root(fields: &Map<String, Value>, schema: &Schema, known: &'r Known) -> Self {
        let decl = schema.below.rules.then(|| declare(schema, true)).flatten().map(Arc::new);
        Self { known, decl, cardinality: Some(1), within: has_rules(fields), resource: true }
    }

    fn child(
        &self,
        fields: &Map<String, Value>,
        below: &Map<String, Value>,
        decl: Option<Arc<Decl>>,
    ) -> Self {
        let factor = match text(fields, "type") {
            "object" if fields.get("additionalProperties").is_some_and(|more| !more.is_null()) => {
                count(fields, "maxProperties")
            }
            "array" => count(fields, "maxItems"),
            _ => Some(1),
        };
        Self {
            known: self.known,
            decl,
            cardinality: self.cardinality.zip(factor).map(|(outer, factor)| outer.saturating_mul(factor)),
            within: self.within || has_rules(below),
            resource: flag(below, "x-kubernetes-embedded-resource"),
        }
    }

    fn inner(&self) -> Option<Arc<Decl>> {
        match self.decl.as_deref().map(|decl| &decl.kind) {
            Some(DeclKind::List(inner) | DeclKind::Map(inner)) => Some(inner.clone()),
            _ => None,
        }
    }

    /// The values of the map here.
    pub(crate) fn values(&self, fields: &Map<String, Value>, below: &Map<String, Value>) -> Self {
        self.child(fields, below, self.inner())
    }

    /// The items of the list here.
    pub(crate) fn items(&self, fields: &Map<String, Value>, below: &Map<String, Value>) -> Self {
        self.child(fields, below, self.inner())
    }

    /// A field of the object here.
    pub(crate) fn field(&self, fields: &Map<String, Value>, name: &str, below: &Map<String, Value>) -> Self {
        // What every resource has is another matter where nobody above has a rule about it.
        let own = self.resource && is_meta(name) && !self.within;
        let decl = match self.decl.as_deref().map(|decl| &decl.kind) {
            Some(DeclKind::Record(known)) if !own => {
                escape(name).and_then(|escaped| known.get(&*escaped).cloned())
            }
            _ => None,
        };
        self.child(fields, below, decl)
    }

    /// Checks the rules of the schema here.
    pub(crate) fn check(
        &self,
        fields: &Map<String, Value>,
        all: &Path<'_>,
        uncorrelatable: Option<&str>,
        costs: &mut RuleCosts,
    ) -> Vec<FieldProblem> {
        let decl = if let Some(decl) = &self.decl {
            decl.clone()
        } else {
            let schema = Schema::read(&Value::Object(fields.clone())).ok();
            if let Some(decl) = schema.and_then(|schema| declare(&schema, self.resource)) {
                Arc::new(decl)
            } else {
                let why = "internal error: failed to construct type information for x-kubernetes-validations \
                           rules: unable to convert structural schema to CEL declarations";
                return vec![FieldProblem::new(all.text(), Problem::Internal(why.to_owned()))];
            }
        };
        let mut problems = Vec::new();
        for (index, written) in list(fields, "x-kubernetes-validations").iter().enumerate() {
            if let Some(written) = written.as_object() {
                self.rule(written, &decl, &all.index(index), uncorrelatable, costs, &mut problems);
            }
        }
        problems
    }

    fn rule(
        &self,
        written: &Map<String, Value>,
        decl: &Decl,
        place: &Path<'_>,
        uncorrelatable: Option<&str>,
        costs: &mut RuleCosts,
        problems: &mut Vec<FieldProblem>,
    ) {
        let rule = Rule::read(&Value::Object(written.clone()));
        let stored =
            (self.known.rules.contains(&rule.rule), self.known.messages.contains(&rule.message_expression));
        let compiled = compile(&rule, decl, stored);
        let (rule_place, message_place) = (place.field("rule"), place.field("messageExpression"));
        let times = self.cardinality.unwrap_or_else(|| (MAX_REQUEST / (decl.min_size + 1)).cast_unsigned());
        let most = compiled.expression.as_ref().map_or(0, |expression| expression.cost(decl).max);
        costs.add(&rule_place, "estimated rule cost", most.saturating_mul(times), problems);
        let shown = || Some(shown_rule(written));
        if let Some(why) = compiled.error {
            problems.push(FieldProblem::new(rule_place.text(), Problem::InvalidAs(shown(), why)));
        }
        match &compiled.message {
            Some(Err(why)) => {
                problems
                    .push(FieldProblem::new(message_place.text(), Problem::InvalidAs(shown(), why.clone())));
            }
            Some(Ok(message)) => {
                costs.add(
                    &message_place,
                    "estimated messageExpression cost",
                    message.cost(decl).max,
                    problems,
                );
            }
            None => {}
        }
        if compiled.expression.is_some_and(|expression| expression.uses("oldSelf")) {
            if let Some(within) = uncorrelatable {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                problems.push(FieldProblem::new(rule_place.text(), Problem::Invalid(rule.rule.into(), why)));
            }
        } else if let Some(optional) = rule.optional_old_self {
            let why = "may not be set if oldSelf is not used in rule".to_owned();
            problems.push(FieldProblem::new(
                place.field("optionalOldSelf").text(),
                Problem::Invalid(optional.into(), why),
            ));
        }
    }
}

fn count(fields: &Map<String, Value>, key: &str) -> Option<u64> {
    fields.get(key).and_then(Value::as_i64).map(|count| count.max(0).cast_unsigned())
}

/// A rule and what came of compiling it.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) expression: Option<Expression>,
    /// Why there is no expression, unless there is no rule either.
    pub(crate) error: Option<String>,
    /// The expression for the sentence, if there is one.
    pub(crate) message: Option<Result<Expression, String>>,
}

/// Compiles a rule and its message. What is stored already may use more than what is new.
pub(crate) fn compile(rule: &Rule, decl: &Decl, stored: (bool, bool)) -> Compiled {
    if rule.rule.trim().is_empty() {
        return Compiled::default();
    }
    let own = decl.named(SELF_TYPE);
    let old = if rule.optional_old_self == Some(true) { Type::optional(own.clone()) } else { own.clone() };
    let mut env = Env { stored: stored.0, ..Env::default() };
    env.variables.insert("self".to_owned(), own);
    env.variables.insert("oldSelf".to_owned(), old);
    let failed = |error: String| Compiled { error: Some(error), ..Compiled::default() };
    let expression = match Expression::compile(&rule.rule, &env) {
        Ok(expression) if *expression.result_type() == Type::Bool => expression,
        Ok(_) => return failed("cel expression must evaluate to a bool".to_owned()),
        Err(error) => return failed(error.to_string()),
    };
    let message = (!rule.message_expression.is_empty()).then(|| {
        env.stored = stored.1;
        match Expression::compile(&rule.message_expression, &env) {
            Ok(message) if *message.result_type() == Type::String => Ok(message),
            Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
            Err(CompileError::Issues(issues)) => {
                Err(format!("messageExpression compilation failed: {issues}"))
            }
            Err(CompileError::Program(why)) => Err(format!("messageExpression instantiation failed: {why}")),
        }
    });
    Compiled { expression: Some(expression), error: None, message }
}

/// What the rules of a schema cost together.
pub(crate) struct RuleCosts {
    /// Whether each rule is held to its limit.
    each: bool,
    total: u64,
    /// The most expensive ones and their places.
    expensive: Vec<(String, u64)>,
}

impl RuleCosts {
    pub(crate) fn new(each: bool) -> Self {
        Self { each, total: 0, expensive: Vec::new() }
    }

    fn add(&mut self, place: &Path<'_>, name: &str, cost: u64, problems: &mut Vec<FieldProblem>) {
        if self.each && cost > RULE_LIMIT {
            problems
                .push(FieldProblem::new(place.text(), Problem::Forbidden(exceeds(name, cost, RULE_LIMIT))));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_LIMIT / 100 {
            self.expensive.push((place.text(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(4);
        }
    }

    /// The complaints about the whole.
    pub(crate) fn problems(self, schema: &Path<'_>) -> Vec<FieldProblem> {
        if self.total <= TOTAL_LIMIT {
            return Vec::new();
        }
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let parts = self
            .expensive
            .into_iter()
            .map(|(place, _)| FieldProblem::new(place, Problem::Forbidden(why.to_owned())));
        let whole =
            FieldProblem::new(schema.text(), Problem::Forbidden(exceeds(name, self.total, TOTAL_LIMIT)));
        parts.chain([whole]).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
fn exceeds(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
