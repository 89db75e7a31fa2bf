//! How much fits into a class of storage.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Told, bad, nothing_here};
use crate::context::Context;
use crate::kinds::STORAGE_CLASS;
use crate::object::Key;
use crate::quantity;
use crate::storage::Storage;

/// How much is to fit; nothing means that it has no end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    capacity: Option<String>,
}

pub(super) fn told(context: &Context, method: &Method, steps: &[&str], body: &Value) -> Told {
    let [class] = steps else { return Err(nothing_here()) };
    if context.client.cache(&STORAGE_CLASS).get(&Key::cluster(class)).is_none() {
        return Err((StatusCode::NOT_FOUND, format!("there is no storage class {class:?}")));
    }
    let storage = Storage::new(context);
    if *method == Method::PUT {
        let wanted: Wanted = serde_json::from_value(body.clone()).map_err(bad)?;
        let bytes = match wanted.capacity {
            None => None,
            Some(text) => {
                let amount = quantity::milli(&text).filter(|amount| *amount >= 0);
                let bytes = amount.and_then(|milli| u64::try_from(milli / 1_000).ok());
                Some(bytes.ok_or_else(|| bad(format!("{text:?} is no amount; write it like 100Gi")))?)
            }
        };
        storage.limit(class, bytes);
    }
    let free = storage.free(class).map(|bytes| quantity::bytes(i128::from(bytes)));
    Ok(json!({
        "kind": "StorageClassCapacity", "apiVersion": super::GROUP_VERSION, "metadata": {"name": class}, "free": free,
    }))
}
