//! `trellis rbac`.

use clap::{Args, ValueEnum};
use serde_json::Value;
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_engine::families::{FAMILIES, Family};
use trellis_engine::rights::{self, Names, Place, Subject};
use trellis_model::names::NamespaceName;

use super::controller::FamilyName;
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Output, print, print_json};

/// Print the roles that the controller needs at one site, and their bindings.
///
/// The roles come from the same table that the tests run the controller with: nothing more than it uses. In the infra
/// cluster they are limited to one namespace, but for looking at hosts, which --no-hosts leaves out.
#[derive(Debug, Args)]
pub(crate) struct Rbac {
    /// The site: where the machine objects live, where the Nodes live, or where the VMs live; or what a person needs
    /// who makes clusters.
    #[arg(long, value_enum)]
    site: SiteName,
    /// The namespace of the machine objects or of the VMs. At the tenant's site it means nothing.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: NamespaceName,
    /// All namespaces: for a controller that looks after the TenantClusters of all of them, whatever their families.
    #[arg(long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Whose machine objects are reconciled.
    #[arg(long, value_enum, default_value_t = FamilyName::Trellis)]
    family: FamilyName,
    /// Who gets the roles: NAMESPACE/NAME of a service account.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "trellis-system/trellis",
        conflicts_with = "user"
    )]
    account: String,
    /// Who gets the roles: the name of a user, as certificates and identity providers name it.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Leave out the right to look at the hosts of the infra cluster. What is known of hosts is unknown then.
    #[arg(long)]
    no_hosts: bool,
}

/// A site by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SiteName {
    /// Where the machine objects live
    Control,
    /// Where the Nodes live
    Tenant,
    /// Where the VMs live
    Infra,
    /// One namespace of the infra cluster, for a person who makes tenant clusters there with `trellis create cluster`
    Install,
}

impl Rbac {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let subject = match (&self.user, self.account.split_once('/')) {
            (Some(user), _) => Subject::User(user),
            (None, Some((namespace, name))) => Subject::Account(namespace, name),
            (None, None) => return Err(Failure::Usage("write --account as NAMESPACE/NAME".to_owned())),
        };
        let place = match self.site {
            SiteName::Control => Place::Control,
            SiteName::Tenant => Place::Tenant,
            SiteName::Infra => Place::Infra,
            SiteName::Install => {
                if self.all_namespaces {
                    return Err(Failure::Usage("--site install is about one namespace: name it".to_owned()));
                }
                let names = Names { namespace: self.namespace.as_str(), subject, hosts: false };
                return print_objects(&rights::install_role(&names), output);
            }
        };
        let namespace = if self.all_namespaces { "" } else { self.namespace.as_str() };
        let names = Names { namespace, subject, hosts: !self.no_hosts };
        let one = [self.family.family()];
        let families: &[&'static Family] = if self.all_namespaces { &FAMILIES } else { &one };
        print_objects(&rights::roles(place, families, &names), output)
    }
}

/// Prints objects: as YAML documents, or as a JSON list that `kubectl apply` takes.
pub(crate) fn print_objects(objects: &[Value], output: Output) -> Result<Exit, Failure> {
    match output.format {
        Format::Human => print(&to_yaml_documents(objects))?,
        Format::Json => {
            print_json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
        }
    }
    Ok(Exit::Success)
}
