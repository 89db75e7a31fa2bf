//! Machines of every family as rows of one table.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trellis_engine::families::{KKP, OPENSHIFT, TRELLIS, machine_seen, number_of, recorded_revision};
use trellis_engine::machines::Phase;

use super::find::{Estate, Sort, Thing};
use super::table::{Cell, Style, Table};
use super::words;

/// The label OpenShift names the cluster of a machine in.
const OPENSHIFT_CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";

/// A machine, as people look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) family: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Empty where nothing says it.
    pub(crate) cluster: String,
    /// Empty for a machine alone.
    pub(crate) pool: String,
    pub(crate) phase: String,
    pub(crate) since: Option<Timestamp>,
    /// One word, for programs.
    pub(crate) reason: String,
    /// The same for people.
    pub(crate) message: String,
    /// When it is late, and what is late then.
    pub(crate) deadline: Option<(Timestamp, String)>,
    pub(crate) node: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) kubelet: Option<String>,
    pub(crate) created: Timestamp,
    pub(crate) deleting: bool,
    pub(crate) revision: Option<String>,
    /// Whether it has the newest revision of its pool; nothing where pools have none.
    pub(crate) is_current: Option<bool>,
}

/// The machines of an estate, of one cluster or of all, in the order of namespaces and names.
pub(crate) fn machines(estate: &Estate, cluster: Option<&str>) -> Vec<Machine> {
    let mut all: Vec<Machine> = estate
        .of(Sort::Machine)
        .map(|thing| machine(estate, thing))
        .filter(|machine| cluster.is_none_or(|cluster| machine.cluster == cluster))
        .collect();
    all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    all
}

/// One machine.
pub(crate) fn machine(estate: &Estate, thing: &Thing) -> Machine {
    let (family, object) = (thing.kind.family, &thing.object);
    let status = object.status_json();
    let seen = machine_seen(family, object);
    let set = estate.owner(thing);
    let pool = set.map(|set| estate.owner(set).unwrap_or(set));
    let revision = recorded_revision(family, object);
    let said = Said::of(family == &TRELLIS, &status, object.metadata.deleting.is_some());
    let own = |key: &str| object.spec_json().get(key).and_then(Value::as_str).map(str::to_owned);
    let pool_name = match pool {
        Some(pool) => pool.object.metadata.name().to_owned(),
        None => own("pool").filter(|_| family == &TRELLIS).unwrap_or_default(),
    };
    let zone = if family == &TRELLIS {
        own("zone")
    } else {
        object.metadata.annotations.get(trellis_engine::families::keys::ZONE).map(str::to_owned)
    };
    let address = status.get("addresses").and_then(Value::as_array).and_then(|all| all.first());
    let address = address.and_then(|first| first.get("address")).and_then(Value::as_str);
    let kubelet = status.get("kubeletVersion").or_else(|| status.get("versions")?.get("kubelet"));
    Machine {
        family: family.name,
        namespace: object.metadata.namespace().to_owned(),
        name: object.metadata.name().to_owned(),
        uid: object.metadata.uid.to_string(),
        cluster: cluster(thing),
        pool: pool_name,
        phase: said.phase,
        since: said.since,
        reason: said.reason,
        message: said.message,
        deadline: said.deadline,
        node: seen.record.node.map(|(name, _)| name),
        host: seen.record.host,
        zone,
        address: address.map(str::to_owned),
        kubelet: kubelet.and_then(Value::as_str).map(str::to_owned),
        created: object.metadata.created,
        deleting: object.metadata.deleting.is_some(),
        is_current: is_current(estate, thing, set, pool, revision.as_deref()),
        revision,
    }
}

/// The cluster a thing says it belongs to; empty where nothing says it.
pub(crate) fn cluster(thing: &Thing) -> String {
    let spec = thing.object.spec_json();
    let spec = Value::Object(spec);
    let template = spec.pointer("/template/spec").unwrap_or(&spec);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    match thing.kind.family {
        family if family == &TRELLIS => text(spec.get("cluster")),
        family if family == &OPENSHIFT => {
            let label = thing.object.metadata.labels.get(OPENSHIFT_CLUSTER).map(str::to_owned);
            let labels = spec.pointer("/template/metadata/labels");
            label.unwrap_or_else(|| text(labels.and_then(|labels| labels.get(OPENSHIFT_CLUSTER))))
        }
        _ => {
            let name = template.pointer("/providerSpec/value/cloudProviderSpec/clusterName");
            text(name.and_then(|name| name.get("value")).or(name))
        }
    }
}

/// Whether a machine has the newest revision of its pool.
fn is_current(
    estate: &Estate,
    thing: &Thing,
    set: Option<&Thing>,
    pool: Option<&Thing>,
    revision: Option<&str>,
) -> Option<bool> {
    let (pool, family) = (pool?, thing.kind.family);
    if family == &TRELLIS {
        let newest = pool.object.status_json().get("revision").and_then(Value::as_str).map(str::to_owned)?;
        return Some(revision == Some(newest.as_str()));
    }
    if family != &KKP || pool.kind.sort != Sort::Pool {
        return None;
    }
    let uid = &pool.object.metadata.uid;
    let newest = estate
        .of(Sort::Set)
        .filter(|set| set.object.metadata.owner.as_ref().is_some_and(|owner| *owner.uid == **uid))
        .max_by_key(|set| number_of(family, &set.object))?;
    Some(set?.object.metadata.uid == newest.object.metadata.uid)
}

/// What a status says of a machine.
struct Said {
    phase: String,
    since: Option<Timestamp>,
    reason: String,
    message: String,
    deadline: Option<(Timestamp, String)>,
}

impl Said {
    fn of(own: bool, status: &Map<String, Value>, deleting: bool) -> Self {
        let beside = || status.get("providerStatus")?.get("trellis")?.as_object();
        let ours = if own { Some(status) } else { beside() };
        let text = |map: &Map<String, Value>, key: &str| {
            map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let foreign = || text(status, "phase");
        let Some(ours) = ours.filter(|ours| ours.contains_key("phase")) else {
            // Somebody else's, or nobody's.
            let phase = match foreign() {
                phase if !phase.is_empty() => phase,
                _ if deleting => Phase::Deleting.as_str().to_owned(),
                _ => Phase::Pending.as_str().to_owned(),
            };
            let message = match text(status, "errorMessage") {
                message if !message.is_empty() => message,
                _ if status.is_empty() => "no controller has looked at it yet".to_owned(),
                _ => String::new(),
            };
            return Self { phase, since: None, reason: text(status, "errorReason"), message, deadline: None };
        };
        let deadline = ours.get("deadline").and_then(Value::as_object);
        Self {
            phase: text(ours, "phase"),
            since: text(ours, "phaseSince").parse().ok(),
            reason: text(ours, "reason"),
            message: text(ours, "message"),
            deadline: deadline
                .and_then(|deadline| Some((text(deadline, "at").parse().ok()?, text(deadline, "of")))),
        }
    }
}

impl Machine {
    /// Why it is where it is, with what is left of its time.
    pub(crate) fn why(&self, now: Timestamp) -> String {
        match &self.deadline {
            Some((at, _)) if self.message.is_empty() => words::left(*at, now),
            Some((at, _)) => format!("{}, {}", self.message, words::left(*at, now)),
            None => self.message.clone(),
        }
    }

    fn style(&self) -> Style {
        match Phase::from_name(&self.phase) {
            Some(Phase::Failed | Phase::Unknown) => Style::Bad,
            Some(Phase::Running) => Style::Good,
            Some(_) => Style::Busy,
            None => Style::Plain,
        }
    }

    /// The revision, and whether it is the newest.
    fn revision(&self) -> Cell {
        let short: String = self.revision.as_deref().unwrap_or_default().chars().take(10).collect();
        match self.is_current {
            Some(true) => Cell::from(format!("{short} new")),
            Some(false) => Cell::styled(format!("{short} old"), Style::Busy),
            None => short.into(),
        }
    }

    /// For programs: keys are only ever added.
    pub(crate) fn json(&self) -> Value {
        let deadline = self.deadline.as_ref().map(|(at, of)| json!({"at": at.to_string(), "of": of}));
        json!({
            "family": self.family,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "cluster": self.cluster,
            "pool": self.pool,
            "phase": self.phase,
            "phaseSince": self.since.map(|since| since.to_string()),
            "reason": self.reason,
            "message": self.message,
            "deadline": deadline,
            "node": self.node,
            "host": self.host,
            "zone": self.zone,
            "address": self.address,
            "kubeletVersion": self.kubelet,
            "created": self.created.to_string(),
            "deleting": self.deleting,
            "revision": self.revision,
            "upToDate": self.is_current,
        })
    }
}

/// Machines as a table.
pub(crate) fn table(machines: &[Machine], namespaces: bool, wide: bool, now: Timestamp) -> Table {
    let mut titles =
        vec!["NAME", "CLUSTER", "POOL", "PHASE", "NODE", "HOST", "ZONE", "AGE", "REVISION", "WHY"];
    if namespaces {
        titles.insert(0, "NAMESPACE");
    }
    if wide {
        titles.extend(["FAMILY", "ADDRESS", "KUBELET", "REASON"]);
    }
    let rows = machines
        .iter()
        .map(|machine| {
            let text = |value: &Option<String>| Cell::from(value.clone().unwrap_or_default());
            let mut row = vec![
                machine.name.as_str().into(),
                machine.cluster.as_str().into(),
                machine.pool.as_str().into(),
                Cell::styled(machine.phase.as_str(), machine.style()),
                text(&machine.node),
                text(&machine.host),
                text(&machine.zone),
                words::age(machine.created, now).into(),
                machine.revision(),
                machine.why(now).into(),
            ];
            if namespaces {
                row.insert(0, machine.namespace.as_str().into());
            }
            if wide {
                let more = [
                    machine.family.into(),
                    text(&machine.address),
                    text(&machine.kubelet),
                    machine.reason.as_str().into(),
                ];
                row.extend(more);
            }
            row
        })
        .collect();
    Table { titles, rows }
}

#[cfg(test)]
mod tests {
    use super::super::table::Layout;
    use super::super::testing::{at, kind, thing};
    use super::*;
    use trellis_engine::families::OPENSHIFT;

    fn estate() -> Estate {
        let record = json!({
            "phase": "Joining", "phaseSince": "2026-01-01T00:00:00Z", "reason": "FirstBoot",
            "message": "waiting for first boot", "deadline": {"at": "2026-01-01T00:03:05Z", "of": "Joining"},
            "host": "host-0001",
        });
        let kkp_set = |name: &str, number: &str| {
            let mut set = thing(kind(&KKP, Sort::Set), name, Some("blue"), json!({}), json!({}));
            set.object = std::sync::Arc::new({
                let mut object = (*set.object).clone();
                let key = KKP.revision_number.unwrap().to_owned();
                object.metadata.annotations =
                    trellis_engine::families::Pairs::new([(key, number.to_owned())].into());
                object
            });
            set
        };
        let spec = json!({"providerSpec": {"value": {"cloudProviderSpec": {"clusterName": "azure"}}}});
        Estate {
            things: vec![
                thing(kind(&KKP, Sort::Pool), "blue", None, json!({}), json!({})),
                kkp_set("blue-old", "1"),
                kkp_set("blue-new", "2"),
                thing(
                    kind(&KKP, Sort::Machine),
                    "blue-old-0",
                    Some("blue-old"),
                    spec.clone(),
                    json!({
                        "phase": "Joining", "providerStatus": {"trellis": record},
                    }),
                ),
                thing(kind(&KKP, Sort::Machine), "blue-new-0", Some("blue-new"), spec, json!({})),
                thing(kind(&TRELLIS, Sort::Pool), "workers", None, json!({}), json!({"revision": "r2"})),
                thing(
                    kind(&TRELLIS, Sort::Machine),
                    "demo-workers-0",
                    Some("workers"),
                    json!({"cluster": "demo", "pool": "workers", "revision": "r2", "ordinal": 0, "zone": "zone-a"}),
                    json!({
                        "phase": "Running", "reason": "Well", "message": "its Node is ready",
                        "nodeRef": {"name": "demo-workers-0", "uid": "n"}, "record": {"host": "host-0002"},
                    }),
                ),
                thing(
                    kind(&OPENSHIFT, Sort::Machine),
                    "lone",
                    None,
                    json!({}),
                    json!({
                        "phase": "Failed", "errorReason": "CreateError", "errorMessage": "quota",
                    }),
                ),
            ],
        }
    }

    #[test]
    fn one_table_shows_all_families() {
        let rows = machines(&estate(), None);
        let text = table(&rows, false, false, at("2026-01-01T00:01:00Z")).text(Layout::default());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            lines[1],
            [
                "blue-new-0",
                "azure",
                "blue",
                "Pending",
                "-",
                "-",
                "-",
                "60s",
                "new",
                "no controller has looked at it yet"
            ]
        );
        assert_eq!(
            lines[2],
            [
                "blue-old-0",
                "azure",
                "blue",
                "Joining",
                "-",
                "host-0001",
                "-",
                "60s",
                "old",
                "waiting for first boot, 2 min left"
            ]
        );
        assert_eq!(
            lines[3],
            [
                "demo-workers-0",
                "demo",
                "workers",
                "Running",
                "demo-workers-0",
                "host-0002",
                "zone-a",
                "60s",
                "r2 new",
                "its Node is ready"
            ]
        );
        assert_eq!(lines[4], ["lone", "-", "-", "Failed", "-", "-", "-", "60s", "-", "quota"]);
    }

    #[test]
    fn clusters_select_and_namespaces_are_shown_when_asked() {
        let rows = machines(&estate(), Some("demo"));
        assert_eq!(rows.len(), 1);
        let table = table(&rows, true, true, at("2026-01-01T00:01:00Z"));
        assert_eq!((table.titles[0], table.rows[0][0].text.as_str()), ("NAMESPACE", "n"));
        assert_eq!(table.titles.len(), table.rows[0].len());
    }

    #[test]
    fn programs_get_moments_and_not_words() {
        let rows = machines(&estate(), Some("azure"));
        let json = rows[1].json();
        assert_eq!(json["deadline"], json!({"at": "2026-01-01T00:03:05Z", "of": "Joining"}));
        assert_eq!((&json["upToDate"], &json["host"]), (&json!(false), &json!("host-0001")));
    }
}
