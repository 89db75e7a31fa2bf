//! Workloads: what becomes of Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets, and of Endpoints kept by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use trellis_infra::kinds::{
    CONTROLLER_REVISION, CRON_JOB, DAEMON_SET, DEPLOYMENT, ENDPOINT_SLICE, ENDPOINTS, JOB, Kind, POD, PVC,
    REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET,
};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, PATIENCE, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_replica_set_keeps_its_pods),
        scenario!(a_replication_controller_keeps_its_pods),
        scenario!(a_deployment_rolls_out_bit_by_bit),
        scenario!(old_and_new_pods_are_not_together),
        scenario!(a_paused_deployment_waits),
        scenario!(a_deployment_that_gets_nowhere_says_so),
        scenario!(a_stateful_set_goes_in_order),
        scenario!(a_job_runs_to_its_end),
        scenario!(a_job_of_all_numbers_goes_on),
        scenario!(a_job_that_fails_is_given_up),
        scenario!(a_cron_job_starts_jobs),
        scenario!(a_daemon_set_is_on_every_host),
        scenario!(endpoints_without_a_selector_are_mirrored),
    ]
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// A workload with a template of one container.
fn workload(name: &str, more: &Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": "registry.example/app:1"}]},
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field.as_str()] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// The pods of an app, those that go included.
fn pods_of(cx: &Cx, app: &str) -> Vec<Arc<Value>> {
    let mut pods = cx.client.cache(&POD).list(&cx.namespace);
    pods.retain(|pod| pod.label("app") == app);
    pods
}

/// Waits until something holds that pods or other objects of a kind decide.
async fn until_all(cx: &Cx, kind: &'static Kind, what: &str, holds: impl Fn() -> bool) -> Result {
    let mut changes = cx.client.cache(kind).changes();
    let waited = async {
        while !holds() {
            changes.recv().await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.map_err(|_| format!("never: {what}").into())
}

/// Changes the image of a workload.
async fn update(cx: &Cx, kind: &'static Kind, name: &str, image: &str) -> Result {
    let operations = json!([{"op": "replace", "path": IMAGE, "value": image}]);
    cx.client.json_patch(kind, &cx.key(name), &operations).await?;
    Ok(())
}

async fn a_replica_set_keeps_its_pods(cx: Cx) -> Result {
    let mut orphan = crate::hosts::pod("orphan");
    orphan.set_label("app", "web");
    cx.create(&POD, orphan).await?;
    let set = cx.create(&REPLICA_SET, workload("web", &json!({"replicas": 3}))).await?;
    let ready = |set: &Value| set.number("/status/availableReplicas") == Some(3);
    cx.until(&REPLICA_SET, &cx.key("web"), ready).await?;
    // Who fits and belongs to nobody is taken in.
    let orphan = cx.until(&POD, &cx.key("orphan"), |pod| pod.is_controlled_by(set.uid())).await?;
    let live = || pods_of(&cx, "web").into_iter().filter(|pod| !pod.is_deleting()).count();
    until_all(&cx, &POD, "three pods", || live() == 3).await?;
    assert_eq!(orphan.controller().map(|owner| owner.flag("/blockOwnerDeletion")), Some(true));
    let event = cx.until_event("web", "SuccessfulCreate").await?;
    assert!(event.text("/message").starts_with("Created pod: web-"), "{event}");
    cx.client.delete(&POD, &cx.key("orphan"), "").await?;
    cx.until_gone(&POD, &cx.key("orphan")).await?;
    until_all(&cx, &POD, "three pods again", || live() == 3).await?;
    // Who is relabelled is let go, and replaced.
    let away = pods_of(&cx, "web").remove(0);
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    cx.client.merge(&POD, &Key::of(&away), &labels).await?;
    cx.until(&POD, &Key::of(&away), |pod| pod.controller().is_none()).await?;
    until_all(&cx, &POD, "three pods without that one", || live() == 3).await?;
    cx.client.merge(&REPLICA_SET, &cx.key("web"), &json!({"spec": {"replicas": 1}})).await?;
    cx.until(&REPLICA_SET, &cx.key("web"), |set| set.number("/status/replicas") == Some(1)).await?;
    cx.until_event("web", "SuccessfulDelete").await?;
    cx.client.delete(&REPLICA_SET, &cx.key("web"), "").await?;
    until_all(&cx, &POD, "no pods", || pods_of(&cx, "web").is_empty()).await
}

async fn a_replication_controller_keeps_its_pods(cx: Cx) -> Result {
    let key = cx.key("old");
    let mut old = workload("old", &json!({"replicas": 2}));
    old["spec"]["selector"] = json!({"app": "old"});
    let old = cx.create(&REPLICATION_CONTROLLER, old).await?;
    let ready = |old: &Value| old.number("/status/availableReplicas") == Some(2);
    let seen = cx.until(&REPLICATION_CONTROLLER, &key, ready).await?;
    assert_eq!(seen.number("/status/observedGeneration"), Some(1));
    let owner = pods_of(&cx, "old")[0].controller().cloned();
    assert_eq!(owner.map(|owner| owner["kind"].clone()), Some("ReplicationController".into()));
    let event = cx.until_event("old", "SuccessfulCreate").await?;
    assert!(event.text("/message").starts_with("Created pod: old-"), "{event}");
    cx.client.merge(&REPLICATION_CONTROLLER, &key, &json!({"spec": {"replicas": 3}})).await?;
    let live = |holds: fn(&Value) -> bool| {
        pods_of(&cx, "old").into_iter().filter(|pod| !pod.is_deleting() && holds(pod)).count()
    };
    until_all(&cx, &POD, "three pods", || live(|pod| pod.controller().is_some()) == 3).await?;
    // Whoever goes and leaves its pods behind does not take them back.
    let options = json!({"propagationPolicy": "Orphan", "preconditions": {"uid": old.uid()}});
    let path = REPLICATION_CONTROLLER.path(&cx.namespace, "old");
    cx.client.send(Method::DELETE, &path, Some(("application/json", &options))).await?;
    cx.until_gone(&REPLICATION_CONTROLLER, &key).await?;
    until_all(&cx, &POD, "three orphans", || live(|pod| pod.controller().is_none()) == 3).await
}

fn is_rolled_out(deployment: &Value, replicas: i64, revision: &str) -> bool {
    deployment.condition("Progressing")["reason"] == "NewReplicaSetAvailable"
        && deployment.annotation("deployment.kubernetes.io/revision") == revision
        && deployment.number("/status/observedGeneration") == Some(deployment.generation())
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
            .iter()
            .all(|name| deployment["status"][name] == replicas)
}

async fn a_deployment_rolls_out_bit_by_bit(cx: Cx) -> Result {
    let key = cx.key("web");
    let rolling = json!({"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut history = cx.follow(&DEPLOYMENT, &key).await;
    cx.create(&DEPLOYMENT, workload("web", &rolling)).await?;
    let deployment = cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 3, "1")).await?;
    assert!(deployment.condition_holds("Available"));
    assert_eq!(deployment.condition("Available")["reason"], "MinimumReplicasAvailable");
    let sets = || cx.client.cache(&REPLICA_SET).controlled_by(deployment.uid());
    let first = sets().remove(0);
    let hash = first.label("pod-template-hash").to_owned();
    assert_eq!(first.name(), format!("web-{hash}"));
    assert_eq!(first.text("/spec/selector/matchLabels/pod-template-hash"), hash);
    assert_eq!(first.annotation("deployment.kubernetes.io/desired-replicas"), "3");
    assert_eq!(first.annotation("deployment.kubernetes.io/max-replicas"), "4");
    let event = cx.until_event("web", "ScalingReplicaSet").await?;
    assert_eq!(event.text("/message"), format!("Scaled up replica set web-{hash} from 0 to 3"));
    let started = history.states().len();
    update(&cx, &DEPLOYMENT, "web", "registry.example/app:2").await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 3, "2")).await?;
    for state in &history.states()[started..] {
        let number = |name: &str| state["status"][name].as_i64().unwrap_or_default();
        assert!(number("availableReplicas") >= 3, "too few: {}", state["status"]);
        assert!(number("replicas") <= 4, "too many: {}", state["status"]);
    }
    let old =
        cx.until(&REPLICA_SET, &Key::of(&first), |set| set.number("/status/replicas") == Some(0)).await?;
    assert_eq!(old.number("/spec/replicas"), Some(0));
    // Back to what was before: the old set is the new one again.
    update(&cx, &DEPLOYMENT, "web", "registry.example/app:1").await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 3, "3")).await?;
    assert_eq!(sets().len(), 2);
    cx.client.merge(&DEPLOYMENT, &key, &json!({"spec": {"replicas": 5}})).await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 5, "3")).await?;
    let set = cx.until(&REPLICA_SET, &Key::of(&first), |set| set.number("/spec/replicas") == Some(5)).await?;
    assert_eq!(set.annotation("deployment.kubernetes.io/desired-replicas"), "5");
    cx.client.delete(&DEPLOYMENT, &key, "").await?;
    until_all(&cx, &POD, "no pods", || pods_of(&cx, "web").is_empty()).await
}

async fn old_and_new_pods_are_not_together(cx: Cx) -> Result {
    let key = cx.key("one");
    let spec = json!({"replicas": 2, "strategy": {"type": "Recreate"}});
    cx.create(&DEPLOYMENT, workload("one", &spec)).await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 2, "1")).await?;
    let mut changes = cx.client.cache(&POD).changes();
    update(&cx, &DEPLOYMENT, "one", "registry.example/app:2").await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 2, "2")).await?;
    let mut there: BTreeSet<(String, String)> = BTreeSet::new();
    while let Ok(change) = changes.try_recv() {
        let pod = change.object();
        if pod.label("app") != "one" || pod.namespace() != cx.namespace {
            continue;
        }
        let entry = (pod.label("pod-template-hash").to_owned(), pod.name().to_owned());
        // A pod that has ended does not count, though it may still be there.
        let over = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
        if change.after.is_some() && !over {
            there.insert(entry);
        } else {
            there.remove(&entry);
        }
        let hashes: BTreeSet<&String> = there.iter().map(|(hash, _)| hash).collect();
        assert!(hashes.len() < 2, "old and new together: {there:?}");
    }
    assert_eq!(there.len(), 2);
    Ok(())
}

async fn a_paused_deployment_waits(cx: Cx) -> Result {
    let key = cx.key("web");
    let deployment = cx.create(&DEPLOYMENT, workload("web", &json!({"replicas": 1}))).await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 1, "1")).await?;
    cx.client.merge(&DEPLOYMENT, &key, &json!({"spec": {"paused": true}})).await?;
    let paused = |one: &Value| one.condition("Progressing")["reason"] == "DeploymentPaused";
    cx.until(&DEPLOYMENT, &key, paused).await?;
    update(&cx, &DEPLOYMENT, "web", "registry.example/app:2").await?;
    // It can be scaled all the same.
    cx.client.merge(&DEPLOYMENT, &key, &json!({"spec": {"replicas": 2}})).await?;
    cx.until(&DEPLOYMENT, &key, |one| one.number("/status/availableReplicas") == Some(2)).await?;
    let sets = || cx.client.cache(&REPLICA_SET).controlled_by(deployment.uid()).len();
    assert_eq!(sets(), 1);
    cx.client.merge(&DEPLOYMENT, &key, &json!({"spec": {"paused": false}})).await?;
    cx.until(&DEPLOYMENT, &key, |one| is_rolled_out(one, 2, "2")).await?;
    assert_eq!(sets(), 2);
    Ok(())
}

async fn a_deployment_that_gets_nowhere_says_so(cx: Cx) -> Result {
    let key = cx.key("stuck");
    let mut deployment = workload("stuck", &json!({"replicas": 1, "progressDeadlineSeconds": 2}));
    deployment.set("/spec/template/spec/readinessGates", json!([{"conditionType": "example.com/never"}]));
    cx.create(&DEPLOYMENT, deployment).await?;
    let late = |one: &Value| one.condition("Progressing")["reason"] == "ProgressDeadlineExceeded";
    let deployment = cx.until(&DEPLOYMENT, &key, late).await?;
    assert_eq!(deployment.condition("Progressing")["status"], "False");
    let message = deployment.condition("Progressing").text("/message").to_owned();
    assert!(
        message.starts_with("ReplicaSet \"stuck-") && message.ends_with("has timed out progressing."),
        "{message}"
    );
    assert_eq!(deployment.condition("Available")["reason"], "MinimumReplicasUnavailable");
    assert_eq!(deployment.number("/status/unavailableReplicas"), Some(1));
    Ok(())
}

async fn a_stateful_set_goes_in_order(cx: Cx) -> Result {
    let key = cx.key("db");
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let spec = json!({"replicas": 3, "serviceName": "db", "volumeClaimTemplates": [claim]});
    let mut changes = cx.client.cache(&POD).changes();
    let set = cx.create(&STATEFUL_SET, workload("db", &spec)).await?;
    let ready = |set: &Value| {
        set.number("/status/availableReplicas") == Some(3)
            && set.number("/status/updatedReplicas") == Some(3)
            && set["status"]["currentRevision"] == set["status"]["updateRevision"]
    };
    let first = cx.until(&STATEFUL_SET, &key, ready).await?;
    let mut well = BTreeSet::new();
    while let Ok(change) = changes.try_recv() {
        let Some(pod) = change.after.filter(|pod| pod.is_controlled_by(set.uid())) else { continue };
        let ordinal: i64 = pod.label("apps.kubernetes.io/pod-index").parse()?;
        assert!((0..ordinal).all(|before| well.contains(&before)), "{ordinal} came before {well:?}");
        if pod.condition_holds("Ready") {
            well.insert(ordinal);
        }
    }
    for ordinal in 0..3 {
        let name = format!("db-{ordinal}");
        let pod = cx.until(&POD, &cx.key(&name), |pod| pod.condition_holds("Ready")).await?;
        assert_eq!((pod.text("/spec/hostname"), pod.text("/spec/subdomain")), (name.as_str(), "db"));
        assert_eq!(pod.label("statefulset.kubernetes.io/pod-name"), name);
        assert_eq!(pod.label("controller-revision-hash"), first.text("/status/updateRevision"));
        cx.until(&PVC, &cx.key(&format!("data-{name}")), |claim| claim.text("/status/phase") == "Bound")
            .await?;
    }
    // Who is deleted comes back under the same name, with the same claim.
    let before = cx.until(&POD, &cx.key("db-1"), |_| true).await?;
    cx.client.delete(&POD, &cx.key("db-1"), before.uid()).await?;
    cx.until(&POD, &cx.key("db-1"), |pod| pod.uid() != before.uid() && pod.condition_holds("Ready")).await?;
    cx.until(&STATEFUL_SET, &key, ready).await?;
    let mut changes = cx.client.cache(&POD).changes();
    update(&cx, &STATEFUL_SET, "db", "registry.example/app:2").await?;
    let changed =
        |set: &Value| ready(set) && set["status"]["updateRevision"] != first["status"]["updateRevision"];
    cx.until(&STATEFUL_SET, &key, changed).await?;
    let mut gone = Vec::new();
    while let Ok(change) = changes.try_recv() {
        if change.after.is_none() && change.object().is_controlled_by(set.uid()) {
            gone.push(change.object().name().to_owned());
        }
    }
    assert_eq!(gone, ["db-2", "db-1", "db-0"]);
    assert_eq!(cx.client.cache(&CONTROLLER_REVISION).controlled_by(set.uid()).len(), 2);
    cx.client.merge(&STATEFUL_SET, &key, &json!({"spec": {"replicas": 1}})).await?;
    cx.until(&STATEFUL_SET, &key, |set| set.number("/status/replicas") == Some(1)).await?;
    cx.until_gone(&POD, &cx.key("db-1")).await?;
    assert!(cx.client.get(&PVC, &cx.key("data-db-2")).await?.is_some(), "claims outlive their pods");
    let event = cx.until_event("db", "SuccessfulDelete").await?;
    let message = event.text("/message");
    assert!(
        message.starts_with("Delete Pod db-") && message.ends_with(" in StatefulSet db successful"),
        "{message}"
    );
    Ok(())
}

/// A job that ends with a code.
fn job(name: &str, exit: &str, more: &Value) -> Value {
    let mut job = workload(name, more);
    job.unset("/spec/selector");
    job.set("/spec/template/spec/restartPolicy", "Never".into());
    if !exit.is_empty() {
        job.set("/spec/template/metadata/annotations", json!({"lab.trellis.dev/exit": exit}));
    }
    job
}

async fn a_job_runs_to_its_end(cx: Cx) -> Result {
    let key = cx.key("work");
    let mut history = cx.follow(&JOB, &key).await;
    cx.create(&JOB, job("work", "", &json!({"completions": 3, "parallelism": 2}))).await?;
    let job = cx.until(&JOB, &key, |job| job.condition_holds("Complete")).await?;
    assert_eq!((job.number("/status/succeeded"), job.number("/status/active")), (Some(3), None));
    assert!(!job.text("/status/completionTime").is_empty() && job.condition_holds("SuccessCriteriaMet"));
    assert_eq!(job.condition("Complete")["reason"], "CompletionsReached");
    assert!(history.states().iter().all(|job| job.number("/status/active").unwrap_or_default() <= 2));
    let pods = pods_of(&cx, "work");
    assert_eq!(pods.iter().filter(|pod| pod.text("/status/phase") == "Succeeded").count(), 3);
    for pod in &pods {
        cx.until(&POD, &Key::of(pod), |pod| pod.list("/metadata/finalizers").is_empty()).await?;
        assert_eq!(pod.label("batch.kubernetes.io/job-name"), "work");
    }
    cx.until_event("work", "Completed").await?;
    // Indexes are all done once; what says so goes by itself.
    let indexed = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "ttlSecondsAfterFinished": 1});
    let mut history = cx.follow(&JOB, &cx.key("parts")).await;
    cx.create(&JOB, self::job("parts", "", &indexed)).await?;
    cx.until(&JOB, &cx.key("parts"), |_| true).await?;
    cx.until_gone(&JOB, &cx.key("parts")).await?;
    let done = history.states().last().map(|job| job.text("/status/completedIndexes").to_owned());
    assert_eq!(done.as_deref(), Some("0-2"));
    until_all(&cx, &POD, "its pods are gone", || pods_of(&cx, "parts").is_empty()).await
}

async fn a_job_of_all_numbers_goes_on(cx: Cx) -> Result {
    let spec = json!({"completions": i32::MAX, "parallelism": 2, "completionMode": "Indexed"});
    cx.create(&JOB, job("endless", "", &spec)).await?;
    let some = |job: &Value| job.number("/status/succeeded").is_some_and(|done| done >= 4);
    let job = cx.until(&JOB, &cx.key("endless"), some).await?;
    assert!(job.text("/status/completedIndexes").starts_with("0-"), "{job}");
    cx.client.delete(&JOB, &cx.key("endless"), "").await?;
    until_all(&cx, &POD, "its pods are gone", || pods_of(&cx, "endless").is_empty()).await
}

async fn a_job_that_fails_is_given_up(cx: Cx) -> Result {
    cx.create(&JOB, job("broken", "3", &json!({"backoffLimit": 1}))).await?;
    let job = cx.until(&JOB, &cx.key("broken"), |job| job.condition_holds("Failed")).await?;
    assert_eq!(job.condition("Failed")["reason"], "BackoffLimitExceeded");
    assert_eq!(job.condition("Failed")["message"], "Job has reached the specified backoff limit");
    assert_eq!(job.number("/status/failed"), Some(2));
    cx.until_event("broken", "BackoffLimitExceeded").await?;
    Ok(())
}

async fn a_cron_job_starts_jobs(cx: Cx) -> Result {
    let key = cx.key("tick");
    let template =
        json!({"metadata": {"labels": {"app": "tick"}}, "spec": job("tick", "", &json!({}))["spec"]});
    let cron = json!({
        "metadata": {"name": "tick"},
        "spec": {"schedule": "*/1 * * * ?", "concurrencyPolicy": "Forbid", "jobTemplate": template},
    });
    let cron = cx.create(&CRON_JOB, cron).await?;
    let mine = || cx.client.cache(&JOB).controlled_by(cron.uid());
    until_all(&cx, &JOB, "a job at the next minute", || !mine().is_empty()).await?;
    let job = mine().remove(0);
    let scheduled = job.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp");
    let minute = scheduled.parse::<jiff::Timestamp>()?.as_second() / 60;
    assert_eq!((job.name(), job.label("app")), (format!("tick-{minute}").as_str(), "tick"));
    let seen = cx.until(&CRON_JOB, &key, |cron| !cron.text("/status/lastScheduleTime").is_empty()).await?;
    assert_eq!(seen.text("/status/lastScheduleTime"), scheduled);
    let event = cx.until_event("tick", "SuccessfulCreate").await?;
    assert_eq!(event.text("/message"), format!("Created job {}", job.name()));
    cx.client.delete(&CRON_JOB, &key, "").await?;
    until_all(&cx, &JOB, "no jobs", || mine().is_empty()).await
}

async fn a_daemon_set_is_on_every_host(cx: Cx) -> Result {
    let key = cx.key("agent");
    let set = cx.create(&DAEMON_SET, workload("agent", &json!({}))).await?;
    let ready = |set: &Value| {
        ["desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled"]
            .iter()
            .all(|name| set["status"][name] == 3)
            && set.number("/status/observedGeneration") == Some(set.generation())
    };
    cx.until(&DAEMON_SET, &key, ready).await?;
    let nodes: BTreeSet<String> =
        pods_of(&cx, "agent").iter().map(|pod| pod.text("/spec/nodeName").to_owned()).collect();
    assert_eq!(nodes.len(), 3);
    let started = pods_of(&cx, "agent");
    let mut history = cx.follow(&DAEMON_SET, &key).await;
    history.states();
    update(&cx, &DAEMON_SET, "agent", "registry.example/app:2").await?;
    cx.until(&DAEMON_SET, &key, |now| ready(now) && now.generation() > set.generation()).await?;
    for state in history.states() {
        assert!(state.number("/status/numberUnavailable").unwrap_or_default() <= 1, "{}", state["status"]);
    }
    for pod in started {
        cx.until_gone(&POD, &Key::of(&pod)).await?;
    }
    Ok(())
}

async fn endpoints_without_a_selector_are_mirrored(cx: Cx) -> Result {
    let service = json!({"metadata": {"name": "outside"}, "spec": {"ports": [{"name": "http", "port": 80}]}});
    cx.create(&SERVICE, service).await?;
    let endpoints = json!({
        "metadata": {"name": "outside", "labels": {"mine": "yes"}},
        "subsets": [{"addresses": [{"ip": "192.0.2.10"}], "ports": [{"name": "http", "port": 8080}]}],
    });
    let endpoints = cx.create(&ENDPOINTS, endpoints).await?;
    let slices = || cx.client.cache(&ENDPOINT_SLICE).controlled_by(endpoints.uid());
    until_all(&cx, &ENDPOINT_SLICE, "a slice", || slices().len() == 1).await?;
    let slice = slices().remove(0);
    assert_eq!(
        slice.label("endpointslice.kubernetes.io/managed-by"),
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!((slice.label("kubernetes.io/service-name"), slice.label("mine")), ("outside", "yes"));
    assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.10"], "conditions": {"ready": true}}]));
    assert_eq!(slice.number("/ports/0/port"), Some(8080));
    let more = json!([{"op": "add", "path": "/subsets/0/addresses/-", "value": {"ip": "192.0.2.11"}}]);
    cx.client.json_patch(&ENDPOINTS, &cx.key("outside"), &more).await?;
    cx.until(&ENDPOINT_SLICE, &Key::of(&slice), |slice| slice.list("/endpoints").len() == 2).await?;
    cx.client.delete(&ENDPOINTS, &cx.key("outside"), "").await?;
    cx.until_gone(&ENDPOINT_SLICE, &Key::of(&slice)).await
}
