//! Recognising what kind of image bytes are while they pass.

use std::io::Write as _;

use flate2::write::GzDecoder;

/// How much of the end of an image is kept, for formats that tell their size there.
const TAIL: usize = 64 * 1024;
/// How much of the beginning is kept.
const HEAD: usize = 1024;

/// What an image turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How large the disk in it is, in bytes.
    pub virtual_size: u64,
    /// `raw` or `qcow2`.
    pub format: &'static str,
    /// How it was packed: `gzip`, `xz` or nothing.
    pub packing: &'static str,
    /// Whether there was nothing but zeros in it.
    pub is_blank: bool,
}

/// What is wrong with an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    /// A disk that needs another one behind it.
    #[error("image is invalid because it has invalid backing file")]
    Backed,
    /// Packed bytes that do not unpack.
    #[error("could not create compressed reader: {0}")]
    Packed(String),
}

#[derive(Debug)]
enum Packing {
    Unknown,
    Plain(Plain),
    Gzip(Box<GzDecoder<Plain>>),
    Xz { tail: Vec<u8> },
}

/// Looks at the bytes of an image as they pass.
#[derive(Debug)]
pub(crate) struct Look {
    head: Vec<u8>,
    packing: Packing,
}

/// Bytes that are not packed.
#[derive(Debug, Default)]
struct Plain {
    head: Vec<u8>,
    length: u64,
    not_zero: bool,
}

impl std::io::Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let missing = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.length += bytes.len() as u64;
        self.not_zero = self.not_zero || bytes.iter().any(|byte| *byte != 0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Default for Look {
    fn default() -> Self {
        Self { head: Vec::new(), packing: Packing::Unknown }
    }
}

/// How many bytes are needed to know how an image is packed.
const ENOUGH: usize = 6;
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP: &[u8] = &[0x1f, 0x8b];
const QCOW2: &[u8] = b"QFI\xfb";

impl Look {
    /// Takes in the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        if matches!(self.packing, Packing::Unknown) {
            self.head.extend_from_slice(bytes);
            if self.head.len() < ENOUGH {
                return Ok(());
            }
            return self.begin();
        }
        self.pass(bytes)
    }

    fn begin(&mut self) -> Result<(), FormatError> {
        let head = std::mem::take(&mut self.head);
        self.packing = if head.starts_with(XZ) {
            Packing::Xz { tail: Vec::new() }
        } else if head.starts_with(GZIP) {
            Packing::Gzip(Box::new(GzDecoder::new(Plain::default())))
        } else {
            Packing::Plain(Plain::default())
        };
        self.pass(&head)
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let packed = |error: std::io::Error| FormatError::Packed(error.to_string());
        match &mut self.packing {
            Packing::Unknown => Ok(()),
            Packing::Plain(plain) => plain.write_all(bytes).map_err(packed),
            Packing::Gzip(decoder) => decoder.write_all(bytes).map_err(packed),
            Packing::Xz { tail } => {
                tail.extend_from_slice(bytes);
                let excess = tail.len().saturating_sub(TAIL);
                tail.drain(..excess);
                Ok(())
            }
        }
    }

    /// What the image was.
    pub(crate) fn finish(mut self) -> Result<Shape, FormatError> {
        if matches!(self.packing, Packing::Unknown) {
            self.begin()?;
        }
        match self.packing {
            Packing::Plain(plain) => plain.shape(""),
            Packing::Gzip(decoder) => {
                let plain = decoder.finish().map_err(|error| FormatError::Packed(error.to_string()))?;
                plain.shape("gzip")
            }
            Packing::Xz { tail } => {
                let virtual_size = unpacked_size(&tail)
                    .ok_or_else(|| FormatError::Packed("xz: the end is not readable".to_owned()))?;
                Ok(Shape { virtual_size, format: "raw", packing: "xz", is_blank: false })
            }
            Packing::Unknown => Plain::default().shape(""),
        }
    }
}

impl Plain {
    fn shape(&self, packing: &'static str) -> Result<Shape, FormatError> {
        if self.head.starts_with(QCOW2)
            && let Some(virtual_size) = self.word(24)
        {
            if self.word(8).is_some_and(|backing| backing != 0) {
                return Err(FormatError::Backed);
            }
            return Ok(Shape { virtual_size, format: "qcow2", packing, is_blank: false });
        }
        Ok(Shape { virtual_size: self.length, format: "raw", packing, is_blank: !self.not_zero })
    }

    /// The eight bytes at a place as a number.
    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.head.get(at..at + 8)?;
        Some(bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }
}

/// The size of what is packed in an xz stream, from the index at its end.
fn unpacked_size(tail: &[u8]) -> Option<u64> {
    const FOOTER: usize = 12;
    let footer = tail.len().checked_sub(FOOTER)?;
    let end = &tail[footer..];
    if &end[10..] != b"YZ" {
        return None;
    }
    let backward = u32::from_le_bytes([end[4], end[5], end[6], end[7]]);
    let index = (usize::try_from(backward).ok()? + 1).checked_mul(4)?;
    let mut index = tail.get(footer.checked_sub(index)?..footer)?.iter().copied();
    if index.next()? != 0 {
        return None;
    }
    let records = number(&mut index)?;
    let mut total: u64 = 0;
    for _ in 0..records {
        number(&mut index)?;
        total = total.checked_add(number(&mut index)?)?;
    }
    Some(total)
}

/// A number of seven bits per byte, the lowest first.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The beginning of a qcow2 image of some size, which is all that is ever looked at.
#[cfg(test)]
pub(in crate::cdi) fn qcow2(virtual_size: u64) -> Vec<u8> {
    let mut image = QCOW2.to_vec();
    image.extend(3_u32.to_be_bytes());
    image.extend([0; 16]);
    image.extend(virtual_size.to_be_bytes());
    image.resize(512, 0);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bytes: &[u8]) -> Result<Shape, FormatError> {
        let mut look = Look::default();
        for part in bytes.chunks(5) {
            look.update(part)?;
        }
        look.finish()
    }

    #[test]
    fn plain_images_are_told_apart() {
        let raw = shape(&[1; 700]).unwrap();
        assert_eq!((raw.virtual_size, raw.format, raw.is_blank), (700, "raw", false));
        assert!(shape(&[0; 700]).unwrap().is_blank);
        let image = shape(&qcow2(10 << 30)).unwrap();
        assert_eq!((image.virtual_size, image.format), (10 << 30, "qcow2"));
        assert_eq!(shape(b"ab").unwrap().virtual_size, 2);
        let mut backed = qcow2(1);
        backed[15] = 9;
        assert_eq!(shape(&backed), Err(FormatError::Backed));
    }

    #[test]
    fn packed_images_are_looked_into() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&qcow2(5 << 20)).unwrap();
        let image = shape(&encoder.finish().unwrap()).unwrap();
        assert_eq!((image.virtual_size, image.format, image.packing), (5 << 20, "qcow2", "gzip"));
        assert!(matches!(shape(&[0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]), Err(FormatError::Packed(_))));
    }

    #[test]
    fn the_end_of_an_xz_stream_tells_its_size() {
        // One block of 300 bytes: index indicator, one record (unpadded 20, uncompressed 300), padding, checksum.
        let mut stream = XZ.to_vec();
        stream.extend([0, 4, 0xe6, 0xd6, 0xb4, 0x46]);
        let index = [0, 1, 20, 0xac, 0x02, 0, 0, 0, 9, 9, 9, 9];
        stream.extend(index);
        stream.extend([0, 0, 0, 0]);
        stream.extend(2_u32.to_le_bytes());
        stream.extend([0, 4, b'Y', b'Z']);
        let image = shape(&stream).unwrap();
        assert_eq!((image.virtual_size, image.packing), (300, "xz"));
    }
}
