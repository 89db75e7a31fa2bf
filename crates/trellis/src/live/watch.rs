//! Kinds kept true by watches.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use trellis_engine::families::Object;
use trellis_runtime::client::Verb;
use trellis_runtime::{Cache, Site};

use super::connect::{Asked, Connected};
use super::find::{Estate, Kind, Thing, Wanted};
use crate::exit::Failure;

/// How long news are collected before they are shown: several come together.
const TOGETHER: Duration = Duration::from_millis(100);

/// Objects of some kinds, watched.
pub(crate) struct Watched {
    site: Site,
    caches: Vec<(Kind, Cache<Object>)>,
    news: watch::Receiver<()>,
    /// The watches; they end with this.
    _tasks: JoinSet<()>,
}

impl Watched {
    /// Watches objects of these kinds, once the user's right to do so is known, and waits until all are known.
    pub(crate) async fn start(connected: &Connected, wanted: &[Wanted]) -> Result<Self, Failure> {
        let mut tasks = JoinSet::new();
        let mut caches = Vec::new();
        let (tell, mut news) = watch::channel(());
        for (kind, selection) in wanted {
            let asked = Asked::new(Verb::Watch, &kind.resource, &selection.namespace, "");
            connected.require(asked).await?;
            let cache = Cache::<Object>::new(kind.resource, selection.clone());
            let told = tell.clone();
            cache.listen(move |_| told.send_replace(()));
            let (feed, site) = (cache.clone(), connected.site.clone());
            tasks.spawn(async move { feed.run(&site, 0).await });
            caches.push((*kind, cache));
        }
        for (_, cache) in &caches {
            cache.synced().await;
        }
        let site = connected.site.clone();
        tasks.spawn(async move {
            let _keep = tell;
            site.attend().await;
        });
        news.mark_unchanged();
        Ok(Self { site: connected.site.clone(), caches, news, _tasks: tasks })
    }

    /// What there is now.
    pub(crate) fn estate(&self) -> Estate {
        let things = |(kind, cache): &(Kind, Cache<Object>)| {
            let kind = *kind;
            cache.all().into_iter().map(move |object| Thing { kind, object })
        };
        Estate { things: self.caches.iter().flat_map(things).collect() }
    }

    /// Waits for news, but no longer than until then.
    pub(crate) async fn news(&mut self, until: Instant) {
        let changed = async {
            // The sender lives as long as the watches.
            if self.news.changed().await.is_ok() {
                tokio::time::sleep(TOGETHER).await;
                self.news.mark_unchanged();
            }
        };
        let _ = tokio::time::timeout_at(until, changed).await;
    }

    /// What is said when what is shown may be old.
    pub(crate) fn silence(&self) -> Option<&'static str> {
        (!self.site.is_up()).then_some("the server does not answer; this is what was last seen")
    }
}
