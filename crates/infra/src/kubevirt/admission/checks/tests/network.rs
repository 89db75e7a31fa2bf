//! Networks.

use serde_json::json;

use super::*;

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn networks_and_interfaces_belong_together() {
    let interfaces = "/domain/devices/interfaces";
    let interface = "/domain/devices/interfaces/0";
    let two = |first: Value, second: Value| {
        vec![
            ("/networks", json!([first, second])),
            (interfaces, json!([{"name": "a", "bridge": {}}, {"name": "b", "bridge": {}}])),
        ]
    };
    check(vec![
        (
            vec![
                ("/networks/0/name", json!("other")),
                (interfaces, json!([{"name": "other", "bridge": {}}, {"name": "lost", "bridge": {}}])),
            ],
            "spec.domain.devices.interfaces[1].name",
            "spec.domain.devices.interfaces[1].name 'lost' not found.",
        ),
        (
            vec![(
                "/networks",
                json!([{"name": "default", "pod": {}}, {"name": "lost", "multus": {"networkName": "n"}}]),
            )],
            "spec.networks[1].name",
            "spec.networks[1].name 'lost' not found.",
        ),
        (
            two(json!({"name": "a", "pod": {}}), json!({"name": "b", "pod": {}})),
            "spec.interfaces",
            "more than one interface is connected to a pod network",
        ),
        (
            two(
                json!({"name": "a", "pod": {}}),
                json!({"name": "b", "multus": {"networkName": "n", "default": true}}),
            ),
            "spec.networks",
            "Pod network cannot be defined when Multus default network is defined",
        ),
        (
            two(
                json!({"name": "a", "multus": {"networkName": "m", "default": true}}),
                json!({"name": "b", "multus": {"networkName": "n", "default": true}}),
            ),
            "spec.networks",
            "Multus CNI should only have one default network",
        ),
        (vec![("/networks/0", json!({"name": "default"}))], "spec.networks[0]", "should have a network type"),
        (
            vec![("/networks/0/multus", json!({"networkName": "n"}))],
            "spec.networks[0]",
            "should have only one network type",
        ),
        (
            vec![("/networks/0", json!({"name": "default", "multus": {"networkName": ""}}))],
            "spec.networks[0]",
            "CNI delegating plugin must have a networkName",
        ),
        (
            vec![(
                "/networks",
                json!([{"name": "default", "pod": {}}, {"name": "default", "multus": {"networkName": "n"}}]),
            )],
            "spec.networks[1].name",
            "Network with name \"default\" already exists",
        ),
        (
            vec![(interfaces, json!([{"name": "default", "bridge": {}}, {"name": "default", "bridge": {}}]))],
            "spec.domain.devices.interfaces[1].name",
            "Only one interface can be connected to one specific network",
        ),
        (
            vec![(interface, json!({"name": "default"}))],
            "spec.domain.devices.interfaces[0]",
            "logical default interface must have an interface binding method",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "masquerade": {}}))],
            "spec.domain.devices.interfaces[0]",
            "logical default interface cannot have more than one",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "binding": {"name": "p"}}))],
            "spec.domain.devices.interfaces[0].binding",
            "logical default interface cannot have both",
        ),
        (
            vec![
                (interface, json!({"name": "default", "masquerade": {}})),
                ("/networks/0", json!({"name": "default", "multus": {"networkName": "n"}})),
            ],
            "spec.domain.devices.interfaces[0].name",
            "Masquerade interface only implemented with pod network",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:00"}),
            )],
            "spec.domain.devices.interfaces[0].macAddress",
            "The requested MAC address is reserved for the in-pod bridge.",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "macAddress": "zz"}))],
            "spec.domain.devices.interfaces[0].macAddress",
            "interface spec.domain.devices.interfaces[0].name has malformed MAC address (zz).",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "bridge": {}, "macAddress": "02:00:00:00:00:00:00:01"}),
            )],
            "spec.domain.devices.interfaces[0].macAddress",
            "interface spec.domain.devices.interfaces[0].name has MAC address (02:00:00:00:00:00:00:01) that is too long.",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "model": "ne1"}))],
            "spec.domain.devices.interfaces[0].model",
            "interface spec.domain.devices.interfaces[0].name uses model ne1",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "pciAddress": "1"}))],
            "spec.domain.devices.interfaces[0].pciAddress",
            "interface spec.domain.devices.interfaces[0].name has malformed PCI address",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "ports": [{"port": 0}]}))],
            "spec.domain.devices.interfaces[0].ports[0]",
            "Port field is mandatory.",
        ),
        (
            vec![(interface, json!({"name": "default", "bridge": {}, "ports": [{"port": 70000}]}))],
            "spec.domain.devices.interfaces[0].ports[0]",
            "Port field must be in range",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "bridge": {}, "ports": [{"port": 1, "protocol": "SCTP"}]}),
            )],
            "spec.domain.devices.interfaces[0].ports[0].protocol",
            "Unknown protocol",
        ),
        (
            vec![(
                interface,
                json!({"name": "default", "bridge": {}, "ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}),
            )],
            "spec.domain.devices.interfaces[0].ports[1].name",
            "Duplicate name of the port: a",
        ),
    ]);
    let slirp = json!({"domain": {"devices": {"interfaces": [{"name": "a", "slirp": {}}]}}});
    assert_eq!(
        discontinued_bindings(&Field::new("spec"), &slirp)[0].field,
        "spec.domain.devices.interfaces[0].slirp"
    );
}
