//! What a URL asks for.

use http::Method;

use crate::attributes::Attributes;
use crate::gourl::escaped_byte;
use crate::selector::{FieldSelector, LabelSelector};

/// The parameters of a query, decoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses a query.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(key, true), unescape(value, true))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, or nothing.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// True when the parameter is there and neither empty, `0` nor `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// Undoes percent encoding; a broken escape stays as it is.
pub(crate) fn unescape(text: &str, plus_is_space: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while place < bytes.len() {
        let escaped = escaped_byte(&bytes[place..]);
        let byte = match bytes[place] {
            b'+' if plus_is_space => b' ',
            byte => escaped.unwrap_or(byte),
        };
        plain.push(byte);
        place += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// What the form of a path says beyond what authorization is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// The way to the resource goes through a namespace.
    pub(crate) inside: bool,
    /// The old form with the verb in the path.
    pub(crate) verb_first: bool,
    /// Something comes after the subresource.
    pub(crate) surplus: bool,
}

/// Reads method, path and query the way the real server's request info does; the user is filled in by
/// authentication.
pub(crate) fn target(method: &Method, path: &str, parameters: &Parameters) -> (Attributes, Form) {
    let mut form = Form::default();
    let mut attributes = Attributes { path: path.to_owned(), ..Attributes::default() };
    attributes.verb = method.as_str().to_ascii_lowercase();
    // An escaped slash is a slash, for us and for servers behind us.
    let plain = unescape(path, false);
    let segments: Vec<&str> = plain.split('/').filter(|segment| !segment.is_empty()).collect();
    let (group, version, mut parts) = match segments.as_slice() {
        ["api", version, parts @ ..] if !parts.is_empty() => ("", *version, parts),
        ["apis", group, version, parts @ ..] if !parts.is_empty() => (*group, *version, parts),
        _ => return (attributes, form),
    };
    group.clone_into(&mut attributes.group);
    version.clone_into(&mut attributes.version);
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::GET | Method::HEAD => "get",
        _ => "",
    };
    verb.clone_into(&mut attributes.verb);
    if matches!(parts[0], "watch" | "proxy") && parts.len() > 1 {
        form.verb_first = true;
        parts[0].clone_into(&mut attributes.verb);
        parts = &parts[1..];
    }
    // `namespaces/x/pods` is about pods; `namespaces/x`, `namespaces/x/status` and `.../finalize` about namespaces.
    if parts[0] == "namespaces" && parts.len() > 1 {
        parts[1].clone_into(&mut attributes.namespace);
        if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
            form.inside = true;
            parts = &parts[2..];
        }
    }
    parts[0].clone_into(&mut attributes.resource);
    parts.get(1).copied().unwrap_or_default().clone_into(&mut attributes.name);
    parts.get(2).copied().unwrap_or_default().clone_into(&mut attributes.subresource);
    form.surplus = parts.len() > 3;

    if attributes.name.is_empty() {
        match attributes.verb.as_str() {
            "get" => {
                let verb = if parameters.flag("watch") { "watch" } else { "list" };
                verb.clone_into(&mut attributes.verb);
                if let Some(name) = selected_name(parameters) {
                    attributes.name = name;
                }
            }
            "delete" => "deletecollection".clone_into(&mut attributes.verb),
            _ => {}
        }
    }
    if matches!(attributes.verb.as_str(), "list" | "watch" | "deletecollection") {
        parameters.text("labelSelector").clone_into(&mut attributes.label_selector);
        parameters.text("fieldSelector").clone_into(&mut attributes.field_selector);
    }
    (attributes, form)
}

/// The one name the selectors of a request ask for: it needs the right to that name only. A name no path can
/// have is none, and neither is one beside a selector that cannot be read.
fn selected_name(parameters: &Parameters) -> Option<String> {
    let fields = FieldSelector::parse(parameters.text("fieldSelector")).ok()?;
    let name = fields.required("metadata.name")?;
    LabelSelector::parse(parameters.text("labelSelector")).ok()?;
    let fits = !matches!(name, "." | "..") && !name.contains(['/', '%']);
    fits.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, url: &str) -> Attributes {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        target(method, path, &Parameters::parse(query)).0
    }

    #[test]
    fn urls_are_read_like_the_real_server_reads_them() {
        for (method, url, expected) in [
            (Method::GET, "/api/v1/pods", ["list", "", "pods", "", "", ""]),
            (Method::GET, "/api/v1/namespaces/n/pods?watch=1", ["watch", "", "pods", "n", "", ""]),
            (Method::GET, "/api/v1/namespaces/n/pods/p", ["get", "", "pods", "n", "p", ""]),
            (
                Method::POST,
                "/api/v1/namespaces/n/pods/p/eviction",
                ["create", "", "pods", "n", "p", "eviction"],
            ),
            (Method::GET, "/api/v1/namespaces/n", ["get", "", "namespaces", "n", "n", ""]),
            (
                Method::PUT,
                "/api/v1/namespaces/n/finalize",
                ["update", "", "namespaces", "n", "n", "finalize"],
            ),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/n/deployments",
                ["deletecollection", "apps", "deployments", "n", "", ""],
            ),
            (Method::GET, "/api/v1/watch/namespaces/n/pods", ["watch", "", "pods", "n", "", ""]),
            (
                Method::GET,
                "/api/v1/nodes?fieldSelector=metadata.name%3Da",
                ["list", "", "nodes", "", "a", ""],
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n/namespaces/other",
                ["get", "", "namespaces", "n", "other", ""],
            ),
            (
                Method::GET,
                "/apis/apps/v1/namespaces/n/status",
                ["get", "apps", "namespaces", "n", "n", "status"],
            ),
            // Only one name that is required, that a path can have, and in a request that can be read, counts.
            (
                Method::GET,
                "/api/v1/nodes?watch=1&fieldSelector=metadata.name%21%3Da",
                ["watch", "", "nodes", "", "", ""],
            ),
            (Method::GET, "/api/v1/nodes?fieldSelector=metadata.name=..", ["list", "", "nodes", "", "", ""]),
            (Method::GET, "/api/v1/nodes?fieldSelector=metadata.name=a/b", ["list", "", "nodes", "", "", ""]),
            (
                Method::GET,
                "/api/v1/nodes?fieldSelector=metadata.name=a&labelSelector=!x,,",
                ["list", "", "nodes", "", "", ""],
            ),
            // Deleting and the old form of watching need the right to all.
            (
                Method::DELETE,
                "/api/v1/nodes?fieldSelector=metadata.name=a",
                ["deletecollection", "", "nodes", "", "", ""],
            ),
            (
                Method::GET,
                "/api/v1/watch/nodes?fieldSelector=metadata.name=a",
                ["watch", "", "nodes", "", "", ""],
            ),
            (
                Method::GET,
                "/api/v1/watch/nodes/b?fieldSelector=metadata.name=a",
                ["watch", "", "nodes", "", "b", ""],
            ),
            (Method::GET, "/api/v1/namespaces/n%2Fpods/p", ["get", "", "pods", "n", "p", ""]),
            (Method::GET, "/apis/apps/v1", ["get", "", "", "", "", ""]),
            (Method::GET, "/healthz", ["get", "", "", "", "", ""]),
        ] {
            let is = read(&method, url);
            let fields = [&is.verb, &is.group, &is.resource, &is.namespace, &is.name, &is.subresource];
            assert_eq!(fields.map(String::as_str), expected, "{url}");
        }
    }

    #[test]
    fn the_form_of_a_path_is_told() {
        let form = |path: &str| target(&Method::GET, path, &Parameters::default()).1;
        assert_eq!(form("/api/v1/namespaces/n"), Form::default());
        assert_eq!(form("/api/v1/namespaces/n/status"), Form::default());
        let inside = Form { inside: true, ..Form::default() };
        assert_eq!(form("/api/v1/namespaces/n/namespaces/n"), inside);
        assert_eq!(form("/api/v1/watch/namespaces/n/pods"), Form { verb_first: true, ..inside });
        assert_eq!(form("/api/v1/namespaces/n/pods/p/status/more"), Form { surplus: true, ..inside });
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(unescape("a%2Fb%zz%4", false), "a/b%zz%4");
        assert_eq!(Parameters::parse("a=1+2&b&a=3").all("a").collect::<Vec<_>>(), ["1 2", "3"]);
    }
}
