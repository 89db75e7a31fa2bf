//! What is known of the provisioners of the world.

use serde_json::{Value, json};

use crate::object::Object as _;

const RWO: &str = "ReadWriteOnce";
const RWX: &str = "ReadWriteMany";
const BLOCK: &str = "Block";
const FILE: &str = "Filesystem";

/// An access mode and a volume mode that go together.
pub(crate) type Ability = (&'static str, &'static str);

const ALL_RBD: &[Ability] = &[(RWX, BLOCK), (RWO, BLOCK), (RWO, FILE)];
const ALL_FILE: &[Ability] = &[(RWX, FILE), (RWO, FILE)];
const ONE_FILE: &[Ability] = &[(RWO, FILE)];
const MANY_FILE: &[Ability] = &[(RWX, FILE)];
const ONE_BLOCK: &[Ability] = &[(RWO, BLOCK)];
const ONE_BOTH: &[Ability] = &[(RWO, BLOCK), (RWO, FILE)];

/// A provisioner, what it can do, how it clones best, and whether imports are best kept as snapshots.
struct Known {
    provisioner: &'static str,
    abilities: &'static [Ability],
    clone: Option<&'static str>,
    snapshots: bool,
}

const fn known(
    provisioner: &'static str,
    abilities: &'static [Ability],
    clone: Option<&'static str>,
    snapshots: bool,
) -> Known {
    Known { provisioner, abilities, clone, snapshots }
}

const CSI: Option<&str> = Some("csi-clone");
const SNAPSHOT: Option<&str> = Some("snapshot");
const COPY: Option<&str> = Some("copy");

/// The provisioners by key: the name, and where one name means several things, what tells them apart.
const TABLE: &[Known] = &[
    known("kubevirt.io.hostpath-provisioner", ONE_FILE, None, false),
    known("kubevirt.io/hostpath-provisioner", ONE_FILE, None, false),
    known("k8s.io/minikube-hostpath", ONE_FILE, None, false),
    known("nfs.csi.k8s.io", MANY_FILE, None, false),
    known("k8s-sigs.io/nfs-subdir-external-provisioner", MANY_FILE, None, false),
    known("rbd.csi.ceph.com", ALL_RBD, None, false),
    known("rook-ceph.rbd.csi.ceph.com", ALL_RBD, CSI, true),
    known("openshift-storage.rbd.csi.ceph.com", ALL_RBD, CSI, true),
    known("cephfs.csi.ceph.com", MANY_FILE, CSI, false),
    known("openshift-storage.cephfs.csi.ceph.com", MANY_FILE, CSI, false),
    known("linstor.csi.linbit.com", ALL_RBD, None, false),
    known("ebs.csi.aws.com", ONE_BLOCK, None, false),
    known("ebs.csi.aws.com/io2", ALL_RBD, None, false),
    known("efs.csi.aws.com", ALL_FILE, None, false),
    known("disk.csi.azure.com", ONE_BLOCK, None, false),
    known("file.csi.azure.com", MANY_FILE, None, false),
    known("pd.csi.storage.gke.io", ONE_BLOCK, SNAPSHOT, true),
    known("pd.csi.storage.gke.io/hyperdisk", ALL_RBD, SNAPSHOT, true),
    known("csi.hpe.com", ALL_RBD, CSI, false),
    known("block.csi.ibm.com", ALL_RBD, CSI, false),
    known("spectrumscale.csi.ibm.com", ALL_FILE, CSI, false),
    known("pxd.portworx.com", &[(RWX, BLOCK), (RWX, FILE), (RWO, BLOCK), (RWO, FILE)], CSI, false),
    known("csi.trident.netapp.io/ontap-nas", ALL_FILE, SNAPSHOT, true),
    known("csi.trident.netapp.io/ontap-san", &[(RWX, BLOCK)], SNAPSHOT, true),
    known("topolvm.cybozu.com", ONE_BOTH, COPY, false),
    known("topolvm.io", ONE_BOTH, COPY, false),
    known("cinder.csi.openstack.org", ONE_BOTH, None, false),
    known("manila.csi.openstack.org", MANY_FILE, None, false),
    known("csi.ovirt.org", ONE_BOTH, None, false),
    known("csi.vsphere.vmware.com", ONE_BOTH, None, false),
    known("csi.vsphere.vmware.com/nfs", &[(RWX, FILE), (RWO, BLOCK), (RWO, FILE)], None, false),
    known(
        "kubesan.gitlab.io",
        &[(RWX, BLOCK), ("ReadOnlyMany", BLOCK), (RWO, BLOCK), (RWO, FILE)],
        CSI,
        false,
    ),
    known("driver.longhorn.io", ONE_BLOCK, None, false),
    known("driver.longhorn.io/migratable", &[(RWX, BLOCK), (RWO, BLOCK)], None, false),
    known("driver.longhorn.io/nfs", ALL_FILE, None, false),
    known("blockvolume.csi.oraclecloud.com", ALL_RBD, None, false),
];

/// The classes for which there is never a profile: they are not for volumes of machines.
pub(crate) const UNSUPPORTED: &[&str] = &[
    "openshift-storage.noobaa.io/obc",
    "openshift-storage.ceph.rook.io/bucket",
    "rook-ceph.ceph.rook.io/bucket",
    "stork-snapshot",
];

/// The provisioner of volumes that are made by hand.
pub(crate) const BY_HAND: &str = "kubernetes.io/no-provisioner";

fn find(class: &Value) -> Option<&'static Known> {
    let key = key(class);
    TABLE.iter().find(|known| known.provisioner == key)
}

/// What a class of storage can do, if its provisioner is known.
pub(crate) fn abilities(class: &Value) -> Option<&'static [Ability]> {
    find(class).map(|known| known.abilities)
}

/// How the provisioner of a class clones best.
pub(crate) fn clone_strategy(class: &Value) -> Option<&'static str> {
    find(class).and_then(|known| known.clone)
}

/// The form in which imports of a class are best kept.
pub(crate) fn cron_format(class: &Value) -> &'static str {
    if find(class).is_some_and(|known| known.snapshots) { "snapshot" } else { "pvc" }
}

/// The key of a class in the table.
fn key(class: &Value) -> String {
    let provisioner = class.text("/provisioner");
    let parameter = |name: &str| class["parameters"][name].as_str().unwrap_or_default();
    let more = match provisioner {
        "csi.trident.netapp.io" if parameter("backendType").starts_with("ontap-nas") => "ontap-nas",
        "csi.trident.netapp.io" if parameter("backendType").starts_with("ontap-san") => "ontap-san",
        "ebs.csi.aws.com" if parameter("type") == "io2" => "io2",
        "pd.csi.storage.gke.io" if parameter("type").contains("hyperdisk") => "hyperdisk",
        "csi.vsphere.vmware.com" if parameter("csi.storage.k8s.io/fstype").contains("nfs") => "nfs",
        "driver.longhorn.io" if parameter("migratable") == "true" => "migratable",
        "driver.longhorn.io" if !parameter("nfsOptions").is_empty() => "nfs",
        _ => "",
    };
    if more.is_empty() { provisioner.to_owned() } else { format!("{provisioner}/{more}") }
}

/// Abilities as a profile tells them.
pub(crate) fn property_sets(abilities: &[Ability]) -> Vec<Value> {
    let sets = abilities.iter();
    sets.map(|(access, volume)| json!({"accessModes": [access], "volumeMode": volume})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_tell_backends_apart() {
        let san = json!({"provisioner": "csi.trident.netapp.io", "parameters": {"backendType": "ontap-san"}});
        assert_eq!(abilities(&san), Some(&[(RWX, BLOCK)][..]));
        assert_eq!((clone_strategy(&san), cron_format(&san)), (Some("snapshot"), "snapshot"));
        assert_eq!(abilities(&json!({"provisioner": "csi.trident.netapp.io"})), None);
        assert_eq!(abilities(&json!({"provisioner": "example.com/unknown"})), None);
    }
}
