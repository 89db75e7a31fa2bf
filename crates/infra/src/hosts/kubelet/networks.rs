//! The additional networks of a pod.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::Kubelet;
use crate::client::Result;
use crate::kinds::POD;
use crate::network::attachments::STATUS;
use crate::network::fabric::{Fabric, Port};
use crate::object::{Key, Object as _};

impl Kubelet {
    /// Plugs a pod into the additional networks it wants, and says so in its annotation. Gives the pod as it is then,
    /// or why its sandbox cannot be made.
    pub(super) async fn attach(&self, pod: &Value) -> Result<std::result::Result<Value, String>> {
        let status = match self.context.world.fabric.attach(pod) {
            Ok(None) => return Ok(Ok(pod.clone())),
            Ok(Some(status)) => status,
            Err(failure) => return Ok(Err(in_words(pod, &failure.to_string()))),
        };
        if pod.annotation(STATUS) == status {
            return Ok(Ok(pod.clone()));
        }
        let patch = json!({"metadata": {"annotations": {STATUS: status}}});
        Ok(Ok(self.client.merge(&POD, &Key::of(pod), &patch).await?))
    }
}

/// What the network plugin says of a failure.
fn in_words(pod: &Value, why: &str) -> String {
    let (namespace, name, uid) = (pod.namespace(), pod.name(), pod.uid());
    format!(
        "error adding pod {namespace}_{name} to CNI network \"multus-cni-network\": plugin type=\"multus\" \
         name=\"multus-cni-network\" failed (add): Multus: [{namespace}/{name}/{uid}]: error loading k8s delegates \
         k8s args: TryLoadPodDelegates: error in getting k8s network for pod: GetNetworkDelegates: failed getting \
         the delegate: getKubernetesDelegate: {why}"
    )
}

/// Plugs a pod into the networks it was in before this program was started.
pub(super) fn plug_again(fabric: &Fabric, pod: &Value) {
    let statuses: Value = serde_json::from_str(pod.annotation(STATUS)).unwrap_or_default();
    for status in statuses.as_array().into_iter().flatten().filter(|status| status["default"] != true) {
        let addresses: Vec<IpAddr> =
            status.list("/ips").iter().filter_map(|address| address.as_str()?.parse().ok()).collect();
        fabric.plug(Port {
            pod: pod.uid().to_owned(),
            network: status.text("/name").to_owned(),
            mac: status.text("/mac").to_owned(),
            addresses,
        });
    }
}
