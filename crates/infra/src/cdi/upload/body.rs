//! Reading what is uploaded.

use bytes::Bytes;
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
pub(super) async fn read(body: Incoming, headers: &HeaderMap, packing: Packing) -> Result<Content, String> {
    let mut sink = Sink { look: Look::default(), hash: Sha256::new(), length: 0 };
    if packing == Packing::Form {
        let kind = headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let boundary = kind.and_then(boundary).ok_or("request Content-Type isn't multipart/form-data")?;
        let all = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        sink.take(file_of(&all, &boundary).ok_or("no file in the form")?)?;
    } else {
        let mut body = body;
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

/// The bytes of the part of a form that is called `file`.
fn file_of<'b>(all: &'b Bytes, boundary: &str) -> Option<&'b [u8]> {
    let line = format!("--{boundary}");
    let mut rest = &all[find(all, line.as_bytes())? + line.len()..];
    loop {
        let head_end = find(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&rest[..head_end]);
        let content = &rest[head_end + 4..];
        let end = find(content, format!("\r\n{line}").as_bytes())?;
        if head.contains("name=\"file\"") || head.contains("name=file") {
            return Some(&content[..end]);
        }
        rest = &content[end + 2 + line.len()..];
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_form_is_found() {
        let form = Bytes::from_static(
            b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\n\
              Content-Disposition: form-data; name=\"file\"; filename=\"d\"\r\n\r\nbytes\r\n--x--\r\n",
        );
        let line = boundary("multipart/form-data; boundary=\"x\"").unwrap();
        assert_eq!(file_of(&form, &line), Some(&b"bytes"[..]));
        assert_eq!(boundary("text/plain"), None);
    }
}
