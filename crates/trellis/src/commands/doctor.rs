//! `trellis doctor`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use trellis_engine::preflight::{Check, Verdict, gather, judge};
use trellis_model::{Cluster, Estate, Pool};
use trellis_runtime::Site;
use trellis_runtime::client::Manners;
use trellis_runtime::credentials::Source;

use super::{is_usable, load, unusable};
use crate::args::{Files, Format};
use crate::exit::{Exit, Failure};
use crate::output::{Output, plural, print, print_json};

/// Say whether an infra cluster can carry what manifests ask for, before anything is made.
///
/// Asks the infra cluster, with the rights of whoever asks, about rights, KubeVirt and CDI, storage, networks and
/// addresses, capacity, quota and images, and changes nothing. What may not be looked at is unknown, and no failure.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    files: Files,
    /// The kubeconfig of the infra cluster.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context in it; the current one when left out.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Fail on warnings and on what is unknown, too.
    #[arg(long)]
    strict: bool,
}

impl Doctor {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self { files, kubeconfig, context, strict } = self;
        let (sources, read) = load(&files)?;
        output.explain(&read.diagnostics, &sources)?;
        if !is_usable(&read, false) {
            return Ok(unusable(&read));
        }
        let source = match kubeconfig {
            Some(path) => Source::File { path, context },
            None => Source::InCluster,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let examined = runtime.block_on(async {
            let connected = source.connect("infra", Manners::default()).await;
            let infra = connected.map_err(|error| Failure::Refused(error.to_string()))?.site;
            Ok::<_, Failure>(examine(&infra, &read.estate).await)
        })?;
        show(&examined, output)?;
        let limit = if strict { Verdict::Unknown } else { Verdict::Failed };
        Ok(if is_ill(&examined, limit) { Exit::Unfit } else { Exit::Success })
    }
}

/// Examines an infra cluster for all clusters of an estate.
pub(crate) async fn examine<'a>(infra: &Site, estate: &'a Estate) -> Vec<(&'a Cluster, Vec<Check>)> {
    let mut examined = Vec::new();
    for cluster in &estate.clusters {
        let pools = estate.pools.iter().filter(|pool| pool.spec.cluster == cluster.name);
        let pools: Vec<&Pool> = pools.collect();
        let facts = gather(infra, cluster, &pools).await;
        examined.push((cluster, judge(cluster, &pools, &facts)));
    }
    examined
}

/// Whether something is as bad as this, or worse.
pub(crate) fn is_ill(examined: &[(&Cluster, Vec<Check>)], limit: Verdict) -> bool {
    examined.iter().flat_map(|(_, checks)| checks).any(|check| check.verdict >= limit)
}

/// What came of it, for programs.
pub(crate) fn json(examined: &[(&Cluster, Vec<Check>)]) -> Value {
    let check = |check: &Check| {
        json!({
            "about": check.about, "verdict": check.verdict.word().to_lowercase(),
            "found": check.found, "fix": check.fix,
        })
    };
    let clusters = examined.iter().map(|(cluster, checks)| {
        json!({"cluster": cluster.name, "checks": checks.iter().map(check).collect::<Vec<_>>()})
    });
    clusters.collect::<Vec<_>>().into()
}

/// Prints what came of it.
pub(crate) fn show(examined: &[(&Cluster, Vec<Check>)], output: Output) -> Result<(), Failure> {
    if output.format == Format::Json {
        print_json(&json!({"clusters": json(examined)}))?;
        return Ok(());
    }
    for (cluster, checks) in examined {
        print(&table(cluster, checks))?;
    }
    Ok(())
}

/// The checks of a cluster, one below the other, each fix below what it mends, and a line that counts them.
fn table(cluster: &Cluster, checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.about.chars().count()).max().unwrap_or_default();
    let mut text = format!("cluster {}\n", cluster.name);
    for Check { about, verdict, found, fix } in checks {
        text += &line(verdict.word(), about, width, found);
        if !fix.is_empty() {
            text += &line("", "", width, &format!("fix: {fix}"));
        }
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let failed = count(Verdict::Failed);
    let verdict = if failed == 0 { "Nothing is in the way" } else { "It cannot work like this" };
    let closing = format!(
        "{verdict}: {}, {} passed, {} unknown, {failed} failed.\n",
        plural(count(Verdict::Warning), "warning"),
        count(Verdict::Passed),
        count(Verdict::Unknown),
    );
    text + &closing
}

fn line(verdict: &str, about: &str, width: usize, words: &str) -> String {
    format!("  {verdict:7}  {about:width$}  {words}\n")
}
