//! Rows as aligned text.

/// How a cell looks where colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    /// As everything else.
    #[default]
    Plain,
    /// As it is to be.
    Good,
    /// On its way.
    Busy,
    /// Wrong.
    Bad,
    /// Less important.
    Faint,
}

impl Style {
    /// The text in this style.
    pub(crate) fn paint(self, text: &str, colored: bool) -> String {
        if !colored || text.is_empty() {
            return text.to_owned();
        }
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Busy => "33",
            Self::Bad => "31;1",
            Self::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Cell {
    /// A cell in a style.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), style: Style::Plain }
    }
}

/// A table: titles, and rows of as many cells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) titles: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// How a table is laid out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Layout {
    /// How wide lines may be; as wide as they are where nothing is said.
    pub(crate) width: Option<usize>,
    /// Whether colours are used.
    pub(crate) colored: bool,
}

/// The space between columns.
const GAP: usize = 2;
/// The columns that give way when a line is too long.
const GIVES_WAY: [&str; 2] = ["WHY", "CHANGED"];
/// No column is made narrower than this.
const NARROWEST: usize = 10;

impl Table {
    /// The table as lines: titles first.
    pub(crate) fn lines(&self, layout: Layout) -> Vec<String> {
        let widths = self.widths(layout.width);
        let titles: Vec<Cell> = self.titles.iter().map(|title| Cell::styled(*title, Style::Faint)).collect();
        std::iter::once(&titles).chain(&self.rows).map(|row| line(row, &widths, layout)).collect()
    }

    /// The table as text.
    pub(crate) fn text(&self, layout: Layout) -> String {
        self.lines(layout).into_iter().map(|line| line + "\n").collect()
    }

    fn widths(&self, most: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.titles.iter().map(|title| title.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(shown(&cell.text));
            }
        }
        let whole: usize = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if let Some(most) = most
            && whole > most
            && let Some(width) = self
                .titles
                .iter()
                .position(|title| GIVES_WAY.contains(title))
                .and_then(|at| widths.get_mut(at))
        {
            *width = width.saturating_sub(whole - most).max(NARROWEST);
        }
        widths
    }
}

/// What an empty cell shows: a column that stays aligned for tools that split at spaces.
const NOTHING: &str = "-";

fn shown(text: &str) -> usize {
    text.chars().count().max(NOTHING.len())
}

fn line(row: &[Cell], widths: &[usize], layout: Layout) -> String {
    let mut out = String::new();
    let mut used = 0;
    for (number, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = if cell.text.is_empty() { NOTHING } else { &cell.text };
        let mut text = one_line(text, *width);
        if let Some(most) = layout.width {
            text = one_line(&text, most.saturating_sub(used));
        }
        let length = text.chars().count();
        out += &cell.style.paint(&text, layout.colored);
        used += length;
        if number + 1 < row.len() {
            let pad = width.saturating_sub(length) + GAP;
            let pad = layout.width.map_or(pad, |most| pad.min(most.saturating_sub(used)));
            out.extend(std::iter::repeat_n(' ', pad));
            used += pad;
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// The text on one line of so many letters, with what does not fit cut off. What could move the cursor is left out:
/// messages come from servers.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let clean = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    if text.chars().count() <= most {
        return clean.collect();
    }
    let mut cut: String = clean.take(most.saturating_sub(1)).collect();
    if most > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            titles: vec!["NAME", "PHASE", "WHY", "AGE"],
            rows: vec![
                vec!["a".into(), Cell::styled("Running", Style::Good), "".into(), "3m".into()],
                vec![
                    "longer".into(),
                    "Joining".into(),
                    "waiting for first boot, 2 min left".into(),
                    "4s".into(),
                ],
            ],
        }
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_in_a_pipe() {
        assert_eq!(
            table().text(Layout::default()),
            "NAME    PHASE    WHY                                 AGE\n\
             a       Running  -                                   3m\n\
             longer  Joining  waiting for first boot, 2 min left  4s\n"
        );
    }

    #[test]
    fn on_a_terminal_the_reason_gives_way_and_no_line_is_too_long() {
        for width in [0, 1, 10, 30, 40, 50, 80] {
            let lines = table().lines(Layout { width: Some(width), colored: false });
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
        }
        let lines = table().lines(Layout { width: Some(45), colored: false });
        assert_eq!(lines[2], "longer  Joining  waiting for first boot…  4s");
    }

    #[test]
    fn colours_change_nothing_else() {
        let colored = table().text(Layout { width: None, colored: true });
        assert!(colored.contains("\x1b[32mRunning\x1b[0m"), "{colored:?}");
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain += before;
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(plain + rest, table().text(Layout::default()));
    }

    #[test]
    fn what_servers_say_cannot_move_the_cursor() {
        assert_eq!(one_line("a\x1b[2Jb\nc", 20), "a [2Jb c");
    }
}
