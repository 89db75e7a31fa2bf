use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

async fn started(folder: &Path) -> Lab {
    let options = || Options { folder: Some(folder.to_owned()), ..Options::default() };
    // Whoever still works for the lab before this one lets go of its store a moment later.
    for _ in 0..100 {
        if let Ok(lab) = Lab::start(options()).await {
            return lab;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Lab::start(options()).await.unwrap()
}

async fn ask(lab: &Lab, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let form = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", form);
    let request = request.body(Full::<bytes::Bytes>::from(body.to_string())).unwrap();
    let response = lab.service().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn names(lab: &Lab, path: &str) -> Vec<String> {
    let (status, list) = ask(lab, Method::GET, path, &Value::Null).await;
    assert_eq!(status, 200, "{list}");
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_resources_are_selected_by_their_fields_after_a_restart() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let folder = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string"}, "size": {"type": "string"}}}}});
    let versions = |fields: &[&str]| {
        let fields: Vec<Value> = fields.iter().map(|path| json!({"jsonPath": path})).collect();
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "selectableFields": fields}])
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions(&[".spec.color"])}});
    let lab = started(folder.path()).await;
    assert_eq!(ask(&lab, Method::POST, DEFINITIONS, &definition).await.0, 201);
    for _ in 0..200 {
        if ask(&lab, Method::GET, WIDGETS, &Value::Null).await.0 == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (name, color) in [("a", "red"), ("b", "blue")] {
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
            "spec": {"color": color, "size": format!("{name}-size")}});
        assert_eq!(ask(&lab, Method::POST, WIDGETS, &widget).await.0, 201);
    }
    let red = format!("{WIDGETS}?fieldSelector=spec.color%3Dred");
    assert_eq!(names(&lab, &red).await, ["a"]);
    drop(lab);

    let lab = started(folder.path()).await;
    assert_eq!(names(&lab, &red).await, ["a"]);
    assert_eq!(names(&lab, &format!("{WIDGETS}?fieldSelector=spec.color%21%3Dred")).await, ["b"]);
    assert!(names(&lab, &format!("{WIDGETS}?fieldSelector=spec.color%3D")).await.is_empty());
    // Built-in kinds are selected by what was read with the store.
    let active = "/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3Ddefault";
    assert_eq!(names(&lab, active).await, ["default"]);
    let more = json!({"spec": {"versions": versions(&[".spec.color", ".spec.size"])}});
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(ask(&lab, Method::PATCH, &path, &more).await.0, 200);
    assert_eq!(names(&lab, &format!("{WIDGETS}?fieldSelector=spec.size%3Db-size")).await, ["b"]);
    let green = json!({"spec": {"color": "green"}});
    assert_eq!(ask(&lab, Method::PATCH, &format!("{WIDGETS}/a"), &green).await.0, 200);
    assert!(names(&lab, &red).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_gives_nothing_away() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let folder = tempfile::tempdir().unwrap();
    let lab = started(folder.path()).await;
    let service = |name: String, port: usize| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_000 + port}]}})
    };
    for round in 0..60_usize {
        // Somewhere between the first step and the last.
        let patience = Duration::from_micros(50 * u64::try_from(round).unwrap());
        let first = service(format!("first-{round}"), round);
        let given_up = ask(&lab, Method::POST, SERVICES, &first);
        let _ = tokio::time::timeout(patience, given_up).await;
        ask(&lab, Method::POST, SERVICES, &service(format!("second-{round}"), round)).await;
    }
    // What was begun is finished by itself.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (_, list) = ask(&lab, Method::GET, SERVICES, &Value::Null).await;
    let mut ports = std::collections::HashSet::new();
    for service in list["items"].as_array().unwrap() {
        let spec = &service["spec"];
        if let Some(port) = spec["ports"][0]["nodePort"].as_u64() {
            assert!(ports.insert(port), "two Services have the port {port}");
        }
        let address =
            format!("/apis/networking.k8s.io/v1/ipaddresses/{}", spec["clusterIP"].as_str().unwrap());
        assert_eq!(ask(&lab, Method::GET, &address, &Value::Null).await.0, 200, "{address}");
    }
    assert_eq!(ports.len(), 60);
}

#[cfg(unix)]
mod modes {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::*;

    #[tokio::test]
    async fn nobody_else_can_read_what_is_kept() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("a/lab");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let start = || Lab::start(Options { folder: Some(folder.clone()), ..Options::default() });
        drop(start().await.unwrap());
        assert_eq!(mode(&folder), 0o700);
        let mut folders = vec![folder.clone()];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    assert_eq!(mode(&path), 0o700, "{}", path.display());
                    folders.push(path);
                } else {
                    assert_eq!(mode(&path), 0o600, "{}", path.display());
                    files += 1;
                }
            }
        }
        assert!(files > 1);
    }

    #[test]
    fn the_folder_of_somebody_else_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let claim = claim_folder(folder.path()).unwrap();
        assert!(matches!(claim_folder(folder.path()), Err(LabError::InUse(_))));
        drop(claim);
        claim_folder(folder.path()).unwrap();
        assert_eq!(std::fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
