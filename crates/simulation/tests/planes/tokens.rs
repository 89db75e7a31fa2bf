//! Tokens are short-lived, and yet machines that have to wait get their configurations.

use std::time::Duration;

use serde_json::json;
use trellis_infra::kinds::VMI;
use trellis_infra::object::Object as _;
use trellis_runtime::Site;

use crate::install::Grown;
use crate::stage::CLUSTER;

/// Has a stage take that many minutes for machines of a name.
fn slow(grown: &Grown, stage: &str, name: Option<&str>, minutes: u32) {
    let seconds = f64::from(minutes) * 60.0;
    let matches: Vec<_> = name.iter().map(|name| json!(["/metadata/name", name])).collect();
    let rule = json!({"stage": stage, "match": matches, "delay": {"min": seconds, "max": seconds}});
    grown.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
}

async fn grows(grown: &Grown, patience: Duration) {
    let stop = grown.look_after(None);
    let client = grown.tenant().await;
    // The record is served anew with the tenant's API as soon as that is known.
    stop.cancel();
    let _stop = grown.look_after(Some(Site::new("tenant", client)));
    grown.within(patience, "the control plane", async || grown.holds("BootstrapComplete").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_waits_for_its_image_starts_with_a_fresh_token() {
    let grown = Grown::start().await;
    for stage in ["volume.provision", "clone.csi", "clone.copy"] {
        slow(&grown, stage, None, 40);
    }
    grows(&grown, Duration::from_hours(6)).await;
    let passed = grown.condition("BootstrapComplete").await.text("/lastTransitionTime").to_owned();
    assert!(passed.as_str() > "2026-01-01T00:40:00Z", "it has waited: {passed}");
}

#[tokio::test(start_paused = true)]
async fn a_master_whose_token_ended_before_anybody_served_gets_another() {
    let grown = Grown::start().await;
    slow(&grown, "guest.boot", Some("blue-bootstrap"), 40);
    let stop = grown.look_after(None);
    let running = async || {
        let all = grown.world.person.list(&VMI, CLUSTER).await.unwrap();
        let masters = all.iter().filter(|vmi| vmi.name().contains("masters"));
        let running = masters.filter(|vmi| vmi.text("/status/phase") == "Running");
        running.map(|vmi| vmi.uid().to_owned()).collect::<Vec<_>>()
    };
    grown.until("masters that run", async || running().await.len() == 3).await;
    let before = running().await;
    stop.cancel();
    grows(&grown, Duration::from_hours(2)).await;
    let after = running().await;
    assert!(before.iter().all(|uid| !after.contains(uid)), "each has started again");
    assert_eq!(grown.console("blue-bootstrap").await.matches("handed out to").count() % 3, 0);
}
