//! The controllers of workloads, and a tenant's control plane: what a kube-controller-manager and a kube-scheduler do.
//!
//! A guest that runs a control plane starts [`ControlPlane`] on the API server it serves. They are the same controllers
//! that keep the infra cluster in order, and know nothing of the world below: nodes of tenants are guests.

mod crons;
mod daemons;
mod deployments;
mod indexes;
mod jobs;
mod pods;
mod replicas;
mod replication;
mod revisions;
mod stateful;

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
        start(&context, &mut tasks);
        Self { _tasks: tasks }
    }
}

/// Starts the controllers of workloads.
pub(crate) fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(replicas::Replicas::new(context));
    tasks.control(replication::Replication::new(context));
    tasks.control(deployments::Deployments::new(context));
    tasks.control(stateful::Stateful::new(context));
    tasks.control(jobs::Jobs::new(context));
    tasks.control(crons::Crons::new(context));
    tasks.control(daemons::Daemons::new(context));
}
