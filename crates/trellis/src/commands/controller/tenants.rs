//! Whose machines are looked after: all TenantClusters, those of a file, or one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use trellis_dialects::diagnostic::Diagnostics;
use trellis_dialects::render::render_human;
use trellis_dialects::source::SourceMap;
use trellis_engine::controllers::fleet::{
    Access, Asked, CLUSTERS, Clusters, Overrides, Record, Records, file,
};
use trellis_engine::families::Object;
use trellis_model::names::NamespaceName;
use trellis_runtime::{Key, Selection, Site};

use super::Controller;
use crate::exit::Failure;
use crate::output::Output;

/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(10);

/// Whose machines are looked after.
pub(super) enum Tenants {
    /// Those of TenantClusters.
    Clusters(Clusters),
    /// Those of a file, as it was read.
    File(PathBuf, String, Records),
    /// One that has no TenantCluster, unless one is found.
    One(Key, Overrides, Box<Asked>),
}

impl Tenants {
    /// As the arguments say; nothing if the file cannot be used, after its problems were told.
    pub(super) fn of(arguments: &Controller, output: Output) -> Result<Option<Self>, Failure> {
        if let Some(path) = &arguments.tenants {
            let text = text_of(path)?;
            let (records, problems, sources) = read(path, &text);
            if problems.has_errors() {
                output.explain(&problems, &sources)?;
                return Ok(None);
            }
            return Ok(Some(Self::File(path.clone(), text, records)));
        }
        if arguments.dir.is_some() {
            let overrides = Overrides {
                infra: Some(arguments.infra().access()?),
                group: Some(arguments.group()),
                ..Overrides::default()
            };
            return Ok(Some(Self::Clusters(Clusters::new(Selection::default(), overrides))));
        }
        let Some(cluster) = &arguments.cluster else {
            let namespace = arguments.namespace.as_ref().map_or("", NamespaceName::as_str);
            let overrides = Overrides { group: Some(arguments.group()), ..Overrides::default() };
            let clusters = Clusters::new(Selection::namespace(namespace), overrides);
            return Ok(Some(Self::Clusters(clusters)));
        };
        let namespace = arguments.machine_namespace();
        let name = namespace
            .parse::<NamespaceName>()
            .map_err(|error| Failure::Usage(format!("`{namespace}`: {error}")))?;
        let vms = arguments.infra_namespace.as_ref().map_or(cluster.as_str(), NamespaceName::as_str);
        let plain =
            file::plain_cluster(cluster, &name, vms).map_err(|error| Failure::Usage(error.to_string()))?;
        let access = |path: Option<&PathBuf>| path.map(Access::file);
        let infra = access(arguments.infra_kubeconfig.as_ref());
        let asked = Asked {
            cluster: Arc::new(plain),
            family: arguments.family.family(),
            namespace: namespace.to_owned(),
            control: Access::Control,
            infra: infra.clone().unwrap_or(Access::Control),
            tenant: access(arguments.tenant_kubeconfig.as_ref()),
        };
        let overrides = Overrides {
            family: Some(asked.family),
            infra,
            tenant: asked.tenant.clone(),
            group: Some(arguments.group()),
        };
        Ok(Some(Self::One(Key::new(namespace, cluster.as_str()), overrides, Box::new(asked))))
    }

    /// Finds the TenantCluster of the one tenant, where there is one: it knows better than the arguments.
    pub(super) async fn looked_up(self, control: &Site) -> Result<Self, Failure> {
        let Self::One(key, overrides, asked) = self else { return Ok(self) };
        let found = control.find::<Object>(&CLUSTERS, &key).await;
        let found =
            found.map_err(|error| Failure::Refused(format!("the TenantCluster cannot be read: {error}")))?;
        if found.is_none() {
            return Ok(Self::One(key, overrides, asked));
        }
        let selection =
            Selection::namespace(key.namespace()).fields(&format!("metadata.name={}", key.name()));
        Ok(Self::Clusters(Clusters::new(selection, overrides)))
    }

    /// Tells of the records as they come, change and go.
    pub(super) async fn tell(self, control: &Site, records: &watch::Sender<Option<Records>>) {
        match self {
            Self::Clusters(clusters) => clusters.run(control, records).await,
            Self::One(key, _, asked) => {
                let name = format!("{}/{}", key.namespace(), key.name());
                let record = Record { name: name.clone(), about: None, asked: Ok(*asked) };
                records.send_replace(Some(Arc::new(BTreeMap::from([(name, Arc::new(record))]))));
            }
            Self::File(path, text, first) => {
                records.send_replace(Some(first));
                follow(&path, text, records).await;
            }
        }
    }
}

/// Reads a file again whenever it has changed. One that cannot be used leaves everything as it was.
async fn follow(path: &Path, mut last: String, records: &watch::Sender<Option<Records>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let text = match text_of(path) {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!(%error, "the file of tenants cannot be read");
                continue;
            }
        };
        if text == last {
            continue;
        }
        let (new, problems, sources) = read(path, &text);
        if problems.has_errors() {
            let problems = render_human(&problems, &sources, false);
            tracing::error!("the file of tenants has problems and is not taken:\n{problems}");
        } else {
            tracing::info!(tenants = new.len(), "the file of tenants has changed");
            records.send_replace(Some(new));
        }
        last = text;
    }
}

fn text_of(path: &Path) -> Result<String, Failure> {
    // A small file that is read in no time: not worth a thread.
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Read { name: path.display().to_string(), why: error.to_string() })
}

fn read(path: &Path, text: &str) -> (Records, Diagnostics, SourceMap) {
    let mut sources = SourceMap::new();
    sources.add(path.display().to_string(), text);
    let (records, problems) = file::read(&sources, path.parent().unwrap_or(Path::new("")));
    (records, problems, sources)
}
