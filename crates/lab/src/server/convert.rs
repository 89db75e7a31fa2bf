//! Conversion of custom resources between their versions.

use serde_json::{Value, json};

use super::Server;
use crate::crd::{Conversion, CustomKind};
use crate::status::Status;
use crate::webhook::Target;

/// How long a conversion webhook may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// The versions of the review we speak, best first.
const REVIEWS: [&str; 1] = ["v1"];

impl Server {
    /// An object of a custom kind in another of its versions.
    pub(super) async fn convert_custom(
        &self,
        kind: &CustomKind,
        object: Value,
        version: &str,
    ) -> Result<Value, Status> {
        let to = format!("{}/{version}", kind.group);
        match &kind.conversion {
            Conversion::None => {
                let mut object = object;
                object["apiVersion"] = to.into();
                Ok(object)
            }
            Conversion::Webhook { client_config, review_versions } => {
                let failed = |why: String| {
                    Status::internal(format!(
                        "conversion webhook for {}, Kind={} failed: {why}",
                        object["apiVersion"].as_str().unwrap_or_default(),
                        kind.names.kind
                    ))
                };
                if !review_versions.iter().any(|version| REVIEWS.contains(&version.as_str())) {
                    return Err(failed(
                        "the webhook understands no version of the review that we speak".to_owned(),
                    ));
                }
                let uid = self.new_uid();
                let review = json!({
                    "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                    "request": {"uid": uid, "desiredAPIVersion": to, "objects": [object]},
                });
                let target =
                    Target::of_client_config(client_config).map_err(|error| failed(error.to_string()))?;
                let answer = self
                    .webhooks
                    .post(&target, &review, PATIENCE)
                    .await
                    .map_err(|error| failed(error.to_string()))?;
                let answer: Value =
                    serde_json::from_slice(answer.body()).map_err(|error| failed(error.to_string()))?;
                converted(&object, &uid, &to, &answer["response"]).map_err(failed)
            }
        }
    }
}

/// The converted object of an answer, if it may be what it claims to be.
fn converted(object: &Value, uid: &str, to: &str, response: &Value) -> Result<Value, String> {
    if response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {}", response["uid"]));
    }
    if response["result"]["status"] != "Success" {
        return Err(response["result"]["message"]
            .as_str()
            .unwrap_or("the webhook gives no reason")
            .to_owned());
    }
    let Some([converted]) = response["convertedObjects"].as_array().map(Vec::as_slice) else {
        return Err("webhook returned another number of objects than it was given, expected 1".to_owned());
    };
    if converted["apiVersion"] != to {
        return Err(format!("webhook returned an object in {}, expected {to:?}", converted["apiVersion"]));
    }
    for field in ["name", "namespace", "uid"] {
        if converted["metadata"][field] != object["metadata"][field] {
            return Err(format!("webhook changed metadata.{field}, which it must not"));
        }
    }
    let mut converted = converted.clone();
    // Only labels and annotations are the webhook's to change.
    let mut metadata = object["metadata"].clone();
    for field in ["labels", "annotations"] {
        metadata[field] = converted["metadata"][field].clone();
        if metadata[field].is_null() {
            metadata.as_object_mut().map(|metadata| metadata.remove(field));
        }
    }
    converted["metadata"] = metadata;
    Ok(converted)
}
