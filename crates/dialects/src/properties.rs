//! Properties that hold for every text and every value.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::check::{check, untyped};
use crate::diagnostic::Diagnostics;
use crate::parse::parse;
use crate::path::FieldPath;
use crate::render::{render_human, to_json};
use crate::source::SourceMap;
use crate::yaml_out::{to_yaml, to_yaml_documents};

/// A schema with a bit of everything, in circles.
fn schema() -> Value {
    json!({
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "pattern": "^[a-z]*$", "maxLength": 9},
                    "b": {"type": "integer", "format": "uint8", "minimum": 0},
                    "c": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                    "d": {"anyOf": [{"$ref": "#/$defs/Choice"}, {"type": "null"}]},
                    "e": {"type": "object", "additionalProperties": {"type": "boolean"}},
                    "f": {"x-kubernetes-int-or-string": true},
                    "g": {"x-trellis-ignored": "no", "type": "string"},
                    "h": true,
                },
                "required": ["a"],
                "x-trellis-aliases": {"i": "a"},
            },
            "Choice": {
                "oneOf": [
                    {"type": "string", "const": "none"},
                    {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": false},
                    {"type": "object", "properties": {"b": {"$ref": "#/$defs/Choice"}}, "required": ["b"], "additionalProperties": false},
                ],
            },
            "Circle": {"$ref": "#/$defs/Circle"},
        },
    })
}

/// Everything the source layer does with a text.
fn whole_way(text: &str) {
    let mut sources = SourceMap::new();
    let file = sources.add("<stdin>", text);
    let mut out = Diagnostics::new();
    let schema = schema();
    for document in parse(file, text, &mut out) {
        let value = check(&schema, &document.root, file, &FieldPath::root(), &mut out);
        to_yaml(&value);
        for diagnostic in &out {
            if let Some(path) = diagnostic.path.as_deref() {
                let path = FieldPath::parse(path).expect("a path that is shown can be read");
                document.locate(&path);
            }
        }
    }
    out.sort();
    let shown = render_human(&out, &sources, false);
    assert!(!shown.contains(|character: char| character.is_control() && character != '\n'), "{shown:?}");
    to_json(&out, &sources);
}

/// Texts that look enough like YAML to get past the first line.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a: ".to_owned()),
        Just("b:".to_owned()),
        Just("c:\n- ".to_owned()),
        Just("d: ".to_owned()),
        Just("\n".to_owned()),
        Just("  ".to_owned()),
        Just("\t".to_owned()),
        Just("- ".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(",".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("|\n".to_owned()),
        Just(">-\n".to_owned()),
        Just("&x ".to_owned()),
        Just("*x".to_owned()),
        Just("<<: ".to_owned()),
        Just("!!str ".to_owned()),
        Just("!t ".to_owned()),
        Just("? ".to_owned()),
        Just(": ".to_owned()),
        Just("#".to_owned()),
        Just("---\n".to_owned()),
        Just("...\n".to_owned()),
        Just("%YAML 1.1\n".to_owned()),
        Just("0755".to_owned()),
        Just("yes".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\r\n".to_owned()),
        Just("\\u00e9".to_owned()),
        "[a-z0-9é\u{1}\u{1b}\u{9b}]{1,4}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![".{0,12}", "[ \t\n:#'\"a-]{0,10}", "[0-9_.:eExo+-]{1,8}", "(?s).{0,8}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1.0e6..1.0e6).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "(?s).{0,120}") {
        whole_way(&text);
    }

    #[test]
    fn nothing_that_looks_like_yaml_makes_it_panic(text in yaml_like()) {
        whole_way(&text);
    }

    #[test]
    fn what_is_written_reads_back_the_same(value in values()) {
        let yaml = to_yaml(&value);
        let mut out = Diagnostics::new();
        let mut sources = SourceMap::new();
        let file = sources.add("x", yaml.clone());
        let documents = parse(file, &yaml, &mut out);
        prop_assert!(out.is_empty(), "{yaml}\n{out:?}");
        let read = documents.first().map_or(Value::Null, |document| untyped(&document.root));
        prop_assert_eq!(read, value, "{}", yaml);
    }

    #[test]
    fn several_documents_read_back_the_same(values in prop::collection::vec(values(), 0..4)) {
        let yaml = to_yaml_documents(&values);
        let mut out = Diagnostics::new();
        let documents = parse(crate::source::FileId(0), &yaml, &mut out);
        prop_assert!(out.is_empty(), "{yaml}\n{out:?}");
        let read: Vec<_> = documents.iter().map(|document| untyped(&document.root)).collect();
        let written: Vec<_> = values.into_iter().filter(|value| !value.is_null()).collect();
        prop_assert_eq!(read, written, "{}", yaml);
    }

    #[test]
    fn every_json_text_reads(value in values()) {
        let text = serde_json::to_string_pretty(&json!([value])).unwrap_or_default();
        let mut out = Diagnostics::new();
        let documents = parse(crate::source::FileId(0), &text, &mut out);
        prop_assert!(out.is_empty(), "{text}\n{out:?}");
        prop_assert_eq!(untyped(&documents[0].root), json!([value]));
    }

    #[test]
    fn every_path_reads_back(keys in prop::collection::vec("(?s).{0,6}", 0..4)) {
        let path = keys.iter().enumerate().fold(FieldPath::root(), |path, (index, key)| path.child(key).index(index));
        prop_assert_eq!(FieldPath::parse(&path.to_string()), Ok(path));
    }
}
