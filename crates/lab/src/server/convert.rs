//! Conversion of custom resources between their versions.

use serde_json::{Map, Value, json};

use super::Server;
use crate::crd::metadata::go_type;
use crate::crd::{Conversion, CustomKind};
use crate::kinds::meta::{self, NameRule};
use crate::schema::decode;
use crate::status::Status;
use crate::webhook::Target;

/// How long a conversion webhook may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// The versions of the review we speak.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

impl Server {
    /// An object of a custom kind in another of its versions.
    pub(super) async fn convert_custom(
        &self,
        kind: &CustomKind,
        mut object: Value,
        version: &str,
    ) -> Result<Value, Status> {
        let to = format!("{}/{version}", kind.group);
        match &kind.conversion {
            Conversion::Webhook { client_config, review_versions } if !is_empty(&object) => {
                let converted = self.ask(client_config, review_versions, &object, &to).await;
                converted.map_err(|why| Status::new(500, "", why))
            }
            // Nobody has to be asked about an object that says nothing.
            _ => {
                object["apiVersion"] = to.into();
                Ok(object)
            }
        }
    }

    /// The object as the webhook converts it; or why it cannot be had, in the words of the real server.
    async fn ask(
        &self,
        client_config: &Value,
        review_versions: &[String],
        object: &Value,
        to: &str,
    ) -> Result<Value, String> {
        let hook = format!("conversion webhook for {}", kind_text(object));
        let failed = |why: String| format!("{hook} failed: {why}");
        let review_version = review_versions
            .iter()
            .find(|version| REVIEWS.contains(&version.as_str()))
            .ok_or_else(|| "no supported conversion review versions".to_owned())?;
        let uid = self.new_uid(&["conversion"]);
        let review = json!({
            "apiVersion": format!("apiextensions.k8s.io/{review_version}"), "kind": "ConversionReview",
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": [object]},
        });
        let target = Target::of_client_config(client_config).map_err(|error| failed(error.to_string()))?;
        let answer = self.webhooks.post(&target, &review, PATIENCE).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let mut answer = decode::parse_stored(answer.body()).map_err(|error| failed(error.to_string()))?;
        // Webhooks of the old review need not say to what they answer.
        if review_version == "v1" {
            addressed(&answer, &review, &uid).map_err(failed)?;
        }
        let mut objects = successful(answer["response"].take()).map_err(failed)?;
        match (objects.len(), objects.pop()) {
            (1, Some(converted)) => {
                accepted(object, converted, to).map_err(|why| format!("{hook} returned invalid {why}"))
            }
            (count, _) => Err(format!("{hook} returned {count} objects, expected 1")),
        }
    }
}

/// True for an object that has nothing but a kind.
fn is_empty(object: &Value) -> bool {
    object.as_object().is_some_and(|fields| {
        fields.len() == 2 && fields.contains_key("apiVersion") && fields.contains_key("kind")
    })
}

/// The kind of an object, as messages name it.
fn kind_text(object: &Value) -> String {
    format!("{}, Kind={}", text(&object["apiVersion"]), text(&object["kind"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Makes sure that an answer is one to this review.
fn addressed(answer: &Value, review: &Value, uid: &str) -> Result<(), String> {
    let (wanted, got) = (kind_text(review), kind_text(answer));
    if wanted != got {
        return Err(format!("expected webhook response of {wanted}, got {got}"));
    }
    let response = &answer["response"];
    if response.is_object() && response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    Ok(())
}

/// The objects of a response, if it is one of success.
fn successful(mut response: Value) -> Result<Vec<Value>, String> {
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let (status, message) = (text(&response["result"]["status"]), text(&response["result"]["message"]));
    match (status, message) {
        ("Success", _) => {}
        (status, "") => return Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => return Err(message.to_owned()),
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// The converted object, if it may be what it claims to be. What is wrong follows the word "invalid".
fn accepted(object: &Value, mut converted: Value, to: &str) -> Result<Value, String> {
    let differs = |field: &str, wanted: &str, got: &str| {
        format!("object at index 0: invalid {field} (expected {wanted}, received {got})")
    };
    let (version, kind) = (text(&converted["apiVersion"]), text(&converted["kind"]));
    if version != to {
        return Err(differs("groupVersion", to, version));
    }
    if kind != text(&object["kind"]) {
        return Err(differs("kind", text(&object["kind"]), kind));
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (wanted, got) = (text(&object["metadata"][field]), text(&converted["metadata"][field]));
        if wanted != got {
            return Err(format!("object: must have the same {shown}: {wanted} != {got}"));
        }
    }
    let metadata = restored(&object["metadata"], &converted["metadata"]);
    converted["metadata"] = metadata.map_err(|why| format!("metadata: {why}"))?;
    Ok(converted)
}

/// The metadata of a converted object: only labels and annotations are the webhook's to change.
fn restored(original: &Value, answered: &Value) -> Result<Value, String> {
    let answered = match answered {
        Value::Object(answered) => answered,
        Value::Null => return Err("missing metadata in converted object".to_owned()),
        other => return Err(format!("invalid metadata of type {} in converted object", go_type(other))),
    };
    let mut metadata = original.as_object().cloned().unwrap_or_default();
    for (field, place) in [("labels", "metadata.labels"), ("annotations", "metadata.annotation")] {
        match answered.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
            }
            Some(Value::Object(entries)) => {
                check_entries(field, place, entries, &original[field])?;
                metadata.insert(field.to_owned(), Value::Object(entries.clone()));
            }
            Some(other) => {
                let kind = go_type(other);
                return Err(format!("invalid metadata.{field} of type {kind} in converted object"));
            }
        }
    }
    Ok(Value::Object(metadata))
}

/// Labels or annotations that a webhook changed have to be ones that a client could have sent.
fn check_entries(
    field: &str,
    place: &str,
    entries: &Map<String, Value>,
    before: &Value,
) -> Result<(), String> {
    if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
        let kind = go_type(value);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {kind} in converted object"));
    }
    if before.as_object().unwrap_or(&Map::new()) == entries {
        return Ok(());
    }
    let metadata = json!({"name": "converted", field: entries});
    let problems: Vec<String> = meta::validate(&metadata, false, NameRule::Subdomain)
        .into_iter()
        .map(|problem| format!("{place}: {}", problem.cause().message))
        .collect();
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_and_annotations_are_the_webhooks_to_change() {
        let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a", "uid": "u", "labels": {"x": "1"}, "finalizers": ["example.com/f"]}});
        let mut answer = object.clone();
        answer["apiVersion"] = "example.com/v2".into();
        answer["metadata"] = json!({"name": "a", "uid": "u", "annotations": {"y": "2"}, "generation": 7});
        let converted = accepted(&object, answer.clone(), "example.com/v2").unwrap();
        assert_eq!(
            converted["metadata"],
            json!({"name": "a", "uid": "u", "annotations": {"y": "2"}, "finalizers": ["example.com/f"]})
        );
        answer["metadata"]["labels"] = json!({"x": 1});
        assert_eq!(
            accepted(&object, answer.clone(), "example.com/v2").unwrap_err(),
            "metadata: metadata.labels[x] must be a string, but is int64 in converted object"
        );
        answer["metadata"]["name"] = "b".into();
        assert_eq!(
            accepted(&object, answer, "example.com/v2").unwrap_err(),
            "object: must have the same name: a != b"
        );
    }

    #[test]
    fn empty_objects_say_nothing() {
        assert!(is_empty(&json!({"apiVersion": "example.com/v1", "kind": "Widget"})));
        assert!(!is_empty(&json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {}})));
    }
}
