//! The keys of a cluster in a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData};

use super::{AltName, Authority, Pki, PkiError, new_key, pem};
use crate::auth::secret::Secret;

impl Pki {
    /// The keys of a folder, which are made where they are missing.
    ///
    /// A process that dies at any moment leaves a folder that can be read again: files appear whole or not at
    /// all, and a key is written before its certificate, so a key alone is completed and a certificate alone is
    /// an error.
    pub fn load_or_generate(folder: &Path, now: Timestamp, extra: &[AltName]) -> Result<Self, PkiError> {
        create_private_folder(folder).map_err(|source| PkiError::Io { path: folder.to_owned(), source })?;
        let cluster = authority(folder, "ca", "kubernetes", now)?;
        let front_proxy = authority(folder, "front-proxy-ca", "front-proxy-ca", now)?;
        let service_accounts = service_account_key(folder)?;
        Self::issue(cluster, front_proxy, service_accounts, now, extra)
    }
}

fn authority(folder: &Path, stem: &str, common_name: &str, now: Timestamp) -> Result<Authority, PkiError> {
    let key_path = folder.join(format!("{stem}.key"));
    let certificate_path = folder.join(format!("{stem}.crt"));
    let corrupt =
        |path: &Path, problem: &str| PkiError::Corrupt { path: path.to_owned(), problem: problem.to_owned() };
    let stored_key = read_if_there(&key_path)?;
    let key = match &stored_key {
        Some(text) => KeyPair::from_pem(text).map_err(|_| corrupt(&key_path, "this is not a private key"))?,
        None => new_key()?,
    };
    let Some(certificate) = read_if_there(&certificate_path)? else {
        let made = Authority::with_key(common_name, key, now)?;
        if stored_key.is_none() {
            write_secret_file(&key_path, &made.key_pem())?;
        }
        write_secret_file(&certificate_path, &Secret::new(made.certificate_pem()))?;
        return Ok(made);
    };
    if stored_key.is_none() {
        return Err(corrupt(&key_path, "this key is missing, but its certificate is there"));
    }
    let made = Authority::from_pem(&certificate, &Secret::new(key.serialize_pem()))
        .map_err(|problem| corrupt(&certificate_path, &problem.to_string()))?;
    let (not_before, not_after) = (made.facts.not_before, made.facts.not_after);
    if now < not_before || now >= not_after {
        return Err(PkiError::OutOfTime { path: certificate_path, not_before, not_after, now });
    }
    Ok(made)
}

fn service_account_key(folder: &Path) -> Result<Secret, PkiError> {
    let path = folder.join("sa.key");
    if let Some(text) = read_if_there(&path)? {
        let problem =
            || PkiError::Corrupt { path: path.clone(), problem: "this is not a private key".to_owned() };
        let key = KeyPair::from_pem(&text).map_err(|_| problem())?;
        if *PublicKeyData::algorithm(&key) != rcgen::PKCS_ECDSA_P256_SHA256 {
            return Err(PkiError::Corrupt {
                path,
                problem: "this is not a key on the curve P-256".to_owned(),
            });
        }
        return Ok(Secret::new(text));
    }
    let key = new_key()?;
    let text = Secret::new(key.serialize_pem());
    write_secret_file(&path, &text)?;
    // For whoever verifies tokens without asking the server; nothing here reads it.
    let public = pem("PUBLIC KEY", &key.subject_public_key_info());
    write_secret_file(&folder.join("sa.pub"), &Secret::new(public))?;
    Ok(text)
}

fn read_if_there(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| PkiError::Corrupt { path: path.to_owned(), problem: "this is not text".to_owned() }),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::Io { path: path.to_owned(), source }),
    }
}

/// Writes a file that only its owner can read, so that it is there as a whole or not at all.
pub fn write_secret_file(path: &Path, text: &Secret) -> Result<(), PkiError> {
    let in_words = |source: io::Error| PkiError::Io { path: path.to_owned(), source };
    // Two processes that start at once write different files and the last one wins as a whole.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.tmp", rand::random::<u64>()));
    let temporary = path.with_file_name(name);
    let result =
        write_whole(&temporary, text.expose().as_bytes()).and_then(|()| fs::rename(&temporary, path));
    if let Err(problem) = result {
        // Best effort: what counts is the first problem.
        let _ = fs::remove_file(&temporary);
        return Err(in_words(problem));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(in_words)?;
    }
    Ok(())
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Opens a file, or makes one, that only its owner can use from its first moment on.
pub fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // One that is there may be from somewhere else.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

/// Makes a folder that only its owner can use, and what is missing above it the same way.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
