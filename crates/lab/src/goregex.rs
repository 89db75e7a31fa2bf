//! Regular expressions with the syntax, the meaning and the complaints of Go.
//!
//! Patterns of custom resources and of CEL are written for Go's engine. The two engines agree on most of the
//! syntax, so a pattern is read here by Go's rules, refused with Go's words, and handed to the engine in a form in
//! which every construct that differs (ASCII classes, quoted runs, octal escapes, stacked repetitions) is spelled
//! out.

use std::collections::VecDeque;
use std::fmt::Write as _;

use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};

/// Memory the compiled form of one pattern may take.
const SIZE_LIMIT: usize = 10 << 20;
/// How many patterns that come with data are kept compiled.
const RECENT: usize = 16;
/// How deep groups may nest.
const DEPTH_LIMIT: usize = 1000;
/// How many copies repetitions may make of one thing.
const REPEAT_LIMIT: u64 = 1000;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct GoRegex {
    regex: Regex,
}

impl GoRegex {
    /// Reads and compiles a pattern; the error is the sentence Go says.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let translated = Translator::new(pattern).run().map_err(|(problem, part)| failure(problem, part))?;
        RegexBuilder::new(&translated)
            .size_limit(SIZE_LIMIT)
            .nest_limit(2 * u32::try_from(DEPTH_LIMIT).unwrap_or(u32::MAX))
            .build()
            .map(|regex| Self { regex })
            .map_err(|_| failure("expression too large", pattern))
    }

    /// The same for a pattern that comes with data, which is often the one of the last time.
    pub(crate) fn recent(pattern: &str) -> Result<Self, String> {
        static KEPT: Mutex<VecDeque<(String, GoRegex)>> = Mutex::new(VecDeque::new());
        if let Some(known) = take_recent(&mut KEPT.lock(), pattern) {
            return Ok(known);
        }
        // Nobody waits while this one is compiled.
        let compiled = Self::new(pattern)?;
        keep_recent(&mut KEPT.lock(), pattern, &compiled);
        Ok(compiled)
    }

    /// True when the pattern is found anywhere in the text.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The leftmost match.
    pub(crate) fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.regex.find(text).map(|found| found.as_str())
    }

    /// All matches that do not overlap, at most `limit` of them.
    pub(crate) fn find_all<'t>(&self, text: &'t str, limit: Option<usize>) -> Vec<&'t str> {
        let mut found = Vec::new();
        let mut previous_end = None;
        for one in self.regex.find_iter(text) {
            if limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
            // Go accepts no empty match right after another match.
            if one.is_empty() && previous_end == Some(one.start()) {
                continue;
            }
            previous_end = Some(one.end());
            found.push(one.as_str());
        }
        found
    }
}

/// The compiled form of a pattern, if it is among those used last; it is the first of them then.
fn take_recent(kept: &mut VecDeque<(String, GoRegex)>, pattern: &str) -> Option<GoRegex> {
    let place = kept.iter().position(|(known, _)| known == pattern)?;
    let found = kept.remove(place)?;
    let compiled = found.1.clone();
    kept.push_front(found);
    Some(compiled)
}

/// Keeps a compiled pattern in the place of the one that was used longest ago.
fn keep_recent(kept: &mut VecDeque<(String, GoRegex)>, pattern: &str, compiled: &GoRegex) {
    kept.retain(|(known, _)| known != pattern);
    kept.truncate(RECENT - 1);
    kept.push_front((pattern.to_owned(), compiled.clone()));
}

fn failure(problem: &str, part: &str) -> String {
    format!("error parsing regexp: {problem}: `{part}`")
}

/// A complaint and the part of the pattern it is about.
type Failure<'p> = (&'static str, &'p str);

/// A group that is open.
struct Group {
    /// How many copies repetitions inside make, at most, so far.
    copies: u64,
}

struct Translator<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    groups: Vec<Group>,
    /// The copies the last thing makes; none when there is nothing to repeat.
    last: Option<u64>,
    /// The most copies anything in the open group makes.
    copies: u64,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str) -> Self {
        Self { whole: pattern, rest: pattern, out: String::new(), groups: Vec::new(), last: None, copies: 1 }
    }

    fn run(mut self) -> Result<String, Failure<'p>> {
        let mut last_repeat: Option<&'p str> = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = None;
            match first {
                '(' => self.open()?,
                '|' => {
                    self.skip(1);
                    self.out.push('|');
                    self.last = None;
                }
                ')' => self.close()?,
                '^' | '$' | '.' => {
                    self.skip(1);
                    self.out.push(first);
                    self.atom();
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.repeat(before, None, last_repeat)?;
                    repeated = Some(before);
                }
                '{' => {
                    if let Some((least, most, after)) = repeat_counts(before) {
                        let part = &before[..before.len() - after.len()];
                        let too_big = least.is_none_or(|least| {
                            least > REPEAT_LIMIT
                                || most.is_some_and(|most| {
                                    most.is_none_or(|most| most > REPEAT_LIMIT || least > most)
                                })
                        });
                        if too_big {
                            return Err(("invalid repeat count", part));
                        }
                        self.rest = after;
                        let copies = most.flatten().or(least).unwrap_or(0);
                        self.repeat(before, Some(copies), last_repeat)?;
                        repeated = Some(before);
                    } else {
                        self.skip(1);
                        self.literal('{');
                    }
                }
                '\\' => self.escape()?,
                other => {
                    self.skip(other.len_utf8());
                    self.literal(other);
                }
            }
            last_repeat = repeated;
        }
        if self.groups.is_empty() { Ok(self.out) } else { Err(("missing closing )", self.whole)) }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    /// Something that can be repeated has been written.
    fn atom(&mut self) {
        self.last = Some(1);
    }

    fn literal(&mut self, character: char) {
        push_literal(character, &mut self.out);
        self.atom();
    }

    fn open(&mut self) -> Result<(), Failure<'p>> {
        let mut opened = "(?:".to_owned();
        if self.rest.starts_with("(?") {
            match self.flags()? {
                Some(flags) => opened = flags,
                None => return Ok(()),
            }
        } else {
            self.skip(1);
        }
        if self.groups.len() >= DEPTH_LIMIT {
            return Err(("expression nests too deeply", self.whole));
        }
        self.out.push_str(&opened);
        self.groups.push(Group { copies: self.copies });
        self.copies = 1;
        self.last = None;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure<'p>> {
        let Some(group) = self.groups.pop() else { return Err(("unexpected )", self.whole)) };
        self.skip(1);
        self.out.push(')');
        self.last = Some(self.copies);
        self.copies = self.copies.max(group.copies);
        Ok(())
    }

    /// What follows `(?`: the start of the group to write, or nothing when only flags were set.
    fn flags(&mut self) -> Result<Option<String>, Failure<'p>> {
        let start = self.rest;
        let named = if start.len() > 4 && start.starts_with("(?P<") {
            Some(4)
        } else if start.len() > 3 && start.starts_with("(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(name_start) = named {
            let Some(end) = start.find('>') else { return Err(("invalid named capture", start)) };
            let name = &start[name_start..end];
            if name.is_empty() || !name.chars().all(|one| one == '_' || one.is_ascii_alphanumeric()) {
                return Err(("invalid named capture", &start[..=end]));
            }
            self.skip(end + 1);
            // Only whole matches are asked for, so no group needs to remember what it matched.
            return Ok(Some("(?:".to_owned()));
        }
        let mut rest = &start[2..];
        let mut flags = String::new();
        let (mut negated, mut seen) = (false, false);
        while let Some(one) = rest.chars().next() {
            rest = &rest[one.len_utf8()..];
            match one {
                'i' | 'm' | 's' | 'U' => {
                    flags.push(one);
                    seen = true;
                }
                '-' if !negated => {
                    flags.push('-');
                    negated = true;
                    seen = false;
                }
                ':' | ')' if !negated || seen => {
                    self.rest = rest;
                    if one == ':' {
                        return Ok(Some(format!("(?{flags}:")));
                    }
                    if !flags.is_empty() {
                        let _ = write!(self.out, "(?{flags})");
                    }
                    return Ok(None);
                }
                _ => break,
            }
        }
        Err(("invalid or unsupported Perl syntax", &start[..start.len() - rest.len()]))
    }

    fn repeat(
        &mut self,
        before: &'p str,
        copies: Option<u64>,
        last_repeat: Option<&'p str>,
    ) -> Result<(), Failure<'p>> {
        let lazy = self.rest.starts_with('?');
        if lazy {
            self.skip(1);
        }
        if let Some(previous) = last_repeat {
            return Err((
                "invalid nested repetition operator",
                &previous[..previous.len() - self.rest.len()],
            ));
        }
        let part = &before[..before.len() - self.rest.len()];
        let Some(inner) = self.last else { return Err(("missing argument to repetition operator", part)) };
        let total = inner.saturating_mul(copies.unwrap_or(1).max(1));
        if copies.is_some_and(|copies| copies >= 2) && total > REPEAT_LIMIT {
            return Err(("invalid repeat count", part));
        }
        self.out.push_str(part);
        self.copies = self.copies.max(total);
        self.last = Some(total);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Failure<'p>> {
        let start = self.rest;
        match start.chars().nth(1) {
            Some('A') => self.out.push_str("\\A"),
            Some('b') => self.out.push_str("(?-u:\\b)"),
            Some('B') => self.out.push_str("(?-u:\\B)"),
            Some('z') => self.out.push_str("\\z"),
            Some('C') => return Err(("invalid escape sequence", &start[..2])),
            Some('Q') => {
                let (quoted, rest) = start[2..].split_once("\\E").unwrap_or((&start[2..], ""));
                for one in quoted.chars() {
                    self.literal(one);
                }
                self.rest = rest;
                return Ok(());
            }
            Some('p' | 'P') => {
                let class = self.unicode_class()?;
                self.out.push_str(&class);
                self.atom();
                return Ok(());
            }
            Some(letter) => {
                if let Some(class) = perl_class(letter) {
                    self.out.push_str(class);
                } else {
                    let character = self.escaped()?;
                    push_code(character, &mut self.out);
                    self.atom();
                    return Ok(());
                }
            }
            None => return Err(("trailing backslash at end of expression", "")),
        }
        self.skip(2);
        self.atom();
        Ok(())
    }

    /// The number of the character an escape stands for.
    fn escaped(&mut self) -> Result<u32, Failure<'p>> {
        let start = self.rest;
        let mut characters = start[1..].chars();
        let Some(first) = characters.next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        let octal = |text: &str| text.bytes().next().filter(|digit| (b'0'..=b'7').contains(digit));
        let mut value = None;
        match first {
            '1'..='7' if octal(characters.as_str()).is_none() => {}
            '0'..='7' => {
                let mut number = u32::from(first) - u32::from('0');
                for _ in 0..2 {
                    let Some(digit) = octal(characters.as_str()) else { break };
                    number = number * 8 + u32::from(digit - b'0');
                    characters.next();
                }
                value = Some(number);
            }
            'x' => value = hexadecimal(&mut characters),
            'a' => value = Some(7),
            'f' => value = Some(12),
            'n' => value = Some(10),
            'r' => value = Some(13),
            't' => value = Some(9),
            'v' => value = Some(11),
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => value = Some(u32::from(other)),
            _ => {}
        }
        let rest = characters.as_str();
        self.rest = rest;
        value.ok_or(("invalid escape sequence", &start[..start.len() - rest.len()]))
    }

    /// `\pL`, `\p{Greek}`, `\P{^Han}`.
    fn unicode_class(&mut self) -> Result<String, Failure<'p>> {
        let start = self.rest;
        let mut negated = start.starts_with("\\P");
        let Some(first) = start[2..].chars().next() else {
            return Err(("invalid character class range", start));
        };
        let (sequence, name) = if first == '{' {
            let Some(end) = start.find('}') else { return Err(("invalid character class range", start)) };
            (&start[..=end], &start[3..end])
        } else {
            let end = 2 + first.len_utf8();
            (&start[..end], &start[2..end])
        };
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negated = !negated;
                name
            }
            None => name,
        };
        let sign = if negated { 'P' } else { 'p' };
        let written = format!("\\{sign}{{{name}}}");
        let plain =
            !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || " _-".contains(one));
        // The engine's own tables decide which names exist; they are the same categories and scripts.
        if !plain || name.contains('=') || Regex::new(&written).is_err() {
            return Err(("invalid character class range", sequence));
        }
        self.rest = &start[sequence.len()..];
        Ok(written)
    }

    fn class(&mut self) -> Result<(), Failure<'p>> {
        let start = self.rest;
        self.skip(1);
        let mut written = "[".to_owned();
        if self.rest.starts_with('^') {
            self.skip(1);
            written.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest[2..].find(":]")
            {
                let name = &self.rest[..end + 4];
                if !posix_class(name) {
                    return Err(("invalid character class range", name));
                }
                written.push_str(name);
                self.skip(name.len());
                continue;
            }
            if self.rest.starts_with("\\p") || self.rest.starts_with("\\P") {
                written.push_str(&self.unicode_class()?);
                continue;
            }
            if let Some(class) =
                self.rest.strip_prefix('\\').and_then(|rest| rest.chars().next()).and_then(perl_class)
            {
                written.push_str(class);
                self.skip(2);
                continue;
            }
            let range = self.rest;
            let low = self.class_character(start)?;
            let mut high = low;
            if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.skip(1);
                high = self.class_character(start)?;
                if high < low {
                    return Err(("invalid character class range", &range[..range.len() - self.rest.len()]));
                }
            }
            push_range(low, high, &mut written);
        }
        self.skip(1);
        written.push(']');
        self.out.push_str(&written);
        self.atom();
        Ok(())
    }

    fn class_character(&mut self, class: &'p str) -> Result<u32, Failure<'p>> {
        match self.rest.chars().next() {
            None => Err(("missing closing ]", class)),
            Some('\\') => self.escaped(),
            Some(other) => {
                self.skip(other.len_utf8());
                Ok(u32::from(other))
            }
        }
    }
}

/// The number after `\x`, in braces or of two digits.
fn hexadecimal(characters: &mut std::str::Chars<'_>) -> Option<u32> {
    let first = characters.next()?;
    if first != '{' {
        let second = characters.next()?;
        return Some(first.to_digit(16)? * 16 + second.to_digit(16)?);
    }
    let (mut number, mut digits) = (0_u32, 0);
    loop {
        match characters.next()? {
            '}' => return (digits > 0).then_some(number),
            digit => {
                number = number * 16 + digit.to_digit(16)?;
                digits += 1;
                if number > u32::from(char::MAX) {
                    return None;
                }
            }
        }
    }
}

/// `{2}`, `{2,}` or `{2,3}`: the bounds, and what follows. A bound that is too big to read is none; the second is
/// missing altogether when there is no upper bound.
#[expect(clippy::type_complexity, reason = "the three forms of one piece of syntax")]
fn repeat_counts(text: &str) -> Option<(Option<u64>, Option<Option<u64>>, &str)> {
    let (least, rest) = count(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, Some(least), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((least, None, rest));
    }
    let (most, rest) = count(rest)?;
    Some((least, Some(most), rest.strip_prefix('}')?))
}

fn count(text: &str) -> Option<(Option<u64>, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || (digits > 1 && text.starts_with('0')) {
        return None;
    }
    Some((text[..digits].parse().ok().filter(|&number: &u64| number < 1_000_000_000), &text[digits..]))
}

fn perl_class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

fn posix_class(name: &str) -> bool {
    let Some(name) = name.strip_prefix("[:").and_then(|name| name.strip_suffix(":]")) else { return false };
    let name = name.strip_prefix('^').unwrap_or(name);
    [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
        "upper", "word", "xdigit",
    ]
    .contains(&name)
}

fn push_literal(character: char, out: &mut String) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() {
        out.push(character);
    } else {
        push_code(u32::from(character), out);
    }
}

fn push_code(code: u32, out: &mut String) {
    if char::from_u32(code).is_some() {
        let _ = write!(out, "\\x{{{code:X}}}");
    } else {
        // A surrogate occurs in no text.
        out.push_str("[^\\x{0}-\\x{10FFFF}]");
    }
}

/// A range without the surrogates, which occur in no text.
fn push_range(low: u32, high: u32, out: &mut String) {
    let low = if (0xd800..0xe000).contains(&low) { 0xe000 } else { low };
    let high = if (0xd800..0xe000).contains(&high) { 0xd7ff } else { high };
    if low <= high {
        let _ = write!(out, "\\x{{{low:X}}}-\\x{{{high:X}}}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_refused_in_the_words_of_go() {
        for (pattern, problem) in [
            ("[a", "missing closing ]: `[a`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+?*", "invalid nested repetition operator: `+?*`"),
            ("(?!a)b", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("\\p{Foo}", "invalid character class range: `\\p{Foo}`"),
            ("\\q", "invalid escape sequence: `\\q`"),
        ] {
            assert_eq!(
                GoRegex::new(pattern).unwrap_err(),
                format!("error parsing regexp: {problem}"),
                "{pattern}"
            );
        }
    }

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, matches) in [
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            ("^\\d+$", "٣", false),
            ("^\\w+$", "é", false),
            ("^\\p{L}+$", "é", true),
            ("^a{,2}$", "a{,2}", true),
            ("\\Qa.b\\E$", "xa.b", true),
            ("^a$", "a\n", false),
            ("(?i)straße", "STRASSE", false),
            ("^[\\101\\x{42}]+$", "AB", true),
            ("^[]a-]+$", "]a-", true),
            ("^[[:alpha:]&&b]+$", "a&b", true),
            ("(?P<x>a)(?P<x>b)", "ab", true),
        ] {
            assert_eq!(GoRegex::new(pattern).unwrap().is_match(text), matches, "{pattern} on {text:?}");
        }
        assert_eq!(GoRegex::new("[0-9]*").unwrap().find_all("12 a", None), ["12", "", ""]);
        assert_eq!(GoRegex::new("a*").unwrap().find_all("baaac", None), ["", "aaa", ""]);
        assert_eq!(GoRegex::new("a").unwrap().find_all("aaa", Some(2)), ["a", "a"]);
    }

    #[test]
    fn patterns_that_would_take_too_much_are_refused() {
        let refused = GoRegex::new("(\\p{L}\\p{N}\\pS){1000}").unwrap_err();
        assert_eq!(refused, "error parsing regexp: expression too large: `(\\p{L}\\p{N}\\pS){1000}`");
    }

    #[test]
    fn the_patterns_used_last_are_kept() {
        let mut kept = VecDeque::new();
        let pattern = |number: usize| format!("^a{{{number}}}$");
        for number in 0..RECENT + 3 {
            let text = pattern(number);
            assert!(take_recent(&mut kept, &text).is_none());
            keep_recent(&mut kept, &text, &GoRegex::new(&text).unwrap());
            // The first one is asked for all the time.
            assert!(take_recent(&mut kept, &pattern(0)).is_some());
        }
        assert_eq!(kept.len(), RECENT);
        assert!(take_recent(&mut kept, &pattern(1)).is_none());
        assert!(take_recent(&mut kept, &pattern(RECENT + 2)).unwrap().is_match(&"a".repeat(RECENT + 2)));
        assert!(GoRegex::recent("^b+$").unwrap().is_match("bb"));
        assert!(GoRegex::recent("^b+$").unwrap().is_match("bbb"));
        assert!(GoRegex::recent("(").is_err());
    }
}
