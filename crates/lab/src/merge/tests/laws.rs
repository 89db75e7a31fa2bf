//! What holds for all objects.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::compare::compare;
use super::super::field_set::to_field_set;
use super::super::*;
use super::widget_types;
use crate::schema::TypeRef;

/// Some of what a widget may be, without repeated items.
fn widgets() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["x", "y", ""]);
    let names =
        |all: &'static [&'static str]| prop::sample::subsequence(all.to_vec(), 0..=all.len()).prop_shuffle();
    let item = (text.clone(), names(&["t1", "t2"]), any::<bool>());
    let items = (names(&["n1", "n2", "n3"]), prop::collection::vec(item, 3)).prop_map(|(names, contents)| {
        let items = names.iter().zip(contents).map(|(name, (x, tags, plain))| {
            if plain { json!({"name": name}) } else { json!({"name": name, "x": x, "tags": tags}) }
        });
        Value::Array(items.collect())
    });
    let map = prop::collection::btree_map("k[12]", text.clone(), 0..3).prop_map(|map| json!(map));
    let free = prop_oneof![
        Just(json!({"a": [1, {"b": 2}], "c": {"d": null}})),
        Just(json!({})),
        Just(json!({"a": 1.5}))
    ];
    let fields = (
        prop::option::of(text.prop_map(|text| json!(text))),
        prop::option::of(names(&["a", "b", "c"]).prop_map(|set| json!(set))),
        prop::option::of(names(&["a", "b"]).prop_map(|set| json!(set))),
        prop::option::of(items),
        prop::option::of(map),
        prop::option::of(free),
    );
    fields.prop_map(|(text, set, atoms, items, map, free)| {
        let all = [("text", text), ("set", set), ("atoms", atoms), ("items", items), ("map", map), ("free", free)];
        let spec: serde_json::Map<String, Value> =
            all.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect();
        json!({"apiVersion": "merge.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
    })
}

fn in_context<R>(manager: &str, seconds: i64, run: impl FnOnce(&Context<'_>, TypeRef<'_>) -> R) -> R {
    let (types, root) = widget_types();
    let of = TypeRef { types: &types, id: root };
    let versions = |api_version: &str| (api_version == "merge.example.com/v1").then_some(of);
    let context = Context {
        manager,
        api_version: "merge.example.com/v1",
        kind: "Widget",
        subresource: "",
        custom: true,
        now: Timestamp::from_second(seconds).unwrap(),
        versions: &versions,
        reset: Reset::custom(true, ""),
    };
    run(&context, of)
}

fn applied(manager: &str, seconds: i64, live: Option<&Value>, config: &Value) -> Value {
    in_context(manager, seconds, |context, _| apply(context, true, live, config).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_a_value_into_itself_changes_nothing(value in widgets()) {
        let (types, root) = widget_types();
        let of = TypeRef { types: &types, id: root };
        prop_assert!(check(of, &value, false).is_ok());
        prop_assert_eq!(&combine(of, &value, &value), &value);
        prop_assert!(compare(of, &value, &value).is_empty());
    }

    #[test]
    fn what_one_way_adds_the_other_way_removes(one in widgets(), other in widgets()) {
        let (types, root) = widget_types();
        let of = TypeRef { types: &types, id: root };
        let (there, back) = (compare(of, &one, &other), compare(of, &other, &one));
        prop_assert_eq!(there.added, back.removed);
        prop_assert_eq!(there.removed, back.added);
        prop_assert_eq!(there.modified, back.modified);
    }

    #[test]
    fn owned_fields_survive_their_stored_form(value in widgets()) {
        let (types, root) = widget_types();
        let of = TypeRef { types: &types, id: root };
        let set = to_field_set(of, &value);
        let stored = fields::encode(&set);
        prop_assert_eq!(&fields::decode(&stored).unwrap(), &set);
        let text: Value = serde_json::from_str(&fields::to_json(&set)).unwrap();
        prop_assert_eq!(text, stored);
    }

    #[test]
    fn applying_again_changes_nothing(base in widgets(), config in widgets()) {
        let live = applied("one", 100, None, &base);
        let first = applied("two", 200, Some(&live), &config);
        let second = applied("two", 300, Some(&first), &config);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn what_is_applied_is_there_and_goes_when_it_is_not_applied_any_more(base in widgets(), config in widgets()) {
        let live = applied("one", 100, None, &base);
        let both = applied("two", 200, Some(&live), &config);
        let (types, root) = widget_types();
        let of = TypeRef { types: &types, id: root };
        // All that somebody applies is in the result, with its value.
        let again = combine(of, &both, &config);
        let left = compare(of, &both, &again);
        prop_assert!(left.modified.is_empty() && left.added.is_empty());
        // Without anybody who applies something, nothing is left but what stands for the object.
        let nothing = json!({"apiVersion": "merge.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
        let alone = applied("one", 300, Some(&both), &nothing);
        let mut none = applied("two", 400, Some(&alone), &nothing);
        let left = none["metadata"].as_object_mut().unwrap().remove("managedFields");
        if is_hollow(&base) || is_hollow(&config) {
            // Nobody owns what is empty, so that it belongs to nobody in particular and stays.
            for entry in left.as_ref().and_then(Value::as_array).into_iter().flatten() {
                prop_assert_eq!(&entry["manager"], "before-first-apply");
            }
        } else {
            prop_assert_eq!(left, None);
            prop_assert!(none.get("spec").is_none_or(|spec| to_field_set(of, spec).is_empty()), "{}", none);
        }
    }

    #[test]
    fn tracking_only_moves_what_changed(base in widgets(), change in widgets()) {
        let live = applied("one", 100, None, &base);
        let mut new = combine(in_root(), &live, &change);
        in_context("two", 200, |context, _| update(context, Some(&live), &mut new));
        let (types, root) = widget_types();
        let of = TypeRef { types: &types, id: root };
        let changes = compare(of, &live, &new);
        for entry in new["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let set = fields::decode(&entry["fieldsV1"]).unwrap();
            let changed = set.intersects(&changes.modified) || set.intersects(&changes.added);
            prop_assert_eq!(changed, entry["manager"] == "two", "{}", entry);
        }
    }
}

/// True for values with an empty list or map anywhere.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(is_hollow),
        Value::Object(fields) => fields.is_empty() || fields.values().any(is_hollow),
        _ => false,
    }
}

/// What the real server makes of a base nobody owns because there is nothing in it.
#[test]
fn an_empty_list_that_nobody_owns_is_null_once_its_items_are_gone() {
    let widget = |spec: Value| json!({"apiVersion": "merge.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let live = applied("one", 100, None, &widget(json!({"set": []})));
    assert!(live["metadata"].get("managedFields").is_none(), "{live}");
    let both = applied("two", 200, Some(&live), &widget(json!({"set": ["c"]})));
    assert_eq!(both["spec"], json!({"set": ["c"]}));
    let owners: Vec<(&Value, &Value)> = both["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["manager"], &entry["fieldsV1"]))
        .collect();
    assert_eq!(
        owners,
        [
            (&json!("two"), &json!({"f:spec": {"f:set": {"v:\"c\"": {}}}})),
            (&json!("before-first-apply"), &json!({"f:spec": {".": {}, "f:set": {}}})),
        ]
    );
    let nothing = json!({"apiVersion": "merge.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let none = applied("two", 300, Some(&both), &nothing);
    assert_eq!(none["spec"], json!({"set": null}));
}

fn in_root() -> TypeRef<'static> {
    let (types, id) = widget_types();
    TypeRef { types: Box::leak(Box::new(types)), id }
}
