//! Connections follow their credentials.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trellis_lab::{Lab, Options};
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::{Awaited, Keeper, Source, State};
use trellis_runtime::{Key, Resource, Site};

use crate::support::{CONFIG_MAP, ConfigMap, key, map, site};

const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

/// A lab with a socket, and the kubeconfig of its administrator.
async fn listening(text: &str) -> (Lab, String) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut lab = Lab::start(Options::default()).await.unwrap();
    let kubeconfig = lab.listen(0).await.unwrap().kubeconfig;
    let inside = site(&lab);
    // The namespace is made by a controller.
    for _ in 0..500 {
        if inside.create::<Value>(&CONFIG_MAP, "default", &map("a", text)).await.is_ok() {
            return (lab, kubeconfig.expose().to_owned());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lab is not ready");
}

async fn reads(site: &Site, text: &str) {
    for _ in 0..3000 {
        if site.get::<ConfigMap>(&CONFIG_MAP, &key("a")).await.is_ok_and(|map| map.data.text == text) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("`{text}` is never read");
}

#[tokio::test]
async fn a_file_is_followed_and_a_bad_one_is_not() {
    let (_first, one) = listening("one").await;
    let (_second, two) = listening("two").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, &one).unwrap();
    let source = Source::File { path: path.clone(), context: None };
    let followed = source.connect("infra", Manners::default()).await.unwrap();
    let site = followed.site.clone();
    reads(&site, "one").await;
    let follow = tokio::spawn(followed.every(Duration::from_millis(20)).follow());
    std::fs::write(&path, "no kubeconfig").unwrap();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        reads(&site, "one").await;
    }
    std::fs::write(&path, &two).unwrap();
    reads(&site, "two").await;
    follow.abort();
}

#[tokio::test]
async fn a_secret_of_another_site_is_followed() {
    let (keeper, _) = listening("keeper").await;
    let (_first, one) = listening("one").await;
    let (_second, two) = listening("two").await;
    let control = site(&keeper);
    let secret =
        |text: &str| json!({"metadata": {"name": "s"}, "data": {"kubeconfig": STANDARD.encode(text)}});
    let source = Source::Kept {
        site: control.clone(),
        keeper: Keeper::Secret,
        key: Key::new("default", "s"),
        fields: vec!["kubeconfig".to_owned(), "value".to_owned()],
        context: None,
    };
    let missing = source.clone().connect("tenant", Manners::default()).await.unwrap_err();
    assert_eq!(missing.to_string(), "the Secret default/s has no kubeconfig under `kubeconfig` or `value`");
    control.create::<Value>(&SECRET, "default", &secret(&one)).await.unwrap();
    let followed = source.connect("tenant", Manners::default()).await.unwrap();
    assert!(!format!("{followed:?}").contains("client-key"));
    let tenant = followed.site.clone();
    reads(&tenant, "one").await;
    let follow = tokio::spawn(followed.follow());
    control.merge_patch::<Value>(&SECRET, &key("s"), &secret(&two)).await.unwrap();
    reads(&tenant, "two").await;
    follow.abort();
}

#[tokio::test]
async fn a_kubeconfig_that_comes_later_is_taken_and_a_bad_one_is_told() {
    let (keeper, _) = listening("keeper").await;
    let (_tenant, kubeconfig) = listening("tenant").await;
    let control = site(&keeper);
    let source = Source::Kept {
        site: control.clone(),
        keeper: Keeper::ConfigMap,
        key: key("access"),
        fields: vec!["kubeconfig".to_owned()],
        context: None,
    };
    let awaited = Awaited::new(source, "infra", Manners::default());
    let mut state = awaited.state();
    let running = tokio::spawn(awaited.run());
    let told = state.wait_for(|state| matches!(state, State::Failed(_))).await.unwrap().clone();
    let missing = "the ConfigMap default/access has no kubeconfig under `kubeconfig`";
    assert_eq!(told.trouble().unwrap().to_string(), missing);
    let map = |text: &str| json!({"metadata": {"name": "access"}, "data": {"kubeconfig": text}});
    control.create::<Value>(&CONFIG_MAP, "default", &map("token: hunter2 {")).await.unwrap();
    let told = state.wait_for(|state| state.trouble().is_some_and(|it| it.to_string() != missing)).await;
    let bad = told.unwrap().trouble().unwrap().to_string();
    assert_eq!(bad, "the ConfigMap default/access has no usable context");
    // The watch tells of the good one: nobody looks in between.
    control.merge_patch::<Value>(&CONFIG_MAP, &key("access"), &map(&kubeconfig)).await.unwrap();
    let connected = state.wait_for(|state| state.site().is_some()).await.unwrap().clone();
    let infra = connected.site().unwrap();
    reads(infra, "tenant").await;
    control.merge_patch::<Value>(&CONFIG_MAP, &key("access"), &map("nothing")).await.unwrap();
    state.wait_for(|state| state.site().is_some() && state.trouble().is_some()).await.unwrap();
    reads(infra, "tenant").await;
    running.abort();
}
