//! Webhook configurations, compiled.

use std::sync::Arc;

use serde_json::Value;

use super::super::json::{items, text};
use super::super::matching::Rule;
use super::super::policies::conditions::Conditions;
use super::super::selector::Selector;
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::webhook::Target;

/// One webhook of a configuration.
#[derive(Debug)]
pub(crate) struct Webhook {
    /// Its name.
    pub name: String,
    /// What tells it from all other webhooks.
    pub id: String,
    /// Where it is, or why that is not known.
    pub target: Result<Target, String>,
    /// What it is about.
    pub rules: Vec<Rule>,
    /// Selects namespaces and objects, or says why that is not possible.
    pub selectors: Result<(Selector, Selector), String>,
    /// True if requests by equivalent names count.
    pub is_equivalent: bool,
    /// True if it does not matter when it cannot be reached.
    pub fails_open: bool,
    /// True if calls without effect may be made.
    pub allows_dry_run: bool,
    /// How long it may take.
    pub timeout_seconds: u64,
    /// True if it is called again after others changed the object.
    pub is_reinvoked: bool,
    /// When it is called.
    pub conditions: Conditions,
    versions: Vec<String>,
}

impl Webhook {
    fn compile(webhook: &Value, id: String) -> Self {
        // The server sets these when it stores a configuration.
        let selector = |key: &str| match &webhook[key] {
            Value::Null => Selector::compile(&Value::Object(serde_json::Map::new())),
            field => Selector::compile(field),
        };
        let selectors = selector("namespaceSelector")
            .and_then(|namespaces| Ok((namespaces, selector("objectSelector")?)));
        Self {
            name: text(&webhook["name"]).to_owned(),
            id,
            target: Target::of_client_config(&webhook["clientConfig"]).map_err(|error| error.to_string()),
            rules: Rule::read_all(&webhook["rules"]),
            selectors,
            is_equivalent: webhook["matchPolicy"] != "Exact",
            fails_open: webhook["failurePolicy"] == "Ignore",
            allows_dry_run: matches!(text(&webhook["sideEffects"]), "None" | "NoneOnDryRun"),
            timeout_seconds: webhook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30),
            is_reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            conditions: Conditions::compile(&webhook["matchConditions"], false),
            versions: items(&webhook["admissionReviewVersions"]).map(|one| text(one).to_owned()).collect(),
        }
    }

    /// The first version of `AdmissionReview` both sides know.
    pub(super) fn review_version(&self) -> Option<&'static str> {
        self.versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        })
    }
}

/// All webhooks of one sort, in the order they are called, as of a revision.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    of: Option<u64>,
    hooks: Arc<Vec<Webhook>>,
}

impl Registered {
    /// The webhooks as of now; compiled anew only if a configuration changed.
    pub(crate) fn current(&mut self, reader: &dyn Reader, resource: &str) -> Arc<Vec<Webhook>> {
        let of = GroupResource::new("admissionregistration.k8s.io", resource);
        let revision = reader.revision(&of);
        if self.of != Some(revision) {
            self.hooks = Arc::new(compile_all(reader, &of));
            self.of = Some(revision);
        }
        Arc::clone(&self.hooks)
    }
}

fn compile_all(reader: &dyn Reader, of: &GroupResource) -> Vec<Webhook> {
    let mut configurations = reader.list(of, None);
    configurations.sort_by(|one, other| text(&one["metadata"]["name"]).cmp(text(&other["metadata"]["name"])));
    let mut hooks: Vec<Webhook> = Vec::new();
    for configuration in configurations {
        let owner = text(&configuration["metadata"]["name"]);
        for webhook in items(&configuration["webhooks"]) {
            let start = format!("{owner}/{}/", text(&webhook["name"]));
            let namesakes = hooks.iter().filter(|known| known.id.starts_with(&start)).count();
            hooks.push(Webhook::compile(webhook, format!("{start}{namesakes}")));
        }
    }
    hooks
}
