//! The arguments of the command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use trellis_dialects::read::Dialect;

use crate::commands;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Grows tenant Kubernetes clusters on a virtualization platform.
///
/// Trellis reads manifests of OpenShift (install-config, machine.openshift.io), Kubermatic
/// (cluster.k8s.io), Gardener (Shoot and its KubeVirt extension) and its own kinds (trellis.dev), and
/// makes one thing of them.
#[derive(Debug, Parser)]
#[command(name = "trellis", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to print: text for people, or JSON for programs.
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Human)]
    output: Format,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

/// What a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text, or YAML where manifests are printed.
    Human,
    /// JSON.
    Json,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check manifests and say everything that is wrong with them.
    Validate(commands::validate::Validate),
    /// Print the objects that manifests become in the infra cluster.
    Render(commands::render::Render),
    /// Say what an edit would do to running machines, before it does.
    Plan(commands::plan::Plan),
    /// Write manifests in another dialect, and say what does not survive.
    Convert(commands::convert::Convert),
    /// Document any field of any dialect, with what Trellis does with it.
    Explain(commands::explain::Explain),
    /// Run an embedded Kubernetes API server on this machine.
    Lab(commands::lab::Lab),
    /// Run everything on this machine: lab, controllers and a demo tenant.
    Up(commands::up::Up),
    /// Print a completion script for a shell.
    Completion(commands::completion::Completion),
    /// For the project's own chores.
    #[command(hide = true)]
    Internal(commands::internal::Internal),
}

/// Where manifests are.
#[derive(Debug, ClapArgs)]
pub(crate) struct Files {
    /// A manifest, a folder of them, or `-` for standard input; may be given several times. Standard
    /// input is read when it is left out.
    #[arg(long = "filename", short = 'f', value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// A dialect by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectName {
    /// install-config and machine.openshift.io
    Openshift,
    /// cluster.k8s.io/v1alpha1
    Kkp,
    /// Shoot with its CloudProfile
    Gardener,
    /// trellis.dev/v1alpha1
    Trellis,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Openshift => Self::Openshift,
            DialectName::Kkp => Self::Kkp,
            DialectName::Gardener => Self::Gardener,
            DialectName::Trellis => Self::Trellis,
        }
    }
}

impl Args {
    /// What the command prints.
    pub(crate) fn format(&self) -> Format {
        self.output
    }

    /// Runs the command.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Self { output, color, command } = self;
        let output = Output::new(output, color);
        match command {
            Command::Validate(validate) => validate.run(output),
            Command::Render(render) => render.run(output),
            Command::Plan(plan) => plan.run(output),
            Command::Convert(convert) => convert.run(output),
            Command::Explain(explain) => explain.run(output),
            Command::Lab(lab) => lab.run(output),
            Command::Up(up) => up.run(output),
            Command::Completion(completion) => completion.run(),
            Command::Internal(internal) => internal.run(),
        }
    }
}
