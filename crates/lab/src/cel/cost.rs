//! How much an expression can cost at worst, found out before it is ever evaluated.

use std::{cell::RefCell, rc::Rc};

use super::{
    ast::{Expr, Fold, Kind, Literal, op},
    check::Checked,
    decl::Decl,
    range::Range,
    types::Type,
};

/// The cost of looking at one character, relative to a plain operation.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// The cost of one character of a pattern.
pub(crate) const PATTERN: f64 = 0.25;
pub(crate) const LIST_CREATE: u64 = 10;
pub(crate) const MAP_CREATE: u64 = 30;
pub(crate) const RECORD_CREATE: u64 = 40;

/// The range of the cost of an expression; `root` tells how large the values of its variables can be.
pub(crate) fn estimate(checked: &Checked, root: &Decl) -> Range {
    let nodes = checked.types.len();
    let mut estimator = Estimator {
        checked,
        root,
        paths: vec![Path::empty(); nodes],
        sizes: vec![None; nodes],
        entries: vec![None; nodes],
        locals: Vec::new(),
    };
    estimator.cost(&checked.expr)
}

/// Where in the variables a value is.
///
/// Paths share their memory as long as it lasts, and the last one that grows wins, which can be seen in estimates.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    cells: Rc<RefCell<Vec<String>>>,
    capacity: usize,
    length: usize,
}

impl Path {
    fn empty() -> Self {
        Self { cells: Rc::default(), capacity: 0, length: 0 }
    }

    fn of(name: &str) -> Self {
        Self { cells: Rc::new(RefCell::new(vec![name.to_owned()])), capacity: 1, length: 1 }
    }

    /// This path with one more step.
    fn with(&self, step: &str) -> Self {
        if self.length < self.capacity {
            let mut cells = self.cells.borrow_mut();
            match cells.get_mut(self.length) {
                Some(cell) => step.clone_into(cell),
                None => cells.push(step.to_owned()),
            }
            return Self { cells: self.cells.clone(), capacity: self.capacity, length: self.length + 1 };
        }
        let mut cells = self.parts();
        cells.push(step.to_owned());
        let length = cells.len();
        Self { cells: Rc::new(RefCell::new(cells)), capacity: (self.capacity * 2).max(1), length }
    }

    fn parts(&self) -> Vec<String> {
        self.cells.borrow().iter().take(self.length).cloned().collect()
    }

    fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The sizes of the keys and values of a list or map.
#[derive(Debug, Clone, Copy)]
struct Entry {
    list: bool,
    key: Range,
    value: Range,
}

fn common(one: Option<Entry>, other: Option<Entry>) -> Option<Entry> {
    let (one, other) = (one?, other?);
    Some(Entry { list: one.list, key: one.key.union(other.key), value: one.value.union(other.value) })
}

#[derive(Debug)]
struct Local<'c> {
    name: &'c str,
    path: Path,
    size: Option<Range>,
    entry: Option<Entry>,
}

/// An argument of a call as estimates of the call see it.
#[derive(Debug)]
pub(crate) struct Arg<'c> {
    pub(crate) expr: Option<&'c Expr>,
    pub(crate) path: Path,
    pub(crate) kind: Type,
    pub(crate) size: Option<Range>,
}

/// What a call costs, and how large its result is.
#[derive(Debug)]
pub(crate) struct CallCost {
    pub(crate) cost: Range,
    pub(crate) size: Option<Range>,
}

#[expect(clippy::unnecessary_wraps, reason = "the rows of the tables of estimates are options")]
impl CallCost {
    pub(crate) fn plain(cost: Range) -> Option<Self> {
        Some(Self { cost, size: None })
    }

    pub(crate) fn sized(cost: Range, size: Range) -> Option<Self> {
        Some(Self { cost, size: Some(size) })
    }
}

/// What part of the iteration a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
    Single,
}

pub(crate) struct Estimator<'c> {
    checked: &'c Checked,
    root: &'c Decl,
    /// Where in the variables the values of nodes are.
    paths: Vec<Path>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entry>>,
    locals: Vec<Local<'c>>,
}

impl<'c> Estimator<'c> {
    fn local(&self, name: &str) -> Option<&Local<'c>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn cost(&mut self, expr: &'c Expr) -> Range {
        match &expr.kind {
            Kind::Literal(_) | Kind::Broken => Range::ZERO,
            Kind::Ident(name) => {
                self.paths[expr.id] =
                    self.local(name).map_or_else(|| Path::of(name), |local| local.path.clone());
                Range::fixed(1)
            }
            Kind::Select { operand, field, test } => {
                let below = self.cost(operand);
                // Whether something is there is found out for nothing.
                if *test {
                    return below;
                }
                let paid =
                    matches!(self.checked.type_of(operand), Type::Map(..) | Type::Record(_) | Type::Param(_));
                self.paths[expr.id] = self.path(operand).with(field);
                below + Range::fixed(u64::from(paid))
            }
            Kind::Call { function, args, .. } if function == "dyn" && args.len() == 1 => {
                let below = self.cost(&args[0]);
                self.copy_sizes(expr, &args[0]);
                below + Range::fixed(1)
            }
            Kind::Call { .. } => self.call(expr),
            Kind::List { items } => {
                let mut size = if items.is_empty() { Range::ZERO } else { Range::NOTHING };
                let mut sum = Range::fixed(LIST_CREATE);
                for item in items {
                    sum = sum + self.cost(&item.value);
                    size = size.union(self.size_or_unknown(&item.value));
                }
                self.entries[expr.id] = Some(Entry { list: true, key: Range::fixed(1), value: size });
                sum
            }
            Kind::Map { entries } => {
                let start = if entries.is_empty() { Range::ZERO } else { Range::NOTHING };
                let (mut keys, mut values) = (start, start);
                let mut sum = Range::fixed(MAP_CREATE);
                for entry in entries {
                    sum = sum + self.cost(&entry.key);
                    sum = sum + self.cost(&entry.value);
                    keys = keys.union(self.size_or_unknown(&entry.key));
                    values = values.union(self.size_or_unknown(&entry.value));
                }
                self.entries[expr.id] = Some(Entry { list: false, key: keys, value: values });
                sum
            }
            Kind::Record { fields, .. } => {
                fields.iter().fold(Range::fixed(RECORD_CREATE), |sum, field| sum + self.cost(&field.value))
            }
            Kind::Fold(fold) => {
                if is_binding(fold) {
                    self.binding(expr, fold)
                } else {
                    self.fold(expr, fold)
                }
            }
        }
    }

    fn fold(&mut self, expr: &'c Expr, fold: &'c Fold) -> Range {
        let mut sum = self.cost(&fold.range) + self.cost(&fold.start);
        self.push_value(&fold.accumulator, &fold.start);
        let depth = self.locals.len();
        if let Some(second) = &fold.second {
            self.push_variable(&fold.variable, &fold.range, Part::Key);
            self.push_variable(second, &fold.range, Part::Value);
        } else {
            self.push_variable(&fold.variable, &fold.range, Part::Single);
        }
        let each = self.cost(&fold.condition) + self.cost(&fold.step);
        self.locals.truncate(depth);
        sum = sum + self.cost(&fold.result);
        self.locals.truncate(depth - 1);
        let rounds = self.size_or_unknown(&fold.range);
        match &fold.start.kind {
            Kind::Literal(_) => self.sizes[expr.id] = self.size(&fold.start),
            Kind::List { .. } | Kind::Map { .. } => {
                self.sizes[expr.id] = Some(rounds);
                let entry = self.entry(&fold.step);
                if entry.is_some() {
                    self.entries[expr.id] = entry;
                }
            }
            _ => {}
        }
        sum + rounds.times(each)
    }

    fn binding(&mut self, expr: &'c Expr, fold: &'c Fold) -> Range {
        let sum = self.cost(&fold.range) + self.cost(&fold.start);
        self.push_value(&fold.accumulator, &fold.start);
        let result = self.cost(&fold.result);
        self.locals.pop();
        self.copy_sizes(expr, &fold.result);
        sum + result
    }

    fn push_value(&mut self, name: &'c str, value: &'c Expr) {
        let (path, size, entry) = (self.path(value), self.size(value), self.entry(value));
        self.locals.push(Local { name, path, size, entry });
    }

    fn push_variable(&mut self, name: &'c str, range: &'c Expr, part: Part) {
        let entry = self.entry(range);
        let list = entry.map_or(matches!(self.checked.type_of(range), Type::List(_)), |entry| entry.list);
        let is_key = part == Part::Key || (part == Part::Single && !list);
        let size = entry.map(|entry| if is_key { entry.key } else { entry.value });
        let step = match (list, is_key) {
            (true, true) => "@indices",
            (true, false) => "@items",
            (false, true) => "@keys",
            (false, false) => "@values",
        };
        let path = self.path(range).with(step);
        self.locals.push(Local { name, path, size, entry: None });
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[expr.id].clone()
    }

    fn copy_sizes(&mut self, to: &'c Expr, from: &'c Expr) {
        if let Some(size) = self.size(from) {
            self.sizes[to.id] = Some(size);
        }
        if let Some(entry) = self.entry(from) {
            self.entries[to.id] = Some(entry);
        }
    }

    fn entry(&self, expr: &Expr) -> Option<Entry> {
        self.entries[expr.id].or_else(|| match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        })
    }

    fn size_or_unknown(&mut self, expr: &'c Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, expr: &'c Expr) -> Option<Range> {
        if let Some(size) = self.sizes[expr.id].or_else(|| written_size(expr)) {
            return Some(size);
        }
        let path = self.path(expr);
        if let Some(max) = self.size_at(&path) {
            self.sizes[expr.id] = Some(max);
            return Some(max);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(Range::fixed(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_at(&self, path: &Path) -> Option<Range> {
        self.root.max_at(&path.parts()).map(|max| Range { min: 0, max })
    }

    /// The size of an argument, by all means there are.
    pub(crate) fn size_of(&self, arg: &Arg<'_>) -> Range {
        arg.size.or_else(|| self.size_at(&arg.path)).unwrap_or(Range::UNKNOWN)
    }

    /// The items of a list as an argument.
    pub(crate) fn item_of(arg: &Arg<'c>) -> Option<Arg<'c>> {
        let kind = match &arg.kind {
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Opaque(_, params) => params.first()?.clone(),
            Type::Type(Some(inner)) => (**inner).clone(),
            _ => return None,
        };
        let mut path = Path::empty();
        if !arg.path.is_empty() {
            for part in arg.path.parts() {
                path = path.with(&part);
            }
            path = path.with("@items");
        }
        Some(Arg { expr: None, path, kind, size: None })
    }

    fn arg(&mut self, expr: &'c Expr) -> Arg<'c> {
        let size = self.size(expr);
        let mut path = self.path(expr);
        if path
            .parts()
            .first()
            .is_some_and(|name| name == super::ast::ACCUMULATOR || name == super::ast::OLD_ACCUMULATOR)
        {
            path = Path::empty();
        }
        Arg { expr: Some(expr), path, kind: self.checked.type_of(expr).clone(), size }
    }

    fn call(&mut self, expr: &'c Expr) -> Range {
        let Kind::Call { function, target, args } = &expr.kind else { return Range::ZERO };
        let mut costs = Vec::with_capacity(args.len());
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            nodes.push(self.arg(arg));
        }
        let overloads = self.checked.overloads(expr);
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let mut sum = Range::ZERO;
        let receiver = target.as_deref().map(|target| {
            sum = self.cost(target);
            self.arg(target)
        });
        let mut total = Range::NOTHING;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let each = self.overload(expr, function, overload, receiver.as_ref(), &nodes, &costs);
            total = total.union(each.cost);
            if let Some(found) = each.size {
                size = Some(size.map_or(found, |known| known.union(found)));
            }
            let step = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(indexed)) = (step, args.first()) {
                size = self.entry(indexed).map(|entry| entry.value);
                self.paths[expr.id] = self.path(indexed).with(step);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if size.is_some() {
            self.sizes[expr.id] = size;
        }
        sum + total
    }

    /// The cost of one form of a function.
    fn overload(
        &mut self,
        expr: &'c Expr,
        function: &str,
        overload: &str,
        target: Option<&Arg<'c>>,
        args: &[Arg<'c>],
        costs: &[Range],
    ) -> CallCost {
        let below = costs.iter().fold(Range::ZERO, |sum, cost| sum + *cost);
        let own = super::cost_calls::listed(self, overload, target, args)
            .or_else(|| super::cost_calls::named(self, function, overload, target, args));
        if let Some(CallCost { cost, size }) = own {
            return CallCost { cost: cost + below, size };
        }
        let known = |arg: &Arg<'_>| arg.size.unwrap_or(Range::UNKNOWN);
        let found = match (overload, target, args) {
            ("string_format", Some(target), _) => CallCost::plain(known(target).by(TRAVERSAL)),
            ("string_to_bytes", _, [text]) => {
                let size = known(text);
                CallCost::sized(size.by(TRAVERSAL), Range { min: size.min, max: size.max.wrapping_mul(4) })
            }
            ("bytes_to_string", _, [bytes]) => {
                let size = known(bytes);
                CallCost::sized(size.by(TRAVERSAL), Range { min: size.min / 4, max: size.max })
            }
            ("strings_quote", _, [text]) => {
                let size = known(text);
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                CallCost::sized(size.by(TRAVERSAL), Range { min: size.min.wrapping_add(2), max })
            }
            ("starts_with_string" | "ends_with_string", _, [part]) => {
                CallCost::plain(known(part).by(TRAVERSAL))
            }
            ("in_list", _, [_, list]) => CallCost::plain(known(list).by(1.0)),
            ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
                let text = (known(text) + Range::fixed(1)).by(TRAVERSAL);
                CallCost::plain(text.times(known(pattern).by(PATTERN)))
            }
            ("contains_string", Some(text), [part]) => {
                CallCost::plain(known(text).by(TRAVERSAL).times(known(part).by(TRAVERSAL)))
            }
            ("logical_or" | "logical_and", ..) => {
                let min = costs.first().map_or(0, |first| first.min);
                return CallCost { cost: Range { min, max: below.max }, size: None };
            }
            ("conditional", _, [_, yes, no]) => {
                let size = known(yes).union(known(no));
                if let (Some(yes), Some(no)) = (yes.expr, no.expr)
                    && let Some(entry) = common(self.entry(yes), self.entry(no))
                {
                    self.entries[expr.id] = Some(entry);
                }
                return CallCost { cost: costs[0] + costs[1].union(costs[2]), size: Some(size) };
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = known(left) + known(right);
                if let (Some(left), Some(right)) = (left.expr, right.expr)
                    && let Some(entry) = common(self.entry(left), self.entry(right))
                {
                    self.entries[expr.id] = Some(entry);
                }
                CallCost::sized(
                    if overload == "add_list" { Range::fixed(1) } else { size.by(TRAVERSAL) },
                    size,
                )
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let max = known(left).max.min(known(right).max);
                CallCost::plain(Range { min: u64::from(max > 0), max }.by(TRAVERSAL))
            }
            _ => None,
        };
        let CallCost { cost, size } = found.unwrap_or(CallCost { cost: Range::fixed(1), size: None });
        CallCost { cost: cost + below, size }
    }
}

/// True for a loop that does nothing but give a value a name.
pub(crate) fn is_binding(fold: &Fold) -> bool {
    matches!(&fold.range.kind, Kind::List { items } if items.is_empty())
        && fold.condition.kind == Kind::Literal(Literal::Bool(false))
        && fold.accumulator != super::ast::OLD_ACCUMULATOR
}

/// The size of what is written out.
fn written_size(expr: &Expr) -> Option<Range> {
    let count = match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List { items } => items.len(),
        Kind::Map { entries } => entries.len(),
        _ => return None,
    };
    Some(Range::fixed(count as u64))
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Opaque(name, params) if &**name == "optional_type" => params.first().is_some_and(is_scalar),
        _ => false,
    }
}

/// A whole number that is written out.
pub(crate) fn written_number(arg: &Arg<'_>) -> Option<u64> {
    match arg.expr.map(|expr| &expr.kind) {
        Some(Kind::Literal(Literal::Int(value))) => Some(u64::try_from(*value).unwrap_or(0)),
        _ => None,
    }
}

/// True for the operator that compares for equality.
pub(crate) fn is_equality(function: &str) -> bool {
    function == op::EQUALS
}
