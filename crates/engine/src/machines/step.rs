//! The steps a plan asks for; each is one request.

use trellis_platform::Action;

use super::seen::OwnedNodeMeta;

/// One step of a machine's plan. Steps are done in order; the first that fails ends the pass.
#[derive(Debug, Clone)]
pub enum Step {
    /// Put our finalizer on the Machine, before anything of it exists anywhere.
    AddFinalizer,
    /// Take our finalizer off the Machine: nothing is left of it.
    RemoveFinalizer,
    /// Write the provider id into the Machine's spec. Where it follows the finalizer, both are one request.
    SetProviderId(String),
    /// Do something on the platform.
    Platform(Action),
    /// Link the Node to the machine and bring labels, annotations and taints to what the pool wishes: one patch.
    UpdateNode {
        /// The Node.
        node: String,
        /// The Node that is meant.
        uid: String,
        /// Its provider id, if it has none yet.
        provider_id: Option<String>,
        /// The VM it is, for our annotation.
        vm_uid: String,
        /// The infra namespace that VM is in, for our annotation.
        infra_namespace: String,
        /// What the pool wishes.
        wish: OwnedNodeMeta,
        /// What it had from us before: what is here and not in the wish goes.
        before: OwnedNodeMeta,
    },
    /// Make the Node refuse new pods, or take them again.
    Cordon {
        /// The Node.
        node: String,
        /// The Node that is meant.
        uid: String,
        /// Refuse or take.
        cordoned: bool,
        /// The VM that is to go; nothing where people asked for it, and where it is taken back.
        vm_uid: Option<String>,
    },
    /// Ask for the eviction of a pod. A refusal by a disruption budget is remembered and does not end the pass.
    Evict {
        /// Its namespace.
        namespace: String,
        /// Its name.
        pod: String,
        /// The pod that is meant.
        uid: String,
    },
    /// Delete a pod whose eviction was refused until the end of the drain's deadline, or whose node is dead.
    DeletePod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        pod: String,
        /// The pod that is meant.
        uid: String,
        /// Without waiting for a kubelet: only when the machine is proven dead.
        force: bool,
    },
    /// Remove the Node.
    DeleteNode {
        /// The Node.
        node: String,
        /// The Node that is meant.
        uid: String,
    },
    /// Remove the Machine: its pool makes another.
    DeleteMachine,
}
