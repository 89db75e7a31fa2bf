//! Reading what is uploaded.

use http::HeaderMap;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sha2::{Digest as _, Sha256};

use crate::cdi::import::format::Look;
use crate::cdi::names::hex;
use crate::world::volumes::Content;

/// How an upload is packed into its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// The body is the image.
    Plain,
    /// The body is a form with the image in it.
    Form,
    /// The body is an archive of files.
    Archive,
}

/// What was uploaded.
pub(super) async fn read(
    body: &mut Incoming,
    headers: &HeaderMap,
    packing: Packing,
) -> Result<Content, String> {
    let mut sink = Sink { look: Look::default(), hash: Sha256::new(), length: 0 };
    if packing == Packing::Form {
        let kind = headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = kind.and_then(boundary).ok_or("request Content-Type isn't multipart/form-data")?;
        let mut form = Form::new(&boundary);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            if let Ok(bytes) = frame.into_data() {
                form.take(&bytes, &mut |bytes| sink.take(bytes))?;
            }
        }
        form.finish()?;
    } else {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            if let Ok(bytes) = frame.into_data() {
                sink.take(&bytes)?;
            }
        }
    }
    sink.finish(packing == Packing::Archive)
}

struct Sink {
    look: Look,
    hash: Sha256,
    length: u64,
}

impl Sink {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.length += bytes.len() as u64;
        self.hash.update(bytes);
        self.look.update(bytes).map_err(|error| error.to_string())
    }

    fn finish(self, archive: bool) -> Result<Content, String> {
        let digest = format!("sha256:{}", hex(&self.hash.finalize()));
        if archive {
            return Ok(Content { virtual_size: self.length, digest, bootable: false });
        }
        let shape = self.look.finish().map_err(|error| error.to_string())?;
        Ok(Content { virtual_size: shape.virtual_size, digest, bootable: !shape.is_blank })
    }
}

/// The line between the parts of a form.
fn boundary(kind: &str) -> Option<String> {
    let mut parts = kind.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parts.find_map(|part| part.strip_prefix("boundary="))?;
    Some(boundary.trim_matches('"').to_owned())
}

/// How long the head of a part may be.
const LONGEST_HEAD: usize = 64 * 1024;

/// Where a reader is in a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first line, or in a part nobody wants.
    Between,
    /// In the head of a part.
    Head,
    /// In the part that is called `file`.
    File,
    /// After it.
    After,
}

/// Finds the part of a form that is called `file`, without ever keeping more than the head of a part.
struct Form {
    /// What ends a part.
    line: Vec<u8>,
    /// What was not looked at yet: never longer than a head or a line.
    rest: Vec<u8>,
    at: At,
}

impl Form {
    fn new(boundary: &str) -> Self {
        // The first line has nothing before it: as if it came after an empty part.
        Self { line: format!("\r\n--{boundary}").into_bytes(), rest: b"\r\n".to_vec(), at: At::Between }
    }

    /// Takes in some bytes of the form, and gives those of the file on.
    fn take(
        &mut self,
        bytes: &[u8],
        file: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.rest.extend_from_slice(bytes);
        loop {
            match self.at {
                At::After => {
                    self.rest.clear();
                    return Ok(());
                }
                At::Head => {
                    let Some(end) = find(&self.rest, b"\r\n\r\n") else {
                        let short = self.rest.len() <= LONGEST_HEAD;
                        return if short { Ok(()) } else { Err("the head of a part is too long".to_owned()) };
                    };
                    let head = String::from_utf8_lossy(&self.rest[..end]);
                    let wanted = head.contains("name=\"file\"") || head.contains("name=file");
                    self.at = if wanted { At::File } else { At::Between };
                    // The line break stays: a part without content ends with the same one.
                    self.rest.drain(..end + 2);
                    if wanted {
                        self.rest.drain(..2);
                    }
                }
                At::Between | At::File => {
                    let found = find(&self.rest, &self.line);
                    // What may be the beginning of a line is kept until it is known.
                    let safe = found.unwrap_or(self.rest.len().saturating_sub(self.line.len() - 1));
                    if self.at == At::File {
                        file(&self.rest[..safe])?;
                    }
                    if found.is_none() {
                        self.rest.drain(..safe);
                        return Ok(());
                    }
                    self.rest.drain(..safe + self.line.len());
                    self.at = if self.at == At::File { At::After } else { At::Head };
                }
            }
        }
    }

    fn finish(self) -> Result<(), String> {
        if self.at == At::After { Ok(()) } else { Err("no file in the form".to_owned()) }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of a form that comes in pieces of a size, and how much was kept at most.
    fn file_of(form: &[u8], size: usize) -> (Result<Vec<u8>, String>, usize) {
        let mut reader = Form::new(&boundary("multipart/form-data; boundary=\"x\"").unwrap());
        let (mut found, mut kept) = (Vec::new(), 0);
        for piece in form.chunks(size) {
            let mut keep = |bytes: &[u8]| {
                found.extend_from_slice(bytes);
                Ok(())
            };
            reader.take(piece, &mut keep).unwrap();
            kept = kept.max(reader.rest.len());
        }
        (reader.finish().map(|()| found), kept)
    }

    #[test]
    fn the_file_of_a_form_is_found_in_whatever_pieces_it_comes() {
        let form = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\n\
              Content-Disposition: form-data; name=\"file\"; filename=\"d\"\r\n\r\nby\r\n-tes\r\n--x--\r\n";
        for size in [1, 2, 3, 7, 50, form.len()] {
            assert_eq!(file_of(form, size).0, Ok(b"by\r\n-tes".to_vec()), "in pieces of {size}");
        }
        assert!(file_of(b"--x\r\n\r\n1\r\n--x--\r\n", 4).0.is_err());
        assert_eq!(boundary("text/plain"), None);
    }

    #[test]
    fn a_long_file_is_not_kept() {
        let mut form = b"--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n".to_vec();
        form.extend(vec![7; 1 << 20]);
        form.extend(b"\r\n--x--\r\n");
        let (found, kept) = file_of(&form, 4096);
        assert_eq!(found.map(|found| found.len()), Ok(1 << 20));
        assert!(kept < 8192, "{kept}");
    }
}
