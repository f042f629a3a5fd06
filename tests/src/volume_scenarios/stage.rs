//! Makes what the rows are about, has a server back it up and restore it, and compares.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::{Machine, wait_until};
use velero_testkit::progress::say;
use velero_testkit::{DRIVER_NAME, Edition, TestCluster, VeleroServer, load, objects};

use super::outcome::{self, Lines, Messages, Picture};
use super::pods::{self, LATE_CLASS, OTHER_CLASS, STATE};
use super::{Again, Row, Way, policies};
use crate::volume_data::{PATIENCE, claimed};
use crate::{backups, restores};

/// How long pods have to come up after a restore has ended.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// How long a pod is looked at that is not to come up.
const BRIEFLY: Duration = Duration::from_secs(2);

/// Everything the rows are about, in a cluster.
pub struct Stage {
    machine: Machine,
    rows: Vec<Row>,
    before: BTreeMap<(&'static str, String), Picture>,
}

impl Stage {
    /// Makes the objects of all rows and waits until they are as they should be.
    pub async fn set(cluster: &TestCluster, rows: Vec<Row>) -> Result<Self> {
        let machine = cluster.test_box.machine().clone();
        let classes = [class(LATE_CLASS, "WaitForFirstConsumer"), class(OTHER_CLASS, "Immediate")];
        let namespaces = rows.iter().map(|row| objects::namespace(row.name));
        load::create_all(&cluster.client, classes.into_iter().chain(namespaces)).await?;
        let all = rows.iter().flat_map(|row| row.objects.iter().map(|object| placed(object, row.name)));
        // The admission of pods wants what they name to be there, such as their account; the order of a row is kept.
        let (pods, others): (Vec<Value>, Vec<Value>) = all.partition(|object| object["kind"] == "Pod");
        load::create_all(&cluster.client, others.into_iter()).await?;
        load::create_all(&cluster.client, pods.into_iter()).await?;
        let mut stage = Self { machine, rows, before: BTreeMap::new() };
        stage.settle()?;
        Ok(stage)
    }

    fn settle(&mut self) -> Result<()> {
        for row in &self.rows {
            for pod in row.pods() {
                let name = name_of(pod);
                wait_for_state(&self.machine, row.name, &name, &state_of(pod), PATIENCE)?;
                if row.restore.is_some() && state_of(pod) == "Running" {
                    self.before.insert((row.name, name), outcome::picture(&self.machine, row.name, &name_of(pod))?);
                }
            }
            for filler in &row.fillers {
                self.machine.delete(&format!("/api/v1/namespaces/{}/pods/{filler}", row.name))?;
            }
        }
        Ok(())
    }

    /// Has a server back everything up and restore it; gives what became of each row.
    pub fn walk(&self, server: &VeleroServer) -> Result<BTreeMap<String, Lines>> {
        server.machine().apply(&policies::document(server.namespace()).to_string())?;
        let mut outcomes = BTreeMap::new();
        for way in Way::EVERY {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.way == way).collect();
            if rows.is_empty() {
                continue;
            }
            self.back_up(server, way, &rows, &mut outcomes)?;
            for how in Again::EVERY {
                self.restore(server, way, how, &rows, &mut outcomes)?;
            }
        }
        Ok(outcomes)
    }

    fn back_up(
        &self,
        server: &VeleroServer,
        way: Way,
        rows: &[&Row],
        outcomes: &mut BTreeMap<String, Lines>,
    ) -> Result<()> {
        let (name, begun) = (way.name(), Instant::now());
        let namespaces: Vec<String> = rows.iter().map(|row| row.name.to_owned()).collect();
        let mut spec = way.spec();
        spec["includedNamespaces"] = json!(namespaces);
        backups::create(server, &name, &spec)?;
        let backup = backups::ended(server, &name, PATIENCE)?;
        let phase = backup["status"]["phase"].as_str().unwrap_or_default().to_owned();
        say(format!("{:?}: backup {name} is {phase} after {:.1} s", server.edition(), begun.elapsed().as_secs_f64()));
        ensure!(phase != "FailedValidation", "{}", backup["status"]);
        let key = |file: &str| format!("{}/backups/{name}/{name}-{file}.gz", server.options().prefix);
        let results = outcome::file(server, &key("results"))?;
        let information = outcome::file(server, &key("volumeinfo.json"))?;
        let [errors, warnings] = ["errors", "warnings"].map(|severity| Messages::of(&results, severity, &namespaces));
        for row in rows {
            let copies = outcome::copies(server, &name, row.name)?;
            // The original does not say which pod it is about when a copy fails.
            let failed: Vec<String> = copies.iter().filter(|copy| !copy.ends_with(" Completed")).cloned().collect();
            let about = [errors.about(row.name), &failed].concat();
            let mut lines = told("backup", &about, warnings.about(row.name));
            lines.extend(copies);
            lines.extend(outcome::volumes(&information, row.name));
            say(format!("{}: {lines:?}", row.name));
            outcomes.insert(row.name.to_owned(), lines);
        }
        outcomes.insert(format!("backup {name}"), unattributed(server, &errors));
        Ok(())
    }

    fn restore(
        &self,
        server: &VeleroServer,
        way: Way,
        how: Again,
        rows: &[&Row],
        outcomes: &mut BTreeMap<String, Lines>,
    ) -> Result<()> {
        // What is restored twice is restored once with the others.
        let takes_part = |row: &&&Row| {
            row.restore
                .as_ref()
                .is_some_and(|restore| restore.how == how || (restore.how, how) == (Again::Twice, Again::Whole))
        };
        let rows: Vec<&Row> = rows.iter().filter(takes_part).copied().collect();
        if rows.is_empty() {
            return Ok(());
        }
        let (name, begun) = (format!("{}-{how:?}", way.name()).to_lowercase(), Instant::now());
        let targets: Vec<String> = rows.iter().map(|row| target(server, row)).collect();
        if how != Again::Twice {
            self.prepare(server, &rows)?;
        }
        let mut spec = how.spec();
        spec["backupName"] = json!(way.name());
        spec["includedNamespaces"] = json!(rows.iter().map(|row| row.name).collect::<Vec<_>>());
        spec["namespaceMapping"] =
            rows.iter().zip(&targets).map(|(row, target)| (row.name.to_owned(), json!(target))).collect();
        restores::create(server, &name, &spec)?;
        let restore = restores::ended(server, &name, PATIENCE)?;
        let phase = &restore["status"]["phase"];
        say(format!("{:?}: restore {name} is {phase} after {:.1} s", server.edition(), begun.elapsed().as_secs_f64()));
        ensure!(phase != "FailedValidation", "{}", restore["status"]);
        let prefix = &server.options().prefix;
        let results = outcome::file(server, &format!("{prefix}/restores/{name}/restore-{name}-results.gz"))?;
        let [errors, warnings] = ["errors", "warnings"].map(|severity| Messages::of(&results, severity, &targets));
        for (row, target) in rows.iter().zip(&targets) {
            let prefix = if how == Again::Twice { "second restore" } else { "restore" };
            let lines = outcomes.entry(row.name.to_owned()).or_default();
            lines.extend(told(prefix, errors.about(target), warnings.about(target)));
            if row.restore.as_ref().is_some_and(|restore| restore.how == how) {
                lines.extend(self.afterwards(server, row, target)?);
            }
            say(format!("{}: {lines:?}", row.name));
        }
        outcomes.insert(format!("restore {name}"), unattributed(server, &errors));
        Ok(())
    }

    /// Makes what is to be there before a restore.
    fn prepare(&self, server: &VeleroServer, rows: &[&Row]) -> Result<()> {
        for row in rows {
            let there = row.restore.iter().flat_map(|restore| &restore.there).collect::<Vec<_>>();
            let target = target(server, row);
            if !there.is_empty() {
                self.machine.apply(&objects::namespace(&target).to_string())?;
            }
            for object in &there {
                self.machine.apply(&placed(object, &target).to_string())?;
            }
            for pod in there.iter().filter(|object| object["kind"] == "Pod") {
                wait_for_state(&self.machine, &target, &name_of(pod), "Running", PATIENCE)?;
            }
        }
        Ok(())
    }

    /// What the volumes of a row hold after a restore.
    fn afterwards(&self, server: &VeleroServer, row: &Row, target: &str) -> Result<Lines> {
        let mut lines = Lines::new();
        let expected = row.expected_of(server.edition());
        for pod in row.pods().filter(|pod| !row.fillers.contains(&name_of(pod).as_str())) {
            let name = name_of(pod);
            let stays_away = expected.iter().any(|line| line.starts_with(&format!("{name} is ")));
            let patience = if stays_away { BRIEFLY } else { AFTERWARDS };
            if wait_for_state(&self.machine, target, &name, "Running", patience).is_err() {
                lines.insert(format!("{name} is {}", phase(&self.machine, target, &name)?));
                continue;
            }
            let (before, after) =
                (self.before.get(&(row.name, name.clone())), outcome::picture(&self.machine, target, &name)?);
            for volume in data_volumes(pod) {
                let told = outcome::compared(before.and_then(|before| before.get(&volume)), after.get(&volume));
                lines.insert(format!("{name}/{volume} {told}"));
            }
        }
        for claim in row.restore.iter().flat_map(|restore| &restore.read) {
            lines.insert(format!("{claim} {}", self.read(row, target, claim)?));
        }
        Ok(lines)
    }

    /// Looks into a claim through a pod of its own.
    fn read(&self, row: &Row, target: &str, claim: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{target}/persistentvolumeclaims/{claim}");
        if self.machine.read_if_there(&path)?.is_none() {
            return Ok("is missing".to_owned());
        }
        let mut reader = pods::pod("reader", "", &[claimed("data", claim)]);
        reader["spec"]["containers"][0]["command"] = json!(["sh", "-c", "touch /tmp/ready; sleep 100000"]);
        self.machine.apply(&placed(&reader, target).to_string())?;
        if wait_for_state(&self.machine, target, "reader", "Running", AFTERWARDS).is_err() {
            return Ok("cannot be read".to_owned());
        }
        let after = outcome::picture(&self.machine, target, "reader")?;
        let before =
            self.before.iter().find_map(|((name, _), picture)| (*name == row.name).then(|| picture.get("data")));
        Ok(outcome::compared(before.flatten(), after.get("data")))
    }

    /// Removes what the restores of a server have made.
    pub fn clear(&self, server: &VeleroServer) -> Result<()> {
        for row in self.rows.iter().filter(|row| row.restore.is_some()) {
            let path = format!("/api/v1/namespaces/{}", target(server, row));
            if self.machine.read_if_there(&path)?.is_some() {
                self.machine.delete(&path)?;
            }
        }
        Ok(())
    }

    /// What is not as the table says, a line for each row.
    pub fn wrong(&self, edition: Edition, outcomes: &BTreeMap<String, Lines>) -> Vec<String> {
        let none = Lines::new();
        let mut wrong = Vec::new();
        for row in &self.rows {
            let (expected, found) = (row.expected_of(edition), outcomes.get(row.name).unwrap_or(&none));
            if expected != found {
                let (missing, further) = (expected - found, found - expected);
                wrong.push(format!("{edition:?}, {}: missing {missing:#?}, found {further:#?}", row.name));
            }
        }
        for (name, lines) in outcomes.iter().filter(|(name, _)| !self.rows.iter().any(|row| row.name == *name)) {
            wrong.extend(lines.iter().map(|line| format!("{edition:?}, {name}: {line}")));
        }
        wrong
    }
}

impl Row {
    fn expected_of(&self, edition: Edition) -> &Lines {
        match &self.ours {
            Some(difference) if edition != Edition::Peer => &difference.lines,
            _ => &self.expected,
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| object["kind"] == "Pod")
    }
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

fn target(server: &VeleroServer, row: &Row) -> String {
    format!("{}-{}", row.name, format!("{:?}", server.edition()).to_lowercase())
}

fn placed(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn class(name: &str, binding: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER_NAME,
        "volumeBindingMode": binding,
    })
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn state_of(pod: &Value) -> String {
    pod["metadata"]["labels"][STATE].as_str().unwrap_or("Running").to_owned()
}

fn data_volumes(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes
        .filter(|volume| pods::is_data(volume))
        .filter_map(|volume| volume["name"].as_str().map(str::to_owned))
        .collect()
}

/// The phase of a pod, or that there is none.
fn phase(machine: &Machine, namespace: &str, name: &str) -> Result<String> {
    let pod = machine.read_if_there(&format!("/api/v1/namespaces/{namespace}/pods/{name}"))?;
    Ok(pod.map_or("missing".to_owned(), |pod| pod["status"]["phase"].as_str().unwrap_or_default().to_owned()))
}

/// Waits until a pod is in a phase; one that is Running has filled its volumes too.
fn wait_for_state(machine: &Machine, namespace: &str, name: &str, state: &str, patience: Duration) -> Result<()> {
    wait_until("a pod", patience, || {
        let pod = machine.read_if_there(&format!("/api/v1/namespaces/{namespace}/pods/{name}"))?;
        let status = pod.with_context(|| format!("there is no pod {namespace}/{name}"))?["status"].clone();
        let is_there =
            status["phase"] == state && (state != "Running" || status["containerStatuses"][0]["ready"] == true);
        ensure!(is_there, "{namespace}/{name}: {status}");
        Ok(())
    })
}
