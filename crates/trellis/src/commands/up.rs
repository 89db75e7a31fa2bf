//! `trellis up`.

use clap::Args;
use serde_json::json;

use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, remark};

/// Run everything on this machine: lab, controllers and a demo tenant.
///
/// The parts above the lab are not part of this build yet, so this only says what is missing.
#[derive(Debug, Args)]
pub(crate) struct Up {}

/// What `up` consists of and is not there yet.
const MISSING: &[&str] = &[
    "the machine controllers, which keep pools of VMs as manifests ask",
    "the installer, which makes a tenant cluster of a survey or a TenantCluster",
];

impl Up {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self {} = self;
        match output.format {
            Format::Json => print_json(&json!({ "available": false, "missing": MISSING }))?,
            Format::Human => remark(&format!(
                "trellis up cannot run yet. It will need, and this build does not have:\n  - {}\n\
                 What works today: trellis lab runs an infra cluster with KubeVirt and CDI emulated; validate, render, plan, \
                 convert and explain need no cluster.\n",
                MISSING.join("\n  - ")
            ))?,
        }
        Ok(Exit::NotYet)
    }
}
