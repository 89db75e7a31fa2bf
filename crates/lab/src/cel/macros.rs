//! Calls that are short for something else: loops, tests of presence, and what follows from an optional value.

use super::{
    ast::{ACCUMULATOR, Expr, Fold, Item, Kind, Literal, OLD_ACCUMULATOR, op},
    parser::Parser,
};

/// Expands `has(a.b)`; other calls are handed back.
pub(crate) fn expand_global(
    parser: &mut Parser<'_>,
    at: u32,
    function: &str,
    args: Vec<Expr>,
) -> Result<Expr, Vec<Expr>> {
    if function != "has" || args.len() != 1 {
        return Err(args);
    }
    let mut args = args;
    match args.pop() {
        Some(Expr { kind: Kind::Select { operand, field, test: false }, .. }) => {
            Ok(parser.node(at, Kind::Select { operand, field, test: true }))
        }
        Some(other) => Ok(parser.broken(other.at, "invalid argument to has() macro")),
        None => Err(args),
    }
}

/// Expands loops and their kin; other calls are handed back.
pub(crate) fn expand_member(
    parser: &mut Parser<'_>,
    at: u32,
    function: &str,
    target: Expr,
    args: Vec<Expr>,
) -> Result<Expr, (Expr, Vec<Expr>)> {
    let mut builder = Builder { parser, at };
    match (function, args.len()) {
        ("all" | "exists" | "exists_one", 2) => Ok(builder.quantifier(function, target, args)),
        ("map", 2 | 3) | ("filter", 2) => Ok(builder.list_of(function, target, args)),
        ("optMap" | "optFlatMap", 2) => Ok(builder.optional(function, target, args)),
        ("sortBy", 2) => Ok(builder.sort_by(target, args)),
        ("all" | "exists" | "existsOne" | "exists_one", 3)
        | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            Ok(builder.two_variables(function, target, args))
        }
        _ => Err((target, args)),
    }
}

struct Builder<'p, 's> {
    parser: &'p mut Parser<'s>,
    at: u32,
}

/// What a loop does, apart from what it goes over.
struct Body {
    start: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl Builder<'_, '_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.parser.node(self.at, kind)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.parser.call(self.at, function, args)
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call { function: function.to_owned(), target: Some(Box::new(target)), args })
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn bool(&mut self, value: bool) -> Expr {
        self.node(Kind::Literal(Literal::Bool(value)))
    }

    fn int(&mut self, value: i64) -> Expr {
        self.node(Kind::Literal(Literal::Int(value)))
    }

    fn list(&mut self, values: Vec<Expr>) -> Expr {
        let items = values.into_iter().map(|value| Item { value, optional: false }).collect();
        self.node(Kind::List { items })
    }

    fn fold(&mut self, range: Expr, variable: String, second: Option<String>, body: Body) -> Expr {
        let Body { start, condition, step, result } = body;
        let accumulator = ACCUMULATOR.to_owned();
        self.node(Kind::Fold(Box::new(Fold {
            range,
            variable,
            second,
            accumulator,
            start,
            condition,
            step,
            result,
        })))
    }

    /// A value bound to a name for the sake of one expression.
    fn bind(&mut self, name: String, value: Expr, result: Expr) -> Expr {
        let (range, condition, step) = (self.list(Vec::new()), self.bool(false), self.ident(&name));
        let variable = "#unused".to_owned();
        self.node(Kind::Fold(Box::new(Fold {
            range,
            variable,
            second: None,
            accumulator: name,
            start: value,
            condition,
            step,
            result,
        })))
    }

    /// The name of a variable, or a complaint.
    fn variable(&mut self, expr: &Expr, problem: &str) -> Result<String, Expr> {
        let Kind::Ident(name) = &expr.kind else { return Err(self.parser.broken(expr.at, problem)) };
        if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
            let problem = "iteration variable overwrites accumulator variable";
            return Err(self.parser.broken(expr.at, problem));
        }
        Ok(name.clone())
    }

    fn quantifier_body(&mut self, function: &str, predicate: Expr) -> Body {
        match function {
            "all" => {
                let start = self.bool(true);
                let so_far = self.accumulator();
                let condition = self.call(op::NOT_STRICTLY_FALSE, vec![so_far]);
                let so_far = self.accumulator();
                let step = self.call(op::AND, vec![so_far, predicate]);
                Body { start, condition, step, result: self.accumulator() }
            }
            "exists" => {
                let start = self.bool(false);
                let so_far = self.accumulator();
                let not_yet = self.call(op::NOT, vec![so_far]);
                let condition = self.call(op::NOT_STRICTLY_FALSE, vec![not_yet]);
                let so_far = self.accumulator();
                let step = self.call(op::OR, vec![so_far, predicate]);
                Body { start, condition, step, result: self.accumulator() }
            }
            _ => {
                let (start, condition) = (self.int(0), self.bool(true));
                let (so_far, one) = (self.accumulator(), self.int(1));
                let more = self.call(op::ADD, vec![so_far, one]);
                let same = self.accumulator();
                let step = self.call(op::CONDITIONAL, vec![predicate, more, same]);
                let (total, one) = (self.accumulator(), self.int(1));
                Body { start, condition, step, result: self.call(op::EQUALS, vec![total, one]) }
            }
        }
    }

    fn quantifier(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter();
        let (Some(variable), Some(predicate)) = (args.next(), args.next()) else { return target };
        let variable = match self.variable(&variable, "argument must be a simple name") {
            Ok(name) => name,
            Err(broken) => return broken,
        };
        let body = self.quantifier_body(function, predicate);
        self.fold(target, variable, None, body)
    }

    /// `map` and `filter`.
    fn list_of(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter();
        let (Some(name), Some(second), third) = (args.next(), args.next(), args.next()) else {
            return target;
        };
        let variable = match self.variable(&name, "argument is not an identifier") {
            Ok(variable) => variable,
            Err(broken) => return broken,
        };
        let (filter, value) = match (function, third) {
            ("filter", _) => (Some(second), name),
            (_, Some(third)) => (Some(second), third),
            (_, None) => (None, second),
        };
        let body = self.collect(filter, value);
        self.fold(target, variable, None, body)
    }

    /// Collects values into a list, those that pass the filter.
    fn collect(&mut self, filter: Option<Expr>, value: Expr) -> Body {
        let (start, condition) = (self.list(Vec::new()), self.bool(true));
        let (so_far, one) = (self.accumulator(), self.list(vec![value]));
        let added = self.call(op::ADD, vec![so_far, one]);
        let step = self.filtered(filter, added);
        Body { start, condition, step, result: self.accumulator() }
    }

    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call(op::CONDITIONAL, vec![filter, step, same])
            }
            None => step,
        }
    }

    fn two_variables(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter();
        let (Some(first), Some(second), Some(third), fourth) =
            (args.next(), args.next(), args.next(), args.next())
        else {
            return target;
        };
        let (filter, value) = match fourth {
            Some(fourth) => (Some(third), fourth),
            None => (None, third),
        };
        let simple = |builder: &mut Self, expr: &Expr| match &expr.kind {
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(builder.parser.broken(expr.at, "argument must be a simple name")),
        };
        let names = simple(self, &first).and_then(|one| simple(self, &second).map(|two| (one, two)));
        let (one, two) = match names {
            Ok((one, two)) if one == two => {
                return self.parser.broken(second.at, format!("duplicate variable name: {one}"));
            }
            Ok(names) => names,
            Err(broken) => return broken,
        };
        for expr in [&first, &second] {
            if let Err(broken) = self.variable(expr, "") {
                return broken;
            }
        }
        let body = match function {
            "transformList" => self.collect(filter, value),
            "transformMap" | "transformMapEntry" => {
                let start = self.node(Kind::Map { entries: Vec::new() });
                let condition = self.bool(true);
                let so_far = self.accumulator();
                let args = if function == "transformMap" {
                    let key = self.ident(&one);
                    vec![so_far, key, value]
                } else {
                    vec![so_far, value]
                };
                let inserted = self.call(op::MAP_INSERT, args);
                let step = self.filtered(filter, inserted);
                Body { start, condition, step, result: self.accumulator() }
            }
            _ => self.quantifier_body(function, value),
        };
        self.fold(target, one, Some(two), body)
    }

    fn optional(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let mut args = args.into_iter();
        let (Some(variable), Some(result)) = (args.next(), args.next()) else { return target };
        let Kind::Ident(name) = variable.kind else {
            let problem = format!("{function}() variable name must be a simple identifier");
            return self.parser.broken(variable.at, problem);
        };
        let again = self.parser.copy(&target);
        let has_value = self.member("hasValue", target, Vec::new());
        let value = self.member("value", again, Vec::new());
        let bound = self.bind(name, value, result);
        let some = if function == "optMap" { self.call("optional.of", vec![bound]) } else { bound };
        let none = self.call("optional.none", Vec::new());
        self.call(op::CONDITIONAL, vec![has_value, some, none])
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expr {
        if !matches!(
            target.kind,
            Kind::List { .. } | Kind::Select { .. } | Kind::Ident(_) | Kind::Fold(_) | Kind::Call { .. }
        ) {
            let problem =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.parser.broken(target.at, problem);
        }
        let name = "@__sortBy_input__";
        let range = self.ident(name);
        let keys = self.list_of("map", range, args);
        if keys.kind == Kind::Broken {
            return keys;
        }
        let input = self.ident(name);
        let sorted = self.member(op::SORT_BY, input, vec![keys]);
        self.bind(name.to_owned(), target, sorted)
    }
}
