//! Blocks of text that carry bytes: `-----BEGIN X-----`.

use base64::Engine as _;

/// A block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// What it says it is.
    pub(crate) label: String,
    /// True when there are headers before the bytes.
    pub(crate) headers: bool,
    /// What it carries.
    pub(crate) bytes: Vec<u8>,
}

/// All the blocks that can be read; what is around them and what cannot be read is passed over.
pub(crate) fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut place = 0;
    while place < lines.len() {
        match block(&lines[place..]) {
            Some((block, length)) => {
                found.push(block);
                place += length;
            }
            None => place += 1,
        }
    }
    found
}

/// The block that starts with the first of the lines, and how many lines it has.
fn block(lines: &[&str]) -> Option<(Block, usize)> {
    let label = lines.first()?.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
    let end = format!("-----END {label}-----");
    let length = lines.iter().position(|line| line.trim_end() == end)?;
    let body = lines.get(1..length)?;
    let headers = body.iter().take_while(|line| line.contains(':')).count();
    let encoded: String = body.get(headers..)?.iter().flat_map(|line| line.split_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    Some((Block { label: label.to_owned(), headers: headers > 0, bytes }, length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text = b"junk\n-----BEGIN A-----\nQUJD\n-----END A-----\n-----BEGIN B-----\nX: y\n\nRA==\n-----END B-----\n-----BEGIN C-----\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].label.as_str(), found[0].headers, found[0].bytes.as_slice()),
            ("A", false, &b"ABC"[..])
        );
        assert_eq!(
            (found[1].label.as_str(), found[1].headers, found[1].bytes.as_slice()),
            ("B", true, &b"D"[..])
        );
        assert!(blocks(b"-----BEGIN A-----\n\xff\xff\n-----END A-----").is_empty());
    }
}
