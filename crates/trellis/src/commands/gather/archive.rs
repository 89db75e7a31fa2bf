//! An archive that is written file by file: `tar`, compressed.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The size of a block of an archive.
const BLOCK: usize = 512;

/// An archive that is being written. Everything in it belongs to one folder.
pub(super) struct Archive<W: Write> {
    out: GzEncoder<W>,
    folder: String,
    /// When it is made, in seconds.
    made: u64,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W, folder: &str, made: u64) -> Self {
        Self { out: GzEncoder::new(out, Compression::default()), folder: folder.to_owned(), made }
    }

    /// Adds a file that only its owner may read.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = format!("{}/{name}", self.folder);
        self.out.write_all(&header(&path, content.len() as u64, self.made)?)?;
        self.out.write_all(content)?;
        let rest = content.len() % BLOCK;
        if rest > 0 {
            self.out.write_all(&[0; BLOCK][rest..])?;
        }
        Ok(())
    }

    /// Ends it, and gives back what it was written to.
    pub(super) fn end(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.finish()
    }
}

/// The header of a file, in the form that every `tar` reads.
fn header(path: &str, size: u64, made: u64) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let (prefix, name) =
        split(path).ok_or_else(|| io::Error::other(format!("the name {path} is too long")))?;
    let mut put = |at: usize, text: &[u8]| {
        for (place, byte) in block.iter_mut().skip(at).zip(text) {
            *place = *byte;
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{made:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    for (place, byte) in block.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *place = byte;
    }
    Ok(block)
}

/// Splits a path where a header has room for its parts.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let fits = |at: &usize| *at <= 155 && path.len() - at - 1 <= 100;
    let at = path.match_indices('/').map(|(at, _)| at).find(fits)?;
    Some((path.get(..at)?, path.get(at + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tar_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut archive = Archive::new(std::fs::File::create(&path).unwrap(), "g", 1_700_000_000);
        let long = format!("{}/{}.yaml", "d".repeat(90), "n".repeat(60));
        archive.add("small.txt", b"hello").unwrap();
        archive.add(&long, &[b'x'; 1024]).unwrap();
        archive.end().unwrap();
        let status =
            Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(folder.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(std::fs::read_to_string(folder.path().join("g/small.txt")).unwrap(), "hello");
        assert_eq!(std::fs::read(folder.path().join("g").join(&long)).unwrap().len(), 1024);
        assert!(header(&"x".repeat(300), 0, 0).is_err());
    }
}
