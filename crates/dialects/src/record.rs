//! The record of a tenant cluster: the cluster and its pools in Trellis's own words, kept in a Secret
//! of its infra namespace, so that everything that was asked for can be found where its machines are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trellis_model::{Cluster, Estate};

use crate::yaml_out::to_yaml_documents;

/// The Secret that holds the record of a cluster.
pub fn record(cluster: &Cluster, estate: &Estate) -> Value {
    let pools = estate.pools.iter().filter(|pool| pool.spec.cluster == cluster.name).cloned();
    let of_cluster = Estate { clusters: vec![cluster.clone()], pools: pools.collect() }.sorted();
    let text = to_yaml_documents(&crate::trellis::write(&of_cluster));
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "trellis.dev/record",
        "metadata": {
            "name": format!("{}-record", cluster.name),
            "namespace": cluster.infra_namespace(),
            "labels": { "trellis.dev/cluster": cluster.name, "app.kubernetes.io/managed-by": "trellis" },
        },
        "data": { "record.yaml": STANDARD.encode(text) },
    })
}
