//! What all machines of a tenant share: isolation before anything else, then networks, flavors, Services and images.

use std::sync::Arc;

use trellis_model::{Cluster, Pool};
use trellis_platform_kubevirt::{self as kubevirt, Object};
use trellis_runtime::Key;
use trellis_runtime::Resource;
use trellis_runtime::queue::Outcome;

use super::machine::Trouble;
use super::tenant::Tenant;

/// Looks at what machines share.
pub(crate) async fn look(tenant: &Tenant) -> Outcome {
    match prepare(tenant).await {
        Ok(deadline) => {
            tenant.prepared(Ok(()));
            deadline.map_or(Outcome::Done, Outcome::At)
        }
        Err(trouble) => {
            tenant.prepared(Err(format!("what machines share cannot be made: {trouble}")));
            Outcome::Retry
        }
    }
}

async fn prepare(tenant: &Tenant) -> Result<Option<jiff::Timestamp>, Trouble> {
    let pools = tenant.readings();
    let cluster = tenant.cluster();
    let pools: Vec<Arc<Pool>> = pools.iter().map(|reading| Arc::clone(&reading.pool)).collect();
    let pools: Vec<&Pool> = pools.iter().map(Arc::as_ref).collect();
    shared(tenant, cluster, &pools).await?;
    let volumes = tenant.infra.volumes.cache.all();
    let volumes: Vec<_> = volumes.iter().map(|volume| &***volume).collect();
    let now = tenant.clock.now();
    let plan = kubevirt::golden_plan(cluster, &pools, &volumes, now, tenant.settings.image_grace);
    tenant.infra.send(plan.calls).await?;
    Ok(plan.deadline)
}

/// Applies what is not as it is to be. What was applied is remembered until somebody else changes it: nothing is asked
/// twice, and what others take away comes back.
async fn shared(tenant: &Tenant, cluster: &Cluster, pools: &[&Pool]) -> Result<(), Trouble> {
    for object in kubevirt::render_cluster(cluster, pools) {
        // Images have a plan of their own.
        if matches!(object, Object::DataVolume(_)) {
            continue;
        }
        let json = object.to_json();
        if tenant.is_applied(&json) {
            continue;
        }
        let Some(shared) = tenant.infra.shared.iter().find(|shared| json["kind"] == shared.kind()) else {
            continue;
        };
        let key = Key::new(object.namespace(), object.name());
        let written = tenant.infra.site.apply(shared.cache.resource(), &key, &json, true).await?;
        // Taken in before it is remembered: what is heard of afterwards is somebody else's doing.
        shared.cache.written(written);
        tenant.applied(&json);
        shared.watch(&tenant.watches, &tenant.infra.site);
    }
    Ok(())
}

/// The kinds of what machines share.
pub(crate) const SHARED: [Resource; 5] = [
    Resource::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource::namespaced(
        "k8s.cni.cncf.io",
        "v1",
        "network-attachment-definitions",
        "NetworkAttachmentDefinition",
    ),
    Resource::namespaced(
        "instancetype.kubevirt.io",
        "v1beta1",
        "virtualmachineinstancetypes",
        "VirtualMachineInstancetype",
    ),
    Resource::namespaced(
        "instancetype.kubevirt.io",
        "v1beta1",
        "virtualmachinepreferences",
        "VirtualMachinePreference",
    ),
    Resource::namespaced("", "v1", "services", "Service"),
];
