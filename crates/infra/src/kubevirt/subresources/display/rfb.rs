//! The remote framebuffer protocol, version 3.8 and the two before it: no password, raw pixels.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::broadcast::error::RecvError;

use super::picture::{self, HEIGHT, Picture, WIDTH};
use crate::object::Object as _;
use crate::world::machine::Machine;

/// How a viewer wants its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pixels {
    bytes: usize,
    big_endian: bool,
    max: [u16; 3],
    shift: [u8; 3],
}

impl Pixels {
    /// Four bytes, eight bits for each colour.
    const USUAL: Self = Self { bytes: 4, big_endian: false, max: [255; 3], shift: [16, 8, 0] };

    /// The format in sixteen bytes, as it is asked for.
    fn read(raw: &[u8; 16]) -> Self {
        let two = |at: usize| u16::from_be_bytes([raw[at], raw[at + 1]]);
        Self {
            bytes: match raw[0] {
                8 => 1,
                16 => 2,
                _ => 4,
            },
            big_endian: raw[2] != 0,
            max: [two(4), two(6), two(8)],
            shift: [raw[10], raw[11], raw[12]],
        }
    }

    fn written(self) -> [u8; 16] {
        let mut raw = [0; 16];
        raw[0] = u8::try_from(self.bytes * 8).unwrap_or(32);
        raw[1] = 24;
        raw[2] = u8::from(self.big_endian);
        raw[3] = 1;
        for (place, max) in self.max.iter().enumerate() {
            raw[4 + place * 2..6 + place * 2].copy_from_slice(&max.to_be_bytes());
        }
        raw[10..13].copy_from_slice(&self.shift);
        raw
    }

    /// A colour as the viewer wants it.
    fn pixel(self, colour: [u8; 3]) -> Vec<u8> {
        let mut value: u32 = 0;
        for ((part, max), shift) in colour.into_iter().zip(self.max).zip(self.shift) {
            value |= (u32::from(part) * u32::from(max) / 255) << (shift & 31);
        }
        let bytes = value.to_le_bytes();
        let mut bytes = bytes[..self.bytes].to_vec();
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
}

/// A part of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    x: u16,
    y: u16,
    width: u16,
    height: u16,
}

impl Part {
    fn of(raw: [u8; 8]) -> Self {
        let two = |at: usize| u16::from_be_bytes([raw[at], raw[at + 1]]);
        let (x, y) = (two(0).min(wide()), two(2).min(high()));
        Self { x, y, width: two(4).min(wide() - x), height: two(6).min(high() - y) }
    }
}

fn wide() -> u16 {
    u16::try_from(WIDTH).unwrap_or(u16::MAX)
}

fn high() -> u16 {
    u16::try_from(HEIGHT).unwrap_or(u16::MAX)
}

/// An update of a part of the screen.
fn update(picture: &Picture, part: Part, pixels: Pixels) -> Vec<u8> {
    let (dark, light) = (pixels.pixel([0x10, 0x14, 0x18]), pixels.pixel([0xd8, 0xe0, 0xd0]));
    let mut message = vec![0, 0, 0, 1];
    for number in [part.x, part.y, part.width, part.height] {
        message.extend(number.to_be_bytes());
    }
    message.extend([0; 4]);
    for y in 0..part.height {
        for x in 0..part.width {
            let lit = picture.is_lit(usize::from(part.x + x), usize::from(part.y + y));
            message.extend(if lit { &light } else { &dark });
        }
    }
    message
}

/// What a key types, if anything.
fn typed(key: u32) -> Option<u8> {
    match key {
        0x20..=0x7e => u8::try_from(key).ok(),
        0xff0d | 0xff8d => Some(b'\r'),
        0xff08 => Some(0x7f),
        0xff09 => Some(b'\t'),
        0xff1b => Some(0x1b),
        _ => None,
    }
}

/// Serves one viewer until it leaves.
pub(super) async fn serve(machine: &Machine, stream: DuplexStream) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    greet(machine, &mut from, &mut to).await?;
    watch(machine, &mut from, &mut to).await
}

async fn greet(
    machine: &Machine,
    from: &mut ReadHalf<DuplexStream>,
    to: &mut WriteHalf<DuplexStream>,
) -> io::Result<()> {
    to.write_all(b"RFB 003.008\n").await?;
    let mut version = [0; 12];
    from.read_exact(&mut version).await?;
    if !version.starts_with(b"RFB 003.") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a viewer"));
    }
    match &version[8..11] {
        b"007" | b"008" => {
            to.write_all(&[1, 1]).await?;
            if from.read_u8().await? != 1 {
                let why = "there is no such security type";
                to.write_u32(1).await?;
                to.write_u32(u32::try_from(why.len()).unwrap_or_default()).await?;
                to.write_all(why.as_bytes()).await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if &version[8..11] == b"008" {
                to.write_u32(0).await?;
            }
        }
        _ => to.write_u32(1).await?,
    }
    // Whether the screen is shared is not the viewer's choice here.
    from.read_u8().await?;
    let vmi = machine.plan().vmi;
    let name = format!("{}/{}", vmi.namespace(), vmi.name());
    to.write_u16(wide()).await?;
    to.write_u16(high()).await?;
    to.write_all(&Pixels::USUAL.written()).await?;
    to.write_u32(u32::try_from(name.len()).unwrap_or_default()).await?;
    to.write_all(name.as_bytes()).await
}

/// Shows the screen when asked, or when it has changed since.
async fn watch(
    machine: &Machine,
    from: &mut ReadHalf<DuplexStream>,
    to: &mut WriteHalf<DuplexStream>,
) -> io::Result<()> {
    let mut pixels = Pixels::USUAL;
    let mut shown: Option<Picture> = None;
    let mut waiting: Option<Part> = None;
    let mut state = machine.state();
    let (_, mut console) = machine.console.look();
    loop {
        if let Some(part) = waiting {
            let picture = picture::of(machine);
            if shown.as_ref() != Some(&picture) {
                to.write_all(&update(&picture, part, pixels)).await?;
                (shown, waiting) = (Some(picture), None);
            }
        }
        let kind = tokio::select! {
            biased;
            kind = from.read_u8() => kind?,
            changed = state.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Ok(()),
            },
            more = console.recv() => match more {
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            },
        };
        match kind {
            0 => {
                let mut raw = [0; 19];
                from.read_exact(&mut raw).await?;
                let mut format = [0; 16];
                format.copy_from_slice(&raw[3..]);
                pixels = Pixels::read(&format);
            }
            2 => {
                from.read_u8().await?;
                let count = from.read_u16().await?;
                skip(from, usize::from(count) * 4).await?;
            }
            3 => {
                let only_changes = from.read_u8().await? != 0;
                let mut raw = [0; 8];
                from.read_exact(&mut raw).await?;
                waiting = Some(Part::of(raw));
                if !only_changes {
                    shown = None;
                }
            }
            4 => {
                let down = from.read_u8().await? != 0;
                from.read_u16().await?;
                let key = from.read_u32().await?;
                if let Some(byte) = typed(key).filter(|_| down) {
                    machine.console.type_in(Bytes::copy_from_slice(&[byte]));
                }
            }
            5 => skip(from, 5).await?,
            6 => {
                skip(from, 3).await?;
                let length = from.read_u32().await?;
                skip(from, usize::try_from(length).unwrap_or_default()).await?;
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "an unknown message")),
        }
    }
}

/// Reads what is of no interest.
async fn skip(from: &mut ReadHalf<DuplexStream>, length: usize) -> io::Result<()> {
    let mut rest = from.take(u64::try_from(length).unwrap_or_default());
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_come_as_asked() {
        assert_eq!(Pixels::USUAL.pixel([1, 2, 3]), [3, 2, 1, 0]);
        let mut raw = Pixels::USUAL.written();
        assert_eq!(Pixels::read(&raw), Pixels::USUAL);
        raw[0] = 16;
        raw[2] = 1;
        raw[4..13].copy_from_slice(&[0, 31, 0, 63, 0, 31, 11, 5, 0]);
        assert_eq!(Pixels::read(&raw).pixel([255, 0, 0]), [0xf8, 0]);
    }

    #[test]
    fn parts_stay_on_the_screen() {
        let part = Part::of([0, 10, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!((part.width, part.height), (wide() - 10, high()));
        assert_eq!(Part::of([0xff; 8]).width, 0);
    }

    #[test]
    fn keys_type_what_they_say() {
        assert_eq!((typed(0x61), typed(0xff0d), typed(0xffe1)), (Some(b'a'), Some(b'\r'), None));
    }
}
