//! Who may clone what.

use serde_json::json;

use crate::cdi::source::Origin;
use crate::client::{Identity, Result};
use crate::context::Context;
use crate::kinds::SUBJECT_ACCESS_REVIEW;
use crate::object::Object as _;
use crate::service::User;

/// Whether a user may read the source of a clone into a namespace: by a right made for that, or because they could
/// run a pod there that reads it.
pub(super) async fn may_clone(
    context: &Context,
    user: &User,
    origin: &Origin,
    namespace: &str,
) -> Result<bool> {
    if origin.key.namespace == namespace {
        return Ok(true);
    }
    let client = context.client(Identity::CDI_API);
    let attributes = [
        json!({
            "namespace": origin.key.namespace, "verb": "create", "group": "cdi.kubevirt.io",
            "resource": "datavolumes", "subresource": "source", "name": origin.key.name,
        }),
        json!({
            "namespace": origin.key.namespace, "verb": "create", "group": "", "resource": "pods",
            "name": origin.key.name,
        }),
    ];
    for attributes in attributes {
        let review = json!({
            "metadata": {},
            "spec": {"user": user.name, "groups": user.groups, "resourceAttributes": attributes},
        });
        let answer = client.create(&SUBJECT_ACCESS_REVIEW, review).await?;
        if answer.flag("/status/allowed") {
            return Ok(true);
        }
    }
    Ok(false)
}
