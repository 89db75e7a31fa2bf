//! `trellis machine-config-server` in a guest: hands configurations to the machines that come after it.
//!
//! It is the shipped server on the guest's network, from the folder its unit names: nothing is handed out that is not on
//! this guest's disk or, where the unit names a kubeconfig, in the Secret of the cluster that this leads to.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use trellis_bootstrap::names::MACHINE_CONFIG_PORT;
use trellis_bootstrap::server::folder::{BUNDLE, LEDGER, SITE};
use trellis_bootstrap::server::shared::{self, Shared, Shelf, Shelved};
use trellis_bootstrap::server::{Ledger, Pending, Server, Source};
use trellis_bootstrap::tokens::{Redeemed, Refusal};
use trellis_bootstrap::{Bundle, Site};
use trellis_infra::client::{Client, Identity};
use trellis_infra::guests::boot::Boot;
use trellis_infra::guests::kubelet::client_of;
use trellis_infra::guests::{Guest, Program};
use trellis_infra::kinds::SECRET;
use trellis_infra::object::{Key, Object as _};
use trellis_model::names::MachineName;

use crate::etcd::listen;
use crate::manifest::text;

/// How a unit starts it.
const COMMAND: &str = "trellis machine-config-server --config ";
/// How it is told that it shares its ledger.
const SHARED: &str = "--shared-ledger";
/// Who it is to the API: whoever its credentials say.
const SERVER: Identity = Identity { program: "trellis", user: "" };

/// The machine config server of a guest whose units start one.
#[derive(Debug)]
pub struct MachineConfigServers;

impl Program for MachineConfigServers {
    fn name(&self) -> &'static str {
        "trellis"
    }

    fn is_started_by(&self, boot: &Boot) -> bool {
        Started::of(boot).is_some()
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let started = Started::of(&guest.boot).ok_or("no folder is named")?;
            let (source, ledger): (Arc<dyn Source>, Arc<dyn Ledger>) = match started.kubeconfig {
                None => {
                    let disk = Arc::new(Disk::read(&guest, started.folder)?);
                    (Arc::<Disk>::clone(&disk), disk)
                }
                Some(path) => {
                    let keys = Keys { guest: guest.clone(), folder: started.folder };
                    let secret = Secret { guest: guest.clone(), path, client: OnceCell::new() };
                    let shared = Arc::new(Shared::new(keys, Arc::new(secret)));
                    (Arc::<Shared<Keys>>::clone(&shared), shared)
                }
            };
            let (clock, seed) = (guest.clock, guest.stages.seed());
            let ledger = Arc::new(Told { guest: guest.clone(), ledger });
            let server = Server::new(
                source,
                ledger,
                Arc::new(move || clock.now()),
                Box::new(StdRng::seed_from_u64(seed)),
            );
            server.check().map_err(|error| error.to_string())?;
            guest.log("trellis", &format!("handing out configurations on [::]:{MACHINE_CONFIG_PORT}"));
            listen(&guest, MACHINE_CONFIG_PORT, |stream| {
                let server = server.clone();
                async move { server.connection(stream).await }
            })
            .await;
            Ok(())
        })
    }
}

/// What the unit says.
struct Started {
    /// The folder it serves from.
    folder: String,
    /// The credentials for the Secret it shares with others, if it does.
    kubeconfig: Option<String>,
}

impl Started {
    fn of(boot: &Boot) -> Option<Self> {
        let words = boot.lines().find_map(|line| Some(line.split_once(COMMAND)?.1.split_whitespace()))?;
        let words: Vec<&str> = words.map(|word| word.trim_matches('"')).collect();
        let folder = (*words.first()?).to_owned();
        let kubeconfig = words.iter().skip_while(|word| **word != SHARED).nth(1);
        Some(Self { folder, kubeconfig: kubeconfig.map(|path| (*path).to_owned()) })
    }
}

/// A ledger that tells on the console what becomes of tokens.
struct Told {
    guest: Guest,
    ledger: Arc<dyn Ledger>,
}

impl Ledger for Told {
    fn redeem<'l>(
        &'l self,
        machine: &'l MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Pending<'l, Result<(), Refusal>> {
        Box::pin(async move {
            let redeemed = self.ledger.redeem(machine, issued, now).await;
            let outcome = match &redeemed {
                Ok(()) => format!("handed out to {machine}"),
                Err(refusal) => format!("{machine} is refused: {refusal}"),
            };
            self.guest.log("trellis", &outcome);
            redeemed
        })
    }
}

/// The keys on the disk of the guest.
struct Keys {
    guest: Guest,
    folder: String,
}

impl Source for Keys {
    fn bundle(&self) -> Result<Bundle, String> {
        read(&self.guest.boot, &self.folder, BUNDLE)
    }

    fn site(&self) -> Pending<'_, Result<Site, String>> {
        Box::pin(std::future::ready(read(&self.guest.boot, &self.folder, SITE)))
    }
}

/// What is on the disk of the guest. A token that was used is written there before anybody is told.
struct Disk {
    keys: Keys,
    ledger: Mutex<Redeemed>,
}

impl Disk {
    fn read(guest: &Guest, folder: String) -> Result<Self, String> {
        let ledger = read(&guest.boot, &folder, LEDGER)?;
        Ok(Self { keys: Keys { guest: guest.clone(), folder }, ledger: Mutex::new(ledger) })
    }
}

impl Source for Disk {
    fn bundle(&self) -> Result<Bundle, String> {
        self.keys.bundle()
    }

    fn site(&self) -> Pending<'_, Result<Site, String>> {
        self.keys.site()
    }
}

impl Ledger for Disk {
    fn redeem<'l>(
        &'l self,
        machine: &'l MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Pending<'l, Result<(), Refusal>> {
        let mut ledger = self.ledger.lock();
        let redeemed = ledger.redeem(machine, issued, now);
        if redeemed.is_ok() {
            let text = json!(*ledger).to_string();
            self.keys.guest.keep_file(&format!("{}/{LEDGER}", self.keys.folder), text.into_bytes());
        }
        Box::pin(std::future::ready(redeemed))
    }
}

/// The Secret in the cluster of the guest.
struct Secret {
    guest: Guest,
    path: String,
    client: OnceCell<Client>,
}

impl Secret {
    fn key() -> Key {
        Key::new(shared::NAMESPACE, shared::NAME)
    }

    async fn client(&self) -> Result<&Client, String> {
        let connect = || async {
            let path = &self.path;
            let kubeconfig = text(&self.guest.boot, path).map_err(|why| format!("{path}: {why}"))?;
            Ok(Client::new(client_of(&self.guest, &kubeconfig).await?, SERVER))
        };
        self.client.get_or_try_init(connect).await
    }
}

impl Shelf for Secret {
    fn read(&self) -> Pending<'_, Result<Option<Shelved>, String>> {
        Box::pin(async move {
            let secret = self.client().await?.get(&SECRET, &Self::key()).await;
            let Some(secret) = secret.map_err(|error| error.to_string())? else { return Ok(None) };
            let text = |key: &str| {
                let bytes = STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).ok();
                let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                text.ok_or_else(|| format!("{key} is no text"))
            };
            let version = secret.text("/metadata/resourceVersion").to_owned();
            Ok(Some(Shelved { site: text(shared::SITE)?, ledger: text(shared::LEDGER)?, version }))
        })
    }

    fn write<'s>(&'s self, ledger: String, version: &'s str) -> Pending<'s, Result<bool, String>> {
        Box::pin(async move {
            let patch: Value = json!({
                "metadata": {"resourceVersion": version},
                "data": {shared::LEDGER: STANDARD.encode(ledger)},
            });
            match self.client().await?.merge(&SECRET, &Self::key(), &patch).await {
                Ok(_) => Ok(true),
                Err(error) if error.is_conflict() => Ok(false),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

fn read<T: DeserializeOwned>(boot: &Boot, folder: &str, name: &str) -> Result<T, String> {
    let path = format!("{folder}/{name}");
    let text = text(boot, &path).map_err(|why| format!("{path}: {why}"))?;
    // Told by its place only: the text around it may be a key.
    serde_json::from_str(&text).map_err(|error| {
        format!("{path}: not understood at line {}, column {}", error.line(), error.column())
    })
}
