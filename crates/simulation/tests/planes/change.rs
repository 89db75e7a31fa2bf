//! How a control plane is changed: one machine at a time, whatever happens.

use std::collections::BTreeSet;

use serde_json::json;

use crate::stage::Stage;

/// At no change was there no quorum, and never did fewer members vote.
fn always(stage: &Stage, least: usize) {
    for quorum in stage.quorums() {
        assert!(quorum.holds() && quorum.voting >= least && quorum.learning <= 1, "{quorum:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_all_masters_and_keeps_the_quorum() {
    let stage = Stage::with(3).await;
    let before: BTreeSet<String> = stage.machines().await.into_iter().collect();
    let image = json!({"registry": {"url": "docker://registry.example/flatcar:2"}});
    stage.change(json!({"template": {"image": {"source": image}}})).await;
    stage.settled(3).await;
    let after: BTreeSet<String> = stage.machines().await.into_iter().collect();
    assert!(before.is_disjoint(&after), "{after:?}");
    always(&stage, 3);
    let most = stage.quorums().iter().map(|quorum| quorum.voting).max();
    assert_eq!(most, Some(4), "one more voted before one left");
}

#[tokio::test(start_paused = true)]
async fn it_grows_and_shrinks() {
    let stage = Stage::with(1).await;
    let first = stage.machines().await.remove(0);
    stage.change(json!({"replicas": 3})).await;
    stage.settled(3).await;
    assert!(stage.machines().await.contains(&first));
    stage.change(json!({"replicas": 1})).await;
    stage.settled(1).await;
    always(&stage, 1);
}
