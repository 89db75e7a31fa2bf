//! The words machines give for being where they are: in statuses, conditions and events. One place, because people
//! and programs match on them.

/// What was asked for cannot be understood or is not allowed.
pub const BAD_SPEC: &str = "InvalidConfiguration";
/// What the guest is to read at first boot does not exist yet.
pub const USER_DATA_MISSING: &str = "UserDataMissing";
/// The cluster is not there yet.
pub const CLUSTER_MISSING: &str = "ClusterMissing";
/// Nothing is made in the pool now.
pub const FROZEN: &str = "Frozen";
/// Making failed too often.
pub const THROTTLED: &str = "Throttled";
/// Making failed; it is tried again.
pub const CREATE_FAILED: &str = "CreateFailed";
/// Nothing of it exists yet.
pub const NOT_MADE_YET: &str = "NotMadeYet";
/// Its name belongs to a machine of somebody else.
pub const NAME_TAKEN: &str = "NameTaken";
/// People said that it is not to be touched.
pub const PAUSED: &str = "Paused";
/// The infra site does not answer.
pub const INFRA_UNREACHABLE: &str = "InfraUnreachable";
/// The tenant does not answer.
pub const TENANT_UNREACHABLE: &str = "TenantUnreachable";
/// The control site does not answer.
pub const CONTROL_UNREACHABLE: &str = "ControlUnreachable";
/// Nobody has asked for its image yet.
pub const IMAGE_MISSING: &str = "ImageMissing";
/// Its image is brought in.
pub const IMAGE_IMPORTING: &str = "ImageImporting";
/// Its image cannot be brought in.
pub const IMAGE_FAILED: &str = "ImageFailed";
/// A volume waits for something.
pub const VOLUME_WAITING: &str = "VolumeWaiting";
/// A volume is filled.
pub const VOLUME_FILLING: &str = "VolumeFilling";
/// A volume cannot be filled.
pub const VOLUME_FAILED: &str = "VolumeFailed";
/// The platform has not started it yet.
pub const NOT_STARTED: &str = "NotStarted";
/// The platform says why it does not start.
pub const START_REFUSED: &str = "StartRefused";
/// It ends again and again.
pub const CRASH_LOOP: &str = "CrashLoop";
/// It ended, and is started again.
pub const INSTANCE_ENDED: &str = "InstanceEnded";
/// A host is looked for.
pub const LOOKING_FOR_HOST: &str = "LookingForHost";
/// No host fits.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// It is started on its host.
pub const STARTING: &str = "Starting";
/// It is held.
pub const GUEST_PAUSED: &str = "GuestPaused";
/// Its first boot is waited for.
pub const WAITING_FOR_NODE: &str = "WaitingForNode";
/// A Node of its name is another machine's.
pub const NODE_NAME_TAKEN: &str = "NodeNameTaken";
/// Its Node is not ready.
pub const NODE_NOT_READY: &str = "NodeNotReady";
/// Its Node is gone.
pub const NODE_MISSING: &str = "NodeMissing";
/// Its Node is ready.
pub const NODE_READY: &str = "NodeReady";
/// It restarts.
pub const RESTARTING: &str = "Restarting";
/// It began to run again.
pub const RESTARTED: &str = "Restarted";
/// Its Node became ready for the first time.
pub const JOINED: &str = "Joined";
/// A phase took longer than it may.
pub const LATE: &str = "DeadlineExceeded";
/// Its Node was not ready for longer than it may.
pub const UNHEALTHY: &str = "Unhealthy";
/// A health check wants it replaced.
pub const HEALTH_CHECK: &str = "HealthCheckFailed";
/// It is replaced by another.
pub const REPLACED: &str = "Replaced";
/// Its VM is gone, and we did not remove it.
pub const VM_GONE: &str = "VmGone";
/// Its VM is not seen, and nothing proves that it is gone.
pub const VM_NOT_SEEN: &str = "VmNotSeen";
/// Somebody else removes its VM.
pub const VM_GOING: &str = "VmGoing";
/// Its host does not answer, and nothing proves that it is dead.
pub const NO_PROOF: &str = "NoProofOfDeath";
/// It is proven dead; its run is ended so that its volumes are free.
pub const FENCED: &str = "Fenced";
/// It is to leave its host and moves while it runs.
pub const MIGRATING: &str = "Migrating";
/// It is to leave its host and waits for the disruption budget.
pub const DISRUPTION_BUDGET: &str = "WaitingForDisruptionBudget";
/// It is to leave its host and is drained for it.
pub const EVACUATING: &str = "Evacuating";
/// It need not leave its host any more.
pub const EVACUATION_OVER: &str = "EvacuationOver";
/// The pods on its Node are not known yet.
pub const PODS_UNKNOWN: &str = "PodsNotSeenYet";
/// Pods are evicted.
pub const EVICTING: &str = "EvictingPods";
/// Disruption budgets refuse evictions.
pub const EVICTION_REFUSED: &str = "EvictionRefused";
/// The drain took longer than it may: what is left is deleted.
pub const DRAIN_FORCED: &str = "DrainForced";
/// Volumes are being detached.
pub const DETACHING: &str = "DetachingVolumes";
/// Nothing is left on the Node.
pub const DRAINED: &str = "Drained";
/// It is not drained.
pub const DRAIN_SKIPPED: &str = "DrainSkipped";
/// It carries a member of etcd, which has to leave first.
pub const HELD: &str = "WaitingForEtcdMember";
/// Its VM is shut down.
pub const STOPPING: &str = "Stopping";
/// Its volumes are removed.
pub const REMOVING_VOLUMES: &str = "RemovingVolumes";
/// Its Node is removed.
pub const REMOVING_NODE: &str = "RemovingNode";
/// Its Node says it is ready although the VM is gone.
pub const NODE_STILL_READY: &str = "NodeStillReady";
/// Nothing is left of it.
pub const GONE: &str = "Gone";
/// Somebody asked for its removal.
pub const DELETION_ASKED: &str = "DeletionAsked";
/// What runs is what is wished.
pub const UP_TO_DATE: &str = "UpToDate";
/// What runs is changed in place.
pub const UPDATING: &str = "Updating";
/// A change takes effect at the next restart.
pub const RESTART_REQUIRED: &str = "RestartRequired";
/// All is well.
pub const WELL: &str = "AsWished";
