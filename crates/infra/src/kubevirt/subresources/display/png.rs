//! A picture as a PNG: two colours, nothing compressed.

use super::picture::{HEIGHT, Picture, WIDTH};

/// Dark and light.
const PALETTE: [u8; 6] = [0x10, 0x14, 0x18, 0xd8, 0xe0, 0xd0];
/// How much a stored block holds at most.
const BLOCK: usize = 0xffff;

/// The file.
pub(super) fn encode(picture: &Picture) -> Vec<u8> {
    let mut file = vec![0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
    let mut header = Vec::new();
    header.extend(number(WIDTH));
    header.extend(number(HEIGHT));
    // One bit per dot, from a palette; no other choices.
    header.extend([1, 3, 0, 0, 0]);
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"PLTE", &PALETTE);
    chunk(&mut file, *b"IDAT", &stored(&rows(picture)));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn number(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes()
}

/// The rows, each with the filter that changes nothing in front.
fn rows(picture: &Picture) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEIGHT * (1 + WIDTH / 8));
    for y in 0..HEIGHT {
        bytes.push(0);
        for byte in 0..WIDTH.div_ceil(8) {
            bytes.push((0..8).fold(0, |bits, bit| bits << 1 | u8::from(picture.is_lit(byte * 8 + bit, y))));
        }
    }
    bytes
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend(number(data.len()));
    let start = file.len();
    file.extend(kind);
    file.extend(data);
    let sum = crc(&file[start..]);
    file.extend(sum.to_be_bytes());
}

/// Bytes as a zlib stream of stored blocks.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks = bytes.chunks(BLOCK);
    let last = blocks.len().saturating_sub(1);
    for (place, block) in blocks.enumerate() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(place == last));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler(bytes).to_be_bytes());
    stream
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

fn adler(bytes: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high): (u32, u32), byte| {
        let low = (low + u32::from(*byte)) % BASE;
        (low, (high + low) % BASE)
    });
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_the_known_ones() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(adler(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn blocks_hold_everything() {
        let bytes = vec![7; BLOCK + 10];
        let stream = stored(&bytes);
        assert_eq!(stream.len(), 2 + 5 + BLOCK + 5 + 10 + 4);
        assert_eq!((stream[2], stream[7 + BLOCK]), (0, 1));
    }
}
