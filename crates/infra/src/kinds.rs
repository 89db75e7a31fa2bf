//! The kinds of objects this crate reads and writes.

use serde_json::{Value, json};

/// A kind of object and where the API server has it.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version that is spoken.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The resource, as in URLs.
    pub plural: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether the status is written through a subresource of its own.
    pub status: bool,
}

impl Kind {
    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The URL path of one object, or of all where the name is empty; an empty namespace means all of them.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path =
            if self.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", self.group) };
        path += self.version;
        if self.namespaced && !namespace.is_empty() {
            path += "/namespaces/";
            path += namespace;
        }
        path += "/";
        path += self.plural;
        if !name.is_empty() {
            path += "/";
            path += name;
        }
        path
    }

    /// An object of this kind with nothing but its kind, for building one.
    pub fn empty(&self) -> Value {
        json!({"apiVersion": self.api_version(), "kind": self.kind})
    }
}

/// Shorthand for the table below.
const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    status: bool,
) -> Kind {
    Kind { group, version, kind, plural, namespaced, status }
}

macro_rules! table {
    ($($(#[$about:meta])* $name:ident = $group:literal $version:literal $kind:literal $plural:literal $namespaced:literal $status:literal;)*) => {
        $($(#[$about])* pub static $name: Kind = kind($group, $version, $kind, $plural, $namespaced, $status);)*
        /// Every kind there is a name for.
        pub static ALL: &[&Kind] = &[$(&$name),*];
    };
}

// group, version, kind, plural, namespaced, status
table! {
    /// Pods.
    POD = "" "v1" "Pod" "pods" true true;
    /// Nodes: the hosts.
    NODE = "" "v1" "Node" "nodes" false true;
    /// Namespaces.
    NAMESPACE = "" "v1" "Namespace" "namespaces" false true;
    /// Services.
    SERVICE = "" "v1" "Service" "services" true true;
    /// Secrets.
    SECRET = "" "v1" "Secret" "secrets" true false;
    /// Config maps.
    CONFIG_MAP = "" "v1" "ConfigMap" "configmaps" true false;
    /// Service accounts.
    SERVICE_ACCOUNT = "" "v1" "ServiceAccount" "serviceaccounts" true false;
    /// Events.
    EVENT = "" "v1" "Event" "events" true false;
    /// Claims of volumes.
    PVC = "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims" true true;
    /// Volumes.
    PV = "" "v1" "PersistentVolume" "persistentvolumes" false true;
    /// Quotas.
    RESOURCE_QUOTA = "" "v1" "ResourceQuota" "resourcequotas" true true;
    /// Equal pods, as they were kept before there were replica sets.
    REPLICATION_CONTROLLER = "" "v1" "ReplicationController" "replicationcontrollers" true true;
    /// Leases: heartbeats and locks.
    LEASE = "coordination.k8s.io" "v1" "Lease" "leases" true false;
    /// Pods on every node.
    DAEMON_SET = "apps" "v1" "DaemonSet" "daemonsets" true true;
    /// Pods that are replaced bit by bit.
    DEPLOYMENT = "apps" "v1" "Deployment" "deployments" true true;
    /// Equal pods.
    REPLICA_SET = "apps" "v1" "ReplicaSet" "replicasets" true true;
    /// Pods with names of their own.
    STATEFUL_SET = "apps" "v1" "StatefulSet" "statefulsets" true true;
    /// Pods that end.
    JOB = "batch" "v1" "Job" "jobs" true true;
    /// Jobs that are started at times.
    CRON_JOB = "batch" "v1" "CronJob" "cronjobs" true true;
    /// What a controller remembers of an earlier state.
    CONTROLLER_REVISION = "apps" "v1" "ControllerRevision" "controllerrevisions" true false;
    /// Where services lead.
    ENDPOINT_SLICE = "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices" true false;
    /// Where services lead, as it was said before there were slices.
    ENDPOINTS = "" "v1" "Endpoints" "endpoints" true false;
    /// Who may talk to whom.
    NETWORK_POLICY = "networking.k8s.io" "v1" "NetworkPolicy" "networkpolicies" true false;
    /// Priorities of pods.
    PRIORITY_CLASS = "scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses" false false;
    /// How much may be disrupted.
    POD_DISRUPTION_BUDGET = "policy" "v1" "PodDisruptionBudget" "poddisruptionbudgets" true true;
    /// Classes of storage.
    STORAGE_CLASS = "storage.k8s.io" "v1" "StorageClass" "storageclasses" false false;
    /// Storage drivers.
    CSI_DRIVER = "storage.k8s.io" "v1" "CSIDriver" "csidrivers" false false;
    /// Storage drivers of a node.
    CSI_NODE = "storage.k8s.io" "v1" "CSINode" "csinodes" false false;
    /// Volumes attached to nodes.
    VOLUME_ATTACHMENT = "storage.k8s.io" "v1" "VolumeAttachment" "volumeattachments" false true;
    /// Definitions of kinds.
    CRD = "apiextensions.k8s.io" "v1" "CustomResourceDefinition" "customresourcedefinitions" false true;
    /// Servers that extend the API.
    API_SERVICE = "apiregistration.k8s.io" "v1" "APIService" "apiservices" false true;
    /// Webhooks that change what is written.
    MUTATING_WEBHOOKS = "admissionregistration.k8s.io" "v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations" false false;
    /// Webhooks that judge what is written.
    VALIDATING_WEBHOOKS = "admissionregistration.k8s.io" "v1" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations" false false;
    /// Questions about rights.
    SUBJECT_ACCESS_REVIEW = "authorization.k8s.io" "v1" "SubjectAccessReview" "subjectaccessreviews" false false;
    /// Requests for certificates.
    CERTIFICATE_REQUEST = "certificates.k8s.io" "v1" "CertificateSigningRequest" "certificatesigningrequests" false true;
    /// Roles.
    CLUSTER_ROLE = "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles" false false;
    /// Who has which role everywhere.
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings" false false;
    /// Snapshots of volumes.
    VOLUME_SNAPSHOT = "snapshot.storage.k8s.io" "v1" "VolumeSnapshot" "volumesnapshots" true true;
    /// What is behind a snapshot.
    VOLUME_SNAPSHOT_CONTENT = "snapshot.storage.k8s.io" "v1" "VolumeSnapshotContent" "volumesnapshotcontents" false true;
    /// Classes of snapshots.
    VOLUME_SNAPSHOT_CLASS = "snapshot.storage.k8s.io" "v1" "VolumeSnapshotClass" "volumesnapshotclasses" false false;
    /// Additional networks.
    NETWORK_ATTACHMENT = "k8s.cni.cncf.io" "v1" "NetworkAttachmentDefinition" "network-attachment-definitions" true false;
    /// Virtual machines.
    VM = "kubevirt.io" "v1" "VirtualMachine" "virtualmachines" true true;
    /// Running virtual machines. Their status is written with the object.
    VMI = "kubevirt.io" "v1" "VirtualMachineInstance" "virtualmachineinstances" true false;
    /// Live migrations.
    MIGRATION = "kubevirt.io" "v1" "VirtualMachineInstanceMigration" "virtualmachineinstancemigrations" true true;
    /// Replica sets of running virtual machines.
    VMI_REPLICA_SET = "kubevirt.io" "v1" "VirtualMachineInstanceReplicaSet" "virtualmachineinstancereplicasets" true true;
    /// Values for running virtual machines that are picked by labels.
    VMI_PRESET = "kubevirt.io" "v1" "VirtualMachineInstancePreset" "virtualmachineinstancepresets" true false;
    /// Pools of virtual machines.
    POOL = "pool.kubevirt.io" "v1beta1" "VirtualMachinePool" "virtualmachinepools" true true;
    /// Snapshots of virtual machines put back.
    VM_RESTORE = "snapshot.kubevirt.io" "v1beta1" "VirtualMachineRestore" "virtualmachinerestores" true true;
    /// The installation of KubeVirt.
    KUBEVIRT = "kubevirt.io" "v1" "KubeVirt" "kubevirts" true true;
    /// Shapes of virtual machines in a namespace.
    INSTANCETYPE = "instancetype.kubevirt.io" "v1beta1" "VirtualMachineInstancetype" "virtualmachineinstancetypes" true false;
    /// Shapes of virtual machines for everybody.
    CLUSTER_INSTANCETYPE = "instancetype.kubevirt.io" "v1beta1" "VirtualMachineClusterInstancetype" "virtualmachineclusterinstancetypes" false false;
    /// Preferences of guests in a namespace.
    PREFERENCE = "instancetype.kubevirt.io" "v1beta1" "VirtualMachinePreference" "virtualmachinepreferences" true false;
    /// Preferences of guests for everybody.
    CLUSTER_PREFERENCE = "instancetype.kubevirt.io" "v1beta1" "VirtualMachineClusterPreference" "virtualmachineclusterpreferences" false false;
    /// Volumes with content.
    DATA_VOLUME = "cdi.kubevirt.io" "v1beta1" "DataVolume" "datavolumes" true true;
    /// Named sources of content. Their status is written with the object.
    DATA_SOURCE = "cdi.kubevirt.io" "v1beta1" "DataSource" "datasources" true false;
    /// Imports that repeat. Their status is written with the object.
    DATA_IMPORT_CRON = "cdi.kubevirt.io" "v1beta1" "DataImportCron" "dataimportcrons" true false;
    /// What CDI knows of a class of storage.
    STORAGE_PROFILE = "cdi.kubevirt.io" "v1beta1" "StorageProfile" "storageprofiles" false true;
    /// The installation of CDI. Its status is written with the object.
    CDI = "cdi.kubevirt.io" "v1beta1" "CDI" "cdis" false false;
    /// How CDI is set up. Its status is written with the object.
    CDI_CONFIG = "cdi.kubevirt.io" "v1beta1" "CDIConfig" "cdiconfigs" false false;
    /// What a volume is filled from by an import.
    VOLUME_IMPORT_SOURCE = "cdi.kubevirt.io" "v1beta1" "VolumeImportSource" "volumeimportsources" true false;
    /// What a volume is filled from by an upload.
    VOLUME_UPLOAD_SOURCE = "cdi.kubevirt.io" "v1beta1" "VolumeUploadSource" "volumeuploadsources" true false;
    /// What a volume is filled from by a clone.
    VOLUME_CLONE_SOURCE = "cdi.kubevirt.io" "v1beta1" "VolumeCloneSource" "volumeclonesources" true false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        assert_eq!(POD.path("a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(POD.path("", ""), "/api/v1/pods");
        assert_eq!(NODE.path("", "n"), "/api/v1/nodes/n");
        assert_eq!(VM.path("a", ""), "/apis/kubevirt.io/v1/namespaces/a/virtualmachines");
    }

    #[test]
    fn names_are_unique() {
        let mut seen = std::collections::HashSet::new();
        assert!(ALL.iter().all(|kind| seen.insert((kind.group, kind.plural))));
    }
}
