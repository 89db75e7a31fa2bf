//! Texts of systemd units.

use std::fmt::Write as _;

/// A unit that is being written.
#[derive(Debug, Default)]
pub(crate) struct UnitText(String);

impl UnitText {
    /// Begins a section.
    pub(crate) fn section(mut self, name: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "[{name}]");
        self
    }

    /// A setting whose value is ours and holds nothing special.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        let _ = writeln!(self.0, "{name}={value}");
        self
    }

    /// A command: a program and its arguments, each passed on exactly as it is.
    pub(crate) fn command(self, name: &str, words: &[&str]) -> Self {
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        self.set(name, &line.join(" "))
    }

    /// The text.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

/// A word of a command line in which systemd sees nothing special.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for character in word.chars() {
        match character {
            // `%` begins a specifier and `$` a variable; both are written double to stand for themselves.
            '%' => out.push_str("%%"),
            '$' => out.push_str("$$"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other if other.is_control() => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a command line as systemd does, as far as we write one.
    pub(crate) fn words(line: &str) -> Vec<String> {
        let (mut words, mut bytes, mut inside, mut any) = (Vec::new(), Vec::new(), false, false);
        let mut rest = line.chars().peekable();
        while let Some(character) = rest.next() {
            let mut push = |c: char| bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
            match character {
                '"' => inside = !inside,
                ' ' if !inside => {
                    if any {
                        words.push(String::from_utf8(std::mem::take(&mut bytes)).unwrap());
                    }
                    any = false;
                    continue;
                }
                '%' | '$' => {
                    assert_eq!(rest.next(), Some(character), "a lone {character} in {line}");
                    push(character);
                }
                '\\' => match rest.next().unwrap() {
                    'n' => push('\n'),
                    't' => push('\t'),
                    'r' => push('\r'),
                    'x' => {
                        let code: String = [rest.next().unwrap(), rest.next().unwrap()].iter().collect();
                        bytes.push(u8::from_str_radix(&code, 16).unwrap());
                    }
                    other => push(other),
                },
                other => push(other),
            }
            any = true;
        }
        if any {
            words.push(String::from_utf8(bytes).unwrap());
        }
        words
    }

    proptest! {
        #[test]
        fn words_of_commands_survive(word in any::<String>().prop_filter("no NUL", |word| !word.contains('\0'))) {
            let unit = UnitText::default().section("Service").command("ExecStart", &["/bin/x", &word, "$(id) `y`"]);
            let text = unit.text();
            let lines: Vec<&str> = text.lines().collect();
            prop_assert_eq!(lines.len(), 2, "{}", text);
            let read = words(lines[1].strip_prefix("ExecStart=").unwrap());
            prop_assert_eq!(read, vec!["/bin/x".to_owned(), word, "$(id) `y`".to_owned()]);
        }
    }
}
