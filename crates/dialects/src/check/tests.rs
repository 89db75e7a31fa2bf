//! Tests of the check, with schemas as `schemars` derives them.

mod fixtures;

use serde_json::json;

use self::fixtures::Manifest;
use super::*;
use crate::diagnostic::Severity;
use crate::parse::parse;
use crate::render::render_human;
use crate::source::SourceMap;

struct Checked {
    value: Value,
    out: Diagnostics,
    sources: SourceMap,
}

fn checked(text: &str) -> Checked {
    let schema = schemars::schema_for!(Manifest).to_value();
    let mut sources = SourceMap::new();
    let file = sources.add("m.yaml", text);
    let mut out = Diagnostics::new();
    let documents = parse(file, text, &mut out);
    assert!(out.is_empty(), "{text}: {out:?}");
    let value = check(&schema, &documents[0].root, file, &FieldPath::root(), &mut out);
    Checked { value, out, sources }
}

/// The value of a text without errors, which serde must accept as well.
fn good(text: &str) -> Value {
    let checked = checked(text);
    assert!(!checked.out.has_errors(), "{text}\n{}", render_human(&checked.out, &checked.sources, false));
    let manifest: Manifest = serde_json::from_value(checked.value.clone()).unwrap();
    serde_json::to_value(manifest).unwrap()
}

/// The only diagnostic of a text, with the text it marks.
fn only(text: &str) -> (Diagnostic, String) {
    let checked = checked(text);
    assert_eq!(checked.out.len(), 1, "{text}\n{}", render_human(&checked.out, &checked.sources, false));
    let diagnostic = checked.out.into_iter().next().unwrap();
    let marked = diagnostic.location.unwrap().span.slice(text).to_owned();
    (diagnostic, marked)
}

fn assert_only(text: &str, code: &str, marked: &str, message: &str, help: &str) {
    let (diagnostic, found) = only(text);
    assert_eq!((diagnostic.code, found.as_str()), (code, marked), "{text}: {diagnostic:?}");
    assert!(diagnostic.message.contains(message), "{text}: {}", diagnostic.message);
    let shown = diagnostic.help.as_deref().unwrap_or_default();
    assert!(shown.contains(help), "{text}: {shown}");
}

#[test]
fn what_fits_becomes_what_serde_reads() {
    let text = "name: a-b\nreplicas: 0x10\nratio: 1\npaused: TRUE\nversion: 1.20\nlabels: {a.b/c: x}\n\
                pools:\n- name: p\n  disk: {storageClass: fast}\nmode: On\nsource: {http: {url: x}}\n\
                action: {type: wait, seconds: 5}\nfree: {x: [1, yes, ~]}\nport: http\nsigned: -5\n";
    assert_eq!(
        good(text),
        json!({
            "name": "a-b", "replicas": 16, "ratio": 1.0, "paused": true, "version": "1.20",
            "labels": {"a.b/c": "x"}, "pools": [{"name": "p", "disk": {"storageClass": "fast"}}], "mode": "On",
            "source": {"http": {"url": "x"}}, "action": {"type": "wait", "seconds": 5},
            "free": {"x": [1, "yes", null]}, "port": "http", "signed": -5,
        })
    );
    assert_eq!(good("name: a\nport: 80\n")["port"], json!(80));
    assert_eq!(good("name: a\nport: \"80\"\n")["port"], json!("80"));
    assert_eq!(good("name: a\nsource: blank\n")["source"], json!("blank"));
    assert_eq!(good("name: a\nsource: {registry: {}}\n")["source"], json!({"registry": {}}));
    assert_eq!(good("name: a\nreplicas:\nlabels: ~\nmode:\n"), json!({"name": "a"}), "nothing means absent");
}

#[test]
fn unknown_fields_come_with_a_guess() {
    assert_only(
        "name: a\nreplica: 3\n",
        "unknown-field",
        "replica",
        "unknown field `replica`",
        "did you mean `replicas`?",
    );
    assert_only("name: a\nReplicas: 3\n", "unknown-field", "Replicas", "", "did you mean `replicas`?");
    assert_only("name: a\nrepilcas: 3\n", "unknown-field", "repilcas", "", "did you mean `replicas`?");
    assert_only("name: a\nxyzzy: 3\n", "unknown-field", "xyzzy", "", "known fields: `action`, `addons`");
    assert!(only("name: a\nxyzzy: 3\n").0.help.unwrap().ends_with('…'));
    let down = "name: a\npools:\n- name: p\n  storageClass: x\n  disk: {}\n";
    assert_only(down, "unknown-field", "storageClass", "", "`storageClass` belongs in `disk`");
    let up = "name: a\nsource: {registry: {mode: Fast}}\n";
    assert_only(up, "unknown-field", "mode", "", "known fields: `storageClass`");
    assert_eq!(only(up).0.path.as_deref(), Some("source.registry.mode"));
    let top = "name: a\npools:\n- name: p\n  disk: {}\n  Mode: Fast\n";
    assert_only(top, "unknown-field", "Mode", "", "`mode` belongs at the top of the document");
    let one_up = "name: a\npools:\n- name: p\n  disk: {name: q}\n";
    assert_only(one_up, "unknown-field", "name", "", "belongs one level up");
}

#[test]
fn missing_fields_say_what_they_are() {
    assert_only(
        "replicas: 1\n",
        "missing-field",
        "replicas",
        "missing field `name`: The name of the cluster",
        "add `name`",
    );
    assert_only("{}\n", "missing-field", "{}", "missing field `name`", "");
    assert_only("name:\n", "missing-field", "name", "`name` has no value", "give `name` a value");
    let text = "name: a\npools:\n- name: p\n  disk:\n";
    assert_only(text, "missing-field", "disk", "`disk` has no value", "`{}`");
    assert_eq!(only(text).0.path.as_deref(), Some("pools[0].disk"));
}

#[test]
fn the_wrong_kind_is_named() {
    assert_only("name: a\nreplicas: many\n", "wrong-type", "many", "expected a whole number, found text", "");
    assert_only("name: [a]\n", "wrong-type", "[a]", "expected text, found a list", "remove the `- `");
    assert_only(
        "name: a\npools: {name: p}\n",
        "wrong-type",
        "name",
        "expected a list, found a mapping",
        "put `- ` before it",
    );
    assert_only(
        "name: a\nlabels: [x, y]\n",
        "wrong-type",
        "[x, y]",
        "expected a mapping, found a list",
        "only one item",
    );
    assert_only(
        "name: a\npools: [p]\n",
        "wrong-type",
        "p",
        "expected a mapping, found text",
        "`disk`, `name`",
    );
    assert_only("name: a\npools:\n  ...\n", "wrong-type", "...", "", "left out");
    assert_only("name: a\npools:\n-\n", "wrong-type", "", "this list item is empty", "remove the `-`");
    assert_only("name: a\nlabels: {x: }\n", "wrong-type", "", "expected text, found nothing", "`\"\"`");
    assert_only("- a\n", "wrong-type", "- a", "expected a mapping, found a list", "");
    assert_only("name: a\npools: []\n", "invalid-value", "[]", "at least 1 item,", "");
    assert_only("name: a\nport: [1]\n", "wrong-type", "[1]", "a number or text", "");
}

#[test]
fn text_that_yaml_reads_as_something_else_needs_quotes() {
    for text in ["1.20", "true", "0755", "1e3", "0x1F"] {
        let manifest = format!("name: a\nlabels: {{x: {text}}}\n");
        assert_only(
            &manifest,
            "wrong-type",
            text,
            "expected text, found",
            &format!("put it in quotes: \"{text}\""),
        );
        assert_eq!(good(&format!("name: a\nlabels: {{x: '{text}'}}\n"))["labels"]["x"], json!(text));
        assert_eq!(
            good(&format!("name: a\nversion: {text}\n"))["version"],
            json!(text),
            "x-trellis-text takes any"
        );
    }
    assert_only("name: a\nlabels: {x: yes}\n", "yaml-1.1-boolean", "yes", "is text here", "\"yes\"");
    assert_eq!(only("name: a\nlabels: {x: yes}\n").0.severity, Severity::Warning);
    assert_eq!(good("name: a\nlabels: {x: 12:30, y: 2024-01-01}\n")["labels"]["x"], json!("12:30"));
}

#[test]
fn numbers_are_strict() {
    assert_only(
        "name: a\nreplicas: '3'\n",
        "wrong-type",
        "'3'",
        "expected a whole number, found text",
        "remove the quotes",
    );
    assert_only("name: a\nreplicas: 1.5\n", "wrong-type", "1.5", "expected a whole number", "");
    assert_only("name: a\nreplicas: 1_000\n", "wrong-type", "1_000", "underscores", "write 1000");
    assert_only(
        "name: a\nreplicas: 0755\n",
        "ambiguous-number",
        "0755",
        "octal in YAML 1.1",
        "write 755 if decimal is meant, or 493",
    );
    assert_only("name: a\nport: 0755\n", "ambiguous-number", "0755", "", "493");
    assert_only("name: a\nreplicas: -1\n", "invalid-value", "-1", "between 0 and 4294967295", "");
    assert_only(
        "name: a\nreplicas: 4294967296\n",
        "invalid-value",
        "4294967296",
        "between 0 and 4294967295",
        "",
    );
    assert_only("name: a\nsmall: 256\n", "invalid-value", "256", "between 0 and 255", "");
    assert_only(
        "name: a\nsigned: 3000000000\n",
        "invalid-value",
        "3000000000",
        "between -2147483648 and",
        "",
    );
    assert_only("name: a\nratio: .inf\n", "invalid-value", ".inf", "out of range", "");
    assert_only(
        &format!("name: a\nreplicas: {}\n", "9".repeat(50)),
        "invalid-value",
        &"9".repeat(50),
        "",
        "",
    );
    assert_eq!(good("name: a\nreplicas: 0\nsmall: 255\nratio: 2.5e1\n")["ratio"], json!(25.0));
}

#[test]
fn truth_values_come_in_two_ages() {
    for (text, truth) in [("true", true), ("False", false), ("TRUE", true)] {
        assert_eq!(good(&format!("name: a\npaused: {text}\n"))["paused"], json!(truth));
    }
    for (text, truth) in [("yes", true), ("Off", false), ("N", false)] {
        let manifest = format!("name: a\npaused: {text}\n");
        assert_only(&manifest, "yaml-1.1-boolean", text, "is read as", &format!("write `{truth}`"));
        assert_eq!(good(&manifest)["paused"], json!(truth));
    }
    assert_only(
        "name: a\npaused: 'true'\n",
        "wrong-type",
        "'true'",
        "expected true or false, found text",
        "remove the quotes",
    );
    assert_only("name: a\npaused: 'yes'\n", "wrong-type", "'yes'", "expected true or false, found text", "");
    assert_only("name: a\npaused: 1\n", "wrong-type", "1", "expected true or false, found a number", "");
}

#[test]
fn words_are_chosen_from_a_list() {
    assert_only(
        "name: a\nmode: fast\n",
        "invalid-value",
        "fast",
        "`fast` is not allowed here",
        "did you mean `Fast`?",
    );
    assert_only("name: a\nmode: medium\n", "invalid-value", "medium", "", "allowed are ");
    assert_only("name: a\nmode: {x: 1}\n", "wrong-type", "x", "expected text, found a mapping", "");
    assert!(checked("name: a\nmode: On\n").out.is_empty(), "an allowed word needs no warning");
}

#[test]
fn patterns_and_lengths_hold() {
    assert_only("name: A\n", "invalid-value", "A", "`A` must be a lower-case name", "");
    assert_only("name: abcdefghijk\n", "invalid-value", "abcdefghijk", "at most 10 characters", "");
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "^a+$", "minLength": 3}, "y": {"type": "string", "pattern": "("}}});
    let mut out = Diagnostics::new();
    let documents = parse(FileId(0), "x: b\ny: c\n", &mut out);
    check(&schema, &documents[0].root, FileId(0), &FieldPath::root().child("spec"), &mut out);
    let messages: Vec<_> = out.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(
        messages[0].contains("at least 3") && messages[1].contains("does not match `^a+$`"),
        "{messages:?}"
    );
    assert!(messages[2].contains("of the schema"), "{messages:?}");
    assert_eq!(out.iter().next().unwrap().path.as_deref(), Some("spec.x"));
}

#[test]
fn exactly_one_alternative_is_chosen() {
    assert_only("name: a\nsource: {}\n", "choose-one", "{}", "one of `http`, `registry`", "choose one of");
    let two = "name: a\nsource:\n  http: {url: x}\n  registry: {}\n";
    assert_only(two, "choose-one", "registry", "only one of `http`, `registry`", "");
    let misspelt = checked("name: a\nsource: {htp: {url: x}}\n");
    let codes: Vec<_> = misspelt.out.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, ["choose-one", "unknown-field"]);
    assert!(misspelt.out.iter().any(|diagnostic| diagnostic.help.as_deref() == Some("did you mean `http`?")));
    assert_only("name: a\nsource: {http: {url: 5}}\n", "wrong-type", "5", "expected text", "quotes");
    assert_only("name: a\nsource: blnk\n", "invalid-value", "blnk", "", "did you mean `blank`?");
    assert_only("name: a\nsource: [x]\n", "wrong-type", "[x]", "expected", "");
}

#[test]
fn tagged_alternatives_are_chosen_by_their_tag() {
    assert_only(
        "name: a\naction: {type: run, comand: x, command: z}\n",
        "unknown-field",
        "comand",
        "",
        "did you mean `command`?",
    );
    assert_only(
        "name: a\naction: {type: wait, seconds: x}\n",
        "wrong-type",
        "x",
        "expected a whole number",
        "",
    );
    assert_only("name: a\naction: {type: run}\n", "missing-field", "type", "missing field `command`", "");
}

#[test]
fn ignored_fields_are_not_looked_at() {
    let text = "name: a\naddons: [1, {x: y}]\nstatus: {a: b}\n";
    assert_only(text, "ignored-field", "addons", "`addons` is ignored: addons come from elsewhere", "");
    assert_eq!(only(text).0.severity, Severity::Notice);
    assert_eq!(checked(text).value, json!({"name": "a"}));
}

#[test]
fn other_spellings_are_read_and_noted() {
    assert_only(
        "name: a\ncount: 3\n",
        "other-spelling",
        "count",
        "`count` is read as `replicas`",
        "write `replicas`",
    );
    assert_eq!(good("name: a\ncount: 3\n")["replicas"], json!(3));
    assert_only(
        "name: a\nreplicas: 1\ncount: 3\n",
        "duplicate-key",
        "count",
        "the same field",
        "keep `replicas`",
    );
    let two = checked("name: a\ncount: 3\namount: 4\n");
    assert_eq!(two.out.iter().filter(|diagnostic| diagnostic.code == "duplicate-key").count(), 1);
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "nme: a\nreplicas: x\npools:\n- name: 1\n  disk: {storageclass: y}\n- {}\nmode: Fats\n";
    let mut checked = checked(text);
    checked.out.sort();
    let codes: Vec<_> = checked.out.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(
        codes,
        [
            "unknown-field",
            "missing-field",
            "wrong-type",
            "wrong-type",
            "unknown-field",
            "missing-field",
            "missing-field",
            "invalid-value",
        ]
    );
}

#[test]
fn secrets_are_not_shown() {
    for text in [
        "name: a\npasword: Hunter2\n",
        "password: Hunter2\n",
        "{password: hunterHunter2, nme: a}\n",
        "name: a\npassword: Hunter2\n",
        "name: a\npassword: 123456\n",
        "name: a\npassword: [Hunter2]\n",
    ] {
        let checked = checked(text);
        assert!(checked.out.has_errors());
        let shown = render_human(&checked.out, &checked.sources, false)
            + &crate::render::to_json(&checked.out, &checked.sources).to_string();
        assert!(!shown.contains("Hunter2") && !shown.contains("123456"), "{shown}");
    }
}

#[test]
fn required_alternatives_beside_properties_are_checked_together() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    let codes = |text: &str| {
        let mut out = Diagnostics::new();
        let documents = parse(FileId(0), text, &mut out);
        check(&schema, &documents[0].root, FileId(0), &FieldPath::root(), &mut out);
        out.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>()
    };
    assert_eq!(codes("{a: 1, c: x}"), [""; 0]);
    assert_eq!(codes("{c: x}"), ["choose-one"]);
    assert_eq!(codes("{a: 1, b: x}"), ["choose-one", "wrong-type"]);
    assert_eq!(codes("{a: 1, d: x}"), ["unknown-field"]);
}

#[test]
fn types_may_come_in_lists_and_choices() {
    let schema = json!({
        "type": "object",
        "properties": {
            "one": {"type": ["integer", "string", "null"]},
            "two": {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
        },
        "required": ["one"],
    });
    let run = |text: &str| {
        let mut out = Diagnostics::new();
        let documents = parse(FileId(0), text, &mut out);
        let value = check(&schema, &documents[0].root, FileId(0), &FieldPath::root(), &mut out);
        (value, out.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>())
    };
    assert_eq!(run("{one: 5, two: true}"), (json!({"one": 5, "two": true}), vec![]));
    assert_eq!(run("{one: x, two: 5}"), (json!({"one": "x", "two": 5}), vec![]));
    assert_eq!(run("{one: ~, two: [x]}"), (json!({"one": null, "two": ["x"]}), vec![]));
    assert_eq!(run("{one: 5, two: {x: 1}}").1, ["wrong-type"]);
}

#[test]
fn schemas_in_circles_and_trees_without_end_do_no_harm() {
    let schema = json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}});
    let mut out = Diagnostics::new();
    let documents = parse(FileId(0), "a: 1\n", &mut out);
    check(&schema, &documents[0].root, FileId(0), &FieldPath::root(), &mut out);
    let schema = json!({"anyOf": [{"$ref": "#"}, {"type": "string"}]});
    check(&schema, &documents[0].root, FileId(0), &FieldPath::root(), &mut Diagnostics::new());
    let schema = json!({"type": "array", "items": {"$ref": "#"}});
    let mut node = Node { span: Span::default(), value: NodeValue::Sequence(Vec::new()) };
    for _ in 0..300 {
        node = Node { span: Span::default(), value: NodeValue::Sequence(vec![node]) };
    }
    check(&schema, &node, FileId(0), &FieldPath::root(), &mut out);
    assert_eq!(out.iter().next().unwrap().code, "too-large");
}
