//! `kube::Api`: every way to read and to write.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use kube::api::{
    DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy, WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Discovery, Scope};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

use super::{World, config_map, of, refused, until};
use crate::support::Result;

super::scenarios!["api":
    writes,
    patches,
    applies,
    status_and_scale,
    metadata_only,
    pages,
    deletes,
    refusals,
    tokens,
    evictions,
    nodes,
    leases,
    discovers,
    dynamic_objects,
    publishes_events,
    watches,
];

fn deployment(name: &str) -> Deployment {
    of(crate::context::deployment(name))
}

async fn writes(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    let created = maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    let mut changed = created.clone();
    changed.data.get_or_insert_default().insert("more".to_owned(), "2".to_owned());
    let replaced = maps.replace("a", &PostParams::default(), &changed).await?;
    assert_eq!(replaced.data.as_ref().map(BTreeMap::len), Some(2));
    assert_ne!(replaced.resource_version(), created.resource_version());
    // What was read before is stale now.
    let stale = refused(maps.replace("a", &PostParams::default(), &changed).await);
    assert_eq!((stale.code, stale.reason.as_str()), (409, "Conflict"));
    assert!(maps.get_opt("ghost").await?.is_none());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &config_map("dry", "1")).await?;
    assert!(maps.get_opt("dry").await?.is_none());
    let mut entry = maps
        .entry("a")
        .await?
        .and_modify(|map| {
            map.labels_mut().insert("seen".to_owned(), "yes".to_owned());
        })
        .or_insert(|| config_map("a", "never"));
    entry.commit(&PostParams::default()).await?;
    assert_eq!(maps.get("a").await?.labels().get("seen").map(String::as_str), Some("yes"));
    Ok(())
}

async fn patches(world: World) -> Result {
    let deployments: Api<Deployment> = world.api();
    deployments.create(&PostParams::default(), &deployment("d")).await?;
    let params = PatchParams::default();
    let sidecar = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side"}]}}}});
    let patched = deployments.patch("d", &params, &Patch::Strategic(&sidecar)).await?;
    let names = |deployment: &Deployment| -> Vec<String> {
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.spec.clone());
        template.unwrap_or_default().containers.into_iter().map(|container| container.name).collect()
    };
    assert_eq!(names(&patched), ["side", "main"]);
    let patched = deployments.patch("d", &params, &Patch::Merge(&sidecar)).await?;
    assert_eq!(names(&patched), ["side"]);
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(operations)?);
    let patched = deployments.patch("d", &params, &patch).await?;
    assert_eq!(patched.spec.and_then(|spec| spec.replicas), Some(4));
    let restarted = deployments.restart("d").await?;
    let annotations =
        restarted.spec.and_then(|spec| spec.template.metadata).and_then(|meta| meta.annotations);
    assert!(annotations.is_some_and(|all| all.contains_key("kube.kubernetes.io/restartedAt")));
    Ok(())
}

async fn applies(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    let wanted = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value}});
    let one = PatchParams::apply("one");
    let applied = maps.patch("a", &one, &Patch::Apply(wanted("1"))).await?;
    assert_eq!(applied.managed_fields()[0].operation.as_deref(), Some("Apply"));
    let again = maps.patch("a", &one, &Patch::Apply(wanted("1"))).await?;
    assert_eq!(again.resource_version(), applied.resource_version());
    let two = PatchParams::apply("two");
    let conflict = refused(maps.patch("a", &two, &Patch::Apply(wanted("2"))).await);
    assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
    assert!(conflict.message.contains("conflict with \"one\": .data.key"), "{}", conflict.message);
    let forced = maps.patch("a", &two.force(), &Patch::Apply(wanted("2"))).await?;
    assert_eq!(forced.data.unwrap_or_default()["key"], "2");
    Ok(())
}

async fn status_and_scale(world: World) -> Result {
    let deployments: Api<Deployment> = world.api();
    let made = deployments.create(&PostParams::default(), &deployment("d")).await?;
    let scale = deployments.get_scale("d").await?;
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(1));
    let params = PatchParams::default();
    deployments.patch_scale("d", &params, &Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    let status = json!({"status": {"replicas": 2, "observedGeneration": 2}, "spec": {"replicas": 9}});
    let patched = deployments.patch_status("d", &params, &Patch::Merge(status)).await?;
    assert_eq!(patched.spec.and_then(|spec| spec.replicas), Some(3));
    assert_eq!(deployments.get_status("d").await?.status.and_then(|status| status.replicas), Some(2));
    assert_eq!(made.meta().generation, Some(1));
    assert_eq!(deployments.get("d").await?.meta().generation, Some(2));
    Ok(())
}

async fn metadata_only(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await?;
    }
    let one = maps.get_metadata("a").await?;
    let types = one.types.clone().unwrap_or_default();
    assert_eq!(
        (types.api_version.as_str(), types.kind.as_str()),
        ("meta.k8s.io/v1", "PartialObjectMetadata")
    );
    let list = maps.list_metadata(&ListParams::default().fields("metadata.name=b")).await?;
    assert_eq!(list.items.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let patched = maps.patch_metadata("a", &PatchParams::default(), &Patch::Merge(labels)).await?;
    assert_eq!(patched.labels().get("x").map(String::as_str), Some("y"));
    Ok(())
}

async fn pages(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    for number in 0..7 {
        let mut map = config_map(&format!("m{number}"), "1");
        map.labels_mut().insert("page".to_owned(), "me".to_owned());
        maps.create(&PostParams::default(), &map).await?;
    }
    let mut params = ListParams::default().labels("page=me").limit(3);
    let (mut seen, mut versions) = (Vec::new(), Vec::new());
    loop {
        let page = maps.list(&params).await?;
        versions.push(page.metadata.resource_version.clone());
        seen.extend(page.items.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(seen, (0..7).map(|number| format!("m{number}")).collect::<Vec<_>>());
    assert_eq!(versions.len(), 3);
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
    Ok(())
}

async fn deletes(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await?;
    }
    let preconditions = Preconditions { uid: Some("not-this-one".to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    assert_eq!(refused(maps.delete("a", &params).await).code, 409);
    assert!(maps.delete("a", &DeleteParams::default()).await?.is_right());
    let mut owned = config_map("owned", "1");
    let owner = maps.get("b").await?;
    owned.owner_references_mut().extend(owner.controller_owner_ref(&()));
    maps.create(&PostParams::default(), &owned).await?;
    let foreground =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    let going = maps.delete("b", &foreground).await?;
    assert!(going.left().is_some_and(|map| map.finalizers() == ["foregroundDeletion"]));
    until("both are gone", || async {
        Ok((maps.get_opt("b").await?.is_none() && maps.get_opt("owned").await?.is_none()).then_some(()))
    })
    .await?;
    let gone = maps
        .delete_collection(&DeleteParams::default(), &ListParams::default().fields("metadata.name=c"))
        .await?;
    assert!(gone.left().is_some_and(|list| list.items.len() == 1));
    assert!(maps.get_opt("c").await?.is_none());
    Ok(())
}

async fn refusals(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    let ghost = refused(maps.get("ghost").await);
    assert_eq!((ghost.code, ghost.reason.as_str()), (404, "NotFound"));
    assert_eq!(ghost.message, "configmaps \"ghost\" not found");
    assert!(ghost.details.is_some_and(|details| details.name == "ghost" && details.kind == "configmaps"));
    maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    let twice = refused(maps.create(&PostParams::default(), &config_map("a", "1")).await);
    assert_eq!((twice.code, twice.reason.as_str()), (409, "AlreadyExists"));
    let invalid = refused(maps.create(&PostParams::default(), &config_map("Not_Valid", "1")).await);
    assert_eq!((invalid.code, invalid.reason.as_str()), (422, "Invalid"));
    let details = invalid.details.ok_or("no details")?;
    assert_eq!(
        (details.causes[0].field.as_str(), details.causes[0].reason.as_str()),
        ("metadata.name", "FieldValueInvalid")
    );
    let bad = maps.list(&ListParams::default().labels("a=b=c")).await;
    assert_eq!(refused(bad).code, 400);
    Ok(())
}

async fn tokens(world: World) -> Result {
    let accounts: Api<ServiceAccount> = world.api();
    accounts.create(&PostParams::default(), &of(json!({"metadata": {"name": "robot"}}))).await?;
    let request: TokenRequest =
        of(json!({"metadata": {}, "spec": {"audiences": [], "expirationSeconds": 1200}}));
    let answer = accounts.create_token_request("robot", &PostParams::default(), &request).await?;
    let status = answer.status.ok_or("no status")?;
    assert_eq!(status.token.unwrap_or_default().split('.').count(), 3);
    Ok(())
}

async fn evictions(world: World) -> Result {
    let accounts: Api<ServiceAccount> = world.api();
    until("pods are admitted", || async { accounts.get_opt("default").await.map_err(Into::into) }).await?;
    let pods: Api<Pod> = world.api();
    pods.create(&PostParams::default(), &of(crate::context::pod("p"))).await?;
    let evicted = pods.evict("p", &EvictParams::default()).await?;
    assert_eq!(evicted.code, 201);
    until("the pod is gone", || async { Ok(pods.get_opt("p").await?.is_none().then_some(())) }).await?;
    let ghost = refused(pods.evict("p", &EvictParams::default()).await);
    assert_eq!(ghost.code, 404);
    Ok(())
}

async fn nodes(world: World) -> Result {
    let nodes: Api<Node> = world.all();
    let name = format!("{}-node", world.ns);
    nodes.create(&PostParams::default(), &of(json!({"metadata": {"name": name}}))).await?;
    let node = nodes.cordon(&name).await?;
    assert_eq!(node.spec.and_then(|spec| spec.unschedulable), Some(true));
    let node = nodes.uncordon(&name).await?;
    assert_ne!(node.spec.and_then(|spec| spec.unschedulable), Some(true));
    nodes.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

async fn leases(world: World) -> Result {
    let leases: Api<Lease> = world.api();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"},
    });
    let applied = leases.patch("l", &PatchParams::apply("one"), &Patch::Apply(&lease)).await?;
    let renewed = serde_json::to_value(&applied)?["spec"]["renewTime"].clone();
    assert_eq!(renewed, "2026-01-01T00:00:00.123456Z");
    let taken = json!({"metadata": {"resourceVersion": applied.resource_version()}, "spec": {"holderIdentity": "two"}});
    leases.patch("l", &PatchParams::default(), &Patch::Merge(&taken)).await?;
    assert_eq!(refused(leases.patch("l", &PatchParams::default(), &Patch::Merge(&taken)).await).code, 409);
    Ok(())
}

async fn discovers(world: World) -> Result {
    // Groups of other scenarios come and go meanwhile, and one that went is not found.
    let discovery = until("groups are found one by one", || async {
        Ok(Discovery::new(world.client.clone()).run().await.ok())
    })
    .await?;
    let aggregated = Discovery::new(world.client.clone()).run_aggregated().await?;
    for discovery in [&discovery, &aggregated] {
        let (resource, capabilities) = discovery
            .resolve_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
            .ok_or("no deployments")?;
        assert_eq!((resource.plural.as_str(), &capabilities.scope), ("deployments", &Scope::Namespaced));
        assert!(capabilities.supports_operation(kube::discovery::verbs::PATCH));
        assert!(
            capabilities
                .subresources
                .iter()
                .any(|(resource, _)| resource.plural == "deployments/scale" || resource.plural == "scale")
        );
    }
    let built_in = |found: &Discovery| -> BTreeSet<String> {
        let names = found.groups().map(|group| group.name().to_owned());
        names.filter(|name| !name.ends_with("example.com")).collect()
    };
    assert_eq!(built_in(&discovery), built_in(&aggregated));
    assert!(built_in(&discovery).contains("rbac.authorization.k8s.io"));
    Ok(())
}

async fn dynamic_objects(world: World) -> Result {
    let gvk = GroupVersionKind::gvk("networking.k8s.io", "v1", "NetworkPolicy");
    let (resource, _) = discovery::pinned_kind(&world.client, &gvk).await?;
    let policies: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), &world.ns, &resource);
    let policy = DynamicObject::new("p", &resource)
        .data(json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}));
    let created = policies.create(&PostParams::default(), &policy).await?;
    assert_eq!(created.data["spec"]["policyTypes"], json!(["Ingress"]));
    let listed = policies.list(&ListParams::default()).await?;
    assert_eq!(listed.items.len(), 1);
    assert_eq!(listed.types.kind, "NetworkPolicyList");
    Ok(())
}

async fn publishes_events(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    let map = maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    let recorder = Recorder::new(
        world.client.clone(),
        Reporter { controller: "gardener".to_owned(), instance: Some("one".to_owned()) },
    );
    let event = Event {
        type_: EventType::Normal,
        reason: "Watered".to_owned(),
        note: Some("with care".to_owned()),
        action: "Water".to_owned(),
        secondary: None,
    };
    recorder.publish(&event, &map.object_ref(&())).await?;
    // The same again is counted in the same object.
    recorder.publish(&event, &map.object_ref(&())).await?;
    let events: Api<k8s_openapi::api::events::v1::Event> = world.api();
    let found = events.list(&ListParams::default()).await?;
    assert_eq!(found.items.len(), 1);
    assert_eq!(found.items[0].series.as_ref().map(|series| series.count), Some(2));
    let older: Api<k8s_openapi::api::core::v1::Event> = world.api();
    let found = older.list(&ListParams::default().fields("involvedObject.name=a,reason=Watered")).await?;
    assert_eq!(found.items[0].message.as_deref(), Some("with care"));
    Ok(())
}

async fn watches(world: World) -> Result {
    use futures::TryStreamExt as _;
    let maps: Api<ConfigMap> = world.api();
    let version = maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}}))).await?;
    maps.delete("a", &DeleteParams::default()).await?;
    // Other maps of the namespace come from the controllers.
    let params = WatchParams::default().fields("metadata.name=a").timeout(2);
    let mut stream = std::pin::pin!(maps.watch(&params, &version).await?);
    let mut seen = Vec::new();
    while let Some(event) = stream.try_next().await? {
        seen.push(match event {
            WatchEvent::Added(map) => format!("added {}", map.data.unwrap_or_default()["key"]),
            WatchEvent::Modified(map) => format!("modified {}", map.data.unwrap_or_default()["key"]),
            WatchEvent::Deleted(map) => format!("deleted {}", map.data.unwrap_or_default()["key"]),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => return Err(status.message.clone().into()),
        });
    }
    assert_eq!(seen, ["added 1", "modified 2", "deleted 2"]);
    // A watch that ended with its time goes on from where it was.
    let none = maps.watch(&WatchParams::default().timeout(1), "1").await?;
    let _ = none.try_collect::<Vec<_>>().await;
    Ok(())
}
