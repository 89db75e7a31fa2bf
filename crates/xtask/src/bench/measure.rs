//! Running programs against the clock.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::catalogue::Pair;
use crate::failure::{Attempt as _, Failure, Result};

/// A program to run again and again.
#[derive(Debug)]
pub(super) struct Recipe {
    program: PathBuf,
    arguments: Vec<OsString>,
    output: Option<PathBuf>,
}

impl Recipe {
    /// Runs `program` and throws its output away.
    pub(super) fn new(program: impl AsRef<Path>) -> Self {
        Self { program: program.as_ref().to_owned(), arguments: Vec::new(), output: None }
    }

    /// With one more argument.
    pub(super) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With its output going to `file`, which is emptied before every run.
    pub(super) fn into_file(mut self, file: &Path) -> Self {
        self.output = Some(file.to_owned());
        self
    }

    /// How many bytes the last run wrote, if they went to a file.
    fn written(&self) -> Result<Option<u64>> {
        let size = |file: &PathBuf| {
            std::fs::metadata(file).map(|data| data.len()).attempt(|| format!("read {}", file.display()))
        };
        self.output.as_ref().map(size).transpose()
    }

    /// Runs the program once and takes the time from its start to its end.
    fn time(&self) -> Result<Duration> {
        let output = match &self.output {
            Some(file) => File::create(file).attempt(|| format!("write {}", file.display()))?.into(),
            None => Stdio::null(),
        };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());

        let start = Instant::now();
        let ended = command.output().attempt(|| format!("run {}", self.program.display()))?;
        let time = start.elapsed();
        if ended.status.success() {
            return Ok(time);
        }
        let complaint = String::from_utf8_lossy(&ended.stderr);
        let complaint = complaint.lines().next().unwrap_or("it gave no reason");
        Err(Failure::new(format!("it failed with {}: {complaint}", ended.status)))
    }
}

/// The times of a benchmark's runs.
#[derive(Debug)]
pub(super) struct Measured {
    /// The measured program.
    pub(super) subject: Times,
    /// Its plain peer, run in turns with it.
    pub(super) peer: Times,
    /// What one run of the program writes, if its output goes to a file.
    pub(super) bytes: Option<u64>,
}

impl Measured {
    /// Runs both in turns, so that a busy moment of the machine hits both alike.
    pub(super) fn take(pair: &Pair, runs: usize) -> Result<Self> {
        // Not measured: brings files into memory, and leaves the output the peer works on.
        pair.subject.time()?;
        let bytes = pair.subject.written()?;
        if bytes == Some(0) {
            return Err(Failure::new("it wrote nothing"));
        }
        pair.peer.time()?;

        let mut subject = Vec::with_capacity(runs);
        let mut peer = Vec::with_capacity(runs);
        for _ in 0..runs {
            subject.push(pair.subject.time()?);
            peer.push(pair.peer.time()?);
        }
        Ok(Self { subject: Times::new(subject), peer: Times::new(peer), bytes })
    }

    /// How many times as long as its peer the program takes, by the medians.
    pub(super) fn ratio(&self) -> f64 {
        let peer = self.peer.median().as_secs_f64();
        if peer > 0.0 { self.subject.median().as_secs_f64() / peer } else { 0.0 }
    }

    /// How many of `count` things per run the program does in a second, by the median.
    pub(super) fn per_second(&self, count: u32) -> f64 {
        let time = self.subject.median().as_secs_f64();
        if time > 0.0 { f64::from(count) / time } else { 0.0 }
    }
}

/// Times of equal runs.
#[derive(Debug)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// How many runs there were.
    pub(super) fn runs(&self) -> usize {
        self.0.len()
    }

    /// The middle run; of two middle ones their mean.
    pub(super) fn median(&self) -> Duration {
        let middle = self.0.len() / 2;
        match (self.0.get(middle.wrapping_sub(1)), self.0.get(middle)) {
            (Some(low), Some(high)) if self.0.len().is_multiple_of(2) => (*low + *high) / 2,
            (_, Some(only)) => *only,
            _ => Duration::ZERO,
        }
    }

    /// The run that 95 of 100 do not exceed.
    pub(super) fn p95(&self) -> Duration {
        let place = (self.0.len() * 95).div_ceil(100).saturating_sub(1);
        self.0.get(place).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn times(milliseconds: impl IntoIterator<Item = u64>) -> Times {
        Times::new(milliseconds.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(times([9, 1, 5]).median(), Duration::from_millis(5));
        assert_eq!(times([1, 9, 3, 5]).median(), Duration::from_millis(4));
        assert_eq!(times([]).median(), Duration::ZERO);
    }

    #[test]
    fn p95_leaves_one_in_twenty_out() {
        assert_eq!(times(1..=20).p95(), Duration::from_millis(19));
        assert_eq!(times(1..=10).p95(), Duration::from_millis(10));
        assert_eq!(times([]).p95(), Duration::ZERO);
    }

    #[test]
    fn measures_a_program_next_to_its_peer() {
        let scratch = Scratch::new("test-measure").unwrap();
        let output = scratch.path().join("out");
        let pair = Pair {
            subject: Recipe::new("printf").arg("12345").into_file(&output),
            peer: Recipe::new("cat").arg(&output).into_file(&scratch.path().join("copy")),
        };
        let measured = Measured::take(&pair, 3).unwrap();
        assert_eq!((measured.subject.runs(), measured.peer.runs(), measured.bytes), (3, 3, Some(5)));
    }

    #[test]
    fn a_program_that_fails_or_writes_nothing_is_not_measured() {
        let scratch = Scratch::new("test-measure").unwrap();
        let silent = Recipe::new("true").into_file(&scratch.path().join("out"));
        for (subject, reason) in [(Recipe::new("false"), "it failed with"), (silent, "it wrote nothing")] {
            let failure = Measured::take(&Pair { subject, peer: Recipe::new("true") }, 1).unwrap_err();
            assert!(failure.to_string().starts_with(reason), "{failure}");
        }
    }
}
