//! Evaluating expressions.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    calls::{add_entries, find_all},
    cost::{LIST_CREATE, MAP_CREATE, RECORD_CREATE},
    ops,
    plan::{Attr, By, Loop, LoopStep, Node, Root, Step},
    records,
    run_cost::{RunCost, equality},
    value::{Failure, Map, Result, Val},
};

/// Where variables come from.
pub(crate) type Variables<'v, 'a> = &'v dyn Fn(&str) -> Option<Result<'a>>;

/// An evaluation under way.
pub(crate) struct Run<'a, 'v> {
    variables: Variables<'v, 'a>,
    /// Variables of loops; none where a value is not found yet.
    locals: Vec<Option<Result<'a>>>,
    pub(crate) cost: u64,
    limit: u64,
}

impl<'a, 'v> Run<'a, 'v> {
    pub(crate) fn new(variables: Variables<'v, 'a>, limit: u64) -> Self {
        Self { variables, locals: Vec::new(), cost: 0, limit }
    }

    fn pay(&mut self, cost: u64) -> Result<'a, ()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            let message = "operation cancelled: actual cost limit exceeded";
            return Err(Failure { cancelled: true, ..Failure::new(message) });
        }
        Ok(())
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Result<'a> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Attr(attr) => {
                let value = self.attr(attr);
                let free = matches!(attr.root, Root::Condition(_))
                    || attr.steps.last().is_some_and(|step| step.test);
                self.pay(u64::from(!free))?;
                value
            }
            Node::Call { name, call, args, cost } => {
                let args = self.call_args(args, *cost)?;
                let result = match (call, args.first()) {
                    (_, Some(Val::Host(host))) => {
                        host.call(name, &args[1..]).unwrap_or_else(|| Err(Failure::no_overload()))
                    }
                    (Some(call), _) => call(&args),
                    (None, _) => Err(Failure::no_overload()),
                };
                self.pay(cost.cost(&args, result.as_ref().ok()))?;
                result
            }
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Equal { pair, negated } => {
                let [left, right] = &**pair;
                let (left, right) = (self.eval(left), self.eval(right));
                // What failed counts like a small value.
                let cost = equality(
                    left.as_ref().unwrap_or(&Val::Null),
                    right.as_ref().unwrap_or(&Val::Null),
                    *negated,
                );
                self.pay(cost)?;
                let (left, right) = (left?, right?);
                ops::equal(&left, &right).map(|equal| Val::Bool(equal != *negated))
            }
            Node::Among { value, set } => {
                let value = self.eval(value)?;
                Ok(Val::Bool(value.key().is_some_and(|key| set.contains(&key))))
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Record { name, fields } => self.record(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Else { target, other, unwrap } => match self.eval(target)? {
                Val::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                Val::Optional(None) => self.eval(other),
                value @ Val::Optional(_) => Ok(value),
                _ => Err(Failure::no_overload()),
            },
            Node::Pattern { name, regex, args, cost } => {
                let args = self.args(args)?;
                let result = match (args.as_slice(), *name) {
                    ([Val::Text(text), _], "matches") => Ok(Val::Bool(regex.is_match(text))),
                    ([Val::Text(text), _], "find") => Ok(Val::text(regex.find(text).unwrap_or(""))),
                    ([Val::Text(text), _, rest @ ..], "findAll") => find_all(regex, text, rest),
                    _ => Err(Failure::no_overload()),
                };
                self.pay(cost.cost(&args, result.as_ref().ok()))?;
                result
            }
            Node::NotStrictlyFalse(value) => {
                let value = self.eval(value);
                self.pay(1)?;
                match value {
                    Err(failure) if failure.cancelled => Err(failure),
                    Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
                    _ => Ok(Val::Bool(true)),
                }
            }
        }
    }

    fn args(&mut self, args: &'a [Node]) -> Result<'a, Vec<Val<'a>>> {
        args.iter().map(|arg| self.eval(arg)).collect()
    }

    /// The arguments of a call. One or two are all found before one that failed ends the call.
    fn call_args(&mut self, args: &'a [Node], cost: RunCost) -> Result<'a, Vec<Val<'a>>> {
        if args.len() > 2 {
            return self.args(args);
        }
        let mut failure = None;
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg).unwrap_or_else(|found| {
                failure = failure
                    .take()
                    .filter(|known: &Failure| !found.cancelled || known.cancelled)
                    .or(Some(found));
                Val::Null
            }));
        }
        match failure {
            None => Ok(values),
            Some(failure) if failure.cancelled => Err(failure),
            Some(failure) => {
                self.pay(cost.cost(&values, None))?;
                Err(failure)
            }
        }
    }

    /// Terms until one decides; what fails does not matter when another decides.
    fn logical(&mut self, terms: &'a [Node], decides: bool) -> Result<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(Failure::no_overload())),
                Err(found) if found.cancelled => return Err(found),
                Err(found) => failure = failure.or(Some(found)),
            }
        }
        failure.map_or(Ok(Val::Bool(!decides)), Err)
    }

    fn list(&mut self, items: &'a [(Node, bool)]) -> Result<'a> {
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match self.eval(item)? {
                Val::Optional(value) if *optional => values.extend(value.map(|value| (*value).clone())),
                value if *optional => {
                    return Err(Failure::new(format!(
                        "cannot initialize optional list element from non-optional value {value}"
                    )));
                }
                value => values.push(value),
            }
        }
        self.pay(LIST_CREATE)?;
        Ok(Val::list(values))
    }

    fn record(&mut self, name: &Arc<str>, fields: &'a [(Arc<str>, Node, bool)]) -> Result<'a> {
        let mut made = BTreeMap::new();
        for (field, value, optional) in fields {
            match self.eval(value)? {
                Val::Optional(value) if *optional => {
                    if let Some(value) = value {
                        made.insert(Arc::clone(field), (*value).clone());
                    }
                }
                value if *optional => {
                    return Err(Failure::new(format!(
                        "cannot initialize optional entry '{field}' from non-optional value {value}"
                    )));
                }
                value => {
                    made.insert(Arc::clone(field), value);
                }
            }
        }
        self.pay(RECORD_CREATE)?;
        if records::of_patches(name).is_none() {
            return Err(Failure::new(format!("unknown type '{name}'")));
        }
        Ok(Val::Record(Arc::clone(name), Arc::new(made)))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Result<'a> {
        let mut made = BTreeMap::new();
        for (key, value, optional) in entries {
            let (key, value) = (self.eval(key)?, self.eval(value)?);
            let Some(place) = key.key() else {
                return Err(Failure::new(format!("unsupported key type: {}", key.type_name())));
            };
            match value {
                Val::Optional(Some(value)) if *optional => {
                    made.insert(place, (key, (*value).clone()));
                }
                Val::Optional(None) if *optional => {
                    made.remove(&place);
                }
                value if *optional => {
                    return Err(Failure::new(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {value}"
                    )));
                }
                value => {
                    made.insert(place, (key, value));
                }
            }
        }
        self.pay(MAP_CREATE)?;
        Ok(Val::Map(Map::Made(Arc::new(made))))
    }

    /// The value at the end of the steps, without what it costs to have found it.
    fn attr(&mut self, attr: &'a Attr) -> Result<'a> {
        let mut value = match &attr.root {
            Root::Variable(name) => (self.variables)(name)
                .unwrap_or_else(|| Err(Failure::new(format!("no such attribute(s): {name}"))))?,
            Root::Local(place) => self.local(*place)?,
            Root::Lazy(place, node) => {
                if self.locals.get(*place).is_some_and(Option::is_none) {
                    // What it is made of does not know of the variables that came later.
                    let later = self.locals.split_off(*place);
                    let value = self.eval(node);
                    self.locals.truncate(*place);
                    self.locals.extend(later);
                    self.locals[*place] = Some(value);
                }
                self.local(*place)?
            }
            Root::Condition(parts) => {
                let [condition, yes, no] = &**parts;
                match self.eval(condition)? {
                    Val::Bool(true) => self.branch(yes)?,
                    Val::Bool(false) => self.branch(no)?,
                    _ => return Err(Failure::no_overload()),
                }
            }
            Root::Value(node) => self.eval(node)?,
        };
        let missing = |test: bool| Ok(if test { Val::Bool(false) } else { Val::Optional(None) });
        let test = attr.steps.last().is_some_and(|step| step.test);
        let mut optional = false;
        if let Val::Optional(inner) = &value
            && !attr.steps.is_empty()
        {
            let Some(inner) = inner else { return missing(test) };
            optional = true;
            value = (**inner).clone();
        }
        for step in &attr.steps {
            optional |= step.optional;
            match self.step(&value, step, optional || step.test)? {
                Some(_) if step.test => return Ok(Val::Bool(true)),
                Some(found) => value = found,
                None => return missing(test),
            }
        }
        Ok(if optional { Val::some(value) } else { value })
    }

    /// One step into a value. None when there is nothing, and that is good to know.
    fn step(&mut self, value: &Val<'a>, step: &'a Step, lenient: bool) -> Result<'a, Option<Val<'a>>> {
        let found = match &step.by {
            By::Field(name, real) => match (value, name) {
                (Val::Map(map), Val::Text(text)) => match map.field(text, real.as_deref()) {
                    Some(found) => found.map(Some),
                    None if lenient => Ok(None),
                    None => Err(Failure::new(format!("no such key: {name}"))),
                },
                _ => into(value, name, lenient),
            },
            By::Const(key) => into(value, key, lenient),
            By::Attr(attr) => self.attr(attr).and_then(|key| into(value, &key, lenient)),
            By::Value(node) => self.eval(node).and_then(|key| into(value, &key, lenient)),
        };
        // What is found to be missing costs nothing, unless that was the question.
        self.pay(u64::from(step.test || !matches!(found, Ok(None))))?;
        found
    }

    fn branch(&mut self, node: &'a Node) -> Result<'a> {
        match node {
            Node::Attr(attr) => self.attr(attr),
            other => self.eval(other),
        }
    }

    fn local(&self, place: usize) -> Result<'a> {
        match self.locals.get(place) {
            Some(Some(value)) => value.clone(),
            _ => Err(Failure::new("no such attribute(s): loop variable")),
        }
    }

    fn fold(&mut self, fold: &'a Loop) -> Result<'a> {
        let range = self.eval(&fold.range)?;
        let result = self.rounds(fold, &range);
        self.locals.truncate(fold.slot);
        result
    }

    fn rounds(&mut self, fold: &'a Loop, range: &Val<'a>) -> Result<'a> {
        let (keys, count) = match range {
            Val::List(list) => (Vec::new(), list.len()),
            Val::Map(map) => {
                let keys = map.keys();
                let count = keys.len();
                (keys, count)
            }
            other if fold.two => {
                return Err(Failure::new(format!(
                    "unsupported comprehension range type: {}",
                    native_name(other)
                )));
            }
            other => {
                return Err(Failure::new(format!("got '{}', expected iterable type", native_name(other))));
            }
        };
        self.locals.resize(fold.slot, None);
        if count == 0 {
            // Nothing asks for the start before the result does; bindings have none.
            let start = match &fold.start {
                Node::Const(Val::Null) => None,
                start => Some(self.eval(start)),
            };
            self.locals.push(start);
            return self.eval(&fold.result);
        }
        let start = self.eval(&fold.start);
        self.locals.push(Some(start));
        self.locals.resize(fold.slot + 2 + usize::from(fold.two), None);
        let mut collected = Vec::new();
        let mut inserted = BTreeMap::new();
        for place in 0..count {
            let (first, second) = match range {
                Val::List(list) => {
                    let item = list.get(place).unwrap_or_else(|| Err(Failure::no_overload()));
                    if fold.two {
                        (Ok(Val::Int(i64::try_from(place).unwrap_or(i64::MAX))), Some(item))
                    } else {
                        (item, None)
                    }
                }
                Val::Map(map) => {
                    let key = keys.get(place).cloned().ok_or_else(Failure::no_overload)?;
                    let value =
                        fold.two.then(|| map.find(&key).unwrap_or_else(|| Err(Failure::no_overload())));
                    (Ok(key), value)
                }
                _ => return Err(Failure::no_overload()),
            };
            self.locals[fold.slot + 1] = Some(first);
            if fold.two {
                self.locals[fold.slot + 2] = second;
            }
            match self.eval(&fold.condition) {
                Err(failure) if failure.cancelled => return Err(failure),
                Ok(Val::Bool(false)) => break,
                _ => {}
            }
            match &fold.step {
                LoopStep::Any(step) => match self.eval(step) {
                    Err(failure) if failure.cancelled => return Err(failure),
                    value => self.locals[fold.slot] = Some(value),
                },
                LoopStep::Collect { filter, value } => {
                    if self.passes(filter.as_ref())? {
                        self.pay(1)?;
                        collected.push(self.eval(value)?);
                        self.pay(LIST_CREATE + 1)?;
                    }
                }
                LoopStep::Insert { filter, values } => {
                    if self.passes(filter.as_ref())? {
                        self.pay(1)?;
                        let values = self.args(values)?;
                        self.pay(1)?;
                        add_entries(&mut inserted, &values)?;
                    }
                }
            }
        }
        self.locals.truncate(fold.slot + 1);
        match &fold.step {
            LoopStep::Any(_) => {}
            LoopStep::Collect { .. } => self.locals[fold.slot] = Some(Ok(Val::list(collected))),
            LoopStep::Insert { .. } => {
                self.locals[fold.slot] = Some(Ok(Val::Map(Map::Made(Arc::new(inserted)))));
            }
        }
        self.eval(&fold.result)
    }

    fn passes(&mut self, filter: Option<&'a Node>) -> Result<'a, bool> {
        match filter.map(|filter| self.eval(filter)).transpose()? {
            None | Some(Val::Bool(true)) => Ok(true),
            Some(Val::Bool(false)) => Ok(false),
            Some(_) => Err(Failure::no_overload()),
        }
    }
}

/// What is at a key or place of a value.
fn into<'a>(value: &Val<'a>, key: &Val<'a>, lenient: bool) -> Result<'a, Option<Val<'a>>> {
    let no_key = || if lenient { Ok(None) } else { Err(Failure::new(format!("no such key: {key}"))) };
    match value {
        Val::Map(map) => map.find(key).map_or_else(no_key, |found| found.map(Some)),
        Val::List(list) => {
            let place = ops::place(key)?;
            match usize::try_from(place).ok().and_then(|place| list.get(place)) {
                Some(found) => found.map(Some),
                None if lenient => Ok(None),
                None => Err(Failure::new(format!("index out of bounds: {key}"))),
            }
        }
        Val::Record(_, fields) => match key {
            Val::Text(name) => fields.get(&**name).cloned().map_or_else(no_key, |found| Ok(Some(found))),
            _ => no_key(),
        },
        Val::Host(host) => match key {
            Val::Text(name) => host.field(name).map_or_else(no_key, |found| found.map(Some)),
            _ => no_key(),
        },
        _ => no_key(),
    }
}

/// The name of the type of a value in messages about loops.
fn native_name(value: &Val<'_>) -> String {
    match value {
        Val::Text(_) => "types.String".to_owned(),
        Val::Optional(_) => "*types.Optional".to_owned(),
        Val::Null => "types.Null".to_owned(),
        Val::Duration(_) => "types.Duration".to_owned(),
        Val::Timestamp(_) => "types.Timestamp".to_owned(),
        other => {
            let mut name = other.type_name().to_owned();
            if let Some(first) = name.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            format!("types.{name}")
        }
    }
}
