//! The columns of the built-in kinds.

use super::Column;

/// The columns of each kind by group and name, in order: headings with bars between, `:` before a type that is
/// not `string`, `!` before a format, `*` before a priority.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("", "ComponentStatus", "Name!name | Status | Message | Error"),
    ("", "ConfigMap", "Name!name | Data | Age"),
    ("", "Endpoints", "Name!name | Endpoints | Age"),
    (
        "",
        "Event",
        "Last Seen | Type | Reason | Object | Subobject*1 | Source*1 | Message | First Seen*1 | \
         Count*1 | Name!name*1",
    ),
    ("", "Namespace", "Name!name | Status | Age"),
    (
        "",
        "Node",
        "Name!name | Status | Roles | Age | Version | Internal-IP*1 | External-IP*1 | OS-Image*1 \
         | Kernel-Version*1 | Container-Runtime*1",
    ),
    (
        "",
        "PersistentVolume",
        "Name!name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | \
         VolumeAttributesClass | Reason | Age | VolumeMode*1",
    ),
    (
        "",
        "PersistentVolumeClaim",
        "Name!name | Status | Volume | Capacity | Access Modes | StorageClass | \
         VolumeAttributesClass | Age | VolumeMode*1",
    ),
    (
        "",
        "Pod",
        "Name!name | Ready | Status | Restarts | Age | IP*1 | Node*1 | Nominated Node*1 | \
         Readiness Gates*1",
    ),
    ("", "PodTemplate", "Name!name | Containers | Images | Pod Labels"),
    (
        "",
        "ReplicationController",
        "Name!name | Desired:integer | Current:integer | Ready:integer | Age | Containers*1 | \
         Images*1 | Selector*1",
    ),
    ("", "ResourceQuota", "Name!name | Request | Limit | Age"),
    ("", "Secret", "Name!name | Type | Data | Age"),
    ("", "Service", "Name!name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*1"),
    ("", "ServiceAccount", "Name!name | Age"),
    ("", "Status", "Status | Reason | Message"),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        "Name!name | Mutations:integer | ParamKind | Age",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        "Name!name | PolicyName | ParamRef | Age",
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "Name!name | Webhooks:integer | Age"),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "Name!name | Validations:integer | ParamKind | Age",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "Name!name | PolicyName | ParamRef | Age",
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "Name!name | Webhooks:integer | Age"),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "Name!name | Scope | Versions | Created At:date | Group*1 | Kind*1 | ShortNames*1 | \
         Established:boolean*1",
    ),
    ("apiregistration.k8s.io", "APIService", "Name!name | Service | Available | Age"),
    ("apps", "ControllerRevision", "Name!name | Controller | Revision | Age"),
    (
        "apps",
        "DaemonSet",
        "Name!name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer | \
         Available:integer | Node Selector | Age | Containers*1 | Images*1 | Selector*1",
    ),
    (
        "apps",
        "Deployment",
        "Name!name | Ready | Up-to-date | Available | Age | Containers*1 | Images*1 | Selector*1",
    ),
    (
        "apps",
        "ReplicaSet",
        "Name!name | Desired:integer | Current:integer | Ready:integer | Age | Containers*1 | \
         Images*1 | Selector*1",
    ),
    ("apps", "StatefulSet", "Name!name | Ready | Age | Containers*1 | Images*1"),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "Name!name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
    ),
    ("autoscaling", "Scale", "Name | Desired:integer | Available:integer | Age"),
    (
        "batch",
        "CronJob",
        "Name!name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age \
         | Containers*1 | Images*1 | Selector*1",
    ),
    (
        "batch",
        "Job",
        "Name!name | Status | Completions | Duration | Age | Containers*1 | Images*1 | Selector*1",
    ),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "Name!name | Age | SignerName | Requestor | RequestedDuration | Condition",
    ),
    ("certificates.k8s.io", "ClusterTrustBundle", "Name!name | SignerName"),
    (
        "certificates.k8s.io",
        "PodCertificateRequest",
        "Name!name | PodName | ServiceAccountName | NodeName | SignerName | State | \
         UnverifiedUserAnnotations",
    ),
    ("coordination.k8s.io", "Lease", "Name!name | Holder | Age"),
    ("discovery.k8s.io", "EndpointSlice", "Name!name | AddressType | Ports | Endpoints | Age"),
    (
        "events.k8s.io",
        "Event",
        "Last Seen | Type | Reason | Object | Subobject*1 | Source*1 | Message | First Seen*1 | \
         Count*1 | Name!name*1",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        "Name!name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "Name!name | Type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age",
    ),
    ("networking.k8s.io", "IPAddress", "Name!name | ParentRef"),
    ("networking.k8s.io", "Ingress", "Name!name | Class | Hosts | Address | Ports | Age"),
    ("networking.k8s.io", "IngressClass", "Name!name | Controller | Parameters | Age"),
    ("networking.k8s.io", "NetworkPolicy", "Name!name | Pod-Selector | Age"),
    ("networking.k8s.io", "ServiceCIDR", "Name!name | CIDRs | Age"),
    ("node.k8s.io", "RuntimeClass", "Name!name | Handler | Age"),
    (
        "policy",
        "PodDisruptionBudget",
        "Name!name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "Name!name | Role | Age | Users*1 | Groups*1 | ServiceAccounts*1",
    ),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        "Name!name | Role | Age | Users*1 | Groups*1 | ServiceAccounts*1",
    ),
    ("resource.k8s.io", "DeviceClass", "Name!name | Age"),
    ("resource.k8s.io", "DeviceTaintRule", "Name!name | Key | Value | Effect | TimeAdded | Age"),
    ("resource.k8s.io", "ResourceClaim", "Name!name | State | Age"),
    ("resource.k8s.io", "ResourceClaimTemplate", "Name!name | Age"),
    ("resource.k8s.io", "ResourceSlice", "Name!name | Node | Driver | Pool | Age"),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "Name!name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy",
    ),
    (
        "storage.k8s.io",
        "CSIDriver",
        "Name!name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | \
         TokenRequests | RequiresRepublish:boolean | Modes | Age",
    ),
    ("storage.k8s.io", "CSINode", "Name!name | Drivers:integer | Age"),
    (
        "storage.k8s.io",
        "StorageClass",
        "Name!name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age",
    ),
    ("storage.k8s.io", "VolumeAttachment", "Name!name | Attacher!name | PV | Node | Attached:boolean | Age"),
    ("storage.k8s.io", "VolumeAttributesClass", "Name!name | DriverName | Age"),
    ("storagemigration.k8s.io", "StorageVersionMigration", "Name | Resource | Status"),
];

/// The columns of a kind as they are written here.
pub(super) fn written(group: &str, kind: &str) -> &'static str {
    COLUMNS
        .binary_search_by(|(of_group, of_kind, _)| (*of_group, *of_kind).cmp(&(group, kind)))
        .map_or("Name!name | Created At:date", |place| COLUMNS[place].2)
}

/// Reads columns as they are written here.
pub(super) fn parse(written: &str) -> Vec<Column> {
    written
        .split(" | ")
        .map(|column| {
            let (rest, priority) = column.split_once('*').unwrap_or((column, "0"));
            let (rest, format) = rest.split_once('!').unwrap_or((rest, ""));
            let (name, kind) = rest.split_once(':').unwrap_or((rest, "string"));
            Column {
                name: name.to_owned(),
                kind: kind.to_owned(),
                format: format.to_owned(),
                description: describe(name).to_owned(),
                priority: priority.parse().unwrap_or_default(),
            }
        })
        .collect()
}

fn describe(name: &str) -> &'static str {
    match name {
        "Name" => "The name of the object.",
        "Age" => "How long ago the object was created.",
        "Created At" => "When the object was created.",
        "Status" => "How it is with the object.",
        "Containers" => "The names of the containers of the template.",
        "Images" => "The images of the containers of the template.",
        "Selector" => "Which Pods it is about.",
        _ => "",
    }
}
