//! A project of OpenShift on its way: to another cluster under another name, and back to where it was. The same for
//! whoever brings the actions: our server, or the plugin binary under the original.
//!
//! | module | for |
//! |---|---|
//! | [`project`] | the objects of the project |
//! | [`images`] | its images, and what the registries hold |
//! | [`checks`] | what the project has to be after a restore |

pub mod checks;
pub mod images;
pub mod project;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::registry::REGISTRY_PASSWORD;
use velero_testkit::{BoxKind, Edition, ServerOptions, TestBox, VeleroServer, harness, install};

use crate::{backups, restores};
use images::Images;

/// The project.
pub const SHOP: &str = "shop";
/// What it is called after the migration.
pub const STORE: &str = "store";
const BACKUP_DEADLINE: Duration = Duration::from_secs(300);
/// How long pods may take to run or to go.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The whole story in two boxes of these names, which are taken down after it.
pub fn moves_and_comes_back(source: &str, target: &str, edition: Edition) -> Result<()> {
    for name in [source, target] {
        TestBox::down(name)?;
    }
    let prefix = harness::unique_name("openshift");
    let test_box = TestBox::up(source, BoxKind::OpenShift)?;
    let images = harness::inside(test_box.clone(), async |cluster| project::create(&cluster.test_box))?;
    migrate(&test_box, &images, target, edition, &prefix)?;
    bring_back(&test_box, &images, edition, &prefix)?;
    for name in [source, target] {
        TestBox::down(name)?;
    }
    Ok(())
}

/// A server in a box that is OpenShift. Ours has the actions built in, the original gets the plugin binary.
pub fn server(test_box: &TestBox, edition: Edition, prefix: &str) -> Result<VeleroServer> {
    let plugin = || install::package_binary("velero-plugin-openshift", "velero-plugin-openshift", "dev");
    let options = ServerOptions {
        prefix: prefix.into(),
        flags: vec!["--backup-sync-period=2s".into(), "--item-operation-sync-frequency=1s".into()],
        plugins: if edition == Edition::Peer { vec![plugin()?] } else { Vec::new() },
        ..ServerOptions::default()
    };
    let server = VeleroServer::up(test_box, edition, options)?;
    server.machine().apply(&settings(test_box, &server)?.to_string())?;
    Ok(server)
}

/// The settings of the actions. The migration registry is open, the one of a cluster wants a token.
fn settings(test_box: &TestBox, server: &VeleroServer) -> Result<Value> {
    let token = server.folder()?.join("registry-token");
    std::fs::write(&token, REGISTRY_PASSWORD)?;
    let migration = TestBox::migration_registry()?;
    let labels = json!({"velero.io/plugin-config": "", "openshift.io/plugin": ""});
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "openshift", "namespace": server.namespace(), "labels": labels},
        "data": {
            "plainHttpRegistries": format!("{},{migration}", test_box.internal_registry()),
            "registryTokenFile": token,
            "migrationRegistry": migration,
        },
    }))
}

/// Moves the project to another box, under another name.
pub fn migrate(source: &TestBox, images: &Images, target: &str, edition: Edition, prefix: &str) -> Result<()> {
    let backup = harness::unique_name("migration");
    let from = server(source, edition, prefix)?;
    back_up(&from, &backup, true)?;
    from.stop()?;
    let registry = TestBox::migration_registry()?;
    for (tag, digest) in images.own() {
        let found = images::digest(source.machine(), &registry, SHOP, tag)?;
        ensure!(found.as_ref() == Some(digest), "the migration registry has {found:?} for {tag}, not {digest}");
    }

    let target = TestBox::up(target, BoxKind::OpenShift)?;
    project::make_moved_class(target.machine())?;
    let to = server(&target, edition, prefix)?;
    restores::wait_for_backup(&to, &backup)?;
    restore(&to, prefix, &backup, true)?;
    checks::project(&target, STORE, images)?;
    no_records_are_left(&to)?;
    to.stop()
}

/// Backs the project up, deletes it with all its images, and restores it.
pub fn bring_back(test_box: &TestBox, images: &Images, edition: Edition, prefix: &str) -> Result<()> {
    let backup = harness::unique_name("project");
    let server = server(test_box, edition, prefix)?;
    back_up(&server, &backup, false)?;
    let machine = test_box.machine();
    machine.kubectl(&["delete", "namespace", SHOP, "--timeout=180s"])?;
    machine.kubectl(&["delete", "securitycontextconstraints.security.openshift.io", project::CONSTRAINTS])?;
    let registry = test_box.internal_registry();
    for (tag, _) in images.own() {
        let left = images::digest(machine, &registry, SHOP, tag)?;
        ensure!(left.is_none(), "the registry still has {tag}: nothing would show that it was brought back");
    }
    restore(&server, prefix, &backup, false)?;
    checks::project(test_box, SHOP, images)?;
    no_records_are_left(&server)?;
    server.stop()
}

/// What was written down about copies goes when the backup or restore has ended.
fn no_records_are_left(server: &VeleroServer) -> Result<()> {
    wait_until("records of copies to go", PATIENCE, || {
        let selector = "velero.io%2Fresource-usage%3DOperationRecord";
        let records = format!("/api/v1/namespaces/{}/configmaps?labelSelector={selector}", server.namespace());
        let left = server.machine().names_at(&records)?;
        ensure!(left.is_empty(), "there are {left:?}");
        Ok(())
    })
}

fn back_up(server: &VeleroServer, name: &str, migration: bool) -> Result<()> {
    let request = backups::request(server, name, &json!({"includedNamespaces": [SHOP]}));
    server.machine().apply(&of_workflow(request, migration)?.to_string())?;
    let status = backups::ended(server, name, BACKUP_DEADLINE)?["status"].clone();
    let log = || server.velero(&["backup", "logs", name, "--insecure-skip-tls-verify"]).unwrap_or_default();
    ensure!(status["phase"] == "Completed", "the backup {name} ended as {status}, its log:\n{}", log());
    Ok(())
}

fn restore(server: &VeleroServer, prefix: &str, backup: &str, migration: bool) -> Result<()> {
    let name = format!("{backup}-restored");
    let mapping = if migration { json!({(SHOP): STORE}) } else { json!({}) };
    let spec = json!({"backupName": backup, "namespaceMapping": mapping});
    let request = of_workflow(restores::request(server, &name, &spec), migration)?;
    server.machine().apply(&request.to_string())?;
    let ending = restores::ending(server, prefix, &name)?;
    let said = || format!("{}: {:#?}", ending.status, ending.messages);
    ensure!(ending.phase() == "Completed", "the restore {name} ended as {}", said());
    Ok(())
}

/// Makes a Backup or Restore part of a migration, where it is one.
fn of_workflow(mut request: Value, migration: bool) -> Result<Value> {
    if migration {
        request["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "openshift-migration"});
        request["metadata"]["annotations"] = json!({"openshift.io/migration-registry": TestBox::migration_registry()?});
    }
    Ok(request)
}

/// Waits until the only pod of a Deployment runs, and gives the image it runs, as the node names it.
pub fn running_image(test_box: &TestBox, namespace: &str, name: &str) -> Result<String> {
    let machine = test_box.machine();
    let mut image = None;
    wait_until("a pod of the Deployment to run", PATIENCE, || {
        let pods = machine.items(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}"))?;
        let states = pods.iter().map(|pod| &pod["status"]["containerStatuses"][0]);
        let ready = states.clone().find(|state| state["ready"] == true);
        let ready = ready.with_context(|| format!("no pod is ready: {:?}", states.collect::<Vec<_>>()))?;
        image = ready["imageID"].as_str().map(str::to_owned);
        Ok(())
    })?;
    image.context("the node does not say which image runs")
}
