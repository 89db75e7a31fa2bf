//! Values written as YAML that every YAML reader understands alike.

use serde_json::Value;

/// A value as one YAML document, ending with a line break.
///
/// Keys keep the order of the value. Text that YAML 1.1 or 1.2 would take for anything else is quoted, and text of
/// several lines is written as a block. The same value always gives the same bytes.
pub fn to_yaml(value: &Value) -> String {
    // Long lines stay whole: a folded SSH key is the same text to a reader, but no one can copy it.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let yaml = serde_saphyr::to_string_with_options(value, options);
    // The writer fails on nothing a JSON value can hold; if it ever should, JSON is YAML too.
    let mut yaml = yaml.unwrap_or_else(|_| value.to_string());
    if !yaml.ends_with('\n') {
        yaml.push('\n');
    }
    yaml
}

/// Values as documents of one text, with `---` between them.
pub fn to_yaml_documents(values: &[Value]) -> String {
    values.iter().map(to_yaml).collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::untyped;
    use crate::diagnostic::Diagnostics;
    use crate::source::FileId;

    fn read(yaml: &str) -> Vec<Value> {
        let mut out = Diagnostics::new();
        let documents = crate::parse::parse(FileId(0), yaml, &mut out);
        assert!(out.is_empty(), "{yaml}\n{out:?}");
        documents.iter().map(|document| untyped(&document.root)).collect()
    }

    #[test]
    fn nasty_texts_come_back_as_they_were() {
        let nasty = [
            "yes",
            "No",
            "on",
            "y",
            "N",
            "0755",
            "0o7",
            "0x1F",
            "0b11",
            "1e3",
            "1_000",
            "12:30:45",
            "190:20:30",
            "1.",
            "+1",
            ".inf",
            "2024-01-01",
            "~",
            "null",
            "true",
            "",
            " lead",
            "trail ",
            "a: b",
            "a:",
            "#x",
            "a #b",
            "-",
            "- a",
            "?",
            "!x",
            "&a",
            "*a",
            "%a",
            "@a",
            "`a",
            "{",
            "[a]",
            ",",
            "'",
            "\"",
            "\\",
            "=",
            "<<",
            "...",
            "---",
            "a\nb\n",
            "a\nb",
            "  a\nb",
            "\n",
            "\na",
            "a\n\n\nb\n\n",
            "line\n  indented\n",
            "end \nx",
            "x\n\ty\n",
            "a\tb",
            "\t",
            "\ta\nb",
            "a\r\nb",
            "é😀",
            "\u{7f}",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "a\u{1}b",
            "\0",
            "# not a comment\nb\n",
            "---\na\n",
            "a\n...\nb",
            " \n",
            " \na",
            "\n\n",
        ];
        for text in nasty {
            let value = json!({"k": text, "l": [text, [text], {text: text}], "m": {text: 1}});
            let yaml = to_yaml(&value);
            assert_eq!(read(&yaml), [value], "{text:?}\n{yaml}");
        }
        let long = format!("ssh-ed25519 {} me@host", "A".repeat(700));
        assert!(to_yaml(&json!({"key": long})).contains(&long));
        let sentence = "many words ".repeat(60);
        assert_eq!(read(&to_yaml(&json!({"key": sentence}))), [json!({"key": sentence})]);
    }

    #[test]
    fn words_that_old_readers_misread_are_quoted() {
        for text in ["yes", "NO", "on", "Off", "y", "n", "0755", "1_000", "12:30:45", "0b11", "1e3", "="] {
            let yaml = to_yaml(&json!({"k": text}));
            assert!(yaml == format!("k: \"{text}\"\n") || yaml == format!("k: '{text}'\n"), "{yaml}");
        }
    }

    #[test]
    fn other_values_come_back_too() {
        let value = json!({
            "a": null, "b": true, "c": [1, -2, 1.5, 1e300, u64::MAX, i64::MIN], "d": {}, "e": [], "f": [[]], "g": [{}],
            "h": [[1, [2]], {"x": [{"y": null}]}],
        });
        assert_eq!(read(&to_yaml(&value)), [value]);
        assert_eq!(to_yaml(&json!("x")), "x\n");
    }

    #[test]
    fn lines_are_blocks_and_documents_are_separated() {
        assert_eq!(to_yaml(&json!({"k": "a\nb\n"})), "k: |\n  a\n  b\n");
        let values = [json!({"a": 1}), json!({"b": ["x"]})];
        let yaml = to_yaml_documents(&values);
        assert_eq!(yaml, "a: 1\n---\nb:\n- x\n");
        assert_eq!(read(&yaml), values);
        assert_eq!(to_yaml_documents(&[]), "");
    }
}
