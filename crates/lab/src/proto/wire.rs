//! The wire format of protobuf: tags, varints and length-delimited pieces.

use super::Problem;

/// What stands behind a tag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Piece<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: a text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32(u32),
}

impl Piece<'_> {
    /// The number of the wire type.
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        }
    }
}

/// Reads the fields of a message one after the other.
#[derive(Debug, Clone)]
pub(super) struct Pieces<'a> {
    rest: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// The fields of these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field: its number and what it holds. Groups, which nothing here writes, are passed over.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Piece<'a>)>, Problem> {
        let mut open_groups: u32 = 0;
        while !self.rest.is_empty() {
            let tag = self.varint()?;
            let number = u32::try_from(tag >> 3).unwrap_or(0);
            if number == 0 || i32::try_from(number).is_err() {
                return Err(Problem::IllegalTag(tag >> 3, tag));
            }
            let piece = match tag & 7 {
                0 => Piece::Varint(self.varint()?),
                1 => Piece::Fixed64(u64::from_le_bytes(self.array()?)),
                2 => {
                    let length = self.varint()?;
                    if i64::try_from(length).is_err() {
                        return Err(Problem::NegativeLength);
                    }
                    Piece::Bytes(self.take(usize::try_from(length).map_err(|_| Problem::Truncated)?)?)
                }
                3 => {
                    open_groups += 1;
                    continue;
                }
                4 if open_groups > 0 => {
                    open_groups -= 1;
                    continue;
                }
                4 => return Err(Problem::EndGroup),
                5 => Piece::Fixed32(u32::from_le_bytes(self.array()?)),
                other => return Err(Problem::IllegalWireType(other)),
            };
            if open_groups == 0 {
                return Ok(Some((number, piece)));
            }
        }
        if open_groups > 0 { Err(Problem::Truncated) } else { Ok(None) }
    }

    /// True when nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A varint: seven bits per byte, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, Problem> {
        let mut value: u64 = 0;
        for (place, &byte) in self.rest.iter().enumerate().take(10) {
            // Bits beyond the 64th are lost, as in the reference implementation.
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                self.rest = &self.rest[place + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { Problem::Truncated } else { Problem::Overflow })
    }

    /// Eight bytes, little-endian.
    pub(super) fn fixed64(&mut self) -> Result<u64, Problem> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Problem::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Problem::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends a field that holds a varint.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends a field that holds eight bytes.
pub(crate) fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field that holds bytes or a text.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field that holds a message, which `write` appends.
///
/// One byte is kept for the length; only messages of 128 bytes and more have to be moved to make room.
pub(crate) fn put_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, u64::from(number) << 3 | 2);
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if let Ok(short @ 0..0x80) = u8::try_from(length) {
        out[start] = short;
        return;
    }
    let mut prefix = Vec::with_capacity(5);
    put_varint(&mut prefix, length as u64);
    out.splice(start..=start, prefix);
}
