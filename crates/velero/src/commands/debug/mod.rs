//! `velero debug`: everything those who help need to see, in one file, and no secret in it.

mod bundle;
mod collect;
mod redact;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use tokio::process::Command;
use tokio::time::timeout;
use velero_api::v1::{Backup, Restore};

use crate::arguments::DebugArguments;
use crate::output::Clock;
use crate::session::{Session, api_error};
use bundle::Bundle;

/// How long one command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

/// Collects a bundle.
pub(super) async fn debug(session: &Session, arguments: &DebugArguments) -> Result<()> {
    check(session, arguments).await?;
    let path = arguments.output.clone().unwrap_or_else(default_path);
    let mut bundle = Bundle::create(&path, session.printer, arguments.verbose)?;
    collect::objects(session, &mut bundle).await?;
    collect::logs(session, &mut bundle).await?;
    for (file, command) in commands(arguments) {
        let output = capture(session, &command).await;
        bundle.add_or_note(&file, &format!("velero {}", command.join(" ")), output)?;
    }
    let problems = bundle.finish()?;
    if problems > 0 {
        let things = if problems == 1 { "one thing is" } else { "some things are" };
        session.printer.note(format_args!("{things} missing in the bundle: see velero-bundle/problems.txt in it"));
    }
    session.printer.line(format_args!("Generated debug bundle: {}", absolute(&path).display()))
}

/// Refuses what cannot give a useful bundle before anything is written.
async fn check(session: &Session, arguments: &DebugArguments) -> Result<()> {
    let namespace = session.namespace();
    let namespaces: Api<Namespace> = Api::all(session.cluster.client().clone());
    // Who may not look at namespaces may still look into this one.
    if let Ok(found) = namespaces.get_metadata_opt(namespace).await.map_err(api_error) {
        ensure!(found.is_some(), "namespace {namespace} does not exist: --namespace names that of the server");
    }
    if !arguments.backup.is_empty() {
        session.get::<Backup>(&arguments.backup).await.context("--backup")?;
    }
    if !arguments.restore.is_empty() {
        session.get::<Restore>(&arguments.restore).await.context("--restore")?;
    }
    Ok(())
}

/// The commands whose output is collected, and the files it goes to.
fn commands(arguments: &DebugArguments) -> Vec<(String, Vec<&str>)> {
    let mut commands = vec![
        ("version.txt".to_owned(), vec!["version"]),
        ("server_status.txt".to_owned(), vec!["server", "status", "--details"]),
    ];
    for (kind, name) in [("backup", arguments.backup.as_str()), ("restore", arguments.restore.as_str())] {
        if !name.is_empty() {
            commands.push((format!("{kind}_describe_{name}.txt"), vec![kind, "describe", name, "--details"]));
            commands.push((format!("{kind}_{name}.log"), vec![kind, "logs", name]));
        }
    }
    commands
}

/// What a command of this program prints, as people would see it.
async fn capture(session: &Session, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--colorized=false", "--namespace", session.namespace()]);
    let settings = &session.settings;
    if let Some(kubeconfig) = &settings.kubeconfig {
        command.arg("--kubeconfig").arg(kubeconfig);
    }
    if let Some(context) = &settings.context {
        command.arg("--kubecontext").arg(context);
    }
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(COMMAND_TIMEOUT, command.output()).await;
    let output = output.map_err(|_| anyhow!("it took longer than {COMMAND_TIMEOUT:?}"))??;
    Ok([output.stdout, output.stderr].concat())
}

fn default_path() -> PathBuf {
    let digits = Clock::system().digits();
    format!("./bundle-{digits}.tar.gz").into()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_and_a_restore_add_their_description_and_their_log() {
        let mut arguments =
            DebugArguments { output: None, backup: String::new(), restore: String::new(), verbose: false };
        let files = |arguments: &DebugArguments| {
            commands(arguments).into_iter().map(|(file, _)| file).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(files(&arguments), "version.txt server_status.txt");
        arguments.backup = "b".to_owned();
        arguments.restore = "r".to_owned();
        let all =
            "version.txt server_status.txt backup_describe_b.txt backup_b.log restore_describe_r.txt restore_r.log";
        assert_eq!(files(&arguments), all);
    }
}
