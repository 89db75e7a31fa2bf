//! An emulated infra cluster full of machines. `trellis-scale` measures; this shows.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::arguments::Arguments;
use super::{build, mebibytes};
use crate::failure::{Attempt as _, Failure, Result};
use crate::table;
use crate::workspace::Workspace;

/// What the benchmarks are picked by.
const NAME: &str = "infra";
/// KubeVirt's own test with KWOK: so many machines on as many hosts, in so many seconds at most.
const ANCHOR: (f64, f64) = (8_000.0, 15.0 * 60.0 + 800.0);

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Scale(Vec<Value>);

/// Builds the program, and lets it measure.
pub(super) fn measure(workspace: &Workspace, arguments: &Arguments) -> Result<Scale> {
    if !arguments.wants(NAME) {
        return Ok(Scale::default());
    }
    let mut command = Command::new(build(workspace, "trellis-scale")?);
    if arguments.quick {
        command.arg("--quick");
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .attempt(|| "run `trellis-scale`".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new("the infra cluster could not be measured (see above)"));
    }
    serde_json::from_slice(&output.stdout)
        .attempt(|| "read what `trellis-scale` reports".to_owned())
        .map(Scale)
}

impl Scale {
    /// Prints the table.
    pub(super) fn print(&self) {
        if self.0.is_empty() {
            return;
        }
        let rows: Vec<_> = self.0.iter().map(row).collect();
        println!(
            "{}",
            table::lay_out(["infra cluster", "time", "requests per machine", "memory", "compared"], &rows)
        );
    }

    /// For the JSON report.
    pub(super) fn report(&self) -> Value {
        self.0.clone().into()
    }

    /// True when nothing went wrong.
    pub(super) fn all_measured(&self) -> bool {
        self.0.iter().all(|entry| entry["not_measured"].is_null())
    }
}

fn row(entry: &Value) -> [String; 5] {
    let name = entry["name"].as_str().unwrap_or_default();
    if let Some(why) = entry["not_measured"].as_str() {
        return [
            name.to_owned(),
            format!("not measured: {why}"),
            String::new(),
            String::new(),
            String::new(),
        ];
    }
    let number = |field: &str| entry[field].as_f64().unwrap_or_default();
    let compared = if let Some(seconds) = entry["virtual_seconds"].as_f64() {
        format!("{seconds:.0} s of virtual time, {:.0} x real time", seconds / number("seconds"))
    } else {
        // The anchor's limit, scaled to as many machines.
        let limit = ANCHOR.1 * number("machines") / ANCHOR.0;
        format!("{:.2} of the limit of KubeVirt's test with KWOK", number("seconds") / limit)
    };
    [
        format!("{} {name}", entry["machines"]),
        format!("{:.1} s ({:.0}/s)", number("seconds"), number("per_second")),
        format!("{:.1} writes, {:.1} reads", number("writes_per_machine"), number("reads_per_machine")),
        mebibytes(entry["memory_bytes"].as_u64().unwrap_or_default()),
        compared,
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_tell_what_was_measured_and_what_was_not() {
        let entry = json!({"name": "machines", "machines": 8000, "seconds": 170.0, "per_second": 47.0,
            "writes_per_machine": 12.0, "reads_per_machine": 0.5, "memory_bytes": 1_048_576});
        assert_eq!(row(&entry)[0], "8000 machines");
        assert!(row(&entry)[4].starts_with("0.10 of the limit"));
        assert!(row(&json!({"name": "x", "not_measured": "no room"}))[1].contains("no room"));
    }
}
