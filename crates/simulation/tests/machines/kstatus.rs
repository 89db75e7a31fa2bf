//! What `kubectl wait`, Argo and Flux make of our statuses: their rules (kstatus) written down here, and held against
//! every status that objects have on their way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::families::{KKP, OPENSHIFT, TRELLIS};
use trellis_infra::kinds::Kind;
use trellis_infra::object::Object as _;

use crate::families::pool;
use crate::stage::{
    CONTROL, KKP_DEPLOYMENT, KKP_MACHINE, KKP_SET, MACHINE, OPENSHIFT_MACHINE, OPENSHIFT_SET, POOL, Stage,
};
use crate::{kkp, openshift};

/// What those tools call the state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    InProgress,
    Failed,
    Current,
    Terminating,
}

/// The rules for kinds that a tool knows nothing special about.
fn verdict(object: &Value) -> Verdict {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Verdict::Terminating;
    }
    let observed = object.number("/status/observedGeneration");
    if observed.is_some() && observed != object.number("/metadata/generation") {
        return Verdict::InProgress;
    }
    let is = |kind: &str, status: &str| {
        let conditions = object.list("/status/conditions");
        conditions.iter().any(|one| one.text("/type") == kind && one.text("/status") == status)
    };
    if is("Reconciling", "True") {
        Verdict::InProgress
    } else if is("Stalled", "True") {
        Verdict::Failed
    } else if is("Ready", "False") || is("Ready", "Unknown") {
        Verdict::InProgress
    } else {
        Verdict::Current
    }
}

/// Every state an object had, without what stayed the same.
#[derive(Default)]
struct Followed {
    verdicts: Vec<(String, Verdict)>,
    wrong: Vec<String>,
}

impl Followed {
    fn look(&mut self, object: &Value, done: fn(&Value) -> bool) {
        // What nobody has looked at yet has no status; tools that wait for a condition wait.
        if object.pointer("/status/conditions").is_none() {
            return;
        }
        let (name, now) = (object.name().to_owned(), verdict(object));
        self.wrong.extend(contradictions(object, now, done));
        if self.verdicts.iter().rfind(|(other, _)| *other == name).map(|last| last.1) != Some(now) {
            self.verdicts.push((name, now));
        }
    }
}

/// Looks at each change of the objects of a kind. `done` says whether one truly is as wished.
fn follow(stage: &Stage, kind: &'static Kind, done: fn(&Value) -> bool) -> Arc<Mutex<Followed>> {
    let followed = Arc::new(Mutex::new(Followed::default()));
    let cache = stage.world.person.cache(kind);
    let mut changes = cache.changes();
    let seen = Arc::clone(&followed);
    tokio::spawn(async move {
        loop {
            cache.list(CONTROL).iter().for_each(|object| seen.lock().unwrap().look(object, done));
            changes.recv().await;
        }
    });
    followed
}

fn contradictions(object: &Value, now: Verdict, done: fn(&Value) -> bool) -> Vec<String> {
    let holds = |kind: &str| object.condition_holds(kind);
    let mut wrong = Vec::new();
    let mut say = |what: &str| wrong.push(format!("{what}: {} {}", object.name(), object["status"]));
    if now == Verdict::Current && !done(object) {
        say("it counts as done and is not");
    }
    if holds("Reconciling") && holds("Stalled") {
        say("it is on its way and is not");
    }
    if holds("Ready") && (holds("Reconciling") || holds("Stalled")) {
        say("it is ready and is not");
    }
    if object.number("/status/observedGeneration") > object.number("/metadata/generation") {
        say("it has seen what is not there yet");
    }
    for condition in object.list("/status/conditions") {
        let complete = ["type", "status", "reason", "lastTransitionTime"]
            .iter()
            .all(|key| !condition.text(&format!("/{key}")).is_empty());
        if !complete {
            say("a condition lacks something");
        }
    }
    wrong
}

fn pool_is_done(pool: &Value) -> bool {
    let wished = pool.number("/spec/replicas").unwrap_or(1);
    let count = |key: &str| pool.number(&format!("/status/{key}")).unwrap_or_default();
    count("replicas") == wished && count("availableReplicas") == wished
}

fn machine_is_done(machine: &Value) -> bool {
    machine.text("/status/phase") == "Running" && !machine.text("/status/nodeRef/name").is_empty()
}

/// What one object went through.
fn states(followed: &Mutex<Followed>, name: &str) -> Vec<Verdict> {
    let followed = followed.lock().unwrap();
    assert!(followed.wrong.is_empty(), "{:#?}", followed.wrong);
    followed.verdicts.iter().filter(|(other, _)| other == name).map(|(_, verdict)| *verdict).collect()
}

async fn until_current(stage: &Stage, kind: &'static Kind, name: &str) -> Arc<Value> {
    let current = |object: &Value| {
        verdict(object) == Verdict::Current
            && object.condition_holds("Ready")
            && object.number("/status/observedGeneration") == object.number("/metadata/generation")
    };
    stage.world.until(kind, &Stage::key(name), current).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pool_and_its_machines_are_in_progress_until_they_are_current() {
    use Verdict::{Current, InProgress, Terminating};
    let stage = Stage::start(&TRELLIS).await;
    let pools = follow(&stage, &POOL, pool_is_done);
    let machines = follow(&stage, &MACHINE, machine_is_done);
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    until_current(&stage, &POOL, "workers").await;
    let image = json!({"spec": {"template": {"image": {"source": {"registry": {"url": "docker://registry.example/ubuntu:26.04"}}}}}});
    let old = stage.until_nodes(1).await;
    stage.world.person.merge(&POOL, &Stage::key("workers"), &image).await.unwrap();
    until_current(&stage, &POOL, "workers").await;
    let new = stage.until_nodes(1).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(states(&pools, "workers"), [InProgress, Current, InProgress, Current]);
    assert_eq!(states(&machines, new[0].name()), [InProgress, Current]);
    let of_old = states(&machines, old[0].name());
    assert_eq!((of_old.first(), of_old.last()), (Some(&InProgress), Some(&Terminating)), "{of_old:?}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_get_further_has_failed() {
    let stage = Stage::start(&TRELLIS).await;
    let machines = follow(&stage, &MACHINE, machine_is_done);
    stage.store_user_data(CONTROL, "join", "userData").await;
    let rule = json!({"name": "lost", "stage": "guest.join", "effect": "hang"});
    stage.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
    stage.create(&POOL, pool(3)).await;
    tokio::time::sleep(Duration::from_mins(40)).await;
    for name in stage.vms().await {
        assert_eq!(states(&machines, &name), [Verdict::InProgress, Verdict::Failed]);
    }
}

#[tokio::test(start_paused = true)]
async fn machine_deployments_and_what_they_made_are_understood() {
    use Verdict::{Current, InProgress};
    let stage = Stage::start(&KKP).await;
    let followed = [
        follow(&stage, &KKP_DEPLOYMENT, pool_is_done),
        follow(&stage, &KKP_SET, pool_is_done),
        follow(&stage, &KKP_MACHINE, machine_is_done),
    ];
    stage.store_user_data(kkp::BOOTSTRAP.0, kkp::BOOTSTRAP.1, "cloud-config").await;
    stage.create(&KKP_DEPLOYMENT, kkp::deployment(1)).await;
    until_current(&stage, &KKP_DEPLOYMENT, "workers").await;
    let node = stage.until_nodes(1).await;
    let set = kkp::all(&stage, &KKP_SET).await;
    until_current(&stage, &KKP_SET, set[0].name()).await;
    assert_eq!(states(&followed[0], "workers"), [InProgress, Current]);
    assert_eq!(states(&followed[1], set[0].name()).last(), Some(&Current));
    assert_eq!(states(&followed[2], node[0].name()), [InProgress, Current]);
}

#[tokio::test(start_paused = true)]
async fn machine_sets_of_openshift_are_understood() {
    let stage = Stage::start(&OPENSHIFT).await;
    let sets = follow(&stage, &OPENSHIFT_SET, pool_is_done);
    let machines = follow(&stage, &OPENSHIFT_MACHINE, machine_is_done);
    openshift::install(&stage).await;
    stage.create(&OPENSHIFT_SET, openshift::set(1)).await;
    let node = stage.until_nodes(1).await;
    let name = openshift::set(1).text("/metadata/name").to_owned();
    until_current(&stage, &OPENSHIFT_SET, &name).await;
    assert_eq!(states(&sets, &name).last(), Some(&Verdict::Current));
    assert_eq!(states(&machines, node[0].name()), [Verdict::InProgress, Verdict::Current]);
}
