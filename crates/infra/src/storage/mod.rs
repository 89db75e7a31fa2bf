//! Storage: classes, volumes, claims, snapshots and their way to the nodes.
//!
//! What a kube-controller-manager does (binding, the first step of growing, attaching) runs only where there is none;
//! what comes with a CSI driver (provisioning, growing, attaching, snapshots) always runs, for the drivers of this
//! table:
//!
//! | class | driver | shapes | binding | topology | grows | snapshots | clones |
//! |---|---|---|---|---|---|---|---|
//! | `replicated` (default, also for machines) | `rbd.csi.ceph.com` | RWX and RWO Block, RWO Filesystem | Immediate | – | yes | yes | yes |
//! | `local` | `kubevirt.io.hostpath-provisioner` | RWO Filesystem | WaitForFirstConsumer | one host | no | no | no |
//! | `zonal` | `ebs.csi.aws.com` | RWO Block and Filesystem | WaitForFirstConsumer | one zone | yes | yes | no |
//! | `unknown` | `csi.storage.trellis.dev` | RWX and RWO Filesystem | Immediate | – | yes | no | no |
//!
//! The first three are provisioners CDI knows the abilities of, the last is not. RWO always includes RWOP. Classes that
//! people add for the same drivers work as well; each class is a pool of its own.
//!
//! The stages are `volume.provision`, `clone.csi` (a copy made by the driver), `volume.expand`, `volume.delete`,
//! `volume.attach`, `volume.detach`, `snapshot.create`, `snapshot.upload` (until it can be used) and
//! `snapshot.delete`. Rules about any of them can match `/spec/storageClassName`.
//!
//! From outside, [`Storage`] sets how much fits into a class and slows or breaks it.

mod attach;
mod binder;
mod classes;
mod deleter;
mod matching;
mod outside;
mod provision;
mod provisioner;
mod registrar;
mod resizer;
mod snapshots;
mod told;

use crate::client::Result;
use crate::context::{Context, Tasks};
use crate::settings::Manager;

pub use attach::{attachment_name, is_attached};
pub use classes::{DRIVERS, Driver, driver};
pub use outside::Storage;

/// Makes the classes of storage.
pub async fn install(context: &Context) -> Result {
    classes::install(&context.client).await
}

/// Starts what runs beside the drivers, and what a controller manager would do where there is none.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(registrar::Registrar::new(context));
    tasks.control(provisioner::Provisioner::new(context));
    tasks.control(deleter::Deleter::new(context));
    tasks.control(resizer::Resizer::new(context));
    tasks.control(snapshots::SnapshotController::new(context));
    tasks.control(snapshots::Snapshotter::new(context));
    tasks.control(attach::Attacher::new(context));
    tasks.control(attach::Detacher::new(context));
    if context.settings.manager == Manager::Embedded {
        tasks.control(binder::ClaimBinder::new(context));
        tasks.control(binder::VolumeBinder::new(context));
        tasks.control(attach::AttachDetach::new(context));
    }
}
