//! The controllers of a tenant's control plane: what a kube-controller-manager and a kube-scheduler do there.
//!
//! A guest that runs a control plane starts this on the API server it serves. They are the same controllers that keep
//! the infra cluster in order, and know nothing of the world below: nodes of tenants are guests.

mod daemons;

use std::sync::Arc;

use crate::client::{Client, Identity};
use crate::clock::Clock;
use crate::context::{Context, Tasks};
use crate::guests::Programs;
use crate::settings::Settings;
use crate::stages::Stages;
use crate::world::World;
use crate::{hosts, scheduler};

/// The running controllers of one control plane; they end when this is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    _tasks: Tasks,
}

impl ControlPlane {
    /// Starts the controllers on the API server of `client`, whose user has to have all rights.
    pub fn start(client: kube::Client, clock: Clock, stages: Stages) -> Self {
        let context = Context {
            client: Client::new(client, Identity::CONTROLLER_MANAGER),
            clock,
            stages,
            world: World::default(),
            settings: Arc::new(Settings { hosts: 0, ..Settings::default() }),
            programs: Arc::new(Programs::default()),
        };
        let mut tasks = Tasks::default();
        hosts::start_lifecycle(&context, &mut tasks);
        scheduler::start(&context, &mut tasks);
        tasks.control(daemons::Daemons::new(&context));
        Self { _tasks: tasks }
    }
}
