//! `velero bug`: a report to be filled in.

use std::time::Duration;
use std::{env, process};

use anyhow::{Context, Result};
use tokio::time::timeout;

use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;
use crate::version::{GIT_COMMIT, ISSUE_URL, VERSION};

/// How long the cluster may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// The program that opens an address in a browser.
const OPENER: &str = "xdg-open";

/// Prints the report, or opens it in a browser where this build knows where reports go and there is a browser.
pub(super) async fn bug(settings: &Settings, printer: Printer) -> Result<()> {
    let cluster = cluster_version(settings, printer).await.unwrap_or_else(|error| format!("unknown ({error:#})"));
    let report = report(&cluster);
    let Some(tracker) = ISSUE_URL else {
        printer.line(report)?;
        printer.note("This build does not know where bugs are reported: give the text to those you have it from");
        return Ok(());
    };
    let address = reqwest::Url::parse_with_params(tracker, [("body", &report)]);
    let address = address.context("VELERO_ISSUE_URL was no address when this program was built")?;
    if has_display() && process::Command::new(OPENER).arg(address.as_str()).spawn().is_ok() {
        return Ok(());
    }
    printer.line(report)?;
    printer.note(format_args!("There is no browser here: report it at {tracker}"));
    Ok(())
}

/// Whether a browser could be seen.
fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

async fn cluster_version(settings: &Settings, printer: Printer) -> Result<String> {
    let session = Session::connect(settings, printer).await?;
    let version = timeout(PATIENCE, session.cluster.server_version()).await;
    Ok(version.context("the Kubernetes API server did not answer")??.whole)
}

fn report(cluster: &str) -> String {
    let (system, machine) = (env::consts::OS, env::consts::ARCH);
    format!(
        "## What happened

<!-- What you did, what you saw. -->

## What should have happened

## What helps to understand it

<!-- Attach the file that `velero debug --backup NAME --restore NAME` makes. -->

## Where it happened

- Velero: {VERSION}, commit {GIT_COMMIT}
- Kubernetes: {cluster}
- this machine: {system}, {machine}
- provider of the cluster and of the object store:
- plugins (`velero plugin get`):
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_both_versions() {
        let text = report("v1.35.0");
        assert!(text.contains(VERSION) && text.contains("- Kubernetes: v1.35.0\n"), "{text}");
    }
}
