//! A short, repeatable fuzzing run of every reader: mutations of real manifests, always the same ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use trellis_dialects::fields::{Field, fields};
use trellis_dialects::fuzz::exercise;
use trellis_dialects::read::{Dialect, kinds};

/// How many mutated texts each reader gets. Coverage-guided runs of hours are done with `fuzz/`.
const ROUNDS: usize = 300;

/// A small generator of repeatable numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap()
    }
}

const ODDITIES: &[&str] = &[
    "null",
    "~",
    "{}",
    "[]",
    "[[[[",
    "}",
    ": ",
    "- ",
    "---\n",
    "...\n",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "|\n",
    "\t",
    "\"",
    "'",
    "-1",
    "1e999",
    "0x7f",
    "0755",
    "99999999999999999999",
    "yes",
    "2Gi",
    "25%",
    "\u{0}",
    "\u{feff}",
    "é",
    "\u{202e}",
    "default",
    "{{",
];

/// Pieces that break readers: odd scalars, structure, and every field name there is.
fn dictionary() -> Vec<String> {
    let mut words: Vec<String> = ODDITIES.iter().map(|word| (*word).to_owned()).collect();
    for kind in kinds() {
        let top = fields((kind.schema)());
        words.extend(top.iter().flat_map(Field::flatten).map(|field| format!("{}: ", field.name)));
    }
    words
}

fn mutate(text: &str, others: &[String], words: &[String], numbers: &mut Numbers) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=numbers.below(4) {
        if lines.is_empty() {
            lines.push(String::new());
        }
        let at = numbers.below(lines.len());
        let word = &words[numbers.below(words.len())];
        match numbers.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => lines[at].insert_str(0, "  "),
            3 => lines[at] = lines[at].trim_start().chars().collect(),
            4 => lines[at] += word,
            5 => lines.insert(at, format!("  {word}x")),
            6 => {
                let key = lines[at].split_once(": ").map(|(key, _)| format!("{key}: "));
                lines[at] = key.unwrap_or_default() + word;
            }
            _ => {
                let other: Vec<&str> = others[numbers.below(others.len())].lines().collect();
                lines.insert(at, other[numbers.below(other.len())].to_owned());
            }
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    if numbers.below(4) == 0 && !bytes.is_empty() {
        let at = numbers.below(bytes.len());
        bytes[at] = u8::try_from(numbers.below(128)).unwrap();
    }
    if numbers.below(6) == 0 {
        bytes.truncate(numbers.below(bytes.len()));
    }
    bytes
}

fn corpus() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().filter(|file| file.is_file()).map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn run(dialect: Dialect, seed: u64) {
    let (corpus, words) = (corpus(), dictionary());
    assert!(corpus.len() >= 5 && words.len() > 300, "{} texts, {} words", corpus.len(), words.len());
    for text in &corpus {
        exercise(dialect, text.as_bytes());
    }
    let mut numbers = Numbers(seed);
    for _ in 0..ROUNDS {
        let text = &corpus[numbers.below(corpus.len())];
        exercise(dialect, &mutate(text, &corpus, &words, &mut numbers));
    }
}

#[test]
fn openshift_survives_mutated_manifests() {
    run(Dialect::Openshift, 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn kkp_survives_mutated_manifests() {
    run(Dialect::Kkp, 0xbf58_476d_1ce4_e5b9);
}

#[test]
fn gardener_survives_mutated_manifests() {
    run(Dialect::Gardener, 0x94d0_49bb_1331_11eb);
}

#[test]
fn trellis_survives_mutated_manifests() {
    run(Dialect::Trellis, 0xd6e8_feb8_6659_fd93);
}
