//! Networks made for a tenant.

use trellis_api::multus::{NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use trellis_model::Cluster;
use trellis_model::network::{MachineNetwork, NetworkSource};

use crate::labels::{self, metadata};
use crate::names;

/// The definitions of the networks that live and die with the tenant, by name. Shared networks are
/// somebody else's and stay as they are.
pub(crate) fn attachment_definitions(cluster: &Cluster) -> Vec<NetworkAttachmentDefinition> {
    let definition = |network: &MachineNetwork| match &network.source {
        NetworkSource::Shared(_) => None,
        NetworkSource::Tenant(tenant) => {
            let name = names::tenant_network(cluster, &network.name);
            Some(NetworkAttachmentDefinition {
                metadata: metadata(cluster, name, labels::of_cluster(cluster)),
                spec: NetworkAttachmentDefinitionSpec { config: tenant.config.as_str().to_owned() },
            })
        }
    };
    let mut definitions: Vec<_> =
        cluster.spec.network.machine_networks.iter().filter_map(definition).collect();
    definitions.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    definitions
}
