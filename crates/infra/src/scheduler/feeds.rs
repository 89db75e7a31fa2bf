//! What the scheduler reads, and the changes of it.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::volumes::Storage;
use crate::client::{Cache, Change};
use crate::object::Key;

/// What the scheduler reads.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) pods: Arc<Cache>,
    pub(super) nodes: Arc<Cache>,
    pub(super) namespaces: Arc<Cache>,
    pub(super) claims: Arc<Cache>,
    pub(super) volumes: Arc<Cache>,
    pub(super) classes: Arc<Cache>,
    pub(super) budgets: Arc<Cache>,
}

impl Known {
    /// All of it.
    pub(super) fn all(&self) -> [&Cache; 7] {
        [&self.pods, &self.nodes, &self.namespaces, &self.claims, &self.volumes, &self.classes, &self.budgets]
    }
}

impl Storage for Known {
    fn claim(&self, key: &Key) -> Option<Arc<Value>> {
        self.claims.get(key)
    }

    fn volume(&self, name: &str) -> Option<Arc<Value>> {
        self.volumes.get(&Key::cluster(name))
    }

    fn volumes(&self) -> Vec<Arc<Value>> {
        self.volumes.list("")
    }

    fn class(&self, name: &str) -> Option<Arc<Value>> {
        self.classes.get(&Key::cluster(name))
    }
}

/// The changes that come in.
pub(super) struct Feeds {
    pub(super) nodes: UnboundedReceiver<Change>,
    pub(super) namespaces: UnboundedReceiver<Change>,
    pub(super) pods: UnboundedReceiver<Change>,
    pub(super) claims: UnboundedReceiver<Change>,
    pub(super) volumes: UnboundedReceiver<Change>,
    pub(super) classes: UnboundedReceiver<Change>,
}

/// One change.
pub(super) enum News {
    Node(Change),
    Namespace(Change),
    Pod(Change),
    Claim(Change),
    Storage,
}

impl News {
    /// What it is about, for logs.
    pub(super) fn about(&self) -> String {
        match self {
            Self::Node(change) | Self::Namespace(change) | Self::Pod(change) | Self::Claim(change) => {
                change.key().to_string()
            }
            Self::Storage => "storage".to_owned(),
        }
    }
}

impl Feeds {
    /// The next change that is there already: nodes before pods, so that nobody is refused for want of them.
    pub(super) fn now(&mut self) -> Option<News> {
        let node = self.nodes.try_recv().ok().map(News::Node);
        let node = node.or_else(|| self.namespaces.try_recv().ok().map(News::Namespace));
        let claim = node.or_else(|| self.claims.try_recv().ok().map(News::Claim));
        let volume = claim.or_else(|| self.volumes.try_recv().ok().map(|_| News::Storage));
        let class = volume.or_else(|| self.classes.try_recv().ok().map(|_| News::Storage));
        class.or_else(|| self.pods.try_recv().ok().map(News::Pod))
    }

    /// The next change, once there is one.
    pub(super) async fn next(&mut self) -> Option<News> {
        tokio::select! {
            biased;
            change = self.nodes.recv() => change.map(News::Node),
            change = self.namespaces.recv() => change.map(News::Namespace),
            change = self.claims.recv() => change.map(News::Claim),
            change = self.volumes.recv() => change.map(|_| News::Storage),
            change = self.classes.recv() => change.map(|_| News::Storage),
            change = self.pods.recv() => change.map(News::Pod),
        }
    }
}
