//! The images on the hosts.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use super::Kubelet;
use super::timers::Passing;
use crate::kinds::POD;
use crate::object::Object as _;

/// The images that are on hosts, by host and name.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<HashSet<(String, String)>>);

/// Where an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pull {
    /// On the host.
    There,
    /// On its way.
    Wait(Duration),
    /// It cannot be had: why, whether that is new, and when it is tried again.
    Failed { why: String, again: Duration },
}

/// How long to wait after so many failures.
pub(crate) fn back_off(failures: u32) -> Duration {
    Duration::from_secs(10).saturating_mul(2_u32.saturating_pow(failures)).min(Duration::from_mins(5))
}

impl Kubelet {
    /// Gets the image of a container to the host of a pod.
    pub(super) async fn pull(&self, pod: &Value, container: &Value) -> Pull {
        let image = container.text("/image");
        let place = (pod.text("/spec/nodeName").to_owned(), image.to_owned());
        let is_there = self.images.0.lock().contains(&place);
        if is_there && container.text("/imagePullPolicy") != "Always" {
            let message = format!("Container image \"{image}\" already present on machine");
            self.recorder.normal(&POD, pod, "Pulled", &message).await;
            return Pull::There;
        }
        for attempt in 0..u32::MAX {
            if !self.timers.has_begun("image.pull", pod.uid(), attempt.into()) {
                self.recorder.normal(&POD, pod, "Pulling", &format!("Pulling image \"{image}\"")).await;
            }
            match self.timers.passing(&self.context.stages, "image.pull", pod, attempt.into()) {
                Passing::Wait(left) => return Pull::Wait(left),
                Passing::Passed => break,
                Passing::Failed(why) => {
                    let is_new = !self.timers.has_begun("image.back-off", pod.uid(), attempt.into());
                    let since = self.timers.since("image.back-off", pod, attempt.into());
                    let again = back_off(attempt).saturating_sub(since);
                    if is_new {
                        let message = format!("Failed to pull image \"{image}\": {why}");
                        self.recorder.warning(&POD, pod, "Failed", &message).await;
                        self.recorder.warning(&POD, pod, "Failed", "Error: ErrImagePull").await;
                    }
                    if !again.is_zero() {
                        return Pull::Failed { why, again };
                    }
                }
            }
        }
        self.images.0.lock().insert(place);
        let size = 20_000_000 + self.context.stages.chance("image.size", image, 0) % 200_000_000;
        let message = format!(
            "Successfully pulled image \"{image}\" in 1s (1s including waiting). Image size: {size} bytes."
        );
        self.recorder.normal(&POD, pod, "Pulled", &message).await;
        Pull::There
    }
}
