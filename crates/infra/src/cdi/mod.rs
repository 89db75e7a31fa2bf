//! CDI: volumes with content.

mod admission;
mod claim;
mod clone;
pub mod config;
mod cron;
mod datasource;
mod datavolume;
mod import;
pub mod names;
mod populate;
mod profile;
mod source;
mod token;
pub mod upload;
mod worker;

pub(crate) use cron::Schedule;

use crate::client::Result;
use crate::context::{Context, Tasks};

pub use admission::HOOKS;
pub(crate) use worker::Role;

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
    tasks.control(clone::Clones::new(context));
    tasks.control(clone::Copies::new(context));
    tasks.control(datasource::DataSources::new(context));
    tasks.control(cron::Crons::new(context));
    tasks.control(worker::Workers::new(context));
}
