//! The steps of a sequence: made at random, and taken on a server.

use std::fmt;

use http::Method;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::random::Random;
use crate::support::Result;
use crate::support::client::{Answer, Client};
use crate::support::json::text;

/// One request of a sequence.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    method: Method,
    /// `status`, `scale`, or nothing.
    subresource: &'static str,
    query: String,
    form: &'static str,
    body: Body,
}

/// What a request carries.
#[derive(Debug, Clone)]
enum Body {
    Nothing,
    /// This, as it is.
    Plain(Value),
    /// The object as it is on the server, with these changes, as a client does that reads before it writes.
    Edited {
        changes: Vec<(String, Option<Value>)>,
        stale: bool,
    },
}

impl Step {
    /// A random step.
    pub(crate) fn random(kind: Kind, random: &mut Random) -> Self {
        let manager = *random.pick(&["one", "two", "three"]);
        let mut step = match random.below(100) {
            0..12 => Self::new(Method::POST, "application/json", Body::Plain(kind.object(random, true))),
            12..20 => Self::new(Method::PUT, "application/json", Body::Plain(kind.object(random, true))),
            20..30 => edited(kind, random),
            30..40 => {
                let patch = with_nulls(kind.object(random, false), random);
                Self::new(Method::PATCH, "application/merge-patch+json", Body::Plain(patch))
            }
            40..48 => {
                Self::new(Method::PATCH, "application/json-patch+json", Body::Plain(json_patch(kind, random)))
            }
            48..58 if kind != Kind::Widget => {
                let mut patch = with_nulls(kind.object(random, false), random);
                with_directives(&mut patch, random);
                Self::new(Method::PATCH, "application/strategic-merge-patch+json", Body::Plain(patch))
            }
            58..64 if kind.has_status() => status(kind, random),
            64..68 if kind.has_scale() => scale(kind, random),
            68..73 => Self::new(Method::DELETE, "application/json", Body::Nothing),
            _ => {
                let whole = random.chance(60);
                Self::new(
                    Method::PATCH,
                    "application/apply-patch+yaml",
                    Body::Plain(kind.object(random, whole)),
                )
            }
        };
        if step.method != Method::DELETE {
            step.query = format!("fieldManager={manager}");
        }
        if step.form == "application/apply-patch+yaml" && random.chance(45) {
            step.query += "&force=true";
        }
        if random.chance(4) {
            step.query += "&dryRun=All";
        }
        if random.chance(6) && step.method != Method::DELETE {
            step.query += *random.pick(&["&fieldValidation=Strict", "&fieldValidation=Ignore"]);
        }
        step
    }

    fn new(method: Method, form: &'static str, body: Body) -> Self {
        Self { method, subresource: "", query: String::new(), form, body }
    }

    /// Takes the step; `last` is the object as this server last showed it, `first` as it did at first.
    pub(crate) async fn take(
        &self,
        client: &Client,
        collection: &str,
        last: Option<&Value>,
        first: Option<&Value>,
    ) -> Result<Answer> {
        let mut path = collection.to_owned();
        if self.method != Method::POST {
            path += "/a";
        }
        for (mark, part) in [('/', self.subresource), ('?', self.query.as_str())] {
            if !part.is_empty() {
                path.push(mark);
                path += part;
            }
        }
        let body = match &self.body {
            Body::Nothing => return client.request(self.method.clone(), path).await,
            Body::Plain(body) => body.clone(),
            Body::Edited { changes, stale } => {
                let mut body = last.cloned().unwrap_or_else(|| json!({"metadata": {"name": "a"}}));
                for (place, value) in changes {
                    edit(&mut body, place, value.clone());
                }
                if *stale && let Some(first) = first {
                    body["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"].clone();
                }
                body
            }
        };
        client.request(self.method.clone(), path).body(self.form, body.to_string()).await
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = self.form.trim_start_matches("application/");
        write!(f, "{} {}?{} {form}", self.method, self.subresource, self.query)?;
        match &self.body {
            Body::Nothing => Ok(()),
            Body::Plain(body) => write!(f, " {body}"),
            Body::Edited { changes, stale } => {
                write!(f, " the object{} with", if *stale { " at its first version" } else { "" })?;
                for (place, value) in changes {
                    match value {
                        Some(value) => write!(f, " {place}={value}")?,
                        None => write!(f, " no {place}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// An update by somebody who has read the object.
fn edited(kind: Kind, random: &mut Random) -> Step {
    let count = 1 + random.below(3);
    let changes = (0..count)
        .map(|_| {
            let place = (*random.pick(kind.places())).to_owned();
            let value = if random.chance(70) { Some(kind.value(random, &place)) } else { None };
            (place, value)
        })
        .collect();
    let stale = random.chance(10);
    Step::new(Method::PUT, "application/json", Body::Edited { changes, stale })
}

fn json_patch(kind: Kind, random: &mut Random) -> Value {
    let count = 1 + random.below(3);
    (0..count)
        .map(|_| {
            let place = *random.pick(kind.places());
            match random.below(12) {
                0..4 => json!({"op": "add", "path": place, "value": kind.value(random, place)}),
                4..7 => json!({"op": "replace", "path": place, "value": kind.value(random, place)}),
                7..9 => json!({"op": "remove", "path": place}),
                9 => json!({"op": "test", "path": place, "value": kind.value(random, place)}),
                10 => json!({"op": "copy", "from": random.pick(kind.places()), "path": place}),
                _ => json!({"op": "move", "from": random.pick(kind.places()), "path": place}),
            }
        })
        .collect()
}

fn status(kind: Kind, random: &mut Random) -> Step {
    let body = Body::Plain(kind.status(random));
    let form = *random.pick(&["application/merge-patch+json", "application/apply-patch+yaml"]);
    Step { subresource: "status", ..Step::new(Method::PATCH, form, body) }
}

fn scale(kind: Kind, random: &mut Random) -> Step {
    let replicas = *random.pick(&[0, 1, 2, 5]);
    let mut body = json!({"spec": {"replicas": replicas}});
    // Applying a scale to a custom resource is tried by scenarios.
    let form = if kind != Kind::Widget && random.chance(50) {
        body["apiVersion"] = "autoscaling/v1".into();
        body["kind"] = "Scale".into();
        body["metadata"] = json!({"name": "a"});
        "application/apply-patch+yaml"
    } else {
        "application/merge-patch+json"
    };
    Step { subresource: "scale", ..Step::new(Method::PATCH, form, Body::Plain(body)) }
}

/// Turns some fields into nulls, which remove.
fn with_nulls(mut object: Value, random: &mut Random) -> Value {
    fn visit(value: &mut Value, depth: usize, random: &mut Random) {
        if let Value::Object(fields) = value {
            for (key, field) in fields.iter_mut() {
                if depth > 1 && key != "name" && random.chance(12) {
                    *field = Value::Null;
                } else {
                    visit(field, depth + 1, random);
                }
            }
        }
    }
    visit(&mut object, 0, random);
    object
}

/// Adds directives of strategic patches.
fn with_directives(value: &mut Value, random: &mut Random) {
    let Value::Object(fields) = value else {
        if let Value::Array(items) = value {
            for item in items.iter_mut() {
                with_directives(item, random);
            }
            let named = items.iter().any(|item| item["name"].is_string());
            if named && random.chance(20) {
                let place = random.below(items.len());
                let name = items[place]["name"].clone();
                items[place] = json!({"name": name, "$patch": "delete"});
            }
            if named && random.chance(6) {
                items.push(json!({"$patch": "replace"}));
            }
        }
        return;
    };
    let mut orders = Vec::new();
    for (key, field) in fields.iter_mut() {
        with_directives(field, random);
        if key == "containers" && random.chance(30) {
            let mut names: Vec<&str> = field
                .as_array()
                .into_iter()
                .flatten()
                .filter(|item| item["$patch"].is_null())
                .map(|item| text(item, "/name"))
                .collect();
            for other in ["main", "side"] {
                if !names.contains(&other) && random.chance(50) {
                    let place = random.below(names.len() + 1);
                    names.insert(place, other);
                }
            }
            let order: Vec<Value> = names.into_iter().map(|name| json!({"name": name})).collect();
            orders.push((format!("$setElementOrder/{key}"), json!(order)));
        }
        if key == "finalizers" && random.chance(40) {
            // What is both added and deleted comes out by chance.
            let added = |name: &str| field.as_array().is_some_and(|list| list.contains(&name.into()));
            if let Some(name) = ["example.com/f", "example.com/g"].into_iter().find(|name| !added(name)) {
                orders.push(("$deleteFromPrimitiveList/finalizers".to_owned(), json!([name])));
            }
        }
        if (key == "labels" || key == "strategy" || key == "nodeSelector")
            && field.is_object()
            && random.chance(15)
        {
            field["$patch"] = "replace".into();
        }
    }
    fields.extend(orders);
}

/// Sets or removes the value at a place, if there is such a place.
fn edit(object: &mut Value, place: &str, value: Option<Value>) {
    let Some((parent, key)) = place.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => match value {
            Some(value) => drop(fields.insert(key.to_owned(), value)),
            None => drop(fields.remove(key)),
        },
        Some(Value::Array(items)) => {
            let place = key.parse().unwrap_or(items.len());
            match value {
                Some(value) if place < items.len() => items[place] = value,
                Some(value) => items.push(value),
                None if place < items.len() => drop(items.remove(place)),
                None => {}
            }
        }
        _ => {}
    }
}
