//! What a cluster begins with: its members. It is decided once, kept in one Secret, and never changed but for the
//! hand-over.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use rand::CryptoRng;
use serde_json::{Value, json};
use trellis_bootstrap::pki::{Authority, PkiError};
use trellis_bootstrap::render::{self, RenderError};
use trellis_bootstrap::site::{Member, Sources};
use trellis_bootstrap::tokens::{Bearer, LONGEST};
use trellis_bootstrap::{Bundle, Names, Secret, Site};
use trellis_model::names::{InvalidName, MachineName, PoolName};
use trellis_model::placement::Preset;
use trellis_model::{Cluster, Pool};

/// The key of the Secret.
const SITE: &str = "site.json";

/// Why a cluster cannot be founded, or a machine not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum FoundingError {
    /// A machine cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Keys cannot be made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// A name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// What was kept cannot be read.
    #[error("the Secret {0} cannot be read: its key {1} is missing or not what it was")]
    Unreadable(String, String),
}

/// What a cluster begins with.
#[derive(Debug, Clone)]
pub struct Founding {
    /// What is known of the cluster.
    pub site: Site,
}

/// What a cluster is founded from.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its pools.
    pub pools: Vec<Pool>,
    /// The pool of its control plane.
    pub pool: &'a Pool,
    /// The address of its API inside of the infra cluster.
    pub internal: Option<IpAddr>,
    /// Where programs come from.
    pub sources: &'a Sources,
}

impl Founding {
    /// Founds a cluster with these members, and decides on a bootstrap machine.
    pub fn new(ground: &Ground<'_>, members: &BTreeSet<String>) -> Result<Self, FoundingError> {
        let mut site = ground.site();
        for name in members {
            site.masters.push(Member::new(MachineName::new(name)?));
        }
        site.bootstrap = Some(Member::new(MachineName::new(bootstrap_name(ground.cluster))?));
        Ok(Self { site })
    }

    /// The members the cluster begins with.
    pub fn founders(&self) -> BTreeSet<String> {
        self.site.masters.iter().map(|member| member.name.to_string()).collect()
    }

    /// What the bootstrap machine reads at first boot. It accepts tokens that were made after `opened`.
    pub fn bootstrap(
        &self,
        pool: &Pool,
        bundle: &Bundle,
        opened: Timestamp,
    ) -> Result<Secret, FoundingError> {
        let config = render::bootstrap(&self.site, pool, bundle, opened)?;
        Ok(render::user_data(pool.spec.template.image.os, &config))
    }

    /// The data of the Secret it is kept in.
    pub fn to_secret(&self) -> Value {
        json!({SITE: json!(self.site).to_string()})
    }

    /// What a Secret keeps.
    pub fn of_secret(name: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<Self, FoundingError> {
        let unreadable = || FoundingError::Unreadable(name.to_owned(), SITE.to_owned());
        let bytes = data.get(SITE).ok_or_else(unreadable)?;
        Ok(Self { site: serde_json::from_slice(bytes).map_err(|_| unreadable())? })
    }
}

/// What a machine reads at first boot: where it gets the rest, with a token that was made just now.
pub fn stub(
    site: &Site,
    pool: &Pool,
    bundle: &Bundle,
    machine: &str,
    rng: &mut dyn CryptoRng,
    now: Timestamp,
) -> Result<Secret, FoundingError> {
    let name = MachineName::new(machine)?;
    let bearer = Bearer::Machine { name: name.clone(), pool: pool.name.clone() };
    let token = bundle.token_key()?.issue(bearer, LONGEST, rng, now);
    Ok(render::stub(site, pool, bundle, &name, &token)?)
}

impl Ground<'_> {
    /// What is known of the cluster, without its machines.
    pub fn site(&self) -> Site {
        let mut site = Site::new(self.cluster.clone(), self.pools.clone());
        site.names = names(self.cluster);
        site.names.advertised = self.internal;
        site.sources = self.sources.clone();
        site
    }
}

/// The names of a cluster. Without a base domain they are those of its Services, which several clusters in one namespace
/// tell apart.
pub fn names(cluster: &Cluster) -> Names {
    let mut names = Names::of(cluster);
    if cluster.spec.base_domain.is_none() {
        let service = |endpoint: &str| {
            let name = trellis_platform_kubevirt::endpoint_service(cluster, endpoint);
            format!("{name}.{}", names.domain)
        };
        (names.api, names.api_int) = (service("api"), service("api-int"));
    }
    names
}

/// The name of the bootstrap machine.
pub fn bootstrap_name(cluster: &Cluster) -> String {
    format!("{}-bootstrap", cluster.name)
}

/// The pool of the bootstrap machine: like that of the control plane, and on any host.
pub fn bootstrap_pool(pool: &Pool) -> Result<Pool, FoundingError> {
    let mut pool = pool.clone();
    pool.name = PoolName::new(trellis_platform_kubevirt::BOOTSTRAP_POOL)?;
    pool.spec.replicas = 1;
    pool.spec.template.placement.apart = Preset::None;
    Ok(pool)
}

/// The data of the Secret with which etcd is asked.
pub fn etcd_credentials(bundle: &Bundle) -> Result<Value, FoundingError> {
    let own = bundle.etcd_client()?;
    Ok(json!({
        "ca.crt": bundle.authority(Authority::Etcd)?.certificate,
        "tls.crt": own.certificate,
        "tls.key": own.key.expose(),
    }))
}
