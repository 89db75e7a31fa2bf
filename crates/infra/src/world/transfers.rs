//! Bytes on their way: how far the workers that move them are, and what comes in from outside.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::volumes::Content;

/// What is told to a server of uploads: the content that came in, or why it was not acceptable.
pub type Arrival = Result<Content, String>;

/// The transfers that run, by the uid of the pod that works on them.
#[derive(Debug, Default)]
pub struct Transfers {
    percent: Mutex<HashMap<String, f64>>,
    awaited: Mutex<HashMap<String, oneshot::Sender<Arrival>>>,
}

impl Transfers {
    /// How far a worker is, in percent; nothing where it has not begun.
    pub fn progress(&self, pod: &str) -> Option<f64> {
        self.percent.lock().get(pod).copied()
    }

    /// Says how far a worker is; for the worker.
    pub fn set_progress(&self, pod: &str, percent: f64) {
        self.percent.lock().insert(pod.to_owned(), percent.clamp(0.0, 100.0));
    }

    /// Waits for something to be uploaded to a pod; for its server.
    pub fn listen(&self, pod: &str) -> oneshot::Receiver<Arrival> {
        let (sender, receiver) = oneshot::channel();
        self.awaited.lock().insert(pod.to_owned(), sender);
        receiver
    }

    /// Whether the server in a pod takes an upload.
    pub fn is_listening(&self, pod: &str) -> bool {
        self.awaited.lock().get(pod).is_some_and(|sender| !sender.is_closed())
    }

    /// Hands over what was uploaded; false where nobody waits for it.
    pub fn deliver(&self, pod: &str, arrival: Arrival) -> bool {
        let sender = self.awaited.lock().remove(pod);
        sender.is_some_and(|sender| sender.send(arrival).is_ok())
    }

    /// Forgets a pod.
    pub fn forget(&self, pod: &str) {
        self.percent.lock().remove(pod);
        self.awaited.lock().remove(pod);
    }
}
