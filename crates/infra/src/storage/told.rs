//! Events that are told once.
//!
//! The real controllers repeat themselves with every resync; here a thing is said again only when something else was
//! said in between.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;

use crate::events::Recorder;
use crate::kinds::Kind;
use crate::object::Object as _;

/// A recorder that remembers what it last said of an object.
#[derive(Debug)]
pub(super) struct Told {
    recorder: Recorder,
    last: Mutex<HashMap<String, (String, String)>>,
}

impl Told {
    /// Nothing was said yet.
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, last: Mutex::default() }
    }

    /// Something went as it should.
    pub(super) async fn normal(&self, kind: &Kind, object: &Value, reason: &str, message: &str) {
        if self.is_new(object, reason, message) {
            self.recorder.normal(kind, object, reason, message).await;
        }
    }

    /// Something went wrong.
    pub(super) async fn warning(&self, kind: &Kind, object: &Value, reason: &str, message: &str) {
        if self.is_new(object, reason, message) {
            self.recorder.warning(kind, object, reason, message).await;
        }
    }

    /// Forgets an object, so that the same can be said again.
    pub(super) fn forget(&self, uid: &str) {
        self.last.lock().remove(uid);
    }

    fn is_new(&self, object: &Value, reason: &str, message: &str) -> bool {
        let said = (reason.to_owned(), message.to_owned());
        self.last.lock().insert(object.uid().to_owned(), said.clone()) != Some(said)
    }
}
