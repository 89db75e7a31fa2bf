//! The expression language of the server: its parser, its types, what expressions cost, and their evaluation.

mod amount;
mod ast;
mod base64;
mod calls;
mod check;
mod cost;
mod cost_calls;
mod decl;
mod errors;
mod escapes;
mod functions;
mod interpolate;
mod lexer;
mod literals;
mod macros;
mod named_formats;
mod ops;
mod parser;
mod plan;
mod range;
mod records;
mod run;
mod run_cost;
mod semver;
mod shape;
mod timestamps;
mod types;
mod value;

pub(crate) use check::Env;
pub(crate) use decl::{Decl, DeclKind, MAX_REQUEST};
pub(crate) use range::Range;
pub(crate) use shape::{ListKind, Shape, ShapeKind, escape};
pub(crate) use types::{Record, Type, is_reserved};
pub(crate) use value::{Failure, Host, Key, Result, Val};

/// An expression that is known to make sense.
#[derive(Debug)]
pub(crate) struct Expression {
    checked: check::Checked,
    node: plan::Node,
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CompileError {
    /// It makes no sense; all that is wrong with it, line by line.
    #[error("compilation failed: {0}")]
    Issues(String),
    /// It would fail whatever its variables are.
    #[error("program instantiation failed: {0}")]
    Program(String),
}

/// What came of an evaluation, and what it took.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    /// The value, or why there is none.
    pub result: Result<'a>,
    /// What it cost.
    pub cost: u64,
}

impl Expression {
    /// Reads an expression and checks it; the error shows all that is wrong with it.
    pub(crate) fn compile(source: &str, env: &Env) -> std::result::Result<Self, CompileError> {
        let characters: Vec<char> = source.chars().collect();
        let checked = parser::parse(&characters).and_then(|parsed| check::check(parsed, env));
        let checked = checked.map_err(|complaints| CompileError::Issues(complaints.show(&characters)))?;
        let node = plan::plan(&checked).map_err(CompileError::Program)?;
        Ok(Self { checked, node })
    }

    /// Evaluates it with these variables, as long as it costs no more than the limit.
    pub(crate) fn evaluate<'a>(
        &'a self,
        variables: &dyn Fn(&str) -> Option<Result<'a>>,
        limit: u64,
    ) -> Outcome<'a> {
        let mut run = run::Run::new(variables, limit);
        let result = run.eval(&self.node);
        Outcome { result, cost: run.cost }
    }

    /// The type of its values.
    pub(crate) fn result_type(&self) -> &Type {
        self.checked.type_of(&self.checked.expr)
    }

    /// True when it uses a variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.checked.uses(variable)
    }

    /// What it can cost, when its variables are no larger than declared.
    pub(crate) fn cost(&self, root: &Decl) -> Range {
        cost::estimate(&self.checked, root)
    }
}
