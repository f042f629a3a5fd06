//! `cargo xtask cluster`: boxes come and go.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use velero_testkit::{BoxKind, TestBox};

use crate::output::out;

/// Which box is meant.
#[derive(Args)]
pub(crate) struct Name {
    /// The name of the box
    #[arg(long, default_value = "box")]
    name: String,
}

impl Name {
    /// The box, which must be up.
    pub(crate) fn find(&self) -> Result<TestBox> {
        TestBox::find(&self.name)
            .with_context(|| format!("no box named {0} is up: cargo xtask cluster up --name {0}", self.name))
    }
}

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Brings a box up
    Up {
        #[command(flatten)]
        name: Name,
        /// Leave the node out: API server, controllers and store only
        #[arg(long)]
        control_plane: bool,
        /// Add storage: volumes and their snapshots, from a CSI driver
        #[arg(long, conflicts_with = "control_plane")]
        storage: bool,
        /// What stands in for OpenShift as well: its types, image streams and a registry
        #[arg(long, conflicts_with = "control_plane")]
        openshift: bool,
    },
    /// Takes a box down and leaves nothing behind
    Down {
        #[command(flatten)]
        name: Name,
        /// Take every box down
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Shows how each part fares
    Status {
        /// Only this box
        #[arg(long)]
        name: Option<String>,
    },
    /// Prints what a shell needs: eval "$(cargo xtask cluster env)"
    Env(Name),
    /// Runs a command inside the box, its network namespace, with that environment
    Run {
        #[command(flatten)]
        name: Name,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
}

pub(crate) fn run(action: &Action) -> Result<()> {
    match action {
        Action::Up { name, control_plane, storage, openshift } => {
            let kind = match (control_plane, storage, openshift) {
                (true, _, _) => BoxKind::ControlPlane,
                (false, _, true) => BoxKind::OpenShift,
                (false, true, false) => BoxKind::Storage,
                (false, false, false) => BoxKind::Whole,
            };
            let test_box = TestBox::up(&name.name, kind)?;
            out!("box {} is up: eval \"$(cargo xtask cluster env --name {})\"", name.name, test_box.machine().name);
            Ok(())
        }
        Action::Down { all: true, .. } => TestBox::names().iter().try_for_each(|name| TestBox::down(name)),
        Action::Down { name, .. } => TestBox::down(&name.name),
        Action::Status { name } => status(name.as_deref()),
        Action::Env(name) => {
            for (key, value) in environment(&name.find()?)? {
                out!("export {key}='{value}'");
            }
            Ok(())
        }
        Action::Run { name, command } => run_inside(&name.find()?, command),
    }
}

fn environment(test_box: &TestBox) -> Result<Vec<(&'static str, String)>> {
    let mut environment = test_box.environment();
    let tools = test_box.machine().kubernetes()?;
    environment.push(("PATH", format!("{}:{}", tools.display(), std::env::var("PATH")?)));
    Ok(environment)
}

fn status(only: Option<&str>) -> Result<()> {
    let names: Vec<String> = only.map_or_else(TestBox::names, |name| vec![name.to_owned()]);
    if names.is_empty() {
        out!("no box is up");
    }
    let mut broken = Vec::new();
    for name in &names {
        let Some(test_box) = TestBox::find(name) else {
            out!("{name}: down");
            broken.push(name.clone());
            continue;
        };
        out!("{name}: up, {:?}, kubeconfig {}", test_box.kind(), test_box.kubeconfig().display());
        for (part, state) in test_box.status() {
            match state {
                Ok(()) => out!("  {part:<24} works"),
                Err(reason) => {
                    out!("  {part:<24} does not work: {reason:#}");
                    broken.push(format!("{name}/{part}"));
                }
            }
        }
    }
    if !broken.is_empty() {
        bail!("not working: {}", broken.join(", "));
    }
    Ok(())
}

fn run_inside(test_box: &TestBox, command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no command given")?;
    test_box.machine().enter_network()?;
    let error = std::process::Command::new(program).args(arguments).envs(environment(test_box)?).exec();
    Err(error).with_context(|| format!("cannot run {program}"))
}
