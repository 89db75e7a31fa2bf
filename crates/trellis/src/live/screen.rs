//! What is shown while something goes on: redrawn on a terminal, new lines in a pipe.

use std::io::{self, IsTerminal as _, Write as _};

use super::table::{Layout, Style, one_line};
use crate::output::Output;

/// How wide and high a terminal is that does not say.
const USUAL: (usize, usize) = (80, 24);
/// How long a bar is.
const BAR: u32 = 24;

/// Where what goes on is shown.
#[derive(Debug)]
pub(crate) struct Screen {
    is_terminal: bool,
    colored: bool,
    /// How many lines of the last frame are on the terminal.
    drawn: usize,
    /// What was last said in a pipe.
    said: String,
}

impl Screen {
    /// The standard output.
    pub(crate) fn new(output: Output) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { is_terminal, colored: output.color_on_stdout(), drawn: 0, said: String::new() }
    }

    /// Whether somebody looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How tables are laid out on it: a terminal has an end, a pipe has none.
    pub(crate) fn layout(&self) -> Layout {
        Layout { width: self.is_terminal.then(|| size().0), colored: self.colored }
    }

    /// Shows these lines instead of those shown before. Only for terminals.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let (_, height) = size();
        let frame = frame(lines, height.saturating_sub(1));
        let mut out = io::stdout().lock();
        write!(out, "{}{}", rewind(self.drawn), frame.concat())?;
        self.drawn = frame.len();
        out.flush()
    }

    /// Shows a bar with what is said of it, and lines below. In a pipe what is said is a line, once.
    pub(crate) fn progress(&mut self, bar: &Bar<'_>, below: &[String]) -> io::Result<()> {
        if self.is_terminal {
            let mut lines = vec![bar.line(size().0, self.colored)];
            lines.extend_from_slice(below);
            return self.draw(&lines);
        }
        self.say(&format!("{}: {}", bar.name, bar.said))
    }

    /// Says something that stays: above a frame that is drawn anew, or as the next line of a pipe, once.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        if !self.is_terminal && self.said == text {
            return Ok(());
        }
        text.clone_into(&mut self.said);
        let mut out = io::stdout().lock();
        writeln!(out, "{}{}", rewind(self.drawn), one_line(text, usize::MAX))?;
        self.drawn = 0;
        out.flush()
    }
}

/// Moves back to the beginning of so many lines and clears them.
fn rewind(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r\x1b[J") }
}

/// As many lines as fit, and how many do not.
fn frame(lines: &[String], most: usize) -> Vec<String> {
    let ended = |line: &String| format!("{line}\n");
    if lines.len() <= most {
        return lines.iter().map(ended).collect();
    }
    let shown = most.saturating_sub(1);
    let mut frame: Vec<String> = lines.iter().take(shown).map(ended).collect();
    frame.push(format!("… and {} more lines\n", lines.len() - shown));
    frame
}

fn size() -> (usize, usize) {
    terminal_size::terminal_size()
        .map_or(USUAL, |(width, height)| (usize::from(width.0).max(20), usize::from(height.0).max(4)))
}

/// How far something is.
#[derive(Debug, Clone)]
pub(crate) struct Bar<'a> {
    /// What.
    pub(crate) name: &'a str,
    /// How much is done.
    pub(crate) done: u32,
    /// Of how much.
    pub(crate) of: u32,
    /// What there is to say.
    pub(crate) said: &'a str,
}

impl Bar<'_> {
    fn line(&self, width: usize, colored: bool) -> String {
        let reached = u64::from(BAR) * u64::from(self.done.min(self.of));
        let full =
            reached.checked_div(self.of.into()).and_then(|full| u32::try_from(full).ok()).unwrap_or(BAR);
        let drawn: String = (0..BAR).map(|at| if at < full { '█' } else { '░' }).collect();
        let style = if full == BAR { Style::Good } else { Style::Busy };
        let head = format!("{} ", self.name);
        let numbers = format!(" {}/{}  ", self.done, self.of);
        let used = head.chars().count() + drawn.chars().count() + numbers.chars().count();
        let said = one_line(self.said, width.saturating_sub(used));
        if used > width {
            return one_line(&format!("{head}{}", numbers.trim()), width);
        }
        format!("{head}{}{numbers}{said}", style.paint(&drawn, colored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up() {
        let line = |done, of, width| Bar { name: "workers", done, of, said: "starting" }.line(width, false);
        assert_eq!(line(0, 4, 80), "workers ░░░░░░░░░░░░░░░░░░░░░░░░ 0/4  starting");
        assert_eq!(line(2, 4, 80), "workers ████████████░░░░░░░░░░░░ 2/4  starting");
        assert_eq!(line(9, 4, 80), "workers ████████████████████████ 9/4  starting");
        assert_eq!(line(0, 0, 80), "workers ████████████████████████ 0/0  starting");
        for width in 0..60 {
            assert!(line(2, 4, width).chars().count() <= width, "{width}");
        }
    }

    #[test]
    fn a_frame_fits_on_the_screen() {
        let lines: Vec<String> = (0..5).map(|number| number.to_string()).collect();
        assert_eq!(frame(&lines, 5).len(), 5);
        assert_eq!(frame(&lines, 3), ["0\n", "1\n", "… and 3 more lines\n"]);
    }

    #[test]
    fn the_last_frame_is_cleared() {
        assert_eq!(rewind(0), "");
        assert_eq!(rewind(3), "\x1b[3A\r\x1b[J");
    }
}
