//! What the requests that a machine cannot do without cost the server, measured on the same kinds in the same run.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use trellis_runtime::{Key, Resource, Site};

use super::objects::{CLUSTER, CONTROL, MACHINE, SECRET, VM};
use crate::support::Result;
use crate::usage::Usage;

/// Where the copies go: nobody looks after them.
const PLACE: &str = "default";
/// How many requests of a kind are sent, and how many together.
const REQUESTS: usize = 400;
const TOGETHER: usize = 16;

/// Processor time of the server for one request of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    pub(crate) secret: Duration,
    pub(crate) vm: Duration,
    pub(crate) patch: Duration,
}

impl Costs {
    /// What a machine costs at least: its Secret and its VM are created, and its status is written once.
    pub(crate) fn of_machine(&self) -> Duration {
        self.secret + self.vm + self.patch
    }

    /// Sends copies of what the controller made for a machine.
    pub(crate) async fn measure(site: &Site, server: &[u32], machine: &str) -> Result<Self> {
        let key = Key::new(CLUSTER, machine);
        let vm: Value = site.get(&VM, &key).await?;
        let machine: Value = site.get(&MACHINE, &Key::new(CONTROL, machine)).await?;
        let data = json!({"userdata": "eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMy40LjAifX0="});
        let secret = json!({"metadata": {"labels": vm["metadata"]["labels"]}, "data": data});
        let vm = json!({
            "metadata": {"labels": vm["metadata"]["labels"], "annotations": vm["metadata"]["annotations"]},
            "spec": vm["spec"],
        });
        let status = machine["status"].clone();
        let machine = json!({"metadata": {"labels": machine["metadata"]["labels"]}, "spec": machine["spec"]});
        creates(site, &MACHINE, &machine, REQUESTS).await?;
        Ok(Self {
            secret: cost(server, creates(site, &SECRET, &secret, REQUESTS)).await?,
            vm: cost(server, creates(site, &VM, &vm, REQUESTS)).await?,
            patch: cost(server, patches(site, &status)).await?,
        })
    }
}

/// What each of the requests costs the server.
async fn cost(server: &[u32], requests: impl Future<Output = Result>) -> Result<Duration> {
    let before = Usage::of(server)?.cpu;
    requests.await?;
    let used = Usage::of(server)?.cpu.saturating_sub(before);
    Ok(used / u32::try_from(REQUESTS)?)
}

fn name(number: usize) -> String {
    format!("copy-{number}")
}

async fn creates(site: &Site, kind: &Resource, object: &Value, count: usize) -> Result {
    let copies = (0..count).map(|number| {
        let mut copy = object.clone();
        copy["metadata"]["name"] = name(number).into();
        copy
    });
    stream::iter(copies)
        .map(|copy| async move { site.create::<Value>(kind, PLACE, &copy).await })
        .buffer_unordered(TOGETHER)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}

async fn patches(site: &Site, status: &Value) -> Result {
    let patch = &json!({"status": status});
    stream::iter(0..REQUESTS)
        .map(|number| async move {
            site.merge_patch_status::<Value>(&MACHINE, &Key::new(PLACE, &name(number)), patch).await
        })
        .buffer_unordered(TOGETHER)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}
