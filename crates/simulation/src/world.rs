//! An infra cluster, and what people do to it.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_infra::client::{Client, Identity};
use trellis_infra::kinds::{Kind, NAMESPACE, SERVICE};
use trellis_infra::network::fabric::Source;
use trellis_infra::object::{Key, Object as _};
use trellis_infra::service::install::SERVICES;
use trellis_infra::settings::Manager;
use trellis_infra::stages::Profile;
use trellis_infra::{Infra, Settings};
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};
use trellis_planes::{ControlPlanes, Quorum, programs};

use crate::failure::{Failure, Result};
use crate::wire;

/// How long anything may take that is waited for: virtual time is free.
const VIRTUAL_PATIENCE: Duration = Duration::from_mins(20);
/// The same on the machine's own time, where nothing takes as long as on a real cluster.
const PATIENCE: Duration = Duration::from_mins(2);

/// How often a connection to a tenant is tried.
const TRIES: usize = 8;

/// A person who looks at things and is none of the controllers.
const PERSON: Identity = Identity { program: "person", user: "person" };

/// What a world is made of.
#[derive(Debug, Clone)]
pub struct Make {
    /// The infra cluster.
    pub settings: Settings,
    /// Where the clocks start; nothing for the machine's own time.
    pub start: Option<Timestamp>,
}

impl Default for Make {
    /// Three hosts in as many zones, on which everything takes its time, in virtual time.
    fn default() -> Self {
        let start = "2026-01-01T00:00:00Z".parse().ok();
        let settings =
            Settings { seed: 1, profile: Profile::Realistic, virtual_start: start, ..Settings::default() };
        Self { settings, start }
    }
}

impl Make {
    /// The same on the machine's own time, where nothing takes any.
    #[must_use]
    pub fn on_machine_time(mut self) -> Self {
        self.settings.profile = Profile::Instant;
        self.settings.virtual_start = None;
        self.start = None;
        self
    }

    /// How long anything may take that is waited for.
    pub fn patience(&self) -> Duration {
        if self.start.is_some() { VIRTUAL_PATIENCE } else { PATIENCE }
    }
}

/// An API server that somebody else started, with its controller manager.
pub struct Outside {
    /// A client with all rights.
    pub client: kube::Client,
    /// Where it listens: `host:port`.
    pub address: String,
    /// The certificate of the authority that vouches for it, as PEM.
    pub authority: String,
    /// What keeps it running.
    pub running: Box<dyn Any + Send + Sync>,
}

/// An API server of a world.
pub enum Server {
    /// A lab of this process.
    Lab(Box<Lab>),
    /// One that somebody else started.
    Outside(Outside),
}

impl Server {
    /// A lab in which there is nothing.
    pub async fn start(make: &Make) -> Result<Self> {
        Self::lab(options(make)).await
    }

    pub(crate) async fn lab(options: Options) -> Result<Self> {
        let lab = Lab::start(options).await.map_err(|failure| Failure::Lab(failure.to_string()))?;
        Ok(Self::Lab(Box::new(lab)))
    }

    /// The lab, where it is one.
    pub fn as_lab(&self) -> Option<&Lab> {
        match self {
            Self::Lab(lab) => Some(lab),
            Self::Outside(_) => None,
        }
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        match self {
            Self::Lab(lab) => kube::Client::new(lab.service(), "default"),
            Self::Outside(outside) => outside.client.clone(),
        }
    }

    /// Where it is reached from outside: `host:port` of this machine.
    pub async fn reach(&mut self) -> Result<String> {
        match self {
            Self::Lab(lab) => {
                let listening = lab.listen(0).await.map_err(|failure| Failure::Lab(failure.to_string()))?;
                Ok(listening.address.to_string())
            }
            Self::Outside(outside) => Ok(outside.address.clone()),
        }
    }

    /// The certificate of the authority that vouches for it, as PEM.
    pub fn authority(&self) -> String {
        match self {
            Self::Lab(lab) => lab.authority_pem(),
            Self::Outside(outside) => outside.authority.clone(),
        }
    }
}

/// An infra cluster on an API server of its own.
pub struct World {
    /// The infra cluster.
    pub infra: Infra,
    /// A client of a person with all rights.
    pub person: Client,
    /// What it was made of.
    pub make: Make,
    /// How the clusters of etcd in its guests stood, at every change so far.
    pub quorums: Arc<Mutex<Vec<Quorum>>>,
    /// Its API server; machine objects live there, too. Dropped after its clients.
    pub server: Server,
}

impl World {
    /// Makes a world on a lab.
    pub async fn start(make: Make) -> Result<Self> {
        let server = Server::lab(options(&make)).await?;
        let (planes, quorums) = observed();
        let mut infra = Infra::new(server.client(), make.settings.clone(), programs(planes));
        if let Some(lab) = server.as_lab() {
            for (namespace, name) in SERVICES {
                let service = infra.service();
                lab.mount(namespace, name, move |stream| service.clone().connection(stream));
            }
        }
        infra.start_mounted().await?;
        Ok(Self { person: infra.context().client(PERSON), infra, make, quorums, server })
    }

    /// Makes a world beside an API server whose controller manager looks after its nodes and workloads.
    pub async fn start_beside(outside: Outside, mut make: Make) -> Result<Self> {
        make.settings.manager = Manager::Outside;
        let (planes, quorums) = observed();
        let mut infra = Infra::new(outside.client.clone(), make.settings.clone(), programs(planes));
        infra.start_beside().await?;
        let server = Server::Outside(outside);
        Ok(Self { person: infra.context().client(PERSON), infra, make, quorums, server })
    }

    /// A client of the API server with all rights, for a controller.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// A client with all rights over connections of its own: what is forwarded to machines needs one.
    pub async fn client_by_wire(&self) -> Result<kube::Client> {
        let told = |error: &dyn std::fmt::Display| Failure::Lab(error.to_string());
        let lab = self.server.as_lab().ok_or_else(|| told(&"the server is no lab"))?;
        let door = lab.door().map_err(|error| told(&error))?;
        let own = lab.client_certificate("person", &["system:masters"]).map_err(|error| told(&error))?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": "https://localhost:6443",
                "certificate-authority-data": STANDARD.encode(lab.authority_pem()),
            }}],
            "users": [{"name": "u", "user": {
                "client-certificate-data": STANDARD.encode(own.certificate),
                "client-key-data": STANDARD.encode(own.key.expose()),
            }}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let dial: wire::Dial = Arc::new(move || {
            let (near, far) = tokio::io::duplex(64 * 1024);
            tokio::spawn(door.clone().serve(far));
            Box::pin(std::future::ready(Ok(Box::new(near) as Box<dyn wire::Bytes>)))
        });
        wire::client(&kubeconfig.to_string(), dial).await
    }

    /// A client of a tenant whose API is behind a Service of the infra cluster, as somebody outside reaches it. Who
    /// is sent to a machine that does not answer tries again.
    pub async fn client_of(&self, kubeconfig: &str, service: &Key) -> Result<kube::Client> {
        let services = self.person.cache(&SERVICE);
        let fabric = Arc::clone(&self.infra.context().world.fabric);
        let key = service.clone();
        let dial: wire::Dial = Arc::new(move || {
            let (services, fabric, key) = (Arc::clone(&services), Arc::clone(&fabric), key.clone());
            Box::pin(async move {
                let nobody = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                for _ in 0..TRIES {
                    let service = services.get(&key).ok_or_else(nobody)?;
                    let address =
                        service.text("/status/loadBalancer/ingress/0/ip").parse().map_err(|_| nobody())?;
                    let connect = fabric.connect(&Source::Outside, address, 6443);
                    if let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(3), connect).await {
                        return Ok(Box::new(stream) as Box<dyn wire::Bytes>);
                    }
                }
                Err(nobody())
            })
        });
        wire::client(kubeconfig, dial).await
    }

    /// Makes a namespace.
    pub async fn namespace(&self, name: &str) -> Result {
        self.person.create_if_absent(&NAMESPACE, json!({"metadata": {"name": name}})).await?;
        Ok(())
    }

    /// Waits until an object is as wanted, and gives it.
    pub async fn until(
        &self,
        kind: &'static Kind,
        key: &Key,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Arc<Value>> {
        until(&self.person, self.make.patience(), kind, key, wanted).await
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, kind: &'static Kind, key: &Key) -> Result {
        until_gone(&self.person, self.make.patience(), kind, key).await
    }
}

/// The program of control planes, and how their clusters of etcd stood at every change.
fn observed() -> (ControlPlanes, Arc<Mutex<Vec<Quorum>>>) {
    let quorums = Arc::<Mutex<Vec<Quorum>>>::default();
    let told = Arc::clone(&quorums);
    let planes = ControlPlanes::observed(move |quorum| {
        if let Ok(mut told) = told.lock() {
            told.push(quorum);
        }
    });
    (planes, quorums)
}

/// The options of an API server in a world.
pub(crate) fn options(make: &Make) -> Options {
    let mut options = Options { seed: Some(make.settings.seed), ..Options::default() };
    if let Some(start) = make.start {
        options.clock = Arc::new(TokioClock::starting_at(start));
    }
    options
}

/// Waits until an object is as wanted, and gives it.
pub(crate) async fn until(
    client: &Client,
    patience: Duration,
    kind: &'static Kind,
    key: &Key,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Arc<Value>> {
    let cache = client.cache(kind);
    let mut changes = cache.changes();
    let found = async {
        loop {
            if let Some(object) = cache.get(key)
                && wanted(&object)
            {
                return object;
            }
            changes.recv().await;
        }
    };
    tokio::time::timeout(patience, found).await.map_err(|_| Failure::Never {
        what: format!("{} {key} did not become as wanted", kind.kind),
        instead: cache.get(key).map_or("it is not there".to_owned(), |object| object.to_string()),
    })
}

/// Waits until an object is gone.
pub(crate) async fn until_gone(
    client: &Client,
    patience: Duration,
    kind: &'static Kind,
    key: &Key,
) -> Result {
    let cache = client.cache(kind);
    let mut changes = cache.changes();
    let gone = async {
        while cache.get(key).is_some() {
            changes.recv().await;
        }
    };
    tokio::time::timeout(patience, gone).await.map_err(|_| Failure::Never {
        what: format!("{} {key} did not go", kind.kind),
        instead: cache.get(key).map(|object| object.to_string()).unwrap_or_default(),
    })
}
