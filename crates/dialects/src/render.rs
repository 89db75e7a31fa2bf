//! Diagnostics for people and for programs.

use std::borrow::Cow;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::privacy::Privacy;
use crate::source::{SourceMap, floor_char};
use trellis_model::change::without_credentials;

/// How many diagnostics are shown to a person. Nobody reads more, and a hostile text may cause a million.
const MAX_SHOWN: usize = 500;
/// How much of a line behind the marked place is shown, in bytes.
const MAX_TAIL: usize = 200;
/// How much of the offending text goes into JSON, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// All diagnostics in the manner of the Rust compiler, one after the other with a blank line between them.
///
/// Control characters of the source are never passed on, and sensitive source text is never shown.
pub fn render_human(diagnostics: &Diagnostics, sources: &SourceMap, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let privacy = Privacy::of(sources);
    let mut all = String::new();
    for diagnostic in diagnostics.iter().take(MAX_SHOWN) {
        if !all.is_empty() {
            all.push('\n');
        }
        all.push_str(&render_one(&privacy.veiled(diagnostic, sources), sources, &renderer));
        all.push('\n');
    }
    if let Some(more) = diagnostics.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        all += "\n... and ";
        all += &more.to_string();
        all += " more, which --output json prints\n";
    }
    all
}

fn render_one(diagnostic: &Diagnostic, sources: &SourceMap, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Notice => Level::NOTE.with_name("notice"),
    };
    let title = level.primary_title(said(&diagnostic.message)).id(diagnostic.code);
    let mut group = Group::with_title(title);
    if let Some(location) = diagnostic.location
        && let Some(source) = sources.get(location.file)
    {
        let (line, column) = sources.line_column(location.file, location.span.start);
        let name = visible(&source.name);
        match sources.line_of(location.file, location.span.start) {
            Some((_, line_start, text)) if !diagnostic.sensitive => {
                // Only the first line of a long place is shown: where a mapping begins says enough, and the
                // renderer need not walk the whole text.
                let (text, line_start) = match text.strip_prefix('\u{feff}') {
                    Some(rest) => (rest, line_start + '\u{feff}'.len_utf8()),
                    None => (text, line_start),
                };
                let inside =
                    |offset: usize| floor_char(text, offset.saturating_sub(line_start).min(text.len()));
                let (start, end) = (inside(location.span.start), inside(location.span.end));
                // Replacing characters moves offsets, hence piece by piece.
                let mut shown = printable(text.get(..start).unwrap_or_default());
                let shown_start = shown.len();
                shown += &printable(text.get(start..end).unwrap_or_default());
                let shown_end = shown.len();
                let tail = text.get(start.max(end)..).unwrap_or_default();
                shown +=
                    &printable(tail.get(..floor_char(tail, MAX_TAIL.min(tail.len()))).unwrap_or_default());
                let mark = AnnotationKind::Primary
                    .span(shown_start..shown_end)
                    .label(diagnostic.label.as_deref().map(visible));
                group = group.element(Snippet::source(shown).path(name).line_start(line).annotation(mark));
            }
            _ => group = group.element(Origin::path(name).line(line).char_column(column)),
        }
    }
    if let Some(path) = &diagnostic.path {
        group = group.element(Level::NOTE.with_name("field").message(visible(path)));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(said(help)));
    }
    renderer.render(&[group])
}

/// What is said, without the credentials that a quoted address may hold.
fn said(text: &str) -> String {
    visible(&without_credentials(text)).into_owned()
}

/// A text with everything that could drive a terminal made visible. Line breaks stay.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// A line of source for the snippet renderer, which replaces most control characters itself, but not all.
fn printable(text: &str) -> String {
    let left_over = |character: char| matches!(character, '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}');
    text.chars().map(|character| if left_over(character) { '\u{fffd}' } else { character }).collect()
}

/// Control characters, and the marks that reverse the direction of writing.
fn is_unsafe(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// All diagnostics as a JSON list. Fields that are not known are left out.
pub fn to_json(diagnostics: &Diagnostics, sources: &SourceMap) -> Value {
    let privacy = Privacy::of(sources);
    diagnostics.iter().map(|diagnostic| one_to_json(&privacy.veiled(diagnostic, sources), sources)).collect()
}

fn one_to_json(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let mut object = Map::new();
    object.insert("severity".to_owned(), diagnostic.severity.name().into());
    object.insert("code".to_owned(), diagnostic.code.into());
    object.insert("message".to_owned(), without_credentials(&diagnostic.message).into());
    if let Some(location) = diagnostic.location
        && let Some(source) = sources.get(location.file)
    {
        let (line, column) = sources.line_column(location.file, location.span.start);
        let (end_line, end_column) = sources.line_column(location.file, location.span.end);
        object.insert("file".to_owned(), source.name.as_str().into());
        object.insert("line".to_owned(), line.into());
        object.insert("column".to_owned(), column.into());
        object.insert("endLine".to_owned(), end_line.into());
        object.insert("endColumn".to_owned(), end_column.into());
        // A problem of a whole mapping is shown by its first line: what else is in it may be secret.
        let line = location.span.slice(&source.text).lines().next().unwrap_or_default();
        let text: String = line.chars().take(MAX_TEXT_CHARS).collect();
        if !diagnostic.sensitive && !text.is_empty() {
            object.insert("text".to_owned(), text.into());
        }
    }
    for (name, value) in [("path", &diagnostic.path), ("help", &diagnostic.help)] {
        if let Some(value) = value {
            object.insert(name.to_owned(), without_credentials(value).into());
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnostic::Location;
    use crate::source::{FileId, Span};

    fn map(text: &str) -> (SourceMap, FileId) {
        let mut map = SourceMap::new();
        let file = map.add("a.yaml", text);
        (map, file)
    }

    fn one(diagnostic: Diagnostic) -> Diagnostics {
        let mut all = Diagnostics::new();
        all.push(diagnostic);
        all
    }

    fn marked(text: &str, piece: &str) -> (SourceMap, Diagnostic) {
        let (sources, file) = map(text);
        let start = text.find(piece).unwrap();
        let place = Location::new(file, Span::new(start, start + piece.len()));
        (sources, Diagnostic::error("unknown-field", "unknown field `replica`").at(place))
    }

    #[test]
    fn looks_like_the_rust_compiler() {
        let (sources, diagnostic) = marked("spec:\n  replica: 3\n", "replica");
        let all =
            one(diagnostic.path("spec.replica").label("not known here").help("did you mean `replicas`?"));
        insta::assert_snapshot!(render_human(&all, &sources, false), @r"
        error[unknown-field]: unknown field `replica`
         --> a.yaml:2:3
          |
        2 |   replica: 3
          |   ^^^^^^^ not known here
          |
          = field: spec.replica
          = help: did you mean `replicas`?
        ");
        assert!(render_human(&all, &sources, true).contains('\u{1b}'));
    }

    #[test]
    fn diagnostics_are_separated_and_may_lack_a_place() {
        let mut all = one(Diagnostic::warning("a-b", "one"));
        all.push(Diagnostic::notice("c-d", "two").help("nothing to do"));
        insta::assert_snapshot!(render_human(&all, &SourceMap::new(), false), @r"
        warning[a-b]: one

        notice[c-d]: two
         |
         = help: nothing to do
        ");
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let text = format!("keys: [ssh-rsa {} me@host]\n", "A".repeat(700));
        let (sources, diagnostic) = marked(&text, "me@host");
        let shown = render_human(&one(diagnostic), &sources, false);
        assert!(shown.lines().all(|line| line.chars().count() <= 160), "{shown}");
        assert!(shown.contains("me@host") && shown.contains("^^^^^^^"), "{shown}");
    }

    #[test]
    fn a_long_marked_text_is_cut_too() {
        let long = "A".repeat(700);
        let (sources, diagnostic) = marked(&format!("key: {long}\n"), &long);
        let shown = render_human(&one(diagnostic), &sources, false);
        assert!(shown.lines().all(|line| line.chars().count() <= 160), "{shown}");
    }

    #[test]
    fn a_place_over_several_lines_shows_its_first() {
        let (sources, diagnostic) = marked("a:\n  b: 1\n  c: 2\n", "b: 1\n  c: 2");
        let shown = render_human(&one(diagnostic), &sources, false);
        assert!(shown.contains("2 |   b: 1") && !shown.contains("c: 2"), "{shown}");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let text = "a: \u{1b}[31m\u{7}\u{202e}x\u{9b}y\r!\n";
        let (sources, diagnostic) = marked(text, "x");
        let mut sources = sources;
        let other = sources.add("bad\u{1b}name", "x\n");
        let mut all = one(diagnostic.label("l\u{1b}").help("h\u{7}").path("p\u{1b}"));
        all.push(Diagnostic::error("e", "m\u{1b}\r").at(Location::new(other, Span::new(0, 1))));
        all.push(Diagnostic::error("e", "m").at(Location::new(other, Span::new(0, 1))).sensitive());
        let shown = render_human(&all, &sources, false);
        assert!(!shown.contains(is_unsafe), "{shown:?}");
    }

    #[test]
    fn sensitive_text_is_shown_nowhere() {
        let (sources, diagnostic) = marked("password: hunter2\n", "hunter2");
        let all = one(diagnostic.sensitive().label("bad"));
        let shown = render_human(&all, &sources, false);
        assert!(shown.contains("--> a.yaml:1:11"), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("password"), "{shown}");
        assert_eq!(to_json(&all, &sources)[0].get("text"), None);
    }

    #[test]
    fn json_has_places_and_leaves_out_what_is_not_known() {
        let (sources, diagnostic) = marked("spec:\n  replica: 3\n", "replica");
        let mut all = one(diagnostic.path("spec.replica").help("h"));
        all.push(Diagnostic::notice("n", "m"));
        assert_eq!(
            to_json(&all, &sources),
            json!([
                {"severity": "error", "code": "unknown-field", "message": "unknown field `replica`", "file": "a.yaml",
                 "line": 2, "column": 3, "endLine": 2, "endColumn": 10, "path": "spec.replica", "text": "replica", "help": "h"},
                {"severity": "notice", "code": "n", "message": "m"},
            ])
        );
    }

    #[test]
    fn json_text_is_cut() {
        let long = "é".repeat(700);
        let (sources, diagnostic) = marked(&format!("key: {long}\n"), &long);
        let json = to_json(&one(diagnostic), &sources);
        assert_eq!(json[0]["text"].as_str().unwrap().chars().count(), 200);
    }
}
