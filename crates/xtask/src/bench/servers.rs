//! The lab and the real API server under the same load, side by side. `trellis-load` measures; this shows.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::machines::Machines;
use super::{build, mebibytes};
use crate::failure::{Attempt as _, Failure, Result};
use crate::workspace::Workspace;
use crate::{real_parts, table};

/// What was measured of the servers.
#[derive(Debug)]
pub(super) struct Servers {
    measurements: Vec<Value>,
    /// Why there is no real server to compare with.
    alone: Option<String>,
}

/// Builds the load, and lets it measure.
pub(super) fn measure(
    workspace: &Workspace,
    program: &Path,
    arguments: &Arguments,
) -> Result<(Servers, Machines)> {
    let mut command = std::process::Command::new(build(workspace, "trellis-load")?);
    command.arg("--lab").arg(program);
    let alone = match real_parts::find(workspace) {
        Ok(parts) => {
            command.arg("--real").arg(parts);
            None
        }
        Err(failure) => Some(failure.to_string()),
    };
    if !arguments.only.is_empty() {
        command.arg("--only").arg(arguments.only.join(","));
    }
    if arguments.quick {
        command.arg("--quick");
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .attempt(|| "run `trellis-load`".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new("the servers could not be measured (see above)"));
    }
    let mut measurements: Vec<Value> =
        serde_json::from_slice(&output.stdout).attempt(|| "read what `trellis-load` reports".to_owned())?;
    let machines = Machines::out_of(&mut measurements);
    Ok((Servers { measurements, alone }, machines))
}

impl Servers {
    /// Prints the table.
    pub(super) fn print(&self) {
        if let Some(why) = &self.alone {
            println!("the lab alone, with nothing to compare it with: {why}\n");
        }
        if self.measurements.is_empty() {
            return;
        }
        let rows: Vec<_> = self
            .measurements
            .iter()
            .map(|entry| {
                let real = if self.alone.is_some() { String::new() } else { words(&entry["real"]) };
                let name = entry["name"].as_str().unwrap_or_default().to_owned();
                [name, words(&entry["lab"]), real, compared(&entry["lab"], &entry["real"])]
            })
            .collect();
        let head = ["servers, every write durable", "lab", "kube-apiserver + etcd", "lab compared"];
        println!("{}", table::lay_out(head, &rows));
    }

    /// For the JSON report.
    pub(super) fn report(&self) -> Value {
        json!({ "measurements": self.measurements, "alone": self.alone })
    }

    /// True when nothing went wrong.
    pub(super) fn all_measured(&self) -> bool {
        let fine =
            |entry: &Value| ["lab", "real"].iter().all(|server| entry[server]["not_measured"].is_null());
        self.measurements.iter().all(fine)
    }
}

/// What one server took, in words.
fn words(measured: &Value) -> String {
    if let Some(why) = measured["not_measured"].as_str() {
        return format!("not measured: {why}");
    }
    let number = |field: &str| measured[field].as_f64();
    let mut words = Vec::new();
    if let Some(rate) = number("per_second") {
        words.push(format!("{rate:.0}/s"));
    }
    if let (Some(half), Some(most)) = (number("p50_ms"), number("p99_ms")) {
        words.push(format!("p50 {half:.2} p99 {most:.2} ms"));
    }
    if let Some(cost) = number("server_cpu_us") {
        words.push(if cost < 10_000.0 {
            format!("CPU {cost:.1} µs")
        } else {
            format!("CPU {:.1} ms", cost / 1e3)
        });
    }
    if let (Some(ready), Some(best)) = (number("ready_ms"), number("best_ready_ms")) {
        words.push(format!("ready in {ready:.0} ms (best {best:.0})"));
    }
    if let Some(cost) = number("cpu_ms") {
        words.push(format!("CPU {cost:.0} ms"));
    }
    if let Some(bytes) = memory(measured).and_then(Value::as_u64) {
        words.push(mebibytes(bytes));
    }
    if let (Some(count), Some(each)) = (measured["objects"].as_u64(), measured["bytes_per_object"].as_u64()) {
        words.push(format!("from {count} objects, {each} bytes each"));
    }
    words.join(", ")
}

/// The memory a measurement is about.
fn memory(measured: &Value) -> Option<&Value> {
    measured.get("resident_bytes_at_100000").or_else(|| measured.get("resident_bytes"))
}

/// How the lab compares: more is better for what is done, less for what it takes.
fn compared(lab: &Value, real: &Value) -> String {
    let ratio = |mine: Option<&Value>, other: Option<&Value>| {
        let (mine, other) = (mine?.as_f64()?, other?.as_f64()?);
        (mine > 0.0 && other > 0.0).then_some((mine, other))
    };
    let field = |name: &str| ratio(lab.get(name), real.get(name));
    let mut words = Vec::new();
    if let Some((mine, other)) = field("per_second") {
        words.push(format!("rate {:.1} ×", mine / other));
    }
    for (name, about) in
        [("p99_ms", "p99"), ("server_cpu_us", "CPU"), ("ready_ms", "time"), ("cpu_ms", "CPU")]
    {
        if let Some((mine, other)) = field(name) {
            words.push(format!("{about} 1/{:.1}", other / mine));
        }
    }
    if let Some((mine, other)) = ratio(memory(lab), memory(real)) {
        words.push(format!("memory 1/{:.1}", other / mine));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_reads_well() {
        let lab = json!({"per_second": 9000.4, "p50_ms": 1.5, "p99_ms": 4.0, "server_cpu_us": 100.0});
        let real = json!({"per_second": 1000.0, "p50_ms": 30.0, "p99_ms": 100.0, "server_cpu_us": 1200.0});
        assert_eq!(words(&lab), "9000/s, p50 1.50 p99 4.00 ms, CPU 100.0 µs");
        assert_eq!(compared(&lab, &real), "rate 9.0 ×, p99 1/25.0, CPU 1/12.0");
    }

    #[test]
    fn memory_reads_well() {
        let lab = json!({"resident_bytes": 1, "resident_bytes_at_100000": 2 << 20, "objects": 5, "bytes_per_object": 7});
        let real = json!({"resident_bytes_at_100000": 8 << 20});
        assert_eq!(words(&lab), "2.0 MiB, from 5 objects, 7 bytes each");
        assert_eq!(compared(&lab, &real), "memory 1/4.0");
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let servers = Servers {
            measurements: vec![json!({"name": "x", "lab": {"not_measured": "gone"}})],
            alone: Some("no parts".to_owned()),
        };
        assert_eq!(words(&servers.measurements[0]["lab"]), "not measured: gone");
        assert!(!servers.all_measured());
    }
}
