//! Resource quotas: what objects use, whether that is allowed, and what the usage is afterwards.

mod evaluator;
mod scopes;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::json::{entries, items, text};
use super::plugins::resources::{Amounts, add, amounts, count, sum};
use super::review::{Operation, Review};
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::Status;

use evaluator::Evaluator;

/// The status a quota has to get when the object under review is stored.
///
/// It is to be written only if the quota still has this resource version; otherwise the charge has to be computed
/// again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Charge {
    /// The namespace of the quota.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The resource version the charge was computed from.
    pub resource_version: String,
    /// The new status.
    pub status: Value,
    /// What of the new usage is the request's.
    requested: Amounts,
}

/// What a request was charged by now, by the name of the quota. However often it is tried, it is charged once.
#[derive(Debug, Default)]
pub(crate) struct Charged(HashMap<String, Amounts>);

impl Charged {
    /// Notes a charge that is written.
    pub(crate) fn note(&mut self, charge: Charge) {
        add(self.0.entry(charge.name).or_default(), &charge.requested);
    }

    /// What of a usage the quota does not know of yet.
    fn rest(&self, quota: &Value, usage: Amounts) -> Amounts {
        match self.0.get(text(&quota["metadata"]["name"])) {
            Some(known) => increase(&usage, known),
            None => usage,
        }
    }
}

/// Checks a request against the quotas of its namespace. Gives back what has to be written with it: nothing where
/// no usage changes, where all of it is charged already, and for dry runs.
pub(crate) fn charge(
    review: &Review<'_>,
    reader: &dyn Reader,
    charged: &Charged,
    now: Timestamp,
) -> Result<Vec<Charge>, Status> {
    let namespace = review.namespace();
    let creates_namespace = review.operation == Operation::Create && review.is_kind("", "Namespace");
    if namespace.is_empty() || creates_namespace || is_ignored(review) {
        return Ok(Vec::new());
    }
    let evaluator = Evaluator::of(&review.attributes.group, &review.attributes.resource);
    let Some(object) = review.object.as_ref().filter(|_| evaluator.handles(review)) else {
        return Ok(Vec::new());
    };
    let quotas = reader.list(&GroupResource::new("", "resourcequotas"), Some(namespace));
    let mut restricting = Vec::new();
    for quota in &quotas {
        if !evaluator.matches(quota, object) {
            continue;
        }
        let name = text(&quota["metadata"]["name"]);
        let restricted = evaluator.matching(&hard(quota));
        if let Err(why) = evaluator.constraints(&restricted, object) {
            return Err(review.forbidden(&format!("failed quota: {name}: {why}")));
        }
        if restricted.iter().any(|resource| quota["status"]["used"].get(resource).is_none()) {
            let resources = restricted.join(",");
            return Err(
                review.forbidden(&format!("status unknown for quota: {name}, resources: {resources}"))
            );
        }
        restricting.push(quota);
    }
    let usage = evaluator.usage(object, now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        let names = negative.join(",");
        return Err(review.forbidden(&format!("quota usage is negative for resource(s): {names}")));
    }
    let mut charges = Vec::new();
    for quota in restricting {
        let delta = match review.old.as_deref().filter(|_| review.operation == Operation::Update) {
            Some(old) if evaluator.matches(quota, old) => increase(&usage, &evaluator.usage(old, now)),
            _ => usage.clone(),
        };
        if let Some(charge) = charge_one(review, quota, charged.rest(quota, delta))? {
            charges.push(charge);
        }
    }
    Ok(if review.dry_run { Vec::new() } else { charges })
}

/// What of a usage is more than before.
fn increase(now: &Amounts, before: &Amounts) -> Amounts {
    now.iter()
        .map(|(name, amount)| {
            let mut more = amount.clone();
            if let Some(known) = before.get(name) {
                more.subtract(known);
            }
            (name.clone(), if more.is_positive() { more } else { count(0) })
        })
        .collect()
}

fn charge_one(review: &Review<'_>, quota: &Value, delta: Amounts) -> Result<Option<Charge>, Status> {
    let (limits, used) = (amounts(&quota["status"]["hard"]), amounts(&quota["status"]["used"]));
    let requested: Amounts =
        delta.into_iter().filter(|(name, amount)| !amount.is_zero() && limits.contains_key(name)).collect();
    if requested.is_empty() {
        return Ok(None);
    }
    let name = text(&quota["metadata"]["name"]);
    let mut new_usage = used.clone();
    let mut exceeded = Vec::new();
    for (resource, amount) in &requested {
        let total = used.get(resource).map_or_else(|| amount.clone(), |known| sum(known, amount));
        if limits.get(resource).is_some_and(|limit| total > *limit) {
            exceeded.push(resource);
        }
        new_usage.insert(resource.clone(), total);
    }
    if !exceeded.is_empty() && review.attributes.subresource != "status" {
        let shown = |list: &Amounts| {
            let parts: Vec<String> = exceeded
                .iter()
                .filter_map(|name| Some(format!("{name}={}", list.get(name.as_str())?)))
                .collect();
            parts.join(",")
        };
        return Err(review.forbidden(&format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            shown(&requested),
            shown(&used),
            shown(&limits)
        )));
    }
    Ok(Some(Charge {
        namespace: text(&quota["metadata"]["namespace"]).to_owned(),
        name: name.to_owned(),
        resource_version: text(&quota["metadata"]["resourceVersion"]).to_owned(),
        status: json!({"hard": quota["status"]["hard"], "used": written(&new_usage)}),
        requested,
    }))
}

/// The status of a quota as the objects are, or nothing if it has that status already.
///
/// `objects` lists the objects of a resource in the namespace of the quota; `None` for resources that are not
/// served. Resources that nobody can count keep their usage.
pub(crate) fn recalculate(
    quota: &Value,
    objects: &dyn Fn(&GroupResource) -> Option<Vec<Arc<Value>>>,
    now: Timestamp,
) -> Option<Value> {
    let names: Vec<String> = entries(&quota["spec"]["hard"]).map(|(name, _)| name.clone()).collect();
    let limits = amounts(&quota["spec"]["hard"]);
    let mut used = amounts(&quota["status"]["used"]);
    let mut counted = Amounts::new();
    for evaluator in Evaluator::for_names(&names) {
        let matching = evaluator.matching(&names);
        let Some(objects) = objects(&evaluator.resource()).filter(|_| !matching.is_empty()) else { continue };
        for name in &matching {
            counted.entry(name.clone()).or_insert_with(|| count(0));
        }
        for object in objects.iter().filter(|object| evaluator.in_scopes(quota, object)) {
            let mut usage = evaluator.usage(object, now);
            usage.retain(|name, _| matching.contains(name));
            add(&mut counted, &usage);
        }
    }
    used.extend(counted);
    used.retain(|name, _| limits.contains_key(name));
    let is_known = quota["status"]["hard"].is_object()
        && quota["status"]["used"].is_object()
        && amounts(&quota["status"]["hard"]) == limits
        && amounts(&quota["status"]["used"]) == used;
    if is_known {
        return None;
    }
    let mut status = Map::new();
    for (key, list) in [("hard", &limits), ("used", &used)] {
        if !list.is_empty() {
            status.insert(key.to_owned(), written(list));
        }
    }
    Some(status.into())
}

fn written(list: &Amounts) -> Value {
    list.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
}

/// The resources a quota limits by now.
fn hard(quota: &Value) -> Vec<String> {
    entries(&quota["status"]["hard"]).map(|(name, _)| name.clone()).collect()
}

/// Resources that no quota counts.
fn is_ignored(review: &Review<'_>) -> bool {
    let resource = review.attributes.resource.as_str();
    match review.attributes.group.as_str() {
        "" => matches!(resource, "bindings" | "componentstatuses" | "events"),
        "events.k8s.io" => resource == "events",
        _ => super::matching::is_virtual(review),
    }
}

/// The scopes of a quota as requirements.
fn scopes_of(quota: &Value) -> impl Iterator<Item = Value> {
    let named =
        items(&quota["spec"]["scopes"]).map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    named.chain(items(&quota["spec"]["scopeSelector"]["matchExpressions"]).cloned())
}

#[cfg(test)]
mod tests;
