//! A lab in virtual time, and what the tests keep on it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use trellis_lab::clock::TokioClock;
use trellis_lab::{Controllers, Lab, Options};
use trellis_runtime::client::Manners;
use trellis_runtime::{Cache, Clock, Keep, Key, Meta, Resource, Selection, Site, narrow};

pub(crate) const CONFIG_MAP: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
pub(crate) const START: &str = "2026-01-01T00:00:00Z";

/// A lab, and a site on it.
pub(crate) struct World {
    pub(crate) lab: Lab,
    pub(crate) site: Site,
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) async fn new() -> Self {
        let start = START.parse().unwrap();
        let options = Options {
            seed: Some(1),
            clock: Arc::new(TokioClock::starting_at(start)),
            controllers: Controllers::Embedded,
            ..Options::default()
        };
        let lab = Lab::start(options).await.unwrap();
        let site = site(&lab);
        let world = Self { lab, site, clock: Clock::from(start) };
        until("the namespace is there", || async {
            world.site.find::<Value>(&NAMESPACE, &Key::cluster("default")).await.unwrap().is_some()
        })
        .await;
        world
    }

    /// A cache of the config maps of a selection that is kept true by a task.
    pub(crate) async fn maps(&self, selection: Selection) -> Cache<ConfigMap> {
        let cache = Cache::new(CONFIG_MAP, selection);
        let (feed, site) = (cache.clone(), self.site.clone());
        tokio::spawn(async move { feed.run(&site, 1).await });
        within(cache.synced()).await;
        cache
    }

    /// Another view of the same server, whose requests are counted apart.
    pub(crate) fn other(&self) -> Site {
        site(&self.lab)
    }
}

const NAMESPACE: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

pub(crate) fn site(lab: &Lab) -> Site {
    Site::with("lab", kube::Client::new(lab.service(), "default"), Manners::default())
}

pub(crate) struct Kept;

impl Keep for Kept {
    const LABELS: &'static [&'static str] = &["app"];
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: Meta<Kept>,
    #[serde(default)]
    pub(crate) data: Data,
}
narrow!(ConfigMap);

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub(crate) struct Data {
    #[serde(default)]
    pub(crate) text: String,
}

impl ConfigMap {
    pub(crate) fn summary(&self) -> String {
        format!("{}={}", self.metadata.name(), self.data.text)
    }
}

pub(crate) fn map(name: &str, text: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "x"}}, "data": {"text": text}})
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// Waits, but not for ever.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_mins(10), future).await.expect("it takes too long")
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_mins(10), wait).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

/// What a cache holds, in a line.
pub(crate) fn contents(cache: &Cache<ConfigMap>) -> Vec<String> {
    let own = |map: &ConfigMap| map.metadata.labels.get("app").is_some();
    cache.filter(own).iter().map(|map| map.summary()).collect()
}
