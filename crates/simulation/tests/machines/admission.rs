//! The controllers' own objects pass the webhook and the policies that people's objects have to pass.

use serde_json::{Value, json};
use trellis_engine::admission::review;
use trellis_engine::families::{Family, KKP, OPENSHIFT, TRELLIS};
use trellis_infra::object::Object as _;
use trellis_install::{Settings, objects};
use trellis_runtime::webhook;

use crate::rights::{life_of_kkp, life_of_openshift, life_of_ours};
use crate::stage::{CONTROL, POOL, Stage};

/// A stage on which everything is looked at before it is stored.
async fn guarded(family: &'static Family) -> Stage {
    let stage = Stage::prepare(family).await;
    let settings = Settings { family, ..Settings::default() };
    let world = &stage.world;
    let lab = world.server.as_lab().unwrap();
    lab.mount(&settings.namespace, trellis_install::NAME, |stream| webhook::serve(stream, review));
    for object in objects(&settings) {
        let kind = object.text("/kind");
        let plural = match kind {
            "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
            "ValidatingAdmissionPolicyBinding"
            | "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration" => format!("{}s", kind.to_lowercase()),
            _ => continue,
        };
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        world.person.send(http::Method::POST, &path, Some(("application/json", &object))).await.unwrap();
    }
    stage.go()
}

#[tokio::test(start_paused = true)]
async fn our_own_machines_pass() {
    let stage = guarded(&TRELLIS).await;
    life_of_ours(&stage).await;
    // It is looked at indeed.
    let mut bad = crate::families::pool(1);
    bad.set("/metadata/name", "bad".into());
    bad.set("/metadata/namespace", CONTROL.into());
    bad.set("/spec/template/image/source/registry/url", "nowhere".into());
    let refused = stage.world.person.create(&POOL, bad).await.unwrap_err().to_string();
    assert!(refused.contains("spec.template.image.source.registry.url"), "{refused}");
    let none: Value = json!({"spec": {"cluster": "red"}});
    let other = crate::families::pool(0);
    stage.create(&POOL, other).await;
    let refused =
        stage.world.person.merge(&POOL, &Stage::key("workers"), &none).await.unwrap_err().to_string();
    assert!(refused.contains("a pool cannot move to another cluster"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn kubermatics_machines_pass() {
    life_of_kkp(&guarded(&KKP).await).await;
}

#[tokio::test(start_paused = true)]
async fn openshifts_machines_pass() {
    life_of_openshift(&guarded(&OPENSHIFT).await).await;
}
