//! The life of a member: it finds its cluster, keeps in touch with the others, and answers clients.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::{broadcast, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use trellis_infra::guests::Guest;

use super::cluster::{Cluster, Clusters, Info};
use super::config::{Config, place};
use super::disks::{Disk, Written};
use super::gateway;
use crate::web::{self, Asked, Caller};

/// How often members hear of each other.
const BEAT: Duration = Duration::from_secs(2);
/// How long a member waits for another before it counts as away.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long to wait before another is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How many calls of others are remembered by who is busy.
const CALLERS: usize = 16;
/// How much fits between two programs of one guest.
const BUFFER: usize = 64 * 1024;

/// What a member keeps in its data directory.
struct Data {
    cluster: Arc<Cluster>,
    id: u64,
}

/// What was last heard of another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    /// The cluster it is in; zero while it is in none.
    birth: u64,
}

/// A member that runs.
pub(crate) struct Member {
    guest: Guest,
    config: Config,
    id: u64,
    cluster_id: u64,
    cluster: watch::Sender<Option<Arc<Cluster>>>,
    links: Mutex<BTreeMap<u64, Heard>>,
    /// Who has called: it can be reached, most likely.
    callers: broadcast::Sender<u64>,
    news: watch::Sender<u64>,
}

/// Runs a member until it fails or its guest ends; `up` tells the other programs of the guest of it.
pub(crate) async fn run(
    guest: &Guest,
    clusters: &Clusters,
    up: &watch::Sender<Option<Arc<Member>>>,
) -> Result<Infallible, String> {
    let config = Config::read(guest)?;
    let kept = guest.kept(&config.data_dir).and_then(|kept| kept.downcast::<Data>().ok());
    let (id, cluster_id, cluster) = match kept {
        Some(data) => (data.id, data.cluster.id, Some(Arc::clone(&data.cluster))),
        None => match Written::read(&guest.boot, &config.data_dir)? {
            Some(Written { id, record }) => {
                let cluster = clusters.open(record);
                keep(guest, &config, &cluster, id)?;
                // Where it was interrupted before it had said who it is.
                cluster.start(id, &config.name, &config.client_urls);
                (id, cluster.id, Some(cluster))
            }
            None if config.existing => {
                let (cluster, id) = join(guest, &config, clusters).await?;
                (id, cluster.id, Some(cluster))
            }
            None => (config.own_id(), config.cluster_id(), None),
        },
    };
    let member = Arc::new(Member {
        guest: guest.clone(),
        config,
        id,
        cluster_id,
        cluster: watch::Sender::new(cluster),
        links: Mutex::default(),
        callers: broadcast::Sender::new(CALLERS),
        news: watch::Sender::new(0),
    });
    let _running = Running { up, member: &member };
    up.send_replace(Some(Arc::clone(&member)));
    let mut servers = JoinSet::new();
    servers.spawn(Arc::clone(&member).serve_peers());
    if let Some(port) = member.config.client_port {
        servers.spawn(Arc::clone(&member).serve_clients(port));
    }
    member.keep_up(clusters).await
}

/// Puts onto the disk of a guest which member of which cluster it is: from then on it is no new one.
fn keep(guest: &Guest, config: &Config, cluster: &Arc<Cluster>, id: u64) -> Result<(), String> {
    if let Some(disk) = Disk::of(guest, &config.data_dir) {
        cluster.put_on(id, disk)?;
    }
    guest.keep(&config.data_dir, Arc::new(Data { cluster: Arc::clone(cluster), id }));
    Ok(())
}

/// Starts a member that has never been started, once its disk knows of it.
fn begin(guest: &Guest, config: &Config, cluster: &Arc<Cluster>, id: u64) -> Result<(), String> {
    if !cluster.waits_for(id) {
        return Err(format!("member {id:x} has already been bootstrapped"));
    }
    keep(guest, config, cluster, id)?;
    cluster.start(id, &config.name, &config.client_urls);
    Ok(())
}

/// Takes back what was told of a member, however it ends.
struct Running<'a> {
    up: &'a watch::Sender<Option<Arc<Member>>>,
    member: &'a Member,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.up.send_replace(None);
        if let Some(cluster) = self.member.cluster() {
            cluster.stopped(self.member.id);
        }
    }
}

/// Asks the members there are for their cluster, of which this one must be a member already.
async fn join(guest: &Guest, config: &Config, clusters: &Clusters) -> Result<(Arc<Cluster>, u64), String> {
    let mut trouble = vec!["could not retrieve cluster information from the given URLs".to_owned()];
    for url in config.others() {
        let asked = async {
            let mut caller = dial(guest, config, &url).await?;
            caller.call(Method::GET, "/members", &Value::Null).await
        };
        let answer = match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok((200, answer))) => answer,
            Ok(Ok((code, _))) => {
                trouble.push(format!("{url} answers {code}"));
                continue;
            }
            Ok(Err(why)) => {
                trouble.push(format!("{url}: {why}"));
                continue;
            }
            Err(_) => {
                trouble.push(format!("{url}: it takes too long"));
                continue;
            }
        };
        let Some(cluster) = answer["birth"].as_u64().and_then(|birth| clusters.find(birth)) else { continue };
        let members = cluster.members();
        let Some(own) = members.iter().find(|member| member.peer_urls == config.own_urls()) else {
            return Err(format!(
                "error validating peerURLs: {} is none of the {} members of the cluster; it has to be added first",
                config.own_urls().join(","),
                members.len()
            ));
        };
        begin(guest, config, &cluster, own.id)?;
        return Ok((cluster, own.id));
    }
    Err(trouble.join("; "))
}

/// Connects to another member, each showing the other its certificate.
async fn dial(guest: &Guest, config: &Config, url: &str) -> Result<Caller, String> {
    let (host, port) = place(url)?;
    let stream =
        guest.network.connect(&host, port).await.map_err(|error| format!("dial {host}:{port}: {error}"))?;
    let name = ServerName::try_from(host.clone()).map_err(|_| format!("{host} is no name of a server"))?;
    let connector = TlsConnector::from(Arc::clone(&config.peer_client));
    let stream = connector.connect(name, stream).await.map_err(|error| format!("{host}: {error}"))?;
    Caller::new(stream, &host).await
}

impl Member {
    /// Which member it is.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The cluster it is in, once it has found it.
    pub(crate) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.borrow().clone()
    }

    /// Waits until the cluster is found.
    pub(crate) async fn found(&self) -> Option<Arc<Cluster>> {
        let mut cluster = self.cluster.subscribe();
        cluster.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Whether it votes and serves.
    pub(crate) fn serves(&self) -> bool {
        self.cluster
            .borrow()
            .as_ref()
            .is_some_and(|cluster| cluster.votes(self.id) && cluster.serves(self.id))
    }

    /// A connection of another program of the guest to it.
    pub(crate) fn loopback(self: &Arc<Self>) -> DuplexStream {
        let (near, far) = tokio::io::duplex(BUFFER);
        // Ends with its connection.
        tokio::spawn(Arc::clone(self).attend(far));
        near
    }

    /// Forms or finds the cluster, and keeps in touch with its members.
    async fn keep_up(self: &Arc<Self>, clusters: &Clusters) -> Result<Infallible, String> {
        let mut links = Links::default();
        let mut news = self.news.subscribe();
        loop {
            news.borrow_and_update();
            let mut changes = if let Some(cluster) = self.cluster() {
                if cluster.is_removed(self.id) {
                    return Err("the member has been permanently removed from the cluster".to_owned());
                }
                let changes = cluster.changes();
                links.follow(self, &cluster.members());
                cluster.report(self.id, self.links.lock().keys().copied().collect());
                Some(changes)
            } else {
                links.follow(self, &self.config.first_members());
                if let Some(cluster) = self.find(clusters)? {
                    self.cluster.send_replace(Some(cluster));
                    self.news.send_modify(|news| *news += 1);
                }
                None
            };
            let changed = async {
                match &mut changes {
                    Some(changes) => drop(changes.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = news.changed() => {}
                () = changed => {}
            }
        }
    }

    /// The cluster others are in already, or a new one as soon as enough that are in none reach each other. Of those
    /// the first by id forms it.
    fn find(&self, clusters: &Clusters) -> Result<Option<Arc<Cluster>>, String> {
        let links = self.links.lock().clone();
        let members = self.config.first_members();
        let told = links.values().map(|heard| heard.birth).find(|birth| *birth != 0);
        let cluster = if let Some(cluster) = told.and_then(|birth| clusters.find(birth)) {
            cluster
        } else if told.is_none()
            && links.len() + 1 > members.len() / 2
            && links.keys().all(|id| self.id < *id)
        {
            self.guest.log("etcd", "a quorum of new members is there: forming the cluster");
            clusters.form(self.cluster_id, self.id, members, self.guest.clock.now())
        } else {
            return Ok(None);
        };
        begin(&self.guest, &self.config, &cluster, self.id)?;
        Ok(Some(cluster))
    }

    /// Keeps in touch with another member.
    async fn link(self: Arc<Self>, other: Info) {
        let mut last = String::new();
        loop {
            let Some(url) = other.peer_urls.first() else { return };
            // From before it is tried: a call meanwhile counts.
            let mut callers = self.callers.subscribe();
            let Err(why) = self.beats(&other, url).await;
            if self.links.lock().remove(&other.id).is_some() {
                self.news.send_modify(|news| *news += 1);
            }
            if why != last {
                self.guest.log("etcd", &format!("the peer {url} is not reached: {why}"));
                last = why;
            }
            tokio::select! {
                () = self.guest.pause(AGAIN) => {}
                () = called(&mut callers, other.id) => {}
            }
        }
    }

    async fn beats(&self, other: &Info, url: &str) -> Result<Infallible, String> {
        let late = |_| "it takes too long".to_owned();
        let mut caller =
            tokio::time::timeout(PATIENCE, dial(&self.guest, &self.config, url)).await.map_err(late)??;
        let mut found = self.cluster.subscribe();
        loop {
            let birth = found.borrow_and_update().as_ref().map_or(0, |cluster| cluster.birth);
            let beat = json!({"from": self.id, "to": other.id, "cluster": self.cluster_id, "birth": birth});
            let asked = caller.call(Method::POST, "/raft/beat", &beat);
            let (code, answer) = tokio::time::timeout(PATIENCE, asked).await.map_err(late)??;
            if code != 200 {
                let why = answer["error"].as_str().unwrap_or_default();
                return Err(format!("it answers {code}: {why}"));
            }
            let heard = Heard { birth: answer["birth"].as_u64().unwrap_or_default() };
            if self.links.lock().insert(other.id, heard) != Some(heard) {
                self.news.send_modify(|news| *news += 1);
            }
            tokio::select! {
                () = self.guest.sleep(BEAT) => {}
                // The others need not wait to hear that there is a cluster.
                _ = found.changed() => {}
            }
        }
    }

    async fn serve_peers(self: Arc<Self>) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.peer_server));
        let port = self.config.peer_port;
        listen(&self.guest.clone(), port, move |stream| {
            let (acceptor, member) = (acceptor.clone(), Arc::clone(&self));
            async move {
                let stream = match acceptor.accept(stream).await {
                    Ok(stream) => stream,
                    Err(error) => {
                        return member
                            .guest
                            .log("etcd", &format!("rejected connection on peer endpoint: {error}"));
                    }
                };
                web::serve(stream, |asked| std::future::ready(member.answer_peer(&asked))).await;
            }
        })
        .await;
    }

    fn answer_peer(&self, asked: &Asked) -> (u16, Value) {
        let cluster = self.cluster();
        let birth = cluster.as_ref().map_or(0, |cluster| cluster.birth);
        match (asked.path.as_str(), cluster) {
            ("/members", Some(cluster)) => {
                let members: Vec<Value> = cluster.members().iter().map(Info::json).collect();
                (200, json!({"cluster": cluster.id, "birth": birth, "members": members}))
            }
            ("/members", None) => (503, json!({"error": "it is in no cluster yet"})),
            ("/raft/beat", cluster) => {
                let (theirs, ours) = (asked.body["cluster"].as_u64().unwrap_or_default(), self.cluster_id);
                let from = asked.body["from"].as_u64().unwrap_or_default();
                self.called_by(from, asked.body["birth"].as_u64().unwrap_or_default());
                if theirs != ours {
                    let error = format!("request cluster ID mismatch (got {theirs:x} want {ours:x})");
                    return (412, json!({"error": error}));
                }
                if cluster.is_some_and(|cluster| cluster.is_removed(from)) {
                    return (
                        410,
                        json!({"error": "the member has been permanently removed from the cluster"}),
                    );
                }
                (200, json!({"birth": birth}))
            }
            _ => (404, json!({"error": "there is no such page"})),
        }
    }

    /// Takes in what another member says who calls.
    fn called_by(&self, from: u64, birth: u64) {
        match self.links.lock().get_mut(&from) {
            None => {
                // Nobody may be waiting for it.
                let _ = self.callers.send(from);
            }
            Some(heard) if birth != 0 && heard.birth != birth => {
                heard.birth = birth;
                self.news.send_modify(|news| *news += 1);
            }
            Some(_) => {}
        }
    }

    async fn serve_clients(self: Arc<Self>, port: u16) {
        let guest = self.guest.clone();
        listen(&guest, port, move |stream| Arc::clone(&self).attend(stream)).await;
    }

    /// Serves a client.
    async fn attend(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.client_server));
        match acceptor.accept(stream).await {
            Ok(stream) => {
                let answer = |asked: Asked| {
                    let cluster = self.cluster();
                    std::future::ready(gateway::answer(cluster.as_deref(), self.id, &asked))
                };
                web::serve(stream, answer).await;
            }
            Err(error) => self.guest.log("etcd", &format!("rejected connection on client endpoint: {error}")),
        }
    }
}

/// Waits until another member has called.
async fn called(callers: &mut broadcast::Receiver<u64>, other: u64) {
    loop {
        match callers.recv().await {
            Ok(caller) if caller == other => return,
            Ok(_) => {}
            // Among the calls that were missed may be its.
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The connections to the other members, one task each.
#[derive(Default)]
struct Links {
    tasks: JoinSet<()>,
    to: BTreeMap<u64, AbortHandle>,
}

impl Links {
    /// Begins and ends connections until there is one to each of these members.
    fn follow(&mut self, member: &Arc<Member>, members: &[Info]) {
        let wanted: BTreeSet<u64> = members.iter().map(|other| other.id).collect();
        self.to.retain(|id, task| {
            let stays = wanted.contains(id);
            if !stays {
                task.abort();
                member.links.lock().remove(id);
            }
            stays
        });
        for other in members.iter().filter(|other| other.id != member.id) {
            self.to
                .entry(other.id)
                .or_insert_with(|| self.tasks.spawn(Arc::clone(member).link(other.clone())));
        }
    }
}

/// Serves a port of the guest for as long as the machine runs, wherever it is moved to.
pub(crate) async fn listen<F, S>(guest: &Guest, port: u16, serve: S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(trellis_infra::network::fabric::Stream) -> F,
{
    let mut served = JoinSet::new();
    loop {
        let pod = guest.network.pod();
        let mut connections = guest.network.listen(port);
        while let Some(stream) = connections.recv().await {
            guest.running().await;
            served.spawn(serve(stream));
            while served.try_join_next().is_some() {}
        }
        // The machine is in another pod, or about to be.
        if guest.network.pod() == pod {
            guest.sleep(AGAIN).await;
        }
    }
}
