//! Roles that come with what is installed.
//!
//! A namespace's users have the rights of `admin`, `edit` or `view`. What extends the API brings rules for its own
//! kinds, and labels that make them part of those.

use serde_json::{Value, json};

use crate::client::{Client, Result};
use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING};

/// What may be done to resources of one group.
#[derive(Debug, Clone)]
pub(crate) struct Rule(Value);

impl Rule {
    pub(crate) fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        Self(json!({"apiGroups": [group], "resources": resources, "verbs": verbs}))
    }
}

/// A role in the whole cluster.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    name: &'static str,
    rules: Vec<Rule>,
    /// The role of namespaces it is part of; empty for none.
    part_of: &'static str,
    for_everybody: bool,
}

impl Role {
    pub(crate) fn new(name: &'static str, rules: Vec<Rule>) -> Self {
        Self { name, rules, part_of: "", for_everybody: false }
    }

    /// The same, as part of a role of namespaces.
    pub(crate) fn part_of(self, role: &'static str) -> Self {
        Self { part_of: role, ..self }
    }

    /// The same, for everybody who is known.
    pub(crate) fn for_everybody(self) -> Self {
        Self { for_everybody: true, ..self }
    }

    fn object(&self) -> Value {
        let rules: Vec<&Value> = self.rules.iter().map(|Rule(rule)| rule).collect();
        let mut role = json!({"metadata": {"name": self.name}, "rules": rules});
        if !self.part_of.is_empty() {
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{}", self.part_of);
            role["metadata"]["labels"] = json!({label: "true"});
        }
        role
    }

    fn binding(&self) -> Value {
        json!({
            "metadata": {"name": self.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.name},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"},
            ],
        })
    }
}

/// Installs roles.
pub(crate) async fn install(client: &Client, roles: &[Role]) -> Result {
    for role in roles {
        client.apply(&CLUSTER_ROLE, role.object()).await?;
        if role.for_everybody {
            client.apply(&CLUSTER_ROLE_BINDING, role.binding()).await?;
        }
    }
    Ok(())
}
