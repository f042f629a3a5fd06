//! `velero migrate`
//!
//! Coming over from an installed Velero is exchanging two programs: the server and the node agents. Before that it is said
//! of every object what becomes of it, and what is exchanged is kept, so that it can be put back as it was.

mod collect;
mod ending;
mod keep;

use anyhow::{Context, Result, bail, ensure};
use clap::{CommandFactory, FromArgMatches};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::{
    Cli, Command, InstallArguments, MigrateBackArguments, MigrateCheckArguments, MigrateCommand, MigrateRunArguments,
};
use crate::commands::install::{check_rights, send_objects, wait_for_server};
use crate::install::{self, Existing, Files, Installation, MOVER, Manner, Resource};
use crate::migration::{
    Installed, Line, Needed, Verdict, annotations_for_movers, assess, exchanged_agents, exchanged_server, is_ours,
    is_replaced, keepers,
};
use crate::output::{Format, print_rows, print_value};
use crate::session::{Session, api_error};

/// The kind of the workload of the server.
const DEPLOYMENT: &str = "Deployment";
/// How often a workload is written again whose status has changed.
const TRIES: u32 = 5;

/// Runs one of the commands.
pub(super) async fn migrate(session: &Session, command: MigrateCommand) -> Result<()> {
    match command {
        MigrateCommand::Check(arguments) => check(session, &arguments).await,
        MigrateCommand::Run(arguments) => run(session, &arguments).await,
        MigrateCommand::Back(arguments) => back(session, &arguments).await,
    }
}

#[derive(Serialize)]
struct Report<'a> {
    namespace: &'a str,
    objects: &'a [Line],
}

async fn check(session: &Session, arguments: &MigrateCheckArguments) -> Result<()> {
    let format = Format::parse(Some(&arguments.output))?.unwrap_or(Format::Table);
    let lines = assess(&collect::collect(session).await?);
    match format {
        Format::Table => print_table(session, &lines)?,
        format => print_value(session.printer, &Report { namespace: session.namespace(), objects: &lines }, format)?,
    }
    refuse(&lines, |_| true)
}

fn print_table(session: &Session, lines: &[Line]) -> Result<()> {
    let rows = lines.iter().map(|line| {
        let verdict = serde_json::to_value(line.verdict).unwrap_or_default();
        vec![verdict.as_str().unwrap_or_default().to_owned(), line.object.clone(), line.detail.clone()]
    });
    print_rows(session.printer, &["Verdict", "Object", "Detail"], rows.collect())?;
    let count = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
    session.printer.line(format_args!(
        "\n{} work, {} differ, {} are missing, {} stand in the way.",
        count(Verdict::Works),
        count(Verdict::Differs),
        count(Verdict::Missing),
        count(Verdict::Refused)
    ))
}

/// Stops where something is in the way that counts.
fn refuse(lines: &[Line], counts: impl Fn(&Line) -> bool) -> Result<()> {
    let refused: Vec<String> = lines
        .iter()
        .filter(|line| line.verdict == Verdict::Refused && counts(line))
        .map(|line| format!("{}: {}", line.object, line.detail))
        .collect();
    ensure!(refused.is_empty(), "{}", refused.join("; "));
    Ok(())
}

/// Whether a line is about work that goes on, which its owner may want to interrupt.
fn is_about_work(line: &Line) -> bool {
    line.object.starts_with("Backup ") || line.object.starts_with("Restore ")
}

/// Refuses an exchange that somebody else would take back.
fn refuse_kept(installed: &Installed) -> Result<()> {
    if let Some(Line { object, detail, .. }) = keepers(installed).first() {
        bail!("nothing was changed: {object}: {detail}, or use --force");
    }
    let is_foreign = foreign(&installed.servers).chain(foreign(&installed.agents)).next().is_some();
    if is_foreign && !installed.releases.is_empty() {
        bail!(
            "nothing was changed: Helm has installed this Velero, and would take the exchange back at its next upgrade; \
             upgrade the release to our chart instead (docs/from-velero.md), or use --force"
        );
    }
    Ok(())
}

async fn run(session: &Session, arguments: &MigrateRunArguments) -> Result<()> {
    let installed = collect::collect(session).await?;
    let lines = assess(&installed);
    refuse(&lines, |line| !(arguments.force && is_about_work(line))).context("nothing was changed")?;
    if !arguments.force {
        refuse_kept(&installed)?;
    }
    let needed = Needed::of(&installed);
    let server = |workload: &Value| exchanged_server(workload, &arguments.image, &needed);
    let servers: Vec<(&Value, Value)> = foreign(&installed.servers).map(|found| (found, server(found))).collect();
    let agents = foreign(&installed.agents).filter(|agents| is_replaced(agents));
    let agents: Vec<(&Value, Value)> = agents.map(|found| (found, exchanged_agents(found, &arguments.image))).collect();
    if arguments.dry_run {
        let items: Vec<&Value> = servers.iter().chain(&agents).map(|(_, exchanged)| exchanged).collect();
        tell_missing(session, &lines);
        return print_value(
            session.printer,
            &json!({"apiVersion": "v1", "kind": "List", "items": items}),
            Format::Yaml,
        );
    }
    ensure!(!servers.is_empty() || !agents.is_empty(), "server and node agents of this namespace are ours already");
    let further = further_objects(session, &installed, &arguments.image)?;
    check_all_rights(session, &further, servers.iter().chain(&agents).map(|(found, _)| *found)).await?;
    tell_missing(session, &lines);
    let begun = installed.servers.iter().chain(&installed.agents).any(is_ours);
    keep::keep(session, servers.iter().chain(&agents).map(|(found, _)| *found), begun).await?;
    send_objects(session, &further).await?;
    // That takes its time, and a schedule may have come due.
    if !arguments.force {
        refuse(&assess(&collect::collect(session).await?), is_about_work)
            .context("no workload was replaced yet; run the command again when this has ended")?;
    }
    for (found, exchanged) in servers.iter().chain(&agents) {
        replace(session, found, exchanged).await?;
    }
    for (_, exchanged) in servers.iter().filter(|_| arguments.wait) {
        wait_for_server(session, exchanged["metadata"]["name"].as_str().unwrap_or_default()).await?;
    }
    session
        .printer
        .line("The server is ours now; schedules, backups and repositories go on. To go back: velero migrate back")
}

/// Refuses whoever may not do all of an exchange, before a part of it is done.
async fn check_all_rights(session: &Session, further: &[Resource], found: impl Iterator<Item = &Value>) -> Result<()> {
    let resource = |object: Value| Resource { object, manner: Manner::Keep };
    let workloads: Vec<Resource> = found.map(|workload| resource(workload.clone())).collect();
    let mut made = further.to_vec();
    made.push(resource(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": session.namespace()}}),
    ));
    check_rights(session, &made, &["create", "get", "patch"]).await?;
    check_rights(session, &workloads, &["get", "update"]).await
}

/// Says what does not work here, before anything is changed.
fn tell_missing(session: &Session, lines: &[Line]) {
    for Line { object, detail, .. } in lines.iter().filter(|line| line.verdict == Verdict::Missing) {
        session.printer.note(format_args!("Missing here: {object}: {detail}"));
    }
}

fn foreign(workloads: &[Value]) -> impl Iterator<Item = &Value> {
    workloads.iter().filter(|workload| !is_ours(workload))
}

/// What our server and agents need beside what Velero has: newer definitions, and an account for the pods that move data.
fn further_objects(session: &Session, installed: &Installed, image: &str) -> Result<Vec<Resource>> {
    let words =
        ["velero", "install", "--use-node-agent", "--cluster-admin", "--no-default-backup-location", "--no-secret"];
    let matches = Cli::command().try_get_matches_from(words.into_iter().chain(["--image", image]))?;
    let Command::Install(arguments) = Cli::from_arg_matches(&matches)?.command else { bail!("no installation") };
    let arguments: &InstallArguments = &arguments;
    let namespace = session.namespace();
    let installation = Installation { namespace, arguments, files: Files::default(), existing: Existing::default() };
    let mut resources = install::resources(&installation);
    let annotations = annotations_for_movers(installed).filter(|_| !installed.agents.is_empty());
    resources.retain(|resource| {
        let is_movers = resource.name() == MOVER && annotations.is_some();
        is_movers || ["CustomResourceDefinition", "ServerStatusRequest"].contains(&resource.kind())
    });
    for resource in resources.iter_mut().filter(|resource| resource.kind() == "ServiceAccount") {
        resource.object["metadata"]["annotations"] = json!(annotations);
    }
    Ok(resources)
}

/// Puts a workload in the place of what was found. Its controller writes its status all the time; who has written something
/// else in between is not overwritten.
async fn replace(session: &Session, found: &Value, workload: &Value) -> Result<()> {
    let kind = workload["kind"].as_str().unwrap_or_default();
    let name = workload["metadata"]["name"].as_str().unwrap_or_default();
    let api = workloads(session, kind);
    let mut object: DynamicObject = serde_json::from_value(workload.clone())?;
    let mut tries_left = TRIES;
    loop {
        tries_left -= 1;
        match api.replace(name, &PostParams::default(), &object).await {
            Ok(_) => return session.printer.line(format_args!("{kind}/{name}: replaced")),
            Err(kube::Error::Api(refusal)) if refusal.is_conflict() && tries_left > 0 => {
                let present = api.get(name).await.map_err(api_error)?;
                ensure!(
                    present.data["spec"] == found["spec"],
                    "{kind}/{name} was changed by somebody else meanwhile; run the command again"
                );
                object.metadata.resource_version = present.metadata.resource_version;
            }
            Err(error) => return Err(api_error(error).context(format!("cannot replace {kind}/{name}"))),
        }
    }
}

fn workloads(session: &Session, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
    Api::namespaced_with(session.cluster.client().clone(), session.namespace(), &resource)
}

async fn back(session: &Session, arguments: &MigrateBackArguments) -> Result<()> {
    let installed = collect::collect(session).await?;
    let is_unread = |line: &Line| installed.unread.iter().any(|unread| unread.object == line.object);
    refuse(&assess(&installed), |line| is_unread(line) || (is_about_work(line) && !arguments.force))
        .context("nothing was changed")?;
    let kept = keep::kept(session).await?;
    for mut workload in kept.workloads.clone() {
        let kind = workload["kind"].as_str().unwrap_or_default().to_owned();
        let name = workload["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match workloads(session, &kind).get_opt(&name).await.map_err(api_error)? {
            // Somebody has put it back another way, or it was never exchanged: what was kept may be old.
            Some(present) if !serde_json::to_value(&present).is_ok_and(|present| is_ours(&present)) => {
                session.printer.line(format_args!("{kind}/{name}: is not ours, and stays as it is"))?;
            }
            Some(mut present) => {
                // As a rule a Deployment starts the new pod before it ends the old one.
                if kind == DEPLOYMENT && workload["spec"]["strategy"]["type"] != "Recreate" {
                    present = ending::end_server(session, &workloads(session, &kind), &name).await?;
                }
                workload["metadata"]["resourceVersion"] = json!(present.metadata.resource_version);
                replace(session, &present.data, &workload).await?;
            }
            None => {
                let object: DynamicObject = serde_json::from_value(workload)?;
                workloads(session, &kind).create(&PostParams::default(), &object).await.map_err(api_error)?;
                session.printer.line(format_args!("{kind}/{name}: created"))?;
            }
        }
    }
    keep::forget(session, kept).await?;
    session.printer.line("None of ours is left: what velero migrate run had exchanged is as it was before.")
}
