//! Which network attachments are one and the same wire.
//!
//! Two definitions that name one bridge and one VLAN lead to one segment, whatever namespaces they are in; another
//! VLAN is another segment.

use serde_json::Value;

use crate::object::Object as _;

/// The segment a network attachment leads to, as a word that is equal for equal segments. Where the configuration
/// tells nothing that others could share, the attachment is a segment of its own.
pub fn segment(key: &str, attachment: Option<&Value>) -> String {
    let own = || format!("attachment {key}");
    let Some(attachment) = attachment else { return own() };
    let Some(plugin) = main_plugin(attachment) else { return own() };
    let vlan = vlan_of(&plugin);
    match plugin.text("/type") {
        "bridge" | "cnv-bridge" => {
            let bridge = Some(plugin.text("/bridge")).filter(|name| !name.is_empty()).unwrap_or("cni0");
            format!("bridge {bridge} vlan {vlan}")
        }
        "ovs" => format!("ovs {} vlan {vlan}", plugin.text("/bridge")),
        kind @ ("macvlan" | "ipvlan" | "vlan" | "host-device") => {
            let device = ["/master", "/device"].map(|at| plugin.text(at)).concat();
            format!("{kind} {device} vlan {vlan}")
        }
        "sriov" | "ib-sriov" => {
            let resource = attachment.annotation("k8s.v1.cni.cncf.io/resourceName");
            format!("sriov {resource} vlan {vlan}")
        }
        "ovn-k8s-cni-overlay" => {
            let name = ["/physicalNetworkName", "/name"].map(|at| plugin.text(at));
            let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
            format!("ovn {name} vlan {vlan}")
        }
        _ => own(),
    }
}

/// The plugin of a configuration that makes the interface: the first of a list; nothing where it cannot be read.
pub fn main_plugin(attachment: &Value) -> Option<Value> {
    let config: Value = serde_json::from_str(attachment.text("/spec/config")).ok()?;
    let mut plugin = match config.list("/plugins").first() {
        Some(first) => first.clone(),
        None => config.clone(),
    };
    if plugin["name"].is_null() {
        plugin["name"] = config["name"].clone();
    }
    plugin.is_object().then_some(plugin)
}

fn vlan_of(plugin: &Value) -> i64 {
    ["/vlan", "/vlanId", "/vlanID"].iter().find_map(|at| plugin.number(at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attachment(config: &Value) -> Value {
        json!({"spec": {"config": config.to_string()}})
    }

    fn of(key: &str, config: &Value) -> String {
        segment(key, Some(&attachment(config)))
    }

    #[test]
    fn one_bridge_and_vlan_is_one_segment() {
        let one = of("a/x", &json!({"type": "bridge", "bridge": "br1", "vlan": 100}));
        assert_eq!(
            one,
            of(
                "b/y",
                &json!({"name": "n", "plugins": [{"type": "cnv-bridge", "bridge": "br1", "vlan": 100}, {"type": "tuning"}]})
            )
        );
        assert_ne!(one, of("a/x", &json!({"type": "bridge", "bridge": "br1", "vlan": 101})));
        assert_ne!(one, of("a/x", &json!({"type": "bridge", "bridge": "br1"})));
        assert_ne!(one, of("a/x", &json!({"type": "bridge", "bridge": "br2", "vlan": 100})));
    }

    #[test]
    fn what_tells_nothing_is_a_segment_of_its_own() {
        assert_ne!(of("a/x", &json!({"type": "other"})), of("a/y", &json!({"type": "other"})));
        assert_eq!(segment("a/x", None), "attachment a/x");
        assert_eq!(segment("a/x", Some(&json!({"spec": {"config": "{"}}))), "attachment a/x");
    }

    #[test]
    fn overlays_are_told_apart_by_name() {
        let overlay = |name: &str| json!({"type": "ovn-k8s-cni-overlay", "name": name, "topology": "layer2"});
        assert_eq!(of("a/x", &overlay("blue")), of("b/z", &overlay("blue")));
        assert_ne!(of("a/x", &overlay("blue")), of("a/x", &overlay("red")));
    }
}
