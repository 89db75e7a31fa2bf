//! Semantic versions.

use std::cmp::Ordering;

use crate::gotext::quote;

/// A semantic version. What it was built from says nothing about its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Semver {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    before: Vec<Part>,
}

/// A part of what stands in front of a release. Numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text)));
    }
    parse(text)
}

fn parse(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", quote(text))
    })
}

impl Semver {
    /// Reads a version; the error is the sentence about it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number(major, "major", "Major")?, number(minor, "minor", "Minor")?);
        let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, before) =
            rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
        let patch = number(patch, "patch", "Patch")?;
        let before: Result<Vec<Part>, String> =
            before.into_iter().flat_map(|parts| parts.split('.')).map(part).collect();
        let before = before?;
        for part in build.into_iter().flat_map(|parts| parts.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
            }
        }
        Ok(Self { major, minor, patch, before })
    }

    /// Reads a version that may have a `v` in front, leading zeros, and fewer numbers.
    pub(crate) fn read_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let digits = part.trim_start_matches('0');
            let zero = if digits.starts_with(|one: char| one.is_ascii_digit()) { "" } else { "0" };
            *part = format!("{zero}{digits}");
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::read(&parts.join("."))
    }

    /// The order of two versions.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.before.cmp(&other.before),
            }
        })
    }
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_number(text) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            ));
        }
        return parse(text).map(Part::Number);
    }
    if is_word(text) {
        return Ok(Part::Word(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {}", quote(text)))
}
