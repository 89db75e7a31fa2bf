//! API servers behind the server under test.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::context::Cx;
use crate::crds::condition;
use crate::hooks::{Reply, Seen, Server};
use crate::support::Result;
use crate::support::client::Client;
use crate::support::json::{has, text};

scenarios![
    local_services,
    requests_are_passed_on,
    who_asks_is_told,
    nobody_says_who_they_are,
    long_bodies,
    broken_answers,
    other_protocols,
    in_discovery,
    unavailable,
    rights_are_checked_first,
    bad_services,
    goes_away,
];

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// What the API server behind answers.
fn answer(group: &str, seen: &Seen) -> Reply {
    let path = seen.path.split('?').next().unwrap_or_default();
    let root = format!("/apis/{group}/v1");
    if path == root {
        return Reply::ok(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"),
            "resources": [{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
            "verbs": ["get", "list"]}]}),
        );
    }
    if path.ends_with("/console") {
        return Reply { status: 101, ..Reply::ok(Value::Null) };
    }
    if path.starts_with(&root) {
        let broken = path.ends_with("/broken");
        let body = json!({"kind": "Echo", "apiVersion": format!("{group}/v1"), "path": seen.path,
            "method": seen.method, "body": seen.body});
        return Reply { broken, ..Reply::ok(body) };
    }
    Reply {
        status: 404,
        body: json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}),
        ..Reply::ok(Value::Null)
    }
}

/// Registers a server of ours for the scenario's group, and waits until it is available.
async fn register(cx: &Cx) -> Result<Server> {
    let group = cx.group.clone();
    let name = format!("behind.{}.svc", cx.ns);
    let server = Server::start(&[&name], move |seen| answer(&group, seen)).await?;
    // Loopback is not where services go, but a name may lead there.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "behind"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    cx.create(cx.core("services"), &service).await?;
    cx.create(SERVICES, &api_service(cx, server.port, &server.bundle)).await?;
    cx.until(format!("{SERVICES}/v1.{}", cx.group), "the server behind is available", |_, service| {
        condition(service, "Available") == "True"
    })
    .await?;
    cx.until(format!("/apis/{}/v1", cx.group), "requests get through", |status, _| status == 200).await?;
    Ok(server)
}

fn api_service(cx: &Cx, port: u16, bundle: &str) -> Value {
    // A server that is gone would keep others from seeing all there is.
    cx.delete_at_the_end(format!("{SERVICES}/v1.{}", cx.group));
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{}", cx.group)},
        "spec": {"group": cx.group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "caBundle": bundle,
            "service": {"name": "behind", "namespace": cx.ns, "port": port}}})
}

async fn local_services(cx: Cx) -> Result {
    for name in ["v1.", "v1.apps", "v1.rbac.authorization.k8s.io"] {
        let service = cx.read(format!("{SERVICES}/{name}")).await?;
        has(
            &service,
            &json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
                "spec": {"service": null},
            "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Local"}]}}),
        );
    }
    Ok(())
}

async fn requests_are_passed_on(cx: Cx) -> Result {
    let server = register(&cx).await?;
    let path = cx.apis(&format!("{}/v1", cx.group), "things/a?pretty=true&x=y");
    let echo = cx.read(path.as_str()).await?;
    has(&echo, &json!({"kind": "Echo", "path": path, "method": "GET"}));
    let echo = cx.admin.post(path.as_str(), &json!({"some": "body"})).await?.ok(200);
    has(&echo, &json!({"method": "POST", "body": {"some": "body"}}));
    let echo = cx.admin.request(Method::DELETE, path).await?.ok(200);
    has(&echo, &json!({"method": "DELETE"}));
    assert!(!server.seen().is_empty());
    Ok(())
}

async fn who_asks_is_told(cx: Cx) -> Result {
    let server = register(&cx).await?;
    cx.read(cx.apis(&format!("{}/v1", cx.group), "things/who")).await?;
    let seen =
        server.seen().into_iter().find(|seen| seen.path.ends_with("things/who")).ok_or("nothing arrived")?;
    let all = |name: &str| -> Vec<&str> {
        seen.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    };
    assert_eq!(all("x-remote-user"), ["admin"]);
    assert_eq!(all("x-remote-group"), ["system:masters", "system:authenticated"]);
    assert_eq!(all("authorization"), Vec::<&str>::new());
    assert!(!all("x-forwarded-for").is_empty());
    Ok(())
}

/// Headers that say who somebody is are for servers to say, not for clients.
async fn nobody_says_who_they_are(cx: Cx) -> Result {
    let server = register(&cx).await?;
    let path = cx.apis(&format!("{}/v1", cx.group), "things/forged");
    let forged = |client: &Client| -> Result<Client> {
        client
            .with_header("x-remote-user", "somebody")?
            .with_header("x-remote-uid", "1")?
            .with_header("x-remote-group", "system:masters")?
            .with_header("x-remote-extra-key", "value")
    };
    forged(&cx.alice)?.get(path.as_str()).await?.fails(403, "Forbidden");
    forged(&cx.anonymous()?)?.get(path.as_str()).await?.fails(403, "Forbidden");
    forged(&cx.admin)?.get(path.as_str()).await?.ok(200);
    let other = forged(&cx.admin)?
        .with_header("impersonate-user", "other")?
        .with_header("impersonate-group", "system:masters")?
        .with_header("impersonate-extra-scopes", "some")?;
    other.get(path.as_str()).await?.ok(200);
    let arrived: Vec<Seen> =
        server.seen().into_iter().filter(|seen| seen.path.ends_with("things/forged")).collect();
    let users: Vec<&str> =
        arrived.iter().filter_map(|seen| seen.headers.get("x-remote-user")?.to_str().ok()).collect();
    assert_eq!(users, ["admin", "other"]);
    for seen in &arrived {
        assert!(seen.headers.keys().all(|name| !name.as_str().starts_with("impersonate-")));
        assert!(!seen.headers.contains_key("x-remote-extra-key"));
        assert!(seen.headers.get_all("x-remote-uid").iter().all(|uid| uid != "1"));
        assert_eq!(seen.headers.get_all("x-remote-user").iter().count(), 1);
    }
    assert_eq!(arrived[1].headers["x-remote-extra-scopes"], "some");
    Ok(())
}

/// Bodies are handed on as they come, however long they are.
async fn long_bodies(cx: Cx) -> Result {
    let _server = register(&cx).await?;
    let path = cx.apis(&format!("{}/v1", cx.group), "things/long");
    let long = "x".repeat(5 << 20);
    for client in [cx.admin.clone(), cx.admin.http1()] {
        let echo = client.post(path.as_str(), &json!({"some": long})).await?.ok(200);
        assert_eq!(echo["body"]["some"].as_str().map(str::len), Some(long.len()));
    }
    Ok(())
}

/// An answer that breaks off is not taken for a whole one.
async fn broken_answers(cx: Cx) -> Result {
    let _server = register(&cx).await?;
    let path = cx.apis(&format!("{}/v1", cx.group), "things/broken");
    for client in [cx.admin.clone(), cx.admin.http1()] {
        if let Ok(answer) = client.get(path.as_str()).await {
            return Err(format!("half an answer passes for a whole one: {answer}").into());
        }
    }
    Ok(())
}

/// Consoles and the like speak another protocol than HTTP from some point on.
async fn other_protocols(cx: Cx) -> Result {
    let server = register(&cx).await?;
    let path = cx.apis(&format!("{}/v1", cx.group), "things/a/console");
    let (headers, mut connection) = cx
        .admin
        .get(path.as_str())
        .header("x-remote-user", "somebody")
        .header("sec-websocket-protocol", "plain")
        .upgrade("websocket")
        .await?;
    assert_eq!(headers["upgrade"], "websocket");
    for said in ["hello", "again"] {
        connection.write_all(said.as_bytes()).await?;
        let mut heard = vec![0; said.len()];
        tokio::time::timeout(Duration::from_secs(10), connection.read_exact(&mut heard)).await??;
        assert_eq!(heard, said.as_bytes());
    }
    // More than fits into any buffer, both ways at once.
    let (mut from, mut to) = tokio::io::split(connection);
    let many = vec![7; 3 << 20];
    let mut heard = vec![0; many.len()];
    let both = async { tokio::try_join!(to.write_all(&many), from.read_exact(&mut heard)) };
    tokio::time::timeout(Duration::from_secs(20), both).await??;
    assert_eq!(heard, many);
    let seen =
        server.seen().into_iter().find(|seen| seen.path.ends_with("/console")).ok_or("nothing arrived")?;
    assert_eq!(seen.headers["x-remote-user"], "admin");
    assert_eq!(seen.headers["sec-websocket-protocol"], "plain");
    // Rights come first.
    assert!(cx.alice.get(path).upgrade("websocket").await.is_err());
    Ok(())
}

async fn in_discovery(cx: Cx) -> Result {
    let _server = register(&cx).await?;
    let list = cx.read(format!("/apis/{}/v1", cx.group)).await?;
    has(&list, &json!({"resources": [{"name": "things", "kind": "Thing"}]}));
    let group = cx.read(format!("/apis/{}", cx.group)).await?;
    has(&group, &json!({"kind": "APIGroup", "name": cx.group, "preferredVersion": {"version": "v1"}}));
    let groups = cx.read("/apis").await?;
    let entry = groups["groups"].as_array().into_iter().flatten().find(|entry| entry["name"] == *cx.group);
    assert!(entry.is_some(), "the group is not listed");
    Ok(())
}

async fn unavailable(cx: Cx) -> Result {
    cx.create(SERVICES, &api_service(&cx, 443, "")).await?;
    let service = cx
        .until(format!("{SERVICES}/v1.{}", cx.group), "it is known to be unavailable", |_, service| {
            condition(service, "Available") == "False"
        })
        .await?;
    has(
        &service["status"]["conditions"][0],
        &json!({"reason": "ServiceNotFound",
        "message": format!("service/behind in \"{}\" is not present", cx.ns)}),
    );
    let answer = cx.admin.get(cx.apis(&format!("{}/v1", cx.group), "things")).await?;
    assert_eq!(answer.status, 503, "{answer}");
    assert_eq!(answer.text(), "service unavailable\n");
    Ok(())
}

async fn rights_are_checked_first(cx: Cx) -> Result {
    let server = register(&cx).await?;
    let path = cx.apis(&format!("{}/v1", cx.group), "things/secret");
    let status = cx.alice.get(path).await?.fails(403, "Forbidden");
    assert_eq!(
        text(&status, "/message"),
        format!(
            "things.{0} \"secret\" is forbidden: User \"alice\" cannot get resource \"things\" in API group \
                \"{0}\" in the namespace \"{1}\"",
            cx.group, cx.ns
        )
    );
    assert!(server.seen().iter().all(|seen| !seen.path.ends_with("things/secret")));
    Ok(())
}

async fn bad_services(cx: Cx) -> Result {
    let mut wrong = api_service(&cx, 443, "");
    wrong["metadata"]["name"] = format!("v2.{}", cx.group).into();
    let status = cx.admin.post(SERVICES, &wrong).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "metadata.name", "message": format!(
        "Invalid value: \"v2.{0}\": must be `spec.version+\".\"+spec.group`: \"v1.{0}\"", cx.group)}]}}),
    );
    let mut wrong = api_service(&cx, 443, "");
    wrong["spec"]["groupPriorityMinimum"] = 0.into();
    cx.admin.post(SERVICES, &wrong).await?.fails(422, "Invalid");
    Ok(())
}

async fn goes_away(cx: Cx) -> Result {
    let _server = register(&cx).await?;
    cx.admin.delete(format!("{SERVICES}/v1.{}", cx.group)).await?.ok(200);
    cx.until(format!("/apis/{}/v1", cx.group), "the group is gone", |status, _| status == 404).await?;
    Ok(())
}
