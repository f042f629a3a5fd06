//! All that a server and its commands say anywhere, for those who look for what must not be said.

use std::fs;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use velero_testkit::machine::wait_until;
use velero_testkit::{Edition, VeleroServer};

use crate::backups;

/// Where the page of the server is.
const PAGE: &str = "127.0.0.1:8089";
/// How long a report may take to come.
const PATIENCE: Duration = Duration::from_secs(120);

/// A place, and what is said there.
pub type Said = (String, String);

/// The flags of a server that serves its page, and writes reports all the time.
pub fn flags() -> [String; 2] {
    [format!("--web-address={PAGE}"), "--report-schedule=@every 20s".to_owned()]
}

/// All that is said once these backups and restores have ended, by where it is said.
pub fn everything(server: &VeleroServer, backups: &[&str], restores: &[&str]) -> Result<Vec<Said>> {
    let mut said = vec![("the log of the server".to_owned(), fs::read_to_string(server.log())?)];
    said.extend(objects(server)?);
    said.extend(commands(server, backups, restores)?);
    said.extend(bundle(server, backups[0], restores[0])?);
    said.extend(reports(server)?);
    said.extend(pages(server, backups, restores)?);
    let metrics = server.machine().run("curl", ["--silent", "--fail", "http://127.0.0.1:8086/metrics"])?;
    said.push(("the metrics".to_owned(), metrics));
    Ok(said)
}

/// All objects of Velero's kinds, with their statuses, and all Events.
fn objects(server: &VeleroServer) -> Result<Vec<Said>> {
    let kinds =
        velero_api::crd::all().into_iter().filter_map(|kind| Some(kind["metadata"]["name"].as_str()?.to_owned()));
    kinds
        .chain(["events".to_owned(), "leases.coordination.k8s.io".to_owned()])
        .map(|kind| {
            let listed = server.machine().kubectl(&["get", &kind, "--all-namespaces", "-o", "json"])?;
            Ok((kind, listed))
        })
        .collect()
}

fn commands(server: &VeleroServer, backups: &[&str], restores: &[&str]) -> Result<Vec<Said>> {
    let fixed = [
        "backup get",
        "restore get",
        "schedule get",
        "backup-location get -o yaml",
        "server status --details",
        "report",
        "report -o json",
        "report -o html",
    ];
    let mut lines: Vec<String> = fixed.map(str::to_owned).to_vec();
    for (word, names) in [("backup", backups), ("restore", restores)] {
        for name in names {
            lines.extend([format!("{word} logs {name}"), format!("{word} describe {name} --details")]);
        }
    }
    let run = |line: String| {
        let output = server.command(Edition::Ours)?.args(line.split(' ')).output()?;
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        Ok((format!("velero {line}"), text))
    };
    lines.into_iter().map(run).collect()
}

/// What `velero debug` collects.
fn bundle(server: &VeleroServer, backup: &str, restore: &str) -> Result<Vec<Said>> {
    let path = server.machine().state().join("bundle-of-all.tar.gz").display().to_string();
    server.velero(&["debug", "--output", &path, "--backup", backup, "--restore", restore])?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(&path)?));
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        // An empty log says nothing that could be wrong.
        if !content.is_empty() {
            let name = format!("{} of the bundle", entry.path()?.display());
            files.push((name, String::from_utf8_lossy(&content).into_owned()));
        }
    }
    ensure!(files.len() > 10, "a bundle of {} files", files.len());
    Ok(files)
}

/// The reports that the server wrote into the bucket.
fn reports(server: &VeleroServer) -> Result<Vec<Said>> {
    let options = server.options();
    let folder = format!("{}/metadata/reports/", options.prefix);
    let mut keys = Vec::new();
    wait_until("a report in the bucket", PATIENCE, || {
        keys = backups::keys(server.machine(), &options.bucket, &folder)?;
        let has = |form: &str| keys.iter().any(|key| key.ends_with(form));
        ensure!(has(".html") && has(".json"), "{keys:?}");
        Ok(())
    })?;
    let read = |key: String| {
        let content = backups::object(server.machine(), &options.bucket, &key)?.context("the report is gone")?;
        Ok((key, String::from_utf8_lossy(&content).into_owned()))
    };
    keys.into_iter().map(read).collect()
}

/// The pages, as one sees them who may do everything.
fn pages(server: &VeleroServer, backups: &[&str], restores: &[&str]) -> Result<Vec<Said>> {
    let (machine, namespace) = (server.machine(), server.namespace());
    machine.kubectl(&["-n", namespace, "create", "serviceaccount", "reader"])?;
    let account = format!("--serviceaccount={namespace}:reader");
    machine.kubectl(&["create", "clusterrolebinding", "reader-of-all", "--clusterrole=cluster-admin", &account])?;
    let token = machine.kubectl(&["-n", namespace, "create", "token", "reader"])?;
    let jar = machine.state().join("cookies").display().to_string();
    let origin = format!("Origin: http://{PAGE}");
    let form = format!("token={}", token.trim());
    let ask = ["--silent", "--show-error", "--max-time", "60", "--cookie", &jar, "--cookie-jar", &jar];
    let sign_in = ["--fail", "--header", &origin, "--data-urlencode", &form];
    let url = |path: &str| format!("http://{PAGE}{path}");
    machine.run("curl", ask.iter().chain(&sign_in).chain([&url("/sign-in").as_str()]))?;
    let mut paths: Vec<String> =
        ["/", "/coverage", "/backups", "/restores", "/schedules", "/locations"].map(str::to_owned).to_vec();
    for (word, names) in [("backups", backups), ("restores", restores)] {
        for name in names {
            paths.extend(["", "/log", "/objects"].map(|part| format!("/{word}/{name}{part}")));
        }
    }
    let get = |path: String| {
        let page = machine.run("curl", ask.iter().chain([&url(&path).as_str()]))?;
        ensure!(page.contains("<html") && !page.contains("name=\"token\""), "{path}: {page}");
        Ok((format!("the page {path}"), page))
    };
    paths.into_iter().map(get).collect()
}
