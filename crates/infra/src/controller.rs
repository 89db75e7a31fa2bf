//! The loop every controller is driven by.
//!
//! Changes in caches become keys; a key is looked at once however many changes name it, by one worker at a time; a
//! look that fails is repeated later. The order is first come, first served, so that equal runs are equal.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::{FutureExt as _, future};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::client::{ApiError, Cache, Change};
use crate::object::Key;

/// How many keys of one controller are looked at together.
const WORKERS: usize = 64;
/// The first wait after a failure; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// How often a look that was overtaken is repeated at once.
const AT_ONCE: u32 = 8;
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What comes after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Done,
    /// Another look after a while, unless something changes before.
    After(Duration),
}

/// What a look comes to.
pub type Looked = Result<Next, ApiError>;

/// Keeps some objects in order.
pub trait Controller: Send + Sync + 'static {
    /// What it is called in logs.
    const NAME: &'static str;

    /// What it wants to know of.
    fn watches(&self) -> Vec<Watch>;

    /// Keys to look at for reasons no cache knows of, such as what happens to a machine; asked for once.
    fn pokes(&self) -> Option<mpsc::UnboundedReceiver<Key>> {
        None
    }

    /// Looks at what a key stands for as it is now, and does the next thing that has to be done.
    fn look(&self, key: &Key) -> impl Future<Output = Looked> + Send;
}

/// The keys a change names.
type Names = Box<dyn Fn(&Change) -> Vec<Key> + Send + Sync>;

/// A cache whose changes name keys to look at.
pub struct Watch {
    cache: Arc<Cache>,
    keys: Names,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").field("kind", &self.cache.kind().kind).finish_non_exhaustive()
    }
}

impl Watch {
    /// Each object of the cache is a key of its own.
    pub fn each(cache: &Arc<Cache>) -> Self {
        Self::mapped(cache, |change| vec![change.key()])
    }

    /// Nothing to look at, but all of it has to be known before the first look.
    pub fn known(cache: &Arc<Cache>) -> Self {
        Self::mapped(cache, |_| Vec::new())
    }

    /// A change names the keys `keys` says.
    pub fn mapped(cache: &Arc<Cache>, keys: impl Fn(&Change) -> Vec<Key> + Send + Sync + 'static) -> Self {
        Self { cache: Arc::clone(cache), keys: Box::new(keys) }
    }

    /// A change names the controller of the object, if that is of this kind.
    pub fn owners(cache: &Arc<Cache>, kind: &'static str) -> Self {
        Self::mapped(cache, move |change| {
            use crate::object::Object as _;
            let object = change.object();
            let owner = object.controller().filter(|owner| owner["kind"] == kind);
            owner
                .and_then(|owner| owner["name"].as_str())
                .map(|name| Key::new(object.namespace(), name))
                .into_iter()
                .collect()
        })
    }
}

/// Does something that one object must not be able to end everything with: a panic in it is told and comes to nothing.
pub(crate) fn unharmed<T>(
    who: &'static str,
    about: &dyn std::fmt::Display,
    act: impl FnOnce() -> T,
) -> Option<T> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(act));
    if done.is_err() {
        tracing::error!(who, %about, "what was done about an object ended in a panic");
    }
    done.ok()
}

/// Drives a controller until the task is dropped.
pub async fn run<C: Controller>(controller: Arc<C>) {
    let (sender, keys) = mpsc::unbounded_channel();
    let mut feeds = tokio::task::JoinSet::new();
    let watches = controller.watches();
    // Nobody decides anything before everything is known.
    future::join_all(watches.iter().map(|watch| watch.cache.complete())).await;
    for watch in watches {
        let sender = sender.clone();
        let mut changes = watch.cache.changes();
        feeds.spawn(async move {
            while let Some(change) = changes.recv().await {
                // A bug in a mapping must not end the watch.
                let Some(keys) = unharmed(C::NAME, &change.key(), || (watch.keys)(&change)) else { continue };
                for key in keys {
                    if sender.send(key).is_err() {
                        return;
                    }
                }
            }
        });
    }
    if let Some(mut pokes) = controller.pokes() {
        feeds.spawn(async move {
            while let Some(key) = pokes.recv().await {
                if sender.send(key).is_err() {
                    return;
                }
            }
        });
    }
    let driven = drive(&*controller, keys);
    tokio::pin!(driven);
    loop {
        tokio::select! {
            biased;
            () = &mut driven => return,
            Some(ended) = feeds.join_next() => {
                tracing::error!(controller = C::NAME, ?ended, "a watch of a controller has ended");
            }
        }
    }
}

async fn drive<C: Controller>(controller: &C, mut keys: mpsc::UnboundedReceiver<Key>) {
    let mut queue = Queue::default();
    let mut looks = FuturesUnordered::new();
    loop {
        while let Ok(key) = keys.try_recv() {
            queue.add(key);
        }
        queue.wake(Instant::now());
        while looks.len() < WORKERS
            && let Some(key) = queue.take()
        {
            looks.push(async move {
                // A bug in one look must not end the others, be it before the first time it waits or after.
                let looked = AssertUnwindSafe(async { controller.look(&key).await }).catch_unwind().await;
                (key, looked)
            });
        }
        tokio::select! {
            biased;
            Some((key, looked)) = looks.next() => match looked {
                Ok(Ok(next)) => queue.done(key, next),
                Ok(Err(failure)) => {
                    tracing::debug!(controller = C::NAME, %key, %failure, "to be tried again");
                    queue.failed(key, failure.is_conflict());
                }
                Err(_) => {
                    tracing::error!(controller = C::NAME, %key, "a look ended in a panic");
                    queue.failed(key, false);
                }
            },
            key = keys.recv() => match key {
                Some(key) => queue.add(key),
                None => return,
            },
            () = queue.due() => {}
        }
    }
}

/// The keys to look at, each at most once.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Key>,
    queued: HashSet<Key>,
    /// Keys somebody looks at now; true when they have to be looked at again after that.
    busy: HashMap<Key, bool>,
    later: BinaryHeap<Reverse<(Instant, Key)>>,
    /// When a key is due: entries of `later` that say something else are void.
    due: HashMap<Key, Instant>,
    failures: HashMap<Key, u32>,
}

impl Queue {
    fn add(&mut self, key: Key) {
        self.due.remove(&key);
        if let Some(again) = self.busy.get_mut(&key) {
            *again = true;
        } else if self.queued.insert(key.clone()) {
            self.waiting.push_back(key);
        }
    }

    fn add_after(&mut self, key: Key, wait: Duration) {
        if self.queued.contains(&key) {
            return;
        }
        // What is centuries away never comes.
        let Some(at) = Instant::now().checked_add(wait) else { return };
        if self.due.get(&key).is_none_or(|due| *due > at) {
            self.due.insert(key.clone(), at);
            self.later.push(Reverse((at, key)));
        }
    }

    /// Queues what is due.
    fn wake(&mut self, now: Instant) {
        let mut ready = BTreeSet::new();
        while let Some(Reverse((at, _))) = self.later.peek()
            && *at <= now
            && let Some(Reverse((at, key))) = self.later.pop()
        {
            if self.due.get(&key) == Some(&at) {
                ready.insert((at, key));
            }
        }
        for (_, key) in ready {
            self.add(key);
        }
    }

    /// Waits until something is due.
    async fn due(&self) {
        match self.later.peek() {
            Some(Reverse((at, _))) => sleep_until(*at).await,
            None => future::pending().await,
        }
    }

    fn take(&mut self) -> Option<Key> {
        let key = self.waiting.pop_front()?;
        self.queued.remove(&key);
        self.busy.insert(key.clone(), false);
        Some(key)
    }

    fn done(&mut self, key: Key, next: Next) {
        self.failures.remove(&key);
        if self.busy.remove(&key) == Some(true) {
            self.add(key);
        } else if let Next::After(wait) = next {
            self.add_after(key, wait);
        }
    }

    /// A look failed. Whoever was overtaken by another writer looks again at once, since the news are on their way; a
    /// failure that repeats itself waits longer and longer.
    fn failed(&mut self, key: Key, overtaken: bool) {
        let again = self.busy.remove(&key) == Some(true);
        let failures = self.failures.entry(key.clone()).or_default();
        let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(*failures)).min(LONGEST_WAIT);
        *failures += 1;
        if again && *failures == 1 || overtaken && *failures <= AT_ONCE {
            self.add(key);
        } else {
            self.add_after(key, wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::cluster(name)
    }

    struct Faulty {
        cache: Arc<Cache>,
        seen: mpsc::UnboundedSender<String>,
    }

    impl Controller for Faulty {
        const NAME: &'static str = "faulty";

        fn watches(&self) -> Vec<Watch> {
            vec![Watch::mapped(&self.cache, |change| {
                assert!(change.key().name != "bad", "a bug");
                vec![change.key()]
            })]
        }

        async fn look(&self, key: &Key) -> Looked {
            let _ = self.seen.send(key.name.clone());
            Ok(Next::Done)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_cannot_be_mapped_does_not_end_the_watch() {
        let cache = Arc::new(Cache::new(&crate::kinds::NODE));
        let node = |name: &str, version: &str| serde_json::json!({"metadata": {"name": name, "resourceVersion": version}});
        cache.learn_all(vec![node("bad", "1"), node("good", "2")], 2);
        let (seen, mut looks) = mpsc::unbounded_channel();
        let mut task = tokio::task::JoinSet::new();
        task.spawn(run(Arc::new(Faulty { cache: Arc::clone(&cache), seen })));
        assert_eq!(looks.recv().await.as_deref(), Some("good"));
        cache.learn(node("later", "3"));
        assert_eq!(looks.recv().await.as_deref(), Some("later"));
    }

    /// Cannot look at one object.
    struct Frail {
        cache: Arc<Cache>,
        seen: mpsc::UnboundedSender<(String, Instant)>,
    }

    impl Controller for Frail {
        const NAME: &'static str = "frail";

        fn watches(&self) -> Vec<Watch> {
            vec![Watch::each(&self.cache)]
        }

        async fn look(&self, key: &Key) -> Looked {
            let _ = self.seen.send((key.name.clone(), Instant::now()));
            assert!(key.name != "bad", "a bug");
            Ok(Next::Done)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_panics_is_repeated_later_and_stops_nobody() {
        let cache = Arc::new(Cache::new(&crate::kinds::NODE));
        let node = |name: &str, version: &str| serde_json::json!({"metadata": {"name": name, "resourceVersion": version}});
        cache.learn_all(vec![node("bad", "1"), node("good", "2")], 2);
        let (seen, mut looks) = mpsc::unbounded_channel();
        let mut task = tokio::task::JoinSet::new();
        task.spawn(run(Arc::new(Frail { cache: Arc::clone(&cache), seen })));
        let mut next = async || looks.recv().await.unwrap();
        let (first, start) = next().await;
        assert_eq!((first.as_str(), next().await.0.as_str()), ("bad", "good"));
        for wait in [5, 15, 35] {
            let (again, at) = next().await;
            assert_eq!((again.as_str(), at - start), ("bad", Duration::from_millis(wait)));
        }
        cache.learn(node("later", "3"));
        assert_eq!(next().await.0, "later");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_busy_once() {
        let mut queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("b"));
        queue.add(key("a"));
        assert_eq!(queue.take(), Some(key("a")));
        queue.add(key("a"));
        assert_eq!(queue.take(), Some(key("b")));
        assert_eq!(queue.take(), None);
        queue.done(key("a"), Next::Done);
        assert_eq!(queue.take(), Some(key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_and_longer() {
        let mut queue = Queue::default();
        let start = Instant::now();
        for _ in 0..3 {
            queue.add(key("a"));
            queue.take();
            queue.failed(key("a"), false);
            queue.due().await;
            queue.wake(Instant::now());
        }
        assert_eq!(start.elapsed(), Duration::from_millis(5 + 10 + 20));
        assert_eq!(queue.take(), Some(key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn news_replace_a_later_look() {
        let mut queue = Queue::default();
        queue.add(key("a"));
        queue.take();
        queue.done(key("a"), Next::After(Duration::from_secs(9)));
        queue.add(key("a"));
        assert_eq!(queue.take(), Some(key("a")));
        queue.done(key("a"), Next::Done);
        tokio::time::advance(Duration::from_secs(10)).await;
        queue.wake(Instant::now());
        assert_eq!(queue.take(), None);
    }
}
