//! The tiers of the test suite. Adding one is adding a row to [`TIERS`].

use crate::failure::Result;
use crate::outcome::Outcome;
use crate::tools::Need;
use crate::workspace::Workspace;
use crate::{dependencies, generate, lab_facts, process, trial};

/// One tier of the test suite.
#[derive(Debug)]
pub(crate) struct Tier {
    /// What `--only`, `--skip` and the closing table call it.
    pub(crate) name: &'static str,
    /// What it makes sure of, for `--list` and its heading.
    pub(crate) about: &'static str,
    /// What it cannot run without.
    needs: &'static [Need],
    /// What it does.
    work: Work,
}

/// What a tier does.
#[derive(Debug)]
enum Work {
    /// Runs cargo and looks at its exit code.
    Cargo { arguments: &'static [&'static str], variables: &'static [(&'static str, &'static str)] },
    /// Runs cargo and counts the tests it reports.
    CargoTest { arguments: &'static [&'static str], variables: &'static [(&'static str, &'static str)] },
    /// Runs a function of ours.
    Chore(fn(&Workspace) -> Result<Outcome>),
}

/// All tiers, in the order they run: cheap complaints first, and the longest last.
pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: "format",
        about: "the source is formatted",
        needs: &[Need::Component("rustfmt", "fmt")],
        work: Work::Cargo { arguments: &["fmt", "--all", "--check"], variables: &[] },
    },
    Tier {
        name: "clippy",
        about: "no warning from the compiler or clippy",
        needs: &[Need::Component("clippy", "clippy")],
        work: Work::Cargo {
            arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            variables: &[],
        },
    },
    Tier {
        name: "tests",
        about: "unit and integration tests",
        needs: &[],
        work: Work::CargoTest {
            arguments: &["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"],
            variables: &[],
        },
    },
    Tier {
        name: "doc tests",
        about: "the examples in the documentation",
        needs: &[],
        work: Work::CargoTest {
            arguments: &["test", "--workspace", "--no-fail-fast", "--doc"],
            variables: &[],
        },
    },
    Tier {
        name: "real server",
        about: "the lab's scenarios and what is installed hold on the real Kubernetes, and random sequences end alike on both",
        needs: &[Need::RealParts],
        work: Work::CargoTest {
            arguments: &[
                "test",
                // The whole workspace, so that the features are those of the tier `tests`: nothing is built twice.
                "--workspace",
                "--no-fail-fast",
                "--test",
                "conformance",
                "--test",
                "differential",
                "--test",
                "install",
            ],
            variables: &[("TRELLIS_CONFORMANCE", "real")],
        },
    },
    Tier {
        name: "bootstrap",
        about: "the real programs accept what machines boot with, and a rendered control plane runs",
        needs: &[
            Need::RealParts,
            Need::Programs(&[
                ("haproxy", "haproxy"),
                ("keepalived", "keepalived"),
                ("cloud-init", "cloud-init"),
                ("systemd-analyze", "systemd"),
            ]),
        ],
        work: Work::CargoTest {
            arguments: &["test", "--workspace", "--no-fail-fast", "--test", "bootstrap"],
            // Nothing is skipped: what is missing is a failure.
            variables: &[("TRELLIS_BOOTSTRAP", "real")],
        },
    },
    Tier {
        name: "real machines",
        about: "the machine controllers' scenarios hold with infra cluster and tenant on the real Kubernetes",
        needs: &[Need::RealParts],
        work: Work::CargoTest {
            // Those of hours stay on the lab; the others are in modules of this name.
            arguments: &["test", "--workspace", "--no-fail-fast", "--test", "machines", "everywhere"],
            variables: &[("TRELLIS_CONFORMANCE", "real")],
        },
    },
    Tier {
        name: "facts",
        about: "the lab's tables of kinds, types and rights are what the real Kubernetes says",
        // After the real parts, whose modules and compiled packages it shares.
        needs: &[Need::RealParts, Need::Go],
        work: Work::Chore(|workspace| lab_facts::check(workspace, None)),
    },
    Tier {
        name: "docs",
        about: "the documentation builds without a warning",
        needs: &[],
        work: Work::Cargo {
            arguments: &["doc", "--workspace", "--no-deps"],
            variables: &[("RUSTDOCFLAGS", "-D warnings")],
        },
    },
    Tier {
        name: "generated",
        about: "the committed references are what the program writes",
        needs: &[],
        work: Work::Chore(generate::check),
    },
    Tier {
        name: "each crate alone",
        about: "every crate builds without the features its neighbours switch on",
        needs: &[],
        work: Work::Chore(each_crate_alone),
    },
    Tier {
        name: "dependencies",
        about: "licences, duplicate versions and sources of the dependencies",
        needs: &[],
        work: Work::Chore(dependencies::check),
    },
    Tier {
        name: "advisories",
        about: "no dependency has a known vulnerability",
        needs: &[],
        work: Work::Chore(dependencies::check_advisories),
    },
    Tier {
        name: "real infra",
        about: "the infra cluster's scenarios hold beside the real Kubernetes",
        needs: &[Need::RealParts],
        work: Work::CargoTest {
            arguments: &["test", "--workspace", "--no-fail-fast", "--test", "scenarios"],
            variables: &[("TRELLIS_CONFORMANCE", "real")],
        },
    },
    Tier {
        name: "simulation",
        about: "a crash after every request of the core scenarios loses nothing",
        needs: &[],
        work: Work::CargoTest {
            arguments: &["test", "--workspace", "--no-fail-fast", "--test", "exhaustive"],
            variables: &[("TRELLIS_SIMULATION", "core")],
        },
    },
];

impl Tier {
    /// Runs the tier with its output going straight to ours.
    pub(crate) fn run(&self, workspace: &Workspace) -> Outcome {
        for need in self.needs {
            if let Err(why) = need.meet(workspace) {
                return Outcome::skipped(why);
            }
        }
        self.work.run(workspace).unwrap_or_else(|failure| {
            let message = failure.to_string();
            eprintln!("error: {message}");
            Outcome::of(false, message.lines().next().unwrap_or_default().trim_end_matches(':'))
        })
    }

    /// True when a person means this tier by `name`: `doc tests`, `doc-tests` and `doc_tests` are one.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let plain = |name: &str| name.trim().to_lowercase().replace(['-', '_'], " ");
        plain(self.name) == plain(name)
    }
}

impl Work {
    /// Does the work.
    fn run(&self, workspace: &Workspace) -> Result<Outcome> {
        match self {
            Self::Cargo { arguments, variables } => {
                let mut command = workspace.cargo(arguments);
                command.envs(variables.iter().copied());
                let success = process::stream(&mut command)?;
                Ok(Outcome::of(success, if success { "" } else { "see its output above" }))
            }
            Self::CargoTest { arguments, variables } => trial::run(|filter| {
                let mut command = workspace.cargo(arguments);
                command.envs(variables.iter().copied()).args(filter);
                command
            }),
            Self::Chore(chore) => chore(workspace),
        }
    }
}

/// Checks the crates one by one, so that unified features hide nothing.
fn each_crate_alone(workspace: &Workspace) -> Result<Outcome> {
    let crates = workspace.crates()?;
    let mut broken = Vec::new();
    for name in &crates {
        if !process::stream(&mut workspace.cargo(&["check", "--package", name]))? {
            broken.push(name.as_str());
        }
    }
    Ok(if broken.is_empty() {
        Outcome::of(true, format!("{} crates", crates.len()))
    } else {
        Outcome::of(false, format!("do not build alone: {}", broken.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_free_of_commas() {
        for (place, tier) in TIERS.iter().enumerate() {
            assert!(!tier.name.contains(','), "{}", tier.name);
            assert!(TIERS[..place].iter().all(|earlier| !earlier.is_called(tier.name)), "{}", tier.name);
        }
    }

    #[test]
    fn a_name_may_be_spelled_with_dashes() {
        let tier = TIERS.iter().find(|tier| tier.name == "each crate alone").unwrap();
        assert!(tier.is_called("each-crate-alone"));
        assert!(tier.is_called(" Each_crate alone"));
        assert!(!tier.is_called("each crate"));
    }
}
