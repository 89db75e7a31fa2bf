//! Who is asking: certificates, tokens, accounts, and those who pretend.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::context::{Cx, pod};
use crate::crds::condition;
use crate::support::Result;
use crate::support::certificates::{Identity, subject};
use crate::support::client::Client;
use crate::support::json::{has, text};

scenarios![
    certificate,
    token,
    anonymous,
    token_request,
    token_of_a_pod,
    token_requests_are_checked,
    tokens_end_with_their_account,
    tokens_for_others_are_no_use_here,
    token_review,
    certificate_by_request,
    refused_certificate_requests,
    impersonation,
    impersonation_needs_rights,
    legacy_account_tokens,
    issuer_is_described,
    basic_credentials_mean_nothing,
];

/// What the server thinks of who is asking.
async fn who(client: &Client) -> Result<Value> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    Ok(client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &review).await?.ok(201)["status"]["userInfo"].clone())
}

async fn account(cx: &Cx, name: &str) -> Result<Value> {
    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    cx.create(cx.core("serviceaccounts"), &object).await
}

async fn request_token(cx: &Cx, name: &str, spec: &Value) -> Result<Value> {
    let object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    cx.create(cx.core(&format!("serviceaccounts/{name}/token")), &object).await
}

/// What a token says.
fn claims(token: &str) -> Result<Value> {
    let part = token.split('.').nth(1).ok_or("not a token")?;
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?)
}

async fn certificate(cx: Cx) -> Result {
    let admin = who(&cx.admin).await?;
    has(&admin, &json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]}));
    assert!(
        text(&admin, "/extra/authentication.kubernetes.io~1credential-id/0").starts_with("X509SHA256="),
        "{admin}"
    );
    Ok(())
}

async fn token(cx: Cx) -> Result {
    has(
        &who(&cx.alice).await?,
        &json!({"username": "alice", "uid": "alice-uid", "groups": ["devs", "system:authenticated"]}),
    );
    Ok(())
}

async fn anonymous(cx: Cx) -> Result {
    let nobody = cx.anonymous()?;
    let status = nobody.get(cx.core("pods")).await?.fails(403, "Forbidden");
    assert_eq!(
        text(&status, "/message"),
        format!(
            "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" \
                in the namespace \"{}\"",
            cx.ns
        )
    );
    nobody.get("/version").await?.ok(200);
    Ok(())
}

async fn token_request(cx: Cx) -> Result {
    let created = account(&cx, "robot").await?;
    let answer = request_token(&cx, "robot", &json!({"expirationSeconds": 1200})).await?;
    has(
        &answer,
        &json!({"kind": "TokenRequest", "spec": {"expirationSeconds": 1200,
            "audiences": ["https://kubernetes.default.svc.cluster.local"]}}),
    );
    assert!(text(&answer, "/status/expirationTimestamp") > "2020", "{answer}");
    let token = text(&answer, "/status/token");
    let claims = claims(token)?;
    has(
        &claims,
        &json!({
            "iss": "https://kubernetes.default.svc.cluster.local",
                "aud": ["https://kubernetes.default.svc.cluster.local"],
            "sub": format!("system:serviceaccount:{}:robot", cx.ns),
            "kubernetes.io": {"namespace": cx.ns, "serviceaccount": {"name": "robot",
            "uid": created["metadata"]["uid"]}},
        }),
    );
    assert_eq!(
        claims["exp"].as_u64().zip(claims["iat"].as_u64()).map(|(end, start)| end - start),
        Some(1200)
    );
    let robot = who(&cx.with_token(token)?).await?;
    has(
        &robot,
        &json!({
            "username": format!("system:serviceaccount:{}:robot", cx.ns), "uid": created["metadata"]["uid"],
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{}", cx.ns),
            "system:authenticated"],
        }),
    );
    Ok(())
}

async fn token_of_a_pod(cx: Cx) -> Result {
    account(&cx, "robot").await?;
    let mut object = pod("a");
    object["spec"]["serviceAccountName"] = "robot".into();
    object["spec"]["nodeName"] = "some-node".into();
    let created = cx.create(cx.core("pods"), &object).await?;
    let reference =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": created["metadata"]["uid"]});
    let answer = request_token(&cx, "robot", &json!({"boundObjectRef": reference})).await?;
    let token = text(&answer, "/status/token");
    has(
        &claims(token)?,
        &json!({"kubernetes.io": {"pod": {"name": "a", "uid": created["metadata"]["uid"]}}}),
    );
    let client = cx.with_token(token)?;
    let robot = who(&client).await?;
    assert_eq!(robot["extra"]["authentication.kubernetes.io/pod-name"], json!(["a"]));
    assert_eq!(robot["extra"]["authentication.kubernetes.io/pod-uid"], json!([created["metadata"]["uid"]]));
    cx.admin.delete(cx.core("pods/a?gracePeriodSeconds=0")).await?.ok(200);
    until_unauthorized(&client).await
}

/// Waits until a token is no longer taken.
async fn until_unauthorized(client: &Client) -> Result {
    for _ in 0..150 {
        let answer = client.get("/api").await?;
        if answer.status == 401 {
            answer.fails(401, "Unauthorized");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("the token is taken for ever".into())
}

async fn token_requests_are_checked(cx: Cx) -> Result {
    account(&cx, "robot").await?;
    let path = cx.core("serviceaccounts/robot/token");
    let status =
        cx.admin.post(path.as_str(), &json!({"spec": {"expirationSeconds": 5}})).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.expirationSeconds",
        "message": "Invalid value: 5: may not specify a duration less than 10 minutes"}]}}),
    );
    let nobody = json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "none"}}});
    cx.admin.post(path.as_str(), &nobody).await?.fails(404, "NotFound");
    let wrong =
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}}});
    cx.admin.post(path.as_str(), &wrong).await?.fails(400, "BadRequest");
    cx.admin.post(cx.core("serviceaccounts/none/token"), &json!({"spec": {}})).await?.fails(404, "NotFound");
    Ok(())
}

async fn tokens_end_with_their_account(cx: Cx) -> Result {
    account(&cx, "robot").await?;
    let answer = request_token(&cx, "robot", &json!({})).await?;
    has(&answer, &json!({"spec": {"expirationSeconds": 3600}}));
    let client = cx.with_token(text(&answer, "/status/token"))?;
    who(&client).await?;
    cx.admin.delete(cx.core("serviceaccounts/robot")).await?.ok(200);
    until_unauthorized(&client).await?;
    // An account of the same name is another one.
    account(&cx, "robot").await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.get("/api").await?.fails(401, "Unauthorized");
    Ok(())
}

async fn tokens_for_others_are_no_use_here(cx: Cx) -> Result {
    account(&cx, "robot").await?;
    let answer = request_token(&cx, "robot", &json!({"audiences": ["somebody-else"]})).await?;
    let token = text(&answer, "/status/token");
    assert_eq!(claims(token)?["aud"], json!(["somebody-else"]));
    cx.with_token(token)?.get("/api").await?.fails(401, "Unauthorized");
    let review = json!({"spec": {"token": token, "audiences": ["somebody-else", "nobody"]}});
    let review = cx.create("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    has(&review["status"], &json!({"authenticated": true, "audiences": ["somebody-else"]}));
    Ok(())
}

async fn token_review(cx: Cx) -> Result {
    account(&cx, "robot").await?;
    let answer = request_token(&cx, "robot", &json!({})).await?;
    let review = |token: &str| {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token}})
    };
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reviewed = cx.create(path, &review(text(&answer, "/status/token"))).await?;
    has(
        &reviewed["status"],
        &json!({"authenticated": true, "user": {"username": format!("system:serviceaccount:{}:robot", cx.ns)},
        "audiences": ["https://kubernetes.default.svc.cluster.local"]}),
    );
    let reviewed = cx.create(path, &review("alice-token")).await?;
    has(
        &reviewed["status"],
        &json!({"authenticated": true, "user": {"username": "alice", "groups": ["devs",
            "system:authenticated"]}}),
    );
    let reviewed = cx.create(path, &review("nonsense")).await?;
    has(&reviewed["status"], &json!({"authenticated": null, "user": {"username": null}}));
    cx.admin.post(path, &review("")).await?.fails(400, "BadRequest");
    cx.alice.post(path, &review("x")).await?.fails(403, "Forbidden");
    Ok(())
}

/// A request for a client certificate, and the key it is for.
fn signing_request(cx: &Cx, user: &str) -> Result<(Value, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(user, &["devs"]);
    let pem = params.serialize_request(&key)?.pem()?;
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": cx.unique},
        "spec": {"request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth", "digital signature"]}});
    Ok((object, key.serialize_pem()))
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn certificate_by_request(cx: Cx) -> Result {
    let (object, key) = signing_request(&cx, "bob")?;
    let mut created = cx.create(REQUESTS, &object).await?;
    has(
        &created["spec"],
        &json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]}),
    );
    created["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "Because", "message": "fine"}]);
    let path = format!("{REQUESTS}/{}", cx.unique);
    let approved = cx.admin.put(format!("{path}/approval"), &created).await?.ok(200);
    assert_eq!(condition(&approved, "Approved"), "True");
    let issued = cx
        .until(path, "the certificate is there", |_, request| request["status"]["certificate"].is_string())
        .await?;
    let certificate = String::from_utf8(STANDARD.decode(text(&issued, "/status/certificate"))?)?;
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{certificate}");
    let bob = cx.with_certificate(Identity { certificate, key })?;
    has(&who(&bob).await?, &json!({"username": "bob", "groups": ["devs", "system:authenticated"]}));
    Ok(())
}

async fn refused_certificate_requests(cx: Cx) -> Result {
    let (object, _) = signing_request(&cx, "bob")?;
    let mut created = cx.create(REQUESTS, &object).await?;
    let path = format!("{REQUESTS}/{}", cx.unique);
    // Conditions do not come in by the main door.
    created["status"]["conditions"] = json!([{"type": "Approved", "status": "True"}]);
    let replaced = cx.admin.put(path.as_str(), &created).await?.ok(200);
    has(&replaced, &json!({"status": {"conditions": null}}));
    created["status"]["conditions"] = json!([{"type": "Denied", "status": "True", "reason": "No"}]);
    created["metadata"]["resourceVersion"] = replaced["metadata"]["resourceVersion"].clone();
    let denied = cx.admin.put(format!("{path}/approval"), &created).await?.ok(200);
    assert_eq!(condition(&denied, "Denied"), "True");
    let mut both = denied.clone();
    both["status"]["conditions"] =
        json!([{"type": "Denied", "status": "True"}, {"type": "Approved", "status": "True"}]);
    cx.admin.put(format!("{path}/approval"), &both).await?.fails(422, "Invalid");
    let mut wrong = object.clone();
    wrong["metadata"]["name"] = format!("{}-b", cx.unique).into();
    wrong["spec"]["request"] = STANDARD.encode("nonsense").into();
    let status = cx.admin.post(REQUESTS, &wrong).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "spec.request"}]}}));
    // Nobody becomes a master this way.
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("eve", &["system:masters"]);
    wrong["spec"]["request"] = STANDARD.encode(params.serialize_request(&key)?.pem()?).into();
    cx.admin.post(REQUESTS, &wrong).await?.fails(403, "Forbidden");
    Ok(())
}

async fn impersonation(cx: Cx) -> Result {
    let as_bob = cx.admin.with_header("impersonate-user", "bob")?;
    has(&who(&as_bob).await?, &json!({"username": "bob", "groups": ["system:authenticated"]}));
    as_bob.get(cx.core("pods")).await?.fails(403, "Forbidden");
    let with_groups = as_bob
        .with_header("impersonate-group", "one")?
        .with_header("impersonate-group", "two")?
        .with_header("impersonate-uid", "some-uid")?
        .with_header("impersonate-extra-some%2fkey", "value")?;
    has(
        &who(&with_groups).await?,
        &json!({"username": "bob", "uid": "some-uid", "groups": ["one", "two", "system:authenticated"],
        "extra": {"some/key": ["value"]}}),
    );
    let master = as_bob.with_header("impersonate-group", "system:masters")?;
    master.get(cx.core("pods")).await?.ok(200);
    let robot =
        cx.admin.with_header("impersonate-user", &format!("system:serviceaccount:{}:robot", cx.ns))?;
    has(
        &who(&robot).await?,
        &json!({"groups": ["system:serviceaccounts", format!("system:serviceaccounts:{}", cx.ns),
            "system:authenticated"]}),
    );
    let anonymous = cx.admin.with_header("impersonate-user", "system:anonymous")?;
    let status = anonymous.get(cx.core("pods")).await?.fails(403, "Forbidden");
    assert!(text(&status, "/message").contains("User \"system:anonymous\""), "{status}");
    // A group alone is nobody.
    let nobody = cx.admin.with_header("impersonate-group", "one")?;
    let status = nobody.get("/api").await?.fails(400, "BadRequest");
    assert!(text(&status, "/message").ends_with("without impersonating a user name"), "{status}");
    Ok(())
}

async fn impersonation_needs_rights(cx: Cx) -> Result {
    let as_admin = cx.alice.with_header("impersonate-user", "admin")?;
    let status = as_admin.get("/api").await?.fails(403, "Forbidden");
    // Which of several ways to be allowed is told about depends on what happened before.
    assert!(text(&status, "/message").contains("User \"alice\" cannot impersonate"), "{status}");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": cx.unique},
        "rules": [{"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"],
        "verbs": ["impersonate"]}]});
    cx.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": cx.unique},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cx.unique},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]});
    cx.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    let as_bob = cx.alice.with_header("impersonate-user", "bob")?;
    for attempt in 0.. {
        if as_bob.get("/api").await?.status == 200 {
            break;
        }
        assert!(attempt < 100, "alice may never be bob");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    has(&who(&as_bob).await?, &json!({"username": "bob"}));
    as_bob.with_header("impersonate-group", "devs")?.get("/api").await?.fails(403, "Forbidden");
    Ok(())
}

async fn legacy_account_tokens(cx: Cx) -> Result {
    let created = account(&cx, "robot").await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "a", "annotations": {"kubernetes.io/service-account.name": "robot"}}});
    cx.create(cx.core("secrets"), &secret).await?;
    let filled = cx
        .until(cx.core("secrets/a"), "the token is there", |_, secret| secret["data"]["token"].is_string())
        .await?;
    has(
        &filled,
        &json!({"metadata": {"annotations": {"kubernetes.io/service-account.uid": created["metadata"]["uid"]}}}),
    );
    assert_eq!(STANDARD.decode(text(&filled, "/data/namespace"))?, cx.ns.as_bytes());
    assert!(
        String::from_utf8(STANDARD.decode(text(&filled, "/data/ca.crt"))?)?.contains("BEGIN CERTIFICATE")
    );
    let token = String::from_utf8(STANDARD.decode(text(&filled, "/data/token"))?)?;
    has(
        &who(&cx.with_token(&token)?).await?,
        &json!({"username": format!("system:serviceaccount:{}:robot", cx.ns)}),
    );
    Ok(())
}

async fn issuer_is_described(cx: Cx) -> Result {
    let document = cx.read("/.well-known/openid-configuration").await?;
    has(
        &document,
        &json!({"issuer": "https://kubernetes.default.svc.cluster.local",
            "subject_types_supported": ["public"],
        "response_types_supported": ["id_token"]}),
    );
    let answer = cx.admin.get("/openid/v1/jwks").accept("*/*").await?;
    let keys = answer.ok(200);
    assert_eq!(answer.header("content-type"), "application/jwk-set+json");
    account(&cx, "robot").await?;
    let token = request_token(&cx, "robot", &json!({})).await?;
    let head = text(&token, "/status/token").split('.').next().unwrap_or_default().to_owned();
    let head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head)?)?;
    assert!(
        keys["keys"].as_array().into_iter().flatten().any(|key| key["kid"] == head["kid"]),
        "{keys} {head}"
    );
    Ok(())
}

async fn basic_credentials_mean_nothing(cx: Cx) -> Result {
    let client = cx.anonymous()?.with_header("authorization", "Basic YWxpY2U6YWxpY2U=")?;
    client.get(cx.core("pods")).await?.fails(403, "Forbidden");
    let client = cx.anonymous()?.with_header("authorization", "Bearer")?;
    assert_eq!(client.get(cx.core("pods")).await?.status, 403);
    Ok(())
}
