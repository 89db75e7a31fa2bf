//! What the server knows about each built-in kind beyond its shape.

pub mod allocation;
pub mod convert;
mod cron;
pub mod defaults;
mod difference;
pub mod facts;
mod format;
pub mod meta;
mod pem;
pub mod prepare;
mod quantity;
pub mod scale;
pub mod selectable;
mod shown;
pub mod validate;
mod view;
pub mod warnings;

use jiff::Timestamp;

pub use allocation::allocate_service;
pub use convert::{convert, storage_kind};
pub use defaults::default;
pub use facts::{Facts, facts, reset_fields};
pub use prepare::{generation_changes, prepare_create, prepare_update};
pub use scale::{apply_scale, scale_of};
pub use selectable::{check_field_label, selectable_fields};
pub use validate::{validate_create, validate_update};
pub use warnings::{deprecation_warning, warning_on_delete, warnings_on_create, warnings_on_update};

use crate::attributes::User;
use crate::names::Gvk;

/// What is known about a write besides the object.
#[derive(Debug, Clone, Copy)]
pub struct WriteContext<'a> {
    /// The kind that is written, in the version of the request.
    pub kind: &'a Gvk,
    /// The subresource it is written by; empty for the object itself.
    pub subresource: &'a str,
    /// The time now.
    pub now: Timestamp,
    /// Whoever writes.
    pub user: &'a User,
    /// The namespace; empty for objects of the cluster.
    pub namespace: &'a str,
}
