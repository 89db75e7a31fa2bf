//! Objects that are nested deeply.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::{Cluster, JSON};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn define_widgets(cluster: &Cluster) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let (code, answer) = cluster.send(Method::POST, DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{answer}");
    while cluster.get(WIDGETS).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A value of so many levels.
fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// A widget of so many levels in all.
fn widget(levels: usize) -> String {
    format!(
        "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{{\"name\":\"w{levels}\"}},\"spec\":{}}}",
        nested(levels - 1)
    )
}

#[tokio::test]
async fn deep_objects_are_stored_changed_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_in(Some(folder.path())).await;
    define_widgets(&cluster).await;
    let depths = [120, 126, 127, 128, 129, 200, 300, 399, 400];
    for levels in depths {
        let (code, answer) = cluster.text(Method::POST, WIDGETS, JSON, widget(levels)).await;
        assert_eq!(code, 201, "{levels} levels: {answer}");
        assert!(answer.contains(&nested(levels - 1)));
        let path = format!("{WIDGETS}/w{levels}");
        for (media_type, patch) in [
            (
                "application/json-patch+json",
                json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
            ),
            ("application/merge-patch+json", json!({"metadata": {"labels": {"c": "d"}}})),
        ] {
            let (code, answer) = cluster.text(Method::PATCH, &path, media_type, patch.to_string()).await;
            assert_eq!(code, 200, "{levels} levels: {answer}");
        }
        // Whoever applies the same owns it as well.
        let apply = format!("{path}?fieldManager=applier&force=true");
        let applied =
            cluster.text(Method::PATCH, &apply, "application/apply-patch+yaml", widget(levels)).await;
        assert_eq!(applied.0, 200, "{levels} levels: {}", applied.1);
    }
    let (code, answer) = cluster.text(Method::POST, WIDGETS, JSON, widget(401)).await;
    assert_eq!(code, 400, "{answer}");
    assert!(answer.contains("exceeded max depth"), "{answer}");

    // Two patches that each are allowed do not make an object that cannot be read again.
    let path = format!("{WIDGETS}/w399/");
    let patch =
        format!("[{{\"op\":\"replace\",\"path\":\"/spec{}\",\"value\":{}}}]", "/a".repeat(150), nested(390));
    let path = path.trim_end_matches('/');
    let (code, answer) = cluster.text(Method::PATCH, path, "application/json-patch+json", patch).await;
    assert!((400..500).contains(&code), "{code} {answer}");

    // Nor does one whose operations each go on where the last one ended; a few of them are fine.
    let link = |place: usize| {
        let (path, value) = (format!("/spec{}", "/a".repeat(60 * place)), nested(60));
        format!("{{\"op\":\"replace\",\"path\":\"{path}\",\"value\":{value}}}")
    };
    for (links, wanted) in [(3, 200), (200, 422)] {
        let patch = format!("[{}]", (0..links).map(link).collect::<Vec<_>>().join(","));
        let path = format!("{path}?dryRun=All");
        let (code, answer) = cluster.text(Method::PATCH, &path, "application/json-patch+json", patch).await;
        assert_eq!(code, wanted, "{links} operations: {answer}");
    }

    drop(cluster);
    let cluster = Cluster::start_in(Some(folder.path())).await;
    while cluster.get(WIDGETS).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for levels in depths {
        let path = format!("{WIDGETS}/w{levels}");
        let (code, answer) = cluster.text(Method::GET, &path, JSON, String::new()).await;
        assert_eq!(code, 200, "{levels} levels: {answer}");
        assert!(answer.contains(&nested(levels - 1)) && answer.contains("\"c\":\"d\""), "{answer}");
        let (code, pretty) =
            cluster.text(Method::GET, &format!("{path}?pretty=true"), JSON, String::new()).await;
        assert!(code == 200 && pretty.matches("\"a\": ").count() >= levels - 1);
        let (code, answer) = cluster.text(Method::DELETE, &path, JSON, String::new()).await;
        assert_eq!(code, 200, "{levels} levels: {answer}");
    }
}
