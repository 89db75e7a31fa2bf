//! Feeding a cache: list, watch, and begin anew where the thread is lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::Cache;
use crate::backoff::{Backoff, Dice};
use crate::client::{Era, Error, Result, Site, place};
use crate::{Key, Meta, Narrow};

/// How long the server is asked to keep a watch open; each picks its own between these.
const OPEN: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(10));
/// How long a watch may be silent. Servers send a bookmark about once a minute.
const SILENCE: Duration = Duration::from_secs(150);
/// How long a server may be silent before it has told all that is there.
const FIRST_SILENCE: Duration = Duration::from_secs(30);
/// Waits after failures.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), cap: Duration::from_secs(30) };
/// A watch that held this long was no failure.
const HELD: Duration = Duration::from_mins(1);
/// So many failures count at most once a watch has told anything: the server is there, and what was before is over.
const RECOVERED: u32 = 2;
/// A watch that ended sooner was one.
const BRIEF: Duration = Duration::from_secs(1);

/// What a watch is to do next.
enum Next {
    /// Go on from this version.
    From(u64),
    /// Tell everything anew.
    Anew,
}

/// An event as the server sends it.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// The annotation of the bookmark that ends the objects a watch begins with.
struct InitialEnd;

impl crate::Keep for InitialEnd {
    const ANNOTATIONS: &'static [&'static str] = &["k8s.io/initial-events-end"];
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: Meta<InitialEnd>,
}

/// A life of watching.
struct Feed<T> {
    cache: Cache<T>,
    site: Site,
    dice: Dice,
    /// Whether the server can begin a watch with what is there.
    streams: bool,
    /// Whether the last list was older than what was known before.
    went_back: bool,
    era: Era,
}

impl<T: Narrow> Cache<T> {
    /// Keeps this cache true. Never ends; dropping it stops the watch and leaves what is known. The seed decides what is
    /// left to chance.
    pub async fn run(&self, site: &Site, seed: u64) {
        let mut eras = site.era();
        let mut feed = Feed {
            cache: self.clone(),
            site: site.clone(),
            dice: Dice::named(seed, &self.shared.resource.label()),
            streams: true,
            went_back: false,
            era: *eras.borrow_and_update(),
        };
        let mut next = Next::Anew;
        let mut elsewhere = false;
        loop {
            tokio::select! {
                () = feed.follow(&mut next, &mut elsewhere) => {}
                changed = eras.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let era = *eras.borrow_and_update();
                    if era.server != feed.era.server {
                        (next, elsewhere) = (Next::Anew, true);
                    }
                    feed.era = era;
                }
            }
        }
    }
}

impl<T: Narrow> Feed<T> {
    /// Follows one connection, through its failures, for ever.
    async fn follow(&mut self, next: &mut Next, elsewhere: &mut bool) {
        let mut failures = 0;
        loop {
            let (began, before) = (Instant::now(), self.cache.seen());
            let result = match *next {
                Next::Anew => self.begin(next, elsewhere).await,
                Next::From(version) => self.resume(version, next).await,
            };
            let lived = began.elapsed();
            if lived >= HELD {
                failures = 0;
            } else if self.cache.seen() > before {
                failures = failures.min(RECOVERED);
            }
            match result {
                Ok(()) if lived >= BRIEF => continue,
                Ok(()) => {}
                Err(Error::Expired(_)) => {
                    *next = Next::Anew;
                    if failures == 0 {
                        // It is told at once; only if that does not help, later.
                        failures = 1;
                        continue;
                    }
                }
                Err(error) => {
                    tracing::debug!(
                        site = self.site.name(), kind = self.cache.shared.resource.plural, %error,
                        "a watch is started anew"
                    );
                    *self.cache.shared.trouble.lock() = Some(error.to_string());
                    self.cache.shared.pulse.failed();
                }
            }
            failures += 1;
            tokio::select! {
                () = tokio::time::sleep(BACKOFF.after(failures, &mut self.dice)) => {}
                // Somebody else has found out that the server answers again.
                () = self.site.mended() => {}
            }
        }
    }

    /// Learns everything, and then goes on watching if the server does both in one.
    async fn begin(&mut self, next: &mut Next, elsewhere: &mut bool) -> Result {
        if self.cache.is_synced() {
            self.cache.shared.relists.fetch_add(1, Ordering::Relaxed);
        }
        if self.streams {
            match self.stream(next, elsewhere).await {
                Err(Error::Invalid(message)) => {
                    tracing::debug!(site = self.site.name(), message, "no streaming of what is there");
                    self.streams = false;
                }
                result => return result,
            }
        }
        self.list(next, elsewhere).await
    }

    /// Learns everything from a watch that begins with what is there.
    async fn stream(&mut self, next: &mut Next, elsewhere: &mut bool) -> Result {
        let path = self.path(&[("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]);
        let body = self.site.open(&self.cache.shared.resource, &path).await?;
        let mut lines = Lines::new(body);
        let mut names = HashSet::new();
        loop {
            let Ok(line) = timeout(FIRST_SILENCE, lines.next()).await else {
                // A server that does not know the wish sends what is there, but not its end.
                return Err(Error::Invalid("the end of what is there was not told".to_owned()));
            };
            let Some(line) = line? else {
                return Err(Error::Unavailable("the watch ended before all was told".to_owned()));
            };
            self.heard();
            let event = event(&line)?;
            match event.kind {
                Kind::Added | Kind::Modified => self.listed(event.object, &mut names, *elsewhere),
                Kind::Deleted => self.gone(event.object),
                Kind::Bookmark => {
                    let bookmark = bookmark(event.object)?;
                    if !bookmark.metadata.annotations.is_empty() {
                        let version = bookmark.metadata.resource_version;
                        self.complete(&names, version, elsewhere)?;
                        *next = Next::From(version);
                        drop(names);
                        return self.events(lines, next).await;
                    }
                }
                Kind::Error => return Err(self.failure(event.object)),
            }
        }
    }

    /// Learns everything in pages.
    async fn list(&mut self, next: &mut Next, elsewhere: &mut bool) -> Result {
        let mut names = HashSet::new();
        let mut token = String::new();
        loop {
            let shared = &self.cache.shared;
            let page = self.site.page::<Box<RawValue>>(&shared.resource, &shared.selection, &token).await?;
            self.heard();
            for object in page.items.iter().flatten() {
                self.listed(object, &mut names, *elsewhere);
            }
            token = page.metadata.next;
            if token.is_empty() {
                let version = number(&page.metadata.resource_version)?;
                self.complete(&names, version, elsewhere)?;
                *next = Next::From(version);
                return self.resume(version, next).await;
            }
        }
    }

    /// Watches from a version on.
    async fn resume(&mut self, version: u64, next: &mut Next) -> Result {
        let path = self.path(&[("resourceVersion", &version.to_string())]);
        let body = self.site.open(&self.cache.shared.resource, &path).await?;
        self.heard();
        self.events(Lines::new(body), next).await
    }

    /// Takes events until the watch ends.
    async fn events(&mut self, mut lines: Lines, next: &mut Next) -> Result {
        loop {
            let Ok(line) = timeout(SILENCE, lines.next()).await else {
                self.site.heard(false);
                return Err(Error::Timeout);
            };
            let Some(line) = line? else { return Ok(()) };
            self.heard();
            let event = event(&line)?;
            match event.kind {
                Kind::Added | Kind::Modified => {
                    if let Some(object) = self.read(event.object) {
                        self.cache.apply(|objects| objects.told(Arc::new(object)));
                    }
                }
                Kind::Deleted => self.gone(event.object),
                Kind::Bookmark => {
                    let version = bookmark(event.object)?.metadata.resource_version;
                    self.cache.shared.objects.write().reach(version);
                }
                Kind::Error => return Err(self.failure(event.object)),
            }
            *next = Next::From(self.cache.shared.objects.read().seen());
        }
    }

    fn heard(&self) {
        self.cache.heard();
        self.site.heard(true);
    }

    fn listed(&self, object: &RawValue, names: &mut HashSet<Key>, elsewhere: bool) {
        match self.read(object) {
            Some(object) => {
                names.insert(object.key().clone());
                self.cache.apply(|objects| objects.listed(Arc::new(object), elsewhere));
            }
            // What cannot be read is there all the same.
            None => names.extend(key(object)),
        }
    }

    fn gone(&self, object: &RawValue) {
        if let Some(object) = self.read(object) {
            self.cache.apply(|objects| objects.told_gone(&object));
        } else if let Some(key) = key(object)
            && let Some(known) = self.cache.get(&key)
        {
            self.cache.removed(&key, known.uid());
        }
    }

    /// All that is there was told, as of a version.
    fn complete(&mut self, names: &HashSet<Key>, version: u64, elsewhere: &mut bool) -> Result {
        let back = !*elsewhere && version < self.cache.shared.objects.read().seen();
        if back {
            // Once it is a server that lags; if it stays so, it was restored and is another one.
            *elsewhere = std::mem::replace(&mut self.went_back, true);
            return Err(Error::Unavailable("it tells less than it told before".to_owned()));
        }
        self.went_back = false;
        let elsewhere = std::mem::take(elsewhere);
        self.cache.apply(|objects| objects.listed_all(names, version, elsewhere));
        self.cache.shared.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        Ok(())
    }

    fn read(&self, object: &RawValue) -> Option<T> {
        match serde_json::from_str(object.get()) {
            Ok(object) => Some(object),
            Err(error) => {
                self.cache.shared.unreadable.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    site = self.site.name(), kind = self.cache.shared.resource.plural,
                    key = ?key(object), place = place(&error), "an object cannot be read"
                );
                None
            }
        }
    }

    fn failure(&self, object: &RawValue) -> Error {
        match serde_json::from_str::<Status>(object.get()) {
            Ok(status) => Error::told(&status, &self.cache.shared.resource),
            Err(error) => Error::Malformed(place(&error)),
        }
    }

    fn path(&mut self, parameters: &[(&str, &str)]) -> String {
        let seconds = self.dice.between(OPEN.0, OPEN.1).as_secs().to_string();
        let mut all = vec![("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", &*seconds)];
        all.extend_from_slice(parameters);
        self.cache.shared.selection.path(&self.cache.shared.resource, &all)
    }
}

fn event(line: &[u8]) -> Result<Event<'_>> {
    serde_json::from_slice(line).map_err(|error| Error::Malformed(place(&error)))
}

fn bookmark(object: &RawValue) -> Result<Bookmark> {
    serde_json::from_str(object.get()).map_err(|error| Error::Malformed(place(&error)))
}

fn number(version: &str) -> Result<u64> {
    version.parse().map_err(|_| Error::Malformed("the version is no number".to_owned()))
}

/// The key of an object of which nothing else can be read.
fn key(object: &RawValue) -> Option<Key> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Meta,
    }
    serde_json::from_str::<Named>(object.get()).ok().map(|named| named.metadata.key)
}

/// The lines of a body.
struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// How much of the buffer was given out.
    start: usize,
    /// How much of it was searched.
    searched: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self { body, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// The next line; nothing at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(found) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + found;
                let line = self.buffer[self.start..end].to_vec();
                (self.start, self.searched) = (end + 1, end + 1);
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            self.buffer.drain(..self.start);
            (self.start, self.searched) = (0, self.buffer.len());
            if self.buffer.is_empty() {
                // A long event is no reason to hold its space while nothing happens.
                self.buffer.shrink_to(4096);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(Error::from(error)),
                None => return Ok(None),
            }
        }
    }
}
