//! What the members of one cluster agree on: who they are, who leads, and what is stored.
//!
//! There is one such record for all members of a cluster, in place of a log that each would have a copy of. What a
//! member may do with it depends on whom it reaches over the network at that moment, and on nothing else: one that sees
//! too few others neither answers nor leads. What has to be known after a restart is on the disks of the members before
//! anybody is told of it (see [`super::disks`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::disks::Disks;
use crate::apiserver::Plane;

/// The largest number of learners a cluster takes.
const LEARNERS: usize = 1;

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Info {
    pub(crate) id: u64,
    /// Empty until it has started.
    pub(crate) name: String,
    pub(crate) peer_urls: Vec<String>,
    pub(crate) client_urls: Vec<String>,
    pub(crate) learner: bool,
}

impl Info {
    pub(crate) fn json(&self) -> Value {
        let mut out = json!({"ID": self.id.to_string(), "peerURLs": self.peer_urls});
        if !self.name.is_empty() {
            out["name"] = self.name.as_str().into();
            out["clientURLs"] = self.client_urls.clone().into();
        }
        if self.learner {
            out["isLearner"] = true.into();
        }
        out
    }
}

/// Why a request is refused, in etcd's words and codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The code of gRPC.
    pub(crate) code: u16,
    pub(crate) message: &'static str,
}

/// There is no quorum, or this member does not see it.
pub(crate) const NO_LEADER: Refusal = Refusal { code: 14, message: "etcdserver: no leader" };
const NOT_FOUND: Refusal = Refusal { code: 5, message: "etcdserver: member not found" };
const KNOWN: Refusal = Refusal { code: 9, message: "etcdserver: Peer URLs already exists" };
const TOO_MANY: Refusal = Refusal { code: 9, message: "etcdserver: too many learner members in cluster" };
const NO_LEARNER: Refusal = Refusal { code: 9, message: "etcdserver: can only promote a learner member" };
const BEHIND: Refusal = Refusal {
    code: 9,
    message: "etcdserver: can only promote a learner member which is in sync with leader",
};
const UNHEALTHY: Refusal =
    Refusal { code: 9, message: "etcdserver: re-configuration failed due to not enough started members" };

/// How a cluster of etcd stands at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    /// Which cluster.
    pub cluster: u64,
    /// Members that vote.
    pub voting: usize,
    /// Of those, members that serve: they see who leads and a quorum.
    pub serving: usize,
    /// Members that learn.
    pub learning: usize,
}

impl Quorum {
    /// Whether enough members serve for the cluster to answer.
    pub fn holds(&self) -> bool {
        self.serving > self.voting / 2
    }
}

/// Is told how a cluster stands, whenever that changes.
#[derive(Clone)]
pub(crate) struct Observer(pub(crate) Arc<dyn Fn(Quorum) + Send + Sync>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) id: u64,
    /// Tells clusters apart that were formed of the same names, one after the other.
    pub(crate) birth: u64,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    observer: Option<Observer>,
    /// The disks of its members.
    pub(crate) disks: Disks,
    /// The API server its members carry.
    pub(crate) plane: Plane,
}

/// What members know after a restart: the newest that a quorum has counts.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    cluster: u64,
    birth: u64,
    /// Counts the changes of what follows.
    version: u64,
    members: BTreeMap<u64, Info>,
    removed: BTreeSet<u64>,
    term: u64,
    index: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct State {
    version: u64,
    members: BTreeMap<u64, Info>,
    removed: BTreeSet<u64>,
    /// The members that run, and whom each of them reaches.
    running: BTreeMap<u64, BTreeSet<u64>>,
    /// Learners that have reached the leader since they run: they have what it has.
    in_sync: BTreeSet<u64>,
    leader: Option<u64>,
    term: u64,
    index: u64,
}

impl State {
    fn of(record: Record) -> Self {
        let Record { version, members, removed, term, index, .. } = record;
        Self { version, members, removed, term, index, ..Self::default() }
    }

    /// Whether something is different that has to be known after a restart.
    fn differs_for_good(&self, other: &Self) -> bool {
        let lasting = |state: &Self| (state.term, state.index);
        lasting(self) != lasting(other) || self.members != other.members || self.removed != other.removed
    }

    fn voters(&self) -> impl Iterator<Item = u64> {
        self.members.values().filter(|member| !member.learner).map(|member| member.id)
    }

    fn reaches(&self, from: u64, to: u64) -> bool {
        self.running.get(&from).is_some_and(|reached| from == to || reached.contains(&to))
    }

    fn sees_quorum(&self, id: u64) -> bool {
        let all = self.voters().count();
        let seen = self.voters().filter(|voter| self.reaches(id, *voter)).count();
        self.voters().any(|voter| voter == id) && seen > all / 2
    }

    /// Whether a member can serve: it sees who leads, and if it votes a quorum too.
    fn serves(&self, id: u64) -> bool {
        let learner = self.members.get(&id).is_some_and(|member| member.learner);
        self.leader.is_some_and(|leader| self.reaches(id, leader)) && (learner || self.sees_quorum(id))
    }

    /// Whether a member can lead: it sees a quorum, and a quorum sees it. One without the other is a member that has
    /// not noticed yet that it is alone.
    fn can_lead(&self, id: u64) -> bool {
        let seen_by = self.voters().filter(|voter| self.reaches(*voter, id)).count();
        self.sees_quorum(id) && seen_by > self.voters().count() / 2
    }

    fn elect(&mut self) {
        if !self.leader.is_some_and(|leader| self.can_lead(leader)) {
            let next = self.voters().find(|voter| self.can_lead(*voter));
            if next.is_some() {
                self.term += 1;
            }
            self.leader = next;
        }
        let synced = |id: &u64| {
            self.leader.is_some_and(|leader| self.reaches(*id, leader) && self.reaches(leader, *id))
        };
        let now: BTreeSet<u64> = self.running.keys().copied().filter(synced).collect();
        self.in_sync.extend(now);
        self.in_sync.retain(|id| self.running.contains_key(id));
    }
}

impl Cluster {
    fn new(id: u64, birth: u64, members: Vec<Info>, observer: Option<Observer>) -> Self {
        let members = members.into_iter().map(|member| (member.id, member)).collect();
        Self::at(Record { cluster: id, birth, members, index: 1, ..Record::default() }, observer)
    }

    /// A cluster as a disk has it. Nobody runs yet.
    fn at(record: Record, observer: Option<Observer>) -> Self {
        Self {
            id: record.cluster,
            birth: record.birth,
            state: Mutex::new(State::of(record)),
            changed: watch::Sender::new(0),
            observer,
            disks: Disks::default(),
            plane: Plane::default(),
        }
    }

    fn record(&self, state: &State) -> Record {
        let State { version, members, removed, term, index, .. } = state.clone();
        Record { cluster: self.id, birth: self.birth, version, members, removed, term, index }
    }

    /// Takes in what another disk has, if that is newer: this one was off when it came about.
    fn catch_up(&self, record: Record) {
        self.change(|state| {
            if record.version > state.version {
                let State { running, in_sync, leader, .. } = std::mem::take(state);
                *state = State { running, in_sync, leader, ..State::of(record) };
            }
        });
    }

    /// Counts a disk as that of a member: it has all there is to know from now on.
    pub(crate) fn put_on(&self, member: u64, disk: super::disks::Disk) -> Result<(), String> {
        // Held, so that no change comes in between.
        let state = self.state.lock();
        self.disks.add(member, disk, &self.record(&state))
    }

    /// Is told whenever something changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let before = state.clone();
        let out = change(&mut state);
        state.elect();
        let changed = *state != before;
        if state.differs_for_good(&before) {
            state.version = state.version.max(before.version) + 1;
            self.disks.write(&self.record(&state));
        }
        if let Some(observer) = self.observer.as_ref().filter(|_| changed) {
            let voting = state.voters().count();
            (observer.0)(Quorum {
                cluster: self.id,
                voting,
                serving: state.voters().filter(|voter| state.serves(*voter)).count(),
                learning: state.members.len() - voting,
            });
        }
        drop(state);
        if changed {
            self.changed.send_modify(|version| *version += 1);
        }
        out
    }

    pub(crate) fn members(&self) -> Vec<Info> {
        self.state.lock().members.values().cloned().collect()
    }

    pub(crate) fn is_removed(&self, id: u64) -> bool {
        self.state.lock().removed.contains(&id)
    }

    /// A member says whom it reaches.
    pub(crate) fn report(&self, id: u64, reached: BTreeSet<u64>) {
        self.change(|state| {
            if state.members.contains_key(&id) {
                state.running.insert(id, reached);
            }
        });
    }

    /// A member has ended.
    pub(crate) fn stopped(&self, id: u64) {
        self.change(|state| {
            state.running.remove(&id);
        });
    }

    /// A member starts for the first time and says who it is; false where it is none, or has been started before.
    pub(crate) fn start(&self, id: u64, name: &str, client_urls: &[String]) -> bool {
        self.change(|state| match state.members.get_mut(&id) {
            Some(member) if member.name.is_empty() => {
                name.clone_into(&mut member.name);
                member.client_urls = client_urls.to_vec();
                true
            }
            _ => false,
        })
    }

    /// Whether it has a member of this id that has never been started.
    pub(crate) fn waits_for(&self, id: u64) -> bool {
        self.state.lock().members.get(&id).is_some_and(|member| member.name.is_empty())
    }

    /// Whether a member may answer now.
    pub(crate) fn serves(&self, id: u64) -> bool {
        self.state.lock().serves(id)
    }

    /// Whether a member votes.
    pub(crate) fn votes(&self, id: u64) -> bool {
        self.state.lock().members.get(&id).is_some_and(|member| !member.learner)
    }

    /// What a member says of itself.
    pub(crate) fn status(&self, id: u64) -> Value {
        let state = self.state.lock();
        let serves = state.serves(id);
        let leader = state.leader.filter(|_| serves).unwrap_or_default();
        let learner = state.members.get(&id).is_some_and(|member| member.learner);
        let applied = if state.in_sync.contains(&id) { state.index } else { 0 };
        let mut out = json!({
            "header": header_of(self.id, id, state.term), "version": super::VERSION, "dbSize": "20480",
            "leader": leader.to_string(), "raftIndex": state.index.to_string(),
            "raftTerm": state.term.to_string(), "raftAppliedIndex": applied.to_string(), "dbSizeInUse": "20480",
        });
        if learner {
            out["isLearner"] = true.into();
        }
        if !serves {
            out["errors"] = json!([NO_LEADER.message]);
        }
        out
    }

    pub(crate) fn header(&self, id: u64) -> Value {
        header_of(self.id, id, self.state.lock().term)
    }

    /// Adds a member that has not started yet.
    pub(crate) fn add(&self, peer_urls: &[String], learner: bool) -> Result<Info, Refusal> {
        self.change(|state| {
            let known = |member: &Info| member.peer_urls.iter().any(|url| peer_urls.contains(url));
            if state.members.values().any(known) {
                return Err(KNOWN);
            }
            if learner && state.members.values().filter(|member| member.learner).count() >= LEARNERS {
                return Err(TOO_MANY);
            }
            if !learner && !state.stays_started(None, 1) {
                return Err(UNHEALTHY);
            }
            state.index += 1;
            let id = super::id_of(&[&self.id.to_string(), &state.index.to_string(), &peer_urls.join(",")]);
            let member = Info {
                id,
                name: String::new(),
                peer_urls: peer_urls.to_vec(),
                client_urls: Vec::new(),
                learner,
            };
            state.members.insert(id, member.clone());
            Ok(member)
        })
    }

    /// Lets a learner vote.
    pub(crate) fn promote(&self, id: u64) -> Result<(), Refusal> {
        self.change(|state| {
            let in_sync = state.in_sync.contains(&id);
            let member = state.members.get_mut(&id).ok_or(NOT_FOUND)?;
            if !member.learner {
                return Err(NO_LEARNER);
            }
            if !in_sync {
                return Err(BEHIND);
            }
            member.learner = false;
            state.index += 1;
            Ok(())
        })
    }

    /// Takes a member out; it never comes back.
    pub(crate) fn remove(&self, id: u64) -> Result<(), Refusal> {
        self.change(|state| {
            let member = state.members.get(&id).ok_or(NOT_FOUND)?;
            if !member.learner && !member.name.is_empty() && !state.stays_started(Some(id), 0) {
                return Err(UNHEALTHY);
            }
            state.members.remove(&id);
            state.running.remove(&id);
            state.removed.insert(id);
            state.index += 1;
            Ok(())
        })
    }
}

impl State {
    /// Whether enough voters run with one of them gone, or with so many new ones that do not run yet.
    fn stays_started(&self, without: Option<u64>, more: usize) -> bool {
        let Some(leader) = self.leader else { return false };
        let left: Vec<u64> = self.voters().filter(|voter| Some(*voter) != without).collect();
        let started = left.iter().filter(|voter| self.reaches(leader, **voter)).count();
        started > usize::midpoint(left.len(), more)
    }
}

fn header_of(cluster: u64, member: u64, term: u64) -> Value {
    json!({"cluster_id": cluster.to_string(), "member_id": member.to_string(), "raft_term": term.to_string()})
}

/// The clusters there are, for members that have found each other.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    all: Mutex<BTreeMap<u64, Weak<Cluster>>>,
    observer: Option<Observer>,
}

impl Clusters {
    /// Nothing yet, and somebody who is told.
    pub(crate) fn observed(observer: Observer) -> Self {
        Self { observer: Some(observer), ..Self::default() }
    }

    /// Forms a new cluster; two members that do so at the same time, neither of which reaches the other yet, form one.
    pub(crate) fn form(&self, id: u64, by: u64, members: Vec<Info>, now: Timestamp) -> Arc<Cluster> {
        let mut all = self.all.lock();
        let waits = |cluster: &Arc<Cluster>| cluster.id == id && cluster.waits_for(by);
        if let Some(cluster) = all.values().filter_map(Weak::upgrade).find(waits) {
            return cluster;
        }
        // No number is given twice, not even to one that only a disk knows of yet.
        let (id_text, now) = (id.to_string(), now.as_nanosecond().to_string());
        let mut birth = super::id_of(&["birth", &id_text, &now]);
        while all.contains_key(&birth) {
            birth = birth.wrapping_add(1).max(1);
        }
        let cluster = Arc::new(Cluster::new(id, birth, members, self.observer.clone()));
        all.retain(|_, cluster| cluster.strong_count() > 0);
        all.insert(birth, Arc::downgrade(&cluster));
        cluster
    }

    /// The cluster a disk knows of: the one that others of its members have opened, or as the disk has it.
    pub(crate) fn open(&self, record: Record) -> Arc<Cluster> {
        let mut all = self.all.lock();
        if let Some(cluster) = all.get(&record.birth).and_then(Weak::upgrade) {
            drop(all);
            cluster.catch_up(record);
            return cluster;
        }
        let birth = record.birth;
        let cluster = Arc::new(Cluster::at(record, self.observer.clone()));
        all.insert(birth, Arc::downgrade(&cluster));
        cluster
    }

    /// The cluster that somebody told of.
    pub(crate) fn find(&self, birth: u64) -> Option<Arc<Cluster>> {
        self.all.lock().get(&birth).and_then(Weak::upgrade)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

    use super::*;

    fn three() -> Cluster {
        let member = |id: u64| Info {
            id,
            name: format!("m{id}"),
            peer_urls: vec![format!("https://m{id}:2380")],
            client_urls: Vec::new(),
            learner: false,
        };
        Cluster::new(7, 1, [1, 2, 3].map(member).to_vec(), None)
    }

    fn all_up(cluster: &Cluster, ids: &[u64]) {
        for id in ids {
            cluster.report(*id, ids.iter().copied().filter(|other| other != id).collect());
        }
    }

    #[test]
    fn a_majority_serves_and_a_minority_does_not() {
        let cluster = three();
        assert!(!cluster.serves(1));
        all_up(&cluster, &[1, 2, 3]);
        assert!([1, 2, 3].iter().all(|id| cluster.serves(*id)));
        // The third is cut off.
        all_up(&cluster, &[1, 2]);
        cluster.report(3, BTreeSet::new());
        assert!(cluster.serves(1) && cluster.serves(2) && !cluster.serves(3));
        cluster.stopped(2);
        cluster.report(1, BTreeSet::new());
        assert!(!cluster.serves(1));
    }

    #[test]
    fn a_learner_counts_for_nothing_until_it_is_promoted() {
        let cluster = three();
        all_up(&cluster, &[1, 2, 3]);
        let url = ["https://m4:2380".to_owned()];
        let learner = cluster.add(&url, true).unwrap();
        assert_eq!(cluster.add(&url, true).unwrap_err(), KNOWN);
        assert_eq!(cluster.add(&["https://m5:2380".to_owned()], true).unwrap_err(), TOO_MANY);
        assert_eq!(cluster.promote(learner.id).unwrap_err(), BEHIND, "it has not started");
        assert!(cluster.start(learner.id, "m4", &[]));
        assert!(!cluster.start(learner.id, "m4", &[]), "only once");
        all_up(&cluster, &[1, 2, 3, learner.id]);
        assert!(cluster.promote(learner.id).is_ok());
        assert_eq!(cluster.promote(learner.id).unwrap_err(), NO_LEARNER);
        assert_eq!(cluster.members().iter().filter(|member| !member.learner).count(), 4);
    }

    #[test]
    fn nobody_is_removed_whom_the_quorum_needs() {
        let cluster = three();
        all_up(&cluster, &[1, 2]);
        assert_eq!(cluster.remove(1).unwrap_err(), UNHEALTHY, "of two that are left one runs");
        assert!(cluster.remove(3).is_ok(), "the one that does not run may go");
        assert!(cluster.is_removed(3) && cluster.serves(1));
        assert_eq!(cluster.remove(3).unwrap_err(), NOT_FOUND);
    }

    #[test]
    fn the_newest_that_any_disk_has_counts() {
        let cluster = three();
        all_up(&cluster, &[1, 2, 3]);
        let old = cluster.record(&cluster.state.lock());
        cluster.remove(3).unwrap();
        let new = cluster.record(&cluster.state.lock());
        assert!(new.version > old.version);
        let text = serde_json::to_string(&new).unwrap();
        // After a restart: whoever comes first, the member that was removed stays removed.
        for order in [[&old, &new], [&new, &old]] {
            let clusters = Clusters::default();
            let opened: Vec<_> = order.iter().map(|record| clusters.open((*record).clone())).collect();
            assert!(Arc::ptr_eq(&opened[0], &opened[1]));
            let members: Vec<u64> = opened[0].members().iter().map(|member| member.id).collect();
            assert_eq!((members, opened[0].is_removed(3)), (vec![1, 2], true));
            assert!(!opened[0].serves(1), "nobody runs yet");
            all_up(&opened[0], &[1, 2]);
            assert!(opened[0].serves(1) && opened[0].serves(2));
        }
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), new);
    }

    #[test]
    fn no_number_is_given_twice() {
        let clusters = Clusters::default();
        let now = Timestamp::UNIX_EPOCH;
        let births: BTreeSet<u64> = (0..3).map(|by| clusters.form(7, by, Vec::new(), now).birth).collect();
        let kept: Vec<_> = (0..3).map(|by| clusters.form(7, by, Vec::new(), now)).collect();
        assert_eq!(kept.iter().map(|cluster| cluster.birth).collect::<BTreeSet<_>>().len(), 3);
        assert!(!births.contains(&0));
    }
}
