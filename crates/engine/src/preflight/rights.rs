//! What a person who makes a tenant cluster must be allowed to do, in one namespace: what the controllers are seen to ask
//! of an infra cluster, from the one table of it, and what the command line looks at beside.

use trellis_runtime::Resource;
use trellis_runtime::client::{Request, Verb};

use super::facts::Right;
use crate::families::TRELLIS;
use crate::rights::{self, Place, Reach};

/// What only the command line asks for: a Secret that a manifest names, room that a quota leaves, and what `trellis
/// gather` collects. Without it something is not known.
const LOOKED_AT: &[(Resource, &str, Verb)] = &[
    (Resource::namespaced("", "v1", "secrets", "Secret"), "", Verb::Get),
    (Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota"), "", Verb::List),
    (Resource::namespaced("", "v1", "events", "Event"), "", Verb::List),
    (Resource::namespaced("", "v1", "pods", "Pod"), "log", Verb::Get),
];

/// Everything that must be allowed, in the order of the table.
pub fn needed() -> Vec<Right> {
    let table = rights::rights(Place::Infra, &[&TRELLIS]);
    let of_controllers = table.iter().filter(|right| right.reach == Reach::Namespace).flat_map(|right| {
        right.requests().map(|request| Right { request, needed: right.is_vital(request.verb) })
    });
    let looked_at = LOOKED_AT.iter().map(|(resource, subresource, verb)| Right {
        request: Request::new(*verb, resource, subresource),
        needed: false,
    });
    of_controllers.chain(looked_at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(resource: &str, verb: Verb) -> Option<bool> {
        let all = needed();
        let right =
            all.iter().find(|right| right.request.resource() == resource && right.request.verb == verb);
        right.map(|right| right.needed)
    }

    #[test]
    fn what_is_asked_about_is_what_is_used() {
        for (resource, verb) in [
            ("virtualmachineinstances.subresources.kubevirt.io/portforward", Verb::Get),
            ("virtualmachines.kubevirt.io", Verb::Delete),
            ("virtualmachineinstances.kubevirt.io", Verb::Delete),
            ("virtualmachineinstancemigrations.kubevirt.io", Verb::Create),
            ("networkpolicies.networking.k8s.io", Verb::Patch),
        ] {
            assert_eq!(found(resource, verb), Some(true), "{verb:?} {resource}");
        }
        // Nothing of these is ever made.
        for resource in
            ["serviceaccounts", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"]
        {
            assert_eq!(found(resource, Verb::Create), None, "{resource}");
            assert_eq!(found(resource, Verb::List), Some(false), "{resource}");
        }
        assert_eq!(found("serviceaccounts/token", Verb::Create), None);
        // Not every cluster has these, and whoever makes one without can do so without the right.
        for resource in [
            "virtualmachineinstancetypes.instancetype.kubevirt.io",
            "network-attachment-definitions.k8s.cni.cncf.io",
            "persistentvolumeclaims",
        ] {
            assert_eq!(found(resource, Verb::Delete), Some(false), "{resource}");
        }
        assert_eq!(found("virtualmachines.kubevirt.io/finalizers", Verb::Update), Some(false));
    }

    #[test]
    fn nothing_is_asked_about_twice() {
        let mut all: Vec<Request> = needed().into_iter().map(|right| right.request).collect();
        let asked = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), asked);
    }
}
