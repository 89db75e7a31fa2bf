//! A client of etcd's members, by the JSON gateway each of them has beside gRPC.
//!
//! Members are machines of a control plane. They are spoken to one by one, by the machine's name: what one says of
//! itself, only it can say. How a machine is reached is for a [`Dial`] to know; who it is, its certificate proves.

mod credentials;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

pub use credentials::Credentials;
pub use wire::{ByName, Dial, PortForward, Wire};

/// The port of etcd's clients.
pub const CLIENT_PORT: u16 = 2379;
/// The port of etcd's members among themselves.
pub const PEER_PORT: u16 = 2380;
/// How long a member has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer.
const LARGEST: usize = 1 << 20;

/// Why a member did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not reached, or does not prove who it is.
    #[error("etcd on {machine} is not reached: {why}")]
    Unreachable {
        /// The machine.
        machine: String,
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error("etcd on {machine} refuses: {message}")]
    Refused {
        /// The machine.
        machine: String,
        /// The code of gRPC.
        code: u64,
        /// In its words.
        message: String,
    },
    /// What it answers cannot be understood.
    #[error("etcd on {machine} answers what cannot be understood: {why}")]
    Malformed {
        /// The machine.
        machine: String,
        /// Why.
        why: String,
    },
    /// The certificates cannot be used.
    #[error("the credentials for etcd cannot be used: {0}")]
    Credentials(String),
}

/// What a request comes to.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// A member, as another one tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// Its id.
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: u64,
    /// Its name; empty until it has started.
    #[serde(default)]
    pub name: String,
    /// Where other members reach it.
    #[serde(rename = "peerURLs", default)]
    pub peer_urls: Vec<String>,
    /// It learns, and does not vote yet.
    #[serde(rename = "isLearner", default)]
    pub learner: bool,
}

impl Member {
    /// The machine it runs on: the first label of the name its peers know it by.
    pub fn machine(&self) -> Option<&str> {
        let url = self.peer_urls.first()?;
        let (_, rest) = url.split_once("://")?;
        rest.split(['.', ':', '/']).next().filter(|label| !label.is_empty())
    }
}

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Who leads; zero where it knows of nobody.
    #[serde(default, deserialize_with = "number")]
    pub leader: u64,
    /// How far the log is that it knows of.
    #[serde(rename = "raftIndex", default, deserialize_with = "number")]
    pub index: u64,
    /// How far it has come.
    #[serde(rename = "raftAppliedIndex", default, deserialize_with = "number")]
    pub applied: u64,
    /// It learns.
    #[serde(rename = "isLearner", default)]
    pub learner: bool,
    /// What is wrong with it, in its words.
    #[serde(default)]
    pub errors: Vec<String>,
}

impl Status {
    /// Whether it serves: it sees who leads, and has nothing to complain of.
    pub fn serves(&self) -> bool {
        self.leader != 0 && self.errors.is_empty()
    }

    /// Whether it has nearly all of the log, as etcd itself counts it before a learner may vote.
    pub fn has_caught_up(&self) -> bool {
        self.serves() && self.applied > 0 && self.applied * 10 >= self.index * 9
    }
}

/// Numbers of 64 bits are texts in JSON.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// A client of the members of one cluster.
#[derive(Clone)]
pub struct Etcd {
    dial: Arc<dyn Dial>,
    tls: Arc<ClientConfig>,
    /// What follows a machine's name in the name its certificate is for.
    domain: String,
}

impl Etcd {
    /// A client of machines below a domain.
    pub fn new(dial: Arc<dyn Dial>, credentials: &Credentials, domain: &str) -> Result<Self> {
        Ok(Self { dial, tls: credentials.config()?, domain: domain.to_owned() })
    }

    /// All members, as the one on this machine knows them: also without a quorum.
    pub async fn members(&self, machine: &str) -> Result<Vec<Member>> {
        self.listed(machine, "list", &json!({})).await
    }

    /// What the member on a machine says of itself.
    pub async fn status(&self, machine: &str) -> Result<Status> {
        let answer = self.ask(machine, "/v3/maintenance/status", &json!({})).await?;
        read(machine, answer)
    }

    /// Adds a member that learns and does not vote; it may start after that.
    pub async fn add_learner(&self, via: &str, peer_url: &str) -> Result<Vec<Member>> {
        self.listed(via, "add", &json!({"peerURLs": [peer_url], "isLearner": true})).await
    }

    /// Lets a learner vote.
    pub async fn promote(&self, via: &str, member: u64) -> Result<Vec<Member>> {
        self.listed(via, "promote", &json!({"ID": member.to_string()})).await
    }

    /// Takes a member out.
    pub async fn remove(&self, via: &str, member: u64) -> Result<Vec<Member>> {
        self.listed(via, "remove", &json!({"ID": member.to_string()})).await
    }

    async fn listed(&self, via: &str, verb: &str, body: &Value) -> Result<Vec<Member>> {
        let mut answer = self.ask(via, &format!("/v3/cluster/member/{verb}"), body).await?;
        read(via, answer["members"].take())
    }

    async fn ask(&self, machine: &str, path: &str, body: &Value) -> Result<Value> {
        let unreachable = |why: String| Error::Unreachable { machine: machine.to_owned(), why };
        let exchange = async {
            let stream = self.dial.dial(machine, CLIENT_PORT).await?;
            let host = format!("{machine}.{}", self.domain);
            let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
            let connector = TlsConnector::from(Arc::clone(&self.tls));
            let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            let request = Request::post(path)
                .header("host", &host)
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body.to_string())))
                .map_err(|error| error.to_string())?;
            exchange(stream, request).await
        };
        let (code, answer) = tokio::time::timeout(PATIENCE, exchange)
            .await
            .map_err(|_| unreachable("it takes too long".to_owned()))?
            .map_err(unreachable)?;
        if code == 200 {
            return Ok(answer);
        }
        let message = answer["message"].as_str().or(answer["error"].as_str()).map(str::to_owned);
        Err(Error::Refused {
            machine: machine.to_owned(),
            code: answer["code"].as_u64().unwrap_or_default(),
            message: message.unwrap_or_else(|| format!("it answers {code}")),
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(machine: &str, answer: Value) -> Result<T> {
    serde_json::from_value(answer)
        .map_err(|error| Error::Malformed { machine: machine.to_owned(), why: error.to_string() })
}

/// One request on a stream of its own; the answer, if it is JSON.
pub(crate) async fn exchange(
    stream: impl Wire + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Value), String> {
    let told = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(told)?;
        let code = answer.status().as_u16();
        let bytes =
            Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|error| error.to_string())?;
        Ok((code, serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default()))
    };
    tokio::pin!(connection, answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = &mut connection => match ended {
            // What was answered before the end is still to be read, however it ended: some hang up without a word.
            Ok(()) => answer.await,
            Err(error) => answer.await.map_err(|_| error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_by_the_name_its_peers_know() {
        let member = |url: &str| Member {
            id: 1,
            name: String::new(),
            peer_urls: vec![url.to_owned()],
            learner: false,
        };
        assert_eq!(member("https://blue-cp-x-0.blue.svc.cluster.local:2380").machine(), Some("blue-cp-x-0"));
        assert_eq!(member("https://m:2380").machine(), Some("m"));
        assert_eq!(member("nothing").machine(), None);
    }

    #[test]
    fn a_learner_has_caught_up_with_nine_tenths() {
        let status = |applied, leader| Status {
            version: String::new(),
            leader,
            index: 100,
            applied,
            learner: true,
            errors: Vec::new(),
        };
        assert!(status(90, 1).has_caught_up());
        assert!(!status(89, 1).has_caught_up() && !status(100, 0).has_caught_up());
    }
}
