//! The controllers of a run: how they are started, killed, and started again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trellis_bootstrap::site::{Program, Sources};
use trellis_engine::controllers::{GivenPlugin, Growing, Settings, Spec, Tenant as Controller};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::SECRET;
use trellis_infra::object::{Key, Object as _};
use trellis_lab::User;
use trellis_lab::store::Store;
use trellis_model::Cluster;
use trellis_runtime::client::{Fence, Leads};
use trellis_runtime::lease::{Election, Terms};
use trellis_runtime::{Clock, Site};

use crate::failure::{Failure, Result};
use crate::stage::{CLUSTER, CONTROL, Disguise, Props};
use crate::tap::{Book, Incarnation, Tap};
use crate::tenant::Tenant;
use crate::world::{Server, World};

/// How long it takes until a controller that was killed is started again.
const RESTART: Duration = Duration::from_secs(2);

/// The controllers, and what it takes to start one.
pub(crate) struct Cast {
    book: Arc<Book>,
    world: Arc<World>,
    cluster: Arc<Cluster>,
    control: kube::Client,
    infra: kube::Client,
    /// The API of a tenant that is there from the beginning; one that is grown is found by its kubeconfig.
    tenant: Option<kube::Client>,
    stores: [Option<Arc<Store>>; 2],
    start: jiff::Timestamp,
    began: Instant,
    disguise: Option<Disguise>,
    skew: i64,
    pub(crate) twins: bool,
    running: Mutex<BTreeMap<Incarnation, Running>>,
}

struct Running {
    task: JoinHandle<()>,
    stop: CancellationToken,
    sites: Sites,
}

/// What a controller talks to; the tenant's API may not be there yet.
#[derive(Clone)]
struct Sites {
    control: Site,
    infra: Site,
    tenant: Option<Site>,
}

impl Sites {
    fn all(&self) -> impl Iterator<Item = &Site> {
        [&self.control, &self.infra].into_iter().chain(&self.tenant)
    }

    /// The same for somebody who may write only as long as the fence says so.
    fn fenced(&self, fence: &Fence) -> Self {
        let view = |site: &Site| site.view(site.name(), Arc::clone(fence));
        Self {
            control: view(&self.control),
            infra: view(&self.infra),
            tenant: self.tenant.as_ref().map(view),
        }
    }
}

impl Cast {
    pub(crate) async fn new(
        props: &Props,
        world: &Arc<World>,
        tenant: Option<&Tenant>,
        book: &Arc<Book>,
    ) -> Result<Self> {
        let store = |server: &Server| server.as_lab().map(|lab| Arc::clone(lab.store()));
        let infra = match tenant {
            Some(_) => connect(&world.server),
            // What is forwarded to machines needs connections of its own.
            None => world.client_by_wire().await?,
        };
        Ok(Self {
            book: Arc::clone(book),
            world: Arc::clone(world),
            cluster: Arc::new(cluster()?),
            control: connect(&world.server),
            infra,
            tenant: tenant.map(|tenant| connect(&tenant.server)),
            stores: [store(&world.server), tenant.and_then(|tenant| store(&tenant.server))],
            start: world.infra.context().clock.now(),
            began: Instant::now(),
            disguise: props.disguise.clone(),
            skew: props.skew,
            twins: props.twins,
            running: Mutex::default(),
        })
    }

    fn client(&self, who: Incarnation, site: &'static str, client: &kube::Client) -> kube::Client {
        let store = &self.stores[usize::from(site == "tenant")];
        let client = Tap::client(&self.book, site, who, client.clone(), store.clone());
        match &self.disguise {
            Some(disguise) => disguise(site, client),
            None => client,
        }
    }

    /// The API of the tenant, if there is one by now.
    async fn tenant(&self) -> Result<Option<kube::Client>> {
        if let Some(tenant) = &self.tenant {
            return Ok(Some(tenant.clone()));
        }
        let key = Key::new(CONTROL, &format!("{CLUSTER}-kubeconfig"));
        let Some(secret) = self.world.person.get(&SECRET, &key).await? else { return Ok(None) };
        let value = STANDARD.decode(secret.text("/data/value")).unwrap_or_default();
        let api = Key::new(CLUSTER, "api");
        Ok(Some(self.world.client_of(&String::from_utf8_lossy(&value), &api).await?))
    }

    /// Starts a controller that knows nothing.
    pub(crate) async fn start(&self) -> Result {
        let tenant = self.tenant().await?;
        let who = self.book.begin();
        let site = |name, client: &kube::Client| Site::new(name, self.client(who, name, client));
        let sites = Sites {
            control: site("control", &self.control),
            infra: site("infra", &self.infra),
            tenant: tenant.as_ref().map(|client| site("tenant", client)),
        };
        let wrong = jiff::SignedDuration::from_secs(if who.0 > 1 { self.skew } else { 0 });
        let now = self.start.checked_add(self.began.elapsed()).unwrap_or(self.start);
        let clock = Clock::from(now.checked_add(wrong).unwrap_or(now));
        let program = Program { url: "https://programs.example/trellis".to_owned(), sha256: "0".repeat(64) };
        let sources = Sources { trellis: Some(program), ..Sources::default() };
        let growing = Growing { sources, plugin: GivenPlugin::StandIn };
        let settings = Settings { seed: u64::from(who.0), growing, ..Settings::default() };
        let stop = CancellationToken::new();
        let token = stop.clone();
        let cluster = Arc::clone(&self.cluster);
        let grows = self.tenant.is_none();
        let task = if self.twins {
            tokio::spawn(reign(who, sites.clone(), cluster, settings, clock, grows, token))
        } else {
            let controller = Controller::new(spec(cluster, &sites), settings, clock);
            tokio::spawn(async move { work(&controller, grows, &token).await })
        };
        self.running.lock().insert(who, Running { task, stop, sites });
        Ok(())
    }

    /// Starts another controller for each that is killed. Ends only when one cannot be started.
    pub(crate) async fn keep(&self, mut deaths: UnboundedReceiver<Incarnation>) -> Result {
        while let Some(dead) = deaths.recv().await {
            let running = self.running.lock().remove(&dead);
            if let Some(running) = running {
                running.task.abort();
            }
            tokio::time::sleep(RESTART).await;
            self.start().await?;
        }
        Ok(())
    }

    /// Starts a controller anew as soon as the API of a tenant that is grown is known, as a fleet does.
    pub(crate) async fn introduce(&self) -> Result {
        let secrets = self.world.person.cache(&SECRET);
        let mut changes = secrets.changes();
        let key = Key::new(CONTROL, &format!("{CLUSTER}-kubeconfig"));
        while secrets.get(&key).is_none() {
            changes.recv().await;
        }
        let knows = self.running.lock().values().all(|running| running.sites.tenant.is_some());
        if knows { Ok(()) } else { self.replace().await }
    }

    /// Ends all controllers in good order and starts one that is new.
    pub(crate) async fn replace(&self) -> Result {
        let running = std::mem::take(&mut *self.running.lock());
        for (who, one) in running {
            one.stop.cancel();
            // Whoever is killed meanwhile ends, too.
            let _ = one.task.await;
            self.book.retire(who);
        }
        self.start().await
    }

    /// Gives all controllers new credentials.
    pub(crate) fn rotate(&self) {
        for (who, running) in self.running.lock().iter() {
            for site in running.sites.all() {
                let (name, client) = match (site.name(), &self.tenant) {
                    ("control", _) => ("control", &self.control),
                    ("infra", _) => ("infra", &self.infra),
                    (_, Some(tenant)) => ("tenant", tenant),
                    (_, None) => continue,
                };
                site.swap(self.client(*who, name, client), Leads::Same);
            }
        }
    }

    /// The controllers that run.
    pub(crate) fn running(&self) -> Vec<Incarnation> {
        self.running.lock().keys().copied().collect()
    }

    /// Has the servers forget what happened before.
    pub(crate) fn forget_history(&self) {
        for store in self.stores.iter().flatten() {
            store.resources().iter().for_each(|of| store.compact(of));
        }
    }
}

/// What a controller is to look after, at these sites.
fn spec(cluster: Arc<Cluster>, sites: &Sites) -> Spec {
    Spec {
        cluster,
        family: &TRELLIS,
        control: sites.control.clone(),
        control_namespace: CONTROL.to_owned(),
        tenant: sites.tenant.clone(),
        infra: sites.infra.clone(),
        sees_hosts: true,
    }
}

/// Looks after the tenant, and grows it where it is yet to be grown.
async fn work(controller: &Arc<Controller>, grows: bool, stop: &CancellationToken) {
    if grows {
        tokio::join!(biased; controller.grow(stop), controller.run(stop));
    } else {
        controller.run(stop).await;
    }
}

/// Looks after the tenant whenever it has the Lease, and writes only while it has it.
async fn reign(
    who: Incarnation,
    sites: Sites,
    cluster: Arc<Cluster>,
    settings: Settings,
    clock: Clock,
    grows: bool,
    stop: CancellationToken,
) {
    let key = trellis_runtime::Key::new(CONTROL, "trellis");
    let election = Election::new(&sites.control, key, &format!("replica-{}", who.0), clock, Terms::default());
    let mut leadership = election.leadership();
    let reigns = async {
        while let Ok(epoch) = leadership.wait_for(|one| one.epoch().is_some()).await.map(|one| one.epoch()) {
            let judge = election.clone();
            let fence: Fence = Arc::new(move || judge.epoch() == epoch);
            let fenced = sites.fenced(&fence);
            let spec = spec(Arc::clone(&cluster), &fenced);
            let controller = Controller::new(spec, settings.clone(), clock);
            tokio::select! {
                () = work(&controller, grows, &stop) => return,
                _ = leadership.wait_for(|one| one.epoch() != epoch) => {}
            }
        }
    };
    tokio::join!(election.run(&stop), reigns);
}

/// The cluster that is looked after.
fn cluster() -> Result<Cluster> {
    let unreadable = |error: &dyn std::fmt::Display| Failure::Client(error.to_string());
    let spec = json!({
        "platform": {"kubevirt": {"namespace": CLUSTER}}, "baseDomain": "svc.cluster.local", "version": "1.34.2",
    });
    Ok(Cluster {
        name: CLUSTER.parse().map_err(|_| unreadable(&"the name of the cluster"))?,
        namespace: Some(CONTROL.parse().map_err(|_| unreadable(&"the namespace of the cluster"))?),
        spec: serde_json::from_value(spec).map_err(|error| unreadable(&error))?,
    })
}

/// A client with all rights under the controllers' own name.
fn connect(server: &Server) -> kube::Client {
    let Some(lab) = server.as_lab() else { return server.client() };
    let user = User {
        name: "system:serviceaccount:trellis-system:trellis".to_owned(),
        groups: ["system:masters", "system:authenticated"].map(str::to_owned).to_vec(),
        ..User::default()
    };
    kube::Client::new(lab.service_as(user), "default")
}
