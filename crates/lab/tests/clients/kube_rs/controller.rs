//! A controller with everything controllers do: a custom resource, children it owns, a finalizer, a status.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use super::{PATIENCE, World, refused, until};
use crate::support::Result;

super::scenarios!["controller": reconciles];

/// How long the controller leaves an object alone that nothing happens to.
const HOUR: Duration = Duration::from_hours(1);

/// What a garden should be like.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "kube-rs.example.com",
    version = "v1",
    kind = "Garden",
    namespaced,
    status = "GardenStatus",
    shortname = "gdn",
    printcolumn = r#"{"name": "Beds", "type": "integer", "jsonPath": ".spec.beds"}"#,
    scale(spec_replicas_path = ".spec.beds", status_replicas_path = ".status.beds"),
    validation = "!has(self.spec.owner) || self.spec.owner != 'nobody'"
)]
#[serde(rename_all = "camelCase")]
struct GardenSpec {
    /// How many beds it has.
    #[schemars(range(min = 1, max = 10))]
    beds: i32,
    /// Whose it is.
    owner: Option<String>,
    /// What grows in it.
    #[serde(default = "grass")]
    plant: String,
}

fn grass() -> String {
    "grass".to_owned()
}

/// What a garden is like.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GardenStatus {
    beds: i32,
    observed_generation: i64,
}

/// What the reconciler knows, and what it did.
struct Context {
    client: Client,
    reconciled: AtomicUsize,
    cleaned: AtomicUsize,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<kube::runtime::finalizer::Error<Failure>>),
}

async fn reconcile(garden: Arc<Garden>, context: Arc<Context>) -> std::result::Result<Action, Failure> {
    context.reconciled.fetch_add(1, Ordering::Relaxed);
    let gardens: Api<Garden> =
        Api::namespaced(context.client.clone(), &garden.namespace().unwrap_or_default());
    finalizer(&gardens, "kube-rs.example.com/tidy", garden, |event| async {
        match event {
            Event::Apply(garden) => plant(&garden, &context.client).await,
            Event::Cleanup(_) => {
                context.cleaned.fetch_add(1, Ordering::Relaxed);
                Ok(Action::await_change())
            }
        }
    })
    .await
    .map_err(|failure| Failure::Finalizer(Box::new(failure)))
}

/// Makes the beds of a garden, and says so in its status.
async fn plant(garden: &Garden, client: &Client) -> std::result::Result<Action, Failure> {
    let ns = garden.namespace().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &ns);
    let params = PatchParams::apply("garden-controller").force();
    for bed in 0..garden.spec.beds {
        let name = format!("{}-bed-{bed}", garden.name_any());
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": garden.controller_owner_ref(&()).map(|owner| vec![owner])},
            "data": {"plant": garden.spec.plant},
        });
        maps.patch(&name, &params, &Patch::Apply(map)).await?;
    }
    let status = json!({
        "apiVersion": Garden::api_version(&()), "kind": Garden::kind(&()),
        "status": GardenStatus { beds: garden.spec.beds, observed_generation: garden.meta().generation.unwrap_or(0) },
    });
    Api::<Garden>::namespaced(client.clone(), &ns)
        .patch_status(&garden.name_any(), &params, &Patch::Apply(status))
        .await?;
    Ok(Action::requeue(HOUR))
}

/// Waits until the status tells a number of beds, for the newest wish.
async fn until_beds(gardens: &Api<Garden>, beds: i32) -> Result<Garden> {
    until(&format!("it has {beds} beds"), || async {
        let found = gardens.get("g").await?;
        let status = found.status.clone().unwrap_or_default();
        let newest = Some(status.observed_generation) == found.meta().generation;
        Ok((status.beds == beds && newest).then_some(found))
    })
    .await
}

async fn reconciles(world: World) -> Result {
    let definitions: Api<CustomResourceDefinition> = world.all();
    let params = PatchParams::apply("test").force();
    definitions.patch(Garden::crd_name(), &params, &Patch::Apply(Garden::crd())).await?;
    let established =
        await_condition(definitions.clone(), Garden::crd_name(), conditions::is_crd_established());
    timeout(PATIENCE, established).await??;

    let context = Arc::new(Context { client: world.client.clone(), reconciled: 0.into(), cleaned: 0.into() });
    let gardens: Api<Garden> = world.api();
    let maps: Api<ConfigMap> = world.api();
    let controller = Controller::new(gardens.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::clone(&context))
        .for_each(|_| async {});
    let running = tokio::spawn(controller);

    let spec = GardenSpec { beds: 3, owner: None, plant: grass() };
    gardens.create(&PostParams::default(), &Garden::new("g", spec)).await?;
    let garden = until_beds(&gardens, 3).await?;
    assert_eq!(garden.finalizers(), ["kube-rs.example.com/tidy"]);
    assert_eq!(maps.get("g-bed-2").await?.data.unwrap_or_default()["plant"], "grass");

    // A child that is taken away or changed comes back as it should be.
    maps.delete("g-bed-1", &DeleteParams::default()).await?;
    until("the bed is back", || async { Ok(maps.get_opt("g-bed-1").await?) }).await?;
    maps.patch("g-bed-0", &PatchParams::default(), &Patch::Merge(json!({"data": {"plant": "weed"}}))).await?;
    until("the weed is gone", || async {
        let map = maps.get("g-bed-0").await?;
        Ok((map.data.unwrap_or_default()["plant"] == "grass").then_some(()))
    })
    .await?;

    // Changes of the object and of its scale reach the controller, bad ones do not reach the store.
    gardens.patch("g", &PatchParams::default(), &Patch::Merge(json!({"spec": {"plant": "roses"}}))).await?;
    gardens
        .patch_scale("g", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 4}})))
        .await?;
    until_beds(&gardens, 4).await?;
    assert_eq!(maps.get("g-bed-3").await?.data.unwrap_or_default()["plant"], "roses");
    let bad = refused(
        gardens.patch("g", &PatchParams::default(), &Patch::Merge(json!({"spec": {"beds": 11}}))).await,
    );
    assert_eq!(bad.code, 422);
    let bad = refused(
        gardens
            .patch("g", &PatchParams::default(), &Patch::Merge(json!({"spec": {"owner": "nobody"}})))
            .await,
    );
    assert!(bad.message.contains("!has(self.spec.owner)"), "{}", bad.message);

    // With nothing to do, it comes back after an hour; where time stands still that is now.
    let before = context.reconciled.load(Ordering::Relaxed);
    let clock = std::time::Instant::now();
    let paused = tokio::runtime::Handle::current().runtime_flavor()
        == tokio::runtime::RuntimeFlavor::CurrentThread
        && super::time_stands_still().await;
    if paused {
        tokio::time::sleep(3 * HOUR + Duration::from_mins(1)).await;
        let rounds = context.reconciled.load(Ordering::Relaxed) - before;
        assert!((3..10).contains(&rounds), "{rounds} rounds in three hours");
        assert!(clock.elapsed() < Duration::from_mins(1));
    }

    // On its way out the finalizer is served, then the children are collected.
    gardens.delete("g", &DeleteParams::default()).await?;
    until("the garden is gone", || async { Ok(gardens.get_opt("g").await?.is_none().then_some(())) }).await?;
    assert!(context.cleaned.load(Ordering::Relaxed) >= 1);
    until("the beds are gone", || async { Ok(maps.get_opt("g-bed-0").await?.is_none().then_some(())) })
        .await?;
    running.abort();
    definitions.delete(Garden::crd_name(), &DeleteParams::default()).await?;
    Ok(())
}
