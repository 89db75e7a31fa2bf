//! Checks of what is written out in expressions, beyond its types.

use crate::{
    goregex::GoRegex,
    gotime::{self, Layout},
};

use super::{
    ast::{Expr, Kind, Literal},
    check::Checked,
    errors::Complaints,
    interpolate::{Clause, interpolate},
    timestamps,
    types::Type,
};

/// All complaints about what is written out: durations, moments, patterns, mixed lists and maps, and formats.
pub(crate) fn check(checked: &Checked) -> Complaints {
    let mut walk = Walk { checked, complaints: Complaints::default() };
    walk.node(&checked.expr, false);
    walk.complaints
}

struct Walk<'c> {
    checked: &'c Checked,
    complaints: Complaints,
}

impl<'c> Walk<'c> {
    /// Looks at a node and all below; lists and maps that are to be formatted may be mixed.
    fn node(&mut self, expr: &'c Expr, formatted: bool) {
        match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
            Kind::Select { operand, .. } => self.node(operand, formatted),
            Kind::Call { function, target, args } => {
                if let Some(Expr { at, kind: Kind::Literal(literal), .. }) = args.first()
                    && !acceptable(function, literal)
                {
                    self.complaints.add(*at, format!("invalid {function} argument"));
                }
                if let (Some(Expr { kind: Kind::Literal(Literal::String(format)), .. }), "format", [list]) =
                    (target.as_deref(), function.as_str(), args.as_slice())
                    && let Kind::List { items } = &list.kind
                {
                    let values: Vec<&Expr> = items.iter().map(|item| &item.value).collect();
                    self.format(expr, format, &values);
                }
                let formatted = formatted || function == "format";
                if let Some(target) = target {
                    self.node(target, formatted);
                }
                for arg in args {
                    self.node(arg, formatted);
                }
            }
            Kind::List { items } => {
                if !formatted {
                    self.alike(items.iter().map(|item| (&item.value, item.optional)), true);
                }
                for item in items {
                    self.node(&item.value, formatted);
                }
            }
            Kind::Map { entries } => {
                if !formatted {
                    self.alike(entries.iter().map(|entry| (&entry.key, false)), false);
                    self.alike(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
                }
                for entry in entries {
                    self.node(&entry.key, formatted);
                    self.node(&entry.value, formatted);
                }
            }
            Kind::Record { fields, .. } => fields.iter().for_each(|field| self.node(&field.value, formatted)),
            Kind::Fold(fold) => {
                for part in [&fold.range, &fold.start, &fold.condition, &fold.step, &fold.result] {
                    self.node(part, formatted);
                }
            }
        }
    }

    /// Values that have to be of one type.
    fn alike(&mut self, values: impl Iterator<Item = (&'c Expr, bool)>, only_first: bool) {
        let mut wanted: Option<&Type> = None;
        for (value, optional) in values {
            let mut found = self.checked.type_of(value);
            if optional {
                found = found.unwrap_optional().0;
            }
            match wanted {
                None => wanted = Some(found),
                Some(wanted) if wanted == found => {}
                Some(wanted) => {
                    self.complaints.add(value.at, format!("expected type '{wanted}' but found '{found}'"));
                    if only_first {
                        return;
                    }
                }
            }
        }
    }

    /// A format whose values are written out as well.
    fn format(&mut self, call: &'c Expr, format: &str, values: &[&'c Expr]) {
        let mut seen = 0;
        let mut place = call.at;
        let filled = interpolate(format, |index, clause| {
            let Some(clause) = clause else {
                seen += 1;
                return Ok(String::new());
            };
            let Some(value) = values.get(index) else { return Err(format!("index {index} out of range")) };
            match self.unfit(value, clause) {
                None => Ok(String::new()),
                Some(bad) => {
                    place = bad.at;
                    let found = runtime_name(self.checked.type_of(bad));
                    Err(format!("error during formatting: {}", clause.complaint(&found)))
                }
            }
        });
        match filled {
            Err(problem) => self.complaints.add(place, problem),
            Ok(_) if values.len() > seen => {
                let got = values.len();
                let problem =
                    format!("too many arguments supplied to string.format (expected {seen}, got {got})");
                self.complaints.add(call.at, problem);
            }
            Ok(_) => {}
        }
    }

    /// The value, or what is inside of it, that a clause cannot show.
    fn unfit(&self, value: &'c Expr, clause: Clause) -> Option<&'c Expr> {
        let found = self.checked.type_of(value);
        let fits = match (clause, found) {
            (_, Type::Dyn)
            | (
                Clause::Decimal | Clause::Octal | Clause::Binary | Clause::Hex { .. },
                Type::Int | Type::Uint,
            )
            | (Clause::Binary, Type::Bool)
            | (Clause::Hex { .. }, Type::String | Type::Bytes)
            | (Clause::Fixed(_) | Clause::Scientific(_), Type::Double | Type::String) => true,
            (Clause::Text, found) => {
                !matches!(found, Type::Record(_) | Type::Opaque(..) | Type::Error | Type::Param(_))
            }
            _ => false,
        };
        if !fits {
            return Some(value);
        }
        match (&value.kind, clause) {
            (Kind::List { items }, Clause::Text) => {
                items.iter().find_map(|item| self.unfit(&item.value, clause))
            }
            (Kind::Map { entries }, Clause::Text) => entries.iter().find_map(|entry| {
                self.unfit(&entry.key, clause).or_else(|| self.unfit(&entry.value, clause))
            }),
            _ => None,
        }
    }
}

/// The name of a type without its parameters.
fn runtime_name(of: &Type) -> String {
    match of {
        Type::List(_) => "list".to_owned(),
        Type::Map(..) => "map".to_owned(),
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Type(_) => "type".to_owned(),
        Type::Opaque(name, _) => name.to_string(),
        other => other.to_string(),
    }
}

/// Whether a function can do something with what is written out.
fn acceptable(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("duration", Literal::String(text)) => gotime::parse_duration(text).is_ok(),
        ("timestamp", Literal::String(text)) => {
            gotime::parse_time(text, Layout::Rfc3339).is_ok_and(|moment| timestamps::in_range(&moment))
        }
        ("timestamp", Literal::Int(seconds)) => timestamps::second_in_range(*seconds),
        ("matches", Literal::String(text)) => GoRegex::new(text).is_ok(),
        _ => true,
    }
}
