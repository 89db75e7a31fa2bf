//! YAML and JSON read into trees.
//!
//! The parser below delivers events; the builder puts them together. Both work with explicit stacks and
//! fixed limits, so that no text, however hostile, takes more than a bounded amount of memory.

pub(crate) mod builder;

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use self::builder::{Builder, Stop};
use crate::diagnostic::{Diagnostic, Diagnostics, Location};
use crate::scalar::{PlainKind, plain_kind};
use crate::source::{FileId, Span, floor_char};
use crate::tree::{Document, NodeValue};
use crate::{json, syntax_error};

/// The longest text that is read, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// The deepest nesting that is read.
pub const MAX_DEPTH: usize = 100;
/// The most nodes one text may hold once its aliases are written out.
pub const MAX_NODES: usize = 1_000_000;
/// The most scalar text one text may hold once its aliases are written out, in bytes.
pub const MAX_EXPANDED_BYTES: usize = 4 * MAX_TEXT_BYTES;
/// The most documents one text may hold.
pub const MAX_DOCUMENTS: usize = 10_000;

/// The code of everything that exceeds a limit.
pub(crate) const TOO_LARGE: &str = "too-large";

/// Reads all documents of a text. Empty documents are left out.
///
/// A syntax error ends the reading; the documents before it are kept.
pub fn parse(file: FileId, text: &str, out: &mut Diagnostics) -> Vec<Document> {
    if text.len() > MAX_TEXT_BYTES {
        out.push(
            Diagnostic::error(
                TOO_LARGE,
                format!("this text has {} bytes; at most 16 MiB are read", text.len()),
            )
            .at(Location::new(file, Span::default()))
            .help("split it into several files"),
        );
        return Vec::new();
    }
    let mut builder = Builder::new(file, text);
    let mut parser = Parser::new_from_str_with_options(text, options());
    let syntax = feed(&mut builder, &mut parser, text);
    if let Some(problem) = syntax {
        // YAML refuses a few characters and very long keys that JSON allows.
        if let Some(from_json) = json::parse(file, text) {
            return from_json.finish(out);
        }
        builder.report(syntax_error::describe(file, text, &problem));
    }
    builder.finish(out)
}

/// The settings of the event parser.
fn options() -> granit_parser::Options {
    let mut options = granit_parser::options! { emit_unresolved_aliases: true };
    // Comments may be compiled in by another crate that uses the same parser.
    options.set_emit_comments(false);
    options
}

/// Hands all events to the builder and gives back the syntax error that ended them, if one did.
fn feed<'text>(
    builder: &mut Builder<'_>,
    parser: &mut Parser<'text, granit_parser::StrInput<'text>>,
    text: &str,
) -> Option<granit_parser::ScanError> {
    for event in parser {
        let (event, place) = match event {
            Ok(event) => event,
            Err(problem) => return Some(problem),
        };
        let span = span_of(&place, text);
        let tag_span = place.tag_span().map(|tag| span_of(&tag, text));
        if let Err(Stop) = take(builder, event, span, tag_span) {
            return None;
        }
    }
    None
}

/// Hands one event to the builder.
fn take(builder: &mut Builder<'_>, event: Event<'_>, span: Span, tag_span: Option<Span>) -> Result<(), Stop> {
    match event {
        Event::DocumentStart(..) => builder.start_document(span),
        Event::DocumentEnd => {
            builder.end_document();
            Ok(())
        }
        Event::Scalar(text, style, anchor, tag) => {
            let plain = style == ScalarStyle::Plain;
            // The parser writes `~` for a value that is not there at all.
            let text = if plain && span.is_empty() { String::new() } else { text.into_owned() };
            let value = scalar(builder, text, plain, tag.as_deref(), tag_span.unwrap_or(span));
            builder.scalar(value, span, anchor, plain)
        }
        Event::SequenceStart(style, anchor, tag) => {
            check_collection_tag(builder, tag.as_deref(), tag_span.unwrap_or(span));
            builder.start_sequence(span, is_flow(style), anchor)
        }
        Event::MappingStart(style, anchor, tag) => {
            check_collection_tag(builder, tag.as_deref(), tag_span.unwrap_or(span));
            builder.start_mapping(span, is_flow(style), anchor)
        }
        Event::SequenceEnd | Event::MappingEnd => builder.end_collection(span),
        Event::Alias(anchor) => builder.alias(anchor, span),
        Event::UnresolvedAlias(name) => {
            builder.unknown_alias(&name, span);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_flow(style: granit_parser::StructureStyle) -> bool {
    style == granit_parser::StructureStyle::Flow
}

/// What a scalar is, given how it was written and tagged.
fn scalar(
    builder: &mut Builder<'_>,
    text: String,
    plain: bool,
    tag: Option<&Tag>,
    tag_span: Span,
) -> NodeValue {
    let plain = match tag {
        None => plain,
        // A lone `!` says "as written, nothing else".
        Some(tag) if is_lone_bang(tag) => false,
        Some(tag) => match tag.core_suffix() {
            Some("str") => false,
            Some("int" | "float" | "bool" | "null") => true,
            Some(_) => plain,
            None => {
                report_tag(builder, tag, tag_span);
                plain
            }
        },
    };
    if plain && plain_kind(&text) == PlainKind::Null {
        NodeValue::Null
    } else {
        NodeValue::Scalar { text, plain }
    }
}

fn is_lone_bang(tag: &Tag) -> bool {
    matches!((tag.handle(), tag.suffix()), ("!", "") | ("", "!"))
}

fn check_collection_tag(builder: &mut Builder<'_>, tag: Option<&Tag>, tag_span: Span) {
    if let Some(tag) = tag
        && tag.core_suffix().is_none()
        && !is_lone_bang(tag)
    {
        report_tag(builder, tag, tag_span);
    }
}

fn report_tag(builder: &mut Builder<'_>, tag: &Tag, tag_span: Span) {
    let location = builder.location(tag_span);
    builder.report(
        Diagnostic::error(
            "unsupported-tag",
            format!("the tag `{}{}` is not supported", tag.original_handle(), tag.suffix()),
        )
        .at(location)
        .label("only the tags of plain YAML, such as !!str, are read")
        .help("remove the tag; if the text itself begins with `!`, put it in quotes"),
    );
}

/// The place of an event as byte offsets that are sure to be character borders of the text.
fn span_of(place: &granit_parser::Span, text: &str) -> Span {
    let offset = |marker: granit_parser::Marker| floor_char(text, marker.byte_offset().unwrap_or_default());
    Span::new(offset(place.start), offset(place.end))
}

#[cfg(test)]
mod tests;
