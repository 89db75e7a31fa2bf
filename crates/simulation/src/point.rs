//! Moments at which something can go wrong, by names that are the same in every run of a seed.
//!
//! A moment is a request that controllers make of a site, or an event that a watch tells them: what it is about, and
//! how often that has been so before. Requests of tasks that run in the same moment may change places from run to
//! run; counted by what they are about, each is still found again.

use std::fmt;
use std::str::FromStr;

use http::Method;
use serde_json::Value;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Opens a watch.
    Watch,
    /// Makes an object.
    Create,
    /// Writes an object anew.
    Update,
    /// Changes an object.
    Patch,
    /// Makes an object what is said, by server-side apply.
    Apply,
    /// Deletes an object.
    Delete,
    /// Anything else, such as a stream.
    Other,
}

impl Verb {
    /// The word in a plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }

    /// Whether it may change something.
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Apply | Self::Delete)
    }
}

/// A request, as far as a plan looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What it does.
    pub verb: Verb,
    /// The plural of what it is about.
    pub resource: String,
    /// The namespace; empty for objects of the cluster, and for all namespaces.
    pub namespace: String,
    /// The object; empty for many.
    pub name: String,
    /// The part of the object; empty for all of it.
    pub subresource: String,
}

impl Asked {
    /// Reads a request. Its body names what a create makes.
    pub fn read(method: &Method, uri: &http::Uri, apply: bool, body: &[u8]) -> Self {
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let rest = match parts.first() {
            Some(&"api") => parts.get(2..),
            Some(&"apis") => parts.get(3..),
            _ => None,
        };
        let query = uri.query().unwrap_or_default();
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
            let resource = parts.join(".");
            let (namespace, name, subresource) = (String::new(), String::new(), String::new());
            let verb = if method == Method::GET { Verb::Get } else { Verb::Other };
            return Self { verb, resource, namespace, name, subresource };
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let (resource, mut name, subresource) = (part(0), part(1), part(2));
        let watches = query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
        let verb = match *method {
            Method::GET if watches => Verb::Watch,
            Method::GET if name.is_empty() => Verb::List,
            Method::GET => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if apply => Verb::Apply,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        if verb == Verb::Create && name.is_empty() {
            name = made(&resource, body);
        }
        Self { verb, resource, namespace: namespace.to_owned(), name, subresource }
    }

    /// What it is about, in a plan's words.
    pub fn words(&self) -> String {
        let mut words = format!("{}:{}", self.verb.word(), self.resource);
        for part in [&self.name, &self.subresource] {
            if !part.is_empty() {
                words.push('/');
                words.push_str(part);
            }
        }
        words
    }
}

/// What a create makes. Events have names by chance; what they say and of whom is better.
fn made(resource: &str, body: &[u8]) -> String {
    let Ok(object) = serde_json::from_slice::<Value>(body) else { return String::new() };
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if resource == "events" {
        return format!("{}.{}", text("/reason"), text("/involvedObject/name"));
    }
    match text("/metadata/name") {
        "" => text("/metadata/generateName").to_owned(),
        name => name.to_owned(),
    }
}

/// A moment at which something can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// The site: `control`, `tenant` or `infra`.
    pub site: String,
    /// What is asked of it, or told by it.
    pub what: String,
    /// The how manieth of its kind it is, counted from 1.
    pub occurrence: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}#{}", self.site, self.what, self.occurrence)
    }
}

/// Why a text is no point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no point: `SITE:WHAT#NUMBER` is one")]
pub struct NoPoint(String);

impl FromStr for Point {
    type Err = NoPoint;

    fn from_str(text: &str) -> Result<Self, NoPoint> {
        let parsed = text.split_once(':').and_then(|(site, rest)| {
            let (what, number) = rest.rsplit_once('#')?;
            let occurrence = number.parse().ok().filter(|number| *number > 0)?;
            let whole = !site.is_empty() && !what.is_empty();
            whole.then(|| Self { site: site.to_owned(), what: what.to_owned(), occurrence })
        });
        parsed.ok_or_else(|| NoPoint(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &Method, uri: &str, body: &str) -> String {
        Asked::read(method, &uri.parse().unwrap(), false, body.as_bytes()).words()
    }

    #[test]
    fn requests_are_called_after_what_they_are_about() {
        let cases = [
            (Method::GET, "/api/v1/nodes?watch=true&x=y", "", "watch:nodes"),
            (Method::GET, "/api/v1/namespaces/a/secrets/b", "", "get:secrets/b"),
            (Method::GET, "/apis/kubevirt.io/v1/namespaces/a/virtualmachines", "", "list:virtualmachines"),
            (Method::PATCH, "/apis/g/v1/namespaces/a/machines/m/status", "", "patch:machines/m/status"),
            (Method::POST, "/api/v1/namespaces/a/pods/p/eviction", "{}", "create:pods/p/eviction"),
            (
                Method::POST,
                "/api/v1/namespaces/a/secrets",
                r#"{"metadata":{"name":"n"}}"#,
                "create:secrets/n",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/events",
                r#"{"metadata":{"name":"n.17"},"reason":"Created","involvedObject":{"name":"n"}}"#,
                "create:events/Created.n",
            ),
            (Method::GET, "/version", "", "get:version"),
            (Method::GET, "/api/v1/namespaces/a", "", "get:namespaces/a"),
        ];
        for (method, uri, body, words) in cases {
            assert_eq!(asked(&method, uri, body), words, "{uri}");
        }
    }

    #[test]
    fn a_point_is_read_as_it_is_written() {
        let text = "infra:apply:virtualmachines/blue-workers-1-0#2";
        assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
        for wrong in ["", "infra", "infra:apply", "infra:apply#0", "infra:apply#x", ":apply#1"] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
    }
}
