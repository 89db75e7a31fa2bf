//! Whatever of an install is spoiled, it stops there, and says so.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trellis_infra::kinds::{Kind, NETWORK_POLICY, SECRET, SERVICE, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_simulation::Authority;

use crate::install::Grown;
use crate::stage::CLUSTER;

/// Spoils what masters boot with, whenever it is written.
fn spoil_stubs(grown: &Grown, spoil: impl Fn(&mut Value) + Send + Sync + 'static) {
    let person = grown.world.person.clone();
    tokio::spawn(async move {
        let secrets = person.cache(&SECRET);
        let mut changes = secrets.changes();
        loop {
            for secret in secrets.list(CLUSTER) {
                let data = STANDARD.decode(secret.text("/data/userdata")).unwrap();
                let Ok(mut config) = serde_json::from_slice::<Value>(&data) else { continue };
                if !secret.name().contains("masters") || config["ignition"]["config"]["replace"].is_null() {
                    continue;
                }
                let before = config.clone();
                spoil(&mut config);
                if config != before {
                    let patch = json!({"data": {"userdata": STANDARD.encode(config.to_string())}});
                    person.merge(&SECRET, &Key::new(CLUSTER, secret.name()), &patch).await.unwrap();
                }
            }
            changes.recv().await;
        }
    });
}

/// Lets an object be only what a condition in CEL says, whoever changes it: what is spoiled stays so.
async fn freeze(grown: &Grown, kind: &Kind, condition: &str) {
    let name = json!({"name": "frozen"});
    let path = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({
        "apiGroups": [kind.group], "apiVersions": ["v1"], "resources": [kind.plural], "operations": ["UPDATE"],
    });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": name,
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": condition, "message": "it stays as it is"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": name,
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]},
    });
    for (plural, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let path = format!("{path}/{plural}");
        let body = Some(("application/json", &object));
        grown.world.person.send(http::Method::POST, &path, body).await.unwrap();
    }
}

/// Waits until all machines of the control plane are made, and then spoils something for good.
async fn spoil(grown: &Grown, kind: &'static Kind, name: &str, condition: &str, patch: &Value) {
    let made = async || grown.names(&VM).await.iter().filter(|name| name.contains("masters")).count() == 3;
    grown.until("the machines", made).await;
    freeze(grown, kind, condition).await;
    grown.world.person.merge(kind, &Key::new(CLUSTER, name), patch).await.unwrap();
}

/// Waits until it is said why the install does not get on; what is said.
async fn stopped(grown: &Grown) -> (String, String) {
    let stuck = async || grown.condition("BootstrapComplete").await.text("/message").contains("minutes now");
    grown.within(Duration::from_mins(45), "a reason", stuck).await;
    let said = grown.condition("BootstrapComplete").await;
    assert_eq!(said["status"], "False");
    assert_eq!(grown.condition("InstallComplete").await["reason"], said["reason"]);
    (said.text("/reason").to_owned(), said.text("/message").to_owned())
}

#[tokio::test(start_paused = true)]
async fn another_authority_stops_it_where_configurations_are_fetched() {
    let grown = Grown::start().await;
    let other = STANDARD.encode(Authority::new("another").unwrap().pair.certificate);
    spoil_stubs(&grown, move |config| {
        let source = format!("data:;base64,{other}");
        config["ignition"]["security"]["tls"]["certificateAuthorities"] = json!([{"source": source}]);
    });
    let _stop = grown.look_after(None);
    let (reason, message) = stopped(&grown).await;
    assert_eq!(reason, "ConfigurationsNotFetched", "{message}");
    assert!(message.contains("did not trust the certificate of the machine config server"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn another_token_stops_it_where_configurations_are_fetched() {
    let grown = Grown::start().await;
    spoil_stubs(&grown, |config| {
        for header in config["ignition"]["config"]["replace"]["httpHeaders"].as_array_mut().unwrap() {
            if header["name"] == "Authorization" {
                header["value"] = "Bearer of-another-cluster.x".into();
            }
        }
    });
    let _stop = grown.look_after(None);
    let (reason, message) = stopped(&grown).await;
    assert_eq!(reason, "ConfigurationsNotFetched", "{message}");
    assert!(
        message.contains("in vain for its configuration: its token is not one of this cluster's"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn user_data_that_cannot_be_read_stops_it_where_configurations_are_fetched() {
    let grown = Grown::start().await;
    spoil_stubs(&grown, |config| config["ignition"]["version"] = "9.0.0".into());
    let _stop = grown.look_after(None);
    let (reason, message) = stopped(&grown).await;
    assert_eq!(reason, "ConfigurationsNotFetched", "{message}");
    assert!(
        message.contains("has not asked for its configuration: it cannot read its user data"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_selects_others_stops_it_and_is_named() {
    let grown = Grown::start().await;
    let _stop = grown.look_after(None);
    let condition = "object.metadata.name != 'api-int' || 'nobody' in object.spec.selector";
    let selector = json!({"spec": {"selector": {"nobody": "has-this"}}});
    spoil(&grown, &SERVICE, "api-int", condition, &selector).await;
    let (reason, message) = stopped(&grown).await;
    assert_eq!(reason, "ConfigurationsNotFetched", "{message}");
    assert!(
        message.contains("the Service api-int does not select the machines of the control plane"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_lets_nobody_through_stops_it_and_is_named() {
    let grown = Grown::start().await;
    let _stop = grown.look_after(None);
    let policies = grown.names(&NETWORK_POLICY).await;
    assert!(policies.is_empty(), "it begins with nothing");
    let condition = "!object.metadata.name.contains('allow-cluster') || !has(object.spec.ingress)";
    grown.until("policies", async || !grown.names(&NETWORK_POLICY).await.is_empty()).await;
    let names = grown.names(&NETWORK_POLICY).await;
    let name = names.iter().find(|name| name.contains("allow-cluster")).unwrap().clone();
    let nothing = json!({"spec": {"ingress": null, "egress": null}});
    spoil(&grown, &NETWORK_POLICY, &name, condition, &nothing).await;
    let (reason, message) = stopped(&grown).await;
    assert!(
        message.contains(&format!("the NetworkPolicy {name} is not what it was made as")),
        "{reason}: {message}"
    );
}
