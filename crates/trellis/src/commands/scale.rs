//! `trellis scale`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use trellis_runtime::client::Verb;

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::live::connect::Asked;
use crate::live::find::{FamilyName, Reference};
use crate::live::{Thing, Where, pools, progress, words};
use crate::output::{Output, plural, print, print_json, remark};

/// Set how many machines a pool has.
///
/// A pool is named by its name alone where only one has it, or with its kind: pool/workers, machinepool/workers,
/// machinedeployment/workers, machineset/workers. The size is written through the scale subresource.
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// The pool.
    #[arg(value_name = "POOL")]
    pool: Reference,
    /// How many machines it is to have.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(..=100_000))]
    replicas: u32,
    /// Only if it has this many now.
    #[arg(long, value_name = "N")]
    current_replicas: Option<u32>,
    /// Wait until it has them, and show how far it is.
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 90s or 10m; without end when left out.
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = words::duration)]
    timeout: Option<Duration>,
    /// The family of the pool, where several have one of that name.
    #[arg(long, value_enum)]
    family: Option<FamilyName>,
    #[command(flatten)]
    place: Where,
}

impl Scale {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        crate::live::run(self.scale(output))
    }

    async fn scale(self, output: Output) -> Result<Exit, Failure> {
        let connected = self.place.connect().await?;
        let (pool, wanted, estate) = connected.find_pool(&self.pool, self.family).await?;
        if let Some(owner) = estate.owner(&pool) {
            return Err(Failure::Rejected(format!(
                "{} belongs to {}, which decides its size: scale that one",
                pool.call(),
                owner.call()
            )));
        }
        let row = pools::pool(&pool);
        if let Some(current) = self.current_replicas.filter(|current| *current != row.wished) {
            return Err(Failure::Rejected(format!(
                "{} is to have {}, not {current}: nothing was changed",
                pool.call(),
                plural(row.wished as usize, "machine")
            )));
        }
        if row.control_plane && self.replicas == 0 {
            return Err(Failure::Rejected(format!(
                "{} is a control plane: without machines the cluster is lost; delete the cluster if that is meant",
                pool.call()
            )));
        }
        for warning in warnings(&pool, row.control_plane, self.replicas) {
            remark(&format!("warning: {warning}\n"))?;
        }
        if row.wished != self.replicas {
            let metadata = &pool.object.metadata;
            let mut scale = json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": metadata.name(), "namespace": metadata.namespace()},
                "spec": {"replicas": self.replicas},
            });
            if self.current_replicas.is_some() {
                // Nobody may have changed it since it was looked at.
                scale["metadata"]["resourceVersion"] = metadata.resource_version.to_string().into();
            }
            let written =
                connected.site.put::<Value>(&pool.kind.resource, &metadata.key, "scale", &scale).await;
            written.map_err(|error| {
                let asked =
                    Asked::new(Verb::Update, &pool.kind.resource, metadata.namespace(), metadata.name());
                connected.explain(error, Asked { subresource: "scale", ..asked })
            })?;
        }
        self.say(&pool, row.wished, output)?;
        if self.wait {
            progress::follow(&connected, &wanted, &pool, self.timeout, output).await?;
        }
        Ok(Exit::Success)
    }

    fn say(&self, pool: &Thing, before: u32, output: Output) -> Result<(), Failure> {
        match output.format {
            // One value, or with --wait the first of the lines that follow.
            Format::Json => {
                let said = json!({
                    "type": "scaled", "family": pool.kind.family.name, "kind": pool.kind.resource.kind,
                    "namespace": pool.object.metadata.namespace(), "name": pool.object.metadata.name(),
                    "before": before, "after": self.replicas,
                });
                if self.wait { print(&said.to_string())? } else { print_json(&said)? }
            }
            Format::Human if before == self.replicas => {
                print(&format!("{} is to have {} already", pool.call(), plural(before as usize, "machine")))?;
            }
            Format::Human => {
                print(&format!("{} scaled: {before} → {} machines", pool.call(), self.replicas))?;
            }
        }
        Ok(())
    }
}

/// What is allowed and still worth a word.
fn warnings(pool: &Thing, control_plane: bool, replicas: u32) -> Vec<String> {
    let mut all = Vec::new();
    if control_plane && replicas > 0 && replicas.is_multiple_of(2) {
        let (odd, loses) = (replicas - 1, (replicas - 1) / 2);
        all.push(format!(
            "a control plane of {replicas} survives the loss of no more machines than one of {odd}: {loses}; an odd number is better"
        ));
    }
    let spec = pool.object.spec_json();
    let bound = |key: &str| {
        let bound = spec.get("autoscaling").and_then(|bounds| bounds.get(key)).and_then(Value::as_u64);
        bound.and_then(|bound| u32::try_from(bound).ok())
    };
    if let (Some(min), Some(max)) = (bound("min"), bound("max"))
        && !(min..=max).contains(&replicas)
    {
        all.push(format!(
            "the autoscaler keeps this pool between {min} and {max} machines and will undo this"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Sort;
    use crate::live::testing::{kind, thing};
    use trellis_engine::families::TRELLIS;

    #[test]
    fn even_control_planes_and_autoscaled_pools_are_warned_about() {
        let pool = |spec| thing(kind(&TRELLIS, Sort::Pool), "p", None, spec, json!({}));
        let plain = pool(json!({}));
        assert!(warnings(&plain, true, 3).is_empty() && warnings(&plain, false, 4).is_empty());
        assert_eq!(
            warnings(&plain, true, 4),
            [
                "a control plane of 4 survives the loss of no more machines than one of 3: 1; an odd number is better"
            ]
        );
        let scaled = pool(json!({"autoscaling": {"min": 2, "max": 5}}));
        assert!(warnings(&scaled, false, 5).is_empty());
        assert!(warnings(&scaled, false, 6)[0].contains("between 2 and 5"));
    }
}
