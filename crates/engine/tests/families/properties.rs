//! Whatever a server hands out is read without panic, and nothing secret is said about it.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use trellis_engine::families::adoption::{hand_back, made_by_others, take_over};
use trellis_engine::families::health::HealthCheck;
use trellis_engine::families::{
    Family, HistoryObject, KKP, OPENSHIFT, Object, PoolStatus, Readings, TRELLIS, machine_seen, make, member,
    pool_status, set_size, set_status,
};

use super::fixtures::{deployment, now, openshift_set, own_readings, pool, readings};

const SECRET: &str = "hunter2TopSecret";

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9:/%.]{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-z]{1,6}",
        prop::sample::select(vec![
            "spec",
            "template",
            "metadata",
            "labels",
            "annotations",
            "providerSpec",
            "value",
            "replicas",
            "selector",
            "cloudProviderSpec",
            "status",
            "conditions",
            "nodeRef",
            "trellis",
            "providerStatus",
            "cluster",
            "pool",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Everything that reads an object, for what it may say.
fn look_at(family: &'static Family, readings: &Readings, object: &Object) -> String {
    let mut said = format!("{:?} {:?}", machine_seen(family, object), member(family, object));
    let results =
        [readings.machine(object, Some("p")), readings.set(object, Some("p")), readings.pool(object)];
    for result in results {
        match result {
            Ok(reading) => {
                make::machine(family, object, &reading, make::NewMachine { ordinal: 1, zone: Some("z") });
                make::set(
                    family,
                    object,
                    &reading,
                    make::NewSet { number: 1, replicas: 1, desired: 1, most: 2 },
                );
                let _ = write!(said, "{reading:?}");
            }
            Err(error) => said += &error.to_string(),
        }
    }
    pool_status(family, object, &PoolStatus::default(), now());
    set_status(family, object, &PoolStatus::default(), now());
    take_over(family, object);
    hand_back(family, object);
    made_by_others(family, object);
    set_size(object);
    let checks = (HealthCheck::of_object(object), HealthCheck::of_pool(object));
    let _ = write!(said, "{checks:?}");
    said
}

fn families() -> [(&'static Family, Readings); 3] {
    [(&KKP, readings(&KKP)), (&OPENSHIFT, readings(&OPENSHIFT)), (&TRELLIS, own_readings())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_object_is_too_strange(spec in any_json(), status in any_json(), whole in any_json()) {
        let _ = serde_json::from_value::<Object>(whole.clone());
        let _ = serde_json::from_value::<HistoryObject>(whole);
        let value = json!({ "metadata": { "name": "m", "namespace": "n", "uid": "u" }, "spec": spec, "status": status });
        if let Ok(object) = serde_json::from_value::<Object>(value) {
            for (family, readings) in families() {
                look_at(family, &readings, &object);
            }
        }
    }

    /// A real template in which something is replaced by something else: the place must not matter.
    #[test]
    fn no_damage_to_a_template_is_too_strange(
        which in 0_usize..3, path in prop::collection::vec(0_usize..8, 1..9), with in any_json(),
    ) {
        let mut value = [deployment(), openshift_set(), pool()][which].clone();
        damage(&mut value["spec"], &path, with);
        if let Ok(object) = serde_json::from_value::<Object>(value) {
            for (family, readings) in families() {
                look_at(family, &readings, &object);
            }
        }
    }

    #[test]
    fn what_is_secret_is_never_said(
        place in prop::sample::select(vec![
            ("/spec/template/spec/providerSpec/value", "overwriteCloudConfig"),
            ("/spec/template/spec/providerSpec/value/cloudProviderSpec/auth", "kubeconfig"),
            ("/spec/template/spec/providerSpec/value/cloudProviderSpec", "password"),
            ("/spec/template/spec/providerSpec/value/cloudProviderSpec/virtualMachine/template/primaryDisk", "extraHeaders"),
        ]),
        form in 0_usize..4,
        damaged in any::<bool>(),
    ) {
        let secret = [json!(SECRET), json!([SECRET]), json!({ "value": SECRET }), json!({ "x": { "y": [SECRET] } })][form].clone();
        let mut value = deployment();
        value.pointer_mut(place.0).unwrap()[place.1] = secret;
        if damaged {
            value["spec"]["template"]["spec"]["versions"]["kubelet"] = "new".into();
        }
        let object: Object = serde_json::from_value(value).unwrap();
        let said = look_at(&KKP, &readings(&KKP), &object);
        prop_assert!(!said.contains(SECRET), "{said}");
        let shown = format!("{object:?}");
        prop_assert!(!shown.contains(SECRET));
    }
}

fn damage(value: &mut Value, path: &[usize], with: Value) {
    let Some((first, rest)) = path.split_first() else {
        *value = with;
        return;
    };
    let inner = match value {
        Value::Object(map) if !map.is_empty() => {
            let at = first % map.len();
            map.values_mut().nth(at)
        }
        Value::Array(list) if !list.is_empty() => {
            let at = first % list.len();
            list.get_mut(at)
        }
        _ => None,
    };
    match inner {
        Some(inner) => damage(inner, rest, with),
        None => *value = with,
    }
}
