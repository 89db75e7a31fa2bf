//! The request pipeline: from what a URL asks for to an answer.

pub(crate) mod body;
mod change;
pub(crate) mod delete;
pub(crate) mod filter;
mod identity;
mod logs;
pub(crate) mod negotiate;
pub(crate) mod options;
mod ownership;
pub(crate) mod patch;
pub(crate) mod present;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod strategy;
pub(crate) mod subresources;
pub(crate) mod watch;
pub(crate) mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::Mutex;

use crate::attributes::Attributes;
use crate::faults::Trouble;
use crate::kinds;
use crate::registry::Served;
use crate::server::Server;
use crate::status::Status;
use crate::store::Key;

use filter::Filter;
use reply::Reply;
use request::{Form, Parameters};

/// One request for a resource, with everything the handlers look at.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// When it came.
    pub(crate) now: jiff::Timestamp,
    pub(crate) attributes: Attributes,
    /// What its path looks like.
    pub(crate) form: Form,
    /// The query as it was sent.
    pub(crate) query: String,
    pub(crate) parameters: Parameters,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What the fault plan wants to go wrong.
    pub(crate) trouble: Trouble,
    /// True when admission has seen it already.
    pub(crate) admitted: bool,
    /// True when the labels of a template were sent empty rather than left out, which messages tell apart.
    pub(crate) bare_template: AtomicBool,
    /// What the client is warned about.
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Call {
    /// Where the object of the call is stored.
    pub(crate) fn key(&self, served: &Served) -> Key {
        let namespace = if served.namespaced { self.attributes.namespace.as_str() } else { "" };
        Key::new(namespace, self.attributes.name.as_str())
    }

    /// The objects a collection call is about.
    pub(crate) fn filter(&self, served: &Served) -> Result<Filter, Status> {
        let namespace = if served.namespaced { self.attributes.namespace.as_str() } else { "" };
        let name = &self.attributes.name;
        let filter = Filter::read(namespace, name, &self.parameters, |field| served.selector_field(field))?;
        Ok(filter.with_custom(served.custom_fields()))
    }

    /// Adds a warning once.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Adds warnings, each of them once.
    pub(crate) fn warn_all(&self, texts: impl IntoIterator<Item = impl Into<String>>) {
        for text in texts {
            self.warn(text);
        }
    }
}

/// Answers a request for a resource. Authentication and authorization are done.
pub(crate) async fn dispatch(server: &Arc<Server>, call: &Call) -> Result<Reply, Status> {
    let attributes = &call.attributes;
    let Some(served) = server.registry().find(&attributes.group, &attributes.version, &attributes.resource)
    else {
        let known = server.registry().all().iter().any(|served| served.kind.group == attributes.group);
        return if known { Err(unknown_resource()) } else { Ok(Reply::text(404, "404 page not found\n")) };
    };
    if let Some(warning) = served.custom_version().and_then(|version| version.deprecation_warning.as_ref()) {
        call.warn(warning);
    }
    if let Some(warning) =
        kinds::deprecation_warning(&served.kind).filter(|_| served.custom_version().is_none())
    {
        call.warn(warning);
    }
    check_path(call, &served)?;
    if call.method == Method::HEAD && attributes.subresource != "proxy" {
        return Err(not_allowed());
    }
    if !attributes.subresource.is_empty() {
        return subresources::handle(server, call, &served).await;
    }
    // A namespaced resource has objects only inside namespaces; across all of them it can be listed.
    let placed = !served.namespaced || !attributes.namespace.is_empty();
    let in_path = !call.attributes.name.is_empty() && attributes.field_selector.is_empty();
    match attributes.verb.as_str() {
        "list" if served.allows("list") => read::list(server, call, &served).await,
        "watch" if served.allows("watch") => read::watch(server, call, &served).await,
        "get" if placed && in_path && served.allows("get") => read::get(server, call, &served).await,
        "create" if placed && !in_path && served.allows("create") => {
            write::create(server, call, &served).await
        }
        "update" if placed && in_path && served.allows("update") => {
            write::update(server, call, &served).await
        }
        "patch" if placed && in_path && served.allows("patch") => write::patch(server, call, &served).await,
        "delete" if placed && in_path && served.allows("delete") => delete::one(server, call, &served).await,
        "deletecollection" if placed && served.allows("deletecollection") => {
            delete::collection(server, call, &served).await
        }
        // Objects that are never kept have no paths of their own.
        _ if in_path && !["get", "update", "patch", "delete"].iter().any(|verb| served.allows(verb)) => {
            Err(unknown_resource())
        }
        // Across all namespaces there are collections of what is kept, and nothing else.
        _ if !placed && (in_path || served.custom_version().is_some() || !served.allows("list")) => {
            Err(unknown_resource())
        }
        _ => Err(not_allowed()),
    }
}

/// Refuses paths that lead nowhere. Rights were checked for what the path says, so nothing else may be done.
fn check_path(call: &Call, served: &Served) -> Result<(), Status> {
    let Call { attributes, form, .. } = call;
    // An object of the cluster is in no namespace, not even a namespace.
    if !served.namespaced && (form.inside || !served.is_namespace() && !attributes.namespace.is_empty()) {
        return Err(unknown_resource());
    }
    // Custom resources are not found by their paths but by what is read off them.
    if served.custom_version().is_some() {
        return Ok(());
    }
    if form.surplus && attributes.subresource != "proxy" {
        return Err(unknown_resource());
    }
    if !form.verb_first {
        return Ok(());
    }
    let stray = served.namespaced && attributes.namespace.is_empty() && !attributes.name.is_empty();
    if attributes.verb != "watch" || stray || !attributes.subresource.is_empty() || !served.allows("watch") {
        return Err(unknown_resource());
    }
    if call.method == Method::GET { Ok(()) } else { Err(not_allowed()) }
}

/// 404 for a path that is no resource.
pub(crate) fn unknown_resource() -> Status {
    Status::new(404, "NotFound", "the server could not find the requested resource").with_empty_details()
}

/// 405 for a resource that does not do that.
pub(crate) fn not_allowed() -> Status {
    Status::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        .with_empty_details()
}
