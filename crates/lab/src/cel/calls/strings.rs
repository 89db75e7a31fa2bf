//! Functions of texts.

use crate::{
    cel::value::{Failure, Result, Val},
    goregex::GoRegex,
    gotext,
};

use super::{Call, format};

pub(super) fn find(name: &str) -> Option<Call> {
    Some(match name {
        "contains" => |args| test(args, |text, part| text.contains(part)),
        "startsWith" => |args| test(args, |text, part| text.starts_with(part)),
        "endsWith" => |args| test(args, |text, part| text.ends_with(part)),
        "matches" => |args| match args {
            [Val::Text(text), Val::Text(pattern)] => GoRegex::recent(pattern)
                .map(|pattern| Val::Bool(pattern.is_match(text)))
                .map_err(Failure::new),
            _ => Err(Failure::no_overload()),
        },
        "charAt" => char_at,
        "lowerAscii" => |args| change(args, str::to_ascii_lowercase),
        "upperAscii" => |args| change(args, str::to_ascii_uppercase),
        "trim" => |args| change(args, |text| text.trim().to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => format::format,
        "strings.quote" => |args| change(args, quote),
        "find" => |args| match args {
            [Val::Text(text), Val::Text(pattern)] => {
                let pattern = compile(pattern)?;
                Ok(Val::text(pattern.find(text).unwrap_or("")))
            }
            _ => Err(Failure::no_overload()),
        },
        "findAll" => |args| match args {
            [Val::Text(text), Val::Text(pattern), rest @ ..] => find_all(&compile(pattern)?, text, rest),
            _ => Err(Failure::no_overload()),
        },
        _ => return None,
    })
}

fn compile<'a>(pattern: &str) -> Result<'a, GoRegex> {
    GoRegex::recent(pattern).map_err(|why| Failure::new(format!("Illegal regex: {why}")))
}

/// All matches of a pattern, up to a limit.
pub(crate) fn find_all<'a>(pattern: &GoRegex, text: &str, rest: &[Val<'a>]) -> Result<'a> {
    let limit = match rest {
        [] => None,
        [Val::Int(limit)] => usize::try_from(*limit).ok(),
        _ => return Err(Failure::no_overload()),
    };
    Ok(Val::texts(pattern.find_all(text, limit)))
}

fn test<'a>(args: &[Val<'a>], test: fn(&str, &str) -> bool) -> Result<'a> {
    match args {
        [Val::Text(text), Val::Text(part)] => Ok(Val::Bool(test(text, part))),
        _ => Err(Failure::no_overload()),
    }
}

fn change<'a>(args: &[Val<'a>], change: fn(&str) -> String) -> Result<'a> {
    match args {
        [Val::Text(text)] => Ok(Val::text(change(text))),
        _ => Err(Failure::no_overload()),
    }
}

fn out_of_range(index: i64) -> Failure {
    Failure::new(format!("index out of range: {index}"))
}

/// Where in the bytes a character is; the place behind the last counts as well.
fn place(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(place, _)| place).chain([text.len()]).nth(index)
}

fn char_at<'a>(args: &[Val<'a>]) -> Result<'a> {
    let [Val::Text(text), Val::Int(index)] = args else { return Err(Failure::no_overload()) };
    let start = place(text, *index).ok_or_else(|| out_of_range(*index))?;
    Ok(Val::text(text[start..].chars().take(1).collect::<String>()))
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

pub(super) fn index_of<'a>(args: &[Val<'a>]) -> Result<'a> {
    let (text, part, offset) = match args {
        [Val::Text(text), Val::Text(part)] => (text, part, 0),
        [Val::Text(text), Val::Text(part), Val::Int(offset)] => (text, part, *offset),
        _ => return Err(Failure::no_overload()),
    };
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if part.is_empty() {
        return Ok(Val::Int(offset.min(count(text))));
    }
    let found = place(text, offset)
        .and_then(|start| text[start..].find(&**part).map(|at| count(&text[..start + at])));
    Ok(Val::Int(found.unwrap_or(-1)))
}

pub(super) fn last_index_of<'a>(args: &[Val<'a>]) -> Result<'a> {
    let (text, part, offset) = match args {
        [Val::Text(text), Val::Text(part)] if part.is_empty() => return Ok(Val::Int(count(text))),
        [Val::Text(text), Val::Text(part)] => (text, part, (count(text) - 1).max(0)),
        [Val::Text(text), Val::Text(part), Val::Int(offset)] => (text, part, *offset),
        _ => return Err(Failure::no_overload()),
    };
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if part.is_empty() {
        return Ok(Val::Int(offset.min(count(text))));
    }
    if offset >= count(text) {
        return Ok(Val::Int(-1));
    }
    // The last occurrence that starts no later than the offset.
    let most = place(text, offset).unwrap_or(text.len()).saturating_add(part.len()).min(text.len());
    let end = (most..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rfind(&**part).map(|at| count(&text[..at]));
    Ok(Val::Int(found.filter(|at| *at <= offset).unwrap_or(-1)))
}

fn replace<'a>(args: &[Val<'a>]) -> Result<'a> {
    let (text, from, to, times) = match args {
        [Val::Text(text), Val::Text(from), Val::Text(to)] => (text, from, to, None),
        [Val::Text(text), Val::Text(from), Val::Text(to), Val::Int(times)] => {
            (text, from, to, usize::try_from(*times).ok())
        }
        _ => return Err(Failure::no_overload()),
    };
    Ok(Val::text(match times {
        Some(times) => text.replacen(&**from, to, times),
        None => text.replace(&**from, to),
    }))
}

fn split<'a>(args: &[Val<'a>]) -> Result<'a> {
    let (text, separator, limit) = match args {
        [Val::Text(text), Val::Text(separator)] => (text, separator, -1),
        [Val::Text(text), Val::Text(separator), Val::Int(limit)] => (text, separator, *limit),
        _ => return Err(Failure::no_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Val::list(Vec::new()));
    }
    if separator.is_empty() {
        let mut parts = Vec::new();
        let mut rest: &str = text;
        while let Some(one) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(rest);
                break;
            }
            parts.push(&rest[..one.len_utf8()]);
            rest = &rest[one.len_utf8()..];
        }
        return Ok(Val::texts(parts));
    }
    Ok(Val::texts(text.splitn(limit, &**separator)))
}

fn substring<'a>(args: &[Val<'a>]) -> Result<'a> {
    let (text, start, end) = match args {
        [Val::Text(text), Val::Int(start)] => (text, *start, None),
        [Val::Text(text), Val::Int(start), Val::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Failure::no_overload()),
    };
    if let Some(end) = end
        && start > end
    {
        return Err(Failure::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = place(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => place(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Val::text(&text[from..to]))
}

fn join<'a>(args: &[Val<'a>]) -> Result<'a> {
    let (list, separator) = match args {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::Text(separator)] => (list, &**separator),
        _ => return Err(Failure::no_overload()),
    };
    let mut out = String::new();
    for (place, item) in list.iter().enumerate() {
        let Val::Text(item) = item? else { return Err(Failure::no_overload()) };
        if place > 0 {
            out.push_str(separator);
        }
        out.push_str(&item);
    }
    Ok(Val::text(out))
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for one in text.chars() {
        match one {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A text in quotes, as messages show it.
pub(super) fn quoted(text: &str) -> String {
    gotext::quote(text)
}
