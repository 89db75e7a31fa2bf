//! One module for each command.

pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod drain;
pub(crate) mod explain;
pub(crate) mod gather;
pub(crate) mod get;
pub(crate) mod install;
pub(crate) mod internal;
pub(crate) mod lab;
mod logs;
pub(crate) mod machine_config_server;
pub(crate) mod plan;
pub(crate) mod rbac;
pub(crate) mod render;
pub(crate) mod rollout;
pub(crate) mod scale;
pub(crate) mod up;
pub(crate) mod validate;
pub(crate) mod wait_for;
pub(crate) mod webhook;

use trellis_dialects::diagnostic::{Diagnostic, Diagnostics, Severity};
use trellis_dialects::read::{Read, read};
use trellis_dialects::source::SourceMap;

use crate::args::Files;
use crate::exit::{Exit, Failure};
use crate::input::{self, Input};

/// The code of the complaint about a file that cannot be read.
const UNREADABLE: &str = "unreadable-file";

/// Reads manifests and checks them by the rules of the model and of the platform.
fn load(files: &Files) -> Result<(SourceMap, Read), Failure> {
    let Input { sources, unreadable } = input::read_all(&files.files)?;
    let mut read = read(&sources);
    if !unreadable.is_empty() && sources.iter().next().is_none() {
        // That there is nothing to read follows from the files that could not be.
        read.diagnostics = Diagnostics::new();
    }
    // The platform's rules speak about machines that make sense; before that they would only repeat.
    if !read.diagnostics.has_errors() {
        let problems = trellis_platform_kubevirt::check(&read.estate);
        read.report(problems);
    }
    for failure in unreadable {
        read.diagnostics.push(Diagnostic::error(UNREADABLE, failure.to_string()));
    }
    Ok((sources, read))
}

/// Whether the manifests can be used: without errors, and for the strict without warnings.
fn is_usable(read: &Read, strict: bool) -> bool {
    let refused = read.diagnostics.has_errors() || (strict && read.diagnostics.count(Severity::Warning) > 0);
    !refused
}

/// How a command ends that cannot use its manifests.
fn unusable(read: &Read) -> Exit {
    let is_unreadable = read.diagnostics.iter().any(|diagnostic| diagnostic.code == UNREADABLE);
    if is_unreadable { Exit::Files } else { Exit::BadManifest }
}

/// Writes files into a folder, which is made if it is not there.
fn write_files(folder: &std::path::Path, files: Vec<(String, String)>) -> Result<(), Failure> {
    for (name, text) in files {
        let file = folder.join(name);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}
