//! `cargo xtask bench`: how fast the release build is, as numbers. Slowness never fails it.

mod arguments;
mod catalogue;
mod machines;
mod measure;
mod scale;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use self::arguments::Arguments;
use self::catalogue::{BENCHMARKS, Benchmark};
use self::measure::{Measured, Times};
use crate::failure::{Attempt as _, Failure, Result};
use crate::scratch::Scratch;
use crate::workspace::Workspace;
use crate::{generate, table};

/// Runs `cargo xtask bench …`; false when something could not be measured.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let arguments = Arguments::read(arguments)?;
    let program = match generate::trellis_from_environment() {
        Some(named) => PathBuf::from(named),
        None => build(workspace, "trellis")?,
    };
    let size = fs::metadata(&program).attempt(|| format!("read {}", program.display()))?.len();

    let wanted = BENCHMARKS.iter().filter(|benchmark| arguments.wants(benchmark.name));
    let results: Vec<(&Benchmark, Result<Measured>)> =
        wanted.map(|benchmark| (benchmark, measure_one(benchmark, &program))).collect();
    if !results.is_empty() {
        let rows: Vec<_> = results.iter().map(|(benchmark, result)| row(benchmark, result)).collect();
        let head = ["benchmark", "runs", "median", "p95", "ratio to its peer", "detail"];
        print!("{}", table::lay_out(head, &rows));
    }
    println!("\nsize of the program: {size} bytes ({})\n", mebibytes(size));

    let (servers, machines) = servers::measure(workspace, &program, &arguments)?;
    servers.print();
    machines.print();
    let scale = scale::measure(workspace, &arguments)?;
    scale.print();

    if let Some(path) = &arguments.json {
        let entries: Vec<_> = results.iter().map(|(benchmark, result)| entry(benchmark, result)).collect();
        let report = json!({ "program_bytes": size, "benchmarks": entries, "servers": servers.report(),
            "machines": machines.report(), "infra": scale.report() });
        fs::write(path, format!("{report:#}\n")).attempt(|| format!("write {}", path.display()))?;
        println!("written to {}", path.display());
    }
    let servers = servers.all_measured() && machines.all_measured() && scale.all_measured();
    Ok(results.iter().all(|(_, result)| result.is_ok()) && servers)
}

/// Measures one benchmark in a directory of its own.
fn measure_one(benchmark: &Benchmark, program: &Path) -> Result<Measured> {
    let scratch = Scratch::new("bench")?;
    let pair = (benchmark.prepare)(program, scratch.path())?;
    Measured::take(&pair, benchmark.runs)
}

/// Builds a program of the workspace for release, and asks cargo where it is.
fn build(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    built(workspace, &["build", "--release", "--package", name], name)
}

/// Has cargo build, and asks it where a program is.
pub(crate) fn built(workspace: &Workspace, arguments: &[&str], name: &str) -> Result<PathBuf> {
    let mut command = workspace.cargo(arguments);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().attempt(|| "run cargo".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new("the build failed (see above)"));
    }
    program_among(name, &String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Failure::new(format!("cargo built no program called `{name}`")))
}

/// The path of a program in cargo's messages, one JSON object a line.
fn program_among(name: &str, messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_program = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| is_program).map(PathBuf::from)
    })
}

/// A benchmark's row of the table.
fn row(benchmark: &Benchmark, result: &Result<Measured>) -> [String; 6] {
    let name = benchmark.name.to_owned();
    let measured = match result {
        Ok(measured) => measured,
        Err(failure) => {
            let empty = String::new;
            return [name, empty(), empty(), empty(), empty(), format!("not measured: {failure}")];
        }
    };
    let mut detail = Vec::new();
    if let Some((count, what)) = benchmark.units {
        detail.push(format!("{:.0} {what}/s", measured.per_second(count)));
    }
    if let Some(bytes) = measured.bytes {
        detail.push(format!("{bytes} bytes written"));
    }
    [
        name,
        measured.subject.runs().to_string(),
        milliseconds(measured.subject.median()),
        milliseconds(measured.subject.p95()),
        format!("{:.2} × {} ({})", measured.ratio(), benchmark.peer, milliseconds(measured.peer.median())),
        detail.join(", "),
    ]
}

/// A benchmark's entry in the JSON report.
fn entry(benchmark: &Benchmark, result: &Result<Measured>) -> Value {
    let times = |times: &Times| {
        json!({
            "runs": times.runs(),
            "median_seconds": times.median().as_secs_f64(),
            "p95_seconds": times.p95().as_secs_f64(),
        })
    };
    let measured = match result {
        Ok(measured) => measured,
        Err(failure) => return json!({ "name": benchmark.name, "not_measured": failure.to_string() }),
    };
    let mut peer = times(&measured.peer);
    peer["name"] = benchmark.peer.into();
    let mut entry = times(&measured.subject);
    entry["name"] = benchmark.name.into();
    entry["peer"] = peer;
    entry["ratio"] = measured.ratio().into();
    if let Some((count, what)) = benchmark.units {
        entry[format!("{what}_per_second")] = measured.per_second(count).into();
    }
    if let Some(bytes) = measured.bytes {
        entry["output_bytes"] = bytes.into();
    }
    entry
}

/// A short time for people.
fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// A size for people, to a tenth.
fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_program_in_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"trellis_api"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"trellis"},"executable":"/t/release/trellis"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(program_among("trellis", messages), Some(PathBuf::from("/t/release/trellis")));
        assert_eq!(program_among("trellis", "no json"), None);
    }

    #[test]
    fn sizes_are_rounded() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes(1_572_864), "1.5 MiB");
        assert_eq!(mebibytes(2_097_151), "2.0 MiB");
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let result = Err(Failure::new("it wrote nothing"));
        assert_eq!(row(&BENCHMARKS[0], &result)[5], "not measured: it wrote nothing");
        assert_eq!(entry(&BENCHMARKS[0], &result)["not_measured"], "it wrote nothing");
    }
}
