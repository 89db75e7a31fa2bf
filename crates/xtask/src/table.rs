//! Plain text tables and durations.

use std::time::Duration;

/// Lays out `rows` under `head`: columns as wide as their widest cell, no trailing blanks.
///
/// Line breaks in a cell become blanks.
pub(crate) fn lay_out<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let clean = |cell: &str| cell.split_whitespace().collect::<Vec<_>>().join(" ");
    let head = head.map(str::to_owned);
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| clean(cell))).collect();

    let mut widths = head.each_ref().map(|cell| cell.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    let rule = widths.map(|width| "-".repeat(width));
    let mut text = String::new();
    for row in [&head, &rule].into_iter().chain(&rows) {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A duration for people: `0.4 s`, `12.0 s`, `3 min 05 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round();
    if seconds < 60.0 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        let whole = Duration::from_secs_f64(seconds).as_secs();
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["format", "passed", ""], ["each crate alone", "FAILED", "api"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let expected = "\
tier              result  detail
----------------  ------  ------
format            passed
each crate alone  FAILED  api
";
        assert_eq!(lay_out(["tier", "result", "detail"], &rows), expected);
    }

    #[test]
    fn a_cell_stays_on_its_line() {
        let text = lay_out(["detail"], &[["first\n  second".to_owned()]]);
        assert_eq!(text.lines().last(), Some("first second"));
    }

    #[test]
    fn wide_characters_are_counted_as_characters() {
        let text = lay_out(["a", "b"], &[["é".to_owned(), "x".to_owned()]]);
        assert_eq!(text, "a  b\n-  -\né  x\n");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(Duration::from_millis(420)), "0.4 s");
        assert_eq!(duration(Duration::from_millis(59_400)), "59.4 s");
        assert_eq!(duration(Duration::from_millis(59_900)), "1 min 00 s");
        assert_eq!(duration(Duration::from_secs(185)), "3 min 05 s");
    }
}
