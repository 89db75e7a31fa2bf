//! What is wrong with an estate, in words for the person who wrote it.

use std::fmt;

use crate::names::{ClusterName, PoolName};

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing can be made of it.
    Error,
    /// It works, but hardly as intended.
    Warning,
    /// Worth knowing.
    Notice,
}

/// What a problem is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A cluster.
    Cluster(ClusterName),
    /// A pool of a cluster.
    Pool(ClusterName, PoolName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => write!(f, "cluster {name}"),
            Self::Pool(cluster, name) => write!(f, "pool {name} of cluster {cluster}"),
        }
    }
}

/// One problem of an estate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// A short fixed name for it, such as `surge-and-unavailable-zero`.
    pub code: &'static str,
    /// What it is in.
    pub subject: Subject,
    /// The field of the model's spec it is about, such as `template.shape.custom.cpu`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub fix: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.subject, self.path, self.message)?;
        self.fix.as_ref().map_or(Ok(()), |fix| write!(f, " ({fix})"))
    }
}

/// Collects the problems of one subject.
pub struct Problems<'a> {
    subject: Subject,
    out: &'a mut Vec<Problem>,
}

impl<'a> Problems<'a> {
    /// Collects problems of that subject into the list.
    pub fn of(subject: Subject, out: &'a mut Vec<Problem>) -> Self {
        Self { subject, out }
    }

    /// Adds an error.
    pub fn error(
        &mut self,
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
        fix: &str,
    ) {
        self.push(Severity::Error, code, path.into(), message.into(), fix);
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
        fix: &str,
    ) {
        self.push(Severity::Warning, code, path.into(), message.into(), fix);
    }

    /// Adds a notice.
    pub fn notice(
        &mut self,
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
        fix: &str,
    ) {
        self.push(Severity::Notice, code, path.into(), message.into(), fix);
    }

    fn push(&mut self, severity: Severity, code: &'static str, path: String, message: String, fix: &str) {
        let fix = (!fix.is_empty()).then(|| fix.to_owned());
        self.out.push(Problem { severity, code, subject: self.subject.clone(), path, message, fix });
    }
}
