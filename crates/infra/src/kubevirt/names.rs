//! The names KubeVirt marks objects with.

/// Holds a machine, and its instance, until virt-controller is done with them.
pub const VM_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// Holds an instance until its machine is off and its pods are gone.
pub const VMI_FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";

/// What kind of component a pod is.
pub const COMPONENT_LABEL: &str = "kubevirt.io";
/// The uid of the instance a pod was made for, or of the machine a volume was made for.
pub const CREATED_BY_LABEL: &str = "kubevirt.io/created-by";
/// The host an instance runs on.
pub const NODE_NAME_LABEL: &str = "kubevirt.io/nodeName";
/// The migration a pod was made for.
pub const MIGRATION_LABEL: &str = "kubevirt.io/migrationJobUID";
/// The host name of the guest, on its pod.
pub const VM_NAME_LABEL: &str = "vm.kubevirt.io/name";
/// The name of the instance in a length that fits.
pub const VMI_ID_LABEL: &str = "vmi.kubevirt.io/id";
/// Hosts that take machines.
pub const SCHEDULABLE_LABEL: &str = "kubevirt.io/schedulable";
/// Hosts that know a type of machine, by its type.
pub const MACHINE_TYPE_LABEL: &str = "machine-type.node.kubevirt.io/";

/// The instance a pod runs.
pub const DOMAIN_ANNOTATION: &str = "kubevirt.io/domain";
/// The generation of the machine an instance was made of.
pub const GENERATION_ANNOTATION: &str = "kubevirt.io/vm-generation";
/// Pods that only bind volumes.
pub const PROVISIONING_ANNOTATION: &str = "kubevirt.io/ephemeral-provisioning";
/// Whether volumes are made before the machine is started.
pub const IMMEDIATE_VOLUMES_ANNOTATION: &str = "kubevirt.io/immediate-data-volume-creation";
/// What the firmware hands to Ignition.
pub const IGNITION_ANNOTATION: &str = "kubevirt.io/ignitiondata";
/// The newest version of the API the controller has seen.
pub const LATEST_API_ANNOTATION: &str = "kubevirt.io/latest-observed-api-version";
/// The version of the API objects are stored in.
pub const STORAGE_API_ANNOTATION: &str = "kubevirt.io/storage-observed-api-version";
/// An instance that waits for another cluster to send it.
pub const RECEIVER_ANNOTATION: &str = "kubevirt.io/create-migration-target";

/// The gate of a launcher pod: its machine is not held.
pub const UNPAUSED_GATE: &str = "kubevirt.io/virtual-machine-unpaused";

/// The version this emulates.
pub const VERSION: &str = "v1.9.0";
