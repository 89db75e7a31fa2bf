//! How a member was told to start.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Uri;
use rustls::{ClientConfig, ServerConfig};
use trellis_infra::guests::Guest;

use super::cluster::Info;
use super::id_of;
use crate::manifest::CommandLine;
use crate::tls::Identity;

/// How a member was told to start.
pub(super) struct Config {
    pub(super) name: String,
    pub(super) data_dir: String,
    /// It joins a cluster that is there.
    pub(super) existing: bool,
    token: String,
    /// The members a new cluster begins with, or the ones there are: their peer URLs by name.
    initial: BTreeMap<String, Vec<String>>,
    pub(super) client_urls: Vec<String>,
    pub(super) peer_port: u16,
    /// The port clients are served on; nothing where only programs of the same guest are.
    pub(super) client_port: Option<u16>,
    pub(super) peer_server: Arc<ServerConfig>,
    pub(super) peer_client: Arc<ClientConfig>,
    pub(super) client_server: Arc<ServerConfig>,
}

impl Config {
    pub(super) fn read(guest: &Guest) -> Result<Self, String> {
        let line = CommandLine::read(&guest.boot, "etcd")?;
        let files = |authority: &str, certificate: &str, key: &str| {
            Ok::<_, String>(Identity {
                authority: line.file(&guest.boot, authority)?,
                certificate: line.file(&guest.boot, certificate)?,
                key: line.file(&guest.boot, key)?,
            })
        };
        let of = |what: &str| {
            let what = what.to_owned();
            move |why: String| format!("the certificates for {what} cannot be used: {why}")
        };
        let peers = files("peer-trusted-ca-file", "peer-cert-file", "peer-key-file")?;
        let clients = files("trusted-ca-file", "cert-file", "key-file")?;
        let on = |flag: &str| line.get(flag) == "true";
        let config = Self {
            name: line.required("name")?.to_owned(),
            data_dir: line.required("data-dir")?.to_owned(),
            existing: line.get("initial-cluster-state") == "existing",
            token: Some(line.get("initial-cluster-token"))
                .filter(|token| !token.is_empty())
                .unwrap_or("etcd-cluster")
                .to_owned(),
            initial: members(line.required("initial-cluster")?)?,
            client_urls: list(line.required("advertise-client-urls")?),
            peer_port: port(line.required("listen-peer-urls")?)?
                .ok_or("--listen-peer-urls: no other member could reach it")?,
            client_port: port(line.required("listen-client-urls")?)?,
            peer_server: peers.server(guest.clock, on("peer-client-cert-auth")).map_err(of("peers"))?,
            peer_client: peers.client(guest.clock).map_err(of("peers"))?,
            client_server: clients.server(guest.clock, on("client-cert-auth")).map_err(of("clients"))?,
        };
        let own = list(line.required("initial-advertise-peer-urls")?);
        match config.initial.get(&config.name) {
            None => Err(format!("--initial-cluster names no member {}", config.name)),
            Some(urls) if *urls != own => Err(format!(
                "--initial-cluster has {} for {}, but --initial-advertise-peer-urls {}",
                urls.join(","),
                config.name,
                own.join(",")
            )),
            Some(_) => Ok(config),
        }
    }

    /// The peer URLs of this member.
    pub(super) fn own_urls(&self) -> &[String] {
        self.initial.get(&self.name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The members a new cluster begins with. Their ids follow from what all of them were told.
    pub(super) fn first_members(&self) -> Vec<Info> {
        let member = |urls: &Vec<String>| Info {
            id: id_of(&[&self.token, &urls.join(",")]),
            name: String::new(),
            peer_urls: urls.clone(),
            client_urls: Vec::new(),
            learner: false,
        };
        self.initial.values().map(member).collect()
    }

    /// The id of this member in a new cluster.
    pub(super) fn own_id(&self) -> u64 {
        id_of(&[&self.token, &self.own_urls().join(",")])
    }

    /// The id of a new cluster: the same for all who were told the same members.
    pub(super) fn cluster_id(&self) -> u64 {
        let ids: Vec<String> = self.first_members().iter().map(|member| member.id.to_string()).collect();
        id_of(&["cluster", &self.token, &ids.join(",")])
    }

    /// The peer URLs of the others.
    pub(super) fn others(&self) -> Vec<String> {
        let others = self.initial.iter().filter(|(name, _)| **name != self.name);
        others.filter_map(|(_, urls)| urls.first().cloned()).collect()
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect()
}

fn members(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in list(text) {
        let (name, url) =
            pair.split_once('=').ok_or_else(|| format!("--initial-cluster: {pair} is not name=URL"))?;
        members.entry(name.to_owned()).or_default().push(url.to_owned());
    }
    Ok(members)
}

/// Host and port of a URL with TLS.
pub(super) fn place(url: &str) -> Result<(String, u16), String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url} is no URL"))?;
    match (uri.scheme_str(), uri.host(), uri.port_u16()) {
        (Some("https"), Some(host), Some(port)) => Ok((host.trim_matches(['[', ']']).to_owned(), port)),
        _ => Err(format!("{url} is not https://HOST:PORT")),
    }
}

/// The port of the first URL that is not for the guest alone.
fn port(urls: &str) -> Result<Option<u16>, String> {
    for url in list(urls) {
        let (host, port) = place(&url)?;
        if !matches!(host.as_str(), "127.0.0.1" | "::1" | "localhost") {
            return Ok(Some(port));
        }
    }
    Ok(None)
}
