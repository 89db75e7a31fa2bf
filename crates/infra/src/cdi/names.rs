//! The annotations and labels CDI speaks through, and the names of what it makes.

use sha2::{Digest as _, Sha256};

pub use crate::object::hex;

/// Shorthand for the table below.
macro_rules! words {
    ($($(#[$about:meta])* $name:ident = $text:literal;)*) => { $($(#[$about])* pub const $name: &str = $text;)* };
}

words! {
    /// The API group, also of data source references.
    GROUP = "cdi.kubevirt.io";
    /// The phase of the worker pod of a claim.
    POD_PHASE = "cdi.kubevirt.io/storage.pod.phase";
    /// Whether the upload server of a claim answers.
    POD_READY = "cdi.kubevirt.io/storage.pod.ready";
    /// How often the worker of a claim was started anew.
    POD_RESTARTS = "cdi.kubevirt.io/storage.pod.restarts";
    /// Whether worker pods stay after their work.
    POD_RETAIN = "cdi.kubevirt.io/storage.pod.retainAfterCompletion";
    /// The priority class of worker pods.
    PRIORITY_CLASS = "cdi.kubevirt.io/storage.pod.priorityclassname";
    /// Whether the worker pod fits on no host.
    POD_SCHEDULABLE = "cdi.kubevirt.io/storage.pod.schedulable";
    /// The name of the DataVolume a claim was filled for.
    POPULATED_FOR = "cdi.kubevirt.io/storage.populatedFor";
    /// On a DataVolume: the claim that is there already.
    PRE_POPULATED = "cdi.kubevirt.io/storage.prePopulated";
    /// Whether a claim may be taken over by a DataVolume of its name.
    CLAIM_ADOPTION = "cdi.kubevirt.io/allowClaimAdoption";
    /// Whether a volume that was made by hand may be there already.
    STATIC_VOLUME = "cdi.kubevirt.io/storage.checkStaticVolume";
    /// The uid of the DataVolume a claim was made for.
    CREATED_FOR = "cdi.kubevirt.io/createdForDataVolume";
    /// How far the work on a claim is.
    PROGRESS = "cdi.kubevirt.io/storage.populator.progress";
    /// The kind of source a prime claim is filled from.
    POPULATOR_KIND = "cdi.kubevirt.io/storage.populator.kind";
    /// The prime claim of a claim.
    PRIME_NAME = "cdi.kubevirt.io/storage.populator.pvcPrime";
    /// Whether a DataVolume is filled by populators.
    USE_POPULATOR = "cdi.kubevirt.io/storage.usePopulator";
    /// Whether all space is to be taken at once.
    PREALLOCATION_REQUESTED = "cdi.kubevirt.io/storage.preallocation.requested";
    /// Whether all space was taken at once.
    PREALLOCATION = "cdi.kubevirt.io/storage.preallocation";
    /// Whether the worker runs.
    RUNNING = "cdi.kubevirt.io/storage.condition.running";
    /// What the worker said.
    RUNNING_MESSAGE = "cdi.kubevirt.io/storage.condition.running.message";
    /// Why the worker does not run.
    RUNNING_REASON = "cdi.kubevirt.io/storage.condition.running.reason";
    /// Whether the claim has its scratch space.
    BOUND = "cdi.kubevirt.io/storage.condition.bound";
    /// What is said about that.
    BOUND_MESSAGE = "cdi.kubevirt.io/storage.condition.bound.message";
    /// Why it has not.
    BOUND_REASON = "cdi.kubevirt.io/storage.condition.bound.reason";
    /// Whether the worker needs scratch space.
    REQUIRES_SCRATCH = "cdi.kubevirt.io/storage.import.requiresScratch";
    /// `kubevirt` or `archive`.
    CONTENT_TYPE = "cdi.kubevirt.io/storage.contentType";
    /// The kind of source of an import.
    SOURCE = "cdi.kubevirt.io/storage.import.source";
    /// Where an import reads from.
    ENDPOINT = "cdi.kubevirt.io/storage.import.endpoint";
    /// The secret an import identifies itself with.
    SECRET = "cdi.kubevirt.io/storage.import.secretName";
    /// Who vouches for the server of an import.
    CERT_CONFIG_MAP = "cdi.kubevirt.io/storage.import.certConfigMap";
    /// `pod` or `node`.
    REGISTRY_METHOD = "cdi.kubevirt.io/storage.import.registryImportMethod";
    /// The image stream of an import.
    REGISTRY_IMAGE_STREAM = "cdi.kubevirt.io/storage.import.registryImageStream";
    /// The pod of an import.
    IMPORT_POD = "cdi.kubevirt.io/storage.import.importPodName";
    /// What the bytes of an import have to add up to.
    CHECKSUM = "cdi.kubevirt.io/storage.import.checksum";
    /// Whether the server's certificate is not looked at.
    INSECURE = "cdi.kubevirt.io/storage.import.insecureSkipVerify";
    /// A further header of the import's request; the number of the header follows.
    EXTRA_HEADERS = "cdi.kubevirt.io/storage.import.extraHeaders";
    /// A secret with further headers; its number follows.
    SECRET_EXTRA_HEADERS = "cdi.kubevirt.io/storage.import.secretExtraHeaders";
    /// An error that no other attempt mends.
    FATAL_ERROR = "cdi.kubevirt.io/storage.import.fatalError";
    /// Proves that whoever asked for a clone may read its source.
    CLONE_TOKEN = "cdi.kubevirt.io/storage.clone.token";
    /// The same, for as long as the clone takes.
    EXTENDED_CLONE_TOKEN = "cdi.kubevirt.io/storage.extended.clone.token";
    /// Whether the size of a clone is not looked at.
    PERMISSIVE_CLONE = "cdi.kubevirt.io/permissiveClone";
    /// The way a clone is made.
    CLONE_TYPE = "cdi.kubevirt.io/cloneType";
    /// Where a clone is.
    CLONE_PHASE = "cdi.kubevirt.io/clonePhase";
    /// What keeps a clone from going on.
    CLONE_ERROR = "cdi.kubevirt.io/cloneError";
    /// Why a clone is made the slow way.
    CLONE_FALLBACK = "cdi.kubevirt.io/cloneFallbackReason";
    /// The namespace of the source of a clone into another.
    DATA_SOURCE_NAMESPACE = "cdi.kubevirt.io/dataSourceNamespace";
    /// The claim a legacy clone reads.
    CLONE_REQUEST = "k8s.io/CloneRequest";
    /// That a legacy clone is complete.
    CLONE_OF = "k8s.io/CloneOf";
    /// Marks a claim that waits for an upload.
    UPLOAD_TARGET = "cdi.kubevirt.io/storage.upload.target";
    /// That a claim is to be filled without waiting for its first consumer.
    IMMEDIATE_BINDING = "cdi.kubevirt.io/storage.bind.immediate.requested";
    /// The node the scheduler picked for a claim.
    SELECTED_NODE = "volume.kubernetes.io/selected-node";
    /// On pods: who made them.
    CREATED_BY = "cdi.kubevirt.io/storage.createdByController";
    /// The namespace and name of the DataVolume of an object elsewhere.
    OWNED_BY_DATA_VOLUME = "cdi.kubevirt.io/storage.ownedByDataVolume";
    /// The default class of storage.
    DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class";
    /// The default class of storage for machines.
    DEFAULT_VIRT_CLASS = "storageclass.kubevirt.io/is-default-virt-class";
    /// The way a class of storage wants its clones made.
    CLASS_CLONE_STRATEGY = "cdi.kubevirt.io/clone-strategy";
    /// Label: the uid of the claim something was made for by a clone.
    OWNED_BY_UID = "cdi.kubevirt.io/OwnedByUID";
    /// Label: which importer, uploader or cloner a pod is.
    COMPONENT = "cdi.kubevirt.io";
    /// Label: everything CDI makes.
    APP = "app";
    /// Its value.
    APP_VALUE = "containerized-data-importer";
    /// Label: nobody is to be alarmed when such a volume is full.
    FILLING_UP = "alerts.k8s.io/KubePersistentVolumeFillingUp";
    /// Label: the import cron of a DataVolume or DataSource.
    CRON_LABEL = "cdi.kubevirt.io/dataImportCron";
    /// The digest an import cron imports next.
    CRON_DESIRED = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
    /// When an import cron last looked.
    CRON_LAST_LOOK = "cdi.kubevirt.io/storage.import.lastCronTime";
    /// When an import cron looks next.
    CRON_NEXT_LOOK = "cdi.kubevirt.io/storage.import.nextCronTime";
    /// When an import was last needed by an import cron.
    CRON_LAST_USE = "cdi.kubevirt.io/storage.import.lastUseTime";
    /// On the pod that reads for a clone: the claim it is for, with its namespace.
    OWNER_REF = "cdi.kubevirt.io/storage.ownerRef";
    /// Finalizer: a clone has to tidy up.
    CLONE_FINALIZER = "cdi.kubevirt.io/clonePopulator";
    /// Finalizer: a clone from another namespace has to tidy up there.
    CROSS_NAMESPACE_FINALIZER = "cdi.kubevirt.io/dataVolumeFinalizer";
    /// Finalizer: an import cron has to tidy up.
    CRON_FINALIZER = "cdi.kubevirt.io/dataImportCronFinalizer";
}

/// The longest name a pod or a claim of CDI's is given.
const LONGEST: usize = 253;
/// The longest name of a service, which upload pods have too.
const LONGEST_SERVICE: usize = 63;

/// A name no longer than the API allows: what is cut off is told by a short hash.
pub fn name(text: &str) -> String {
    within(text, LONGEST)
}

/// The same for names that also are host names.
pub fn service_name(text: &str) -> String {
    within(text, LONGEST_SERVICE)
}

fn within(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let hash = hex(&Sha256::digest(text.as_bytes())[..4]);
    let head: String = text.chars().take(longest - 1 - hash.len()).collect();
    format!("{}-{hash}", head.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_different() {
        assert_eq!(name("importer-a"), "importer-a");
        let (one, other) = ("x".repeat(300), "x".repeat(301));
        assert_eq!(name(&one).len(), 253);
        assert_ne!(name(&one), name(&other));
        assert_eq!(service_name(&one).len(), 63);
    }
}
