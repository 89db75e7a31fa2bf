//! What CDI changes in what is written, and what it refuses.

mod cron;
mod datavolume;
mod rights;
mod spec;

use crate::kinds::{PVC, VOLUME_IMPORT_SOURCE};
use crate::object::Object as _;
use crate::service::admission::{Cause, Hook, Rule, Verdict};

const V1BETA1: &[&str] = &["v1beta1"];
const WRITES: &[&str] = &["CREATE", "UPDATE"];
const GROUP: &str = "cdi.kubevirt.io";

/// The webhooks of CDI.
pub const HOOKS: &[Hook] = &[
    Hook {
        path: "/datavolume-mutate",
        configuration: "cdi-api-datavolume-mutate",
        name: "datavolume-mutate.cdi.kubevirt.io",
        mutating: true,
        rules: &[Rule { group: GROUP, versions: V1BETA1, resources: &["datavolumes"], operations: WRITES }],
        ignore_failure: false,
        review: |context, review| Box::pin(datavolume::mutate(context, review)),
    },
    Hook {
        path: "/datavolume-validate",
        configuration: "cdi-api-datavolume-validate",
        name: "datavolume-validate.cdi.kubevirt.io",
        mutating: false,
        rules: &[Rule { group: GROUP, versions: V1BETA1, resources: &["datavolumes"], operations: WRITES }],
        ignore_failure: false,
        review: |context, review| Box::pin(datavolume::validate(context, review)),
    },
    Hook {
        path: "/dataimportcron-validate",
        configuration: "cdi-api-dataimportcron-validate",
        name: "dataimportcron-validate.cdi.kubevirt.io",
        mutating: false,
        rules: &[Rule {
            group: GROUP,
            versions: V1BETA1,
            resources: &["dataimportcrons"],
            operations: WRITES,
        }],
        ignore_failure: false,
        review: |_, review| Box::pin(async move { cron::validate(&review) }),
    },
    Hook {
        path: "/populator-validate",
        configuration: "cdi-api-populator-validate",
        name: "populator-validate.cdi.kubevirt.io",
        mutating: false,
        rules: &[Rule {
            group: GROUP,
            versions: V1BETA1,
            resources: &["volumeimportsources", "volumeuploadsources", "volumeclonesources"],
            operations: WRITES,
        }],
        ignore_failure: false,
        review: |_, review| {
            Box::pin(async move {
                if review.operation == "UPDATE" && review.object["spec"] != review.old["spec"] {
                    let message = "Cannot update VolumePopulator Spec"
                        .replace("VolumePopulator", review.object.text("/kind"));
                    return Verdict::of_causes(vec![Cause::invalid("spec", message)]);
                }
                if review.resource == VOLUME_IMPORT_SOURCE.plural {
                    return Verdict::of_causes(spec::sources("spec", review.object.at("/spec/source")));
                }
                if review.resource == "volumeclonesources" {
                    let kind = review.object.text("/spec/source/kind");
                    if ![PVC.kind, "VolumeSnapshot"].contains(&kind) {
                        let message =
                            format!("Bad kind: {kind}, expected PersistentVolumeClaim or VolumeSnapshot");
                        return Verdict::of_causes(vec![Cause::invalid("spec.Source.Kind", message)]);
                    }
                }
                Verdict::fine()
            })
        },
    },
];
