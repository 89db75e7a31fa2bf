//! What a scenario is given, and how it looks at things.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use trellis_infra::client::{Cache, Change, Client};
use trellis_infra::kinds::{Kind, NAMESPACE};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::{Infra, Settings};
use trellis_lab::Lab;

use crate::support::Result;

/// How long anything may take; virtual time is free, and on real time nothing should take long.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// How time passes in a scenario on the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// Virtual, with realistic delays: an hour takes a moment.
    Virtual,
    /// That of the machine, without delays: for scenarios that use sockets.
    Machine,
}

type Run = fn(Cx) -> Pin<Box<dyn Future<Output = Result> + Send>>;

/// A scenario and what it needs.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) run: Run,
    pub(crate) time: Time,
    /// Whether it only makes sense on the lab: a cluster of a certain make, or control over the server.
    pub(crate) lab_only: bool,
    pub(crate) settings: fn(&mut Settings),
}

impl Scenario {
    pub(crate) fn new(name: &str, run: Run) -> Self {
        let name = name.trim_start_matches("scenarios::").to_owned();
        Self { name, run, time: Time::Virtual, lab_only: false, settings: |_| {} }
    }

    /// The same on the machine's time.
    pub(crate) fn on_machine_time(mut self) -> Self {
        self.time = Time::Machine;
        self
    }

    /// The same on the lab only, with a cluster of its own make.
    pub(crate) fn with(mut self, settings: fn(&mut Settings)) -> Self {
        self.lab_only = true;
        self.settings = settings;
        self
    }
}

/// A scenario by the function that runs it, named after its module and itself.
#[macro_export]
macro_rules! scenario {
    ($run:ident) => {
        $crate::context::Scenario::new(concat!(module_path!(), "::", stringify!($run)), |cx| {
            Box::pin($run(cx))
        })
    };
}

/// What a scenario is given.
#[derive(Clone)]
pub(crate) struct Cx {
    /// The cluster.
    pub(crate) infra: Arc<Infra>,
    /// A client of a person with all rights, who is none of the components.
    pub(crate) client: Client,
    /// The same as kube knows it.
    #[allow(dead_code, reason = "for scenarios that need streams")]
    pub(crate) kube: kube::Client,
    /// A namespace of the scenario's own.
    pub(crate) namespace: String,
    /// The API server, where it is a lab.
    pub(crate) lab: Option<Arc<Lab>>,
}

impl Cx {
    pub(crate) async fn new(infra: Arc<Infra>, kube: kube::Client, name: &str) -> Result<Self> {
        const PERSON: trellis_infra::client::Identity =
            trellis_infra::client::Identity { program: "person", user: "person" };
        let client = infra.context().client(PERSON);
        let namespace = name.replace("::", "-").replace('_', "-");
        client.create_if_absent(&NAMESPACE, json!({"metadata": {"name": namespace}})).await?;
        Ok(Self { infra, client, kube, namespace, lab: None })
    }

    /// The same after the cluster has ended and was started anew on the same API server: what was not kept there is
    /// gone.
    pub(crate) async fn restarted(self) -> Result<Self> {
        let Self { infra, kube, namespace, lab, client } = self;
        let lab = lab.ok_or("only what runs on a lab can be started anew")?;
        let mut settings = Settings::clone(&infra.context().settings);
        settings.virtual_start = settings.virtual_start.map(|_| infra.context().clock.now());
        drop(client);
        drop(Arc::into_inner(infra).ok_or("somebody still holds the cluster")?);
        let infra = crate::servers::start_on(&lab, kube.clone(), settings).await?;
        Ok(Self { lab: Some(lab), ..Self::new(Arc::new(infra), kube, &namespace).await? })
    }

    /// A key in the scenario's namespace.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(&self.namespace, name)
    }

    /// Creates an object in the scenario's namespace.
    pub(crate) async fn create(&self, kind: &'static Kind, mut object: Value) -> Result<Value> {
        if kind.namespaced {
            object.set("/metadata/namespace", self.namespace.as_str().into());
        }
        Ok(self.client.create(kind, object).await?)
    }

    /// Waits until an object is as wanted, and gives it.
    pub(crate) async fn until(
        &self,
        kind: &'static Kind,
        key: &Key,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Arc<Value>> {
        let cache = self.client.cache(kind);
        let mut changes = cache.changes();
        let found = async {
            loop {
                if let Some(object) = cache.get(key)
                    && wanted(&object)
                {
                    return object;
                }
                changes.recv().await;
            }
        };
        timeout(PATIENCE, found).await.map_err(|_| {
            let now = cache.get(key).map_or("it is not there".to_owned(), |object| object.to_string());
            format!("{} {key} did not become as wanted: {now}", kind.kind).into()
        })
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, kind: &'static Kind, key: &Key) -> Result {
        let cache = self.client.cache(kind);
        let mut changes = cache.changes();
        let gone = async {
            while cache.get(key).is_some() {
                changes.recv().await;
            }
        };
        let left = || cache.get(key).map(|object| object.to_string()).unwrap_or_default();
        timeout(PATIENCE, gone)
            .await
            .map_err(|_| format!("{} {key} is still there: {}", kind.kind, left()).into())
    }

    /// Waits until an event about an object was written.
    pub(crate) async fn until_event(&self, about: &str, reason: &str) -> Result<Arc<Value>> {
        let cache = self.client.cache(&trellis_infra::kinds::EVENT);
        let mut changes = cache.changes();
        let found = async {
            loop {
                let event = cache.list(&self.namespace).into_iter().find(|event| {
                    event.text("/involvedObject/name") == about && event.text("/reason") == reason
                });
                if let Some(event) = event {
                    return event;
                }
                changes.recv().await;
            }
        };
        timeout(PATIENCE, found).await.map_err(|_| format!("no event {reason} about {about}").into())
    }

    /// Remembers all states of an object from now on.
    pub(crate) async fn follow(&self, kind: &'static Kind, key: &Key) -> History {
        let cache = self.client.cache(kind);
        cache.complete().await;
        History { changes: cache.changes(), key: key.clone(), states: Vec::new(), _cache: cache }
    }
}

/// The states an object went through.
pub(crate) struct History {
    changes: mpsc::UnboundedReceiver<Change>,
    key: Key,
    states: Vec<Arc<Value>>,
    _cache: Arc<Cache>,
}

impl History {
    /// All states so far, oldest first.
    pub(crate) fn states(&mut self) -> &[Arc<Value>] {
        while let Ok(change) = self.changes.try_recv() {
            if change.key() == self.key
                && let Some(state) = change.after
            {
                self.states.push(state);
            }
        }
        &self.states
    }

    /// The texts at a JSON pointer in the order they were there, repetitions left out; an empty one for none.
    pub(crate) fn texts(&mut self, pointer: &str) -> Vec<String> {
        let mut texts: Vec<String> =
            self.states().iter().map(|state| state.text(pointer).to_owned()).collect();
        texts.dedup();
        texts
    }
}
