//! Only meaning counts: order, spacing and notation make no difference to what is read, hashed or rendered, and
//! nothing is lost on the way into Trellis's own dialect.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;
use trellis_dialects::check::untyped;
use trellis_dialects::convert::convert;
use trellis_dialects::diagnostic::Diagnostics;
use trellis_dialects::parse::parse;
use trellis_dialects::read::{Dialect, read};
use trellis_dialects::source::{FileId, SourceMap};
use trellis_model::Estate;
use trellis_model::canonical::{Revision, hash};

/// All manifests that hold every field, and the examples.
fn manifests() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [here.join("tests/fields"), here.join("../../examples")];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    files.sort();
    files
}

fn estate(text: &str) -> Estate {
    let mut sources = SourceMap::new();
    sources.add("manifest", text);
    let read = read(&sources);
    assert!(!read.diagnostics.has_errors(), "{:#?}", read.diagnostics);
    read.estate
}

fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let parsed = parse(FileId(0), &text, &mut Diagnostics::new());
    parsed.iter().map(|document| untyped(&document.root)).collect()
}

/// Numbers that decide on order and spacing.
struct Choices<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl Choices<'_> {
    fn below(&mut self, n: usize) -> usize {
        usize::from(*self.0.next().unwrap()) % n.max(1)
    }

    fn space(&mut self) -> &'static str {
        ["", " ", "\n", "  \n  "][self.below(4)]
    }
}

/// A value as JSON with its keys in any order and any spacing.
fn jumbled(value: &Value, choices: &mut Choices<'_>, out: &mut String) {
    let items: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(map) => {
            let mut items: Vec<_> = map.iter().map(|(key, value)| (Some(key), value)).collect();
            for i in (1..items.len()).rev() {
                items.swap(i, choices.below(i + 1));
            }
            items
        }
        Value::Array(list) => list.iter().map(|value| (None, value)).collect(),
        scalar => return write!(out, "{scalar}").unwrap(),
    };
    out.push(if value.is_object() { '{' } else { '[' });
    for (i, (key, item)) in items.into_iter().enumerate() {
        out.push_str(if i > 0 { "," } else { "" });
        out.push_str(choices.space());
        if let Some(key) = key {
            write!(out, "{}:{}", Value::String(key.clone()), choices.space()).unwrap();
        }
        jumbled(item, choices, out);
    }
    out.push_str(choices.space());
    out.push(if value.is_object() { '}' } else { ']' });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn order_spacing_and_notation_make_no_difference(choices in prop::collection::vec(any::<u8>(), 64..256)) {
        for file in manifests() {
            let plain = estate(&std::fs::read_to_string(&file).unwrap());
            let mut choices = Choices(choices.iter().cycle());
            let mut text = String::new();
            for document in documents(&file) {
                text.push_str("---\n");
                jumbled(&document, &mut choices, &mut text);
                text.push('\n');
            }
            let again = estate(&text);
            prop_assert_eq!(&plain, &again, "{}", file.display());
            prop_assert_eq!(hash(&plain), hash(&again));
            for pool in &plain.pools {
                let revision = |estate: &Estate| estate.cluster(&pool.spec.cluster).map(|cluster| Revision::of(cluster, pool));
                prop_assert_eq!(revision(&plain), revision(&again));
            }
        }
    }
}

#[test]
fn nothing_is_lost_on_the_way_into_our_own_dialect() {
    for file in manifests() {
        let estate = estate(&std::fs::read_to_string(&file).unwrap());
        let converted = convert(&estate, Dialect::Trellis);
        assert_eq!((converted.lost, converted.incomplete), (vec![], vec![]), "{}", file.display());
    }
}

#[test]
fn what_survives_a_dialect_once_survives_it_for_ever() {
    for file in manifests() {
        let plain = estate(&std::fs::read_to_string(&file).unwrap());
        for dialect in Dialect::ALL {
            let passed = |estate: &Estate| {
                let mut sources = SourceMap::new();
                sources.add(
                    "written",
                    trellis_dialects::yaml_out::to_yaml_documents(&convert(estate, dialect).documents),
                );
                read(&sources).estate
            };
            let once = passed(&plain);
            assert_eq!(once, passed(&once), "{} through {}", file.display(), dialect.as_str());
        }
    }
}
