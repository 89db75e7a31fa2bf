//! Connections to the ports of a guest.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::stream::{Caller, carry};
use super::{Answer, Asked, Refusal};
use crate::network::fabric::{Fabric, Source};
use crate::object::Object as _;
use crate::service::Call;

/// Where a guest is reached: the first address of its first interface.
fn target(vmi: &Value) -> Result<IpAddr, Refusal> {
    let Some(first) = vmi.list("/status/interfaces").first() else {
        return Err(Refusal::bad("no network interfaces are present"));
    };
    let address = first.text("/ipAddress");
    address.parse().map_err(|_| Refusal::internal(format!("dialing VM: lookup {address}: no such host")))
}

/// A port and a protocol from the end of a path.
fn port(rest: &[String]) -> Result<(u16, bool), Refusal> {
    let wanted = rest.first().map(String::as_str).unwrap_or_default();
    let port = wanted.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| Refusal::internal(format!("dialing VM: invalid port {wanted:?}")))?;
    match rest.get(1).map_or("tcp", String::as_str) {
        "tcp" => Ok((port, false)),
        "udp" => Ok((port, true)),
        other => Err(Refusal::internal(format!("dialing VM: dial {other}: unknown network {other}"))),
    }
}

/// Carries datagrams between a stream and a guest, from a port of a host of their own, until the stream ends.
async fn exchange(fabric: &Fabric, node: &str, to: SocketAddr, stream: DuplexStream) {
    let from = Source::Host(node.to_owned());
    let (own_port, mut answers) = fabric.bind_on_host(node);
    let (mut near, mut far) = tokio::io::split(stream);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        tokio::select! {
            read = near.read(&mut buffer) => {
                let Ok(length @ 1..) = read else { return };
                // A datagram that does not arrive is nobody's failure.
                let _ = fabric.send(&from, own_port, to, Bytes::copy_from_slice(&buffer[..length]));
            }
            Some(answer) = answers.recv() => {
                // Only whom was asked may answer.
                if answer.from == to && far.write_all(&answer.bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Asked {
    pub(super) async fn port_forward(&self, call: Call) -> Answer {
        let vmi = self.instance_of_either().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict("VMI is not running"));
        }
        if vmi.condition_holds("Paused") {
            return Err(self.vmi_conflict("VMI is paused"));
        }
        let (port, datagrams) = port(&self.place.rest)?;
        let address = target(&vmi)?;
        // virt-api has no pod of its own here; the host of the machine reaches it as the components of a cluster do.
        let from = Source::Host(vmi.text("/status/nodeName").to_owned());
        let caller = Caller::of(call.request)?;
        if datagrams {
            let (fabric, to) = (Arc::clone(&self.context.world.fabric), SocketAddr::new(address, port));
            let node = vmi.text("/status/nodeName").to_owned();
            return Ok(caller.accept(move |socket| async move {
                let (near, far) = tokio::io::duplex(64 * 1024);
                tokio::join!(carry(socket, near, std::future::pending()), exchange(&fabric, &node, to, far));
            }));
        }
        let connected = self.context.world.fabric.connect(&from, address, port).await;
        let stream = connected.map_err(|failure| {
            Refusal::internal(format!("dialing VM: dial tcp {address}:{port}: {failure}"))
        })?;
        Ok(caller.accept(move |socket| carry(socket, stream, std::future::pending())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_interface_is_the_one() {
        assert_eq!(target(&json!({})).unwrap_err().to_string(), "no network interfaces are present");
        let vmi = json!({"status": {"interfaces": [{"ipAddress": "10.0.0.7"}, {"ipAddress": "10.9.9.9"}]}});
        assert_eq!(target(&vmi).unwrap().to_string(), "10.0.0.7");
    }

    #[test]
    fn ports_and_protocols_are_read_from_the_path() {
        let rest = |parts: &[&str]| parts.iter().map(|&part| part.to_owned()).collect::<Vec<_>>();
        assert_eq!(port(&rest(&["22"])), Ok((22, false)));
        assert_eq!(port(&rest(&["53", "udp"])), Ok((53, true)));
        assert!(port(&rest(&["x"])).is_err() && port(&rest(&["22", "sctp"])).is_err());
    }
}
