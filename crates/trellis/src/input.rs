//! Where manifests come from: files, folders and standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use trellis_dialects::source::SourceMap;

use crate::exit::Failure;

/// More than any manifest needs; the parser has a limit of its own for each text.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads all files, the manifests of all folders, and standard input for `-`.
pub(crate) fn read_all(files: &[PathBuf]) -> Result<SourceMap, Failure> {
    let mut sources = SourceMap::new();
    if files.is_empty() {
        if std::io::stdin().is_terminal() {
            return Err(Failure::NoInput);
        }
        add_stdin(&mut sources)?;
    }
    for file in files {
        if file.as_os_str() == "-" {
            add_stdin(&mut sources)?;
        } else if file.is_dir() {
            for file in manifests_in(file)? {
                add_file(&file, &mut sources)?;
            }
        } else {
            add_file(file, &mut sources)?;
        }
    }
    Ok(sources)
}

fn add_stdin(sources: &mut SourceMap) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let name = "<stdin>";
    std::io::stdin().take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    sources.add(name, text(name, bytes)?);
    Ok(())
}

fn add_file(file: &Path, sources: &mut SourceMap) -> Result<(), Failure> {
    let name = file.display().to_string();
    let open = std::fs::File::open(file).map_err(|error| unreadable(&name, &error))?;
    let mut bytes = Vec::new();
    open.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| unreadable(&name, &error))?;
    let text = text(&name, bytes)?;
    sources.add(name, text);
    Ok(())
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::Read { name: name.to_owned(), why: error.to_string() }
}

fn text(name: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() as u64 >= MAX_BYTES {
        let why = format!("it is larger than {} MiB; no manifest is", MAX_BYTES >> 20);
        return Err(Failure::Read { name: name.to_owned(), why });
    }
    String::from_utf8(bytes).map_err(|error| {
        let why = format!("it is not UTF-8 text (byte {} is not)", error.utf8_error().valid_up_to());
        Failure::Read { name: name.to_owned(), why }
    })
}

/// The manifests of a folder, in the order of their names.
fn manifests_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let name = folder.display().to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(&name, &error))? {
        let path = entry.map_err(|error| unreadable(&name, &error))?.path();
        let is_manifest =
            path.extension().and_then(|e| e.to_str()).is_some_and(|e| matches!(e, "yaml" | "yml" | "json"));
        if is_manifest && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Failure::Read { name, why: "the folder holds no .yaml, .yml or .json file".to_owned() });
    }
    files.sort();
    Ok(files)
}
