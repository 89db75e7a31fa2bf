//! CronJobs: jobs that are started again and again, at times.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::pods::Hand;
use crate::cdi::Schedule;
use crate::client::Result;
use crate::clock::seconds;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CRON_JOB, JOB};
use crate::object::{Key, Object as _, owned_by};

/// When a job was to be started, as its annotation says.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// How far back a missed time is looked for, step by step, in minutes: most are found at the first.
const WINDOWS: [i64; 5] = [1, 60, 24 * 60, 32 * 24 * 60, 9 * 366 * 24 * 60];

/// Starts jobs at their times.
#[derive(Debug)]
pub(super) struct Crons {
    hand: Hand,
}

/// The times of a cron job.
#[derive(Debug)]
struct Times {
    schedule: Schedule,
    zone: TimeZone,
}

impl Times {
    /// Reads them; an error is the reason and the message of an event.
    fn of(cron: &Value) -> Result<Self, (&'static str, String)> {
        let (text, zone) = (cron.text("/spec/schedule"), cron.text("/spec/timeZone"));
        let schedule = Schedule::parse(text)
            .map_err(|error| ("UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}")))?;
        let zone = if zone.is_empty() {
            TimeZone::UTC
        } else {
            let unknown = |error| ("UnknownTimeZone", format!("invalid timeZone: {zone:?}: {error}"));
            TimeZone::get(zone).map_err(unknown)?
        };
        Ok(Self { schedule, zone })
    }

    fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        self.schedule.after_in(moment, &self.zone)
    }

    /// The last time after a moment that is not in the future.
    fn last_between(&self, earliest: Timestamp, now: Timestamp) -> Option<Timestamp> {
        for minutes in WINDOWS {
            let start =
                now.saturating_sub(SignedDuration::from_mins(minutes)).unwrap_or(earliest).max(earliest);
            let mut found = self.after(start).filter(|time| *time <= now);
            while let Some(next) = found.and_then(|time| self.after(time)).filter(|time| *time <= now) {
                found = Some(next);
            }
            if found.is_some() || start == earliest {
                return found;
            }
        }
        None
    }
}

/// From when on missed times count: the last start, or the making; not longer ago than a start may be late.
fn earliest(cron: &Value, now: Timestamp) -> Timestamp {
    let last = [cron.text("/status/lastScheduleTime"), cron.text("/metadata/creationTimestamp")];
    let last = last.iter().find_map(|text| text.parse().ok()).unwrap_or(now);
    match cron.number("/spec/startingDeadlineSeconds") {
        Some(late) => now.saturating_sub(SignedDuration::from_secs(late)).unwrap_or(last).max(last),
        None => last,
    }
}

/// The job for a time.
fn job_for(cron: &Value, time: Timestamp, zone: &TimeZone) -> Value {
    let template = cron.at("/spec/jobTemplate");
    let mut metadata = json!({
        "namespace": cron.namespace(), "name": format!("{}-{}", cron.name(), time.as_second() / 60),
        "ownerReferences": [owned_by(&CRON_JOB, cron)],
    });
    for name in ["labels", "annotations"] {
        if !template["metadata"][name].is_null() {
            metadata[name] = template["metadata"][name].clone();
        }
    }
    let mut job = json!({"metadata": metadata, "spec": template["spec"]});
    let at = if *zone == TimeZone::UTC {
        seconds(time)
    } else {
        time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    };
    job.set_annotation(SCHEDULED, &at);
    job
}

/// How a job ended.
fn ended(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| job.condition_holds(kind))
}

/// The ended jobs that are more than the history keeps, the oldest first.
fn outdated(cron: &Value, jobs: &[Arc<Value>]) -> Vec<Arc<Value>> {
    let mut all = Vec::new();
    for (end, limit) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = cron["spec"][limit].as_u64().and_then(|limit| usize::try_from(limit).ok()) else {
            continue;
        };
        let mut old: Vec<_> = jobs.iter().filter(|job| ended(job) == Some(end)).cloned().collect();
        old.sort_by_key(|job| (job.text("/status/startTime").to_owned(), job.name().to_owned()));
        old.truncate(old.len().saturating_sub(limit));
        all.extend(old);
    }
    all
}

impl Crons {
    pub(super) fn new(context: &Context) -> Self {
        Self { hand: Hand::new(context, &CRON_JOB, "cronjob-controller") }
    }

    /// Brings the list of running jobs up to date, and tells which ended.
    async fn follow(&self, cron: &mut Value, jobs: &[Arc<Value>]) {
        let mut active = Vec::new();
        for entry in cron.list("/status/active").to_vec() {
            match jobs.iter().find(|job| job.uid() == entry["uid"]) {
                Some(job) if ended(job).is_none() => active.push(entry),
                Some(job) => self.note_end(cron, job).await,
                None => {
                    let message =
                        format!("Active job went missing: {}", entry["name"].as_str().unwrap_or_default());
                    self.hand.recorder.normal(&CRON_JOB, cron, "MissingJob", &message).await;
                }
            }
        }
        put_active(cron, active);
    }

    async fn note_end(&self, cron: &mut Value, job: &Value) {
        let end = ended(job).unwrap_or_default();
        let message = format!("Saw completed job: {}, condition: {end}", job.name());
        self.hand.recorder.normal(&CRON_JOB, cron, "SawCompletedJob", &message).await;
        let at = job.text("/status/completionTime");
        if end == "Complete" && at > cron.text("/status/lastSuccessfulTime") {
            cron.set("/status/lastSuccessfulTime", at.into());
        }
    }

    /// Starts the job of a time, as far as those that still run allow it.
    async fn start(&self, cron: &mut Value, jobs: &[Arc<Value>], time: Timestamp, zone: &TimeZone) -> Result {
        let running = cron.list("/status/active").to_vec();
        match cron.text("/spec/concurrencyPolicy") {
            "Forbid" if !running.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.hand.recorder.normal(&CRON_JOB, cron, "JobAlreadyActive", message).await;
                return Ok(());
            }
            "Replace" => {
                for job in jobs.iter().filter(|job| running.iter().any(|entry| entry["uid"] == job.uid())) {
                    self.remove(cron, job).await?;
                }
                put_active(cron, Vec::new());
            }
            _ => {}
        }
        let job = job_for(cron, time, zone);
        match self.hand.client.create(&JOB, job).await {
            Ok(job) => {
                let message = format!("Created job {}", job.name());
                self.hand.recorder.normal(&CRON_JOB, cron, "SuccessfulCreate", &message).await;
                let mut active = cron.list("/status/active").to_vec();
                active.push(json!({
                    "apiVersion": "batch/v1", "kind": "Job", "namespace": job.namespace(), "name": job.name(),
                    "uid": job.uid(), "resourceVersion": job["metadata"]["resourceVersion"],
                }));
                put_active(cron, active);
            }
            // Started before, and not written down.
            Err(failure) if failure.is_already_there() => {}
            Err(failure) => {
                let message = format!("Error creating job: {failure}");
                self.hand.recorder.warning(&CRON_JOB, cron, "FailedCreate", &message).await;
                return Err(failure);
            }
        }
        cron.set("/status/lastScheduleTime", seconds(time).into());
        Ok(())
    }

    async fn remove(&self, cron: &Value, job: &Value) -> Result {
        self.hand.client.delete(&JOB, &Key::of(job), job.uid()).await?;
        let message = format!("Deleted job {}", job.name());
        self.hand.recorder.normal(&CRON_JOB, cron, "SuccessfulDelete", &message).await;
        Ok(())
    }

    async fn step(&self, cron: &mut Value, jobs: &[Arc<Value>]) -> Result<Next> {
        let times = match Times::of(cron) {
            Ok(times) => times,
            Err((reason, message)) => {
                self.hand.recorder.warning(&CRON_JOB, cron, reason, &message).await;
                return Ok(Next::Done);
            }
        };
        if cron.flag("/spec/suspend") {
            return Ok(Next::Done);
        }
        let now = self.hand.clock.now();
        if let Some(time) = times.last_between(earliest(cron, now), now) {
            self.start(cron, jobs, time, &times.zone).await?;
        }
        let wait = times.after(now).and_then(|next| Duration::try_from(next.duration_since(now)).ok());
        Ok(wait.map_or(Next::Done, Next::After))
    }
}

fn put_active(cron: &mut Value, active: Vec<Value>) {
    if active.is_empty() {
        cron.unset("/status/active");
    } else {
        cron.set("/status/active", active.into());
    }
}

impl Controller for Crons {
    const NAME: &'static str = "cronjob-controller";

    fn watches(&self) -> Vec<Watch> {
        let (crons, jobs) = (self.hand.client.cache(&CRON_JOB), self.hand.client.cache(&JOB));
        vec![Watch::each(&crons), Watch::owners(&jobs, CRON_JOB.kind)]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(cron) = self.hand.client.cache(&CRON_JOB).get(key) else { return Ok(Next::Done) };
        if cron.is_deleting() {
            return Ok(Next::Done);
        }
        let jobs = self.hand.client.cache(&JOB).controlled_by(cron.uid());
        let mut new = (*cron).clone();
        self.follow(&mut new, &jobs).await;
        for job in outdated(&new, &jobs) {
            self.remove(&new, &job).await?;
        }
        let stepped = self.step(&mut new, &jobs).await;
        if new["status"] != cron["status"] {
            self.hand.client.replace_status(&CRON_JOB, &new).await?;
        }
        stepped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_last_missed_time_counts() {
        let times = |schedule: &str| Times::of(&json!({"spec": {"schedule": schedule}})).unwrap();
        let (made, now) = (at("2026-01-01T00:00:30Z"), at("2026-01-03T10:07:20Z"));
        let last = |schedule: &str| times(schedule).last_between(made, now);
        assert_eq!(last("*/1 * * * ?"), Some(at("2026-01-03T10:07:00Z")));
        assert_eq!(last("5 * * * *"), Some(at("2026-01-03T10:05:00Z")));
        assert_eq!(last("0 12 * * *"), Some(at("2026-01-02T12:00:00Z")));
        assert_eq!(last("0 0 5 * *"), None);
        assert_eq!(times("* * * * *").last_between(at("2026-01-03T10:07:00Z"), now), None);
    }

    #[test]
    fn a_start_may_only_be_so_late() {
        let now = at("2026-01-01T01:00:00Z");
        let mut cron = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}});
        assert_eq!(earliest(&cron, now), at("2026-01-01T00:00:00Z"));
        cron["spec"]["startingDeadlineSeconds"] = 60.into();
        assert_eq!(earliest(&cron, now), at("2026-01-01T00:59:00Z"));
    }

    #[test]
    fn a_job_is_named_after_its_minute() {
        let cron =
            json!({"metadata": {"name": "c", "uid": "u"}, "spec": {"jobTemplate": {"spec": {"a": 1}}}});
        let job = job_for(&cron, at("1970-01-01T02:00:00Z"), &TimeZone::UTC);
        assert_eq!(job.name(), "c-120");
        assert_eq!(job.annotation(SCHEDULED), "1970-01-01T02:00:00Z");
        assert_eq!(job["spec"]["a"], 1);
    }

    #[test]
    fn the_oldest_jobs_go() {
        let job = |name: &str, end: &str, at: &str| {
            let conditions = json!([{"type": end, "status": "True"}]);
            Arc::new(
                json!({"metadata": {"name": name}, "status": {"startTime": at, "conditions": conditions}}),
            )
        };
        let jobs = [job("b", "Complete", "2"), job("a", "Complete", "1"), job("f", "Failed", "0")];
        let cron = json!({"spec": {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1}});
        let names: Vec<_> = outdated(&cron, &jobs).iter().map(|job| job.name().to_owned()).collect();
        assert_eq!(names, ["a"]);
    }
}
