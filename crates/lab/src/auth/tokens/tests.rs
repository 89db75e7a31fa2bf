use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use crate::attributes::User;
use crate::auth::Pki;
use crate::names::GroupResource;
use crate::reader::Fixture;
use crate::status::Status;

fn now() -> Timestamp {
    "2026-11-16T05:51:04Z".parse().unwrap()
}

fn tokens() -> Tokens {
    Tokens::new(&Pki::generate(now(), &[]).unwrap().service_accounts, ISSUER, &[]).unwrap()
}

fn core(resource: &str) -> GroupResource {
    GroupResource::new("", resource)
}

fn stored() -> Fixture {
    let object =
        |name: &str| json!({"metadata": {"namespace": "auth-d", "name": name, "uid": format!("u-{name}")}});
    let mut pod = object("p1");
    pod["spec"] = json!({"serviceAccountName": "sa1", "nodeName": "n1"});
    let mut other = object("p2");
    other["spec"] = json!({"serviceAccountName": "default"});
    Fixture::default()
        .with(core("serviceaccounts"), object("sa1"))
        .with(core("secrets"), object("s1"))
        .with(core("pods"), pod)
        .with(core("pods"), other)
        .with(core("nodes"), json!({"metadata": {"name": "n2", "uid": "u-n2"}}))
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn request(tokens: &Tokens, more: Value) -> Result<Value, Status> {
    tokens.issue_token(&stored(), "auth-d", "sa1", &json!({"spec": more}), now())
}

fn payload(answer: &Value) -> Value {
    let token = answer["status"]["token"].as_str().unwrap();
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn a_token_says_what_the_real_one_says() {
    let tokens = tokens();
    let mut answer = request(&tokens, json!({})).unwrap();
    let mut claims = payload(&answer);
    assert_eq!(claims["jti"].as_str().unwrap().len(), 36);
    claims["jti"] = json!("-");
    assert_eq!(
        claims,
        json!({
            "aud": [ISSUER], "exp": 1_794_811_864, "iat": 1_794_808_264, "iss": ISSUER, "jti": "-",
            "kubernetes.io": {"namespace": "auth-d", "serviceaccount": {"name": "sa1", "uid": "u-sa1"}},
            "nbf": 1_794_808_264, "sub": "system:serviceaccount:auth-d:sa1",
        })
    );
    answer["status"]["token"] = json!("-");
    assert_eq!(
        answer,
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {
                "creationTimestamp": "2026-11-16T05:51:04Z", "name": "sa1", "namespace": "auth-d", "uid": "u-sa1",
            },
            "spec": {"audiences": [ISSUER], "boundObjectRef": null, "expirationSeconds": 3600},
            "status": {"expirationTimestamp": "2026-11-16T06:51:04Z", "token": "-"},
        })
    );
}

#[test]
fn bound_tokens_name_what_they_are_bound_to() {
    let tokens = tokens();
    let bound = |reference: Value, seconds: i64| {
        let spec = json!({"boundObjectRef": reference, "expirationSeconds": seconds});
        payload(&request(&tokens, spec).unwrap())
    };
    let pod = bound(json!({"kind": "Pod", "name": "p1"}), 3607);
    assert_eq!(pod["kubernetes.io"]["pod"], json!({"name": "p1", "uid": "u-p1"}));
    assert_eq!(pod["kubernetes.io"]["node"], json!({"name": "n1"}));
    assert_eq!(pod["kubernetes.io"]["warnafter"], 1_794_808_264 + 3607);
    assert_eq!(pod["exp"], 1_794_808_264 + 365 * 24 * 3600);
    let node = bound(json!({"kind": "Node", "apiVersion": "v1", "name": "n2"}), 600);
    assert_eq!(node["kubernetes.io"]["node"], json!({"name": "n2", "uid": "u-n2"}));
    let secret = bound(json!({"kind": "Secret", "apiVersion": "v1", "name": "s1", "uid": "u-s1"}), 600);
    assert_eq!(secret["kubernetes.io"]["secret"], json!({"name": "s1", "uid": "u-s1"}));
}

#[test]
fn wrong_requests_are_refused_in_the_words_of_the_real_server() {
    let tokens = tokens();
    let message = |more: Value| request(&tokens, more).unwrap_err().message;
    assert_eq!(
        message(json!({"expirationSeconds": 10})),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not \
         specify a duration less than 10 minutes"
    );
    assert_eq!(
        message(json!({"expirationSeconds": 5_000_000_000_i64})),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 5000000000: \
         may not specify a duration larger than 2^32 seconds"
    );
    let bound = |reference: Value| message(json!({"boundObjectRef": reference}));
    assert_eq!(bound(json!({"kind": "Pod", "name": "nope"})), "pods \"nope\" not found");
    assert_eq!(
        bound(json!({"kind": "ConfigMap", "apiVersion": "v1"})),
        "cannot bind token to object of type /v1, Kind=ConfigMap"
    );
    assert_eq!(bound(json!({})), "cannot bind token to object of type /, Kind=");
    assert_eq!(
        bound(json!({"kind": "Secret", "name": "s1", "uid": "zzz"})),
        "Operation cannot be fulfilled on Secret \"s1\": the UID in the bound object reference (zzz) does not match \
         the UID in record. The object might have been deleted and then recreated"
    );
    assert_eq!(
        bound(json!({"kind": "Pod", "name": "p2"})),
        "cannot bind token for serviceaccount \"sa1\" to pod running with different serviceaccount name."
    );
    assert_eq!(
        message(json!({"attestations": {"a": ["b"]}})),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.attestations: Invalid value: {\"a\":[\"b\"]}: \
         attestations may only be specified with a webhook bound object reference"
    );
    let webhook = json!({
        "kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1", "name": "x",
    });
    assert_eq!(
        bound(webhook),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.attestations: Invalid value: null: webhook bound \
         requests require exactly one admissionReviewAPIGroups attestation"
    );
    let whole =
        |body: Value| tokens.issue_token(&stored(), "auth-d", "sa1", &body, now()).unwrap_err().message;
    assert_eq!(
        whole(json!({"metadata": {"name": "other"}})),
        "TokenRequest.authentication.k8s.io \"sa1\" is invalid: metadata.name: Invalid value: \"other\": must match \
         the service account name if specified"
    );
    assert_eq!(
        whole(json!({"metadata": {"uid": "other"}})),
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"sa1\": the UID in the token request \
         (other) does not match the UID of the service account (u-sa1)"
    );
    let nobody = tokens.issue_token(&stored(), "auth-d", "none", &json!(null), now()).unwrap_err();
    assert_eq!(nobody.message, "serviceaccounts \"none\" not found");
}

fn verify(
    tokens: &Tokens,
    answer: &Value,
    audiences: &[&str],
    stored: &Fixture,
    at: Timestamp,
) -> Result<User, String> {
    let audiences: Vec<String> = audiences.iter().map(|one| (*one).to_owned()).collect();
    let token = answer["status"]["token"].as_str().unwrap();
    tokens.authenticate(token, &audiences, stored, at).map(|found| found.unwrap().user)
}

#[test]
fn tokens_are_valid_as_long_as_everything_is_there() {
    let tokens = tokens();
    let plain = request(&tokens, json!({})).unwrap();
    let user = verify(&tokens, &plain, &[ISSUER], &stored(), now()).unwrap();
    assert_eq!(user.name, "system:serviceaccount:auth-d:sa1");
    assert_eq!(user.uid, "u-sa1");
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:auth-d"]);
    assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("JTI="));

    let refused = |stored: &Fixture, audiences: &[&str], at| {
        verify(&tokens, &plain, audiences, stored, at).unwrap_err()
    };
    assert_eq!(refused(&Fixture::default(), &[ISSUER], now()), "serviceaccounts \"sa1\" not found");
    let again = Fixture::default().with(
        core("serviceaccounts"),
        json!({"metadata": {"namespace": "auth-d", "name": "sa1", "uid": "new"}}),
    );
    assert_eq!(refused(&again, &[ISSUER], now()), "service account UID (new) does not match claim (u-sa1)");
    assert_eq!(
        refused(&stored(), &["foo"], now()),
        format!("token audiences [{ISSUER:?}] is invalid for the target audiences [\"foo\"]")
    );
    let late = now() + SignedDuration::from_secs(3600 + 61);
    assert_eq!(refused(&stored(), &[ISSUER], late), "service account token has expired");
    assert!(verify(&tokens, &plain, &[ISSUER], &stored(), late - SignedDuration::from_secs(1)).is_ok());
    let early = now() - SignedDuration::from_secs(61);
    assert_eq!(refused(&stored(), &[ISSUER], early), "service account token is not valid yet");

    let spec = json!({"boundObjectRef": {"kind": "Secret", "name": "s1"}});
    let of_secret = request(&tokens, spec).unwrap();
    let without = Fixture::default().with(
        core("serviceaccounts"),
        json!({"metadata": {"namespace": "auth-d", "name": "sa1", "uid": "u-sa1"}}),
    );
    assert_eq!(
        verify(&tokens, &of_secret, &[ISSUER], &without, now()).unwrap_err(),
        "service account token has been invalidated"
    );
    let of_pod = request(&tokens, json!({"boundObjectRef": {"kind": "Pod", "name": "p1"}})).unwrap();
    let user = verify(&tokens, &of_pod, &[ISSUER], &stored(), now()).unwrap();
    assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["u-p1"]);
    assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n1"]);
}

#[test]
fn foreign_and_forged_tokens_are_told_apart() {
    let (ours, theirs) = (tokens(), tokens());
    let answer = request(&theirs, json!({})).unwrap();
    let audiences = [ISSUER.to_owned()];
    let token = answer["status"]["token"].as_str().unwrap();
    let foreign = ours.authenticate(token, &audiences, &stored(), now());
    assert_eq!(foreign, Err("invalid signature, no keys found".to_owned()));
    let own = request(&ours, json!({})).unwrap();
    let token = own["status"]["token"].as_str().unwrap();
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (first, rest) = signature.split_at(4);
    let forged = format!("{message}.{}{rest}", if first == "AAAA" { "BBBB" } else { "AAAA" });
    let forged = ours.authenticate(&forged, &audiences, &stored(), now());
    assert_eq!(forged, Err("go-jose/go-jose: error in cryptographic primitive".to_owned()));
    for nonsense in ["", ".", "..", "a.b.c", "e30.e30.", "ü.ü.ü", "a.eyJpc3MiOjF9.b"] {
        assert_eq!(ours.authenticate(nonsense, &audiences, &stored(), now()), Ok(None), "{nonsense}");
    }
}

#[test]
fn tokens_of_secrets_have_no_end_but_need_their_secret() {
    let tokens = tokens();
    let account = json!({"metadata": {"namespace": "auth-d", "name": "sa1", "uid": "u-sa1"}});
    let mut secret = json!({"metadata": {"namespace": "auth-d", "name": "legacy", "uid": "x"}});
    let token = tokens.secret_token(&account, &secret).unwrap();
    secret["data"] = json!({"token": base64::engine::general_purpose::STANDARD.encode(token.expose())});
    let with = |secret: &Value| stored().with(core("secrets"), secret.clone());
    let check = |stored: &Fixture| {
        let later = now() + SignedDuration::from_hours(24 * 3000);
        tokens
            .authenticate(token.expose(), tokens.audiences(), stored, later)
            .map(|found| found.unwrap().user)
    };
    let user = check(&with(&secret)).unwrap();
    assert_eq!((user.uid.as_str(), user.extra.len()), ("u-sa1", 0));
    assert_eq!(check(&stored()).unwrap_err(), "Token has been invalidated");
    secret["data"]["token"] = json!("eA==");
    assert_eq!(check(&with(&secret)).unwrap_err(), "Token does not match server's copy");
}

#[test]
fn others_can_verify_tokens_with_the_published_key() {
    let tokens = tokens();
    let document: Value = serde_json::from_str(&tokens.openid_configuration("192.0.2.2:6443")).unwrap();
    assert_eq!(document["jwks_uri"], "https://192.0.2.2:6443/openid/v1/jwks");
    assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let keys: jsonwebtoken::jwk::JwkSet = serde_json::from_str(&tokens.jwks()).unwrap();
    let answer = request(&tokens, json!({})).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let header = jsonwebtoken::decode_header(token).unwrap();
    assert_eq!(header.typ, None);
    let key = DecodingKey::from_jwk(keys.find(&header.kid.unwrap()).unwrap()).unwrap();
    let mut rules = jsonwebtoken::Validation::new(Algorithm::ES256);
    rules.validate_exp = false;
    rules.set_audience(&[ISSUER]);
    rules.set_issuer(&[ISSUER]);
    assert!(jsonwebtoken::decode::<Value>(token, &key, &rules).is_ok());
}

#[test]
fn nothing_shows_keys_or_tokens() {
    let tokens = tokens();
    assert_eq!(format!("{tokens:?}"), format!("Tokens {{ issuer: {ISSUER:?}, .. }}"));
    assert!(
        Tokens::new(&Secret::new("hunter2"), ISSUER, &[])
            .unwrap_err()
            .to_string()
            .contains("not a private key")
    );
}
