//! What calls of the libraries can cost.

use super::{
    cost::{
        Arg, CallCost, Estimator, LIST_CREATE, PATTERN, RECORD_CREATE, TRAVERSAL, is_equality, written_number,
    },
    range::Range,
    types::Type,
};

/// The length of the patterns behind named formats, at most.
const FORMAT_PATTERN: f64 = 128.0;
/// The length of the names of formats, at most.
const FORMAT_NAME: u64 = 64;

/// The forms of functions that have an estimate of their own.
pub(crate) fn listed<'c>(
    estimator: &Estimator<'c>,
    overload: &str,
    target: Option<&Arg<'c>>,
    args: &[Arg<'c>],
) -> Option<CallCost> {
    let new_list =
        |factor: f64, size: Range| CallCost::sized(size.by(factor) + Range::fixed(1 + LIST_CREATE), size);
    let squared = |arg: &Arg<'_>| {
        let size = estimator.size_of(arg);
        size.times(size)
    };
    let factor = |item: &str| if item == "string" || item == "bytes" { 2.0 + TRAVERSAL } else { 2.0 };
    match (overload, target, args) {
        ("list_slice", Some(list), [start, end]) => {
            let most = estimator.size_of(list).max;
            let (start, end) = (written_number(start).unwrap_or(0), written_number(end).unwrap_or(most));
            new_list(1.0, Range::fixed(end.wrapping_sub(start)))
        }
        ("lists_range", _, [count]) => new_list(1.0, Range::fixed(written_number(count).unwrap_or(u64::MAX))),
        ("list_reverse", Some(list), []) => new_list(1.0, estimator.size_of(list)),
        ("list_flatten" | "list_flatten_int", Some(list), [] | [_]) => {
            let depth = args.first().map_or(1, |depth| written_number(depth).unwrap_or(u64::MAX));
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let depth = depth as f64;
            new_list(depth, estimator.size_of(list))
        }
        ("list_distinct", Some(list), []) => new_list(2.0, squared(list)),
        (sort, Some(list), []) if sort.ends_with("_sort") => {
            new_list(factor(sort.trim_start_matches("list_").trim_end_matches("_sort")), squared(list))
        }
        (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => {
            let item = sort.trim_start_matches("list_").trim_end_matches("_sortByAssociatedKeys");
            new_list(factor(item), squared(keys))
        }
        (
            "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list",
            _,
            [one, other],
        ) => {
            let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            let product = estimator.size_of(one).times(estimator.size_of(other));
            CallCost::plain(product.by(factor) + Range::fixed(1))
        }
        _ => None,
    }
}

/// Functions that have an estimate by their name.
#[expect(clippy::too_many_lines, reason = "one table with a row for each function")]
pub(crate) fn named<'c>(
    estimator: &Estimator<'c>,
    function: &str,
    overload: &str,
    target: Option<&Arg<'c>>,
    args: &[Arg<'c>],
) -> Option<CallCost> {
    let size = |arg: &Arg<'c>| estimator.size_of(arg);
    let one = Range::fixed(1);
    match (function, target, args) {
        ("check", ..) => CallCost::plain(Range::fixed(350_000)),
        (
            "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery",
            ..,
        ) => CallCost::plain(one),
        ("fieldSelector" | "labelSelector", _, [selector]) => CallCost::plain(selector_cost(size(selector))),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes", Some(list), _) => {
            match Estimator::item_of(list) {
                Some(item) => {
                    let mut each = one;
                    if matches!(item.kind, Type::String | Type::Bytes) {
                        each = each + size(&item).by(TRAVERSAL);
                    }
                    CallCost::plain(size(list).times(each))
                }
                None if function == "includes" => CallCost::plain(size(list).times(one)),
                None => CallCost::plain(size(list).by(TRAVERSAL)),
            }
        }
        ("url", _, [text]) => CallCost::sized(size(text).by(TRAVERSAL), size(text)),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            CallCost::sized(size(text).by(TRAVERSAL), size(text))
        }
        ("replace", Some(text), [from, to, ..]) => {
            let result = replaced_size(size(text), size(from), size(to));
            CallCost::sized(size(text).by(2.0 * TRAVERSAL), result)
        }
        ("split", Some(text), _) => {
            let limit = args.get(1).and_then(|limit| match limit.expr.map(|expr| &expr.kind) {
                // A negative number is no limit, and a very large one as it is counted here.
                Some(super::ast::Kind::Literal(super::ast::Literal::Int(limit))) => {
                    Some(limit.cast_unsigned())
                }
                _ => None,
            });
            let most = Range { min: 0, max: limit.unwrap_or(size(text).max) };
            CallCost::sized(size(text).by(2.0 * TRAVERSAL), most)
        }
        ("join", Some(list), _) => {
            let count = size(list);
            let mut result = Estimator::item_of(list).map_or(Range::ZERO, |item| count.times(size(&item)));
            if let Some(separator) = args.first() {
                let gaps = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
                result = result + size(separator).times(gaps);
            }
            CallCost::sized(result.by(TRAVERSAL), result)
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            let cost = (size(text) + one).by(TRAVERSAL).times(size(pattern).by(PATTERN));
            CallCost::sized(cost, Range { min: 0, max: size(text).max })
        }
        ("ip", ..) if overload == "cidr_ip" => CallCost::plain(one),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
            [text, ..],
        ) => CallCost::plain(size(text).by(TRAVERSAL)),
        ("ip.isCanonical", _, [text, ..]) => CallCost::plain(size(text).by(2.0 * TRAVERSAL)),
        ("containsIP" | "containsCIDR", _, [other, ..]) => {
            // Addresses have 4 or 16 bytes.
            let address = Range { min: 4, max: 16 };
            let mut cost = (address + address).by(TRAVERSAL);
            if function == "containsCIDR" {
                cost = cost + address.by(TRAVERSAL) + one;
            }
            if overload == "cidr_contains_ip_string" || overload == "cidr_contains_cidr_string" {
                cost = cost + size(other).by(TRAVERSAL);
            }
            CallCost::plain(cost)
        }
        ("validate", _, [text, ..]) => CallCost::plain(size(text).by(TRAVERSAL).by(FORMAT_PATTERN * PATTERN)),
        (equality, _, [left, right]) if is_equality(equality) && left.kind == right.kind => {
            equality_cost(&left.kind, right)
        }
        _ => None,
    }
}

/// Values whose equality does not take a look at every character.
fn equality_cost(kind: &Type, right: &Arg<'_>) -> Option<CallCost> {
    match kind {
        Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => CallCost::plain(Range::fixed(1)),
        Type::Record(record) => match record.name.as_str() {
            "kubernetes.NamedFormat" => CallCost::plain(Range { min: 1, max: FORMAT_NAME }.by(TRAVERSAL)),
            "kubernetes.URL" => {
                let max = right.size.map_or(1, |size| size.max);
                CallCost::plain(Range { min: 1, max }.by(TRAVERSAL))
            }
            name if name.starts_with("kubernetes.authorization.") => CallCost::plain(Range::fixed(1)),
            "kubernetes.Quantity" | "kubernetes.Semver" => CallCost::plain(Range::fixed(1)),
            _ => None,
        },
        _ => None,
    }
}

/// The cost of reading a selector of some length.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
pub(crate) fn selector_cost(length: Range) -> Range {
    let requirements = length.by(0.5).by((LIST_CREATE + RECORD_CREATE) as f64);
    Range::fixed(LIST_CREATE) + length.by(TRAVERSAL) + requirements
}

/// How long a text is with parts of it replaced.
fn replaced_size(text: Range, from: Range, to: Range) -> Range {
    // The longest and the shortest result: how often something is replaced, and how much stays.
    let (most, kept_most) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (divided(text.max, from.min), 0)
    };
    let (least, kept_least) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (divided(text.min, from.max), 0)
    };
    Range { min: least, max: most }.times(to) + Range { min: kept_least, max: kept_most }
}

/// Divides and rounds up, in floating point.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
fn divided(value: u64, by: u64) -> u64 {
    (value as f64 / by as f64).ceil() as u64
}
