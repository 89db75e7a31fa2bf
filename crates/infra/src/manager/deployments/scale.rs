//! Scaling the sets of a deployment.

use std::sync::Arc;

use serde_json::Value;

use super::plan::{self, Numbers, Room};
use super::{DESIRED, Deployments, MOST, Sets, note_room};
use crate::client::Result;
use crate::kinds::REPLICA_SET;
use crate::object::Object as _;

fn wanted(set: &Value) -> i64 {
    set.number("/spec/replicas").unwrap_or(1)
}

fn available(set: &Value) -> i64 {
    set.number("/status/availableReplicas").unwrap_or_default()
}

fn numbers(set: &Value) -> Numbers {
    Numbers { wanted: wanted(set), available: available(set) }
}

impl Deployments {
    /// Gives one set a number of pods, and tells if that is another one.
    async fn scale_one(&self, deployment: &Value, set: &mut Arc<Value>, to: i64) -> Result<bool> {
        let (room, from) = (Room::of(deployment), wanted(set));
        let mut new = (**set).clone();
        new.set("/spec/replicas", to.into());
        note_room(&mut new, room);
        if new == **set {
            return Ok(false);
        }
        *set = Arc::new(self.hand.client.replace(&REPLICA_SET, &new).await?);
        if from == to {
            return Ok(false);
        }
        self.tell_scaled(deployment, set, from, to).await;
        Ok(true)
    }

    /// Gives the new set a number of pods.
    pub(super) async fn scale_new(&self, deployment: &Value, sets: &mut Sets, to: i64) -> Result<bool> {
        match &mut sets.new {
            Some(set) if wanted(set) != to => self.scale_one(deployment, set, to).await,
            _ => Ok(false),
        }
    }

    /// Gives old sets the numbers of pods that `to` says; whether any is another one.
    pub(super) async fn scale_old(
        &self,
        deployment: &Value,
        sets: &mut Sets,
        to: impl Fn(usize) -> i64,
    ) -> Result<bool> {
        let mut scaled = false;
        for (place, set) in sets.old.iter_mut().enumerate() {
            if wanted(set) != to(place) {
                scaled |= self.scale_one(deployment, set, to(place)).await?;
            }
        }
        Ok(scaled)
    }

    /// One step of a rolling update: more new pods if there is room, otherwise fewer old ones.
    pub(super) async fn roll(&self, deployment: &Value, sets: &mut Sets) -> Result {
        let room = Room::of(deployment);
        let Some(new) = sets.new.clone() else { return Ok(()) };
        let all = sets.all().iter().map(|set| wanted(set)).sum();
        if self.scale_new(deployment, sets, plan::grown(room, wanted(&new), all)).await? {
            return Ok(());
        }
        let old: Vec<Numbers> = sets.old.iter().map(|set| numbers(set)).collect();
        let shrunk = plan::shrunk(room, numbers(&new), &old);
        self.scale_old(deployment, sets, |place| shrunk.get(place).copied().unwrap_or_default()).await?;
        Ok(())
    }

    /// Scales a deployment whose number of pods was changed, or that is held.
    pub(super) async fn scale(&self, deployment: &Value, sets: &mut Sets) -> Result {
        let room = Room::of(deployment);
        let mut all = sets.all();
        let active: Vec<usize> = (0..all.len()).filter(|place| wanted(&all[*place]) > 0).collect();
        if active.len() <= 1 {
            // The only one that has any, or the newest.
            let place = active.first().copied().or(all.len().checked_sub(1));
            if let Some(set) = place.and_then(|place| all.get_mut(place)) {
                self.scale_one(deployment, set, room.replicas).await?;
            }
            return Ok(());
        }
        let saturated = |set: &Arc<Value>| {
            wanted(set) == room.replicas
                && set.annotation(DESIRED) == room.replicas.to_string()
                && available(set) == room.replicas
        };
        if sets.new.as_ref().is_some_and(saturated) {
            self.scale_old(deployment, sets, |_| 0).await?;
            return Ok(());
        }
        if deployment["spec"]["strategy"]["type"] == "Recreate" {
            return Ok(());
        }
        let mut biggest: Vec<Arc<Value>> = active.into_iter().map(|place| Arc::clone(&all[place])).collect();
        let grows = room.most() > biggest.iter().map(|set| wanted(set)).sum();
        biggest.sort_by_key(|set| {
            let made = set.text("/metadata/creationTimestamp").to_owned();
            (std::cmp::Reverse(wanted(set)), made, set.name().to_owned())
        });
        if grows {
            // Of those of one size the newest first: they are what is wanted in the end.
            biggest.reverse();
            biggest.sort_by_key(|set| std::cmp::Reverse(wanted(set)));
        }
        let known: Vec<(i64, i64)> = biggest
            .iter()
            .map(|set| (wanted(set), set.annotation(MOST).parse().unwrap_or_default()))
            .collect();
        for (set, size) in biggest.iter_mut().zip(plan::proportional(room, &known)) {
            self.scale_one(deployment, set, size).await?;
        }
        Ok(())
    }
}
