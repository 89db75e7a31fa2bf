//! The levels of pod security and the labels that ask for them.

use std::fmt;

use serde_json::Value;

use crate::status::{FieldProblem, Problem};

/// The newest rules there are.
const NEWEST_MINOR: u32 = 37;

/// How strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// Whose rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    Minor(u32),
}

impl Version {
    /// The minor version whose rules count.
    pub(super) fn minor(self) -> u32 {
        match self {
            Self::Latest => NEWEST_MINOR,
            Self::Minor(minor) => minor.min(NEWEST_MINOR),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(formatter, "{level}:latest"),
            Version::Minor(minor) => write!(formatter, "{level}:v1.{minor}"),
        }
    }
}

/// What a namespace demands. Audits have no effect here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// Reads the labels of a namespace. Labels that make no sense are problems, and count as the strictest level
    /// where they are enforced.
    pub(super) fn of_labels(labels: &Value) -> (Self, Vec<FieldProblem>) {
        let open = LevelVersion { level: Level::Privileged, version: Version::Latest };
        let mut policy = Self { enforce: open, warn: open };
        let mut problems = Vec::new();
        let mut enforced = false;
        let (mut warn_level, mut warn_version) = (false, false);
        for mode in ["enforce", "audit", "warn"] {
            let key = format!("pod-security.kubernetes.io/{mode}");
            if let Some(written) = labels.get(&key).and_then(Value::as_str) {
                let level = parse_level(written);
                let fallback = if mode == "enforce" { Level::Restricted } else { Level::Privileged };
                match mode {
                    "enforce" => {
                        policy.enforce.level = level.unwrap_or(fallback);
                        enforced = level.is_some();
                    }
                    "warn" => {
                        policy.warn.level = level.unwrap_or(fallback);
                        warn_level = true;
                    }
                    _ => {}
                }
                if level.is_none() {
                    problems.push(problem(&key, written, "must be one of privileged, baseline, restricted"));
                }
            }
            let key = format!("{key}-version");
            if let Some(written) = labels.get(&key).and_then(Value::as_str) {
                let version = parse_version(written);
                match mode {
                    "enforce" => policy.enforce.version = version.unwrap_or(Version::Latest),
                    "warn" => {
                        policy.warn.version = version.unwrap_or(Version::Latest);
                        warn_version = true;
                    }
                    _ => {}
                }
                if version.is_none() {
                    problems.push(problem(&key, written, "must be \"latest\" or \"v1.x\""));
                }
            }
        }
        // Workloads warn about what their pods will not be allowed.
        if !warn_level && enforced && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !warn_version {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, problems)
    }
}

fn parse_level(written: &str) -> Option<Level> {
    match written {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

fn parse_version(written: &str) -> Option<Version> {
    if written == "latest" {
        return Some(Version::Latest);
    }
    let digits = written.strip_prefix("v1.")?;
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let leads_with_zero = digits.len() > 1 && digits.starts_with('0');
    if plain && !leads_with_zero { digits.parse().ok().map(Version::Minor) } else { None }
}

fn problem(label: &str, value: &str, why: &str) -> FieldProblem {
    FieldProblem::new(format!("metadata.labels[{label}]"), Problem::Invalid(value.into(), why.to_owned()))
}
