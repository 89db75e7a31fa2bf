//! Roles and bindings of the cluster or of one namespace, compiled for quick decisions.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::rule::{Rule, Target};
use crate::attributes::{Attributes, User};
use crate::auth::words::quoted;
use crate::names::GroupResource;
use crate::reader::Reader;

/// The group of roles and bindings.
pub(in crate::auth) const GROUP: &str = "rbac.authorization.k8s.io";

static ROLES: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new(GROUP, "roles"));
static ROLE_BINDINGS: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new(GROUP, "rolebindings"));
static CLUSTER_ROLES: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new(GROUP, "clusterroles"));
static CLUSTER_ROLE_BINDINGS: LazyLock<GroupResource> =
    LazyLock::new(|| GroupResource::new(GROUP, "clusterrolebindings"));

/// The rules of a role.
type Rules = Arc<[Rule]>;

/// The roles and bindings of one namespace, or of the cluster.
#[derive(Debug, Default)]
pub(super) struct Scope {
    revision: (u64, u64),
    roles: HashMap<String, Rules>,
    bindings: Vec<Binding>,
    users: HashMap<String, Vec<usize>>,
    groups: HashMap<String, Vec<usize>>,
}

/// A binding of a role to subjects.
#[derive(Debug)]
pub(super) struct Binding {
    name: String,
    namespace: String,
    role_kind: String,
    role: String,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// A role that a binding refers to and that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    Role(String),
    ClusterRole(String),
    Kind(String),
}

impl Scope {
    /// How far the stored roles and bindings of a namespace are; of the cluster for an empty one.
    pub(super) fn current(reader: &dyn Reader, namespace: &str) -> (u64, u64) {
        let (roles, bindings) = resources(namespace);
        (reader.revision(roles), reader.revision(bindings))
    }

    /// True when nothing was written since this was compiled.
    pub(super) fn is_current(&self, reader: &dyn Reader, namespace: &str) -> bool {
        self.revision == Self::current(reader, namespace)
    }

    /// Compiles the stored objects.
    pub(super) fn compile(reader: &dyn Reader, namespace: &str) -> Self {
        // The revision is read first: what is written meanwhile makes the next decision compile again.
        let revision = Self::current(reader, namespace);
        let (roles, bindings) = resources(namespace);
        let within = (!namespace.is_empty()).then_some(namespace);
        let mut scope = Self { revision, ..Self::default() };
        for role in reader.list(roles, within) {
            scope.roles.insert(text(&role["metadata"]["name"]), Rule::read_all(&role).into());
        }
        for binding in reader.list(bindings, within) {
            scope.add(&binding, namespace);
        }
        scope
    }

    fn add(&mut self, binding: &Value, namespace: &str) {
        let place = self.bindings.len();
        let mut subjects = Vec::new();
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let subject = Subject {
                kind: text(&subject["kind"]),
                name: text(&subject["name"]),
                namespace: text(&subject["namespace"]),
            };
            let (index, key) = match subject.kind.as_str() {
                "User" => (&mut self.users, subject.name.clone()),
                "Group" => (&mut self.groups, subject.name.clone()),
                "ServiceAccount" => match subject.account(namespace) {
                    Some(user) => (&mut self.users, user),
                    None => continue,
                },
                _ => continue,
            };
            let places = index.entry(key).or_default();
            if places.last() != Some(&place) {
                places.push(place);
            }
            subjects.push(subject);
        }
        self.bindings.push(Binding {
            name: text(&binding["metadata"]["name"]),
            namespace: namespace.to_owned(),
            role_kind: text(&binding["roleRef"]["kind"]),
            role: text(&binding["roleRef"]["name"]),
            subjects,
        });
    }

    /// True when some binding of the user allows what is asked for.
    pub(super) fn allows(&self, cluster: &Self, attributes: &Attributes, target: Target) -> bool {
        self.places(&attributes.user).any(|place| {
            self.rules(cluster, &self.bindings[place])
                .is_ok_and(|rules| rules.iter().any(|rule| rule.allows(attributes, target)))
        })
    }

    /// The bindings of a user in the order in which they are stored, each with its rules.
    pub(super) fn applying(&self, cluster: &Self, user: &User) -> Vec<(&Binding, Result<Rules, Missing>)> {
        let mut places: Vec<usize> = self.places(user).collect();
        places.sort_unstable();
        places.dedup();
        places
            .into_iter()
            .map(|place| {
                let binding = &self.bindings[place];
                (binding, self.rules(cluster, binding).map(Arc::clone))
            })
            .collect()
    }

    fn places(&self, user: &User) -> impl Iterator<Item = usize> {
        let own = self.users.get(&user.name).into_iter();
        own.chain(user.groups.iter().filter_map(|group| self.groups.get(group))).flatten().copied()
    }

    fn rules<'a>(&'a self, cluster: &'a Self, binding: &Binding) -> Result<&'a Rules, Missing> {
        self.referenced(cluster, &binding.namespace, &binding.role_kind, &binding.role)
    }

    /// The rules of the role that a binding in `namespace` refers to.
    pub(super) fn referenced<'a>(
        &'a self,
        cluster: &'a Self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<&'a Rules, Missing> {
        match kind {
            "ClusterRole" => cluster.roles.get(name).ok_or_else(|| Missing::ClusterRole(name.to_owned())),
            // The cluster has no roles of its own.
            "Role" if namespace.is_empty() => Err(Missing::Role(name.to_owned())),
            "Role" => self.roles.get(name).ok_or_else(|| Missing::Role(name.to_owned())),
            other => Err(Missing::Kind(other.to_owned())),
        }
    }
}

impl Binding {
    /// What allows something, in the words of reviews.
    pub(super) fn describe(&self, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| subject.applies_to(user, &self.namespace));
        let subject = subject.map_or_else(String::new, |subject| subject.describe(&self.namespace));
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", quoted(&self.name))
        } else {
            ("RoleBinding", quoted(&format!("{}/{}", self.name, self.namespace)))
        };
        format!("{kind} {name} of {} {} to {subject}", self.role_kind, quoted(&self.role))
    }
}

impl Subject {
    /// The user name of a service account. In a namespace, accounts without one are of that namespace.
    fn account(&self, namespace: &str) -> Option<String> {
        let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
        (!namespace.is_empty()).then(|| format!("system:serviceaccount:{namespace}:{}", self.name))
    }

    fn applies_to(&self, user: &User, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            _ => self.account(namespace).is_some_and(|name| name == user.name),
        }
    }

    fn describe(&self, namespace: &str) -> String {
        if self.kind != "ServiceAccount" {
            return format!("{} {}", self.kind, quoted(&self.name));
        }
        let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
        format!("{} {}", self.kind, quoted(&format!("{}/{namespace}", self.name)))
    }
}

impl Missing {
    /// The problem in the words of a refusal.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Role(name) => format!("role.{GROUP} {} not found", quoted(name)),
            Self::ClusterRole(name) => format!("clusterrole.{GROUP} {} not found", quoted(name)),
            Self::Kind(kind) => format!("unsupported role reference kind: {}", quoted(kind)),
        }
    }

    /// The name of the role, unless it is the kind that is wrong.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Role(name) | Self::ClusterRole(name) => Some(name),
            Self::Kind(_) => None,
        }
    }
}

fn resources(namespace: &str) -> (&'static GroupResource, &'static GroupResource) {
    if namespace.is_empty() { (&CLUSTER_ROLES, &CLUSTER_ROLE_BINDINGS) } else { (&ROLES, &ROLE_BINDINGS) }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
