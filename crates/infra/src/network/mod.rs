//! The network: services, endpoints, addresses, policies, and the fabric that carries bytes.

pub mod addresses;
pub mod attachments;
pub mod balancers;
pub mod directory;
pub mod endpoints;
pub mod ends;
pub mod fabric;
pub mod mirror;
mod names;
mod plugs;
pub mod policy;
mod route;
pub mod segments;
pub mod selector;
pub mod services;
pub mod slices;
pub mod sockets;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::context::{Context, Tasks};
use crate::settings::Manager;
use balancers::Balancers;
use directory::Directory;
use endpoints::Keeper;
use mirror::Mirror;

/// Starts what gives addresses and endpoints to services, and keeps the fabric informed.
pub fn start(context: &Context, tasks: &mut Tasks) {
    let world = &context.world;
    world.fabric.inform(Directory::new(context));
    let (fabric, mut changes) = (Arc::clone(&world.fabric), world.hosts.changes());
    tasks.spawn(async move {
        while changes.changed().await.is_ok() {
            fabric.recheck();
        }
    });
    tasks.control(Balancers::new(context));
    if context.settings.manager == Manager::Embedded {
        tasks.control(Keeper::new(context));
        tasks.control(Mirror::new(context));
    }
    if context.settings.sockets {
        tasks.spawn(sockets::run(context.clone()));
    }
}
