//! A watch on its way to a controller, event by event.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::book::{LAG, RESYNC};
use super::{Streamed, Tap, status};
use crate::plan::Perturbation;

/// What of an event its point is called after.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: std::borrow::Cow<'a, str>,
    #[serde(default)]
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// A watch that passes through.
struct Passing {
    tap: Tap,
    resource: String,
    path: String,
    body: Body,
    buffer: BytesMut,
    /// Whether the objects it begins with are told: they are no events.
    began: bool,
    /// Until when everything is held back.
    held: Option<Instant>,
    /// When it has to begin anew, because something was not told.
    resync: Option<Instant>,
    over: bool,
    parted: watch::Receiver<BTreeSet<&'static str>>,
    cuts: watch::Receiver<u64>,
}

/// The body of a watch, with what a plan makes of its events.
pub(super) fn told(tap: Tap, resource: String, path: String, resumes: bool, body: Body) -> Streamed {
    let (parted, mut cuts) = (tap.book.parted(), tap.book.cuts());
    cuts.mark_unchanged();
    let passing = Passing {
        parted,
        cuts,
        tap,
        resource,
        path,
        body,
        buffer: BytesMut::new(),
        began: resumes,
        held: None,
        resync: None,
        over: false,
    };
    let stream = futures::stream::unfold(passing, |mut passing| async move {
        let line = passing.next().await?;
        Some((line.map(Frame::data), passing))
    });
    StreamBody::new(stream).boxed_unsync()
}

impl Passing {
    /// What is told next; nothing at the end.
    async fn next(&mut self) -> Option<Result<Bytes, tower::BoxError>> {
        loop {
            if self.over {
                return None;
            }
            let line = match self.resync {
                Some(resync) => {
                    let Ok(line) = timeout_at(resync, self.line()).await else {
                        self.over = true;
                        let error = json!({"type": "ERROR", "object": status(410, "Expired")});
                        return Some(Ok(format!("{error}\n").into()));
                    };
                    line?
                }
                None => self.line().await?,
            };
            let line = match line {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            match self.fault(&line) {
                Some(Perturbation::Drop) => {
                    self.resync.get_or_insert(Instant::now() + RESYNC);
                    continue;
                }
                Some(Perturbation::Cut) => {
                    self.tap.book.expire(self.tap.site, &self.path);
                    return None;
                }
                Some(Perturbation::Stale) => self.held = Some(Instant::now() + LAG),
                _ => {}
            }
            if let Some(held) = self.held {
                sleep_until(held).await;
            }
            let site = self.tap.site;
            // What is on its way comes when the way is free again. The sender lives as long as this.
            let _ = self.parted.wait_for(|parted| !parted.contains(site)).await;
            if !self.tap.book.lives(self.tap.who) {
                return std::future::pending().await;
            }
            return Some(Ok(line));
        }
    }

    /// What goes wrong with an event.
    fn fault(&mut self, line: &[u8]) -> Option<Perturbation> {
        let told: Told = serde_json::from_slice(line).ok()?;
        let metadata = told.object.metadata;
        if told.kind == "BOOKMARK" {
            let end = metadata.annotations.is_some_and(|all| all.contains_key("k8s.io/initial-events-end"));
            self.began |= end;
            return None;
        }
        if !self.began || told.kind == "ERROR" {
            return None;
        }
        let words = format!("{}:{}/{}", told.kind, self.resource, metadata.name);
        self.tap.book.told(self.tap.who, self.tap.site, words)
    }

    /// The next line of the server.
    async fn line(&mut self) -> Option<Result<Bytes, tower::BoxError>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(Ok(self.buffer.split_to(end + 1).freeze()));
            }
            let frame = tokio::select! {
                biased;
                _ = self.cuts.changed() => None,
                frame = self.body.frame() => frame,
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Some(Err(error.into())),
                None => return None,
            }
        }
    }
}
