//! Records from a file, for installations that have no TenantClusters.
//!
//! ```yaml
//! tenants:
//! - cluster: blue
//!   family: kkp
//!   namespace: kube-system
//!   infraNamespace: blue
//!   kubeconfig: blue.kubeconfig
//!   tenantKubeconfig: blue.kubeconfig
//!   infraKubeconfig: infra.kubeconfig
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use trellis_dialects::check::check;
use trellis_dialects::diagnostic::{Diagnostic, Diagnostics, Location};
use trellis_dialects::parse::parse;
use trellis_dialects::path::FieldPath;
use trellis_dialects::schema::schema_of;
use trellis_dialects::source::SourceMap;
use trellis_dialects::tree::Document;
use trellis_model::Cluster;
use trellis_model::names::{ClusterName, NamespaceName};

use super::record::{Access, Asked, Record, Records};
use crate::families::{Family, KKP, OPENSHIFT, TRELLIS};

/// A file of tenants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    /// The tenants.
    tenants: Vec<Tenant>,
}

/// One tenant of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tenant {
    /// The tenant cluster. Its name is on everything that is made for it.
    cluster: ClusterName,
    /// Whose machine objects it has.
    #[serde(default)]
    family: FamilyName,
    /// The namespace the machine objects are in.
    namespace: NamespaceName,
    /// The namespace the VMs are in; the cluster's name when left out.
    #[serde(default)]
    infra_namespace: Option<NamespaceName>,
    /// The kubeconfig for the machine objects; the controller's own when left out.
    #[serde(default)]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig of the tenant, for its Nodes.
    #[serde(default, rename = "tenantKubeconfig")]
    nodes_kubeconfig: Option<PathBuf>,
    /// The kubeconfig for the VMs; the controller's own when left out.
    #[serde(default)]
    infra_kubeconfig: Option<PathBuf>,
}

/// A family of machine objects.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FamilyName {
    Kkp,
    Openshift,
    #[default]
    Trellis,
}

impl FamilyName {
    fn family(self) -> &'static Family {
        match self {
            Self::Kkp => &KKP,
            Self::Openshift => &OPENSHIFT,
            Self::Trellis => &TRELLIS,
        }
    }
}

/// Reads a file of tenants, with every problem at once. Paths in it begin at `folder`.
pub fn read(sources: &SourceMap, folder: &Path) -> (Records, Diagnostics) {
    let mut out = Diagnostics::new();
    let mut known: BTreeMap<String, Arc<Record>> = BTreeMap::new();
    for (file, source) in sources.iter() {
        let documents = parse(file, &source.text, &mut out);
        if documents.is_empty() && !out.has_errors() {
            out.push(
                Diagnostic::error("tenants", format!("{} is empty", source.name))
                    .help("write `tenants: []` for none"),
            );
        }
        for document in &documents {
            let schema = schema_of::<File>();
            let value = check(schema, &document.root, file, &FieldPath::root(), &mut out);
            if out.has_errors() {
                continue;
            }
            match serde_json::from_value::<File>(value) {
                Ok(File { tenants }) => {
                    for (number, tenant) in tenants.iter().enumerate() {
                        take_in(tenant, number, document, folder, &mut known, &mut out);
                    }
                }
                Err(error) => out.push(Diagnostic::error("tenants", error.to_string())),
            }
        }
    }
    (Arc::new(known), out)
}

fn take_in(
    tenant: &Tenant,
    number: usize,
    document: &Document,
    folder: &Path,
    known: &mut BTreeMap<String, Arc<Record>>,
    out: &mut Diagnostics,
) {
    let place = FieldPath::root().child("tenants").index(number);
    let say = |field: &str, message: String, help: &str| {
        let at = place.child(field);
        let (span, _) = document.locate(&at);
        Diagnostic::error("tenants", message).at(Location::new(document.file, span)).path(&at).help(help)
    };
    let name = format!("{}/{}", tenant.namespace, tenant.cluster);
    if known.contains_key(&name) {
        let message = format!("{name} is there twice");
        out.push(say("cluster", message, "one entry for each cluster and namespace"));
        return;
    }
    match asked(tenant, folder) {
        Ok(asked) => {
            let record = Record { name: name.clone(), about: None, asked: Ok(asked) };
            known.insert(name, Arc::new(record));
        }
        Err(error) => out.push(say("infraNamespace", error.to_string(), "name a namespace")),
    }
}

fn asked(tenant: &Tenant, folder: &Path) -> Result<Asked, serde_json::Error> {
    let access = |path: Option<&PathBuf>| path.map(|path| Access::file(folder.join(path)));
    let namespace = tenant.infra_namespace.as_ref().map_or(tenant.cluster.as_str(), NamespaceName::as_str);
    Ok(Asked {
        cluster: Arc::new(plain_cluster(&tenant.cluster, &tenant.namespace, namespace)?),
        family: tenant.family.family(),
        namespace: tenant.namespace.to_string(),
        control: access(tenant.kubeconfig.as_ref()).unwrap_or(Access::Control),
        infra: access(tenant.infra_kubeconfig.as_ref()).unwrap_or(Access::Control),
        tenant: access(tenant.nodes_kubeconfig.as_ref()),
    })
}

/// A cluster of which nothing is known but where its VMs are.
pub fn plain_cluster(
    name: &ClusterName,
    namespace: &NamespaceName,
    infra_namespace: &str,
) -> Result<Cluster, serde_json::Error> {
    let spec = serde_json::from_value(json!({"platform": {"kubevirt": {"namespace": infra_namespace}}}))?;
    Ok(Cluster { name: name.clone(), namespace: Some(namespace.clone()), spec })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Records, Vec<String>) {
        let mut sources = SourceMap::new();
        sources.add("tenants.yaml", text);
        let (records, problems) = read(&sources, Path::new("/etc/trellis"));
        let told = trellis_dialects::render::to_json(&problems, &sources);
        let told = told.as_array().unwrap().iter();
        let line = |one: &serde_json::Value| {
            format!("{}:{} {}", one["line"], one["path"].as_str().unwrap_or_default(), one["message"])
        };
        (records, told.map(line).collect())
    }

    #[test]
    fn a_file_says_which_tenants_there_are() {
        let (records, problems) = read_text(
            "tenants:\n- cluster: blue\n  family: kkp\n  namespace: kube-system\n  kubeconfig: blue.kubeconfig\n\
             - {cluster: red, namespace: red, infraNamespace: infra-red, infraKubeconfig: /infra}\n",
        );
        assert_eq!(problems, Vec::<String>::new());
        let asked = |name: &str| records[name].asked.clone().unwrap();
        let (blue, red) = (asked("kube-system/blue"), asked("red/red"));
        assert_eq!(blue.control, Access::file("/etc/trellis/blue.kubeconfig"));
        assert_eq!((blue.family.name, blue.cluster.infra_namespace(), blue.tenant), ("kkp", "blue", None));
        assert_eq!((red.control, red.infra), (Access::Control, Access::file("/infra")));
        assert_eq!((red.family.name, red.cluster.infra_namespace()), ("trellis", "infra-red"));
    }

    #[test]
    fn every_problem_is_told_with_its_place() {
        let (_, problems) = read_text(
            "tenants:\n- cluster: Blue\n  familiy: kkp\n  namespace: x\n- cluster: red\n  family: capi\n  namespace: x\n",
        );
        assert_eq!(problems.len(), 3, "{problems:?}");
        for place in ["2:", "3:", "6:"] {
            assert!(problems.iter().any(|problem| problem.starts_with(place)), "{place} in {problems:?}");
        }
        let (records, problems) =
            read_text("tenants:\n- {cluster: a, namespace: ns}\n- {cluster: a, namespace: ns}\n");
        assert_eq!((records.len(), problems.len()), (1, 1), "{problems:?}");
        assert!(problems[0].contains("ns/a is there twice") && problems[0].starts_with("3:"), "{problems:?}");
        assert_eq!(read_text("").1.len(), 1);
        assert_eq!(read_text("tenants: []").1.len(), 0);
    }
}
