//! `trellis render`.

use clap::Args;
use serde_json::{Value, json};
use trellis_dialects::record::record;
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_model::Estate;
use trellis_model::image::ImageSource;
use trellis_model::names::{ClusterName, PoolName};
use trellis_model::validate::IMAGE_WITHOUT_SOURCE;

use super::{is_usable, load, unusable};
use crate::args::{Files, Format};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// Print the objects that manifests become in the infra cluster.
///
/// The output is the same byte for byte whenever the meaning of the manifests is the same, and can be
/// piped into `kubectl apply -f -`. Isolation comes first and Secrets before the machines that use
/// them. Each cluster begins with its record: a Secret that holds the cluster and its pools in
/// Trellis's own words.
#[derive(Debug, Args)]
pub(crate) struct Render {
    #[command(flatten)]
    files: Files,
    /// Only this cluster; may be given several times.
    #[arg(long, value_name = "NAME")]
    cluster: Vec<ClusterName>,
    /// Only machines of this pool; may be given several times.
    #[arg(long, value_name = "NAME")]
    pool: Vec<PoolName>,
    /// The image of pools that do not say where theirs is, such as those of an install-config:
    /// `https://…` or `docker://…`.
    #[arg(long, value_name = "URL", value_parser = parse_image)]
    image: Option<ImageSource>,
    /// Leave out the record.
    #[arg(long)]
    no_record: bool,
    /// Fail on warnings too.
    #[arg(long)]
    strict: bool,
}

impl Render {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self { files, cluster, pool, image, no_record, strict } = self;
        let (sources, mut read) = load(&files)?;
        if let Some(image) = &image {
            read.estate.fill_in_image(image);
            read.diagnostics.drop_all(IMAGE_WITHOUT_SOURCE);
        }
        let estate = selected(&read.estate, &cluster, &pool)?;
        let mut objects = Vec::new();
        if !read.diagnostics.has_errors() {
            let rendered = trellis_platform_kubevirt::render(&estate);
            read.report(rendered.problems);
            if !no_record {
                objects.extend(estate.clusters.iter().map(|cluster| record(cluster, &read.estate)));
            }
            objects.extend(rendered.objects.iter().map(trellis_platform_kubevirt::Object::to_json));
        }
        output.explain(&read.diagnostics, &sources)?;
        if !is_usable(&read, strict) {
            return Ok(unusable(&read));
        }
        match output.format {
            Format::Human => print(&to_yaml_documents(&objects))?,
            Format::Json => print_json(&list(&objects))?,
        }
        Ok(Exit::Success)
    }
}

/// An image by its address, as flags name it.
pub(crate) fn parse_image(address: &str) -> Result<ImageSource, String> {
    ImageSource::at(address)
        .ok_or_else(|| "an image begins with http://, https://, docker:// or oci-archive://".to_owned())
}

/// Objects as one list, as kubectl takes and gives it.
fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// What the selection leaves of an estate. A name that selects nothing is a mistake.
fn selected(estate: &Estate, clusters: &[ClusterName], pools: &[PoolName]) -> Result<Estate, Failure> {
    for name in clusters {
        if estate.cluster(name).is_none() {
            return Err(Failure::Usage(format!("there is no cluster {name} in these manifests")));
        }
    }
    for name in pools {
        if !estate.pools.iter().any(|pool| pool.name == *name) {
            return Err(Failure::Usage(format!("there is no pool {name} in these manifests")));
        }
    }
    let mut selected = estate.clone();
    selected.clusters.retain(|cluster| clusters.is_empty() || clusters.contains(&cluster.name));
    selected.pools.retain(|pool| {
        (clusters.is_empty() || clusters.contains(&pool.spec.cluster))
            && (pools.is_empty() || pools.contains(&pool.name))
    });
    Ok(selected)
}
