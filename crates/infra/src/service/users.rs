//! Who a request comes from.

use http::HeaderMap;
use serde_json::Value;

use super::header_text;

/// A user the API server vouches for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl User {
    /// The user in the headers an API server adds when it passes a request on.
    pub(super) fn of_proxy(headers: &HeaderMap) -> Self {
        let groups = headers.get_all("x-remote-group").iter().filter_map(|value| value.to_str().ok());
        Self {
            name: header_text(headers, "x-remote-user").to_owned(),
            groups: groups.map(ToOwned::to_owned).collect(),
        }
    }

    /// The user of an admission review.
    pub(super) fn of_review(info: &Value) -> Self {
        let groups = info["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            name: info["username"].as_str().unwrap_or_default().to_owned(),
            groups: groups.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        }
    }

    /// Whether this is one of KubeVirt's own components.
    pub fn is_kubevirt(&self) -> bool {
        self.name.starts_with("system:serviceaccount:kubevirt:kubevirt-")
    }

    /// Whether this is one of CDI's own components.
    pub fn is_cdi(&self) -> bool {
        self.name.starts_with("system:serviceaccount:cdi:")
    }
}
