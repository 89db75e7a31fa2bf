//! One module for each command.

pub(crate) mod completion;
pub(crate) mod convert;
pub(crate) mod explain;
pub(crate) mod internal;
pub(crate) mod plan;
pub(crate) mod render;
pub(crate) mod up;
pub(crate) mod validate;

use trellis_dialects::diagnostic::Severity;
use trellis_dialects::read::{Read, read};
use trellis_dialects::source::SourceMap;

use crate::args::Files;
use crate::exit::Failure;
use crate::input;

/// Reads manifests and checks them by the rules of the model and of the platform.
fn load(files: &Files) -> Result<(SourceMap, Read), Failure> {
    let sources = input::read_all(&files.files)?;
    let mut read = read(&sources);
    // The platform's rules speak about machines that make sense; before that they would only repeat.
    if !read.diagnostics.has_errors() {
        let problems = trellis_platform_kubevirt::check(&read.estate);
        read.report(problems);
    }
    Ok((sources, read))
}

/// Whether the manifests can be used: without errors, and for the strict without warnings.
fn is_usable(read: &Read, strict: bool) -> bool {
    let refused = read.diagnostics.has_errors() || (strict && read.diagnostics.count(Severity::Warning) > 0);
    !refused
}
