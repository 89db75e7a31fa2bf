//! What controllers do without: a tenant that does not answer, secrets that are no longer needed, needless requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::controllers::Settings;
use trellis_engine::families::{Family, KKP, OPENSHIFT, TRELLIS};
use trellis_infra::kinds::{Kind, NETWORK_POLICY, SECRET, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::stages::Profile;
use trellis_runtime::client::Leads;
use trellis_simulation::Make;

use crate::families::pool;
use crate::health::{machine, vm, with_pool};
use crate::stage::{
    CLUSTER, CONTROL, KKP_DEPLOYMENT, KKP_MACHINE, MACHINE, OPENSHIFT_MACHINE, OPENSHIFT_SET, POOL, Stage,
};
use crate::{kkp, openshift};

crate::everywhere!(user_data_is_there_before_the_vm_and_gone_after_joining);

/// A connection on which nobody answers.
fn nobody() -> kube::Client {
    let refuse = |_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::from(
            std::io::ErrorKind::ConnectionRefused,
        ))
    };
    kube::Client::new(tower::service_fn(refuse), "default")
}

#[tokio::test(start_paused = true)]
async fn while_the_tenant_does_not_answer_nothing_is_removed() {
    let (stage, nodes) = with_pool(2).await;
    let (going, lost) = (nodes[0].name(), nodes[1].name());
    stage.sites.tenant.swap(nobody(), Leads::Same);
    let mut health = stage.sites.tenant.health();
    let down = health.wait_for(|health| !health.is_up());
    tokio::time::timeout(Duration::from_mins(5), down).await.expect("it is never down").unwrap();
    stage.world.person.delete(&MACHINE, &Stage::key(going), "").await.unwrap();
    stage.world.person.delete(&VM, &vm(lost), "").await.unwrap();
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert!(stage.vms().await.contains(&going.to_owned()), "its Node may have pods");
    let kept = machine(&stage, lost).await.unwrap();
    assert!(!kept.is_deleting(), "nothing is replaced: {kept}");
    stage.sites.tenant.swap(stage.tenant.client(), Leads::Same);
    for name in [going, lost] {
        stage.world.until_gone(&MACHINE, &Stage::key(name)).await.unwrap();
    }
    stage.until_nodes(2).await;
}

/// The Secrets with user data of the VMs.
async fn secrets(stage: &Stage) -> Vec<Value> {
    let mut secrets = stage.world.person.list(&SECRET, CLUSTER).await.unwrap();
    secrets.retain(|secret| !secret.label("trellis.dev/machine").is_empty());
    secrets
}

async fn user_data_is_there_before_the_vm_and_gone_after_joining() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let mut made = stage.world.person.cache(&VM).changes();
    stage.create(&POOL, pool(1)).await;
    made.recv().await;
    let stored = secrets(&stage).await;
    assert_eq!(stored.len(), 1);
    assert!(stored[0]["data"].as_object().is_some_and(|data| !data.is_empty()));
    let nodes = stage.until_nodes(1).await;
    let ready = |one: &Value| one.condition_holds("Ready");
    stage.world.until(&MACHINE, &Stage::key(nodes[0].name()), ready).await.unwrap();
    stage.quiet(Duration::from_mins(1)).await;
    let told = stage.tenant.user_data().unwrap();
    let token = told.split_whitespace().skip_while(|word| *word != "--token").nth(1).unwrap().to_owned();
    for secret in secrets(&stage).await {
        for (_, text) in secret["data"].as_object().into_iter().flatten() {
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(&token), "the token is still there");
        }
    }
}

/// What was asked for between two counts.
fn between(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = |(what, count): (&String, &u64)| {
        let more = count - before.get(what).copied().unwrap_or_default();
        (more > 0).then(|| (what.clone(), more))
    };
    after.iter().filter_map(more).collect()
}

/// The requests that change something of a machine itself: not its pool, and not what people are told of it.
fn of_machine(made: &BTreeMap<String, u64>) -> u64 {
    const APART: [&str; 6] = [
        " events",
        "machinepools",
        "machinesets",
        "machinedeployments",
        "control create ",
        "controllerrevisions",
    ];
    const READS: [&str; 3] = [" get ", " list ", " watch "];
    let counts = |what: &str| !APART.iter().chain(&READS).any(|part| what.contains(part));
    made.iter().filter(|(what, _)| counts(what)).map(|(_, count)| count).sum()
}

/// Scales a pool from one machine to two where nothing takes time, and counts. The second machine shares what the
/// first one needed.
async fn takes_few_requests(stage: &Stage, pool: &'static Kind, name: &str, machine: &'static Kind) {
    stage.until_nodes(1).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let before = stage.sites.requests();
    let vms = stage.world.person.cache(&VM);
    let mut changes = vms.changes();
    stage.world.person.merge(pool, &Stage::key(name), &json!({"spec": {"replicas": 2}})).await.unwrap();
    while vms.list(CLUSTER).len() < 2 {
        changes.recv().await;
    }
    let to_vm = between(&before, &stage.sites.requests());
    assert!(of_machine(&to_vm) <= 4, "to its VM: {to_vm:?}");
    for node in stage.until_nodes(2).await {
        stage.until_running(machine, node.name()).await;
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    let made = between(&before, &stage.sites.requests());
    // Six until it is ready; the last one erases the user data.
    assert!(of_machine(&made) <= 7, "{made:?}");
    assert_eq!(made.get("infra patch secrets"), Some(&2), "the user data is stored and erased: {made:?}");
    let status = made.iter().filter(|(what, _)| what.contains("/status") && what.contains(" machines."));
    assert!(status.map(|(_, count)| count).sum::<u64>() <= 2, "{made:?}");
    let asked = made.keys().find(|what| what.contains(" get ") || what.contains(" list "));
    assert_eq!(asked, None, "{made:?}");
    let ready = stage.sites.requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let mut idle = between(&ready, &stage.sites.requests());
    idle.retain(|what, _| !what.contains(" watch "));
    assert_eq!(idle, BTreeMap::new(), "an idle hour");
}

/// A stage on which nothing takes time.
async fn instant(family: &'static Family) -> Stage {
    let mut make = Make::default();
    make.settings.profile = Profile::Instant;
    Stage::start_with(family, make, Settings::default()).await
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_ours_takes_few_requests() {
    let stage = instant(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    takes_few_requests(&stage, &POOL, "workers", &MACHINE).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_kkp_takes_few_requests() {
    let stage = instant(&KKP).await;
    stage.store_user_data(kkp::BOOTSTRAP.0, kkp::BOOTSTRAP.1, "cloud-config").await;
    stage.create(&KKP_DEPLOYMENT, kkp::deployment(1)).await;
    takes_few_requests(&stage, &KKP_DEPLOYMENT, "workers", &KKP_MACHINE).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_openshift_takes_few_requests() {
    let stage = instant(&OPENSHIFT).await;
    openshift::install(&stage).await;
    stage.create(&OPENSHIFT_SET, openshift::set(1)).await;
    takes_few_requests(&stage, &OPENSHIFT_SET, openshift::SET, &OPENSHIFT_MACHINE).await;
}

/// The phases of a life that takes its time are all said, and progress no more often than every five seconds.
#[tokio::test(start_paused = true)]
async fn a_phase_that_stays_is_said() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let cache = stage.world.person.cache(&MACHINE);
    let mut changes = cache.changes();
    let seen: Arc<Mutex<Vec<(String, tokio::time::Instant)>>> = Arc::default();
    let told = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Some(change) = changes.recv().await {
            let phase = change.after.map(|machine| machine.text("/status/phase").to_owned());
            told.lock().unwrap().push((phase.unwrap_or_default(), tokio::time::Instant::now()));
        }
    });
    stage.create(&POOL, pool(1)).await;
    let nodes = stage.until_nodes(1).await;
    stage.until_running(&MACHINE, nodes[0].name()).await;
    let seen = seen.lock().unwrap();
    for phase in ["ImageImporting", "Creating", "Starting", "Joining", "Running"] {
        assert!(seen.iter().any(|(said, _)| said == phase), "{phase}: {seen:?}");
    }
    let progress: Vec<_> = seen.iter().filter(|(phase, _)| phase == "ImageImporting").collect();
    assert!(progress.windows(2).all(|pair| pair[1].1 - pair[0].1 >= Duration::from_secs(1)), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_takes_no_requests() {
    let (stage, _) = with_pool(2).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let before = stage.sites.requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let mut idle = between(&before, &stage.sites.requests());
    // A watch that ends is opened again where it ended.
    idle.retain(|what, _| !what.contains(" watch "));
    assert_eq!(idle, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn isolation_that_somebody_takes_away_comes_back() {
    let (stage, _) = with_pool(1).await;
    let person = &stage.world.person;
    let before = person.list(&NETWORK_POLICY, CLUSTER).await.unwrap();
    let denies = before.iter().find(|policy| policy.name().contains("default-deny")).unwrap();
    let key = Key::of(denies);
    person.delete(&NETWORK_POLICY, &key, "").await.unwrap();
    let comes = |policy: &Value| policy["spec"] == denies["spec"] && policy.uid() != denies.uid();
    stage.world.until(&NETWORK_POLICY, &key, comes).await.unwrap();
}
