//! What a measurement came to.

use std::time::Duration;

use serde_json::{Value, json};

/// One round of a load on one server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    /// What was done: requests answered, or events delivered.
    pub(crate) operations: u64,
    /// How long it took.
    pub(crate) time: Duration,
    /// Processor time of the server meanwhile.
    pub(crate) server: Duration,
    /// How long each operation took (or a part of them that stands for all), in microseconds.
    pub(crate) latencies: Vec<u32>,
}

/// All rounds of a load on one server.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    rounds: Vec<Round>,
}

impl Outcome {
    pub(crate) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// For the report: the median of the rounds, the worst of them, and the latencies of all.
    pub(crate) fn report(&self) -> Value {
        let rates = self.sorted(|round| ratio(round.operations, round.time));
        let costs = self.sorted(per_operation);
        let mut latencies: Vec<u32> =
            self.rounds.iter().flat_map(|round| round.latencies.iter().copied()).collect();
        latencies.sort_unstable();
        json!({
            "rounds": self.rounds.len(),
            "operations": self.rounds.iter().map(|round| round.operations).sum::<u64>(),
            "per_second": middle(&rates),
            "worst_per_second": rates.first(),
            "p50_ms": percentile(&latencies, 50),
            "p99_ms": percentile(&latencies, 99),
            "server_cpu_us": middle(&costs),
        })
    }

    fn sorted(&self, of: impl Fn(&Round) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// Processor time of the server for one operation, in microseconds.
fn per_operation(round: &Round) -> f64 {
    let operations = Duration::from_secs(round.operations.max(1)).as_secs_f64();
    round.server.as_secs_f64() * 1e6 / operations
}

/// So many in that time, for each second.
pub(crate) fn ratio(count: u64, time: Duration) -> f64 {
    // A duration of so many seconds is the standard library's way from a large integer to a float.
    let count = Duration::from_secs(count).as_secs_f64();
    if time.is_zero() { 0.0 } else { count / time.as_secs_f64() }
}

/// The middle of sorted values; of two middle ones their mean.
fn middle(values: &[f64]) -> Option<f64> {
    let half = values.len() / 2;
    match (values.get(half.wrapping_sub(1)), values.get(half)) {
        (Some(low), Some(high)) if values.len().is_multiple_of(2) => Some(f64::midpoint(*low, *high)),
        (_, middle) => middle.copied(),
    }
}

/// The latency that so many of a hundred do not exceed, in milliseconds.
pub(crate) fn percentile(sorted: &[u32], hundredths: usize) -> Option<f64> {
    let place = (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
    sorted.get(place).map(|micros| f64::from(*micros) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_put_together() {
        let mut outcome = Outcome::default();
        for (operations, latencies) in [(100, vec![1000, 3000]), (300, vec![2000]), (200, vec![4000])] {
            outcome.add(Round {
                operations,
                time: Duration::from_secs(1),
                server: Duration::from_millis(operations),
                latencies,
            });
        }
        let report = outcome.report();
        assert_eq!(report["operations"], 600);
        assert_eq!((&report["per_second"], &report["worst_per_second"]), (&200.0.into(), &100.0.into()));
        assert_eq!((&report["p50_ms"], &report["p99_ms"]), (&2.0.into(), &4.0.into()));
        assert_eq!(report["server_cpu_us"], 1000.0);
    }

    #[test]
    fn nothing_measured_is_nothing_reported() {
        assert_eq!(Outcome::default().report()["p99_ms"], Value::Null);
        assert_eq!(middle(&[1.0, 2.0]), Some(1.5));
    }
}
