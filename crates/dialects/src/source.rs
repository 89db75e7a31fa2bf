//! The texts that were read, and places in them.

/// One text that was read, with the name that is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the person gave it, or `<stdin>` for standard input.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A piece of a text, as byte offsets; `end` is the first byte that no longer belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

impl Span {
    /// A span between two offsets. An end before the start gives an empty span at the start.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }

    /// Whether the span holds no text at all.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The text the span covers, with both ends moved to the nearest character border inside `text`.
    pub fn slice(self, text: &str) -> &str {
        let start = floor_char(text, self.start);
        let end = floor_char(text, self.end.max(start));
        text.get(start..end).unwrap_or_default()
    }
}

/// The largest character border that is not after `offset`.
pub(crate) fn floor_char(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset)
}

/// Which text of a [`SourceMap`] is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub usize);

/// Where the lines of one text begin, so that finding a line takes no walk over the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Notes where the lines of `text` begin.
    pub(crate) fn new(text: &str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// The line an offset is on, counted from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).max(1)
    }

    /// Where a line (counted from 1) begins.
    pub(crate) fn start_of(&self, line: usize) -> usize {
        self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// All texts of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    lines: Vec<LineIndex>,
}

impl SourceMap {
    /// A map without any text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a text in and gives it a number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let file = SourceFile { name: name.into(), text: text.into() };
        self.lines.push(LineIndex::new(&file.text));
        self.files.push(file);
        FileId(self.files.len() - 1)
    }

    /// The text with this number, if it belongs to this map.
    pub fn get(&self, file: FileId) -> Option<&SourceFile> {
        self.files.get(file.0)
    }

    /// All texts in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(index, file)| (FileId(index), file))
    }

    /// Line and column of an offset, both counted from 1, the column in characters.
    ///
    /// Offsets past the end mean the end; an unknown file gives line 1, column 1.
    pub fn line_column(&self, file: FileId, offset: usize) -> (usize, usize) {
        let (Some(source), Some(lines)) = (self.files.get(file.0), self.lines.get(file.0)) else {
            return (1, 1);
        };
        let offset = floor_char(&source.text, offset);
        let line = lines.line(offset);
        let before = source.text.get(lines.start_of(line)..offset).unwrap_or_default();
        // A byte-order mark takes no place on the screen and no editor counts it.
        (line, before.chars().filter(|character| *character != '\u{feff}').count() + 1)
    }

    /// The first line of a span without its line break, where that line begins, and its number.
    pub(crate) fn line_of(&self, file: FileId, offset: usize) -> Option<(usize, usize, &str)> {
        let (source, lines) = (self.files.get(file.0)?, self.lines.get(file.0)?);
        let line = lines.line(offset.min(source.text.len()));
        let start = lines.start_of(line);
        let rest = source.text.get(start..)?;
        let text = rest.split('\n').next().unwrap_or_default();
        Some((line, start, text.strip_suffix('\r').unwrap_or(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_breaks() {
        let mut map = SourceMap::new();
        let file = map.add("a.yaml", "é: x\nb: ü!\n");
        assert_eq!(map.line_column(file, 0), (1, 1));
        assert_eq!(map.line_column(file, 2), (1, 2), "é is two bytes, one column");
        assert_eq!(map.line_column(file, 6), (2, 1));
        assert_eq!(map.line_column(file, 11), (2, 5));
        assert_eq!(map.line_column(file, 10_000), (3, 1), "past the end is the end");
        assert_eq!(map.line_column(FileId(7), 3), (1, 1), "an unknown file has no lines");
    }

    #[test]
    fn an_offset_inside_a_character_means_that_character() {
        let mut map = SourceMap::new();
        let file = map.add("a", "aé");
        assert_eq!(map.line_column(file, 2), (1, 2));
        assert_eq!(Span::new(1, 2).slice("aé"), "");
        assert_eq!(Span::new(1, 3).slice("aé"), "é");
        assert_eq!(Span::new(5, 9).slice("aé"), "");
    }

    #[test]
    fn a_byte_order_mark_takes_no_column() {
        let mut map = SourceMap::new();
        let file = map.add("a", "\u{feff}a: 1");
        assert_eq!(map.line_column(file, 3), (1, 1));
    }

    #[test]
    fn the_line_of_an_offset_comes_without_its_break() {
        let mut map = SourceMap::new();
        let file = map.add("a", "one\r\ntwo\n");
        assert_eq!(map.line_of(file, 1), Some((1, 0, "one")));
        assert_eq!(map.line_of(file, 6), Some((2, 5, "two")));
        assert_eq!(map.line_of(file, 99), Some((3, 9, "")));
    }
}
