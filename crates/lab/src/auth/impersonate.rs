//! Requests on behalf of somebody else.
//!
//! The headers name a user; whether they may is decided in several ways, the narrow ones first: as the node
//! one's own pod runs on, as any node, as a service account, as any other user for this kind of request, and
//! as anybody for everything (the verb `impersonate`). The way that worked last for somebody is tried first, and
//! a refusal tells about the first way that was tried.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;

use super::authn::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, all, extras, first};
use super::rbac::{Authorizer, SUPERUSERS, Target, forbidden};
use super::tokens::account_groups;
use super::words::quoted;
use crate::attributes::{Attributes, User};
use crate::crd::names::{dns_label, dns_subdomain};
use crate::status::Status;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From so many values on, the right to impersonate any is asked for first.
const MANY: usize = 4;
/// How many users are remembered with the way that worked for them.
const REMEMBERED: usize = 10_000;

/// A way in which somebody may be impersonated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    Account,
    Other,
    /// The verb `impersonate`, for everything.
    Anybody,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::Account, Mode::Other, Mode::Anybody];

/// Decides who may speak for whom.
#[derive(Debug)]
pub struct Impersonator {
    authorizer: Arc<Authorizer>,
    last: Mutex<HashMap<String, Mode>>,
}

/// The user that headers ask for, with nothing added; none for an ordinary request.
pub fn requested_user(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let user = User {
        name: first(headers, USER).unwrap_or_default(),
        uid: first(headers, UID).unwrap_or_default(),
        groups: all(headers, GROUP),
        extra: extras(headers, EXTRA),
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", in_words(&user))))
}

/// A user as the real server prints one in this message.
fn in_words(user: &User) -> String {
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        format!("[]string{{{}}}", values.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{}:{}", quoted(key), list(values))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quoted(&user.name),
        quoted(&user.uid)
    )
}

impl Impersonator {
    /// Decides with the help of this authorizer.
    pub fn new(authorizer: Arc<Authorizer>) -> Self {
        Self { authorizer, last: Mutex::default() }
    }

    /// The user a request is to be taken as made by: none when no headers ask for another one, a refusal when
    /// the user of `attributes` may not. `attributes` is the request as it was made.
    pub fn impersonate(&self, headers: &HeaderMap, attributes: &Attributes) -> Result<Option<User>, Status> {
        let Some(wanted) = requested_user(headers)? else { return Ok(None) };
        let last = self.last.lock().get(&attributes.user.name).copied();
        let mut refusal = None;
        for mode in last.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != last)) {
            if !mode.applies(&wanted, &attributes.user) {
                continue;
            }
            match self.check(mode, &wanted, attributes) {
                Ok(user) => {
                    if last != Some(mode) {
                        self.remember(&attributes.user.name, mode);
                    }
                    return Ok(Some(user));
                }
                Err(status) => refusal = refusal.or(Some(status)),
            }
        }
        Err(refusal.unwrap_or_else(|| Status::new(500, "", "all impersonation modes failed")))
    }

    fn remember(&self, user: &str, mode: Mode) {
        let mut last = self.last.lock();
        if last.len() >= REMEMBERED {
            last.clear();
        }
        last.insert(user.to_owned(), mode);
    }

    fn check(&self, mode: Mode, wanted: &User, attributes: &Attributes) -> Result<User, Status> {
        if let Some(name) = mode.name() {
            // May they make this request in this way at all?
            let verb = format!("impersonate-on:{name}:{}", attributes.verb);
            self.allowed(mode, &Attributes { verb, ..attributes.clone() })?;
        }
        let constrained = mode != Mode::Anybody;
        let ask = |group: &str, resource: &str, name: &str| Attributes {
            user: attributes.user.clone(),
            verb: mode.name().map_or_else(|| "impersonate".to_owned(), |name| format!("impersonate:{name}")),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        let core = if constrained { AUTHENTICATION } else { "" };
        let mut user = wanted.clone();

        let mut of_name = ask(core, "users", &wanted.name);
        if let Some(node) = node_name(&wanted.name).filter(|_| constrained) {
            of_name = ask(core, "nodes", node);
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, name)) = account_of(&wanted.name) {
            of_name = Attributes { namespace: namespace.to_owned(), ..ask(core, "serviceaccounts", name) };
            if wanted.groups.is_empty() {
                user.groups = account_groups(namespace);
            }
        }
        self.allowed(mode, &of_name)?;
        if !wanted.uid.is_empty() {
            self.allowed(mode, &ask(AUTHENTICATION, "uids", &wanted.uid))?;
        }
        self.check_groups(mode, wanted, |name| ask(core, "groups", name))?;
        self.check_extra(mode, wanted, |key, value| Attributes {
            subresource: key.to_owned(),
            ..ask(AUTHENTICATION, "userextras", value)
        })?;
        complete_groups(&mut user);
        Ok(user)
    }

    fn check_groups(
        &self,
        mode: Mode,
        wanted: &User,
        ask: impl Fn(&str) -> Attributes,
    ) -> Result<(), Status> {
        let groups = &wanted.groups;
        if mode != Mode::Anybody {
            let has = |name: &str| groups.iter().any(|group| group == name);
            if has("") {
                return Err(forbidden(&ask(""), "impersonating the empty string group is not allowed"));
            }
            if has(SUPERUSERS) {
                let words = "impersonating the system:masters group is not allowed";
                return Err(forbidden(&ask(SUPERUSERS), words));
            }
            if groups.len() >= MANY && self.allowed(mode, &ask("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.allowed(mode, &ask(group)))
    }

    fn check_extra(
        &self,
        mode: Mode,
        wanted: &User,
        ask: impl Fn(&str, &str) -> Attributes,
    ) -> Result<(), Status> {
        let extra = &wanted.extra;
        if mode != Mode::Anybody && !extra.is_empty() {
            for (key, values) in extra {
                if let Some(words) = extra_problem(key, values) {
                    return Err(forbidden(&ask("", ""), &words));
                }
            }
            let count: usize = extra.values().map(Vec::len).sum();
            if (extra.len() >= MANY || count >= MANY) && self.allowed(mode, &ask("*", "*")).is_ok() {
                return Ok(());
            }
        }
        let all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.into_iter().try_for_each(|(key, value)| self.allowed(mode, &ask(key, value)))
    }

    fn allowed(&self, mode: Mode, attributes: &Attributes) -> Result<(), Status> {
        let mut asked = attributes.clone();
        if mode == Mode::AssociatedNode {
            // The answer must not depend on which node it is.
            let keys: Vec<String> = asked.user.extra.keys().cloned().collect();
            asked.user.extra =
                [("authentication.kubernetes.io/associated-node-keys".to_owned(), keys)].into();
            if asked.verb == "impersonate:associated-node" {
                "*".clone_into(&mut asked.name);
            }
        }
        let target = Target::of(&asked);
        let verdict = self.authorizer.decide(&asked, target, false);
        if verdict.allowed { Ok(()) } else { Err(forbidden(&asked, &verdict.reason)) }
    }
}

impl Mode {
    /// The name of a way that is limited; none for the one that is not.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::Account => Some("serviceaccount"),
            Self::Other => Some("user-info"),
            Self::Anybody => None,
        }
    }

    /// True when this way is about such a user at all.
    fn applies(self, wanted: &User, requestor: &User) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let own = requestor.extra.get(NODE_NAME).map(Vec::as_slice).unwrap_or_default();
                only_name
                    && account_of(&requestor.name).is_some()
                    && node.is_some_and(|node| matches!(own, [one] if one == node))
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::Account => only_name && account_of(&wanted.name).is_some(),
            Self::Other => node.is_none() && account_of(&wanted.name).is_none(),
            Self::Anybody => true,
        }
    }
}

/// Adds the group that says whether somebody was made out.
fn complete_groups(user: &mut User) {
    let has = |user: &User, name: &str| user.groups.iter().any(|group| group == name);
    if user.name == ANONYMOUS {
        if !has(user, UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(user, UNAUTHENTICATED) && !has(user, AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
}

/// The node of a user name.
fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| dns_subdomain(name).is_empty())
}

/// Namespace and name of the service account of a user name.
fn account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let right = dns_label(namespace).is_empty() && dns_subdomain(name).is_empty();
    right.then_some((namespace, name))
}

/// Why a limited way does not take such an extra.
fn extra_problem(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let invalid = |value: &str, words: &str| {
        Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {}: {words}",
            quoted(value)
        ))
    };
    let Some((host, path)) = key.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    if let Some(words) = dns_subdomain(host).first() {
        return invalid(host, words);
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        let rule = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        return invalid(path, rule);
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", quoted(key)));
    }
    if values.iter().any(String::is_empty) {
        return Some("impersonating the empty string value in extra is not allowed".to_owned());
    }
    None
}

#[cfg(test)]
mod tests;
