//! The benchmarks. Adding one is adding a row to [`BENCHMARKS`].

use std::fs;
use std::path::Path;

use super::measure::Recipe;
use crate::failure::{Attempt as _, Result};

/// One benchmark: something `trellis` does, next to a plain peer doing the least that could be done.
#[derive(Debug)]
pub(super) struct Benchmark {
    /// What the table and the JSON call it.
    pub(super) name: &'static str,
    /// What the peer is, for the ratio's column.
    pub(super) peer: &'static str,
    /// How often both are run.
    pub(super) runs: usize,
    /// How many things one run gets done, and what they are.
    pub(super) units: Option<(u32, &'static str)>,
    /// Writes the input into a directory and says what to run; the first path is the program's.
    pub(super) prepare: fn(&Path, &Path) -> Result<Pair>,
}

/// What to run, and what to run next to it.
#[derive(Debug)]
pub(super) struct Pair {
    /// The measured program. Its first, unmeasured run writes what the peer may read.
    pub(super) subject: Recipe,
    /// The plain peer.
    pub(super) peer: Recipe,
}

/// All benchmarks, in the order they run.
pub(super) const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "start: trellis --version",
        peer: "true",
        runs: 30,
        units: None,
        prepare: |program, _| {
            Ok(Pair { subject: Recipe::new(program).arg("--version"), peer: Recipe::new("true") })
        },
    },
    Benchmark {
        name: "render: pool of 1000 machines",
        peer: "cat of the same bytes",
        runs: 10,
        units: Some((1000, "machines")),
        prepare: render_pool,
    },
];

/// Renders a `MachineDeployment` of a thousand machines into a file.
fn render_pool(program: &Path, directory: &Path) -> Result<Pair> {
    const POOL: &str = include_str!("pool.yaml");
    let input = directory.join("pool.yaml");
    let output = directory.join("rendered.yaml");
    fs::write(&input, POOL).attempt(|| format!("write {}", input.display()))?;
    Ok(Pair {
        subject: Recipe::new(program).arg("render").arg("-f").arg(&input).into_file(&output),
        peer: Recipe::new("cat").arg(&output).into_file(&directory.join("copied.yaml")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn every_benchmark_can_be_prepared() {
        for benchmark in BENCHMARKS {
            let scratch = Scratch::new("test-bench").unwrap();
            assert!((benchmark.prepare)(Path::new("trellis"), scratch.path()).is_ok(), "{}", benchmark.name);
            assert!(benchmark.runs > 0, "{}", benchmark.name);
        }
    }

    #[test]
    fn the_pool_has_as_many_machines_as_its_benchmark_says() {
        let render = BENCHMARKS.iter().find(|benchmark| benchmark.units.is_some()).unwrap();
        let (machines, _) = render.units.unwrap();
        assert!(include_str!("pool.yaml").contains(&format!("replicas: {machines}\n")));
    }
}
