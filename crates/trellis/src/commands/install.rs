//! `trellis install-manifests`.

use std::path::PathBuf;

use clap::Args;
use trellis_install::{Settings, chart, kustomize, objects};
use trellis_model::names::{ClusterName, NamespaceName, ObjectName};

use super::controller::FamilyName;
use super::rbac::print_objects;
use super::write_files;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print what runs the controller in a cluster.
///
/// Namespace, definitions of kinds, service account and least roles, Deployment, Service, disruption budget, webhook
/// configurations and admission policies: `trellis install-manifests --cluster blue | kubectl apply -f -`. With
/// --kustomize or --helm the same is written into a folder, for repositories; the chart has its settings in
/// values.yaml, and takes none from here.
#[derive(Debug, Args)]
pub(crate) struct InstallManifests {
    /// The namespace the controller runs in.
    #[arg(long, value_name = "NAME", default_value = "trellis-system")]
    namespace: NamespaceName,
    /// The image of the controller, whose entry point is trellis.
    #[arg(long, value_name = "IMAGE", default_value_t = Settings::default().image)]
    image: String,
    /// How many run; one acts at a time, all answer the webhook.
    #[arg(long, default_value_t = Settings::default().replicas)]
    replicas: u32,
    /// The tenant cluster whose machines are looked after.
    #[arg(long, value_name = "NAME", default_value = "tenant")]
    cluster: ClusterName,
    /// Look after all TenantClusters instead of one cluster: those of --machines-namespace, or of all namespaces. Each
    /// says itself how its sites are reached. Without --infra-namespace the roles for VMs hold in all namespaces.
    #[arg(long, conflicts_with_all = ["cluster", "infra_kubeconfig_secret", "tenant_kubeconfig_secret"])]
    all_tenants: bool,
    /// Whose machine objects are reconciled.
    #[arg(long, value_enum, default_value_t = FamilyName::Trellis)]
    family: FamilyName,
    /// The namespace of the machine objects; that of the controller when left out.
    #[arg(long, value_name = "NAME")]
    machines_namespace: Option<NamespaceName>,
    /// The namespace of the VMs; called like the cluster when left out.
    #[arg(long, value_name = "NAME")]
    infra_namespace: Option<NamespaceName>,
    /// The Secret with the kubeconfig of the infra cluster, under the key kubeconfig; without it, it is this cluster.
    /// Its roles are printed by `trellis rbac --site infra`.
    #[arg(long, value_name = "NAME")]
    infra_kubeconfig_secret: Option<ObjectName>,
    /// The Secret with the kubeconfig of the tenant, under the key kubeconfig. Its roles are printed by `trellis rbac
    /// --site tenant`.
    #[arg(long, value_name = "NAME")]
    tenant_kubeconfig_secret: Option<ObjectName>,
    /// Leave out the right to look at the hosts of the infra cluster.
    #[arg(long)]
    no_hosts: bool,
    /// Leave out the webhook.
    #[arg(long)]
    no_webhook: bool,
    /// Leave out the admission policies.
    #[arg(long)]
    no_policies: bool,
    /// Tell Prometheus's operator to scrape the controller.
    #[arg(long)]
    monitor: bool,
    /// Write a kustomization into a folder.
    #[arg(long, value_name = "DIR", conflicts_with = "helm")]
    kustomize: Option<PathBuf>,
    /// Write the Helm chart into a folder.
    #[arg(long, value_name = "DIR")]
    helm: Option<PathBuf>,
}

impl InstallManifests {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        if let Some(folder) = &self.helm {
            write_files(folder, chart::files())?;
            return Ok(Exit::Success);
        }
        let settings = self.settings();
        if let Some(folder) = &self.kustomize {
            write_files(folder, kustomize::files(&settings))?;
            return Ok(Exit::Success);
        }
        print_objects(&objects(&settings), output)
    }

    fn settings(&self) -> Settings {
        let name = |name: &Option<ObjectName>| name.as_ref().map(ToString::to_string);
        let (machines, infra) =
            if self.all_tenants { ("", "") } else { (self.namespace.as_str(), self.cluster.as_str()) };
        let machines = self.machines_namespace.as_ref().map_or(machines, NamespaceName::as_str);
        let infra = self.infra_namespace.as_ref().map_or(infra, NamespaceName::as_str);
        Settings {
            namespace: self.namespace.to_string(),
            image: self.image.clone(),
            replicas: self.replicas,
            cluster: (!self.all_tenants).then(|| self.cluster.to_string()),
            fleet: self.all_tenants,
            family: self.family.family(),
            machines: machines.to_string(),
            infra: infra.to_owned(),
            infra_kubeconfig: name(&self.infra_kubeconfig_secret),
            tenant_kubeconfig: name(&self.tenant_kubeconfig_secret),
            hosts: !self.no_hosts,
            webhook: !self.no_webhook,
            policies: !self.no_policies,
            monitor: self.monitor,
        }
    }
}
