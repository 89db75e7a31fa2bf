//! What a person who makes a tenant cluster must be allowed to do, in one namespace.

use trellis_runtime::Resource;
use trellis_runtime::client::{Request, Verb};

use super::facts::Right;

const WRITE: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch, Verb::Delete];
const READ: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch];

/// A row: a kind, the subresource, what is done to it, and whether nothing works without.
type Row = (Resource, &'static str, &'static [Verb], bool);

const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    verbs: &'static [Verb],
) -> Row {
    (Resource::namespaced(group, version, plural, kind), "", verbs, true)
}

const ROWS: &[Row] = &[
    row("", "v1", "secrets", "Secret", WRITE),
    row("", "v1", "services", "Service", WRITE),
    row("", "v1", "serviceaccounts", "ServiceAccount", WRITE),
    (Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount"), "token", &[Verb::Create], true),
    row("", "v1", "pods", "Pod", READ),
    row("", "v1", "events", "Event", &[Verb::List, Verb::Create, Verb::Patch]),
    row("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", WRITE),
    row("rbac.authorization.k8s.io", "v1", "roles", "Role", WRITE),
    row("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", WRITE),
    row("coordination.k8s.io", "v1", "leases", "Lease", &[Verb::Get, Verb::Create, Verb::Update]),
    row("kubevirt.io", "v1", "virtualmachines", "VirtualMachine", WRITE),
    row("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance", READ),
    row("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume", WRITE),
    (Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota"), "", &[Verb::List], false),
];

/// Everything that must be allowed, in the order of the table.
pub fn needed() -> Vec<Right> {
    let rights = ROWS.iter().flat_map(|(resource, subresource, verbs, needed)| {
        verbs
            .iter()
            .map(|verb| Right { request: Request::new(*verb, resource, subresource), needed: *needed })
    });
    rights.collect()
}
