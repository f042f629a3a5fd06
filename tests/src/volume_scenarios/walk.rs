//! Has a server back everything up and restore it, and compares what became of each row with the table.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use velero_testkit::progress::say;
use velero_testkit::{Edition, VeleroServer, objects};

use super::afterwards::afterwards;
use super::outcome::{self, Lines, Messages, Place};
use super::stage::{Stage, name_of, placed, wait_for_state};
use super::{Again, Row, Way, policies};
use crate::{backups, restores};

/// How long one backup or restore of many rows may take. One that takes longer is reported, and the next one begins.
const PATIENCE: Duration = Duration::from_secs(480);
/// How long copies have within that.
const TIME_FOR_COPIES: &str = "7m";
/// How long pods have to come up that are there before a restore.
const TO_PREPARE: Duration = Duration::from_secs(60);

/// The walk of one server through all rows.
pub struct Walk<'a> {
    stage: &'a Stage,
    server: &'a VeleroServer,
    outcomes: BTreeMap<String, Lines>,
}

impl<'a> Walk<'a> {
    /// Has a server back everything up and restore it; gives what is not as the table says, a line for each row.
    pub fn through(stage: &'a Stage, server: &'a VeleroServer) -> Result<Vec<String>> {
        server.machine().apply(&policies::document(server.namespace()).to_string())?;
        server.machine().apply(&small_init_containers(server.namespace()).to_string())?;
        let mut walk = Self { stage, server, outcomes: BTreeMap::new() };
        for way in Way::EVERY {
            walk.go(way);
        }
        Ok(walk.wrong())
    }

    fn go(&mut self, way: Way) {
        let is_there = |row: &&Row| row.way == way && !self.stage.broken.contains_key(row.name);
        let rows: Vec<&Row> = self.stage.rows.iter().filter(is_there).collect();
        if rows.is_empty() {
            return;
        }
        if let Err(error) = self.back_up(way, &rows) {
            return self.tell(&rows, &format!("backup {}: {error:#}", way.name()));
        }
        for how in Again::EVERY {
            // What is restored twice is restored once with the others.
            let takes_part = |row: &&&Row| {
                row.restore
                    .as_ref()
                    .is_some_and(|restore| restore.how == how || (restore.how, how) == (Again::Twice, Again::Whole))
            };
            let rows: Vec<&Row> = rows.iter().filter(takes_part).copied().collect();
            if let Err(error) = self.restore(way, how, &rows) {
                self.tell(&rows, &format!("restore {how:?} of {}: {error:#}", way.name()));
            }
            self.clear(how, &rows);
        }
    }

    /// Notes a problem that holds for many rows.
    fn tell(&mut self, rows: &[&Row], problem: &str) {
        say(problem);
        for row in rows {
            self.outcomes.entry(row.name.to_owned()).or_default().insert(problem.to_owned());
        }
    }

    fn back_up(&mut self, way: Way, rows: &[&Row]) -> Result<()> {
        let (server, name, begun) = (self.server, way.name(), Instant::now());
        let mut spec = way.spec();
        spec["includedNamespaces"] = json!(rows.iter().map(|row| row.name).collect::<Vec<_>>());
        apply(server, backups::request(server, &name, &spec), TIME_FOR_COPIES)?;
        let backup = backups::ended(server, &name, PATIENCE)?;
        let phase = backup["status"]["phase"].as_str().unwrap_or_default().to_owned();
        say(format!("{:?}: backup {name} is {phase} after {:.1} s", server.edition(), begun.elapsed().as_secs_f64()));
        ensure!(phase != "FailedValidation", "{}", backup["status"]);
        let key = |file: &str| format!("{}/backups/{name}/{name}-{file}.gz", server.options().prefix);
        let results = outcome::file(server, &key("results"))?;
        let information = outcome::file(server, &key("volumeinfo.json"))?;
        let places: Vec<Place> = rows.iter().map(|row| place(row, row.name)).collect();
        let [errors, warnings] = ["errors", "warnings"].map(|severity| Messages::of(&results, severity, &places));
        for row in rows {
            let copies = outcome::copies(server, &name, row.name)?;
            // The original does not say which pod it is about when a copy fails.
            let failed: Vec<String> = copies.iter().filter(|copy| !copy.ends_with(" Completed")).cloned().collect();
            let about = [errors.about(row.name), &failed].concat();
            let mut lines = told("backup", &about, warnings.about(row.name));
            lines.extend(copies);
            lines.extend(outcome::volumes(&information, row.name));
            say(format!("{}: {lines:?}", row.name));
            self.outcomes.insert(row.name.to_owned(), lines);
        }
        self.outcomes.insert(format!("backup {name}"), unattributed(server, &errors));
        Ok(())
    }

    fn restore(&mut self, way: Way, how: Again, rows: &[&Row]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (server, begun) = (self.server, Instant::now());
        let name = format!("{}-{how:?}", way.name()).to_lowercase();
        if how != Again::Twice {
            self.prepare(rows)?;
        }
        let targets: Vec<String> = rows.iter().map(|row| target(server, row)).collect();
        let mut spec = how.spec();
        spec["backupName"] = json!(way.name());
        spec["includedNamespaces"] = json!(rows.iter().map(|row| row.name).collect::<Vec<_>>());
        spec["namespaceMapping"] =
            rows.iter().zip(&targets).map(|(row, target)| (row.name.to_owned(), json!(target))).collect();
        apply(server, restores::request(server, &name, &spec), how.time_for_copies())?;
        let restore = restores::ended(server, &name, PATIENCE)?;
        let phase = &restore["status"]["phase"];
        say(format!("{:?}: restore {name} is {phase} after {:.1} s", server.edition(), begun.elapsed().as_secs_f64()));
        ensure!(phase != "FailedValidation", "{}", restore["status"]);
        let prefix = &server.options().prefix;
        let results = outcome::file(server, &format!("{prefix}/restores/{name}/restore-{name}-results.gz"))?;
        let places: Vec<Place> = rows.iter().zip(&targets).map(|(row, target)| place(row, target)).collect();
        let [errors, warnings] = ["errors", "warnings"].map(|severity| Messages::of(&results, severity, &places));
        let prefix = if how == Again::Twice { "second restore" } else { "restore" };
        for (row, target) in rows.iter().zip(&targets) {
            let about = [errors.about(target), &outcome::failed_fillings(server, &name, target)?].concat();
            let mut lines = told(prefix, &about, warnings.about(target));
            if row.restore.as_ref().is_some_and(|restore| restore.how == how) {
                lines.extend(afterwards(self.stage, server, row, target)?);
            }
            let all = self.outcomes.entry(row.name.to_owned()).or_default();
            all.extend(lines);
            say(format!("{}: {all:?}", row.name));
        }
        self.outcomes.insert(format!("restore {name}"), unattributed(server, &errors));
        Ok(())
    }

    /// Makes what is to be there before a restore.
    fn prepare(&self, rows: &[&Row]) -> Result<()> {
        let machine = &self.stage.machine;
        for row in rows {
            let there = row.restore.iter().flat_map(|restore| &restore.there).collect::<Vec<_>>();
            let target = target(self.server, row);
            if !there.is_empty() {
                machine.apply(&objects::namespace(&target).to_string())?;
            }
            for object in &there {
                machine.apply(&placed(object, &target).to_string())?;
            }
            for pod in there.iter().filter(|object| object["kind"] == "Pod") {
                wait_for_state(machine, &target, &name_of(pod), "Running", TO_PREPARE)?;
            }
        }
        Ok(())
    }

    /// Removes what a restore has made of rows that are not restored once more: a node has room for so many pods.
    fn clear(&self, how: Again, rows: &[&Row]) {
        let is_done = |row: &&&Row| row.restore.as_ref().is_some_and(|restore| restore.how == how);
        for row in rows.iter().filter(is_done) {
            let target = target(self.server, row);
            if let Err(error) = self.stage.machine.kubectl(&["delete", "namespace", &target, "--wait=false"]) {
                say(format!("{target} stays: {error:#}"));
            }
        }
    }

    /// What is not as the table says, a line for each row.
    fn wrong(&self) -> Vec<String> {
        let (edition, none) = (self.server.edition(), Lines::new());
        let mut wrong = Vec::new();
        for row in &self.stage.rows {
            if let Some(reason) = self.stage.broken.get(row.name) {
                wrong.push(format!("{}: its objects are not as they should be: {reason}", row.name));
                continue;
            }
            let (expected, found) = (row.expected_of(edition), self.outcomes.get(row.name).unwrap_or(&none));
            if expected != found {
                let (missing, further) = (expected - found, found - expected);
                wrong.push(format!("{edition:?}, {}: missing {missing:?}, found {further:?}", row.name));
            }
        }
        let of_no_row = |name: &String| !self.stage.rows.iter().any(|row| row.name == *name);
        for (name, lines) in self.outcomes.iter().filter(|(name, _)| of_no_row(name)) {
            wrong.extend(lines.iter().map(|line| format!("{edition:?}, {name}: {line}")));
        }
        wrong
    }
}

/// Lets the init containers that wait for data ask for little, so that all pods of a restore fit onto a node.
fn small_init_containers(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "small-init-containers", "namespace": namespace,
            "labels": {"velero.io/plugin-config": "", "velero.io/pod-volume-restore": "RestoreItemAction"},
        },
        "data": {"cpuRequest": "1m", "cpuLimit": "0", "memRequest": "1Mi", "memLimit": "0"},
    })
}

/// Makes a backup or restore that gives copies that much time.
fn apply(server: &VeleroServer, mut request: Value, time_for_copies: &str) -> Result<()> {
    request["metadata"]["annotations"] = json!({"velero.io/pod-volume-timeout": time_for_copies});
    server.machine().apply(&request.to_string())
}

/// Errors that name no row. Those of the original often name nothing; ours always do.
fn unattributed(server: &VeleroServer, errors: &Messages) -> Lines {
    if server.edition() == Edition::Peer {
        return Lines::new();
    }
    errors.others.iter().map(|text| format!("error of no row: {text}")).collect()
}

fn told(what: &str, errors: &[String], warnings: &[String]) -> Lines {
    let phase = if errors.is_empty() { "Completed" } else { "PartiallyFailed" };
    let mut lines = Lines::from([format!("{what} {phase}")]);
    if !warnings.is_empty() {
        lines.insert(format!("{what} warns"));
    }
    lines
}

fn place(row: &Row, namespace: &str) -> Place {
    Place { namespace: namespace.to_owned(), words: row.words.clone() }
}

fn target(server: &VeleroServer, row: &Row) -> String {
    format!("{}-{}", row.name, format!("{:?}", server.edition()).to_lowercase())
}
