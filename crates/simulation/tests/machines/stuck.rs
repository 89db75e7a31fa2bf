//! Updates that do not get through: they say so in time, shrink on both sides, and are taken back.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::families::{KKP, TRELLIS};
use trellis_infra::kinds::{EVENT, RESOURCE_QUOTA};
use trellis_infra::object::Object as _;

use crate::families::pool;
use crate::kkp::{BOOTSTRAP, all, deployment, settled as deployed, template};
use crate::real::is_real;
use crate::rollout::{NEW, OLD, change, image, machines, settled, start, uids};
use crate::stage::{CONTROL, KKP_DEPLOYMENT, KKP_MACHINE, KKP_SET, POOL, Stage};

crate::everywhere!(
    an_update_without_progress_says_so_at_its_deadline,
    a_stuck_update_shrinks_on_both_sides_and_is_taken_back,
);

/// No guest joins from now on.
fn nobody_joins(stage: &Stage) {
    let rule = json!({"name": "lost", "stage": "guest.join", "effect": "hang"});
    stage.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
}

fn somebody_joins(stage: &Stage) {
    stage.world.infra.context().stages.remove("lost");
}

async fn an_update_without_progress_says_so_at_its_deadline() {
    let deadline = Duration::from_secs(if is_real() { 10 } else { 300 });
    let update = json!({"maxSurge": 1, "maxUnavailable": 0, "progressDeadlineSeconds": deadline.as_secs()});
    let stage = start(2, &update).await;
    let before = uids(&machines(&stage).await);
    nobody_joins(&stage);
    let begin = tokio::time::Instant::now();
    change(&stage, &image(NEW)).await;
    let late = |pool: &Value| {
        let said = pool.condition("Progressing");
        said.text("/status") == "False" && said.text("/reason") == "ProgressDeadlineExceeded"
    };
    let told = stage.world.until(&POOL, &Stage::key("workers"), late).await.unwrap();
    let passed = begin.elapsed();
    // Times in objects are whole seconds.
    assert!(passed + Duration::from_secs(2) > deadline, "already after {passed:?}");
    assert!(passed < deadline + Duration::from_secs(90), "only after {passed:?}");
    assert!(told.condition_holds("Stalled") && !told.condition_holds("Ready"), "{told}");
    assert!(told.condition_holds("Available"), "{told}");
    // The old ones stay, and going back ends it.
    let now = uids(&machines(&stage).await);
    assert!(now.is_superset(&before) && now.len() == 3, "{now:?}");
    somebody_joins(&stage);
    change(&stage, &image(OLD)).await;
    settled(&stage, 2).await;
    assert_eq!(uids(&machines(&stage).await), before);
}

/// The sizes of the sets by age, with how many of their machines exist.
async fn sizes(stage: &Stage) -> Vec<(i64, usize)> {
    let mut sets = all(stage, &KKP_SET).await;
    sets.sort_by_key(|set| set.annotation(crate::kkp::REVISION).to_owned());
    let machines = all(stage, &KKP_MACHINE).await;
    let of = |set: &Value| {
        let owned = |one: &&Value| one.text("/metadata/ownerReferences/0/name") == set.name();
        (set.number("/spec/replicas").unwrap_or_default(), machines.iter().filter(owned).count())
    };
    sets.iter().map(of).collect()
}

async fn until_sizes(stage: &Stage, wanted: &[(i64, usize)]) {
    let begin = tokio::time::Instant::now();
    while sizes(stage).await != wanted {
        let now = sizes(stage).await;
        assert!(begin.elapsed() < stage.world.make.patience(), "not {wanted:?} but {now:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn a_stuck_update_shrinks_on_both_sides_and_is_taken_back() {
    let stage = Stage::start(&KKP).await;
    stage.store_user_data(BOOTSTRAP.0, BOOTSTRAP.1, "cloud-config").await;
    let mut object = deployment(6);
    object["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 0});
    stage.create(&KKP_DEPLOYMENT, object).await;
    let workers = Stage::key("workers");
    stage.world.until(&KKP_DEPLOYMENT, &workers, deployed(6)).await.unwrap();
    let before = uids(&all(&stage, &KKP_MACHINE).await);
    nobody_joins(&stage);
    let person = &stage.world.person;
    person.merge(&KKP_DEPLOYMENT, &workers, &json!({"spec": {"template": template(NEW)}})).await.unwrap();
    until_sizes(&stage, &[(6, 6), (3, 3)]).await;
    let new = |all: Vec<Value>| -> BTreeSet<String> {
        uids(&all).into_iter().filter(|uid| !before.contains(uid)).collect()
    };
    let hung = new(all(&stage, &KKP_MACHINE).await);
    // Four of six: both sides give up their share, then as many of those that work stay as are wished, and no more.
    person.merge(&KKP_DEPLOYMENT, &workers, &json!({"spec": {"replicas": 4}})).await.unwrap();
    until_sizes(&stage, &[(4, 4), (3, 3)]).await;
    let left = new(all(&stage, &KKP_MACHINE).await);
    assert_eq!(left.intersection(&hung).count(), 2, "one of the new machines went, too: {hung:?} {left:?}");
    stage.quiet(Duration::from_mins(5)).await;
    assert_eq!(sizes(&stage).await, [(4, 4), (3, 3)]);
    // It is taken back: the old set is the newest again, and no machine of it was replaced.
    somebody_joins(&stage);
    person.merge(&KKP_DEPLOYMENT, &workers, &json!({"spec": {"template": template(OLD)}})).await.unwrap();
    stage.world.until(&KKP_DEPLOYMENT, &workers, deployed(4)).await.unwrap();
    let left = uids(&all(&stage, &KKP_MACHINE).await);
    assert!(left.is_subset(&before) && left.len() == 4, "{left:?}");
    let numbers: Vec<String> = all(&stage, &KKP_SET)
        .await
        .iter()
        .filter(|set| set.number("/spec/replicas") == Some(4))
        .map(|set| set.annotation(crate::kkp::REVISION).to_owned())
        .collect();
    assert_eq!(numbers, ["3"], "going back is the next place in the history");
}

#[tokio::test(start_paused = true)]
async fn machines_that_cannot_be_made_are_told_of() {
    let stage = Stage::start(&TRELLIS).await;
    let person = &stage.world.person;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let none = json!({
        "metadata": {"namespace": CONTROL, "name": "none"}, "spec": {"hard": {"count/machines.trellis.dev": "0"}},
    });
    person.create(&RESOURCE_QUOTA, none).await.unwrap();
    let counts = |quota: &Value| quota.text("/status/hard/count~1machines.trellis.dev") == "0";
    stage.world.until(&RESOURCE_QUOTA, &Stage::key("none"), counts).await.unwrap();
    stage.create(&POOL, pool(2)).await;
    let told = |pool: &Value| pool.condition_holds("ReplicaFailure");
    let said = stage.world.until(&POOL, &Stage::key("workers"), told).await.unwrap();
    let failure = said.condition("ReplicaFailure");
    assert_eq!(failure.text("/reason"), "CreateError", "{said}");
    assert!(failure.text("/message").contains("quota"), "{said}");
    assert!(!said.condition_holds("Ready"), "{said}");
    tokio::time::sleep(Duration::from_mins(30)).await;
    let events = person.list(&EVENT, CONTROL).await.unwrap();
    let of_pool: Vec<&Value> = events.iter().filter(|event| event.text("/reason") == "CreateError").collect();
    assert_eq!(of_pool.len(), 1, "told once: {of_pool:?}");
    // It goes on as soon as it may.
    person.delete(&RESOURCE_QUOTA, &Stage::key("none"), "").await.unwrap();
    stage.until_nodes(2).await;
    let well = |pool: &Value| pool.condition_holds("Ready") && !pool.condition_holds("ReplicaFailure");
    stage.world.until(&POOL, &Stage::key("workers"), well).await.unwrap();
}
