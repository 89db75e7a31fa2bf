//! Expressions of policies: compiled, and evaluated for a request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::super::SharedAuthorizer;
use super::super::json::{items, text};
use super::conditions::Subject;
use super::{authorizer, declared, patches};
use crate::cel::{self, Env, Failure as CelFailure, Host, Record, Type, Val};

/// How much one expression may cost.
const LIMIT: u64 = 1_000_000;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Which names an expression may use besides the usual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    /// `params`.
    pub params: bool,
    /// `authorizer`.
    pub authorizer: bool,
    /// The types of patches.
    pub patches: bool,
    /// Names that only expressions which are stored already may use.
    pub stored: bool,
}

/// What an expression has to evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// True or false.
    Bool,
    /// A text.
    Text,
    /// A text or null.
    TextOrNull,
    /// Whatever.
    Any,
    /// An `Object`.
    Object,
    /// A list of `JSONPatch`.
    Patches,
}

/// Why an expression gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It could not be compiled or evaluated.
    Evaluation(String),
    /// It took too long, together with those before it.
    OutOfBudget(String),
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    source: String,
    compiled: Result<cel::Expression, String>,
}

/// The variables of a policy.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    list: Vec<(String, Expression)>,
}

/// The value of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Computed<'a>(pub(super) Val<'a>);

/// The evaluation of expressions for one request.
pub(crate) struct Evaluation<'a> {
    subject: &'a Subject<'a>,
    variables: &'a Variables,
    params: Option<&'a Value>,
    namespace: Option<&'a Value>,
    authorizer: Option<&'a SharedAuthorizer>,
    known: RefCell<BTreeMap<&'a str, cel::Result<'a>>>,
    /// What variables cost while an expression is evaluated.
    spent: Cell<u64>,
    budget: Cell<u64>,
}

impl fmt::Debug for Evaluation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Evaluation").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Variables {
    /// Compiles the variables of a policy; later ones may use earlier ones.
    pub(crate) fn compile(list: &Value, scope: Scope) -> Self {
        let mut variables = Self::default();
        for one in items(list) {
            let expression = Expression::compile(text(&one["expression"]), Wanted::Any, scope, &variables);
            variables.list.push((text(&one["name"]).to_owned(), expression));
        }
        variables
    }

    /// Adds one more.
    pub(crate) fn push(&mut self, name: &str, expression: Expression) {
        self.list.push((name.to_owned(), expression));
    }

    /// Declares the variables: each by its full name, and all of them as a record, so that unknown ones are told.
    fn declare(&self, env: &mut Env) {
        if self.list.is_empty() {
            return;
        }
        let mut fields = BTreeMap::new();
        for (name, expression) in &self.list {
            let of =
                expression.compiled.as_ref().map_or(Type::Dyn, |compiled| compiled.result_type().clone());
            env.variables.insert(format!("variables.{name}"), of.clone());
            fields.insert(name.clone(), of);
        }
        let record = Record { name: "kubernetes.variables".to_owned(), fields };
        env.variables.insert("variables".to_owned(), Type::Record(Arc::new(record)));
    }
}

/// All variables at once: only good for asking whether there is one.
#[derive(Debug)]
struct AllVariables(Vec<String>);

impl Host for AllVariables {
    fn type_name(&self) -> &'static str {
        "kubernetes.variables"
    }

    fn call<'a>(&self, _: &str, _: &[Val<'a>]) -> Option<cel::Result<'a>> {
        None
    }

    fn field(&self, name: &str) -> Option<cel::Result<'static>> {
        self.0.iter().any(|known| known == name).then_some(Ok(Val::Null))
    }
}

impl Expression {
    /// Compiles an expression about objects that can be anything.
    pub(crate) fn compile(source: &str, wanted: Wanted, scope: Scope, variables: &Variables) -> Self {
        Self::compile_typed(source, wanted, scope, variables, (Type::Dyn, Type::Dyn))
    }

    /// Compiles an expression about objects and parameters of known types.
    pub(super) fn compile_typed(
        source: &str,
        wanted: Wanted,
        scope: Scope,
        variables: &Variables,
        (object, params): (Type, Type),
    ) -> Self {
        let mut env = declared::env(scope, object, params);
        variables.declare(&mut env);
        let compiled = cel::Expression::compile(source, &env)
            .map_err(|error| error.to_string())
            .and_then(|compiled| is_wanted(compiled.result_type(), wanted).map(|()| compiled));
        Self { source: source.to_owned(), compiled }
    }

    /// Why it cannot be used, if it cannot.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    /// Evaluates it.
    pub(crate) fn evaluate<'a>(&'a self, evaluation: &Evaluation<'a>) -> Result<Computed<'a>, Failure> {
        let compiled =
            self.compiled.as_ref().map_err(|why| Failure::Evaluation(format!("compilation error: {why}")))?;
        evaluation.spent.set(0);
        let outcome = compiled.evaluate(&|name| evaluation.variable(name), LIMIT);
        let cost = outcome.cost.saturating_add(evaluation.spent.get());
        match evaluation.budget.get().checked_sub(cost) {
            None => return Err(Failure::OutOfBudget(OUT_OF_BUDGET.to_owned())),
            Some(left) => evaluation.budget.set(left),
        }
        outcome.result.map(Computed).map_err(|failure| {
            Failure::Evaluation(format!("expression '{}' resulted in error: {failure}", self.source))
        })
    }
}

impl<'a> Evaluation<'a> {
    /// An evaluation with a budget.
    pub(crate) fn new(subject: &'a Subject<'a>, variables: &'a Variables, budget: u64) -> Self {
        Self {
            subject,
            variables,
            params: None,
            namespace: None,
            authorizer: None,
            known: RefCell::default(),
            spent: Cell::new(0),
            budget: Cell::new(budget),
        }
    }

    /// With parameters.
    #[must_use]
    pub(crate) fn with_params(mut self, params: Option<&'a Value>) -> Self {
        self.params = params;
        self
    }

    /// With the namespace of the request.
    #[must_use]
    pub(crate) fn with_namespace(mut self, namespace: Option<&'a Value>) -> Self {
        self.namespace = namespace;
        self
    }

    /// With somebody who says who may do what.
    #[must_use]
    pub(crate) fn with_authorizer(mut self, authorizer: &'a SharedAuthorizer) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    fn variable(&self, name: &str) -> Option<cel::Result<'a>> {
        let optional = |value: Option<&'a Value>| Ok(value.map_or(Val::Null, Val::dynamic));
        Some(match name {
            "object" => Ok(Val::dynamic(&self.subject.object)),
            "oldObject" => Ok(Val::dynamic(&self.subject.old)),
            "request" => Ok(Val::dynamic(&self.subject.request)),
            "params" => optional(self.params),
            "namespaceObject" => optional(self.namespace),
            "authorizer" => Ok(authorizer::authorizer(self.subject, self.authorizer?)),
            "authorizer.requestResource" => Ok(authorizer::request_resource(self.subject, self.authorizer?)),
            "variables" => {
                let names = self.variables.list.iter().map(|(name, _)| name.clone()).collect();
                Ok(Val::Host(Arc::new(AllVariables(names))))
            }
            other => return self.own_variable(other.strip_prefix("variables.")?),
        })
    }

    /// A variable of the policy, found out when it is needed first.
    fn own_variable(&self, name: &str) -> Option<cel::Result<'a>> {
        if let Some(known) = self.known.borrow().get(name) {
            return Some(known.clone());
        }
        let (name, expression) = self.variables.list.iter().rev().find(|(known, _)| known == name)?;
        let value = match &expression.compiled {
            Err(why) => Err(CelFailure::new(format!("composited variable {name:?} fails to compile: {why}"))),
            Ok(compiled) => {
                let outcome = compiled.evaluate(&|inner| self.variable(inner), LIMIT);
                self.spent.set(self.spent.get().saturating_add(outcome.cost));
                outcome.result.map_err(|failure| {
                    CelFailure::new(format!("composited variable {name:?} fails to evaluate: {failure}"))
                })
            }
        };
        self.known.borrow_mut().insert(name, value.clone());
        Some(value)
    }
}

/// Checks what an expression evaluates to.
fn is_wanted(found: &Type, wanted: Wanted) -> Result<(), String> {
    let is_object = |of: &Type, name: &str| matches!(of, Type::Record(record) if record.name == name);
    let (fits, shown) = match wanted {
        Wanted::Any => (true, ""),
        Wanted::Bool => (*found == Type::Bool, "bool"),
        Wanted::Text => (*found == Type::String, "string"),
        Wanted::TextOrNull => (matches!(found, Type::String | Type::Null), "one of [string null_type]"),
        Wanted::Object => (is_object(found, "Object"), "Object"),
        Wanted::Patches => {
            (matches!(found, Type::List(item) if is_object(item, "JSONPatch")), "list(JSONPatch)")
        }
    };
    if fits { Ok(()) } else { Err(format!("must evaluate to {shown} but got {}", type_name(found))) }
}

/// The name of a type as it declares itself.
fn type_name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::List(item) => format!("list({})", type_name(item)),
        Type::Map(key, value) => format!("map({}, {})", type_name(key), type_name(value)),
        other => other.to_string(),
    }
}

impl Computed<'_> {
    /// True for `true`.
    pub(crate) fn is_true(&self) -> bool {
        matches!(self.0, Val::Bool(true))
    }

    /// True for `false`.
    pub(crate) fn is_false(&self) -> bool {
        matches!(self.0, Val::Bool(false))
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.0 {
            Val::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The apply configuration it is.
    pub(crate) fn to_apply_configuration(&self) -> Result<Value, String> {
        patches::apply_configuration(&self.0)
    }

    /// The JSON patch it is.
    pub(crate) fn to_json_patch(&self) -> Result<Value, String> {
        patches::json_patch(&self.0)
    }
}
