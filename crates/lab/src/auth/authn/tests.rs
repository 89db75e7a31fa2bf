use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::auth::pki::Credential;
use crate::auth::tokens::ISSUER;
use crate::names::GroupResource;
use crate::reader::Fixture;

fn now() -> Timestamp {
    "2026-11-16T05:51:04Z".parse().unwrap()
}

fn server() -> (Pki, Authenticator) {
    let pki = Pki::generate(now(), &[]).unwrap();
    let tokens = Arc::new(Tokens::new(&pki.service_accounts, ISSUER, &[]).unwrap());
    let encode = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let bootstrap = json!({
        "metadata": {"namespace": "kube-system", "name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {
            "token-id": encode("abcdef"), "token-secret": encode("0123456789abcdef"),
            "usage-bootstrap-authentication": encode("true"),
            "auth-extra-groups": encode("system:bootstrappers:auth-d"),
            "expiration": encode("2026-11-17T00:00:00Z"),
        },
    });
    let reader = Fixture::default().with(GroupResource::new("", "secrets"), bootstrap);
    let alice = User {
        name: "alice".to_owned(),
        uid: "2".to_owned(),
        groups: vec!["devs".to_owned()],
        ..User::default()
    };
    let authenticator = Authenticator::new(&pki, tokens, Arc::new(reader)).unwrap();
    (pki, authenticator.with_token(&Secret::new("alice-token"), alice))
}

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    headers
}

fn peer(authenticator: &Authenticator, credential: &Credential) -> Peer {
    authenticator.peer(&[credential.certificate_der().unwrap()], now())
}

#[test]
fn tokens_are_found_in_the_header() {
    let (_, authenticator) = server();
    let who = |value: &str| {
        authenticator
            .authenticate(&headers(&[("authorization", value)]), None, now())
            .map(|found| (found.user.name, found.warnings.len()))
            .map_err(|status| status.code)
    };
    assert_eq!(who("Bearer alice-token"), Ok(("alice".to_owned(), 0)));
    assert_eq!(who("bearer alice-token extra"), Ok(("alice".to_owned(), 0)));
    assert_eq!(who("Bearer nope"), Err(401));
    assert_eq!(who("Bearer  alice-token"), Ok(("system:anonymous".to_owned(), 1)));
    for ignored in ["", "Bearer", "Basic abc", "Bearer "] {
        assert_eq!(who(ignored), Ok(("system:anonymous".to_owned(), 0)), "{ignored}");
    }
    let alice = authenticator
        .authenticate(&headers(&[("authorization", "Bearer alice-token")]), None, now())
        .unwrap();
    assert_eq!(alice.user.groups, ["devs", "system:authenticated"]);
    let nobody = authenticator.authenticate(&HeaderMap::new(), None, now()).unwrap();
    assert_eq!(nobody.user.groups, ["system:unauthenticated"]);
    assert_eq!(
        unauthorized().to_value(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        })
    );
    let closed = server().1.with_anonymous(false);
    assert_eq!(closed.authenticate(&HeaderMap::new(), None, now()).unwrap_err().code, 401);
}

#[test]
fn browsers_send_tokens_as_protocols() {
    let (_, authenticator) = server();
    let who = |protocols: &str| {
        let mut headers = headers(&[("connection", "Upgrade"), ("upgrade", "websocket")]);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap());
        authenticator.authenticate(&headers, None, now()).map(|found| found.user.name).map_err(|e| e.code)
    };
    // "alice-token"
    let token = "base64url.bearer.authorization.k8s.io.YWxpY2UtdG9rZW4";
    assert_eq!(who(&format!("{token}, v5.channel.k8s.io")), Ok("alice".to_owned()));
    assert_eq!(who(token), Err(401));
    assert_eq!(who(&format!("{token},{token},x")), Err(401));
    assert_eq!(who("v5.channel.k8s.io"), Ok("system:anonymous".to_owned()));
    let mut all = headers(&[
        ("authorization", "Bearer x"),
        ("x-remote-extra-a", "b"),
        ("impersonate-user", "c"),
        ("accept", "d"),
    ]);
    all.insert(SEC_WEBSOCKET_PROTOCOL, format!("{token}, v5.channel.k8s.io").parse().unwrap());
    strip_credentials(&mut all);
    assert_eq!(all.len(), 2);
    assert_eq!(all[SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io");
    assert!(!all.contains_key(AUTHORIZATION) && !all.contains_key(CONNECTION) && !all.contains_key(UPGRADE));
}

#[test]
fn certificates_name_users_while_they_are_valid() {
    let (pki, authenticator) = server();
    let carol = pki.cluster.client("carol", &["ops"], now()).unwrap();
    let carol = peer(&authenticator, &carol);
    let found = authenticator.authenticate(&HeaderMap::new(), Some(&carol), now()).unwrap().user;
    assert_eq!((found.name.as_str(), found.uid.as_str()), ("carol", ""));
    assert_eq!(found.groups, ["ops", "system:authenticated"]);
    let id = &found.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    let later = now() + SignedDuration::from_hours(24 * 4000);
    assert_eq!(authenticator.authenticate(&HeaderMap::new(), Some(&carol), later).unwrap_err().code, 401);

    let (elsewhere, _) = server();
    let stranger = elsewhere.cluster.client("evil", &["system:masters"], now()).unwrap();
    let stranger = peer(&authenticator, &stranger);
    let refused = authenticator.authenticate(&HeaderMap::new(), Some(&stranger), now());
    assert_eq!(refused.unwrap_err(), unauthorized());
    let token = headers(&[("authorization", "Bearer alice-token")]);
    assert_eq!(authenticator.authenticate(&token, Some(&stranger), now()).unwrap().user.name, "alice");

    let nameless = pki.cluster.client("", &["ops"], now()).unwrap();
    let nameless = peer(&authenticator, &nameless);
    assert!(authenticator.authenticate(&HeaderMap::new(), Some(&nameless), now()).is_err());
    let serving = peer(&authenticator, &pki.serving);
    assert!(authenticator.authenticate(&HeaderMap::new(), Some(&serving), now()).is_err());
    let bare = authenticator.peer(&[], now());
    let found = authenticator.authenticate(&HeaderMap::new(), Some(&bare), now()).unwrap();
    assert_eq!(found.user.name, "system:anonymous");
    let nonsense = authenticator.peer(&[vec![1, 2, 3].into()], now());
    assert!(authenticator.authenticate(&HeaderMap::new(), Some(&nonsense), now()).is_err());
}

#[test]
fn proxies_speak_for_others() {
    let (pki, authenticator) = server();
    let said =
        headers(&[("x-remote-user", "bob"), ("x-remote-group", "g"), ("x-remote-extra-foo%2fbar", "z")]);
    let proxy = peer(&authenticator, &pki.front_proxy_client);
    let found = authenticator.authenticate(&said, Some(&proxy), now()).unwrap().user;
    assert_eq!(
        (found.name.as_str(), found.groups),
        ("bob", vec!["g".to_owned(), "system:authenticated".into()])
    );
    assert_eq!(found.extra["foo/bar"], ["z"]);
    // Without a user it is no client of the cluster's authority.
    assert_eq!(authenticator.authenticate(&HeaderMap::new(), Some(&proxy), now()).unwrap_err().code, 401);
    let other = pki.front_proxy.client("other", &[], now()).unwrap();
    let other = peer(&authenticator, &other);
    assert!(authenticator.authenticate(&said, Some(&other), now()).is_err());
    let carol = pki.cluster.client("carol", &[], now()).unwrap();
    let carol = peer(&authenticator, &carol);
    assert_eq!(authenticator.authenticate(&said, Some(&carol), now()).unwrap().user.name, "carol");
    let bare = authenticator.peer(&[], now());
    for peer in [None, Some(&bare)] {
        assert_eq!(authenticator.authenticate(&said, peer, now()).unwrap().user.name, "system:anonymous");
    }
}

#[test]
fn nodes_join_with_bootstrap_tokens() {
    let (_, authenticator) = server();
    let who = |token: &str, at: Timestamp| {
        let headers = headers(&[("authorization", &format!("Bearer {token}"))]);
        authenticator.authenticate(&headers, None, at).map(|found| found.user).map_err(|status| status.code)
    };
    let user = who("abcdef.0123456789abcdef", now()).unwrap();
    assert_eq!(user.name, "system:bootstrap:abcdef");
    assert_eq!(user.groups, ["system:bootstrappers", "system:bootstrappers:auth-d", "system:authenticated"]);
    assert_eq!(who("abcdef.0123456789abcdeg", now()), Err(401));
    assert_eq!(who("abcdee.0123456789abcdef", now()), Err(401));
    assert_eq!(who("abcdef.0123456789abcdef", now() + SignedDuration::from_hours(24)), Err(401));
    let without = server().1.with_bootstrap_tokens(false);
    let headers = headers(&[("authorization", "Bearer abcdef.0123456789abcdef")]);
    assert!(without.authenticate(&headers, None, now()).is_err());
}

#[test]
fn reviews_of_tokens_are_about_audiences() {
    let (_, authenticator) = server();
    let review = |token: &str, audiences: &[&str]| {
        let audiences: Vec<String> = audiences.iter().map(|one| (*one).to_owned()).collect();
        authenticator.review_token(token, &audiences, now())
    };
    assert_eq!(review("alice-token", &[]).unwrap().audiences, [ISSUER]);
    assert_eq!(review("alice-token", &["foo", ISSUER]).unwrap().audiences, [ISSUER]);
    assert_eq!(review("alice-token", &["foo"]).unwrap_err(), "invalid bearer token");
    assert_eq!(review("nope", &[]).unwrap_err(), "invalid bearer token");
    assert_eq!(review("a.b.c", &[]).unwrap_err(), "invalid bearer token");
}
