//! What the real server made of manifests, and what it said about bad ones, compared with the lab's own rules.
//!
//! Every file under `kinds/` is a list of cases: what was given, and the real server's answer (without uids,
//! times and what admission plugins add). They are plain data, so this runs without the real server.
//! `KINDS_CASE` picks the cases whose name contains it, `KINDS_FOLDER` takes them from somewhere else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use trellis_lab::attributes::User;
use trellis_lab::kinds::allocation::{ServiceNetwork, Taken};
use trellis_lab::kinds::{self, WriteContext};
use trellis_lab::names::Gvk;
use trellis_lab::schema::builtin;
use trellis_lab::schema::decode::{decode, normalise};
use trellis_lab::status::FieldProblem;

const UID: &str = "00000000-0000-4000-8000-000000000001";

#[test]
fn kinds_behave_like_those_of_the_real_server() {
    let wanted = std::env::var("KINDS_CASE").unwrap_or_default();
    let folder = std::env::var_os("KINDS_FOLDER")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds"), PathBuf::from);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files {
        let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for case in cases {
            let name = format!(
                "{}: {}",
                file.file_stem().unwrap().to_str().unwrap(),
                case["case"].as_str().unwrap()
            );
            if !name.contains(&wanted) {
                continue;
            }
            count += 1;
            if let Err(why) = check(&case) {
                wrong.push(format!("== {name}\n{why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {count} cases differ", wrong.join("\n"), wrong.len());
}

#[test]
fn versions_of_a_kind_are_two_views_of_the_same() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds/conversions/all.json");
    let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        for (from, to) in [("one", "other"), ("other", "one")] {
            let expected = &case[to];
            let kind = kind_of(expected);
            let mut got = kinds::convert(case[from].clone(), &kind).unwrap();
            kinds::default(&kind, &mut got, "2024-01-02T03:04:05Z".parse().unwrap());
            normalise(builtin::kind_of(&kind).unwrap(), &mut got);
            wrong.extend(changes(&format!("{} from {from}: ", case["case"]), expected, &got));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn kind_of(object: &Value) -> Gvk {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Gvk::new(group, version, object["kind"].as_str().unwrap())
}

/// Nothing is taken.
struct Free;

impl Taken for Free {
    fn network(&self) -> ServiceNetwork {
        ServiceNetwork::default()
    }

    fn address(&self, _: Ipv4Addr) -> bool {
        false
    }

    fn port(&self, _: u16) -> bool {
        false
    }
}

/// What became of an object, and what was said about it.
struct Outcome {
    object: Value,
    causes: Vec<(String, String)>,
    warnings: Vec<String>,
}

fn run(case: &Value) -> Result<Outcome, String> {
    let given = &case["given"];
    let kind = kind_of(given);
    let of = builtin::kind_of(&kind).ok_or("unknown kind")?;
    let mut object = decode(of, given)?.value;
    let user = User {
        name: "admin".to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    };
    let context = WriteContext {
        kind: &kind,
        subresource: case["sub"].as_str().unwrap_or_default(),
        now: "2024-01-02T03:04:05Z".parse().unwrap(),
        user: &user,
        namespace: "ns",
    };
    kinds::default(&kind, &mut object, context.now);
    normalise(of, &mut object);
    if kinds::facts(&kind).is_some_and(|facts| facts.namespaced) {
        object["metadata"]["namespace"] = json!("ns");
    }
    object["metadata"]["uid"] = json!(UID);
    object["metadata"]["resourceVersion"] = json!("1");
    let old = case["old"].as_object().map(|old| {
        let mut old = Value::Object(old.clone());
        old["metadata"]["uid"] = json!(UID);
        old["metadata"]["resourceVersion"] = json!("1");
        old
    });
    let told = |problems: Vec<FieldProblem>| -> Vec<(String, String)> {
        problems
            .into_iter()
            .map(trellis_lab::status::FieldProblem::cause)
            .map(|cause| (cause.field, cause.message))
            .collect()
    };
    if kind.kind == "Service"
        && let Err(status) = kinds::allocate_service(&context, old.as_ref(), &mut object, &Free, true)
    {
        let causes = status.details.causes.into_iter().map(|cause| (cause.field, cause.message)).collect();
        return Ok(Outcome { object, causes, warnings: Vec::new() });
    }
    let mut warnings: Vec<String> =
        kinds::deprecation_warning(&kind).into_iter().map(ToOwned::to_owned).collect();
    let causes = if let Some(old) = &old {
        kinds::prepare_update(&context, old, &mut object);
        warnings.extend(kinds::warnings_on_update(&context, old, &object));
        told(kinds::validate_update(&context, old, &object))
    } else {
        kinds::prepare_create(&context, &mut object);
        warnings.extend(kinds::warnings_on_create(&context, &object));
        told(kinds::validate_create(&context, &object))
    };
    // What is stored is read again before it is answered.
    kinds::default(&kind, &mut object, context.now);
    normalise(of, &mut object);
    Ok(Outcome { object, causes, warnings })
}

fn check(case: &Value) -> Result<(), String> {
    let mut outcome = run(case)?;
    if let Some(causes) = case["causes"].as_array() {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut expected: Vec<(String, String)> =
            causes.iter().map(|cause| (text(&cause[0]), text(&cause[1]))).collect();
        // Maps have no order, so problems of their entries have none.
        expected.sort();
        outcome.causes.sort();
        return if expected == outcome.causes { Ok(()) } else { Err(difference(&expected, &outcome.causes)) };
    }
    if let Some(failure) = case["failure"].as_array() {
        return if failure[0] == 403 || failure[0] == 400 { Ok(()) } else { Err(format!("{failure:?}")) };
    }
    if !outcome.causes.is_empty() {
        return Err(format!("unexpected: {:#?}", outcome.causes));
    }
    let expected: Vec<&str> =
        case["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if expected != outcome.warnings {
        return Err(format!("warnings: expected {expected:#?}, got {:#?}", outcome.warnings));
    }
    let metadata = outcome.object["metadata"].as_object_mut().unwrap();
    metadata.remove("uid");
    metadata.remove("resourceVersion");
    if case["object"] == outcome.object {
        Ok(())
    } else {
        Err(changes("", &case["object"], &outcome.object).join("\n"))
    }
}

fn difference(expected: &[(String, String)], told: &[(String, String)]) -> String {
    let (left, right): (BTreeSet<_>, BTreeSet<_>) = (expected.iter().collect(), told.iter().collect());
    let missing = left.difference(&right).map(|(field, text)| format!("- {field}: {text}"));
    let extra = right.difference(&left).map(|(field, text)| format!("+ {field}: {text}"));
    missing.chain(extra).collect::<Vec<_>>().join("\n")
}

fn changes(at: &str, expected: &Value, got: &Value) -> Vec<String> {
    if let (Value::Object(left), Value::Object(right)) = (expected, got) {
        let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        return keys
            .into_iter()
            .flat_map(|key| {
                let side = |fields: &Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
                changes(&format!("{at}.{key}"), &side(left), &side(right))
            })
            .collect();
    }
    if let (Value::Array(left), Value::Array(right)) = (expected, got)
        && left.len() == right.len()
    {
        let pairs = left.iter().zip(right).enumerate();
        return pairs.flat_map(|(place, (a, b))| changes(&format!("{at}[{place}]"), a, b)).collect();
    }
    if expected == got { Vec::new() } else { vec![format!("{at}: expected {expected}, got {got}")] }
}
