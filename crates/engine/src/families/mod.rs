//! The watch edge: machine objects of three families as plain data, and decisions as objects and patches.
//!
//! Three families describe pools of machines: Kubermatic's (`kkp`), OpenShift's (`openshift`) and our own (`trellis`).
//! Each is a [`Family`]: a table of names. Everything here is a pure function of what was watched:
//!
//! - an [`Object`] is what is kept of a watched object: narrow, with what many objects share kept once;
//! - [`Readings`] turn templates into clusters, pools and revisions of the model, each template once;
//! - [`machine_seen`], [`member`], [`pool_wish`] and [`set_seen`] are what plans look at;
//! - [`make`] builds the objects a plan asks for, with names that a retry finds again;
//! - [`machine_status`] and [`pool_status`] are the patches that bring a status up to date, if it is not;
//! - [`adoption`] takes machines over that others made, and hands them back;
//! - [`user_data`] knows where each family keeps what a guest reads at first boot;
//! - [`health`] reads health checks, and [`check_status`] is the patch that brings the status of one up to date;
//! - [`rollback`] knows the revisions a pool had, and goes back to one.

mod cluster_status;
mod health_status;
mod intern;
mod machine;
mod machine_status;
mod object;
mod patch;
mod pool;
mod pool_status;
mod reading;
mod record;
mod table;

pub mod adoption;
pub mod health;
pub mod make;
pub mod rollback;
pub mod user_data;

pub use cluster_status::{cluster_condition, cluster_condition_holds, cluster_status};
pub use health_status::{check_status, condition_status, without_condition};
pub use machine::{flags, identity, is_present, machine_seen, member, node_wish, recorded_revision, wish};
pub use machine_status::machine_status;
pub use object::{HistoryObject, Meta, Object, Owner, Pairs, Text};
pub use patch::{
    add_finalizer, annotate, differs_in_words, remove_finalizer, scale, set_provider_id, status_between,
    with_status,
};
pub use pool::{history_seen, mark, number_of, pool_wish, set_seen, set_size};
pub use pool_status::{PoolStatus, pool_status, set_status};
pub(crate) use reading::{OPENSHIFT_CLUSTER, cluster_document, name_cluster};
pub use reading::{Reading, Readings, Unreadable, read_cluster};
pub use table::{FAMILIES, FINALIZER, Family, KKP, OPENSHIFT, Resource, TRELLIS, keys};
