//! Finding out the types of an expression, and what its names mean.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    ast::{Expr, Fold, Kind, Literal, op},
    errors::Complaints,
    functions::{self, Function},
    literals,
    parser::Parsed,
    records,
    types::{self, Mapping, Record, Type, most_general},
};

/// The names an expression can use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Env {
    /// Variables and their types.
    pub variables: BTreeMap<String, Type>,
    /// True for expressions that are stored already: they may use what new ones may not yet.
    pub stored: bool,
    /// True for expressions that make patches: they know `Object` and what is below it, and `JSONPatch`.
    pub patches: bool,
}

/// What a node of an expression stands for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Meaning {
    /// What it says.
    #[default]
    Plain,
    /// A variable of the environment or of a loop.
    Variable(String),
    /// A type.
    Type(Type),
    /// A call, by the forms of the function that can be meant.
    Call(Vec<&'static str>),
}

/// An expression with its types.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) expr: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) meanings: Vec<Meaning>,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn overloads(&self, expr: &Expr) -> &[&'static str] {
        match self.meanings.get(expr.id) {
            Some(Meaning::Call(overloads)) => overloads,
            _ => &[],
        }
    }

    /// True when the expression uses the variable.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.meanings.iter().any(|meaning| matches!(meaning, Meaning::Variable(used) if used == name))
    }
}

/// Checks an expression; the error is all that is wrong with it.
pub(crate) fn check(parsed: Parsed, env: &Env) -> Result<Checked, Complaints> {
    let Parsed { mut expr, nodes } = parsed;
    let mut checker = Checker {
        env,
        types: vec![Type::Error; nodes],
        meanings: vec![Meaning::Plain; nodes],
        mapping: Mapping::default(),
        fresh: 0,
        locals: Vec::new(),
        complaints: Complaints::default(),
    };
    checker.expr(&mut expr);
    for known in &mut checker.types {
        *known = checker.mapping.substitute(known, true);
    }
    if checker.complaints.is_empty() {
        let Checker { types, meanings, .. } = checker;
        let checked = Checked { expr, types, meanings };
        let complaints = literals::check(&checked);
        return if complaints.is_empty() { Ok(checked) } else { Err(complaints) };
    }
    Err(checker.complaints)
}

struct Checker<'e> {
    env: &'e Env,
    types: Vec<Type>,
    meanings: Vec<Meaning>,
    mapping: Mapping,
    fresh: usize,
    /// Variables of loops, innermost last.
    locals: Vec<(String, Type)>,
    complaints: Complaints,
}

impl Checker<'_> {
    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id].clone()
    }

    fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(format!("_var{}", self.fresh - 1).into())
    }

    fn mismatch(&mut self, expr: &Expr, expected: &Type, found: &Type) {
        self.complaints.add(expr.at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) {
        self.complaints.add(expr.at, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn expr(&mut self, expr: &mut Expr) {
        let at = expr.id;
        let found = match &mut expr.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(_) => self.ident(expr),
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List { .. } => self.list(expr),
            Kind::Map { .. } => self.map(expr),
            Kind::Record { .. } => self.record(expr),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Broken => Type::Error,
        };
        self.types[at] = found;
    }

    fn local(&self, name: &str) -> Option<&Type> {
        self.locals.iter().rev().find(|(known, _)| known == name).map(|(_, found)| found)
    }

    /// A name of the environment: a variable or a type.
    fn global(&self, name: &str) -> Option<(Type, Meaning)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(found) = self.env.variables.get(name) {
            return Some((found.clone(), Meaning::Variable(name.to_owned())));
        }
        let named = type_named(name)?;
        Some((Type::Type(Some(Arc::new(named.clone()))), Meaning::Type(named)))
    }

    fn ident(&mut self, expr: &Expr) -> Type {
        let Kind::Ident(name) = &expr.kind else { return Type::Error };
        if !name.starts_with('.')
            && let Some(found) = self.local(name)
        {
            let found = found.clone();
            self.meanings[expr.id] = Meaning::Variable(name.clone());
            return found;
        }
        if let Some((found, meaning)) = self.global(name) {
            self.meanings[expr.id] = meaning;
            return found;
        }
        self.undeclared(expr, name);
        Type::Error
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(name) = qualified_name(expr)
            && self.local(name.split('.').next().unwrap_or("")).is_none()
            && let Some((found, meaning)) = self.global(&name)
        {
            self.meanings[expr.id] = meaning;
            expr.kind = Kind::Ident(name);
            return found;
        }
        let at = expr.at;
        let Kind::Select { operand, field, test } = &mut expr.kind else { return Type::Error };
        self.expr(operand);
        let found = self.field(at, operand, field, false);
        if *test { Type::Bool } else { self.mapping.substitute(&found, false) }
    }

    /// The type of a field of an operand that has been checked.
    fn field(&mut self, at: u32, operand: &Expr, field: &str, optional: bool) -> Type {
        let operand_type = self.mapping.substitute(&self.types[operand.id], false);
        let (target, was_optional) = operand_type.unwrap_optional();
        let found = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Record(record) => {
                if let Some(found) = record.field(field) {
                    found.clone()
                } else {
                    self.complaints.add(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            }
            Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.complaints.add(at, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let Kind::Call { function, target, args } = &mut expr.kind else { return Type::Error };
        if function == op::OPTIONAL_SELECT {
            let [operand, name] = args.as_mut_slice() else { return Type::Error };
            self.expr(operand);
            self.types[name.id] = Type::String;
            let field = match &name.kind {
                Kind::Literal(Literal::String(field)) => field.to_string(),
                _ => String::new(),
            };
            let found = self.field(at, operand, &field, true);
            self.meanings[id] = Meaning::Call(vec!["select_optional_field"]);
            return self.mapping.substitute(&found, false);
        }
        for arg in args.iter_mut() {
            self.expr(arg);
        }
        if let Some(receiver) = target {
            if let Some(prefix) = qualified_name(receiver)
                && let Some(found) = self.function(&format!("{prefix}.{function}"))
            {
                *function = format!("{prefix}.{function}");
                *target = None;
                return self.resolve(expr, found);
            }
            self.expr(receiver);
        }
        let name = function.strip_prefix('.').unwrap_or(function).to_owned();
        if let Some(found) = self.function(&name) {
            *function = name;
            self.resolve(expr, found)
        } else {
            let name = function.clone();
            self.undeclared(expr, &name);
            Type::Error
        }
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        let name = name.strip_prefix('.').unwrap_or(name);
        functions::function(name, self.env.stored).filter(|_| self.env.patches || name != records::ESCAPE_KEY)
    }

    /// Finds the forms of a function that fit the arguments.
    fn resolve(&mut self, expr: &Expr, found: &'static Function) -> Type {
        let Kind::Call { function, target, args } = &expr.kind else { return Type::Error };
        let member = target.is_some();
        let mut arg_types: Vec<Type> = target.iter().map(|target| self.type_of(target)).collect();
        arg_types.extend(args.iter().map(|arg| self.type_of(arg)));
        if function == op::AND || function == op::OR {
            let mut good = true;
            for (arg, found) in args.iter().zip(&arg_types) {
                if !self.mapping.assignable(found, &Type::Bool) {
                    self.mismatch(arg, &Type::Bool, found);
                    good = false;
                }
            }
            let id = if function == op::AND { "logical_and" } else { "logical_or" };
            self.meanings[expr.id] = Meaning::Call(vec![id]);
            return if good { Type::Bool } else { Type::Error };
        }
        let mut ids = Vec::new();
        let mut result: Option<Type> = None;
        for overload in found.overloads.iter().filter(|overload| overload.member == member) {
            if overload.later && !self.env.stored {
                continue;
            }
            let mut own = Mapping::default();
            let mut params: Vec<Arc<str>> = Vec::new();
            overload.params.iter().chain([&overload.result]).for_each(|one| collect_params(one, &mut params));
            for param in &params {
                let fresh = self.fresh();
                own.add(param, fresh);
            }
            let wanted: Vec<Type> =
                overload.params.iter().map(|param| own.substitute(param, false)).collect();
            if self.mapping.all_assignable(&arg_types, &wanted) {
                ids.push(overload.id);
                let returned = self.mapping.substitute(&own.substitute(&overload.result, false), false);
                result = Some(match result {
                    None => returned,
                    Some(known) if known.is_dyn() || known == returned => known,
                    Some(_) => Type::Dyn,
                });
            }
        }
        if let Some(result) = result {
            self.meanings[expr.id] = Meaning::Call(ids);
            result
        } else {
            for found in &mut arg_types {
                *found = self.mapping.substitute(found, true);
            }
            let signature = if member {
                let (receiver, rest) = arg_types
                    .split_first()
                    .map_or((String::new(), &[][..]), |(first, rest)| (first.to_string(), rest));
                format!("{receiver}.({})", types::list(rest))
            } else {
                format!("({})", types::list(&arg_types))
            };
            self.complaints.add(
                expr.at,
                format!("found no matching overload for '{function}' applied to '{signature}'"),
            );
            Type::Error
        }
    }

    /// The type two values have in common.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.mapping.assignable(&previous, &current) {
            return most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    /// The type of what is inside of an optional element.
    fn element(&mut self, value: &Expr, optional: bool) -> Type {
        let found = self.type_of(value);
        if !optional {
            return found;
        }
        let (inner, is_optional) = found.unwrap_optional();
        let inner = inner.clone();
        if !is_optional && !inner.is_dyn() {
            self.mismatch(value, &Type::optional(inner.clone()), &inner);
        }
        inner
    }

    fn list(&mut self, expr: &mut Expr) -> Type {
        let Kind::List { items } = &mut expr.kind else { return Type::Error };
        let mut joined = None;
        for item in items {
            self.expr(&mut item.value);
            let found = self.element(&item.value, item.optional);
            joined = Some(self.join(joined, found));
        }
        let item = joined.unwrap_or_else(|| self.fresh());
        Type::list(item)
    }

    fn map(&mut self, expr: &mut Expr) -> Type {
        let Kind::Map { entries } = &mut expr.kind else { return Type::Error };
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.expr(&mut entry.key);
            let key = self.type_of(&entry.key);
            keys = Some(self.join(keys, key));
            self.expr(&mut entry.value);
            let value = self.element(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.fresh());
        let value = values.unwrap_or_else(|| self.fresh());
        Type::map(key, value)
    }

    fn record(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let Kind::Record { name, fields } = &mut expr.kind else { return Type::Error };
        let full = name.strip_prefix('.').unwrap_or(name);
        let known = records::of_patches(full)
            .filter(|_| self.env.patches)
            .or_else(|| self.env.variables.values().find_map(|found| record_named(found, full)));
        let Some(known) = known else {
            let problem = if type_named(name).is_some() {
                format!("'{name}' is not a message type")
            } else {
                format!("undeclared reference to '{name}' (in container '')")
            };
            self.complaints.add(at, problem);
            return Type::Error;
        };
        self.meanings[id] = Meaning::Type(Type::Record(known.clone()));
        for field in fields {
            self.expr(&mut field.value);
            let found = self.element(&field.value, field.optional);
            match known.fields.get(&field.name).or_else(|| known.fields.get(Record::ANY)) {
                // Operations of patches claim to have every field, of no type.
                None if known.name == records::OPERATION => {
                    let name = &field.name;
                    let problem =
                        format!("expected type of field '{name}' is '' but provided type is '{found}'");
                    self.complaints.add(field.at, problem);
                }
                None => self.complaints.add(field.at, format!("undefined field '{}'", field.name)),
                Some(wanted) => {
                    if !self.mapping.assignable(wanted, &found) {
                        let name = &field.name;
                        let problem = format!(
                            "expected type of field '{name}' is '{wanted}' but provided type is '{found}'"
                        );
                        self.complaints.add(field.at, problem);
                    }
                }
            }
        }
        Type::Record(known)
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        self.expr(&mut fold.range);
        self.expr(&mut fold.start);
        let range = self.mapping.substitute(&self.types[fold.range.id], false);
        let accumulator = self.type_of(&fold.start);
        let depth = self.locals.len();
        self.locals.push((fold.accumulator.clone(), accumulator.clone()));
        let two = fold.second.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let problem = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complaints.add(fold.range.at, problem);
                (Type::Error, Type::Error)
            }
        };
        self.locals.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.locals.push((name.clone(), second));
        }
        self.expr(&mut fold.condition);
        self.assert(&fold.condition, &Type::Bool);
        self.expr(&mut fold.step);
        self.assert(&fold.step, &accumulator);
        self.locals.truncate(depth + 1);
        self.expr(&mut fold.result);
        self.locals.truncate(depth);
        self.mapping.substitute(&self.types[fold.result.id], false)
    }

    fn assert(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.type_of(expr);
        if !self.mapping.assignable(wanted, &found) {
            self.mismatch(expr, wanted, &found);
        }
    }
}

fn collect_params(of: &Type, params: &mut Vec<Arc<str>>) {
    match of {
        Type::Param(name) if !params.contains(name) => {
            params.push(name.clone());
        }
        Type::List(item) => collect_params(item, params),
        Type::Map(key, value) => {
            collect_params(key, params);
            collect_params(value, params);
        }
        Type::Opaque(_, inner) => inner.iter().for_each(|one| collect_params(one, params)),
        Type::Type(Some(inner)) => collect_params(inner, params),
        _ => {}
    }
}

/// `a.b.c`, when an expression is nothing but that.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}

/// The types that have a name in expressions.
fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" | "google.protobuf.BoolValue" => Type::Bool,
        "bytes" | "google.protobuf.BytesValue" => Type::Bytes,
        "double" | "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "int" | "google.protobuf.Int64Value" | "google.protobuf.Int32Value" => Type::Int,
        "list" | "google.protobuf.ListValue" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "google.protobuf.Struct" => Type::map(Type::String, Type::Dyn),
        "null_type" => Type::Null,
        "string" | "google.protobuf.StringValue" => Type::String,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "uint" | "google.protobuf.UInt64Value" | "google.protobuf.UInt32Value" => Type::Uint,
        "google.protobuf.Value" | "google.protobuf.Any" => Type::Dyn,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" | "net.CIDR" => Type::Opaque(name.into(), Vec::new()),
        _ => return None,
    })
}

/// The record of this name among the types below a type.
fn record_named(of: &Type, name: &str) -> Option<Arc<super::types::Record>> {
    match of {
        Type::Record(record) if record.name == name => Some(record.clone()),
        Type::Record(record) => record.fields.values().find_map(|field| record_named(field, name)),
        Type::List(item) => record_named(item, name),
        Type::Map(_, value) => record_named(value, name),
        Type::Opaque(_, params) => params.iter().find_map(|param| record_named(param, name)),
        _ => None,
    }
}
