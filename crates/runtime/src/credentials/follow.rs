//! Connections that come when their credentials do, and follow them from then on.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use super::{CredentialsError, Followed, LOOK, Source};
use crate::client::{Manners, Selection, Site};
use crate::{Cache, Meta, Narrow, narrow};

/// How far a connection is.
#[derive(Debug, Clone)]
pub enum State {
    /// Its credentials were not looked at yet.
    Looking,
    /// There is none, and why.
    Failed(CredentialsError),
    /// There is one. Newer credentials that are of no use leave it as it was.
    Connected(Site, Option<CredentialsError>),
}

impl State {
    /// The connection, if there is one.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Self::Connected(site, _) => Some(site),
            Self::Looking | Self::Failed(_) => None,
        }
    }

    /// What is wrong with the credentials.
    pub fn trouble(&self) -> Option<&CredentialsError> {
        match self {
            Self::Looking => None,
            Self::Failed(error) => Some(error),
            Self::Connected(_, trouble) => trouble.as_ref(),
        }
    }
}

/// A connection that comes when its credentials do.
#[derive(Debug)]
pub struct Awaited {
    source: Source,
    name: String,
    manners: Manners,
    every: Duration,
    followed: Option<Followed>,
    state: watch::Sender<State>,
}

impl Awaited {
    /// A connection from a source that may not be there yet.
    pub fn new(source: Source, name: &str, manners: Manners) -> Self {
        let state = watch::Sender::new(State::Looking);
        Self { source, name: name.to_owned(), manners, every: LOOK, followed: None, state }
    }

    /// A connection that is there, and is followed.
    pub(super) fn of(followed: Followed) -> Self {
        let state = watch::Sender::new(State::Connected(followed.site.clone(), None));
        Self {
            source: followed.source.clone(),
            name: followed.site.name().to_owned(),
            manners: Manners::default(),
            every: followed.every,
            followed: Some(followed),
            state,
        }
    }

    /// How far it is, and when that changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Looks at the credentials, now and whenever they change: objects are watched, files looked at every few seconds.
    /// Never ends.
    pub async fn run(mut self) {
        match self.source.clone() {
            Source::InCluster => {
                self.look().await;
                std::future::pending::<()>().await;
            }
            Source::File { .. } => loop {
                self.look().await;
                tokio::time::sleep(self.every).await;
            },
            Source::Kept { site, keeper, key, .. } => {
                let fields = format!("metadata.name={}", key.name());
                let selection = Selection::namespace(key.namespace()).fields(&fields);
                let cache = Cache::<Watched>::new(keeper.resource(), selection);
                let (changed, changes) = watch::channel(());
                cache.listen(move |_| {
                    changed.send_replace(());
                });
                let feed = cache.clone();
                tokio::select! {
                    () = feed.run(&site, 0) => {}
                    () = self.attend(&cache, changes) => {}
                }
            }
        }
    }

    async fn attend<T: Narrow>(&mut self, cache: &Cache<T>, mut changes: watch::Receiver<()>) {
        cache.synced().await;
        loop {
            changes.borrow_and_update();
            self.look().await;
            // A server that does not answer may do so later; everything else takes a change.
            let passes = self.state.borrow().trouble().is_some_and(may_pass);
            tokio::select! {
                () = tokio::time::sleep(LOOK), if passes => {}
                changed = changes.changed() => if changed.is_err() {
                    return;
                }
            }
        }
    }

    async fn look(&mut self) {
        let state = match &mut self.followed {
            Some(followed) => {
                let trouble = followed.look().await.err();
                if let Some(error) = &trouble {
                    tracing::warn!(site = self.name, %error, "new credentials are of no use; the old ones are kept");
                }
                State::Connected(followed.site.clone(), trouble)
            }
            None => match self.source.clone().connect(&self.name, self.manners).await {
                Ok(followed) => {
                    let site = followed.site.clone();
                    self.followed = Some(followed);
                    State::Connected(site, None)
                }
                Err(error) => State::Failed(error),
            },
        };
        let told = |state: &State| (state.site().is_some(), state.trouble().cloned());
        self.state.send_if_modified(|now| {
            let news = matches!(now, State::Looking) || told(now) != told(&state);
            *now = state;
            news
        });
    }
}

/// Whether a trouble may be over without anybody changing the credentials.
fn may_pass(error: &CredentialsError) -> bool {
    matches!(error, CredentialsError::Refused { .. } | CredentialsError::Unread { .. })
}

/// What is kept of an object with a kubeconfig: which version of it was told of.
#[derive(Deserialize)]
struct Watched {
    metadata: Meta,
}

impl PartialEq for Watched {
    /// Any change may be one of the kubeconfig.
    fn eq(&self, other: &Self) -> bool {
        (&self.metadata.uid, self.metadata.resource_version)
            == (&other.metadata.uid, other.metadata.resource_version)
    }
}

narrow!(Watched);
