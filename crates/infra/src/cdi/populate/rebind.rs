//! Handing the volume of one claim over to another.

use serde_json::{Value, json};

use crate::client::{Client, Result};
use crate::kinds::PV;
use crate::object::{Key, Object as _};

/// Makes the volume of one claim that of another, which is not bound yet. True once the volume says so.
pub(crate) async fn rebind(client: &Client, from: &Value, to: &Value) -> Result<bool> {
    let key = Key::cluster(from.text("/spec/volumeName"));
    let Some(volume) = client.cache(&PV).get(&key) else { return Ok(false) };
    if volume.text("/spec/claimRef/uid") == to.uid() {
        return Ok(true);
    }
    if volume.text("/spec/claimRef/uid") != from.uid() {
        return Ok(false);
    }
    let mut wanted = (*volume).clone();
    wanted.set(
        "/spec/claimRef",
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": to.namespace(), "name": to.name(),
            "uid": to.uid(), "resourceVersion": to["metadata"]["resourceVersion"],
        }),
    );
    client.replace(&PV, &wanted).await?;
    Ok(true)
}
