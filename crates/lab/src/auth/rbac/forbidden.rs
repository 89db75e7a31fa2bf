//! The 403 of a request that is not allowed.

use crate::attributes::Attributes;
use crate::auth::words::quoted;
use crate::status::Status;

/// The failure of a request that is not allowed, in the words of the real server.
pub fn forbidden(attributes: &Attributes, reason: &str) -> Status {
    // Browsers must not take the message for a page.
    let mut words = sentence(attributes).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        words.push_str(": ");
        words.push_str(reason);
    }
    Status::forbidden(&attributes.group, &attributes.resource, &attributes.name, &words)
}

fn sentence(attributes: &Attributes) -> String {
    let start = format!("User {} cannot {}", quoted(&attributes.user.name), attributes.verb);
    if !attributes.is_resource() {
        return format!("{start} path {}", quoted(&attributes.path));
    }
    let resource = if attributes.subresource.is_empty() {
        attributes.resource.clone()
    } else {
        format!("{}/{}", attributes.resource, attributes.subresource)
    };
    let place = if attributes.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quoted(&attributes.namespace))
    };
    format!("{start} resource {} in API group {} {place}", quoted(&resource), quoted(&attributes.group))
}
