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
    #[arg(long, short, global = true, value_enum, default_value_t = Printed::Human)]
    output: Printed,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

/// What a command is asked to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Printed {
    /// Text, or YAML where manifests are printed.
    Human,
    /// Text, with every column there is; only `get` has more than it shows.
    Wide,
    /// JSON.
    Json,
}

/// Whom a command prints for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// People.
    Human,
    /// Programs.
    Json,
}

impl From<Printed> for Format {
    fn from(printed: Printed) -> Self {
        match printed {
            Printed::Human | Printed::Wide => Self::Human,
            Printed::Json => Self::Json,
        }
    }
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
    /// Say whether an infra cluster can carry what manifests ask for.
    Doctor(commands::doctor::Doctor),
    /// Make a tenant cluster, or what it is made from.
    Create(commands::create::Create),
    /// Wait until a tenant cluster is as far as it is asked for.
    WaitFor(commands::wait_for::WaitFor),
    /// Take a tenant cluster, or its bootstrap machine, away.
    Destroy(commands::destroy::Destroy),
    /// Collect what shows how a tenant cluster is, in one archive without secrets.
    Gather(commands::gather::Gather),
    /// Run an embedded Kubernetes API server on this machine.
    Lab(commands::lab::Lab),
    /// Keep machines as machine objects ask: the controller of KKP's, OpenShift's and our own machine APIs.
    Controller(Box<commands::controller::Controller>),
    /// Hand configurations to machines that show their token.
    MachineConfigServer(commands::machine_config_server::MachineConfigServer),
    /// Print what runs the controller in a cluster: objects, a kustomization or a Helm chart.
    InstallManifests(commands::install::InstallManifests),
    /// Print the roles that the controller needs at one site, for an admin to hand out.
    Rbac(commands::rbac::Rbac),
    /// Show machines, pools or tenant clusters of every family in one table, live with --watch.
    Get(commands::get::Get),
    /// Set how many machines a pool has.
    Scale(commands::scale::Scale),
    /// Follow and steer the updates of a pool.
    Rollout(commands::rollout::Rollout),
    /// Empty a tenant's Node, or a host of the infra cluster, and show what it waits for.
    Drain(commands::drain::Drain),
    /// Let a Node or host take new pods or machines again.
    Uncordon(commands::drain::Uncordon),
    /// Run everything on this machine: lab, controllers and a demo tenant.
    Up(commands::up::Up),
    /// Stop what `up` runs, and with --purge remove what it made.
    Down(commands::down::Down),
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
        self.output.into()
    }

    /// Runs the command.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let Self { output, color, command } = self;
        let output = Output::new(output.into(), output == Printed::Wide, color);
        match command {
            Command::Validate(validate) => validate.run(output),
            Command::Render(render) => render.run(output),
            Command::Plan(plan) => plan.run(output),
            Command::Convert(convert) => convert.run(output),
            Command::Explain(explain) => explain.run(output),
            Command::Doctor(doctor) => doctor.run(output),
            Command::Create(create) => create.run(output),
            Command::WaitFor(wait) => wait.run(output),
            Command::Destroy(destroy) => destroy.run(output),
            Command::Gather(gather) => gather.run(output),
            Command::Lab(lab) => lab.run(output),
            Command::Controller(controller) => controller.run(output),
            Command::MachineConfigServer(server) => server.run(output),
            Command::InstallManifests(install) => install.run(output),
            Command::Rbac(rbac) => rbac.run(output),
            Command::Get(get) => get.run(output),
            Command::Scale(scale) => scale.run(output),
            Command::Rollout(rollout) => rollout.run(output),
            Command::Drain(drain) => drain.run(output),
            Command::Uncordon(uncordon) => uncordon.run(output),
            Command::Up(up) => up.run(output),
            Command::Down(down) => down.run(output),
            Command::Completion(completion) => completion.run(),
            Command::Internal(internal) => internal.run(),
        }
    }
}
