//! The kubelets of all hosts: what runs where, and what is said about it.
//!
//! A pod goes on by looks: each look reads what was said about it last, and does and says the next thing. What is not
//! in the pod itself, such as when a stage ends, is kept in memory and begins anew after a restart.

mod addresses;
mod end;
mod images;
mod networks;
mod pokes;
mod run;
mod start;
pub(crate) mod status;
pub(crate) mod timers;
mod volumes;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use addresses::Addresses;
use images::Images;
use timers::Timers;

use crate::client::{Client, Identity, Result};
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{CSI_DRIVER, NODE, POD, PV, PVC, VOLUME_ATTACHMENT};
use crate::network::fabric::Port;
use crate::object::{Key, Object as _};
use crate::world::machine::Machine;

/// Starts the kubelets.
pub(crate) fn start(context: &Context, tasks: &mut Tasks) {
    let (sender, pokes) = mpsc::unbounded_channel();
    tasks.spawn(pokes::of_machines(context.clone(), sender.clone()));
    tasks.spawn(pokes::of_hosts(context.clone(), sender));
    tasks.control(Kubelet::new(context, pokes));
}

/// What a kubelet holds for a pod.
#[derive(Debug, Clone, Default)]
struct Held {
    uid: String,
    /// How often the host had been switched on or off when the pod was taken over.
    boots: u64,
    /// Whether a machine ran in it.
    had_machine: bool,
}

/// The kubelets of all hosts.
#[derive(Debug)]
pub(crate) struct Kubelet {
    context: Context,
    client: Client,
    recorder: Recorder,
    timers: Timers,
    addresses: Addresses,
    held: Mutex<HashMap<Key, Held>>,
    images: Images,
    pokes: Mutex<Option<mpsc::UnboundedReceiver<Key>>>,
}

impl Kubelet {
    fn new(context: &Context, pokes: mpsc::UnboundedReceiver<Key>) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::KUBELET),
            recorder: context.recorder(Identity::KUBELET),
            timers: Timers::default(),
            addresses: Addresses::default(),
            held: Mutex::default(),
            images: Images::default(),
            pokes: Mutex::new(Some(pokes)),
        }
    }

    fn now(&self) -> String {
        self.context.clock.seconds()
    }

    /// Says what has changed about a pod.
    async fn say(&self, before: &Value, after: &Value) -> Result {
        if before != after {
            let mut told = after.clone();
            status::observe(&mut told);
            self.client.replace_status(&POD, &told).await?;
        }
        Ok(())
    }

    /// Takes a pod over, if it is not held yet; true where it was held before its host lost power.
    fn hold(&self, key: &Key, pod: &Value) -> bool {
        let node = pod.text("/spec/nodeName");
        let boots = self.context.world.hosts.boots(node);
        let mut table = self.held.lock();
        if let Some(held) = table.get_mut(key) {
            if held.uid == pod.uid() {
                return held.boots != boots;
            }
            self.let_go(held);
        }
        let held = Held { uid: pod.uid().to_owned(), boots, had_machine: false };
        table.insert(key.clone(), held);
        drop(table);
        // After a restart of this program: pods that run go on with what they have.
        if !pod.text("/status/podIP").is_empty() && !pod.is_over() {
            self.adopt(pod);
        }
        false
    }

    fn adopt(&self, pod: &Value) {
        if pod.flag("/spec/hostNetwork") {
            return;
        }
        let addresses: Vec<IpAddr> =
            pod.list("/status/podIPs").iter().filter_map(|one| one.text("/ip").parse().ok()).collect();
        for address in &addresses {
            self.addresses.keep(pod.text("/spec/nodeName"), *address, pod.uid());
        }
        self.plug(pod, addresses);
        networks::plug_again(&self.context.world.fabric, pod);
    }

    fn plug(&self, pod: &Value, addresses: Vec<IpAddr>) {
        let mac = addresses.first().map(mac_of).unwrap_or_default();
        self.context.world.fabric.plug(Port {
            pod: pod.uid().to_owned(),
            network: String::new(),
            mac,
            addresses,
        });
    }

    /// Gives back everything that was held for a pod.
    fn let_go(&self, held: &Held) {
        self.context.world.fabric.unplug(&held.uid);
        self.addresses.release(&held.uid);
        self.timers.forget(&held.uid);
    }

    /// Forgets a pod that is gone.
    fn forget(&self, key: &Key) {
        let held = self.held.lock().remove(key);
        if let Some(held) = held {
            self.let_go(&held);
        }
    }

    /// The address of a host.
    fn host_address(&self, node: &str) -> String {
        let node = self.client.cache(&NODE).get(&Key::cluster(node));
        let address = node.as_ref().and_then(|node| {
            node.list("/status/addresses").iter().find(|address| address["type"] == "InternalIP")
        });
        address.map(|address| address.text("/address").to_owned()).unwrap_or_default()
    }

    /// The machine that runs in a pod.
    fn machine_in(&self, pod: &Value) -> Option<Arc<Machine>> {
        let vmi = pod.label("kubevirt.io/created-by");
        if vmi.is_empty() {
            return None;
        }
        self.context.world.machines.get(vmi).filter(|machine| machine.plan().pod.pod_uid == pod.uid())
    }
}

impl Controller for Kubelet {
    const NAME: &'static str = "kubelet";

    fn watches(&self) -> Vec<Watch> {
        let pods = self.client.cache(&POD);
        let with_claim = Arc::clone(&pods);
        let on_node = Arc::clone(&pods);
        vec![
            Watch::mapped(&self.client.cache(&VOLUME_ATTACHMENT), move |change| {
                let there = on_node.find("node", change.object().text("/spec/nodeName"));
                let waits = |pod: &&Arc<Value>| pod.text("/status/phase") == "Pending";
                there.iter().filter(waits).map(|pod| Key::of(pod)).collect()
            }),
            // Only to be known, before anything is decided.
            Watch::known(&self.client.cache(&CSI_DRIVER)),
            Watch::known(&self.client.cache(&PV)),
            Watch::mapped(&pods, |change| {
                let bound = !change.object().text("/spec/nodeName").is_empty();
                if bound { vec![change.key()] } else { Vec::new() }
            }),
            Watch::mapped(&self.client.cache(&PVC), move |change| {
                with_claim.find("claim", &change.key().to_string()).iter().map(|pod| Key::of(pod)).collect()
            }),
        ]
    }

    fn pokes(&self) -> Option<mpsc::UnboundedReceiver<Key>> {
        self.pokes.lock().take()
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(pod) = self.client.cache(&POD).get(key) else {
            self.forget(key);
            return Ok(Next::Done);
        };
        let Some(host) = self.context.world.hosts.get(pod.text("/spec/nodeName")) else {
            return Ok(Next::Done);
        };
        if !host.is_heard() {
            return Ok(Next::Done);
        }
        if self.hold(key, &pod) && !pod.is_over() {
            return self.after_power_loss(key, &pod).await;
        }
        if pod.is_deleting() {
            return self.stop(&pod).await;
        }
        match pod.text("/status/phase") {
            "Running" => self.go_on(key, &pod).await,
            "Succeeded" | "Failed" => {
                self.context.world.fabric.unplug(pod.uid());
                self.addresses.release(pod.uid());
                Ok(Next::Done)
            }
            _ => self.begin(&pod).await,
        }
    }
}

/// The hardware address a network plugin derives from an address.
pub(crate) fn mac_of(address: &IpAddr) -> String {
    let bytes = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let octets = address.octets();
            [octets[12], octets[13], octets[14], octets[15]]
        }
    };
    format!("0a:58:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2], bytes[3])
}
