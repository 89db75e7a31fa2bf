//! Tests of the reading of whole texts.

use std::fmt::Write as _;

use super::*;
use crate::tree::Node;

fn read(text: &str) -> (Vec<Document>, Diagnostics) {
    let mut out = Diagnostics::new();
    let documents = parse(FileId(0), text, &mut out);
    (documents, out)
}

/// The only document of a text without problems.
fn root(text: &str) -> Node {
    let (mut documents, out) = read(text);
    assert!(out.is_empty(), "{text:?}: {out:?}");
    assert_eq!(documents.len(), 1, "{text:?}");
    documents.remove(0).root
}

/// The only problem of a text.
fn problem(text: &str) -> Diagnostic {
    let (_, out) = read(text);
    assert_eq!(out.len(), 1, "{text:?}: {out:?}");
    out.into_iter().next().unwrap()
}

fn marked(text: &str, diagnostic: &Diagnostic) -> String {
    diagnostic.location.unwrap().span.slice(text).to_owned()
}

#[test]
fn every_value_knows_its_place() {
    let text = "a: é\nb:\n  - x\n  - y: 2 # why\n\n# end\nc: {d: 'it''s'}\n";
    let node = root(text);
    let at = |node: &Node| node.span.slice(text).to_owned();
    assert_eq!(at(node.get("a").unwrap()), "é");
    assert_eq!(
        at(node.get("b").unwrap()),
        "- x\n  - y: 2",
        "blanks and comments after a block are not part of it"
    );
    assert_eq!(at(&node.get("b").unwrap().items()[1]), "y: 2");
    assert_eq!(at(node.get("c").unwrap()), "{d: 'it''s'}");
    assert_eq!(at(node.get("c").unwrap().get("d").unwrap()), "'it''s'");
    assert_eq!(node.get("c").unwrap().get("d").unwrap().as_text(), Some("it's"));
    assert_eq!(node.entry("c").unwrap().key_span.slice(text), "c");
}

#[test]
fn block_scalars_do_not_mark_the_line_after_them() {
    let text = "a: |\n  one\n  two\n\nb: 1\n";
    let node = root(text);
    assert_eq!(node.get("a").unwrap().as_text(), Some("one\ntwo\n"));
    assert_eq!(node.get("a").unwrap().span.slice(text), "one\n  two");
}

#[test]
fn nothing_is_written_in_several_ways() {
    let node =
        root("a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: \"\"\ng: 'null'\nh: nil\ni: !!str\nj: !!str null\n");
    for key in ["a", "b", "c", "d", "e"] {
        assert!(node.get(key).unwrap().is_null(), "{key}");
    }
    for (key, text) in [("f", ""), ("g", "null"), ("h", "nil"), ("i", ""), ("j", "null")] {
        assert_eq!(node.get(key).unwrap().as_text(), Some(text), "{key}");
    }
}

#[test]
fn documents_are_separated_and_empty_ones_left_out() {
    let (documents, out) = read("# only a comment\n---\n---\na: 1\n---\n~\n...\n---\nb: 2\n");
    assert!(out.is_empty(), "{out:?}");
    assert_eq!(documents.len(), 2);
    assert!(documents[0].root.get("a").is_some() && documents[1].root.get("b").is_some());
    for text in ["", "\n", "---", "# x", "\u{feff}"] {
        let (documents, out) = read(text);
        assert!(documents.is_empty() && out.is_empty(), "{text:?}: {out:?}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    assert!(root("\u{feff}a: 1\n").get("a").is_some());
}

#[test]
fn windows_line_ends_are_fine() {
    assert_eq!(root("a: 1\r\nb: 2\r\n").get("a").unwrap().as_text(), Some("1"));
}

#[test]
fn json_is_read() {
    let text = "{\n\t\"a\":\t\"\\u00e9\\/\\ud83d\\ude00\",\n\t\"b\": [\t1,\n\t2.5e3 ],\"c\":\t{},\"d\"\n:\nnull, \"e\":true\n}\n";
    let node = root(text);
    assert_eq!(node.get("a").unwrap().as_text(), Some("é/😀"));
    assert_eq!(node.get("b").unwrap().items()[1].as_text(), Some("2.5e3"));
    assert_eq!(node.get("b").unwrap().span.slice(text), "[\t1,\n\t2.5e3 ]");
    assert!(node.get("d").unwrap().is_null());
}

#[test]
fn json_that_yaml_refuses_is_read_all_the_same() {
    let long = "k".repeat(3000);
    for (text, key, value) in [
        ("{\"a\": \"\u{7f}\"}".to_owned(), "a", "\u{7f}"),
        ("{\"a\": \"\u{85}\u{9b}\u{fffe}\"}".to_owned(), "a", "\u{85}\u{9b}\u{fffe}"),
        (format!("{{\"{long}\": \"x\"}}"), long.as_str(), "x"),
        ("{\"a\"\n\t:\t\n\"x\"}".to_owned(), "a", "x"),
    ] {
        assert_eq!(root(&text).get(key).unwrap().as_text(), Some(value), "{text}");
    }
}

#[test]
fn duplicate_keys_name_the_line_of_the_first() {
    let text = "a: 1\nb:\n  x: 1\n  y: 2\n  x: 3\n";
    let found = problem(text);
    assert_eq!(found.code, "duplicate-key");
    assert!(found.message.contains("`x`") && found.message.contains("line 3"), "{}", found.message);
    assert_eq!(
        found.location.unwrap().span,
        Span::new(text.rfind('x').unwrap(), text.rfind('x').unwrap() + 1)
    );
    let (documents, _) = read(text);
    assert_eq!(documents[0].root.get("b").unwrap().get("x").unwrap().as_text(), Some("1"));
}

#[test]
fn keys_must_be_scalars() {
    assert_eq!(problem("? [a, b]\n: c\n").code, "invalid-key");
    assert_eq!(problem("? {a: b}\n: c\n").code, "invalid-key");
    let template = problem("a: {{ name }}\n");
    assert_eq!(template.code, "invalid-key");
    assert!(template.help.unwrap().contains("template"));
    assert!(root("null: 1\n1: 2\ntrue: 3\n").get("null").is_some());
}

#[test]
fn aliases_copy_and_merge_keys_yield_to_explicit_ones() {
    let text = "base: &base {x: 1, y: 2}\nlist: [&s five, *s]\none:\n  y: 3\n  <<: *base\ntwo:\n  <<: [{x: 8}, *base]\n";
    let node = root(text);
    assert_eq!(node.get("list").unwrap().items()[1].as_text(), Some("five"));
    assert_eq!(node.get("list").unwrap().items()[1].span.slice(text), "*s");
    let one = node.get("one").unwrap();
    assert_eq!(one.get("x").unwrap().as_text(), Some("1"));
    assert_eq!(one.get("y").unwrap().as_text(), Some("3"));
    assert_eq!(one.entries().len(), 2);
    assert_eq!(one.span.slice(text), "y: 3\n  <<: *base");
    let two = node.get("two").unwrap();
    assert_eq!(two.get("x").unwrap().as_text(), Some("8"), "the first of a list wins");
    assert_eq!(two.get("y").unwrap().as_text(), Some("2"));
}

#[test]
fn bad_aliases_and_merges_are_reported() {
    assert!(problem("a: *nope\n").message.contains("*nope"));
    assert!(problem("&x [*x]\n").message.contains("inside the value"));
    assert_eq!(problem("a: {<<: 5}\n").code, "invalid-merge");
    assert_eq!(problem("a: {<<: {}, <<: {}}\n").code, "duplicate-key");
    assert!(root("'<<': 5\n").get("<<").is_some(), "a quoted << is an ordinary key");
    let across = problem("a: &x 1\n---\nb: *x\n");
    assert!(across.message.contains("in this document"), "{}", across.message);
}

#[test]
fn tags_of_plain_yaml_are_known_and_others_refused() {
    let node = root("a: !!str 1\nb: !!int \"5\"\nc: !!map {x: 1}\nd: !!seq [1]\ne: ! 1\nf: !!bool true\n");
    assert_eq!(node.get("a").unwrap().value, NodeValue::Scalar { text: "1".into(), plain: false });
    assert_eq!(node.get("b").unwrap().value, NodeValue::Scalar { text: "5".into(), plain: true });
    assert_eq!(node.get("e").unwrap().value, NodeValue::Scalar { text: "1".into(), plain: false });
    let text = "a: !foo 1\n";
    let found = problem(text);
    assert_eq!((found.code, marked(text, &found).as_str()), ("unsupported-tag", "!foo"));
    for text in ["a: !foo {}\n", "a: !!binary aGk=\n", "a: !!set {x}\n", "a: !Ref [x]\n"] {
        assert_eq!(problem(text).code, "unsupported-tag", "{text}");
    }
}

#[test]
fn a_tab_for_indentation_is_named() {
    let text = "a:\n\tb: 1\n";
    let found = problem(text);
    assert_eq!((found.code, marked(text, &found).as_str()), ("yaml-syntax", "\t"));
    assert!(found.help.unwrap().contains("spaces"));
}

#[test]
fn a_line_indented_too_deep_is_explained() {
    for text in [
        "a:\n  type: \"soft\"\n    key: \"foo\"\n",
        "a:\n  type: soft\n    key: foo\n",
        "a:\n- type: 'soft'\n    # why\n\n    key: foo\n",
    ] {
        let found = problem(text);
        assert_eq!(found.code, "yaml-syntax");
        assert!(found.message.contains("deeper than the one above"), "{text}: {}", found.message);
        assert!(found.message.contains("`type` already has a value"), "{text}: {}", found.message);
        assert!(marked(text, &found).starts_with("key:"), "{text}");
    }
}

#[test]
fn an_elision_is_explained() {
    for text in ["a:\n  b: 1\n  ...\n  c: 2\n", "a:\n  ...\n  c: 2\n", "- b: 1\n  ...\n"] {
        let found = problem(text);
        assert_eq!(marked(text, &found), "...", "{text}");
        assert!(found.help.unwrap().contains("left out"));
    }
}

#[test]
fn other_syntax_errors_are_in_plain_words_too() {
    for (text, piece) in [
        ("a: b: c\n", "put that text in quotes"),
        ("a: [1, 2\n", "add the missing `]`"),
        ("a: {b: 1\n", "add the missing `}`"),
        ("a: 'x\n", "closing quote"),
        ("a: @x\n", "put the text in quotes"),
        ("a: \"\\q\"\n", "single quotes"),
        ("a: 1\nb\nc: 2\n", "add a `:`"),
        ("- a\nb: 1\n", "`- `"),
        ("a: \u{1}x\n", "remove it"),
        ("a: - b\n", "line of its own"),
        ("a: \"x\" y\n", "between the quotes"),
        ("a: [1}\n", "its own counterpart"),
    ] {
        let found = problem(text);
        assert_eq!(found.code, "yaml-syntax", "{text}");
        assert!(found.help.as_deref().unwrap_or_default().contains(piece), "{text}: {found:?}");
    }
}

#[test]
fn documents_before_a_syntax_error_are_kept() {
    let (documents, out) = read("a: 1\n---\nb: [\n---\nc: 1\n");
    assert_eq!((documents.len(), out.len()), (1, 1));
}

#[test]
fn limits_hold() {
    let code = |text: &str| {
        let (_, out) = read(text);
        assert_eq!(out.len(), 1, "{:?}", out.iter().next());
        (out.iter().next().unwrap().code, out.iter().next().unwrap().message.clone())
    };
    let (name, message) = code(&" ".repeat(MAX_TEXT_BYTES + 1));
    assert!(name == TOO_LARGE && message.contains("16 MiB"), "{message}");
    let (name, message) = code(&format!("{}{}", "[".repeat(101), "]".repeat(101)));
    assert!(name == TOO_LARGE && message.contains("100 levels"), "{message}");
    let (name, message) = code(&"--- 1\n".repeat(MAX_DOCUMENTS + 1));
    assert!(name == TOO_LARGE && message.contains("documents"), "{message}");
    let deep_enough = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(read(&deep_enough).1.is_empty());
    let block = (0..200).map(|level| " ".repeat(level) + "a:").collect::<Vec<_>>().join("\n");
    assert!(code(&block).1.contains("100 levels"));
}

#[test]
fn a_billion_laughs_are_not_laughed() {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
    }
    let (documents, out) = read(&text);
    assert!(documents.is_empty());
    assert_eq!(out.iter().next().unwrap().code, TOO_LARGE);
    assert!(out.iter().next().unwrap().message.contains("1000000"));
    // Few nodes, but each of them a megabyte of text.
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1024 * 1024), vec!["*a"; 1000].join(", "));
    assert!(read(&text).1.iter().next().unwrap().message.contains("64 MiB"));
    // Depth through aliases: each level is shallow where it stands.
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..120 {
        writeln!(text, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert!(read(&text).1.iter().next().unwrap().message.contains("100 levels"));
}
