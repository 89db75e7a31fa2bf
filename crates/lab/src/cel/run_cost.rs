//! What calls cost when they are made.

use super::{
    ast::op,
    cost::{LIST_CREATE, PATTERN, TRAVERSAL},
    cost_calls::selector_cost,
    range::{Range, scaled},
    value::Val,
};

/// How the cost of a call is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RunCost {
    /// Always the same.
    Fixed(u64),
    /// So much for each character of an argument.
    Size(usize, f64),
    /// So much for each character of the result.
    ResultSize(f64),
    /// Each item of an argument.
    Items(usize),
    /// All characters of a list and what is in it.
    Traversal,
    /// A text and a pattern.
    Pattern,
    /// Two texts, one within the other.
    Product,
    /// The shorter of two values.
    Shorter,
    /// Both of two values.
    Both,
    /// An address within a network; the address may have to be read first.
    Network {
        whole: bool,
        text: bool,
    },
    Format,
    Selector,
    NewList,
    Flatten,
    /// All items of a list with each other.
    Square(usize),
    Sets(f64),
}

impl RunCost {
    /// How the cost of a form of a function is found.
    pub(crate) fn of(function: &str, overload: &str) -> Self {
        match overload {
            "list_slice" | "lists_range" | "list_reverse" => return Self::NewList,
            "list_flatten" | "list_flatten_int" => return Self::Flatten,
            "list_distinct" => return Self::Square(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Sets(1.0),
            "list_sets_equivalent_list" => return Self::Sets(2.0),
            sort if sort.starts_with("list_") && sort.ends_with("_sort") => return Self::Square(0),
            sort if sort.ends_with("_sortByAssociatedKeys") => return Self::Square(1),
            _ => {}
        }
        match function {
            "check" => Self::Fixed(350_000),
            "ip" if overload == "cidr_ip" => Self::Fixed(1),
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => Self::Traversal,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
            | "quantity" | "isQuantity" | "semver" | "isSemver" | "ip" => Self::Size(0, TRAVERSAL),
            "replace" | "split" | "ip.isCanonical" => Self::Size(0, 2.0 * TRAVERSAL),
            "join" => Self::ResultSize(2.0 * TRAVERSAL),
            "find" | "findAll" => Self::Pattern,
            "containsIP" => Self::Network { whole: false, text: overload == "cidr_contains_ip_string" },
            "containsCIDR" => Self::Network { whole: true, text: overload == "cidr_contains_cidr_string" },
            "validate" => Self::Format,
            op::EQUALS | op::NOT_EQUALS => Self::Shorter,
            _ => match overload {
                "starts_with_string" | "ends_with_string" => Self::Size(1, TRAVERSAL),
                "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
                    Self::Size(0, TRAVERSAL)
                }
                "in_list" => Self::Items(1),
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes" => Self::Shorter,
                "add_string" | "add_bytes" => Self::Both,
                "matches" | "matches_string" => Self::Pattern,
                "contains_string" => Self::Product,
                _ => Self::Fixed(1),
            },
        }
    }

    /// The cost of a call that was made.
    pub(crate) fn cost(self, args: &[Val<'_>], result: Option<&Val<'_>>) -> u64 {
        let size = |place: usize| args.get(place).map_or(1, Val::size);
        let made = || result.map_or(1, Val::size);
        let new_list = |factor: f64, size: u64| truncated(size, factor).saturating_add(1 + LIST_CREATE);
        match self {
            Self::Fixed(cost) => cost,
            Self::Size(place, factor) => scaled(size(place), factor),
            Self::ResultSize(factor) => scaled(made(), factor),
            Self::Items(place) => size(place),
            Self::Traversal => args.first().map_or(0, traversal),
            Self::Pattern => scaled(size(0) + 1, TRAVERSAL).saturating_mul(scaled(size(1), PATTERN)),
            Self::Product => scaled(size(0), TRAVERSAL).saturating_mul(scaled(size(1), TRAVERSAL)),
            Self::Shorter => scaled(optional_size(args.first()).min(optional_size(args.get(1))), TRAVERSAL),
            Self::Both => scaled(size(0) + size(1), TRAVERSAL),
            Self::Network { whole, text } => {
                let mut cost = scaled(2 * size(0), TRAVERSAL);
                if whole {
                    cost += scaled(size(0), TRAVERSAL) + 1;
                }
                cost + if text { scaled(size(1), TRAVERSAL) } else { 0 }
            }
            Self::Format => {
                let pattern = match args.first() {
                    Some(Val::Format(format)) => format.pattern_size,
                    _ => return 1,
                };
                scaled(size(1) + 1, TRAVERSAL).saturating_mul(scaled(pattern, PATTERN))
            }
            Self::Selector => selector_cost(Range::fixed(size(1))).max,
            Self::NewList => new_list(1.0, made()),
            Self::Flatten => match args.get(1) {
                #[expect(clippy::cast_precision_loss, reason = "a cost")]
                Some(Val::Int(depth)) => new_list(if *depth < 0 { 1.0 } else { *depth as f64 }, size(0)),
                _ => new_list(1.0, size(0)),
            },
            Self::Square(place) => {
                let count = size(place);
                let first = match args.get(place) {
                    Some(Val::List(list)) => list.get(0),
                    _ => None,
                };
                let texts = matches!(first, Some(Ok(Val::Text(_) | Val::Bytes(_))));
                new_list(if texts { 2.0 + TRAVERSAL } else { 2.0 }, count.saturating_mul(count))
            }
            Self::Sets(factor) => truncated(size(0).saturating_mul(size(1)), factor).saturating_add(1),
        }
    }
}

/// The size of a value, or of what an optional value holds.
fn optional_size(value: Option<&Val<'_>>) -> u64 {
    match value {
        Some(Val::Optional(Some(inner))) => optional_size(Some(inner)),
        Some(value) => value.size(),
        None => 1,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost"
)]
fn truncated(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}

/// The cost of going through a value with all its parts.
fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::Text(text) => truncated(text.len() as u64, TRAVERSAL),
        Val::Bytes(bytes) => truncated(bytes.len() as u64, TRAVERSAL),
        Val::List(list) => list.iter().map(|item| item.map_or(1, |item| traversal(&item))).sum(),
        Val::Map(map) => {
            let values = map.keys();
            values
                .iter()
                .map(|key| {
                    traversal(key)
                        + map.find(key).map_or(1, |value| value.map_or(1, |value| traversal(&value)))
                })
                .sum()
        }
        _ => 1,
    }
}

/// The cost of comparing two values.
pub(crate) fn equality(one: &Val<'_>, other: &Val<'_>, negated: bool) -> u64 {
    let at_once = matches!(
        one,
        Val::Quantity(_)
            | Val::Ip(_)
            | Val::Cidr(..)
            | Val::Format(_)
            | Val::Url(_)
            | Val::Semver(_)
            | Val::Host(_)
    );
    if at_once && !negated {
        return 1;
    }
    scaled(optional_size(Some(one)).min(optional_size(Some(other))), TRAVERSAL)
}
