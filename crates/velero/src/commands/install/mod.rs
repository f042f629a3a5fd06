//! `velero install`
//!
//! Everything is checked before the first write: flags, files, rights, what is installed already, what lies in the bucket, and
//! what the API server thinks of the objects. Then they are sent in order.

mod bucket;
mod preflight;
mod ready;
mod send;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use serde_json::json;
use velero_api::repository::PASSWORD_SECRET;

use crate::arguments::{InstallArguments, StorageArguments};
use crate::install::{self, Files, Installation, Manner, NODE_AGENTS, Resource, SERVER};
use crate::output::{Format, print_value};
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Installs the server and all it needs, or shows it.
pub(super) async fn install(arguments: &InstallArguments, settings: &Settings, printer: Printer) -> Result<()> {
    let format = Format::parse(arguments.run.output.as_deref())?;
    if format == Some(Format::Table) {
        bail!("'table' format is not supported with 'install' command");
    }
    install::check(arguments)?;
    if !arguments.run.crds_only {
        for flag in arguments.server.flags.settings.flags_without_effect() {
            printer.note(format_args!("WARNING: the server accepts --{flag}, and it has no effect"));
        }
    }
    let files = read_files(&arguments.storage)?;
    let mut installation =
        Installation { namespace: &settings.namespace, arguments, files, existing: install::Existing::default() };
    if arguments.run.dry_run {
        check_existing(&installation)?;
        return print(printer, &resources(&installation), format);
    }
    let session = Session::connect(settings, printer).await?;
    preflight::check_rights(&session, &resources(&installation), &["create", "get", "patch"]).await?;
    let mut found = preflight::Found::default();
    if !arguments.run.crds_only {
        found = preflight::look(&session).await?;
        preflight::check_renamed(session.namespace(), &found)?;
        preflight::check_foreign(session.namespace(), &found, arguments.run.force)?;
        preflight::check_rights(&session, &making_way(&installation, &found), &["delete", "list", "watch"]).await?;
        preflight::check_pod_security(session.namespace(), &found, arguments)?;
        preflight::check_config_maps(&session, arguments).await?;
        found.superfluous = preflight::superfluous(&session, install::left_out(&installation)).await?;
        preflight::check_rights(&session, &found.superfluous, &["delete"]).await?;
        found.unnamed_agents = preflight::has_unnamed_agents(&session, arguments).await?;
    }
    installation.existing = found.existing;
    check_existing(&installation)?;
    bucket::look(&session, &installation).await?;
    let resources = resources(&installation);
    preflight::try_out(&session, &resources, &found).await?;
    print(printer, &resources, format)?;
    send::send_all(&session, &resources, &found).await?;
    send::remove_all(&session, &found.superfluous).await?;
    if arguments.run.crds_only { Ok(()) } else { finish(&session, arguments, found.unnamed_agents).await }
}

/// Asks whether that may be done with everything, and names all that may not.
pub(super) async fn check_rights(session: &Session, resources: &[Resource], verbs: &[&str]) -> Result<()> {
    preflight::check_rights(session, resources, verbs).await
}

/// Sends objects in order, and waits for definitions among them.
pub(super) async fn send_objects(session: &Session, resources: &[Resource]) -> Result<()> {
    send::send_all(session, resources, &preflight::Found::default()).await
}

/// Waits until the pod of a Deployment with a server serves.
pub(super) async fn wait_for_server(session: &Session, deployment: &str) -> Result<()> {
    ready::wait_for_server(session, deployment).await
}

/// Refuses what cannot be installed beside what is there.
fn check_existing(installation: &Installation<'_>) -> Result<()> {
    if installation.arguments.run.crds_only { Ok(()) } else { install::check_existing(installation) }
}

/// What is to be installed.
fn resources(installation: &Installation<'_>) -> Vec<Resource> {
    let run = &installation.arguments.run;
    let mut resources = match run.crds_only {
        true => install::definitions(),
        false => install::resources(installation),
    };
    for resource in &mut resources {
        match run.apply {
            true => resource.manner = Manner::Apply,
            false if run.crds_only => resource.manner = Manner::Keep,
            false => {}
        }
    }
    resources
}

/// What is deleted before ours is sent, and waited for: the Deployments of another Velero.
fn making_way(installation: &Installation<'_>, found: &preflight::Found) -> Vec<Resource> {
    let is_replaced = |resource: &Resource| !found.foreign.is_empty() && resource.kind() == "Deployment";
    resources(installation).into_iter().filter(is_replaced).collect()
}

fn print(printer: Printer, resources: &[Resource], format: Option<Format>) -> Result<()> {
    let Some(format) = format else { return Ok(()) };
    let items: Vec<_> = resources.iter().map(|resource| &resource.object).collect();
    print_value(printer, &json!({ "apiVersion": "v1", "items": items, "kind": "List" }), format)
}

fn read_files(storage: &StorageArguments) -> Result<Files> {
    let read = |flag: &str, path: &Path| {
        fs::read(path).with_context(|| format!("cannot read the file of --{flag} {}", path.display()))
    };
    Ok(Files {
        secret: storage.secret_file.as_deref().map(|path| read("secret-file", path)).transpose()?,
        certificate: storage.cacert.as_deref().map(|path| read("cacert", path)).transpose()?,
    })
}

async fn finish(session: &Session, arguments: &InstallArguments, unnamed_agents: bool) -> Result<()> {
    let printer = session.printer;
    if arguments.run.wait {
        printer.line("Waiting for Velero deployment to be ready.")?;
        ready::wait_for_server(session, SERVER).await?;
    }
    if arguments.storage.secret_file.is_none() {
        printer.line("\nNo secret file was specified, no Secret created.\n")?;
    }
    if arguments.storage.no_default_backup_location {
        printer.line("\nNo bucket and provider were specified, no default backup storage location created.\n")?;
    }
    let namespace = session.namespace();
    if arguments.node_agent.use_node_agent {
        printer.line(format_args!(
            "\nThe first repository of volume data makes its password, in Secret {namespace}/{PASSWORD_SECRET}. Keep a copy outside the \
             cluster: without it nothing can be restored elsewhere.\n"
        ))?;
    }
    if unnamed_agents {
        printer.line(format_args!(
            "\nDaemonSet {namespace}/{NODE_AGENTS} is there already and stays as it was, its image too. To bring the node agents up to date, \
             install again with --use-node-agent; to remove them: kubectl -n {namespace} delete daemonset {NODE_AGENTS}\n"
        ))?;
    }
    printer.line(format_args!(
        "Velero is installed! ⛵ Use 'kubectl logs deployment/velero -n {namespace}' to view the status."
    ))
}

/// Access to the kind of a resource, in that namespace for one that lives in a namespace.
fn api_of(session: &Session, resource: &Resource, namespace: &str) -> Result<Api<DynamicObject>> {
    let kind = kind_of(resource)?;
    let client = session.cluster.client().clone();
    Ok(match resource.namespace() {
        Some(_) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    })
}

/// The kind of a resource, as requests name it.
fn kind_of(resource: &Resource) -> Result<ApiResource> {
    let types: TypeMeta = serde_json::from_value(resource.object.clone())?;
    Ok(ApiResource::from_gvk(&GroupVersionKind::try_from(types)?))
}
