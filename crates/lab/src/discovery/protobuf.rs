//! The aggregated document in protobuf.

use serde_json::Value;

use super::Aggregated;
use crate::proto::wire::{put_bytes, put_message};
use crate::proto::{encode_message, enveloped};
use crate::schema::builtin;

/// The content type of the aggregated form in protobuf.
pub const AGGREGATED_PROTOBUF_MEDIA_TYPE: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Aggregated {
    /// The document in protobuf; its `ETag` is the same.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let mut list = Vec::with_capacity(32 * 1024);
        put_metadata(&mut list, "ListMeta", &self.document["metadata"]);
        for group in items(&self.document["items"]) {
            put_message(&mut list, 2, |out| {
                put_metadata(out, "ObjectMeta", &group["metadata"]);
                for version in items(&group["versions"]) {
                    put_message(out, 2, |out| put_version(out, version));
                }
            });
        }
        enveloped("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &list)
    }
}

fn put_metadata(out: &mut Vec<u8>, kind: &str, metadata: &Value) {
    let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
    let bytes = builtin::types().named(&name).map(|of| encode_message(metadata, of));
    put_bytes(out, 1, &bytes.unwrap_or_default());
}

fn put_version(out: &mut Vec<u8>, version: &Value) {
    put_text(out, 1, &version["version"]);
    for resource in items(&version["resources"]) {
        put_message(out, 2, |out| {
            put_text(out, 1, &resource["resource"]);
            put_kind(out, &resource["responseKind"]);
            put_text(out, 3, &resource["scope"]);
            put_text(out, 4, &resource["singularResource"]);
            put_texts(out, 5, &resource["verbs"]);
            put_texts(out, 6, &resource["shortNames"]);
            put_texts(out, 7, &resource["categories"]);
            for subresource in items(&resource["subresources"]) {
                put_message(out, 8, |out| {
                    put_text(out, 1, &subresource["subresource"]);
                    put_kind(out, &subresource["responseKind"]);
                    put_texts(out, 4, &subresource["verbs"]);
                });
            }
        });
    }
    put_text(out, 3, &version["freshness"]);
}

fn put_kind(out: &mut Vec<u8>, kind: &Value) {
    put_message(out, 2, |out| {
        for (number, key) in [(1, "group"), (2, "version"), (3, "kind")] {
            put_text(out, number, &kind[key]);
        }
    });
}

fn put_text(out: &mut Vec<u8>, number: u32, value: &Value) {
    put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes());
}

fn put_texts(out: &mut Vec<u8>, number: u32, value: &Value) {
    for text in items(value) {
        put_text(out, number, text);
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
