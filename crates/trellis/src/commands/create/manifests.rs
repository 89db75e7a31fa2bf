//! `trellis create manifests`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use trellis_model::image::ImageSource;
use trellis_model::validate::IMAGE_WITHOUT_SOURCE;

use super::folder::Folder;
use crate::args::{Files, Format};
use crate::commands::{is_usable, load, render, unusable};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// Write what a cluster is made from in Trellis's own words, and the variables of Terraform, and stop.
///
/// `DIR/manifests` has the TenantCluster and its MachinePools, to be looked at, edited, or applied with kubectl where a
/// controller runs. `create cluster` reads them when the folder has no install-config.
#[derive(Debug, Args)]
pub(crate) struct CreateManifests {
    /// The folder of the installation.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Manifests of any dialect; `install-config.yaml` of the folder when left out.
    #[arg(long = "filename", short = 'f', value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The image of pools that do not say where theirs is: `https://…` or `docker://…`.
    #[arg(long, value_name = "URL", value_parser = render::parse_image)]
    image: Option<ImageSource>,
}

impl CreateManifests {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let folder = Folder::at(&self.dir);
        let files = if self.files.is_empty() { folder.sources()? } else { self.files };
        let (sources, mut read) = load(&Files { files })?;
        if let Some(image) = &self.image {
            read.estate.fill_in_image(image);
            read.diagnostics.drop_all(IMAGE_WITHOUT_SOURCE);
        }
        output.explain(&read.diagnostics, &sources)?;
        if !is_usable(&read, false) {
            return Ok(unusable(&read));
        }
        let mut written = folder.write_manifests(&read.estate)?;
        if let [cluster] = read.estate.clusters.as_slice() {
            let pools: Vec<_> = read.estate.pools.iter().collect();
            folder.write_terraform(cluster, &pools)?;
            written
                .extend(["terraform.tfvars.json", "terraform.kubevirt.auto.tfvars.json"].map(str::to_owned));
        }
        let paths: Vec<String> =
            written.iter().map(|name| folder.path().join(name).display().to_string()).collect();
        match output.format {
            Format::Json => print_json(&json!({"written": paths}))?,
            Format::Human => print(&paths.join("\n"))?,
        }
        Ok(Exit::Success)
    }
}
