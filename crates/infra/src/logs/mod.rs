//! What the containers of pods have printed: the kubelets' part of `kubectl logs`.
//!
//! Nothing really runs in a pod, so what it prints is told from its life: when each container started, how far its
//! work is, how it ended. The API server asks for it as it asks a kubelet.

pub(crate) mod lines;
mod wanted;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use serde_json::Value;

use self::lines::{Line, Run};
use self::wanted::Wanted;
use crate::context::Context;
use crate::kinds::POD;
use crate::object::{Key, Object as _};
use crate::service::{Body, Call, failure};

/// How often what is followed is looked at.
const PAUSE: Duration = Duration::from_millis(500);

/// Answers `/containerLogs/<namespace>/<pod>/<container>`.
pub fn serve(context: &Context, call: &Call) -> Response<Body> {
    let uri = call.request.uri();
    let steps: Vec<&str> = uri.path().split('/').skip(2).collect();
    let [namespace, name, container] = steps.as_slice() else {
        return failure(StatusCode::NOT_FOUND, "NotFound", "404 page not found");
    };
    let wanted = match Wanted::read(uri.query().unwrap_or_default(), context.clock.now()) {
        Ok(wanted) => wanted,
        Err(why) => return failure(StatusCode::BAD_REQUEST, "BadRequest", &why.to_string()),
    };
    let key = Key::new(namespace, name);
    let Some(pod) = context.client.cache(&POD).get(&key) else {
        let message = format!("pod {name:?} not found");
        return failure(StatusCode::NOT_FOUND, "NotFound", &message);
    };
    if let Err(message) = Run::of(&pod, container, wanted.previous) {
        return failure(StatusCode::BAD_REQUEST, "BadRequest", &message);
    }
    let reading = Reading::new(context, &pod, container, wanted);
    let pieces = stream::unfold(reading, |mut reading| async move {
        let piece = reading.next().await?;
        Some((Ok(Frame::data(piece)), reading))
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Somebody who reads the log of a container.
struct Reading {
    context: Context,
    key: Key,
    uid: String,
    container: String,
    wanted: Wanted,
    /// Which run of the container is read: when it started.
    started: Option<Timestamp>,
    /// How often each line was sent.
    sent: HashMap<String, usize>,
    /// How many bytes may still be sent.
    left: usize,
    is_first: bool,
    is_over: bool,
}

impl Reading {
    fn new(context: &Context, pod: &Value, container: &str, wanted: Wanted) -> Self {
        Self {
            context: context.clone(),
            key: Key::of(pod),
            uid: pod.uid().to_owned(),
            container: container.to_owned(),
            left: wanted.limit.unwrap_or(usize::MAX),
            wanted,
            started: None,
            sent: HashMap::new(),
            is_first: true,
            is_over: false,
        }
    }

    /// The next piece; nothing after the last.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over || self.left == 0 {
                return None;
            }
            let fresh = self.fresh();
            self.is_over |= !self.wanted.follow;
            if !fresh.is_empty() {
                let mut text = self.wanted.written(&fresh).into_bytes();
                text.truncate(self.left);
                self.left -= text.len();
                return Some(text.into());
            }
            if !self.is_over {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The lines that were not sent yet.
    fn fresh(&mut self) -> Vec<Line> {
        let pod = self.context.client.cache(&POD).get(&self.key).filter(|pod| pod.uid() == self.uid);
        let Some(pod) = pod else {
            self.is_over = true;
            return Vec::new();
        };
        let Ok(run) = Run::of(&pod, &self.container, self.wanted.previous) else {
            self.is_over = true;
            return Vec::new();
        };
        // A container that was started again has a log of its own.
        if *self.started.get_or_insert(run.started) != run.started {
            self.is_over = true;
            return Vec::new();
        }
        self.is_over = run.ended.is_some();
        let all = lines::of(&run, &self.below(&pod));
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut fresh: Vec<Line> = all
            .into_iter()
            .filter(|line| self.wanted.since.is_none_or(|since| line.at >= since))
            .filter(|line| {
                let count = counts.entry(line.text.clone()).or_default();
                *count += 1;
                *count > self.sent.get(&line.text).copied().unwrap_or_default()
            })
            .collect();
        for (text, count) in counts {
            let sent = self.sent.entry(text).or_default();
            *sent = count.max(*sent);
        }
        if std::mem::take(&mut self.is_first)
            && let Some(tail) = self.wanted.tail
        {
            fresh.drain(..fresh.len().saturating_sub(tail));
        }
        fresh
    }

    /// What is known of a pod below the API.
    fn below(&self, pod: &Value) -> lines::Below {
        let owner = pod.controller().and_then(|owner| owner["uid"].as_str()).unwrap_or_default();
        let machine = self.context.world.machines.get(owner);
        lines::Below {
            now: self.context.clock.now(),
            percent: self.context.world.transfers.progress(pod.uid()),
            console: machine.as_ref().map(|machine| {
                let (shown, _) = machine.console.look();
                String::from_utf8_lossy(&shown).into_owned()
            }),
            instance: self.instance(pod),
        }
    }

    fn instance(&self, pod: &Value) -> Option<Arc<Value>> {
        let owner = pod.controller().filter(|owner| owner["kind"] == crate::kinds::VMI.kind)?;
        let key = Key::new(pod.namespace(), owner["name"].as_str().unwrap_or_default());
        self.context.client.cache(&crate::kinds::VMI).get(&key)
    }
}
