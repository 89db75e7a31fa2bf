//! What a machine is made of at first boot, said once for every operating system: files, units, users.

use crate::secret::Secret;

/// What a machine does at first boot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// The name of the host.
    pub hostname: String,
    /// Its full name.
    pub fqdn: String,
    /// Files that are written before any unit starts.
    pub files: Vec<File>,
    /// Units that are written and, where that is said, started now and at every boot.
    pub units: Vec<Unit>,
    /// Who may log in.
    pub users: Vec<User>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it is, from the root.
    pub path: String,
    /// Who may do what with it.
    pub mode: u32,
    /// What is in it. Every content is treated as a secret: most are.
    pub content: Secret,
}

/// A unit of systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name with its kind: `kubelet.service`.
    pub name: String,
    /// Its text; nothing for one that the system brings along.
    pub text: Option<String>,
    /// Whether it is started at every boot.
    pub enabled: bool,
}

/// A user who may log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name; one that the image already has.
    pub name: String,
    /// Public keys in one line each.
    pub ssh_keys: Vec<String>,
}

impl Config {
    /// Adds a file everybody may read.
    pub(crate) fn file(&mut self, path: impl Into<String>, content: impl Into<String>) {
        self.put(path, 0o644, Secret::new(content));
    }

    /// Adds a program.
    pub(crate) fn program(&mut self, path: impl Into<String>, content: impl Into<String>) {
        self.put(path, 0o755, Secret::new(content));
    }

    /// Adds a file that only the administrator may read.
    pub(crate) fn secret(&mut self, path: impl Into<String>, content: Secret) {
        self.put(path, 0o600, content);
    }

    fn put(&mut self, path: impl Into<String>, mode: u32, content: Secret) {
        self.files.push(File { path: path.into(), mode, content });
    }

    /// Adds a unit that is started at every boot.
    pub(crate) fn unit(&mut self, name: &str, text: String) {
        self.units.push(Unit { name: name.to_owned(), text: Some(text), enabled: true });
    }

    /// The content of a file.
    pub fn content(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.content.expose())
    }
}
