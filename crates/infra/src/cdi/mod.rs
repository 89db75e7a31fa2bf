//! CDI: volumes with content.

mod claim;
pub mod config;
mod datavolume;
mod import;
pub mod names;
mod populate;
mod profile;
mod source;
mod token;
pub mod upload;
mod worker;

use crate::client::Result;
use crate::context::{Context, Tasks};
use crate::service::admission::Hook;

/// The webhooks of CDI.
pub const HOOKS: &[Hook] = &[];

/// Makes the objects of the installation.
pub async fn install(context: &Context, upload: Option<config::UploadAddress<'_>>) -> Result {
    config::install(context, upload).await
}

/// Starts CDI's controllers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(config::Installation::new(context));
    tasks.control(profile::Profiles::new(context));
    tasks.control(datavolume::DataVolumes::new(context));
    tasks.control(populate::Populators::new(context));
    tasks.control(import::Imports::new(context));
    tasks.control(upload::Uploads::new(context));
    tasks.control(worker::Workers::new(context));
}
