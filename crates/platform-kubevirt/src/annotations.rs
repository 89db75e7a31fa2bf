//! Annotations by which we remember things on the objects themselves.

/// The uid of the Machine object a virtual machine was made for.
pub(crate) const MACHINE_UID: &str = "trellis.dev/machine-uid";
/// The namespace of that object.
pub(crate) const MACHINE_NAMESPACE: &str = "trellis.dev/machine-namespace";
/// What was last put into effect of what changes in place, by part.
pub(crate) const APPLIED: &str = "trellis.dev/applied";
/// Which labels and annotations were asked for beside ours.
pub(crate) const WISHED_KEYS: &str = "trellis.dev/wished-keys";
/// On a Secret: what was secret in it is erased.
pub(crate) const ERASED: &str = "trellis.dev/erased";
/// On a golden volume: since when nothing uses it.
pub(crate) const UNUSED_SINCE: &str = "trellis.dev/unused-since";

/// What virtual machines remember for us.
pub(crate) const OF_MACHINE: [&str; 4] = [APPLIED, MACHINE_NAMESPACE, MACHINE_UID, WISHED_KEYS];
