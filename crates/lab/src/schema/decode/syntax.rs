//! Is a text JSON? In the words the API has for what is wrong with it.

use super::words::quoted_char;

/// How deep objects and lists may be nested. The real server allows 10 000 levels; nobody can tell, and this
/// keeps every walk over a value well inside the stack of a thread.
pub(crate) const DEEPEST: usize = 400;

/// How deep anything stored may be. Who manages which field is told inside of the object, a few levels further down
/// than the fields themselves, so this is a little more than a body may have.
pub(crate) const DEEPEST_STORED: usize = DEEPEST + 64;

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Nothing,
}

/// Says what is wrong with a text that is not JSON.
pub(crate) fn check(text: &[u8]) -> Result<(), String> {
    check_to(text, DEEPEST)
}

/// The same for texts that may be of another depth.
pub(super) fn check_to(text: &[u8], deepest: usize) -> Result<(), String> {
    let mut check = Check { text, at: 0 };
    // One entry per open object (true) or list.
    let mut open: Vec<bool> = Vec::new();
    let mut want = Want::Value;
    loop {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(check.at) {
            check.at += 1;
        }
        let Some(&byte) = text.get(check.at) else {
            return if want == Want::Nothing { Ok(()) } else { Err(END.to_owned()) };
        };
        let inside = open.last().copied();
        let after = match inside {
            None => Want::Nothing,
            Some(_) => Want::CommaOrEnd,
        };
        match (want, byte) {
            (Want::Value | Want::ValueOrEnd, b'{' | b'[') => {
                open.push(byte == b'{');
                if open.len() > deepest {
                    return Err(unexpected(byte, "exceeded max depth"));
                }
                check.at += 1;
                want = if byte == b'{' { Want::KeyOrEnd } else { Want::ValueOrEnd };
            }
            (Want::ValueOrEnd, b']') | (Want::KeyOrEnd, b'}') => want = check.close(&mut open),
            (Want::Value | Want::ValueOrEnd, _) => {
                check.scalar(byte)?;
                want = after;
            }
            (Want::Key | Want::KeyOrEnd, b'"') => {
                check.string()?;
                want = Want::Colon;
            }
            (Want::Key | Want::KeyOrEnd, _) => {
                return Err(unexpected(byte, "looking for beginning of object key string"));
            }
            (Want::Colon, b':') => {
                check.at += 1;
                want = Want::Value;
            }
            (Want::Colon, _) => return Err(unexpected(byte, "after object key")),
            (Want::CommaOrEnd, b',') => {
                check.at += 1;
                want = if inside == Some(true) { Want::Key } else { Want::Value };
            }
            (Want::CommaOrEnd, b'}') if inside == Some(true) => want = check.close(&mut open),
            (Want::CommaOrEnd, b']') if inside == Some(false) => want = check.close(&mut open),
            (Want::CommaOrEnd, _) if inside == Some(true) => {
                return Err(unexpected(byte, "after object key:value pair"));
            }
            (Want::CommaOrEnd, _) => return Err(unexpected(byte, "after array element")),
            (Want::Nothing, _) => return Err(unexpected(byte, "after top-level value")),
        }
    }
}

const END: &str = "unexpected end of JSON input";

fn unexpected(byte: u8, place: &str) -> String {
    format!("invalid character {} {place}", quoted_char(byte))
}

struct Check<'a> {
    text: &'a [u8],
    at: usize,
}

impl Check<'_> {
    fn close(&mut self, open: &mut Vec<bool>) -> Want {
        self.at += 1;
        open.pop();
        if open.is_empty() { Want::Nothing } else { Want::CommaOrEnd }
    }

    /// The byte here, or the end as a failure.
    fn here(&self) -> Result<u8, String> {
        self.text.get(self.at).copied().ok_or_else(|| END.to_owned())
    }

    fn scalar(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => Err(unexpected(first, "looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            let found = self.here()?;
            if found != expected {
                let place = format!("in literal {word} (expecting {})", quoted_char(expected));
                return Err(unexpected(found, &place));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.here()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                byte if byte < b' ' => return Err(unexpected(byte, "in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        self.at += 1;
        let byte = self.here()?;
        self.at += 1;
        match byte {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    let digit = self.here()?;
                    if !digit.is_ascii_hexdigit() {
                        return Err(unexpected(digit, "in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
                Ok(())
            }
            _ => Err(unexpected(byte, "in string escape code")),
        }
    }

    fn number(&mut self) -> Result<(), String> {
        if self.here()? == b'-' {
            self.at += 1;
        }
        match self.here()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            byte => return Err(unexpected(byte, "in numeric literal")),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.need_digit("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let b'+' | b'-' = self.here()? {
                self.at += 1;
            }
            self.need_digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn need_digit(&mut self, place: &str) -> Result<(), String> {
        let byte = self.here()?;
        if !byte.is_ascii_digit() {
            return Err(unexpected(byte, place));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_the_real_server() {
        for good in ["{}", " [1, -0.5e+3, \"\\u00e9\\n\", true, null, {\"a\": []}] ", "\"x\"", "0"] {
            assert_eq!(check(good.as_bytes()), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("xyz", "invalid character 'x' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(check(bad.as_bytes()), Err(expected.to_owned()), "{bad}");
        }
        let deep = "[".repeat(DEEPEST + 1);
        assert_eq!(check(deep.as_bytes()), Err("invalid character '[' exceeded max depth".to_owned()));
    }
}
