//! Jobs: pods that run until enough of them have succeeded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::indexes::Indexes;
use super::pods::{self, BURST, Hand, count};
use crate::client::Result;
use crate::clock::seconds;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{JOB, POD};
use crate::object::{Key, Object as _};

/// What keeps a pod until its end has been counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label with the index of a pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How long nothing is started after the first failure; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The longest wait after failures.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Runs Jobs to their end.
#[derive(Debug)]
pub(super) struct Jobs {
    hand: Hand,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// It goes on.
    Running,
    /// It is held.
    Suspended,
    /// Enough pods have succeeded.
    Complete,
    /// It is given up: reason and message.
    Failed(&'static str, &'static str),
}

/// The pods of a job, counted; those counted before are in the status.
#[derive(Debug, Default)]
struct Tally {
    active: Vec<Arc<Value>>,
    terminating: i64,
    ready: i64,
    succeeded: i64,
    failed: i64,
    /// When the last failure was.
    failed_at: Option<Timestamp>,
    /// Indexes that are done.
    done: Indexes,
    /// Ended pods that are still held.
    ended: Vec<Arc<Value>>,
    /// The uids of those among them that succeeded and that failed. They are counted when they were let go: what is
    /// written down here first can neither be missed nor counted twice.
    uncounted: (Vec<String>, Vec<String>),
}

fn is_finished(job: &Value) -> bool {
    job.condition_holds("Complete") || job.condition_holds("Failed")
}

fn is_indexed(job: &Value) -> bool {
    job["spec"]["completionMode"] == "Indexed"
}

fn tally(job: &Value, members: &[Arc<Value>]) -> Tally {
    let noted = |name: &str| job.list(&format!("/status/uncountedTerminatedPods/{name}"));
    let number =
        |name: &str| job.number(&format!("/status/{name}")).unwrap_or_default() + count(noted(name).len());
    let mut tally = Tally {
        succeeded: number("succeeded"),
        failed: number("failed"),
        done: Indexes::read(job.text("/status/completedIndexes")),
        ..Tally::default()
    };
    for pod in members {
        if pods::is_active(pod) {
            tally.ready += i64::from(pod.condition_holds("Ready"));
            tally.active.push(Arc::clone(pod));
        } else if !pod.is_over() {
            // Counted once its containers have ended.
            tally.terminating += i64::from(pod.has_finalizer(TRACKING));
        } else {
            tally.count_ended(
                pod,
                noted("succeeded").iter().chain(noted("failed")).any(|uid| uid == pod.uid()),
            );
        }
    }
    if is_indexed(job) {
        tally.succeeded = tally.done.count();
    }
    tally
}

impl Tally {
    /// Takes in a pod that has ended; `known` is one that was noted before.
    fn count_ended(&mut self, pod: &Arc<Value>, known: bool) {
        let well = pod["status"]["phase"] == "Succeeded";
        if !well {
            self.failed_at = self.failed_at.max(ended_at(pod));
        }
        if !pod.has_finalizer(TRACKING) {
            return;
        }
        self.ended.push(Arc::clone(pod));
        let (list, number) = if well {
            (&mut self.uncounted.0, &mut self.succeeded)
        } else {
            (&mut self.uncounted.1, &mut self.failed)
        };
        list.push(pod.uid().to_owned());
        *number += i64::from(!known);
        if let Ok(index) = pod.annotation(INDEX).parse::<i64>()
            && well
        {
            self.done.insert(index);
        }
    }
}

/// When the containers of a pod ended.
fn ended_at(pod: &Value) -> Option<Timestamp> {
    let ends = pod.list("/status/containerStatuses").iter();
    ends.filter_map(|status| status.text("/state/terminated/finishedAt").parse().ok()).max()
}

/// How a job stands by its counts.
fn verdict(job: &Value, tally: &Tally, now: Timestamp) -> Verdict {
    let restarts: i64 = tally
        .active
        .iter()
        .filter(|pod| pod["spec"]["restartPolicy"] == "OnFailure")
        .flat_map(|pod| pod.list("/status/containerStatuses"))
        .filter_map(|status| status.number("/restartCount"))
        .sum();
    let limit = job.number("/spec/backoffLimit").unwrap_or(6);
    if tally.failed > limit || limit > 0 && restarts >= limit && restarts > 0 {
        return Verdict::Failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if let Some(left) = time_left(job, now)
        && left.is_zero()
    {
        return Verdict::Failed("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let enough = match job.number("/spec/completions") {
        Some(completions) => tally.succeeded >= completions,
        // A queue of work is done when one says so and all have ended.
        None => tally.succeeded > 0 && tally.active.is_empty() && tally.terminating == 0,
    };
    match (enough, job.flag("/spec/suspend")) {
        (true, _) => Verdict::Complete,
        (false, true) => Verdict::Suspended,
        (false, false) => Verdict::Running,
    }
}

/// How long a job may still take; for ever where there is nothing.
fn time_left(job: &Value, now: Timestamp) -> Option<Duration> {
    let allowed =
        Duration::from_secs(u64::try_from(job.number("/spec/activeDeadlineSeconds")?).unwrap_or_default());
    let start: Timestamp = job.text("/status/startTime").parse().ok()?;
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    Some(allowed.saturating_sub(passed))
}

/// How long to wait before another pod is started after failures.
fn rest(tally: &Tally, now: Timestamp) -> Duration {
    let Some(at) = tally.failed_at.filter(|_| tally.failed > 0) else { return Duration::ZERO };
    let doubled = u32::try_from(tally.failed - 1).unwrap_or_default();
    let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(doubled)).min(LONGEST_WAIT);
    wait.saturating_sub(Duration::try_from(now.duration_since(at)).unwrap_or_default())
}

/// How many pods should run at once.
fn wanted(job: &Value, tally: &Tally) -> i64 {
    let parallelism = job.number("/spec/parallelism").unwrap_or(1);
    match job.number("/spec/completions") {
        Some(completions) => parallelism.min((completions - tally.succeeded).max(0)),
        // Once one has succeeded nobody takes on new work.
        None if tally.succeeded > 0 => count(tally.active.len()).min(parallelism),
        None => parallelism,
    }
}

/// The indexes of pods that are to be started, lowest first.
fn free_indexes(job: &Value, tally: &Tally, most: usize) -> Vec<i64> {
    let busy: BTreeSet<i64> =
        tally.active.iter().filter_map(|pod| pod.annotation(INDEX).parse().ok()).collect();
    tally.done.free(job.number("/spec/completions").unwrap_or_default(), &busy, most)
}

/// A pod of a job, with an index where it has one.
fn pod_of(job: &Value, index: Option<i64>) -> Value {
    let mut pod = pods::from_template(&JOB, job, job.at("/spec/template"));
    pod.add_finalizer(TRACKING);
    let Some(index) = index else { return pod };
    pod.set("/metadata/generateName", format!("{}-{index}-", job.name()).into());
    pod.set_annotation(INDEX, &index.to_string());
    pod.set_label(INDEX, &index.to_string());
    pod.set("/spec/hostname", format!("{}-{index}", job.name()).into());
    let path = format!("metadata.labels['{INDEX}']");
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    for list in ["/spec/containers", "/spec/initContainers"] {
        for container in pod.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = container.list("/env").to_vec();
            variables.push(variable.clone());
            container["env"] = variables.into();
        }
    }
    pod
}

fn put(job: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let mut conditions = job.list("/status/conditions").to_vec();
    if conditions.iter().any(|one| one["type"] == kind && one["status"] == status) {
        return;
    }
    conditions.retain(|one| one["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now,
        "reason": reason, "message": message,
    }));
    job.set("/status/conditions", conditions.into());
}

/// Puts counts and conditions into the status of a job.
fn note(job: &mut Value, tally: &Tally, verdict: &Verdict, at: Timestamp) {
    let now = seconds(at);
    if *verdict != Verdict::Suspended && job.text("/status/startTime").is_empty() {
        job.set("/status/startTime", now.as_str().into());
    }
    let (well, ill) = &tally.uncounted;
    for (name, number) in [
        ("active", count(tally.active.len())),
        ("succeeded", tally.succeeded - count(well.len())),
        ("failed", tally.failed - count(ill.len())),
    ] {
        if number > 0 {
            job.set(&format!("/status/{name}"), number.into());
        } else {
            job.unset(&format!("/status/{name}"));
        }
    }
    job.set("/status/terminating", tally.terminating.into());
    job.set("/status/ready", tally.ready.into());
    let mut uncounted = json!({});
    for (name, list) in [("succeeded", well), ("failed", ill)] {
        if !list.is_empty() {
            uncounted[name] = list.clone().into();
        }
    }
    job.set("/status/uncountedTerminatedPods", uncounted);
    if is_indexed(job) && !tally.done.is_empty() {
        job.set("/status/completedIndexes", tally.done.to_string().into());
    }
    let over = tally.active.is_empty() && tally.terminating == 0 && tally.ended.is_empty();
    match verdict {
        Verdict::Running => {
            if job.condition_holds("Suspended") {
                put(job, "Suspended", "False", "JobResumed", "Job resumed", &now);
                job.set("/status/startTime", now.as_str().into());
            }
        }
        Verdict::Suspended => {
            put(job, "Suspended", "True", "JobSuspended", "Job suspended", &now);
            job.unset("/status/startTime");
        }
        Verdict::Complete => {
            let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
            put(job, "SuccessCriteriaMet", "True", reason, message, &now);
            if over {
                put(job, "Complete", "True", reason, message, &now);
                job.set("/status/completionTime", now.as_str().into());
            }
        }
        Verdict::Failed(reason, message) => {
            put(job, "FailureTarget", "True", reason, message, &now);
            if over {
                put(job, "Failed", "True", reason, message, &now);
            }
        }
    }
}

impl Jobs {
    pub(super) fn new(context: &Context) -> Self {
        Self { hand: Hand::new(context, &JOB, "job-controller") }
    }

    /// Lets pods go that have been counted.
    async fn release(&self, pods: &[Arc<Value>]) -> Result {
        for pod in pods {
            let mut finalizers = pod.list("/metadata/finalizers").to_vec();
            finalizers.retain(|one| one != TRACKING);
            let metadata = json!({
                "resourceVersion": pod["metadata"]["resourceVersion"], "finalizers": finalizers,
            });
            match self.hand.client.merge(&POD, &Key::of(pod), &json!({"metadata": metadata})).await {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts or ends pods; how long to wait before the next may be started.
    async fn scale(&self, job: &Value, tally: &Tally, now: Timestamp) -> Result<Option<Duration>> {
        let (has, wants) = (count(tally.active.len()), wanted(job, tally));
        let surplus = usize::try_from(has - wants).unwrap_or_default();
        for pod in pods::least_useful(&tally.active).into_iter().take(surplus) {
            self.hand.take(job, &pod).await?;
        }
        let missing = usize::try_from(wants - has).unwrap_or_default().min(BURST);
        if missing == 0 {
            return Ok(None);
        }
        let rest = rest(tally, now);
        if !rest.is_zero() {
            return Ok(Some(rest));
        }
        let indexes: Vec<Option<i64>> = if is_indexed(job) {
            free_indexes(job, tally, missing).into_iter().map(Some).collect()
        } else {
            vec![None; missing]
        };
        for index in indexes {
            self.hand.make(job, pod_of(job, index)).await?;
        }
        Ok(None)
    }

    /// Ends all pods of a job that is over or held.
    async fn end(&self, job: &Value, tally: &Tally) -> Result {
        for pod in &tally.active {
            self.hand.take(job, pod).await?;
        }
        Ok(())
    }

    /// Tells what has happened to a job between two states of its status.
    async fn tell(&self, old: &Value, new: &Value) {
        let began = |kind: &str| !old.condition_holds(kind) && new.condition_holds(kind);
        let recorder = &self.hand.recorder;
        if began("Complete") {
            recorder.normal(&JOB, new, "Completed", "Job completed").await;
        }
        if began("Failed") {
            let failed = new.condition("Failed");
            recorder.warning(&JOB, new, failed.text("/reason"), failed.text("/message")).await;
        }
        if began("Suspended") {
            recorder.normal(&JOB, new, "Suspended", "Job suspended").await;
        }
        if old.condition_holds("Suspended") && !new.condition_holds("Suspended") {
            recorder.normal(&JOB, new, "Resumed", "Job resumed").await;
        }
    }

    /// Removes a job some time after its end, if it says so.
    async fn expire(&self, job: &Value) -> Looked {
        let Some(ttl) = job.number("/spec/ttlSecondsAfterFinished") else { return Ok(Next::Done) };
        let ends =
            ["Complete", "Failed"].into_iter().map(|kind| job.condition(kind).text("/lastTransitionTime"));
        let Some(end) = ends.filter_map(|text| text.parse::<Timestamp>().ok()).max() else {
            return Ok(Next::Done);
        };
        let passed = Duration::try_from(self.hand.clock.now().duration_since(end)).unwrap_or_default();
        let left = Duration::from_secs(u64::try_from(ttl).unwrap_or_default()).saturating_sub(passed);
        if !left.is_zero() {
            return Ok(Next::After(left));
        }
        self.hand.client.delete(&JOB, &Key::of(job), job.uid()).await?;
        Ok(Next::Done)
    }
}

impl Controller for Jobs {
    const NAME: &'static str = "job-controller";

    fn watches(&self) -> Vec<Watch> {
        self.hand.watches(&POD)
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(job) = self.hand.client.cache(&JOB).get(key) else {
            // Nobody counts what is left any more.
            let owned = |pod: &Arc<Value>| {
                pod.controller().is_some_and(|owner| owner["kind"] == "Job" && owner["name"] == *key.name)
            };
            let mut left = self.hand.client.cache(&POD).list(&key.namespace);
            left.retain(|pod| pod.has_finalizer(TRACKING) && owned(pod));
            self.release(&left).await?;
            return Ok(Next::Done);
        };
        if job.is_deleting() || is_finished(&job) {
            let members = self.hand.client.cache(&POD).controlled_by(job.uid());
            let held: Vec<_> = members.into_iter().filter(|pod| pod.has_finalizer(TRACKING)).collect();
            self.release(&held).await?;
            return if job.is_deleting() { Ok(Next::Done) } else { self.expire(&job).await };
        }
        let members = self.hand.claim(&POD, &job).await?;
        let now = self.hand.clock.now();
        let tally = tally(&job, &members);
        let verdict = verdict(&job, &tally, now);
        let mut new = (*job).clone();
        note(&mut new, &tally, &verdict, now);
        if new["status"] != job["status"] {
            new = self.hand.client.replace_status(&JOB, &new).await?;
            self.tell(&job, &new).await;
        }
        self.release(&tally.ended).await?;
        let mut again = None;
        match verdict {
            Verdict::Running => again = self.scale(&new, &tally, now).await?,
            _ => self.end(&new, &tally).await?,
        }
        let again = again.into_iter().chain(time_left(&new, now).filter(|left| !left.is_zero())).min();
        Ok(again.map_or(Next::Done, Next::After))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, phase: &str) -> Arc<Value> {
        Arc::new(json!({"metadata": {"uid": uid, "finalizers": [TRACKING]}, "status": {"phase": phase}}))
    }

    #[test]
    fn pods_are_counted_once() {
        let mut job = json!({"spec": {"completions": 4, "parallelism": 2}, "status": {"succeeded": 1}});
        let counted = Arc::new(json!({"metadata": {"uid": "c"}, "status": {"phase": "Succeeded"}}));
        let pods = [pod("s", "Succeeded"), counted, pod("f", "Failed"), pod("r", "Running")];
        let first = tally(&job, &pods);
        assert_eq!((first.succeeded, first.failed, first.active.len(), first.ended.len()), (2, 1, 1, 2));
        assert_eq!(wanted(&job, &first), 2);
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(verdict(&job, &first, now), Verdict::Running);
        note(&mut job, &first, &Verdict::Running, now);
        let uncounted = json!({"succeeded": ["s"], "failed": ["f"]});
        assert_eq!(
            (&job["status"]["succeeded"], &job["status"]["uncountedTerminatedPods"]),
            (&json!(1), &uncounted)
        );
        let again = tally(&job, &pods);
        assert_eq!((again.succeeded, again.failed), (2, 1));
        let last = tally(&job, &pods[3..]);
        note(&mut job, &last, &Verdict::Running, now);
        assert_eq!((&job["status"]["succeeded"], &job["status"]["failed"]), (&json!(2), &json!(1)));
    }

    #[test]
    fn a_job_completes_or_is_given_up() {
        let now = Timestamp::UNIX_EPOCH;
        let job = json!({"spec": {"completions": 1, "backoffLimit": 0}});
        assert_eq!(verdict(&job, &Tally { succeeded: 1, ..Tally::default() }, now), Verdict::Complete);
        let failed = verdict(&job, &Tally { failed: 1, ..Tally::default() }, now);
        assert!(matches!(failed, Verdict::Failed("BackoffLimitExceeded", _)));
        let mut noted = job.clone();
        note(&mut noted, &Tally { failed: 1, terminating: 1, ..Tally::default() }, &failed, now);
        assert!(noted.condition_holds("FailureTarget") && !noted.condition_holds("Failed"));
    }

    #[test]
    fn failures_make_a_job_wait_longer_and_longer() {
        let now = Timestamp::UNIX_EPOCH;
        let failed = |failed| Tally { failed, failed_at: Some(now), ..Tally::default() };
        assert_eq!(rest(&failed(1), now), Duration::from_secs(10));
        assert_eq!(rest(&failed(3), now), Duration::from_secs(40));
        assert_eq!(rest(&Tally::default(), now), Duration::ZERO);
    }

    #[test]
    fn pods_get_the_lowest_free_indexes() {
        let job = json!({"spec": {"completions": 2_147_483_647, "completionMode": "Indexed"}});
        let running = Arc::new(json!({"metadata": {"annotations": {INDEX: "3"}}}));
        let tally = Tally { done: Indexes::read("0-1"), active: vec![running], ..Tally::default() };
        assert_eq!(free_indexes(&job, &tally, 2), [2, 4]);
    }
}
