//! `trellis validate`.

use clap::Args;
use serde_json::json;
use trellis_dialects::render::to_json;

use super::{is_usable, load, unusable};
use crate::args::{Files, Format};
use crate::exit::{Exit, Failure};
use crate::output::{Output, counted, plural, print, print_json};

/// Check manifests and say everything that is wrong with them.
///
/// All manifests are read together, so that a Shoot finds its CloudProfile and a pool its cluster.
/// No cluster is asked.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    files: Files,
    /// Fail on warnings too.
    #[arg(long)]
    strict: bool,
}

impl Validate {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self { files, strict } = self;
        let (sources, read) = load(&files)?;
        let valid = is_usable(&read, strict);
        if output.format == Format::Json {
            let pools = read.estate.pools.iter();
            let pools: Vec<_> = pools
                .map(|p| json!({ "cluster": p.spec.cluster, "name": p.name, "role": p.spec.role, "replicas": p.spec.replicas }))
                .collect();
            print_json(&json!({
                "valid": valid,
                "dialects": read.dialects.iter().map(|dialect| dialect.as_str()).collect::<Vec<_>>(),
                "clusters": read.estate.clusters.iter().map(|cluster| &cluster.name).collect::<Vec<_>>(),
                "pools": pools,
                "diagnostics": to_json(&read.diagnostics, &sources),
            }))?;
        } else {
            output.explain(&read.diagnostics, &sources)?;
            if valid {
                let machines: u32 = read.estate.pools.iter().map(|pool| pool.spec.replicas).sum();
                let remarks = if read.diagnostics.is_empty() {
                    String::new()
                } else {
                    format!("; {}", counted(&read.diagnostics))
                };
                print(&format!(
                    "valid: {}, {}, {}{remarks}",
                    plural(read.estate.clusters.len(), "cluster"),
                    plural(read.estate.pools.len(), "pool"),
                    plural(machines as usize, "machine"),
                ))?;
            }
        }
        Ok(if valid { Exit::Success } else { unusable(&read) })
    }
}
