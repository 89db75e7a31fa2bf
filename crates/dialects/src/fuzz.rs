//! What fuzzers do with any bytes: one function for the coverage-guided targets in `fuzz/` and for the
//! short run in this crate's tests.

use crate::convert::convert;
use crate::diagnostic::Location;
use crate::read::{Dialect, read};
use crate::render::{render_human, to_json};
use crate::source::SourceMap;

/// Reads the bytes, shows everything there is to say about them, and writes what was read in a dialect.
///
/// # Panics
///
/// If a law is broken: a diagnostic points outside the text, or what was read cannot be written in
/// Trellis's own dialect without loss. Anything else that panics is a bug as well.
#[expect(clippy::panic, reason = "a fuzzer learns of a broken law by a panic")]
pub fn exercise(to: Dialect, bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut sources = SourceMap::new();
    sources.add("fuzz.yaml", text);
    let read = read(&sources);
    for diagnostic in &read.diagnostics {
        if let Some(Location { span, .. }) = diagnostic.location
            && (span.start > span.end || span.end > text.len() || !text.is_char_boundary(span.start))
        {
            panic!("{diagnostic:?} points outside the text");
        }
    }
    let _ = render_human(&read.diagnostics, &sources, false);
    let _ = to_json(&read.diagnostics, &sources);
    let _ = convert(&read.estate, to);
    let lost = convert(&read.estate, Dialect::Trellis).lost;
    // Two clusters or pools of one name cannot be told apart when they are read back.
    assert!(read.diagnostics.has_errors() || lost.is_empty(), "Trellis's own dialect lost {lost:?}");
}
