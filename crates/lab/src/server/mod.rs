//! One API server: its store, its rules and its parts.

pub(crate) mod aggregate;
mod bootstrap;
pub(crate) mod chance;
mod convert;
mod documents;
pub(crate) mod flow;
mod handle;
mod health;
mod kinds;
mod room;
mod services;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::Value;

use crate::admission::Admission;
use crate::auth::{self, Authenticator, Authorizer, Impersonator, Pki, Reviews, Tokens};
use crate::clock::Clock;
use crate::faults::FaultPlan;
use crate::kinds::allocation::ServiceNetwork;
use crate::names::{GroupResource, Gvk};
use crate::openapi::OpenApi;
use crate::reader::Reader;
use crate::registry::{Registry, Served, Source};
use crate::schema::decode;
use crate::status::Status;
use crate::store::{Draft, Key, Query, Record, Store};
use crate::webhook;

pub(crate) use bootstrap::Parts;
pub(crate) use handle::{Peer, handle};
pub(crate) use services::Allocation;

/// The letters of generated names: no vowels, so that no words come about.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest prefix of a generated name.
const NAME_PREFIX: usize = 58;
/// How many letters a generated name ends with.
const NAME_SUFFIX: usize = 5;

/// The parts of a server.
pub(crate) struct Server {
    store: Arc<Store>,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    faults: FaultPlan,
    chance: Arc<chance::Chance>,
    pki: Arc<Pki>,
    authenticator: Arc<Authenticator>,
    impersonator: Impersonator,
    reviews: Reviews,
    authorizer: Arc<Authorizer>,
    tokens: Arc<Tokens>,
    admission: Admission,
    webhooks: Arc<webhook::Client>,
    openapi: OpenApi,
    flows: flow::Flows,
    /// The addresses and ports that are taken.
    services: Arc<Mutex<services::TakenByServices>>,
    service_network: ServiceNetwork,
    /// What is known about other servers.
    remote: aggregate::Remote,
    /// Where it listens, once it does.
    address: OnceLock<SocketAddr>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("version", &self.store.version()).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Notes where clients reach the server; the first address counts.
    pub(crate) fn reached_at(&self, address: SocketAddr) {
        let _ = self.address.set(address);
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where the addresses of Services are from.
    pub(crate) fn service_network(&self) -> ServiceNetwork {
        self.service_network
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Puts a server of this process behind a service.
    pub(crate) fn mount(&self, namespace: &str, name: &str, dock: webhook::Dock) {
        self.webhooks.mount(namespace, name, dock);
    }

    pub(crate) fn faults(&self) -> &FaultPlan {
        &self.faults
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    pub(crate) fn reviews(&self) -> &Reviews {
        &self.reviews
    }

    /// What the certificates of a connection say about the client.
    pub(crate) fn peer(&self, certificates: &[rustls::pki_types::CertificateDer<'_>]) -> auth::Peer {
        self.authenticator.peer(certificates, self.clock.now())
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    pub(crate) fn pki(&self) -> &Pki {
        &self.pki
    }

    /// A certificate for a client, by which it is the user with these groups.
    pub(crate) fn client_certificate(
        &self,
        user: &str,
        groups: &[&str],
    ) -> Result<auth::Credential, auth::PkiError> {
        self.pki.cluster.client(user, groups, self.clock.now())
    }

    /// The certificate of the authority that signs for this server.
    pub(crate) fn authority_pem(&self) -> String {
        self.pki.cluster.certificate_pem()
    }

    /// Waits until a version is safe, so that nobody is told what a crash could take back.
    pub(crate) async fn settled(&self, version: u64) -> Result<(), Status> {
        self.store.settled(version).await.map_err(|error| Status::internal(error.to_string()))
    }

    /// A name made of a prefix and some random letters, for an object of a kind in a namespace.
    pub(crate) fn generated_name(&self, kind: &str, namespace: &str, base: &str) -> String {
        let mut end = base.len().min(NAME_PREFIX);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let mut name = base[..end].to_owned();
        let random = self.chance.bytes(&["name", kind, namespace, base]);
        for byte in random.iter().take(NAME_SUFFIX) {
            name.push(char::from(NAME_LETTERS[usize::from(*byte) % NAME_LETTERS.len()]));
        }
        name
    }

    /// A random uid for something that is called like this.
    pub(crate) fn new_uid(&self, purpose: &[&str]) -> String {
        self.chance.uid(purpose)
    }

    /// Where chance comes from.
    pub(crate) fn chance(&self) -> &chance::Chance {
        &self.chance
    }

    /// A stored object in the version of a resource.
    pub(crate) async fn read(&self, served: &Served, record: &Record) -> Result<Value, Status> {
        let mut object = record.parse();
        if served.shows_as_stored(record) {
            return Ok(object);
        }
        // Defaults are those of the version it is stored in; the one it is shown in only drops what it does not know.
        if let Source::Custom(kind, _) = &served.source
            && let Some((_, name)) = object["apiVersion"].as_str().and_then(|text| text.rsplit_once('/'))
            && let Some(stored) = kind.version(name)
        {
            stored.shape_stored(&mut object);
        }
        let mut object = self
            .convert(served, object, &served.kind)
            .await
            .map_err(|why| undecodable(served, record, &why))?;
        if let Some(version) = served.custom_version() {
            version.fit(&mut object);
        }
        Ok(object)
    }

    /// An object ready to be stored: in its storage version, with the fields selectors ask for.
    pub(crate) async fn draft(&self, served: &Served, object: Value) -> Result<Draft, Status> {
        Self::draft_of(served, &self.in_storage_version(served, object).await?)
    }

    /// The same for an object that is in its storage version.
    pub(crate) fn draft_of(served: &Served, object: &Value) -> Result<Draft, Status> {
        if decode::is_too_deep(object) {
            return Err(Status::bad_request("the object is nested too deeply to be stored"));
        }
        let fields = served.selectable_fields(object);
        Ok(Draft::new(object, fields, served.since))
    }

    /// An object in the version it is stored in.
    pub(crate) async fn in_storage_version(&self, served: &Served, object: Value) -> Result<Value, Status> {
        if served.kind == served.storage_kind {
            return Ok(object);
        }
        let mut object = self.convert(served, object, &served.storage_kind).await?;
        // What the stored version does not know is not stored.
        if let Source::Custom(kind, _) = &served.source
            && let Some(version) = kind.storage_version()
        {
            version.shape_stored(&mut object);
        }
        Ok(object)
    }

    /// An object of a dry run with what is left of it in the version in which it would be stored.
    pub(crate) async fn as_if_stored(&self, served: &Served, object: Value) -> Result<Value, Status> {
        let Some(version) = served.custom_version().filter(|_| served.kind != served.storage_kind) else {
            return Ok(object);
        };
        let stored = self.in_storage_version(served, object).await?;
        let mut object = self.convert(served, stored, &served.kind).await?;
        version.fit(&mut object);
        Ok(object)
    }

    /// An object of a resource as another kind it is known under.
    pub(crate) async fn convert(&self, served: &Served, object: Value, to: &Gvk) -> Result<Value, Status> {
        match &served.source {
            Source::Builtin(_) => crate::kinds::convert(object, to),
            Source::Custom(..) if object["apiVersion"] == to.api_version() => Ok(object),
            Source::Custom(kind, _) => self.convert_custom(kind, object, &to.version).await,
        }
    }

    /// True when nothing is left of what a deletion waited for.
    pub(crate) fn is_done(served: &Served, old: &Value, new: &Value) -> bool {
        let none_of = |finalizers: &Value| finalizers.as_array().is_none_or(Vec::is_empty);
        let no_grace = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0;
        !old["metadata"]["deletionTimestamp"].is_null()
            && no_grace
            && none_of(&new["metadata"]["finalizers"])
            && (!served.is_namespace() || none_of(&new["spec"]["finalizers"]))
    }
}

/// What somebody is told about a stored object that cannot be had in the version asked for.
fn undecodable(served: &Served, record: &Record, why: &Status) -> Status {
    let GroupResource { group, resource } = &served.stored_as;
    let Key { namespace, name, .. } = &record.key;
    let folder = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    Status::internal(format!(
        "StorageError: corrupt object, Code: 7, Key: /{group}/{resource}/{folder}{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: object not decodable revision={}: {}",
        record.version, why.message
    ))
}

/// The stored objects, as the parts that decide see them.
#[derive(Debug)]
pub(crate) struct Stored(pub(crate) Arc<Store>);

impl Reader for Stored {
    fn get(&self, of: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let record = self.0.get(of, &Key::new(namespace, name))?;
        // Every write looks at the namespace it is in.
        let looked_at_often = of.group.is_empty() && of.resource == "namespaces";
        Some(if looked_at_often { record.kept() } else { Arc::new(record.parse()) })
    }

    fn list(&self, of: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let query = Query { namespace, ..Query::default() };
        let records = self.0.list(of, &query, |_, _| true).records;
        records.iter().map(|record| Arc::new(record.parse())).collect()
    }

    fn revision(&self, of: &GroupResource) -> u64 {
        self.0.revision(of)
    }
}
