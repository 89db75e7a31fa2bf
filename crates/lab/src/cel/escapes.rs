//! Texts and bytes as they are written in an expression.

/// The text between quotes, with its escapes read.
pub(super) fn unescape(quoted: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    const BAD: &str = "unable to unescape string";
    let normal = quoted.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, text) = match normal.strip_prefix(['r', 'R']) {
        Some(text) => (true, text),
        None => (false, normal.as_str()),
    };
    let triple = text.len() >= 6 && (text.starts_with("'''") || text.starts_with("\"\"\""));
    let quote = if triple { 3 } else { 1 };
    let inner = text.get(quote..text.len().saturating_sub(quote)).ok_or(BAD)?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(one) = characters.next() {
        if one != '\\' {
            push_char(one, &mut out);
            continue;
        }
        let kind = characters.clone().next().ok_or(BAD)?;
        let code = match kind {
            'x' | 'X' | 'u' | 'U' => {
                let count = match kind {
                    'u' => 4,
                    'U' => 8,
                    _ => 2,
                };
                if bytes && count > 2 {
                    return Err(BAD);
                }
                characters.next();
                number(&mut characters, count, 16).ok_or(BAD)?
            }
            '0'..='3' => number(&mut characters, 3, 8).ok_or(BAD)?,
            _ => {
                characters.next();
                out.push(match kind {
                    'a' => 7,
                    'b' => 8,
                    'f' => 12,
                    'n' => 10,
                    'r' => 13,
                    't' => 9,
                    'v' => 11,
                    '\\' | '\'' | '"' | '`' | '?' => u8::try_from(u32::from(kind)).unwrap_or(b'?'),
                    _ => return Err(BAD),
                });
                continue;
            }
        };
        if bytes {
            out.push(u8::try_from(code).map_err(|_| BAD)?);
        } else {
            push_char(char::from_u32(code).ok_or("invalid unicode code point")?, &mut out);
        }
    }
    Ok(out)
}

/// A number of so many digits.
fn number(characters: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    let mut value = 0_u32;
    for _ in 0..count {
        value = value.checked_mul(radix)?.checked_add(characters.next()?.to_digit(radix)?)?;
    }
    Some(value)
}

fn push_char(one: char, out: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    out.extend_from_slice(one.encode_utf8(&mut buffer).as_bytes());
}
