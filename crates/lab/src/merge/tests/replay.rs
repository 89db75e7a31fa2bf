//! Writes that were recorded from the real server, done again.
//!
//! A recording has one write per line: the object before, who wrote what and how, and what the server answered.
//! The file named by `TRELLIS_MERGE_RECORDING` is replayed instead of the one that is kept with the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::strategic::strategic_merge;
use super::super::*;
use super::server::{SERVER_SIDE, fill, put_back, put_back_reset, tidy, unallocate, whole_numbers};
use super::{builtin_type, widget_types};
use crate::names::Gvk;
use crate::schema::{TypeRef, builtin};

/// Our own objects, as the real server answered about them.
const RECORDING: &str = include_str!("data/recording.jsonl");

/// Where the result of the server is not what was computed, apart from what the server adds.
fn differences(mine: &Value, theirs: &Value, path: &str, typed: bool, out: &mut String) {
    match (mine, theirs) {
        (Value::Object(mine), Value::Object(theirs)) => {
            let names: std::collections::BTreeSet<&String> = mine.keys().chain(theirs.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (mine.get(name), theirs.get(name)) {
                    (Some(mine), Some(theirs)) => differences(mine, theirs, &path, typed, out),
                    _ if typed && SERVER_SIDE.contains(&name.as_str()) => {}
                    // A structure that is always there.
                    (None, Some(Value::Object(theirs))) if typed && theirs.is_empty() => {}
                    (mine, theirs) => writeln!(out, "{path}: {mine:?} but {theirs:?}").unwrap(),
                }
            }
        }
        (Value::Array(mine), Value::Array(theirs)) if mine.len() == theirs.len() => {
            for (place, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
                differences(mine, theirs, &format!("{path}[{place}]"), typed, out);
            }
        }
        _ if mine == theirs => {}
        _ if typed && SERVER_SIDE.iter().any(|name| path.ends_with(&format!(".{name}"))) => {}
        _ => writeln!(out, "{path}: {mine} but {theirs}").unwrap(),
    }
}

fn reset_of(write: &Value) -> Reset {
    let text = |name: &str| write[name].as_str().unwrap_or_default();
    let resource = builtin::resources().iter().find(|resource| {
        let group_version = Gvk::new(resource.group, resource.version, "").api_version();
        resource.kind == text("kind") && group_version == text("api_version")
    });
    match resource {
        Some(resource) => Reset::builtin(resource, text("subresource")),
        None => Reset::custom(true, text("subresource")),
    }
}

fn entries(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map_or(&[], Vec::as_slice)
}

/// The time the server had: that of whoever wrote.
fn time_of(write: &Value, operation: &str) -> Timestamp {
    let found = entries(&write["result"]).iter().find(|entry| {
        entry["manager"] == write["manager"]
            && entry["operation"] == operation
            && entry["subresource"].as_str().unwrap_or_default() == write["subresource"]
            && (operation == "Apply" || entry["apiVersion"] == write["api_version"])
    });
    let newest = || entries(&write["result"]).iter().filter_map(|entry| entry["time"].as_str()).max();
    let text =
        found.and_then(|entry| entry["time"].as_str()).or_else(newest).unwrap_or("2030-01-01T00:00:00Z");
    text.parse().unwrap()
}

/// Does a write to the scale of an object again.
fn replay_scale(write: &Value) -> Result<(), String> {
    let text = |name: &str| write[name].as_str().unwrap_or_default();
    let versions: &[&str] =
        if write["custom"] == true { &["merge.example.com/v1", "merge.example.com/v2"] } else { &["v1"] };
    let path = Some(vec!["spec".to_owned(), "replicas".to_owned()]);
    let paths: Vec<ReplicasPath> = versions
        .iter()
        .map(|version| ReplicasPath { api_version: (*version).to_owned(), path: path.clone() })
        .collect();
    let types = |api_version: &str| {
        Some(api_version)
            .filter(|version| *version == "autoscaling/v1")
            .and_then(|version| builtin_type(version, "Scale"))
    };
    let of = types("autoscaling/v1").unwrap();
    let context = Context {
        manager: text("manager"),
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        custom: false,
        now: time_of(write, "Update"),
        versions: &types,
        reset: Reset::Nothing,
    };
    let apply_scale = |context: &Context<'_>, force, live: &Value, body: &Value| {
        if write["custom"] == true {
            apply_to_custom_scale(context, force, live, body)
        } else {
            apply(context, force, Some(live), body)
        }
    };
    let parent = &write["live"]["metadata"]["managedFields"];
    let mut live = write["scale"].clone();
    live["metadata"]["managedFields"] = to_scale(parent, &paths)?;
    let result = match text("op") {
        "scale-apply" => match apply_scale(&context, write["force"] == true, &live, &write["body"]) {
            Ok(scale) => scale,
            Err(status) => {
                return if status.message == write["result"]["message"] {
                    Ok(())
                } else {
                    Err(status.message)
                };
            }
        },
        other => {
            let new = if other == "scale-put" {
                write["body"].clone()
            } else {
                json_merge(&live, &write["body"], false).unwrap()
            };
            let mut new = tidy(of, &new);
            update(&context, Some(&live), &mut new);
            new
        }
    };
    let entries_now = from_scale(parent, &result["metadata"]["managedFields"], text("api_version"), &paths)?;
    let theirs = &write["result"]["metadata"]["managedFields"];
    if entries_now == *theirs { Ok(()) } else { Err(format!("{entries_now:#}\n  but\n{theirs:#}\n")) }
}

/// A recorded write with what is known about its kind.
struct Write<'a> {
    recorded: &'a Value,
    of: TypeRef<'a>,
    context: &'a Context<'a>,
    live: Option<&'a Value>,
}

/// Does a write again; says what came out differently.
fn replay(recorded: &Value, widgets: TypeRef<'_>) -> Result<(), String> {
    let text = |name: &str| recorded[name].as_str().unwrap_or_default();
    let custom = recorded["custom"] == true;
    let versions = |api_version: &str| match api_version {
        "merge.example.com/v1" | "merge.example.com/v2" if custom => Some(widgets),
        _ if custom => None,
        other => builtin_type(other, text("kind")),
    };
    let context = Context {
        manager: text("manager"),
        api_version: text("api_version"),
        kind: text("kind"),
        subresource: text("subresource"),
        custom,
        now: time_of(recorded, if text("op") == "apply" { "Apply" } else { "Update" }),
        versions: &versions,
        reset: reset_of(recorded),
    };
    let of = versions(text("api_version")).unwrap();
    let live = Some(&recorded["live"]).filter(|live| !live.is_null());
    let write = Write { recorded, of, context: &context, live };
    let mine = match write.done() {
        Ok(mine) => mine,
        Err(status) => return write.same_failure(&status),
    };
    match recorded["code"].as_u64() {
        Some(..300) => {}
        Some(409) => return Err(format!("no failure but {}", recorded["result"]["message"])),
        // Refused for other reasons than those of the merge.
        _ => return Ok(()),
    }
    let mut out = String::new();
    let mut mine = write.decoded(mine);
    if text("op") == "apply" {
        write.compare_applied(&mut mine, &mut out);
    } else {
        write.track(&mut mine, &mut out);
    }
    write.compare_entries(mine["metadata"]["managedFields"].take(), &mut out);
    if out.is_empty() { Ok(()) } else { Err(out) }
}

impl Write<'_> {
    fn is(&self, name: &str, value: &str) -> bool {
        self.recorded[name] == value
    }

    /// The object that comes out of the merge itself.
    fn done(&self) -> Result<Value, crate::status::Status> {
        let (live, body) = (self.live.unwrap_or(&Value::Null), &self.recorded["body"]);
        match self.recorded["op"].as_str().unwrap() {
            "apply" => apply(self.context, self.recorded["force"] == true, self.live, body),
            "create" | "put" => Ok(body.clone()),
            "merge" => json_merge(live, body, false),
            "json" => json_patch(live, body, false),
            "strategic" => strategic_merge(self.of, live, body),
            other => panic!("no such write: {other}"),
        }
    }

    /// The object as it is after decoding.
    fn decoded(&self, mut mine: Value) -> Value {
        if self.context.custom {
            fill(self.of, &mut mine);
            let (_, metadata) = self.of.field("metadata").unwrap();
            let entries = mine["metadata"].get("managedFields").cloned();
            mine["metadata"] = tidy(metadata, &mine["metadata"]);
            if let Some(entries) = entries {
                mine["metadata"]["managedFields"] = entries;
            }
            whole_numbers(&mut mine);
        } else if self.is("op", "apply") {
            mine = tidy(self.of, &mine);
        }
        mine
    }

    fn same_failure(&self, status: &crate::status::Status) -> Result<(), String> {
        let (mut mine, mut theirs) = (status.to_value(), self.recorded["result"].clone());
        for status in [&mut mine, &mut theirs] {
            sort_conflicts(status);
        }
        // Several misfits come in any order, and an unknown field hides some of the others.
        let lines = |status: &Value| -> Vec<String> {
            let text = status["message"].as_str().unwrap_or_default();
            text.split_once("errors:\n").map_or(text, |(_, lines)| lines).lines().map(str::to_owned).collect()
        };
        let (ours, others) = (lines(&mine), lines(&theirs));
        let misfits = self.is("op", "apply") && self.recorded["code"] == 500;
        let unknown = |lines: &[String]| lines.iter().any(|line| line.contains("not declared"));
        let same = if misfits && ours.len().max(others.len()) > 1 {
            let all = ours.len() == others.len() && others.iter().all(|line| ours.contains(line));
            all || (unknown(&ours) && unknown(&others))
        } else {
            mine == theirs
        };
        if same { Ok(()) } else { Err(format!("failed with {mine:#}")) }
    }

    /// Tracks the fields of a write that is no apply. What the server made of a built-in object is taken from its
    /// answer, so that defaults are not needed here.
    fn track(&self, mine: &mut Value, out: &mut String) {
        if !self.context.custom {
            let result = &self.recorded["result"];
            let sent = mine["metadata"].get("managedFields").cloned();
            let (mut left, mut right) = (tidy(self.of, mine), result.clone());
            let reset = put_back_reset(&mut left, result, self.context.reset);
            left["metadata"]["managedFields"] = Value::Null;
            right["metadata"]["managedFields"] = Value::Null;
            differences(&left, &right, "", true, out);
            *mine = result.clone();
            for (name, value) in reset {
                mine[name] = value;
            }
            mine["metadata"].as_object_mut().unwrap().remove("managedFields");
            if let Some(sent) = sent {
                mine["metadata"]["managedFields"] = sent;
            }
            if self.is("op", "create") && self.is("kind", "Service") {
                unallocate(mine, &self.recorded["body"]);
            }
        }
        update(self.context, self.live, mine);
    }

    /// Compares what was applied with the answer.
    fn compare_applied(&self, mine: &mut Value, out: &mut String) {
        let result = &self.recorded["result"];
        let after = mine["metadata"]["managedFields"].take();
        // What belongs to the other half of the object is put back.
        if !self.context.custom {
            put_back_reset(mine, result, self.context.reset);
        } else if let ("status", Some(live)) = (self.context.subresource, self.live) {
            put_back(mine, live, "spec");
            mine["metadata"] = live["metadata"].clone();
        } else {
            put_back(mine, self.live.unwrap_or(&Value::Null), "status");
        }
        let mut expected = result.clone();
        for object in [&mut *mine, &mut expected] {
            object["metadata"]["managedFields"] = Value::Null;
            for name in ["generation", "resourceVersion", "uid", "creationTimestamp"] {
                object["metadata"].as_object_mut().unwrap().remove(name);
            }
        }
        differences(mine, &expected, "", !self.context.custom, out);
        mine["metadata"]["managedFields"] = after;
    }

    fn compare_entries(&self, mine: Value, out: &mut String) {
        let result = &self.recorded["result"];
        let mut stored = result.clone();
        stored["metadata"]["managedFields"] = mine;
        if let Some(live) = self.live {
            stored["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            ignore_times(live, &mut stored);
        }
        let (mine, theirs) = (entries(&stored), entries(result));
        if mine != theirs {
            let only = |list: &[Value], other: &[Value]| {
                let lines =
                    list.iter().filter(|entry| !other.contains(entry)).map(|entry| format!("    {entry}"));
                lines.collect::<Vec<_>>().join("\n")
            };
            writeln!(out, "managed fields:\n{}\n  but\n{}", only(mine, theirs), only(theirs, mine)).unwrap();
        }
    }
}

/// The real server tells conflicts in any order of managers.
fn sort_conflicts(status: &mut Value) {
    let text = |cause: &Value| cause["message"].as_str().unwrap_or_default().to_owned();
    if let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(|cause| text(cause).trim_start_matches("conflict with ").to_owned());
    }
}

#[test]
fn recorded_writes_have_the_results_of_the_real_server() {
    let recording = match std::env::var("TRELLIS_MERGE_RECORDING") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => RECORDING.to_owned(),
    };
    let (types, root) = widget_types();
    let widgets = TypeRef { types: &types, id: root };
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (line, write) in recording.lines().enumerate() {
        let write: Value = serde_json::from_str(write).unwrap();
        let scale = write["op"].as_str().is_some_and(|op| op.starts_with("scale-"));
        let outcome = if scale { replay_scale(&write) } else { replay(&write, widgets) };
        let what = format!("{} {} {}", write["kind"], write["op"], write["code"]);
        let count = counts.entry(what.clone()).or_default();
        count.0 += 1;
        if let Err(why) = outcome {
            count.1 += 1;
            let brief = json!({"live": write["live"], "body": write["body"], "manager": write["manager"],
                "subresource": write["subresource"], "api_version": write["api_version"], "force": write["force"]});
            wrong.push(format!("line {}: {what}\n{why}  of {brief}\n  result {}", line + 1, write["result"]));
        }
    }
    for (what, (all, wrong)) in counts {
        println!("{what}: {all}, wrong {wrong}");
    }
    assert!(
        wrong.is_empty(),
        "{} writes came out differently, such as\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}
