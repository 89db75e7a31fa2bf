//! Tenant clusters as rows.

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_engine::families::Object;

use super::table::{Cell, Style, Table};
use super::words;

/// A tenant cluster, as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) platform: String,
    pub(crate) version: String,
    pub(crate) phase: String,
    pub(crate) endpoint: String,
    /// Whether it is ready; nothing where nobody has said.
    pub(crate) ready: Option<bool>,
    pub(crate) message: String,
    pub(crate) created: Timestamp,
    pub(crate) deleting: bool,
}

impl Cluster {
    /// A TenantCluster.
    pub(crate) fn of(object: &Object) -> Self {
        let (spec, status) = (object.spec_json(), object.status_json());
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let platform = spec.get("platform").and_then(Value::as_object);
        let condition = |kind: &str| {
            let all = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
            all.into_iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
        };
        let ready = condition("Ready");
        let holds = ready.map(|ready| text(ready.get("status")) == "True");
        let deleting = object.metadata.deleting.is_some();
        Self {
            namespace: object.metadata.namespace().to_owned(),
            name: object.metadata.name().to_owned(),
            platform: platform.and_then(|platform| platform.keys().next().cloned()).unwrap_or_default(),
            version: text(spec.get("version")),
            phase: match text(status.get("phase")) {
                phase if phase.is_empty() && deleting => "Deleting".to_owned(),
                phase => phase,
            },
            endpoint: text(status.get("endpoint")),
            ready: holds,
            // Until somebody says how the cluster is, there is what is said of its machines.
            message: match ready.or_else(|| condition("Served")) {
                Some(said) => text(said.get("message")),
                None => "no controller has said anything of it yet".to_owned(),
            },
            created: object.metadata.created,
            deleting,
        }
    }

    /// For programs: keys are only ever added.
    pub(crate) fn json(&self) -> Value {
        json!({
            "namespace": self.namespace,
            "name": self.name,
            "platform": self.platform,
            "version": self.version,
            "phase": self.phase,
            "endpoint": self.endpoint,
            "ready": self.ready,
            "message": self.message,
            "created": self.created.to_string(),
            "deleting": self.deleting,
        })
    }
}

/// Clusters as a table.
pub(crate) fn table(clusters: &[Cluster], namespaces: bool, wide: bool, now: Timestamp) -> Table {
    let mut titles = vec!["NAME", "PLATFORM", "VERSION", "PHASE", "READY", "AGE", "WHY"];
    if namespaces {
        titles.insert(0, "NAMESPACE");
    }
    if wide {
        titles.push("ENDPOINT");
    }
    let rows = clusters
        .iter()
        .map(|cluster| {
            let ready = match cluster.ready {
                Some(true) => Cell::styled("yes", Style::Good),
                Some(false) => Cell::styled("no", Style::Busy),
                None => Cell::styled("unknown", Style::Faint),
            };
            let mut row = vec![
                cluster.name.as_str().into(),
                cluster.platform.as_str().into(),
                cluster.version.as_str().into(),
                cluster.phase.as_str().into(),
                ready,
                words::age(cluster.created, now).into(),
                cluster.message.as_str().into(),
            ];
            if namespaces {
                row.insert(0, cluster.namespace.as_str().into());
            }
            if wide {
                row.push(cluster.endpoint.as_str().into());
            }
            row
        })
        .collect();
    Table { titles, rows }
}

#[cfg(test)]
mod tests {
    use super::super::testing::at;
    use super::*;

    #[test]
    fn a_cluster_is_told_by_what_it_is_and_how_it_stands() {
        let mut object = json!({
            "metadata": {"name": "demo", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"platform": {"kubevirt": {}}, "version": "1.34.2"},
        });
        let fresh = Cluster::of(&Object::from_json(object.clone()).unwrap());
        assert_eq!((fresh.platform.as_str(), fresh.ready), ("kubevirt", None));
        object["status"] = json!({
            "phase": "Running", "endpoint": "https://api.demo:6443",
            "conditions": [{"type": "Ready", "status": "True", "message": "all is well"}],
        });
        let ready = Cluster::of(&Object::from_json(object).unwrap());
        let table = table(std::slice::from_ref(&ready), true, true, at("2026-01-01T01:00:00Z"));
        let cells: Vec<&str> = table.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(
            cells,
            [
                "n",
                "demo",
                "kubevirt",
                "1.34.2",
                "Running",
                "yes",
                "60m",
                "all is well",
                "https://api.demo:6443"
            ]
        );
        assert_eq!(table.titles.len(), cells.len());
    }
}
