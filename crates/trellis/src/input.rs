//! Where manifests come from: files, folders and standard input.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use trellis_dialects::source::SourceMap;

use crate::exit::Failure;

/// More than any manifest needs; the parser has a limit of its own for each text.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What was read, and what could not be.
pub(crate) struct Input {
    /// The texts.
    pub(crate) sources: SourceMap,
    /// Why others could not be read. They do not keep the rest from being looked at.
    pub(crate) unreadable: Vec<Failure>,
}

/// Reads all files, the manifests of all folders, and standard input for `-`.
pub(crate) fn read_all(files: &[PathBuf]) -> Result<Input, Failure> {
    let mut input = Input { sources: SourceMap::new(), unreadable: Vec::new() };
    let stdin = [PathBuf::from("-")];
    let files = match files {
        [] if std::io::stdin().is_terminal() => return Err(Failure::NoInput),
        [] => &stdin,
        files => files,
    };
    for file in files {
        if file.as_os_str() == "-" {
            input.add(add_stdin);
        } else if file.is_dir() {
            match manifests_in(file) {
                Ok(files) => files.iter().for_each(|file| input.add(|sources| add_file(file, sources))),
                Err(failure) => input.unreadable.push(failure),
            }
        } else {
            input.add(|sources| add_file(file, sources));
        }
    }
    Ok(input)
}

impl Input {
    fn add(&mut self, add: impl FnOnce(&mut SourceMap) -> Result<(), Failure>) {
        self.unreadable.extend(add(&mut self.sources).err());
    }
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
