//! Expressions made ready to be evaluated.

use std::{collections::BTreeSet, sync::Arc};

use crate::goregex::GoRegex;

use super::{
    ast::{Expr, Fold, Kind, Literal, op},
    calls::{self, Call},
    check::{Checked, Meaning},
    cost::is_binding,
    run_cost::RunCost,
    shape::unescape,
    value::{Key, List, Map, Text, Val, type_value},
};

/// A step of the evaluation.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Val<'static>),
    Attr(Attr),
    Call {
        name: String,
        call: Option<Call>,
        args: Vec<Node>,
        cost: RunCost,
    },
    And(Vec<Node>),
    Or(Vec<Node>),
    Equal {
        pair: Box<[Node; 2]>,
        negated: bool,
    },
    /// A value among constants.
    Among {
        value: Box<Node>,
        set: BTreeSet<Key<'static>>,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Record {
        name: Arc<str>,
        fields: Vec<(Arc<str>, Node, bool)>,
    },
    Fold(Box<Loop>),
    /// `or` and `orValue`.
    Else {
        target: Box<Node>,
        other: Box<Node>,
        unwrap: bool,
    },
    /// A call with a pattern that is known.
    Pattern {
        name: &'static str,
        regex: Box<GoRegex>,
        args: Vec<Node>,
        cost: RunCost,
    },
    NotStrictlyFalse(Box<Node>),
}

/// A value and the way into it.
#[derive(Debug)]
pub(crate) struct Attr {
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) enum Root {
    /// A variable of the environment.
    Variable(String),
    /// A variable of a loop, by its place.
    Local(usize),
    /// A value with a name, which is found when it is first asked for.
    Lazy(usize, Arc<Node>),
    Condition(Box<[Node; 3]>),
    Value(Box<Node>),
}

/// One step into a value.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) by: By,
    pub(crate) optional: bool,
    /// Whether it is only to be found out if there is something.
    pub(crate) test: bool,
}

#[derive(Debug)]
pub(crate) enum By {
    /// A field, and its name in JSON where that is another.
    Field(Val<'static>, Option<String>),
    Const(Val<'static>),
    Attr(Attr),
    Value(Box<Node>),
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: Node,
    pub(crate) two: bool,
    /// The place of the accumulator; the variables follow.
    pub(crate) slot: usize,
    pub(crate) start: Node,
    pub(crate) condition: Node,
    pub(crate) step: LoopStep,
    pub(crate) result: Node,
}

/// What happens in each round.
#[derive(Debug)]
pub(crate) enum LoopStep {
    Any(Node),
    /// One more item of a list, if a filter lets it pass. Lists can get long, so they are not copied each time.
    Collect {
        filter: Option<Node>,
        value: Node,
    },
    /// One more entry of a map, or all of another map.
    Insert {
        filter: Option<Node>,
        values: Vec<Node>,
    },
}

/// Prepares an expression; the error is about constants that make no sense.
pub(crate) fn plan(checked: &Checked) -> Result<Node, String> {
    Planner { checked, locals: Vec::new() }.node(&checked.expr)
}

struct Planner<'c> {
    checked: &'c Checked,
    /// Variables of loops in their places; with the value, where it is a binding.
    locals: Vec<(&'c str, Option<Arc<Node>>)>,
}

impl<'c> Planner<'c> {
    fn nodes(&mut self, exprs: impl IntoIterator<Item = &'c Expr>) -> Result<Vec<Node>, String> {
        exprs.into_iter().map(|expr| self.node(expr)).collect()
    }

    fn node(&mut self, expr: &'c Expr) -> Result<Node, String> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node::Const(constant(literal))),
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select { operand, field, test } => {
                let real = field.contains("__").then(|| unescape(field)).flatten();
                let name = Val::text(field.as_str());
                // A name that cannot be unescaped is looked for as it is, and not found.
                let by = if field.contains("__") && real.is_none() {
                    By::Const(name)
                } else {
                    By::Field(name, real)
                };
                let mut attr = self.attr(operand)?;
                attr.steps.push(Step { by, optional: false, test: *test });
                Ok(Node::Attr(attr))
            }
            Kind::Call { .. } => self.call(expr),
            Kind::List { items } => {
                let mut nodes = Vec::with_capacity(items.len());
                for item in items {
                    nodes.push((self.node(&item.value)?, item.optional));
                }
                let constants: Option<Vec<Val<'static>>> = nodes
                    .iter()
                    .map(|node| match node {
                        (Node::Const(value), false) => Some(value.clone()),
                        _ => None,
                    })
                    .collect();
                Ok(constants.map_or(Node::List(nodes), |values| Node::Const(Val::list(values))))
            }
            Kind::Map { entries } => {
                let mut nodes = Vec::with_capacity(entries.len());
                for entry in entries {
                    nodes.push((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional));
                }
                let constants: Option<Vec<(Key<'static>, (Val<'static>, Val<'static>))>> = nodes
                    .iter()
                    .map(|node| match node {
                        (Node::Const(key), Node::Const(value), false) => {
                            Some((key.key()?, (key.clone(), value.clone())))
                        }
                        _ => None,
                    })
                    .collect();
                Ok(match constants {
                    Some(entries) => {
                        Node::Const(Val::Map(Map::Made(Arc::new(entries.into_iter().collect()))))
                    }
                    None => Node::Map(nodes),
                })
            }
            Kind::Record { name, fields } => {
                let fields: Result<Vec<_>, String> = fields
                    .iter()
                    .map(|field| Ok((field.name.as_str().into(), self.node(&field.value)?, field.optional)))
                    .collect();
                Ok(Node::Record { name: name.strip_prefix('.').unwrap_or(name).into(), fields: fields? })
            }
            Kind::Fold(fold) => self.fold(fold),
            Kind::Broken => Err("unsupported expr".to_owned()),
        }
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Result<Node, String> {
        if let Some(Meaning::Type(of)) = self.checked.meanings.get(expr.id) {
            if name.starts_with("google.protobuf.")
                && !matches!(name, "google.protobuf.Duration" | "google.protobuf.Timestamp")
            {
                return Err(format!("reference to undefined type: {name}"));
            }
            Ok(Node::Const(type_value(of)))
        } else {
            let local = (0..self.locals.len()).rev().find(|place| self.locals[*place].0 == name);
            let root = match local {
                Some(place) => match &self.locals[place].1 {
                    Some(value) => Root::Lazy(place, value.clone()),
                    None => Root::Local(place),
                },
                None => Root::Variable(name.strip_prefix('.').unwrap_or(name).to_owned()),
            };
            Ok(Node::Attr(Attr { root, steps: Vec::new() }))
        }
    }

    /// An operand as something further steps can be added to.
    fn attr(&mut self, operand: &'c Expr) -> Result<Attr, String> {
        Ok(match self.node(operand)? {
            Node::Attr(attr) if attr.steps.last().is_none_or(|step| !step.test) => attr,
            other => Attr { root: Root::Value(Box::new(other)), steps: Vec::new() },
        })
    }

    fn call(&mut self, expr: &'c Expr) -> Result<Node, String> {
        let Kind::Call { function, target, args } = &expr.kind else {
            return Err("unsupported expr".to_owned());
        };
        match (function.as_str(), args.as_slice()) {
            (op::AND, terms) => return Ok(Node::And(self.nodes(terms)?)),
            (op::OR, terms) => return Ok(Node::Or(self.nodes(terms)?)),
            (op::CONDITIONAL, [condition, yes, no]) => {
                let parts = [self.node(condition)?, self.node(yes)?, self.node(no)?];
                return Ok(Node::Attr(Attr { root: Root::Condition(Box::new(parts)), steps: Vec::new() }));
            }
            (op::EQUALS | op::NOT_EQUALS, [left, right]) => {
                let pair = Box::new([self.node(left)?, self.node(right)?]);
                return Ok(Node::Equal { pair, negated: function == op::NOT_EQUALS });
            }
            (op::INDEX | op::OPTIONAL_INDEX | op::OPTIONAL_SELECT, [operand, index]) => {
                let mut attr = self.attr(operand)?;
                let by = match self.node(index)? {
                    Node::Const(value) if function == op::OPTIONAL_SELECT => {
                        let real = unescape(&value.to_string());
                        By::Field(value, real)
                    }
                    Node::Const(value) => By::Const(value),
                    Node::Attr(attr) => By::Attr(attr),
                    other => By::Value(Box::new(other)),
                };
                attr.steps.push(Step { by, optional: function != op::INDEX, test: false });
                return Ok(Node::Attr(attr));
            }
            (op::NOT_STRICTLY_FALSE, [value]) => {
                return Ok(Node::NotStrictlyFalse(Box::new(self.node(value)?)));
            }
            ("or" | "orValue", [other]) => {
                if let Some(target) = target {
                    let (target, other) = (Box::new(self.node(target)?), Box::new(self.node(other)?));
                    return Ok(Node::Else { target, other, unwrap: function == "orValue" });
                }
            }
            _ => {}
        }
        let overload = match self.checked.overloads(expr) {
            [one] => one,
            _ => "",
        };
        let args = self.nodes(target.as_deref().into_iter().chain(args))?;
        let cost = RunCost::of(function, overload);
        if overload == "in_list"
            && let Some(set) = constant_set(&args)
        {
            let mut args = args.into_iter();
            return Ok(match args.next() {
                Some(_) if set.is_empty() => Node::Const(Val::Bool(false)),
                Some(value) => Node::Among { value: Box::new(value), set },
                None => Node::Const(Val::Bool(false)),
            });
        }
        if let [Node::Const(value)] = args.as_slice()
            && is_conversion(function)
        {
            return calls::convert(function, value).map(Node::Const).map_err(|failure| failure.message);
        }
        if let ("matches" | "find" | "findAll", [_, Node::Const(Val::Text(pattern)), ..]) =
            (function.as_str(), args.as_slice())
        {
            let regex = Box::new(GoRegex::new(pattern)?);
            let name = match function.as_str() {
                "matches" => "matches",
                "find" => "find",
                _ => "findAll",
            };
            return Ok(Node::Pattern { name, regex, args, cost });
        }
        Ok(Node::Call { name: function.clone(), call: calls::find(function), args, cost })
    }

    fn fold(&mut self, fold: &'c Fold) -> Result<Node, String> {
        if is_binding(fold) {
            let value = Arc::new(self.node(&fold.start)?);
            let slot = self.locals.len();
            self.locals.push((&fold.accumulator, Some(value)));
            let result = self.node(&fold.result)?;
            self.locals.truncate(slot);
            // The place is taken as long as the result is evaluated.
            return Ok(Node::Fold(Box::new(Loop {
                range: Node::Const(Val::list(Vec::new())),
                two: false,
                slot,
                start: Node::Const(Val::Null),
                condition: Node::Const(Val::Bool(false)),
                step: LoopStep::Any(Node::Const(Val::Null)),
                result,
            })));
        }
        let (range, start) = (self.node(&fold.range)?, self.node(&fold.start)?);
        let slot = self.locals.len();
        self.locals.push((&fold.accumulator, None));
        self.locals.push((&fold.variable, None));
        if let Some(second) = &fold.second {
            self.locals.push((second, None));
        }
        let condition = self.node(&fold.condition)?;
        let step = self.step(fold)?;
        self.locals.truncate(slot + 1);
        let result = self.node(&fold.result)?;
        self.locals.truncate(slot);
        let two = fold.second.is_some();
        Ok(Node::Fold(Box::new(Loop { range, two, slot, start, condition, step, result })))
    }

    /// The step of a loop, with those that only add to a list or map told apart.
    fn step(&mut self, fold: &'c Fold) -> Result<LoopStep, String> {
        let is_accumulator =
            |expr: &Expr| matches!(&expr.kind, Kind::Ident(name) if *name == fold.accumulator);
        let (filter, step) = match &fold.step.kind {
            Kind::Call { function, args, .. } if function == op::CONDITIONAL => match args.as_slice() {
                [filter, step, otherwise] if is_accumulator(otherwise) => (Some(filter), step),
                _ => (None, &fold.step),
            },
            _ => (None, &fold.step),
        };
        if let Kind::Call { function, target: None, args } = &step.kind {
            match (function.as_str(), args.as_slice(), &fold.start.kind) {
                (op::ADD, [so_far, Expr { kind: Kind::List { items }, .. }], Kind::List { items: start })
                    if is_accumulator(so_far) && start.is_empty() =>
                {
                    if let [item] = items.as_slice()
                        && !item.optional
                    {
                        let filter = filter.map(|filter| self.node(filter)).transpose()?;
                        return Ok(LoopStep::Collect { filter, value: self.node(&item.value)? });
                    }
                }
                (op::MAP_INSERT, [so_far, values @ ..], Kind::Map { entries })
                    if is_accumulator(so_far) && entries.is_empty() =>
                {
                    let filter = filter.map(|filter| self.node(filter)).transpose()?;
                    return Ok(LoopStep::Insert { filter, values: self.nodes(values)? });
                }
                _ => {}
            }
        }
        Ok(LoopStep::Any(self.node(&fold.step)?))
    }
}

fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "dyn" | "duration" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

fn constant(literal: &Literal) -> Val<'static> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(flag) => Val::Bool(*flag),
        Literal::Int(number) => Val::Int(*number),
        Literal::Uint(number) => Val::Uint(*number),
        Literal::Double(number) => Val::Double(*number),
        Literal::String(text) => Val::Text(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Val::Bytes(bytes.clone()),
    }
}

/// The constants a value is looked for among, when all of them can be keys.
fn constant_set(args: &[Node]) -> Option<BTreeSet<Key<'static>>> {
    let [_, Node::Const(Val::List(List::Made(values)))] = args else { return None };
    values.iter().map(Val::key).collect()
}
