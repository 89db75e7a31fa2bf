//! What is printed where: results on standard output, everything about them on standard error.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};
use trellis_dialects::diagnostic::{Diagnostics, Severity};
use trellis_dialects::render::{render_human, to_json};
use trellis_dialects::source::SourceMap;

use crate::args::{Color, Format};

/// How and where a command prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// For people or for programs.
    pub(crate) format: Format,
    /// With every column there is.
    pub(crate) wide: bool,
    color: Color,
}

impl Output {
    pub(crate) fn new(format: Format, wide: bool, color: Color) -> Self {
        Self { format, wide, color }
    }

    /// Whether what goes to standard error is coloured.
    fn color_on_stderr(self) -> bool {
        self.colored(io::stderr().is_terminal())
    }

    /// Whether what goes to standard output is coloured.
    pub(crate) fn color_on_stdout(self) -> bool {
        self.colored(io::stdout().is_terminal())
    }

    fn colored(self, on_terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Prints what there is to say about the manifests, and a line that counts it.
    pub(crate) fn explain(self, diagnostics: &Diagnostics, sources: &SourceMap) -> io::Result<()> {
        if diagnostics.is_empty() {
            return Ok(());
        }
        let text = match self.format {
            Format::Json => format!("{:#}\n", json!({ "diagnostics": to_json(diagnostics, sources) })),
            Format::Human => {
                let mut text = render_human(diagnostics, sources, self.color_on_stderr());
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                text + &counted(diagnostics) + "\n"
            }
        };
        io::stderr().lock().write_all(text.as_bytes())
    }
}

/// Prints a result.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Prints a result for programs.
pub(crate) fn print_json(value: &Value) -> io::Result<()> {
    print(&format!("{value:#}"))
}

/// Prints a remark about the result, for people.
pub(crate) fn remark(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}

/// `2 errors, 1 warning and 3 notices`.
pub(crate) fn counted(diagnostics: &Diagnostics) -> String {
    let kinds = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Notice, "notice")];
    let parts: Vec<String> = kinds
        .iter()
        .map(|(severity, name)| (diagnostics.count(*severity), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| plural(count, name))
        .collect();
    match parts.as_slice() {
        [] => "nothing to say".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 pool`, `2 pools`.
pub(crate) fn plural(count: usize, name: &str) -> String {
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}
