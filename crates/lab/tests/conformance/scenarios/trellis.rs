//! What Trellis itself brings along: its definitions are accepted, and its example fits them.

use std::fs;
use std::path::{Path, PathBuf};

use http::Method;
use serde_json::json;

use crate::context::Cx;
use crate::crds::{DEFINITIONS, condition};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![own_definitions];

/// A path from the root of the workspace.
fn in_workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

async fn own_definitions(cx: Cx) -> Result {
    let mut definitions = 0;
    for entry in fs::read_dir(in_workspace("docs/reference/crds"))? {
        let manifest = fs::read_to_string(entry?.path())?;
        let made = cx
            .admin
            .request(Method::POST, format!("{DEFINITIONS}?fieldValidation=Strict"))
            .body("application/yaml", manifest)
            .await?;
        let path = format!("{DEFINITIONS}/{}", text(&made.ok(201), "/metadata/name"));
        cx.delete_at_the_end(path.as_str());
        assert_eq!(made.warnings(), [""; 0], "{path}");
        cx.until(path, "the definition is established", |_, crd| condition(crd, "Established") == "True")
            .await?;
        definitions += 1;
    }
    assert!(definitions >= 2, "there are {definitions} definitions");

    let example = fs::read_to_string(in_workspace("examples/tenant.yaml"))?;
    for manifest in example.split("\n---\n") {
        let resource =
            if manifest.contains("kind: TenantCluster") { "tenantclusters" } else { "machinepools" };
        let collection = cx.apis("trellis.dev/v1alpha1", resource);
        cx.until(collection.as_str(), "the resource is served", |status, _| status == 200).await?;
        let made = cx
            .admin
            .request(Method::POST, format!("{collection}?fieldValidation=Strict"))
            .body("application/yaml", manifest.to_owned())
            .await?
            .ok(201);
        has(&made, &json!({"apiVersion": "trellis.dev/v1alpha1", "metadata": {"generation": 1}}));
    }
    Ok(())
}
