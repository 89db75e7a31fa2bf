//! What the fabric carries, and what it does not.

mod fabric;
mod policy;
mod services;
mod slices;

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::directory::Directory;
use super::fabric::{Fabric, FabricError, Port, Source, Stream};
use crate::world::hosts::{Host, Hosts};

/// A fabric between two hosts that are up.
fn fabric(objects: &[Value]) -> Fabric {
    let hosts = Arc::<Hosts>::default();
    for name in ["h1", "h2"] {
        hosts.set(name, Host::UP);
    }
    let fabric = Fabric::new(&hosts);
    fabric.inform(Directory::of(objects));
    fabric
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The uid is `<namespace>/<name>`.
fn pod(namespace: &str, name: &str, labels: &Value, node: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"), "labels": labels},
        "spec": {"nodeName": node},
    })
}

fn plug(fabric: &Fabric, uid: &str, network: &str, address: &str) {
    let addresses = address.split(',').filter(|one| !one.is_empty()).map(ip).collect();
    let port = Port { pod: uid.to_owned(), network: network.to_owned(), mac: String::new(), addresses };
    fabric.plug(port);
}

fn source(uid: &str) -> Source {
    Source::Pod(uid.to_owned())
}

async fn connect(fabric: &Fabric, from: &str, address: &str, port: u16) -> Result<Stream, FabricError> {
    fabric.connect(&source(from), ip(address), port).await
}

/// Whether what is written at one end is read at the other.
async fn carries(one: &mut Stream, other: &mut Stream) -> bool {
    let mut bytes = [0; 5];
    one.write_all(b"hello").await.is_ok() && other.read_exact(&mut bytes).await.is_ok() && bytes == *b"hello"
}
