//! Where the connection of a site comes from, and how it follows its credentials when they rotate.
//!
//! A new connection is taken only after it has proved to work; until then the old one is kept. Inside a cluster there is
//! nothing to follow: the client itself reads the token of the service account and the authority's certificate again.

mod follow;
mod kubeconfig;

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use tokio::time::timeout;

pub use follow::{Awaited, State};

use crate::client::{Error, Leads, Manners, Site};
use crate::{Key, Resource};
use kubeconfig::Text;

const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const CONFIG_MAP: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How long a new connection has to prove that it works.
const PROOF: Duration = Duration::from_secs(10);

/// Why there is no connection. The texts hold nothing of the credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// This process does not run in a cluster.
    #[error("this process does not run in a pod with a service account")]
    NotInCluster,
    /// The file cannot be read.
    #[error("the kubeconfig {path} cannot be read: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// There is no such object, or it does not have the field.
    #[error("{place} has no kubeconfig under {}", quoted(fields))]
    Missing {
        /// Where it should be.
        place: String,
        /// The fields of its data that were looked at.
        fields: Vec<String>,
    },
    /// It cannot be looked at now.
    #[error("{place} cannot be read: {reason}")]
    Unread {
        /// Where it is.
        place: String,
        /// What the server says.
        reason: String,
    },
    /// It is no kubeconfig.
    #[error("{place} is no kubeconfig")]
    Malformed {
        /// Where it is.
        place: String,
    },
    /// It has no such context, or one with parts that are not there.
    #[error("{place} has no usable context{}", context.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default())]
    Context {
        /// Where it is.
        place: String,
        /// The context asked for.
        context: Option<String>,
    },
    /// It refers to files or programs of the machine, which something that came over the network may not.
    #[error("{place} names a file or a program, which a kubeconfig in a Secret may not")]
    Reaches {
        /// Where it is.
        place: String,
    },
    /// The certificates, keys or other means in it cannot be used.
    #[error("the credentials of {place} cannot be used")]
    Unusable {
        /// Where it is.
        place: String,
    },
    /// The server they lead to does not answer, or does not accept them.
    #[error("no server accepts the credentials of {place}")]
    Refused {
        /// Where they are.
        place: String,
    },
}

fn quoted(fields: &[String]) -> String {
    fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" or ")
}

/// What a kubeconfig is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl Keeper {
    fn resource(self) -> Resource {
        match self {
            Self::Secret => SECRET,
            Self::ConfigMap => CONFIG_MAP,
        }
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The service account of the pod this process runs in.
    InCluster,
    /// A kubeconfig file.
    File {
        /// The file.
        path: PathBuf,
        /// The context; the current one, where there is none.
        context: Option<String>,
    },
    /// A kubeconfig in an object of another site.
    Kept {
        /// The site.
        site: Site,
        /// What it is kept in.
        keeper: Keeper,
        /// Which one.
        key: Key,
        /// The fields of its data it may be under; the first that is there counts.
        fields: Vec<String>,
        /// The context; the current one, where there is none.
        context: Option<String>,
    },
}

/// A connection, and what it was made of.
struct Connection {
    client: kube::Client,
    /// What tells other credentials.
    print: u64,
    /// What tells another server.
    server: u64,
}

/// A site together with what keeps its connection current.
#[derive(Debug)]
pub struct Followed {
    /// The site.
    pub site: Site,
    source: Source,
    print: u64,
    server: u64,
    every: Duration,
}

impl Source {
    /// Connects. Whether the server answers is not asked: that is the health of the site.
    pub async fn connect(self, name: &str, manners: Manners) -> Result<Followed, CredentialsError> {
        let Connection { client, print, server } = self.connection().await?;
        Ok(Followed { site: Site::with(name, client, manners), source: self, print, server, every: LOOK })
    }

    /// What tells this source in messages.
    fn place(&self) -> String {
        match self {
            Self::InCluster => "the service account".to_owned(),
            Self::File { path, .. } => format!("the file {}", path.display()),
            Self::Kept { keeper, key, .. } => format!("the {} {key}", keeper.resource().kind),
        }
    }

    async fn connection(&self) -> Result<Connection, CredentialsError> {
        match self {
            Self::InCluster => {
                let config = kube::Config::incluster().map_err(|_| CredentialsError::NotInCluster)?;
                kubeconfig::connect(config, 0, &self.place())
            }
            Self::File { path, context } => {
                let text = Text::of_file(path)?;
                text.connect(context.as_deref(), &self.place()).await
            }
            Self::Kept { site, keeper, key, fields, context } => {
                let unread = |error: Error| CredentialsError::Unread {
                    place: self.place(),
                    reason: error.to_string(),
                };
                let missing = || CredentialsError::Missing { place: self.place(), fields: fields.clone() };
                let text = match keeper {
                    Keeper::Secret => {
                        let secret = site.find::<Secret>(&SECRET, key).await.map_err(unread)?;
                        secret.and_then(|secret| secret.text(fields))
                    }
                    Keeper::ConfigMap => {
                        let map = site.find::<ConfigMap>(&CONFIG_MAP, key).await.map_err(unread)?;
                        map.and_then(|map| map.text(fields))
                    }
                };
                text.ok_or_else(missing)?.connect(context.as_deref(), &self.place()).await
            }
        }
    }
}

impl Followed {
    /// Looks at a file this often, instead of every ten seconds.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Takes new connections as the credentials rotate. Never ends.
    pub async fn follow(self) {
        Awaited::of(self).run().await;
    }

    /// Looks at the source once, and takes what is new.
    async fn look(&mut self) -> Result<(), CredentialsError> {
        let new = self.source.connection().await?;
        if new.print == self.print {
            return Ok(());
        }
        if !works(&new.client).await {
            return Err(CredentialsError::Refused { place: self.source.place() });
        }
        let leads = if new.server == self.server { Leads::Same } else { Leads::Elsewhere };
        self.site.swap(new.client, leads);
        (self.print, self.server) = (new.print, new.server);
        tracing::info!(site = self.site.name(), "new credentials are in use");
        Ok(())
    }
}

/// Whether a server lets us in: every user that is known may see this.
async fn works(client: &kube::Client) -> bool {
    let site = Site::new("proof", client.clone());
    timeout(PROOF, site.raw(http::Method::GET, "/api", None)).await.is_ok_and(|answer| answer.is_ok())
}

/// A Secret with a kubeconfig. It is not shown.
#[derive(Deserialize)]
struct Secret {
    #[serde(default, deserialize_with = "decoded")]
    data: Vec<(String, Vec<u8>)>,
}

impl Secret {
    fn text(&self, fields: &[String]) -> Option<Text> {
        let found = |field: &String| self.data.iter().find(|(name, _)| name == field);
        let (_, bytes) = fields.iter().find_map(found)?;
        String::from_utf8(bytes.clone()).ok().map(Text::of_network)
    }
}

/// A ConfigMap with a kubeconfig. It is not shown either.
#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: std::collections::BTreeMap<String, String>,
}

impl ConfigMap {
    fn text(&self, fields: &[String]) -> Option<Text> {
        fields.iter().find_map(|field| self.data.get(field)).cloned().map(Text::of_network)
    }
}

/// The data of a Secret, of which what is not base64 is left out.
fn decoded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Vec<u8>)>, D::Error> {
    let data = Option::<std::collections::BTreeMap<String, String>>::deserialize(deserializer)?;
    let decode = |(name, text): (String, String)| Some((name, STANDARD.decode(text).ok()?));
    Ok(data.unwrap_or_default().into_iter().filter_map(decode).collect())
}
