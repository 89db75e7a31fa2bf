//! A world with a tenant whose controllers can be killed, started again and lied to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use trellis_infra::kinds::{CRD, Kind, SECRET, VM};
use trellis_infra::object::{Key, Object as _};

use crate::cast::Cast;
use crate::failure::{Failure, Result};
use crate::plan::Fault;
use crate::tap::Book;
use crate::tenant::Tenant;
use crate::trace::{Place, State, Trace};
use crate::world::{Make, Server, World};

/// The namespace of the machine objects.
pub const CONTROL: &str = "machines";
/// The cluster, and the namespace of its VMs.
pub const CLUSTER: &str = "blue";
/// How often somebody looks whether what is waited for is there.
const LOOK: Duration = Duration::from_secs(1);

/// Machines of our own family.
pub static MACHINE: Kind =
    Kind { group: "trellis.dev", version: "v1alpha1", kind: "Machine", plural: "machines", ..VM };
/// Pools of our own family.
pub static POOL: Kind =
    Kind { group: "trellis.dev", version: "v1alpha1", kind: "MachinePool", plural: "machinepools", ..VM };

/// Records of tenants.
pub static TENANT_CLUSTER: Kind =
    Kind { group: "trellis.dev", version: "v1alpha1", kind: "TenantCluster", plural: "tenantclusters", ..VM };

/// What a controller is given instead of a client: how a controller is broken on purpose.
pub type Disguise = Arc<dyn Fn(&'static str, kube::Client) -> kube::Client + Send + Sync>;

/// What a stage is made of.
#[derive(Clone)]
pub struct Props {
    /// What all chance comes from.
    pub seed: u64,
    /// What goes wrong at points.
    pub faults: Vec<Fault>,
    /// What controllers are given instead of their clients.
    pub disguise: Option<Disguise>,
    /// How many hosts there are.
    pub hosts: usize,
    /// How far the clock of each controller after the first goes wrong, in seconds.
    pub skew: i64,
    /// Whether two controllers share the work by a Lease.
    pub twins: bool,
    /// Whether the tenant is yet to be grown, control plane and all.
    pub grows: bool,
}

/// A world with one tenant, and whoever looks after it.
pub struct Stage {
    /// The infra cluster.
    pub world: Arc<World>,
    tenant: Option<Tenant>,
    /// What was asked and told.
    pub book: Arc<Book>,
    /// What happened to objects.
    pub trace: Trace,
    cast: Arc<Cast>,
    _helpers: JoinSet<()>,
}

impl Stage {
    /// A stage on which nobody looks after the tenant yet.
    pub async fn set(props: Props) -> Result<Self> {
        let mut make = Make::default();
        make.settings.seed = props.seed;
        make.settings.hosts = props.hosts;
        make.settings.zones = 1;
        let world = Arc::new(World::start(make).await?);
        let tenant = if props.grows { None } else { Some(Tenant::start(&world, CLUSTER).await?) };
        install_kinds(&world).await?;
        for namespace in [CONTROL, CLUSTER] {
            world.namespace(namespace).await?;
        }
        let trace = Trace::default();
        let follow = |place, server: &Server| {
            if let Some(lab) = server.as_lab() {
                trace.follow(place, lab.store());
            }
        };
        follow(Place::World, &world.server);
        if let Some(tenant) = &tenant {
            follow(Place::Tenant, &tenant.server);
            let data = tenant.user_data()?;
            let secret = json!({
                "metadata": {"namespace": CONTROL, "name": "join"}, "stringData": {"userData": data},
            });
            world.person.create(&SECRET, secret).await?;
        }
        let (book, deaths) = Book::new(props.faults.clone(), trace.clone());
        let book = Arc::new(book);
        let cast = Arc::new(Cast::new(&props, &world, tenant.as_ref(), &book).await?);
        let mut helpers = JoinSet::new();
        let following = trace.clone();
        helpers.spawn(async move { following.run().await });
        // Where a controller cannot be started, the run does not come to its end.
        let keeper = Arc::clone(&cast);
        helpers.spawn(async move { keeper.keep(deaths).await.unwrap_or_default() });
        if props.grows {
            let usher = Arc::clone(&cast);
            helpers.spawn(async move { usher.introduce().await.unwrap_or_default() });
        }
        Ok(Self { world, tenant, book, trace, cast, _helpers: helpers })
    }

    /// The tenant that was there from the beginning.
    pub fn tenant(&self) -> Result<&Tenant> {
        self.tenant.as_ref().ok_or_else(|| Failure::Client("the tenant is yet to be grown".to_owned()))
    }

    /// Starts a controller, or two that share the work.
    pub async fn look_after(&self) -> Result {
        self.cast.start().await?;
        if self.cast.twins {
            self.cast.start().await?;
        }
        Ok(())
    }

    /// Ends all controllers in good order and starts one that is new.
    pub async fn upgrade(&self) -> Result {
        self.book.done("the controller is upgraded".to_owned());
        self.cast.replace().await
    }

    /// Gives the controllers new credentials for all sites.
    pub fn rotate_credentials(&self) {
        self.book.done("all credentials are new".to_owned());
        self.cast.rotate();
    }

    /// Kills the controllers that run.
    pub fn kill(&self) {
        self.cast.running().into_iter().for_each(|who| self.book.kill(who));
    }

    /// Kills one of the controllers that run.
    pub fn kill_one(&self) {
        self.cast.running().into_iter().take(1).for_each(|who| self.book.kill(who));
    }

    /// Has the servers forget their history and ends all watches, as when a store is opened again.
    pub fn forget_history(&self) {
        self.cast.forget_history();
        self.book.cut_all();
    }

    /// Waits until everything is as wanted, at most so long; whether it is.
    pub async fn until(&self, patience: Duration, wanted: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        while !self.trace.look(&wanted) {
            if Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Changes an object of the control site, as a person does.
    pub async fn change(&self, kind: &'static Kind, name: &str, patch: &Value) -> Result {
        self.book.done(format!("{} {name} becomes {patch}", kind.kind));
        self.world.person.merge(kind, &Key::new(CONTROL, name), patch).await?;
        Ok(())
    }

    /// Makes an object of the control site, as a person does.
    pub async fn create(&self, kind: &'static Kind, mut object: Value) -> Result {
        self.book.done(format!("{} {} is made", kind.kind, object.name()));
        object.set("/metadata/namespace", CONTROL.into());
        self.world.person.create(kind, object).await?;
        Ok(())
    }
}

/// Installs our own kinds.
async fn install_kinds(world: &World) -> Result {
    let crds = trellis_api::trellis::crds();
    for crd in &crds {
        world.person.create(&CRD, crd.clone()).await?;
    }
    for crd in &crds {
        world.until(&CRD, &Key::of(crd), |crd| crd.condition_holds("Established")).await?;
    }
    Ok(())
}
