//! `trellis convert`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use trellis_dialects::convert::{Loss, convert};
use trellis_dialects::yaml_out::to_yaml_documents;

use super::{load, unusable};
use crate::args::{DialectName, Files, Format};
use crate::exit::{Exit, Failure};
use crate::output::{Output, plural, print, print_json, remark};

/// Write manifests in another dialect, and say what does not survive.
///
/// What is lost is found out, not guessed: the written manifests are read again and compared with what
/// was given.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    files: Files,
    /// The dialect to write.
    #[arg(long, value_enum)]
    to: DialectName,
    /// Write nothing and fail if anything would be lost or is missing.
    #[arg(long)]
    strict: bool,
}

impl Convert {
    pub(crate) fn run(self, output: Output) -> Result<Exit, Failure> {
        let Self { files, to, strict } = self;
        let (sources, read) = load(&files)?;
        if read.diagnostics.has_errors() {
            output.explain(&read.diagnostics, &sources)?;
            return Ok(unusable(&read));
        }
        let converted = convert(&read.estate, to.into());
        let refused = strict && !(converted.lost.is_empty() && converted.incomplete.is_empty());
        if output.format == Format::Json {
            let documents = if refused { Vec::new() } else { converted.documents };
            print_json(
                &json!({ "documents": documents, "lost": converted.lost, "incomplete": converted.incomplete }),
            )?;
        } else {
            output.explain(&read.diagnostics, &sources)?;
            remark(&(lost_text(&converted.lost) + &incomplete_text(&converted.incomplete)))?;
            if !refused {
                print(&to_yaml_documents(&converted.documents))?;
            }
        }
        Ok(if refused { Exit::Lossy } else { Exit::Success })
    }
}

fn incomplete_text(incomplete: &[String]) -> String {
    if incomplete.is_empty() {
        return String::new();
    }
    format!(
        "The dialect demands what these manifests do not say; fill it in before you use the result:\n  {}\n",
        incomplete.join("\n  ")
    )
}

fn lost_text(lost: &[Loss]) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "{} not survive:\n",
        if lost.len() == 1 { "1 thing does".to_owned() } else { plural(lost.len(), "thing") + " do" }
    );
    for Loss { subject, path, value, becomes } in lost {
        let path = if path.is_empty() { String::new() } else { format!(" {path}:") };
        let becomes = becomes.as_ref().map_or_else(String::new, |becomes| format!(" becomes {becomes}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {subject}:{path} {value}{becomes}");
    }
    text
}
