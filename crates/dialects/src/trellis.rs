//! Trellis's own dialect: the model written down.

use serde::Serialize;
use serde_json::Value;
use trellis_api::common::ServerWritten;
use trellis_api::trellis::{API_VERSION, OwnMetadata, Written};
use trellis_model::cluster::ClusterSpec;
use trellis_model::names::{ClusterName, NamespaceName};
use trellis_model::pool::PoolSpec;
use trellis_model::{Cluster, Estate, Pool, Subject};

use crate::kinds::kinds;
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId, Reading};

kinds! {
    /// A tenant cluster.
    TenantCluster(Written<ClusterSpec>) = "trellis.dev/v1alpha1" "TenantCluster";
    /// A pool of machines.
    MachinePool(Written<PoolSpec>) = "trellis.dev/v1alpha1" "MachinePool";
}

/// Reads documents of this dialect.
pub fn read(objects: Vec<(DocumentId, Object)>, reading: &mut Reading) {
    for (document, object) in objects {
        let mut cx = reading.within(document);
        match object {
            Object::TenantCluster(written) => read_cluster(&mut cx, *written),
            Object::MachinePool(written) => read_pool(&mut cx, *written),
        }
    }
}

fn read_cluster(cx: &mut Cx<'_>, written: Written<ClusterSpec>) {
    let Some((name, namespace)) = read_metadata::<ClusterName>(cx, &written.metadata) else { return };
    mirror(cx, &Subject::Cluster(name.clone()));
    cx.estate().clusters.push(Cluster { name, namespace, spec: written.spec });
}

fn read_pool(cx: &mut Cx<'_>, written: Written<PoolSpec>) {
    let Some((name, namespace)) = read_metadata(cx, &written.metadata) else { return };
    let pool = Pool { name, namespace, spec: written.spec };
    mirror(cx, &Subject::Pool(pool.spec.cluster.clone(), pool.name.clone()));
    cx.estate().pools.push(pool);
}

/// The spec is the model, so every field comes from the place of the same name.
fn mirror(cx: &mut Cx<'_>, subject: &Subject) {
    cx.origin(subject, "", &FieldPath::root().child("spec"));
    cx.origin(subject, "name", &FieldPath::root().child("metadata").child("name"));
}

fn read_metadata<N>(cx: &mut Cx<'_>, metadata: &OwnMetadata) -> Option<(N, Option<NamespaceName>)>
where
    N: std::str::FromStr,
    N::Err: std::fmt::Display,
{
    let at = FieldPath::root().child("metadata");
    let namespace = cx.parse_opt(&at.child("namespace"), metadata.namespace.as_deref());
    Some((cx.parse(&at.child("name"), &metadata.name)?, namespace))
}

/// Writes an estate in this dialect. Nothing is ever lost.
pub fn write(estate: &Estate) -> Vec<Value> {
    let clusters = estate.clusters.iter();
    let pools = estate.pools.iter();
    clusters
        .map(|cluster| {
            document("TenantCluster", cluster.name.as_str(), cluster.namespace.as_ref(), &cluster.spec)
        })
        .chain(
            pools
                .map(|pool| document("MachinePool", pool.name.as_str(), pool.namespace.as_ref(), &pool.spec)),
        )
        .collect()
}

fn document(kind: &str, name: &str, namespace: Option<&NamespaceName>, spec: &impl Serialize) -> Value {
    let metadata = OwnMetadata {
        name: name.to_owned(),
        namespace: namespace.map(ToString::to_string),
        ..OwnMetadata::default()
    };
    let written = Written {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        metadata,
        spec,
        status: ServerWritten,
    };
    // The model is made of strings, numbers, lists and string-keyed maps, which always serialise.
    serde_json::to_value(written).unwrap_or_default()
}
