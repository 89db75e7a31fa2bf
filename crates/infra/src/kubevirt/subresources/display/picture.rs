//! What a screen shows: the machine's name and state, and the end of what its console showed.

use crate::object::Object as _;
use crate::world::machine::{Machine, State};

use super::font;

/// How many dots a screen is wide.
pub(super) const WIDTH: usize = 720;
/// How many dots a screen is high.
pub(super) const HEIGHT: usize = 400;

/// A picture in two colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    dots: Vec<bool>,
}

impl Picture {
    fn blank() -> Self {
        Self { dots: vec![false; WIDTH * HEIGHT] }
    }

    /// Whether there is light at a place.
    pub(super) fn is_lit(&self, x: usize, y: usize) -> bool {
        x < WIDTH && self.dots.get(y * WIDTH + x).copied().unwrap_or_default()
    }

    /// Writes a line, each dot of a letter `size` dots large; what does not fit is cut off.
    fn write(&mut self, text: &str, left: usize, top: usize, size: usize) {
        for (place, letter) in text.chars().enumerate() {
            let x0 = left + place * font::WIDTH * size;
            if x0 + font::WIDTH * size > WIDTH {
                return;
            }
            for (column, row) in font::dots(letter) {
                for dot in 0..size * size {
                    let (x, y) = (x0 + column * size + dot % size, top + row * size + dot / size);
                    if y < HEIGHT {
                        self.dots[y * WIDTH + x] = true;
                    }
                }
            }
        }
    }
}

/// A state in words.
fn words(state: &State) -> String {
    match state {
        State::Starting => "starting".to_owned(),
        State::Running => "running".to_owned(),
        State::Paused => "paused".to_owned(),
        State::Shutdown => "shut down".to_owned(),
        State::Crashed(why) => format!("crashed: {why}"),
        State::Destroyed => "switched off".to_owned(),
    }
}

/// The screen of a machine as it is now.
pub(super) fn of(machine: &Machine) -> Picture {
    let plan = machine.plan();
    let state = words(&machine.state().borrow());
    let (shown, _) = machine.console.look();
    drawn(plan.vmi.namespace(), plan.vmi.name(), &state, &plan.pod.node, &String::from_utf8_lossy(&shown))
}

fn drawn(namespace: &str, name: &str, state: &str, node: &str, console: &str) -> Picture {
    let mut picture = Picture::blank();
    picture.write(&format!("{namespace}/{name}"), 12, 12, 3);
    picture.write(&format!("{state} on {node}"), 12, 48, 2);
    let line = font::HEIGHT * 2;
    let room = (HEIGHT - 84) / line;
    let lines: Vec<&str> = console.lines().collect();
    for (place, text) in lines.iter().skip(lines.len().saturating_sub(room)).enumerate() {
        let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
        picture.write(&text, 12, 84 + place * line, 1 + usize::from(text.len() < WIDTH / font::WIDTH / 2));
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_state_make_the_picture() {
        let one = drawn("a", "one", "running", "host-1", "");
        assert_ne!(one, drawn("a", "two", "running", "host-1", ""));
        assert_ne!(one, drawn("a", "one", "paused", "host-1", ""));
        assert_ne!(one, drawn("a", "one", "running", "host-1", "login: "));
        assert!((0..WIDTH).any(|x| (12..36).any(|y| one.is_lit(x, y))));
        assert!(!one.is_lit(WIDTH, 0) && !one.is_lit(0, HEIGHT));
    }

    #[test]
    fn too_much_is_cut_off() {
        let long = "x".repeat(1000);
        let picture = drawn(&long, &long, &long, &long, &format!("{long}\n").repeat(100));
        assert!(picture.is_lit(12, 12));
    }
}
