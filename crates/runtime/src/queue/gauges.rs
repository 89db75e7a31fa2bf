//! What is counted of a queue.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::state::State;
use super::{Lane, LaneNumber, Name};

/// Bounds of waits and looks in seconds: from what an idle daemon needs to what somebody complains about.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// What is counted of the lanes of a queue.
#[derive(Debug)]
pub struct Gauges {
    lanes: Vec<LaneGauges>,
}

/// What is counted of one lane.
#[derive(Debug, Clone)]
pub struct LaneGauges {
    /// What the lane is called.
    pub name: &'static str,
    /// How many keys wait.
    pub depth: Gauge,
    /// How long keys waited for a worker, in seconds.
    pub wait: Histogram,
    /// How long looks took, in seconds.
    pub work: Histogram,
    /// How many looks failed.
    pub retries: Counter,
    /// How many looks ended in a panic.
    pub panics: Counter,
}

impl Gauges {
    pub(super) fn new(lanes: &[Lane]) -> Self {
        let lane = |lane: &Lane| LaneGauges {
            name: lane.name,
            depth: Gauge::default(),
            wait: Histogram::new(BOUNDS),
            work: Histogram::new(BOUNDS),
            retries: Counter::default(),
            panics: Counter::default(),
        };
        Self { lanes: lanes.iter().map(lane).collect() }
    }

    /// What is counted of each lane.
    pub fn lanes(&self) -> &[LaneGauges] {
        &self.lanes
    }

    pub(super) fn depths<K: Name>(&self, state: &State<K>) {
        for (number, lane) in self.lanes.iter().enumerate().take(state.lanes()) {
            lane.depth.set(i64::try_from(state.depth(number)).unwrap_or(i64::MAX));
        }
    }

    pub(super) fn waited(&self, lane: LaneNumber, time: Duration) {
        if let Some(lane) = self.lanes.get(lane) {
            lane.wait.observe(time.as_secs_f64());
        }
    }

    pub(super) fn worked(&self, lane: LaneNumber, time: Duration, failed: bool, panicked: bool) {
        if let Some(lane) = self.lanes.get(lane) {
            lane.work.observe(time.as_secs_f64());
            lane.retries.inc_by(u64::from(failed));
            lane.panics.inc_by(u64::from(panicked));
        }
    }
}
