//! The network plugin of a tenant.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use trellis_model::network::NetworkPlugin;
use trellis_runtime::{Key, Resource};

use super::{Founder, Trouble, founding};
use crate::install::network_plugin;

const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const DAEMON_SETS: Resource = Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet");

/// Which network plugin a tenant is given for which there are no manifests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GivenPlugin {
    /// None: somebody else brings it, or the manifests of the one it names are waited for.
    #[default]
    None,
    /// A stand-in that networks nothing, for a lab whose guests need none.
    StandIn,
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Founder {
    /// Whether it is not ours to give the tenant a network plugin.
    pub(super) fn gives_no_plugin(&self) -> bool {
        match self.cluster.spec.network.plugin {
            Some(NetworkPlugin::None) => true,
            Some(_) => false,
            None => self.growing.plugin == GivenPlugin::None,
        }
    }

    /// Gives the tenant its network plugin: the one it names, if there are manifests of it.
    pub(super) async fn plug_in(&self) -> Result<(), Trouble> {
        let Some(guests) = &self.guests else { return Ok(()) };
        for (resource, object) in self.plugin().await? {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let namespace = match (resource.namespaced, text("/metadata/namespace")) {
                (false, _) => "",
                (true, "") => "default",
                (true, named) => named,
            };
            let key = Key::new(namespace, text("/metadata/name"));
            let _: Value = guests.apply(&resource, &key, &object, true).await?;
        }
        self.state.lock().plugged = true;
        Ok(())
    }

    async fn plugin(&self) -> Result<Vec<(Resource, Value)>, Trouble> {
        let stand_in = || {
            let key = Key::new("kube-system", "trellis-stand-in-network");
            Ok(vec![(DAEMON_SETS, stand_in(&key))])
        };
        let Some(plugin) = self.cluster.spec.network.plugin else { return stand_in() };
        let name = match (network_plugin::name_of(plugin), self.growing.plugin) {
            (Some(name), _) => network_plugin::config_map(name),
            // An install-config names one when nobody has thought about it.
            (None, GivenPlugin::StandIn) => return stand_in(),
            (None, GivenPlugin::None) => {
                return Err(network_plugin::PluginError::NotGiven(format!("{plugin:?}")).into());
            }
        };
        let map = self.control.find::<ConfigMap>(&CONFIG_MAPS, &Key::new(&self.namespace, &name)).await?;
        match map {
            Some(map) => {
                let pods = founding::names(&self.cluster).pods;
                let given = network_plugin::given(plugin, &map.data, &pods);
                given.map_err(|error| Trouble::Plugin(name, error.to_string()))
            }
            None if self.growing.plugin == GivenPlugin::StandIn => stand_in(),
            None => {
                let why = "it is not there; put the manifests of the network plugin into it".to_owned();
                Err(Trouble::Plugin(name, why))
            }
        }
    }
}

/// A network plugin for guests that need none: it makes their nodes ready, and says what it is.
fn stand_in(key: &Key) -> Value {
    let labels = json!({"app.kubernetes.io/name": key.name()});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": key.namespace(), "name": key.name(), "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": true,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "stand-in", "image": "trellis.dev/stand-in-network:lab"}],
                    "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}],
                },
            },
        },
    })
}
