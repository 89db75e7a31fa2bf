//! What differs between two texts, line by line, the way the real server writes it.
//!
//! This is the matching of Ratcliff and Obershelp: the longest common block first, then what is left and right of
//! it. Lines that occur very often are not looked for, unless next to a block that was found anyway.

use std::collections::HashMap;
use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Equal,
    Replace,
    Delete,
    Insert,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    tag: Tag,
    left: (usize, usize),
    right: (usize, usize),
}

const CONTEXT: usize = 3;

/// A unified difference without names; empty when the texts are equal.
pub(super) fn unified(old: &str, new: &str) -> String {
    let lines = |text: &str| -> Vec<String> { text.split('\n').map(ToOwned::to_owned).collect() };
    let (left, right) = (lines(old), lines(new));
    let mut out = String::new();
    for group in groups(steps(&left, &right)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(first.left.0, last.left.1),
            range(first.right.0, last.right.1)
        );
        for step in &group {
            let mut all = |sign: char, lines: &[String]| {
                for line in lines {
                    let _ = writeln!(out, "{sign}{line}");
                }
            };
            if step.tag == Tag::Equal {
                all(' ', &left[step.left.0..step.left.1]);
            } else {
                all('-', &left[step.left.0..step.left.1]);
                all('+', &right[step.right.0..step.right.1]);
            }
        }
    }
    out
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// The places of each line on the right, without those that occur too often.
fn places(right: &[String]) -> HashMap<&str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, line) in right.iter().enumerate() {
        places.entry(line).or_default().push(place);
    }
    if right.len() >= 200 {
        let limit = right.len() / 100 + 1;
        places.retain(|_, at| at.len() <= limit);
    }
    places
}

fn longest(
    left: &[String],
    right: &[String],
    places: &HashMap<&str, Vec<usize>>,
    a: (usize, usize),
    b: (usize, usize),
) -> (usize, usize, usize) {
    let (mut best_left, mut best_right, mut best) = (a.0, b.0, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (place, line) in left.iter().enumerate().take(a.1).skip(a.0) {
        let mut next = HashMap::new();
        for &other in places.get(line.as_str()).into_iter().flatten() {
            if other < b.0 {
                continue;
            }
            if other >= b.1 {
                break;
            }
            let length =
                other.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or_default() + 1;
            next.insert(other, length);
            if length > best {
                (best_left, best_right, best) = (place + 1 - length, other + 1 - length, length);
            }
        }
        lengths = next;
    }
    while best_left > a.0 && best_right > b.0 && left[best_left - 1] == right[best_right - 1] {
        (best_left, best_right, best) = (best_left - 1, best_right - 1, best + 1);
    }
    while best_left + best < a.1
        && best_right + best < b.1
        && left[best_left + best] == right[best_right + best]
    {
        best += 1;
    }
    (best_left, best_right, best)
}

fn blocks(left: &[String], right: &[String]) -> Vec<(usize, usize, usize)> {
    let places = places(right);
    let mut waiting = vec![((0, left.len()), (0, right.len()))];
    let mut found = Vec::new();
    while let Some((a, b)) = waiting.pop() {
        let (at_left, at_right, length) = longest(left, right, &places, a, b);
        if length == 0 {
            continue;
        }
        found.push((at_left, at_right, length));
        waiting.push(((a.0, at_left), (b.0, at_right)));
        waiting.push(((at_left + length, a.1), (at_right + length, b.1)));
    }
    found.sort_unstable();
    found.push((left.len(), right.len(), 0));
    found
}

fn steps(left: &[String], right: &[String]) -> Vec<Step> {
    let (mut at_left, mut at_right) = (0, 0);
    let mut steps: Vec<Step> = Vec::new();
    for (a, b, length) in blocks(left, right) {
        let tag = match (at_left < a, at_right < b) {
            (true, true) => Some(Tag::Replace),
            (true, false) => Some(Tag::Delete),
            (false, true) => Some(Tag::Insert),
            (false, false) => None,
        };
        if let Some(tag) = tag {
            steps.push(Step { tag, left: (at_left, a), right: (at_right, b) });
        }
        (at_left, at_right) = (a + length, b + length);
        if length > 0 {
            match steps.last_mut() {
                Some(Step { tag: Tag::Equal, left, right }) if left.1 == a => {
                    (left.1, right.1) = (at_left, at_right);
                }
                _ => steps.push(Step { tag: Tag::Equal, left: (a, at_left), right: (b, at_right) }),
            }
        }
    }
    steps
}

/// The steps, with only a few equal lines around those that are not.
fn groups(mut steps: Vec<Step>) -> Vec<Vec<Step>> {
    if let Some(first) = steps.first_mut().filter(|step| step.tag == Tag::Equal) {
        first.left.0 = first.left.0.max(first.left.1.saturating_sub(CONTEXT));
        first.right.0 = first.right.0.max(first.right.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = steps.last_mut().filter(|step| step.tag == Tag::Equal) {
        last.left.1 = last.left.1.min(last.left.0 + CONTEXT);
        last.right.1 = last.right.1.min(last.right.0 + CONTEXT);
    }
    let mut all = Vec::new();
    let mut group: Vec<Step> = Vec::new();
    for mut step in steps {
        if step.tag == Tag::Equal && step.left.1 - step.left.0 > 2 * CONTEXT {
            let end = Step {
                tag: Tag::Equal,
                left: (step.left.0, step.left.0 + CONTEXT),
                right: (step.right.0, step.right.0 + CONTEXT),
            };
            group.push(end);
            all.push(std::mem::take(&mut group));
            step.left.0 = step.left.1 - CONTEXT;
            step.right.0 = step.right.1 - CONTEXT;
        }
        group.push(step);
    }
    if !(group.is_empty() || matches!(group.as_slice(), [only] if only.tag == Tag::Equal)) {
        all.push(group);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown_with_three_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh";
        let new = "a\nb\nc\nd\nX\nf\ng\nh";
        assert_eq!(unified(old, new), "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n");
        assert_eq!(unified(old, old), "");
    }
}
