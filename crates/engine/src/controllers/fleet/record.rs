//! What is to be served, wherever that is written down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use trellis_model::Cluster;
use trellis_model::cluster::{CredentialsKind, Platform};
use trellis_runtime::Key;
use trellis_runtime::credentials::{Keeper, Source};

use super::clusters::Overrides;
use crate::families::{FAMILIES, Family, Object, TRELLIS, keys, read_cluster};

/// All records by their names.
pub type Records = Arc<BTreeMap<String, Arc<Record>>>;

/// The fields of a Secret that a tenant's kubeconfig may be under.
const TENANT_FIELDS: [&str; 2] = ["kubeconfig", "value"];

/// A tenant that is to be served. What is served is begun anew when its record is no longer equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What it is shared out and told apart by: `<namespace>/<cluster>`.
    pub name: String,
    /// Its object, where it has one.
    pub about: Option<About>,
    /// What is asked for, or why that cannot be served: one word, and words for people.
    pub asked: Result<Asked, (&'static str, String)>,
}

/// The object of a record: where is said how it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// What it is called.
    pub key: Key,
    /// Which one of that name it is.
    pub uid: Arc<str>,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it was asked to go, and everything of it with it.
    pub deleting: bool,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The family of its machine objects.
    pub family: &'static Family,
    /// The namespace they are in.
    pub namespace: String,
    /// How they are reached.
    pub control: Access,
    /// How the VMs are reached.
    pub infra: Access,
    /// How the Nodes are reached.
    pub tenant: Option<Access>,
}

/// How a site of a tenant is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It is the fleet's own control site.
    Control,
    /// By a kubeconfig file.
    File {
        /// The file.
        path: PathBuf,
        /// The context in it; the current one when left out.
        context: Option<String>,
    },
    /// By a kubeconfig in an object of the control site.
    Kept {
        /// Whether the object is a Secret, and else a ConfigMap.
        secret: bool,
        /// The object.
        key: Key,
        /// The fields of its data it may be under.
        fields: Vec<String>,
    },
}

impl Access {
    /// A kubeconfig file, by its current context.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), context: None }
    }

    /// The kubeconfig of a tenant, as an installer leaves it beside its record.
    pub fn of_tenant(key: &Key) -> Self {
        Self::Kept {
            secret: true,
            key: Key::new(key.namespace(), &format!("{}-kubeconfig", key.name())),
            fields: TENANT_FIELDS.map(str::to_owned).into(),
        }
    }

    /// Where its connection comes from; nothing for the control site itself.
    pub(super) fn source(&self, control: &trellis_runtime::Site) -> Option<Source> {
        Some(match self {
            Self::Control => return None,
            Self::File { path, context } => Source::File { path: path.clone(), context: context.clone() },
            Self::Kept { secret, key, fields } => Source::Kept {
                site: control.clone(),
                keeper: if *secret { Keeper::Secret } else { Keeper::ConfigMap },
                key: key.clone(),
                fields: fields.clone(),
                context: None,
            },
        })
    }
}

impl Record {
    /// What a TenantCluster asks for.
    pub fn of_cluster(object: &Object, overrides: &Overrides) -> Self {
        let meta = &object.metadata;
        Self {
            name: format!("{}/{}", meta.namespace(), meta.name()),
            about: Some(About {
                key: meta.key.clone(),
                uid: Arc::clone(&meta.uid),
                created: meta.created,
                deleting: meta.deleting.is_some(),
            }),
            asked: asked(object, overrides),
        }
    }
}

fn asked(object: &Object, overrides: &Overrides) -> Result<Asked, (&'static str, String)> {
    let family = match overrides.family {
        Some(family) => family,
        None => family_of(object)?,
    };
    let cluster = read_cluster(object).map_err(|unreadable| ("BadSpec", unreadable.to_string()))?;
    let key = &object.metadata.key;
    let infra = match &overrides.infra {
        Some(infra) => infra.clone(),
        None => infra_of(&cluster, key)?,
    };
    Ok(Asked {
        cluster,
        family,
        namespace: key.namespace().to_owned(),
        control: Access::Control,
        infra,
        tenant: overrides.tenant.clone().or_else(|| Some(Access::of_tenant(key))),
    })
}

fn family_of(object: &Object) -> Result<&'static Family, (&'static str, String)> {
    let meta = &object.metadata;
    let Some(name) = meta.annotations.get(keys::FAMILY).or_else(|| meta.labels.get(keys::FAMILY)) else {
        return Ok(&TRELLIS);
    };
    FAMILIES.iter().find(|family| family.name == name).copied().ok_or_else(|| {
        let known: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
        ("BadFamily", format!("`{}` is none of {}", keys::FAMILY, known.join(", ")))
    })
}

fn infra_of(cluster: &Cluster, key: &Key) -> Result<Access, (&'static str, String)> {
    let platform = match &cluster.spec.platform {
        Platform::Kubevirt(platform) => platform,
        Platform::Ovirt(_) => {
            return Err(("NotSupported", "machines on oVirt are not looked after yet".to_owned()));
        }
    };
    let Some(credentials) = &platform.credentials else { return Ok(Access::Control) };
    // Who may write a record must not thereby use what is kept where they may not look.
    if let Some(other) = credentials.namespace.as_ref().filter(|name| name.as_str() != key.namespace()) {
        let message = format!("its credentials are in namespace {other}; they have to be in its own");
        return Err(("BadCredentials", message));
    }
    Ok(Access::Kept {
        secret: credentials.kind == CredentialsKind::Secret,
        key: Key::new(key.namespace(), credentials.name.as_str()),
        fields: vec![credentials.key.clone()],
    })
}

/// The records as they are served: of two that would act on the same machine objects, or make VMs under the same names
/// in the same place, the older one counts.
///
/// Only our own machine objects say which cluster they belong to.
pub(super) fn settled(records: &Records) -> BTreeMap<String, Arc<Record>> {
    let mut order: Vec<&Arc<Record>> = records.values().collect();
    let age = |record: &Record| record.about.as_ref().map(|about| about.created);
    order.sort_by(|one, other| (age(one), &one.name).cmp(&(age(other), &other.name)));
    let mut taken: BTreeMap<_, &str> = BTreeMap::new();
    let mut inhabited: BTreeMap<_, &str> = BTreeMap::new();
    let mut settled = BTreeMap::new();
    for record in order {
        let mut served = Arc::clone(record);
        if let Ok(asked) = &record.asked {
            let own = (*asked.family == TRELLIS).then(|| asked.cluster.name.as_str());
            let place = (&asked.control, asked.family.name, asked.namespace.as_str(), own);
            let (cluster, infra) = (asked.cluster.name.as_str(), asked.cluster.infra_namespace());
            let vms = (&asked.infra, infra, cluster);
            let conflict = match (taken.get(&place), inhabited.get(&vms)) {
                (Some(first), _) => Some(format!(
                    "{first} already has the {} machine objects of namespace {}",
                    asked.family.name, asked.namespace
                )),
                (None, Some(first)) => Some(format!(
                    "{first} already has the VMs of a cluster {cluster} in infra namespace {infra}"
                )),
                (None, None) => None,
            };
            if let Some(message) = conflict {
                served = Arc::new(Record { asked: Err(("Conflict", message)), ..Record::clone(record) });
            } else {
                taken.insert(place, &record.name);
                inhabited.insert(vms, &record.name);
            }
        }
        settled.insert(record.name.clone(), served);
    }
    settled
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, created: &str, annotations: &Value, spec: &Value) -> Record {
        let object = json!({
            "metadata": {"namespace": "n", "name": name, "uid": name, "creationTimestamp": created, "annotations": annotations},
            "spec": spec,
        });
        Record::of_cluster(&Object::from_json(object).unwrap(), &Overrides::default())
    }

    fn plain() -> Value {
        json!({"platform": {"kubevirt": {}}})
    }

    #[test]
    fn a_tenant_cluster_says_where_its_sites_are() {
        let credentials = json!({"kind": "ConfigMap", "name": "infra", "key": "config"});
        let spec = json!({"platform": {"kubevirt": {"credentials": credentials}}});
        let asked = cluster("blue", "2026-01-01T00:00:00Z", &json!({"trellis.dev/family": "kkp"}), &spec)
            .asked
            .unwrap();
        assert_eq!((asked.family.name, &asked.control), ("kkp", &Access::Control));
        let infra =
            Access::Kept { secret: false, key: Key::new("n", "infra"), fields: vec!["config".to_owned()] };
        assert_eq!(asked.infra, infra);
        assert_eq!(asked.tenant, Some(Access::of_tenant(&Key::new("n", "blue"))));
        let asked = cluster("blue", "2026-01-01T00:00:00Z", &json!({}), &plain()).asked.unwrap();
        assert_eq!((asked.family.name, asked.infra), ("trellis", Access::Control));
    }

    #[test]
    fn what_cannot_be_served_says_why() {
        let why = |annotations: Value, spec: Value| {
            cluster("blue", "2026-01-01T00:00:00Z", &annotations, &spec).asked.unwrap_err()
        };
        assert_eq!(why(json!({"trellis.dev/family": "capi"}), plain()).0, "BadFamily");
        assert_eq!(why(json!({}), json!({"platform": {"kubevirt": {"namspace": "x"}}})).0, "BadSpec");
        let elsewhere = json!({"kind": "Secret", "namespace": "kube-system", "name": "admin"});
        let (reason, message) = why(json!({}), json!({"platform": {"kubevirt": {"credentials": elsewhere}}}));
        assert_eq!(reason, "BadCredentials");
        assert!(message.contains("kube-system"), "{message}");
    }

    #[test]
    fn of_two_for_the_same_vms_the_older_counts() {
        let spec = json!({"platform": {"kubevirt": {"namespace": "vms"}}});
        let record = |namespace: &str, name: &str, created: &str| {
            let meta =
                json!({"namespace": namespace, "name": name, "uid": namespace, "creationTimestamp": created});
            let object = Object::from_json(json!({"metadata": meta, "spec": spec})).unwrap();
            let record = Record::of_cluster(&object, &Overrides::default());
            (record.name.clone(), Arc::new(record))
        };
        let records: BTreeMap<_, _> = [
            record("n1", "blue", "2026-01-02T00:00:00Z"),
            record("n2", "blue", "2026-01-01T00:00:00Z"),
            record("n2", "red", "2026-01-03T00:00:00Z"),
        ]
        .into();
        let settled = settled(&Arc::new(records));
        let refused: Vec<_> =
            settled.values().filter_map(|one| Some((&*one.name, one.asked.as_ref().err()?.0))).collect();
        assert_eq!(refused, [("n1/blue", "Conflict")]);
    }

    #[test]
    fn of_two_for_the_same_objects_the_older_counts() {
        let kkp = json!({"trellis.dev/family": "kkp"});
        let records = [
            cluster("a", "2026-01-02T00:00:00Z", &kkp, &plain()),
            cluster("b", "2026-01-01T00:00:00Z", &kkp, &plain()),
            cluster("c", "2026-01-03T00:00:00Z", &json!({}), &plain()),
            cluster("d", "2026-01-03T00:00:00Z", &json!({}), &plain()),
        ];
        let records: BTreeMap<_, _> =
            records.into_iter().map(|one| (one.name.clone(), Arc::new(one))).collect();
        let settled = settled(&Arc::new(records));
        let refused: Vec<&str> =
            settled.values().filter(|one| one.asked.is_err()).map(|one| &*one.name).collect();
        assert_eq!(refused, ["n/a"]);
        assert_eq!(settled.len(), 4);
    }
}
