//! How a transfer and its owner ended, and whether what they say is true.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use velero_testkit::machine::wait_until;

use super::Kills;
use super::round::{Case, Standing};
use crate::{restores, volume_data};

/// How long the object that moves data may take to end once its owner has.
const OBJECT_PATIENCE: Duration = Duration::from_secs(150);

/// How a case ended.
#[derive(Debug)]
pub struct Ending {
    /// Whether there was somebody to kill.
    pub struck: bool,
    /// The phase of the object that moves the data, just before the kill.
    pub at: String,
    /// The phase of the object that moves the data.
    pub object: String,
    /// What that object says.
    pub message: String,
    /// The phase of the backup or restore.
    pub owner: String,
    /// What is said and not true, or true and not said.
    pub untrue: Vec<String>,
}

impl Kills {
    /// Waits for the end of a case, and looks whether it is true.
    pub(super) fn ending(&self, case: &Case, standing: Standing, struck: &[String]) -> Result<Ending> {
        let owner = self.owner(case)?;
        let object = self.ended(case)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut ending = Ending {
            struck: struck.contains(&standing.object),
            at: standing.phase,
            object: text(&object["status"]["phase"]),
            message: text(&object["status"]["message"]),
            owner: text(&owner["status"]["phase"]),
            untrue: Vec::new(),
        };
        let is_completed = ending.object == "Completed";
        let found = match ending.owner.as_str() {
            "Completed" => self.check_data(case, &object),
            "PartiallyFailed" => self.check_told(case),
            _ => check_reason(&owner),
        };
        ending.untrue.extend(found.err().map(|problem| format!("{problem:#}")));
        if !is_completed && !ending.message.contains(case.moment.namespace()) && !ending.message.contains(&case.name) {
            ending.untrue.push("the message of the object does not name the volume".to_owned());
        }
        Ok(ending)
    }

    /// The object that moves the data, once it has ended.
    fn ended(&self, case: &Case) -> Result<Value> {
        let mut object = Value::Null;
        wait_until("the object that moves the data", OBJECT_PATIENCE, || {
            object = self.object(case)?.context("it is gone")?;
            let phase = object["status"]["phase"].as_str().unwrap_or_default();
            ensure!(["Completed", "Failed", "Canceled"].contains(&phase), "it is {phase}: {}", object["status"]);
            Ok(())
        })
        .with_context(|| case.name.clone())?;
        Ok(object)
    }

    /// The data must be where it is said to be.
    fn check_data(&self, case: &Case, object: &Value) -> Result<()> {
        let status = &object["status"];
        if case.moment.is_restore() {
            volume_data::wait_for_pods(&self.machine, &case.name, &["web"])?;
            let restored = volume_data::picture(&self.machine, &case.name, "web", "data")?;
            let source = self.pictures.iter().find(|(namespace, _)| *namespace == case.moment.namespace());
            ensure!(source.is_some_and(|(_, source)| *source == restored), "other data was restored:\n{restored}");
            return Ok(());
        }
        let least = u64::from(case.moment.fresh()) << 20;
        let bytes = |field: &str| status["progress"][field].as_u64().unwrap_or_default();
        ensure!(status["snapshotID"].as_str().is_some_and(|id| !id.is_empty()), "there is no snapshot: {status}");
        ensure!(bytes("bytesDone") >= least && bytes("bytesDone") == bytes("totalBytes"), "data is missing: {status}");
        Ok(())
    }

    /// What failed must be told with the volume and its pod or claim.
    fn check_told(&self, case: &Case) -> Result<()> {
        let namespace = if case.moment.is_restore() { case.name.as_str() } else { case.moment.namespace() };
        let subject = if case.moment.is_move() { format!("{namespace}/data") } else { format!("pod {namespace}/web") };
        let told = if case.moment.is_restore() {
            format!("{:?}", restores::ending(&self.server, &self.prefix, &case.name)?.messages)
        } else {
            self.server.velero(&["backup", "describe", &case.name, "--details"])?
        };
        let mut errors = told.lines().filter(|line| line.contains(&subject) && line.contains("data"));
        ensure!(errors.next().is_some(), "no error names {subject}: {told}");
        Ok(())
    }
}

/// A failure must have a reason.
fn check_reason(owner: &Value) -> Result<()> {
    let reason = owner["status"]["failureReason"].as_str().unwrap_or_default();
    ensure!(!reason.is_empty(), "it failed without a reason: {}", owner["status"]);
    Ok(())
}
