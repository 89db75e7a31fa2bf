//! The definitions of the kinds that KubeVirt, CDI, Multus and the snapshot controller bring along.

mod schema;

use serde_json::{Value, json};

use crate::client::{Client, Result};
use crate::kinds::CRD;
use crate::object::{Key, Object as _};

use schema::Definitions;

/// A kind to define.
struct Row {
    group: &'static str,
    /// The versions that are served; the first is the stored one.
    versions: &'static [&'static str],
    /// Versions that are deprecated, with what a client is warned of.
    deprecated: &'static [(&'static str, &'static str)],
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    all: bool,
    status: bool,
    scale: bool,
    /// Name, type, path and priority.
    columns: &'static [(&'static str, &'static str, &'static str, u8)],
    /// Which table the schema is in.
    table: Table,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Kubevirt,
    Cdi,
    Storage,
}

const KUBEVIRT: &str = include_str!("kubevirt.schema");
const CDI: &str = include_str!("cdi.schema");
const STORAGE: &str = include_str!("storage.schema");

const OLD: &[(&str, &str)] =
    &[("v1alpha3", "kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release.")];
const AGE: (&str, &str, &str, u8) = ("Age", "date", ".metadata.creationTimestamp", 0);
const PHASE: (&str, &str, &str, u8) = ("Phase", "string", ".status.phase", 0);
const READY: (&str, &str, &str, u8) = ("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", 0);
const REPLICAS: &[(&str, &str, &str, u8)] = &[
    ("Desired", "integer", ".spec.replicas", 0),
    ("Current", "integer", ".status.replicas", 0),
    ("Ready", "integer", ".status.readyReplicas", 0),
    AGE,
];

/// What most rows have.
const BASE: Row = Row {
    group: "kubevirt.io",
    versions: &["v1", "v1alpha3"],
    deprecated: OLD,
    kind: "",
    plural: "",
    singular: "",
    short: &[],
    namespaced: true,
    all: true,
    status: true,
    scale: false,
    columns: &[],
    table: Table::Kubevirt,
};

const SHAPES: Row =
    Row { group: "instancetype.kubevirt.io", versions: &["v1beta1"], deprecated: &[], status: false, ..BASE };

const BETA: Row = Row { versions: &["v1beta1", "v1alpha1"], deprecated: &[], ..BASE };

const CDI_KIND: Row = Row {
    group: "cdi.kubevirt.io",
    versions: &["v1beta1"],
    deprecated: &[],
    status: false,
    all: false,
    table: Table::Cdi,
    ..BASE
};

const SNAPSHOT: Row = Row {
    group: "snapshot.storage.k8s.io",
    versions: &["v1"],
    deprecated: &[],
    all: false,
    table: Table::Storage,
    ..BASE
};

const ROWS: &[Row] = &[
    Row {
        kind: "VirtualMachine",
        plural: "virtualmachines",
        singular: "virtualmachine",
        short: &["vm", "vms"],
        columns: &[AGE, ("Status", "string", ".status.printableStatus", 0), READY],
        ..BASE
    },
    Row {
        kind: "VirtualMachineInstance",
        plural: "virtualmachineinstances",
        singular: "virtualmachineinstance",
        short: &["vmi", "vmis"],
        status: false,
        columns: &[
            AGE,
            PHASE,
            ("IP", "string", ".status.interfaces[0].ipAddress", 0),
            ("NodeName", "string", ".status.nodeName", 0),
            READY,
            ("Live-Migratable", "string", ".status.conditions[?(@.type=='LiveMigratable')].status", 1),
            ("Paused", "string", ".status.conditions[?(@.type=='Paused')].status", 1),
        ],
        ..BASE
    },
    Row {
        kind: "VirtualMachineInstanceMigration",
        plural: "virtualmachineinstancemigrations",
        singular: "virtualmachineinstancemigration",
        short: &["vmim", "vmims"],
        columns: &[PHASE, ("VMI", "string", ".spec.vmiName", 0)],
        ..BASE
    },
    Row {
        kind: "VirtualMachineInstanceReplicaSet",
        plural: "virtualmachineinstancereplicasets",
        singular: "virtualmachineinstancereplicaset",
        short: &["vmirs", "vmirss"],
        scale: true,
        columns: REPLICAS,
        ..BASE
    },
    Row {
        kind: "VirtualMachineInstancePreset",
        plural: "virtualmachineinstancepresets",
        singular: "virtualmachineinstancepreset",
        short: &["vmipreset", "vmipresets"],
        status: false,
        ..BASE
    },
    Row {
        kind: "KubeVirt",
        plural: "kubevirts",
        singular: "kubevirt",
        short: &["kv", "kvs"],
        columns: &[AGE, PHASE],
        ..BASE
    },
    Row {
        group: "pool.kubevirt.io",
        kind: "VirtualMachinePool",
        plural: "virtualmachinepools",
        singular: "virtualmachinepool",
        short: &["vmpool", "vmpools"],
        scale: true,
        columns: REPLICAS,
        ..BETA
    },
    Row {
        kind: "VirtualMachineInstancetype",
        plural: "virtualmachineinstancetypes",
        singular: "virtualmachineinstancetype",
        short: &["vminstancetype", "vminstancetypes", "vmf", "vmfs"],
        ..SHAPES
    },
    Row {
        kind: "VirtualMachineClusterInstancetype",
        plural: "virtualmachineclusterinstancetypes",
        singular: "virtualmachineclusterinstancetype",
        short: &["vmclusterinstancetype", "vmclusterinstancetypes", "vmcf", "vmcfs"],
        namespaced: false,
        all: false,
        ..SHAPES
    },
    Row {
        kind: "VirtualMachinePreference",
        plural: "virtualmachinepreferences",
        singular: "virtualmachinepreference",
        short: &["vmpref", "vmprefs", "vmp", "vmps"],
        ..SHAPES
    },
    Row {
        kind: "VirtualMachineClusterPreference",
        plural: "virtualmachineclusterpreferences",
        singular: "virtualmachineclusterpreference",
        short: &["vmcp", "vmcps"],
        namespaced: false,
        all: false,
        ..SHAPES
    },
    Row {
        group: "snapshot.kubevirt.io",
        kind: "VirtualMachineSnapshot",
        plural: "virtualmachinesnapshots",
        singular: "virtualmachinesnapshot",
        short: &["vmsnapshot", "vmsnapshots"],
        ..BETA
    },
    Row {
        group: "snapshot.kubevirt.io",
        kind: "VirtualMachineSnapshotContent",
        plural: "virtualmachinesnapshotcontents",
        singular: "virtualmachinesnapshotcontent",
        short: &["vmsnapshotcontent", "vmsnapshotcontents"],
        ..BETA
    },
    Row {
        group: "snapshot.kubevirt.io",
        kind: "VirtualMachineRestore",
        plural: "virtualmachinerestores",
        singular: "virtualmachinerestore",
        short: &["vmrestore", "vmrestores"],
        ..BETA
    },
    Row {
        group: "export.kubevirt.io",
        versions: &["v1", "v1beta1"],
        kind: "VirtualMachineExport",
        plural: "virtualmachineexports",
        singular: "virtualmachineexport",
        short: &["vmexport", "vmexports"],
        columns: &[
            ("SourceKind", "string", ".spec.source.kind", 0),
            ("SourceName", "string", ".spec.source.name", 0),
            PHASE,
        ],
        ..BETA
    },
    Row {
        group: "clone.kubevirt.io",
        kind: "VirtualMachineClone",
        plural: "virtualmachineclones",
        singular: "virtualmachineclone",
        short: &["vmclone", "vmclones"],
        ..BETA
    },
    Row {
        group: "migrations.kubevirt.io",
        versions: &["v1alpha1"],
        kind: "MigrationPolicy",
        plural: "migrationpolicies",
        singular: "migrationpolicy",
        namespaced: false,
        all: false,
        ..BETA
    },
    Row {
        kind: "DataVolume",
        plural: "datavolumes",
        singular: "datavolume",
        short: &["dv", "dvs"],
        status: true,
        all: true,
        columns: &[
            PHASE,
            ("Progress", "string", ".status.progress", 0),
            ("Restarts", "integer", ".status.restartCount", 0),
            AGE,
        ],
        ..CDI_KIND
    },
    Row {
        kind: "DataSource",
        plural: "datasources",
        singular: "datasource",
        short: &["das"],
        all: true,
        ..CDI_KIND
    },
    Row {
        kind: "DataImportCron",
        plural: "dataimportcrons",
        singular: "dataimportcron",
        short: &["dic", "dics"],
        all: true,
        columns: &[("Format", "string", ".status.sourceFormat", 0)],
        ..CDI_KIND
    },
    Row {
        kind: "StorageProfile",
        plural: "storageprofiles",
        singular: "storageprofile",
        namespaced: false,
        status: true,
        ..CDI_KIND
    },
    Row {
        kind: "CDI",
        plural: "cdis",
        singular: "cdi",
        short: &["cdi", "cdis"],
        namespaced: false,
        columns: &[AGE, PHASE],
        ..CDI_KIND
    },
    Row { kind: "CDIConfig", plural: "cdiconfigs", singular: "cdiconfig", namespaced: false, ..CDI_KIND },
    Row {
        kind: "VolumeImportSource",
        plural: "volumeimportsources",
        singular: "volumeimportsource",
        ..CDI_KIND
    },
    Row {
        kind: "VolumeUploadSource",
        plural: "volumeuploadsources",
        singular: "volumeuploadsource",
        ..CDI_KIND
    },
    Row {
        kind: "VolumeCloneSource",
        plural: "volumeclonesources",
        singular: "volumeclonesource",
        ..CDI_KIND
    },
    Row {
        kind: "VolumeSnapshot",
        plural: "volumesnapshots",
        singular: "volumesnapshot",
        short: &["vs"],
        columns: &[
            ("ReadyToUse", "boolean", ".status.readyToUse", 0),
            ("SourcePVC", "string", ".spec.source.persistentVolumeClaimName", 0),
            ("RestoreSize", "string", ".status.restoreSize", 0),
            ("SnapshotClass", "string", ".spec.volumeSnapshotClassName", 0),
            ("SnapshotContent", "string", ".status.boundVolumeSnapshotContentName", 0),
            AGE,
        ],
        ..SNAPSHOT
    },
    Row {
        kind: "VolumeSnapshotContent",
        plural: "volumesnapshotcontents",
        singular: "volumesnapshotcontent",
        short: &["vsc", "vscs"],
        namespaced: false,
        columns: &[
            ("ReadyToUse", "boolean", ".status.readyToUse", 0),
            ("Driver", "string", ".spec.driver", 0),
            ("VolumeSnapshot", "string", ".spec.volumeSnapshotRef.name", 0),
            AGE,
        ],
        ..SNAPSHOT
    },
    Row {
        kind: "VolumeSnapshotClass",
        plural: "volumesnapshotclasses",
        singular: "volumesnapshotclass",
        short: &["vsclass", "vsclasses"],
        namespaced: false,
        status: false,
        columns: &[
            ("Driver", "string", ".driver", 0),
            ("DeletionPolicy", "string", ".deletionPolicy", 0),
            AGE,
        ],
        ..SNAPSHOT
    },
    Row {
        group: "k8s.cni.cncf.io",
        kind: "NetworkAttachmentDefinition",
        plural: "network-attachment-definitions",
        singular: "network-attachment-definition",
        short: &["net-attach-def"],
        status: false,
        ..SNAPSHOT
    },
];

impl Row {
    /// The definition.
    fn definition(&self, schema: &Value) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .enumerate()
            .map(|(place, version)| {
                let mut entry = json!({
                    "name": version, "served": true, "storage": place == 0,
                    "schema": {"openAPIV3Schema": schema},
                });
                if let Some((_, warning)) = self.deprecated.iter().find(|(name, _)| name == version) {
                    entry["deprecated"] = true.into();
                    entry["deprecationWarning"] = (*warning).into();
                }
                let mut subresources = json!({});
                if self.status {
                    subresources["status"] = json!({});
                }
                if self.scale {
                    subresources["scale"] = json!({
                        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.labelSelector",
                    });
                }
                if self.status || self.scale {
                    entry["subresources"] = subresources;
                }
                let columns: Vec<Value> = self
                    .columns
                    .iter()
                    .map(|(name, kind, path, priority)| {
                        let mut column = json!({"name": name, "type": kind, "jsonPath": path});
                        if *priority > 0 {
                            column["priority"] = (*priority).into();
                        }
                        column
                    })
                    .collect();
                if !columns.is_empty() {
                    entry["additionalPrinterColumns"] = columns.into();
                }
                entry
            })
            .collect();
        let mut names = json!({
            "kind": self.kind, "listKind": format!("{}List", self.kind), "plural": self.plural,
            "singular": self.singular,
        });
        if !self.short.is_empty() {
            names["shortNames"] = self.short.into();
        }
        if self.all {
            names["categories"] = json!(["all"]);
        }
        let mut definition = CRD.empty();
        definition["metadata"] = json!({"name": format!("{}.{}", self.plural, self.group)});
        if self.group.ends_with(".k8s.io") {
            // The group is guarded, and asks for a word on who approved its kinds.
            definition["metadata"]["annotations"] =
                json!({"api-approved.kubernetes.io": "unapproved, emulated"});
        }
        definition["spec"] = json!({
            "group": self.group, "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
            "names": names, "versions": versions, "conversion": {"strategy": "None"},
        });
        definition
    }
}

/// All definitions.
pub fn all() -> Vec<Value> {
    let tables = [KUBEVIRT, CDI, STORAGE].map(Definitions::read);
    ROWS.iter()
        .map(|row| {
            let definitions = &tables[row.table as usize];
            let mut schema = definitions.root(row.kind);
            if row.kind == "VirtualMachine" {
                schema["properties"]["status"]["properties"]["printableStatus"]["default"] = "Stopped".into();
            }
            if row.kind == "StorageProfile" {
                for part in ["spec", "status"] {
                    let sets = &mut schema["properties"][part]["properties"]["claimPropertySets"]["items"];
                    sets["properties"]["accessModes"]["x-kubernetes-validations"] = json!([{
                        "rule": "self.all(am, am in ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod'])",
                        "message": "Illegal AccessMode",
                    }]);
                }
            }
            row.definition(&schema)
        })
        .collect()
}

/// How long to wait before looking again whether a kind is served.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(10);

/// Makes sure the server has all kinds, and waits until it serves them. Kinds it has of its own stay as they are.
///
/// Definitions are large, so each is sent once and read as rarely as possible: no watch.
pub async fn install(client: &Client) -> Result {
    let served = client.send(http::Method::GET, "/apis", None).await?;
    let own: Vec<&str> = served.list("/groups").iter().map(|group| group.text("/name")).collect();
    let mut waiting = Vec::new();
    for definition in all() {
        let group = definition.text("/spec/group");
        let is_own = own.contains(&group) && has(client, &definition).await;
        if !is_own {
            waiting.push(Key::of(&definition));
            client.create_if_absent(&CRD, definition).await?;
        }
    }
    for key in waiting {
        while !client
            .get(&CRD, &key)
            .await?
            .is_some_and(|definition| definition.condition_holds("Established"))
        {
            tokio::time::sleep(GLANCE).await;
        }
    }
    Ok(())
}

/// Whether the server has a kind without this definition.
async fn has(client: &Client, definition: &Value) -> bool {
    let (group, version) = (definition.text("/spec/group"), definition.text("/spec/versions/0/name"));
    let list = client.send(http::Method::GET, &format!("/apis/{group}/{version}"), None).await;
    let plural = definition.text("/spec/names/plural");
    list.is_ok_and(|list| list.list("/resources").iter().any(|one| one["name"] == plural))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_defined_and_named_as_in_the_table_of_kinds() {
        let all = all();
        for kind in crate::kinds::ALL {
            if !kind.group.contains("kubevirt.io") && !kind.group.starts_with("snapshot.") {
                continue;
            }
            let definition = all
                .iter()
                .find(|one| {
                    one["spec"]["group"] == kind.group && one["spec"]["names"]["plural"] == kind.plural
                })
                .unwrap_or_else(|| panic!("{} is not defined", kind.kind));
            assert_eq!(definition["spec"]["versions"][0]["name"], kind.version, "{}", kind.kind);
            assert_eq!(definition["spec"]["scope"] == "Namespaced", kind.namespaced, "{}", kind.kind);
            let status = definition["spec"]["versions"][0]["subresources"]["status"].is_object();
            assert_eq!(status, kind.status, "{}", kind.kind);
        }
    }

    #[test]
    fn schemas_are_whole() {
        let all = all();
        let vm = all.iter().find(|one| one["metadata"]["name"] == "virtualmachines.kubevirt.io").unwrap();
        let schema = &vm["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let template = &schema["properties"]["spec"]["properties"]["template"]["properties"];
        assert_eq!(template["metadata"]["x-kubernetes-preserve-unknown-fields"], true);
        let disks = &template["spec"]["properties"]["domain"]["properties"]["devices"]["properties"]["disks"];
        assert_eq!(disks["items"]["required"], json!(["name"]));
        assert_eq!(schema["properties"]["spec"]["required"], json!(["template"]));
    }
}
