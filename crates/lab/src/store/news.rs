//! How those who wait are told: watchers of what they may see, writers of what is safe.
//!
//! A resource can have thousands of watchers, and each is told of every write. So a watcher leaves its waker
//! once and not for every event, and whether there is something new is one number to look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use super::StoreError;

/// The newest version of a resource that may be seen, and who wants to know when it grows.
#[derive(Debug)]
pub(super) struct News {
    version: AtomicU64,
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    wakers: Vec<Option<Waker>>,
    /// The places in `wakers` that nobody has.
    free: Vec<usize>,
}

impl News {
    pub(super) fn beginning_at(version: u64) -> Arc<Self> {
        Arc::new(Self { version: AtomicU64::new(version), listeners: Mutex::default() })
    }

    /// Tells everybody that everything up to `version` may be seen.
    pub(super) fn tell(&self, version: u64) {
        if self.version.fetch_max(version, Ordering::AcqRel) >= version {
            return;
        }
        // Woken outside of the lock: whoever is woken may come back to it.
        let woken: Vec<Waker> = self.listeners.lock().wakers.iter().flatten().cloned().collect();
        woken.iter().for_each(Waker::wake_by_ref);
    }

    pub(super) fn subscribe(self: &Arc<Self>) -> Subscription {
        let mut listeners = self.listeners.lock();
        let place = listeners.free.pop().unwrap_or_else(|| {
            listeners.wakers.push(None);
            listeners.wakers.len() - 1
        });
        drop(listeners);
        Subscription { news: Arc::clone(self), place }
    }
}

/// Says how far a resource may be seen, and wakes a task whenever that grows.
#[derive(Debug)]
pub struct Subscription {
    news: Arc<News>,
    place: usize,
}

impl Subscription {
    /// The newest version of the resource that may be seen.
    pub fn version(&self) -> u64 {
        self.news.version.load(Ordering::Acquire)
    }

    /// From now on `waker` is woken whenever the version grows. To miss nothing, look at the version after this.
    pub fn listen(&self, waker: &Waker) {
        if let Some(place) = self.news.listeners.lock().wakers.get_mut(self.place) {
            *place = Some(waker.clone());
        }
    }

    /// Waits until `version` may be seen.
    pub async fn reaches(&self, version: u64) {
        std::future::poll_fn(|context| {
            self.listen(context.waker());
            if self.version() >= version { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut listeners = self.news.listeners.lock();
        let left = listeners.wakers.get_mut(self.place).and_then(Option::take);
        listeners.free.push(self.place);
        drop(listeners);
        // The last waker of a task takes the task with it, which may hold other subscriptions.
        drop(left);
    }
}

/// How far the store is safe on disk, and who waits for it.
#[derive(Debug)]
pub(super) struct Safety {
    version: AtomicU64,
    lost: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    writers: Vec<(u64, Waker)>,
    /// Why nothing can be written any more, once that happened.
    failure: Option<String>,
}

impl Safety {
    pub(super) fn beginning_at(version: u64) -> Self {
        Self { version: AtomicU64::new(version), lost: AtomicBool::new(false), waiting: Mutex::default() }
    }

    /// The newest version that is safe.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Tells those who wait for it that everything up to `version` is safe.
    pub(super) fn reach(&self, version: u64) {
        self.version.fetch_max(version, Ordering::AcqRel);
        let mut waiting = self.waiting.lock();
        let mut woken = Vec::with_capacity(waiting.writers.len());
        waiting.writers.retain_mut(|(wanted, waker)| {
            let waits = *wanted > version;
            if !waits {
                woken.push(waker.clone());
            }
            waits
        });
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Tells everybody that nothing more can become safe.
    pub(super) fn fail(&self, why: &str) {
        let mut waiting = self.waiting.lock();
        // The first reason is the one that matters.
        waiting.failure.get_or_insert_with(|| why.to_owned());
        self.lost.store(true, Ordering::Release);
        let woken = std::mem::take(&mut waiting.writers);
        drop(waiting);
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// Fails once nothing more can become safe.
    pub(super) fn not_lost(&self) -> Result<(), StoreError> {
        if self.lost.load(Ordering::Acquire) {
            return Err(StoreError::Lost(self.waiting.lock().failure.clone().unwrap_or_default()));
        }
        Ok(())
    }

    /// Waits until `version` is safe. Fails when that can never be.
    pub(super) async fn settled(&self, version: u64) -> Result<(), StoreError> {
        if self.version() >= version {
            return Ok(());
        }
        std::future::poll_fn(|context| {
            let mut waiting = self.waiting.lock();
            // Looked at under the lock, so that nothing happens between looking and leaving the waker.
            if self.version() >= version {
                return Poll::Ready(Ok(()));
            }
            if self.lost.load(Ordering::Acquire) {
                return Poll::Ready(Err(StoreError::Lost(waiting.failure.clone().unwrap_or_default())));
            }
            let known =
                |(wanted, waker): &(u64, Waker)| *wanted == version && waker.will_wake(context.waker());
            if !waiting.writers.iter().any(known) {
                waiting.writers.push((version, context.waker().clone()));
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_is_left_once_and_woken_for_every_version() {
        let news = News::beginning_at(3);
        let (first, second) = (news.subscribe(), news.subscribe());
        let counted = Arc::new(Counted::default());
        first.listen(&Arc::clone(&counted).into());
        news.tell(4);
        news.tell(4);
        news.tell(7);
        assert_eq!((first.version(), counted.0.load(Ordering::Relaxed)), (7, 2));
        drop(first);
        news.tell(8);
        assert_eq!(counted.0.load(Ordering::Relaxed), 2, "who is gone is not woken");
        let third = news.subscribe();
        assert_eq!((third.place, second.place), (0, 1), "a place is given again");
    }

    #[tokio::test]
    async fn writers_wait_for_their_own_version() {
        let safety = Arc::new(Safety::beginning_at(0));
        let waits = |version| {
            let safety = Arc::clone(&safety);
            tokio::spawn(async move { safety.settled(version).await })
        };
        let (early, late) = (waits(1), waits(2));
        tokio::task::yield_now().await;
        safety.reach(1);
        assert!(early.await.unwrap().is_ok());
        assert!(!late.is_finished());
        safety.fail("the disk is full");
        assert!(late.await.unwrap().unwrap_err().to_string().contains("the disk is full"));
        assert!(safety.settled(1).await.is_ok(), "what was safe stays so");
    }
}
