//! YAML syntax errors in plain words.

use granit_parser::{ErrorKind, ScanError};

use crate::diagnostic::{Diagnostic, Location};
use crate::source::{FileId, Span, floor_char};

/// The code of every syntax error.
const CODE: &str = "yaml-syntax";

/// Says what is wrong at the place where the parser gave up, and how to put it right if that can be told.
pub(crate) fn describe(file: FileId, text: &str, problem: &ScanError) -> Diagnostic {
    let offset = floor_char(text, problem.marker().byte_offset().unwrap_or(text.len()));
    let line = Line::around(text, offset);
    let above = line.above(text);
    let located = |diagnostic: Diagnostic, span: Span| diagnostic.at(Location::new(file, span));

    // A text may go on over lines, so that the parser gives up at its end, before the tab.
    let below =
        text.get(offset..).and_then(|rest| rest.find('\n')).map(|end| Line::around(text, offset + end + 1));
    if let Some(tabs) = line.tab_indentation().or_else(|| below.as_ref().and_then(Line::tab_indentation)) {
        return located(Diagnostic::error(CODE, "a tab is used for indentation"), tabs)
            .label("this is a tab")
            .help("indent with spaces; YAML allows no tabs there");
    }
    let elided = |line: &Line<'_>| line.content() == "...";
    // Where a value is due, `...` and the line after it read as one text up to the `:`.
    let elision = if elided(&line) {
        Some(line.content_span())
    } else {
        above.as_ref().filter(|above| elided(above)).map(Line::content_span)
    };
    if let Some(span) = elision {
        return located(Diagnostic::error(CODE, "`...` is not a value or a key"), span)
            .label("something seems to be left out here")
            .help("`...` stands for text that was left out and is not YAML; remove the line or fill it in");
    }
    if indentation_matters(problem.kind())
        && let Some(above) = above
        && above.indentation() < line.indentation()
        && let Some((key, _)) = above.key_with_value()
    {
        let message =
            format!("this line is indented deeper than the one above, although `{key}` already has a value");
        return located(Diagnostic::error(CODE, message), line.content_span())
            .label("indented too deep")
            .help(format!("give this line the same indentation as `{key}`, or remove the value of `{key}`"));
    }
    let (message, help) = words(problem.kind(), &line);
    let end = text.get(offset..).and_then(|rest| rest.chars().next()).filter(|next| *next != '\n');
    let span = Span::new(offset, offset + end.map_or(0, char::len_utf8));
    let diagnostic = located(Diagnostic::error(CODE, message), span);
    match help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// Whether the parser gives up in this way at a line that is indented too deep.
fn indentation_matters(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ExpectedBlockMappingKey
            | ErrorKind::MappingValueNotAllowed
            | ErrorKind::InvalidIndentation
            | ErrorKind::SimpleKeyExpected
            | ErrorKind::InvalidSimpleKey
            | ErrorKind::ExpectedDocumentStart
            | ErrorKind::BlockSequenceEntryNotAllowed
    )
}

/// The problem in plain words, and a way out for the common ones.
fn words(kind: &ErrorKind, line: &Line<'_>) -> (String, Option<String>) {
    let plain = |message: &str, help: &str| (message.to_owned(), Some(help.to_owned()));
    match kind {
        ErrorKind::MappingValueNotAllowed => plain(
            "a `:` stands where no key can be",
            "if the `:` belongs to a text, put that text in quotes; otherwise check the indentation of this line",
        ),
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => plain(
            &format!("the control character U+{:04X} is not allowed here", u32::from(*character)),
            "remove it, or write it as an escape inside double quotes",
        ),
        ErrorKind::UnexpectedCharacter { character } => plain(
            &format!("a text cannot begin with `{character}` unless it is quoted"),
            "put the text in quotes",
        ),
        ErrorKind::UnclosedFlowCollection { open } => {
            let close = if *open == '{' { '}' } else { ']' };
            plain(&format!("this `{open}` is never closed"), &format!("add the missing `{close}`"))
        }
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            plain(&format!("`{open}` is closed by `{close}`"), "close every bracket with its own counterpart")
        }
        ErrorKind::MisplacedFlowCollectionEnd => plain(
            "this bracket closes nothing",
            "remove it, or put the text in quotes if it belongs to a text",
        ),
        ErrorKind::ExpectedFlowMappingSeparator => {
            plain("expected `,` or `}` here", "separate the entries between braces with commas")
        }
        ErrorKind::ExpectedFlowSequenceSeparator => {
            plain("expected `,` or `]` here", "separate the items between brackets with commas")
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => plain(
            "a quoted text is not closed, or goes on in a line that is not indented",
            "add the closing quote, or indent the lines that belong to the text",
        ),
        ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape => plain(
            "unknown escape after `\\` in a double-quoted text",
            "write `\\\\` for a backslash, or use single quotes, in which a backslash is just a backslash",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            plain("something follows the closing quote", "put the whole text between the quotes")
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => plain(
            &format!("expected `key: value`, but `{}` has no `:`", shorten(line.content())),
            "add a `:` and a value, with a space between them; or check the indentation",
        ),
        ErrorKind::ExpectedBlockMappingKey => {
            plain("expected a key here", "give this line the same indentation as the keys it belongs to")
        }
        ErrorKind::ExpectedBlockSequenceEntry => plain(
            "expected a list item beginning with `- ` here",
            "begin the line with `- `, or indent it to belong to the item above",
        ),
        ErrorKind::BlockSequenceEntryNotAllowed => {
            plain("a list item cannot begin here", "put the `- ` on a line of its own below the key")
        }
        ErrorKind::InvalidIndentation => {
            plain("the indentation fits no line above", "give the line the same indentation as its siblings")
        }
        ErrorKind::CommentNotSeparated => plain(
            "a comment must have a space before its `#`",
            "add a space before `#`, or put the text in quotes if the `#` belongs to it",
        ),
        other => (other.to_string(), None),
    }
}

/// At most forty characters of a text, for use inside a message.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// One line of a text, without its break.
struct Line<'text> {
    start: usize,
    text: &'text str,
}

impl<'text> Line<'text> {
    fn around(text: &'text str, offset: usize) -> Self {
        let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let line = text.get(start..).unwrap_or_default().split(['\n', '\r']).next().unwrap_or_default();
        Self { start, text: line }
    }

    /// The nearest line above that is neither blank nor a comment.
    fn above(&self, text: &'text str) -> Option<Self> {
        let mut start = self.start;
        while start > 0 {
            let line = Self::around(text, start - 1);
            if !line.content().is_empty() && !line.content().starts_with('#') {
                return Some(line);
            }
            start = line.start;
        }
        None
    }

    fn content(&self) -> &'text str {
        self.text.trim()
    }

    fn content_span(&self) -> Span {
        let start = self.start + self.indentation();
        Span::new(start, start + self.content().len())
    }

    fn indentation(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// The tabs in the blanks at the beginning, if there are any.
    fn tab_indentation(&self) -> Option<Span> {
        let blanks = self.text.get(..self.indentation())?;
        let (first, last) = (blanks.find('\t')?, blanks.rfind('\t')?);
        Some(Span::new(self.start + first, self.start + last + 1))
    }

    /// Key and value, if the line has both.
    fn key_with_value(&self) -> Option<(&'text str, &'text str)> {
        let content = self.content().trim_start_matches("- ").trim_start();
        let (key, value) = content.split_once(": ")?;
        let value = value.trim();
        // An anchor, a tag or a comment is no value yet, and `|` and `>` announce the lines below as the value.
        let is_value = !value.is_empty() && !value.starts_with(['&', '!', '#', '|', '>']);
        is_value.then_some((key, value))
    }
}
