//! What can be done to the storage from outside.

use crate::context::Context;
use crate::stages::{Delay, Effect, Rule};

/// The storage as whoever runs the cluster reaches it: not by the API.
#[derive(Debug, Clone)]
pub struct Storage {
    context: Context,
}

impl Storage {
    /// The storage of a cluster.
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone() }
    }

    /// Sets how much fits into a class, in bytes; nothing means that it has no end.
    pub fn limit(&self, class: &str, bytes: Option<u64>) {
        self.context.world.volumes.limit(class, bytes);
    }

    /// How much still fits into a class, in bytes; nothing where it has no end.
    pub fn free(&self, class: &str) -> Option<u64> {
        self.context.world.volumes.free(class)
    }

    /// Lets a stage of a class (such as `volume.provision`) take this many seconds.
    pub fn slow(&self, class: &str, stage: &str, seconds: f64) {
        self.rule(class, stage, Delay { min: seconds, max: seconds }, Effect::Pass);
    }

    /// Lets a stage of a class fail with a message, which goes where the driver's would.
    pub fn fail(&self, class: &str, stage: &str, message: &str) {
        self.rule(class, stage, Delay::default(), Effect::Fail(message.to_owned()));
    }

    /// Lets a stage of a class never come to an end.
    pub fn hang(&self, class: &str, stage: &str) {
        self.rule(class, stage, Delay::default(), Effect::Hang);
    }

    /// Takes back whatever slows or breaks a class.
    pub fn mend(&self, class: &str) {
        self.context.stages.remove(&name(class));
    }

    fn rule(&self, class: &str, stage: &str, delay: Delay, effect: Effect) {
        self.context.stages.add(Rule {
            name: name(class),
            stage: stage.to_owned(),
            matches: vec![("/spec/storageClassName".to_owned(), class.to_owned())],
            profile: None,
            delay,
            weight: 1,
            times: None,
            effect,
        });
    }
}

/// What the rules about a class are called.
fn name(class: &str) -> String {
    format!("storage class {class}")
}
