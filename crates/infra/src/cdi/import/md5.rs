//! MD5 (RFC 1321), which people still publish next to their images. Only for telling whether bytes are the expected
//! ones; it protects against nothing.

/// Adds up bytes.
#[derive(Debug, Clone)]
pub(crate) struct Md5 {
    state: [u32; 4],
    length: u64,
    rest: Vec<u8>,
}

impl Default for Md5 {
    fn default() -> Self {
        Self {
            state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
            length: 0,
            rest: Vec::with_capacity(64),
        }
    }
}

/// By how much each round turns.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

impl Md5 {
    /// Adds bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        if !self.rest.is_empty() {
            let missing = (64 - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.rest.len() == 64 {
                let block = std::mem::take(&mut self.rest);
                self.block(&block);
            }
        }
        let blocks = bytes.chunks_exact(64);
        let rest = blocks.remainder().to_vec();
        for block in blocks {
            self.block(block);
        }
        self.rest.extend(rest);
    }

    /// The sum.
    pub(crate) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let mut last = std::mem::take(&mut self.rest);
        last.push(0x80);
        while last.len() % 64 != 56 {
            last.push(0);
        }
        last.extend(bits.to_le_bytes());
        for block in last.chunks_exact(64) {
            self.block(block);
        }
        let mut sum = [0; 16];
        for (place, word) in sum.chunks_exact_mut(4).zip(self.state) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        sum
    }

    fn block(&mut self, block: &[u8]) {
        let mut words = [0_u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [mut a, mut b, mut c, mut d] = self.state;
        for step in 0..64 {
            let (mixed, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let turned = a
                .wrapping_add(mixed)
                .wrapping_add(constant(step))
                .wrapping_add(words[word])
                .rotate_left(TURNS[step / 16][step % 4]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
        }
        for (part, new) in self.state.iter_mut().zip([a, b, c, d]) {
            *part = part.wrapping_add(new);
        }
    }
}

/// The constant of a step: the whole part of 2^32 times the absolute sine of its number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the standard defines the constants so, and they are below 2^32"
)]
fn constant(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdi::names::hex;

    #[test]
    fn the_sums_of_the_standard() {
        let sum = |text: &str| {
            let mut sum = Md5::default();
            for part in text.as_bytes().chunks(7) {
                sum.update(part);
            }
            hex(&sum.finish())
        };
        assert_eq!(sum(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(sum("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(
            sum("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
    }
}
