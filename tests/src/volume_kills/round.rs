//! Transfers side by side, each kept at its moment, and one kill that meets them all.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::machine::wait_until;
use velero_testkit::progress::say;

use super::moment::is_at_least;
use super::{DEADLINE, Ending, Kills, Moment, Victim};
use crate::volume_data::movers;
use crate::{backups, restores};

/// How long a moment may take to come.
const UNTIL_MOMENT: Duration = Duration::from_secs(120);

/// How long the next server may take to cancel what nobody waits for.
const UNTIL_CANCELED: Duration = Duration::from_secs(60);

/// One transfer of a round.
pub(super) struct Case {
    pub(super) moment: Moment,
    /// The name of the backup or restore.
    pub(super) name: String,
}

/// A transfer at its moment.
pub(super) struct Standing {
    /// The name of the object that moves the data.
    pub(super) object: String,
    /// The phase it was in just before the kill.
    pub(super) phase: String,
}

/// What came of a kill.
pub struct Round {
    /// How each transfer ended.
    pub endings: Vec<(Moment, Result<Ending>)>,
    /// What stays of those who moved data.
    pub left: Vec<String>,
}

impl Kills {
    /// Has somebody killed while transfers stand at their moments, and waits for what comes of it.
    pub fn round(&self, victim: Victim, moments: &[Moment]) -> Result<Round> {
        self.round_with(victim, moments, &json!({}), &json!({}))
    }

    /// Like `round`, with annotations and fields of the spec for the backups and restores.
    pub fn round_with(&self, victim: Victim, moments: &[Moment], annotations: &Value, fields: &Value) -> Result<Round> {
        let title = velero_testkit::harness::unique_name(&format!("{victim:?}").to_lowercase());
        let case = |moment: &Moment| Case { moment: *moment, name: format!("{title}-{moment:?}").to_lowercase() };
        let mut cases: Vec<Case> = moments.iter().map(case).collect();
        cases.sort_by_key(|case| case.moment.order());
        let mut standing: Vec<Result<Standing>> = Vec::new();
        for group in cases.chunk_by(|one, other| one.moment.order() == other.moment.order()) {
            let begin = |case: &Case| self.begin(case.moment, &case.name, annotations, fields);
            let begun: Vec<Result<()>> = group.iter().map(begin).collect();
            let at_moment = |(case, begun): (&Case, Result<()>)| begun.and_then(|()| self.await_moment(case));
            standing.extend(group.iter().zip(begun).map(at_moment));
        }
        let objects: Vec<String> = standing.iter().flatten().map(|standing| standing.object.clone()).collect();
        let struck = victim.strike(&self.machine, &self.server, &objects)?;
        say(format!("{victim:?}: {} of {} are struck", struck.len(), cases.len()));
        self.go_on(victim, &cases)?;
        let endings = cases.iter().zip(standing).map(|(case, standing)| {
            let ending = standing.and_then(|standing| self.ending(case, standing, &struck));
            say(format!("{victim:?} at {:?}: {ending:?}", case.moment));
            (case.moment, ending)
        });
        let endings: Vec<(Moment, Result<Ending>)> = endings.collect();
        let left = self.left(&objects)?;
        for case in cases.iter().filter(|case| case.moment.is_restore()) {
            self.machine.delete(&format!("/api/v1/namespaces/{}", case.name))?;
        }
        Ok(Round { endings, left })
    }

    /// Lets the requests pass that were held, and has whoever was killed come back.
    fn go_on(&self, victim: Victim, cases: &[Case]) -> Result<()> {
        let open = |case: &Case| self.gates.open(case.moment.namespace());
        if victim == Victim::LostKubelet {
            for case in cases {
                // That it does not end is told with its ending.
                let _ = self.owner(case);
            }
        }
        if victim != Victim::Server {
            // What ends now ends while nobody looks.
            cases.iter().for_each(open);
            return victim.revive(&self.machine, &self.server);
        }
        victim.revive(&self.machine, &self.server)?;
        cases.iter().filter(|case| case.moment.is_move()).for_each(open);
        for case in cases.iter().filter(|case| !case.moment.is_move()) {
            // That it is not cancelled is told with its ending.
            let _ = self.until_cancelled(case);
            open(case);
        }
        Ok(())
    }

    /// Waits until somebody has cancelled what moves the data of a case, or it has ended.
    fn until_cancelled(&self, case: &Case) -> Result<()> {
        wait_until("the cancel", UNTIL_CANCELED, || {
            let object = self.object(case)?.context("it is gone")?;
            let phase = object["status"]["phase"].as_str().unwrap_or_default();
            ensure!(object["spec"]["cancel"] == true || phase == "Completed", "it is {phase}");
            Ok(())
        })
    }

    /// Waits for the moment of a case.
    fn await_moment(&self, case: &Case) -> Result<Standing> {
        let begun = Instant::now();
        loop {
            let object = self.object(case)?;
            let phase = object.as_ref().and_then(|object| object["status"]["phase"].as_str()).unwrap_or_default();
            let is_held = case.moment.held().is_none() || self.gates.is_reached(case.moment.namespace());
            if let Some(object) = &object
                && is_at_least(phase, case.moment.phase())
                && is_held
            {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                return Ok(Standing { object: name, phase: phase.to_owned() });
            }
            let status = object.map_or(Value::Null, |object| object["status"].clone());
            ensure!(begun.elapsed() < UNTIL_MOMENT, "{}: {:?} does not come: {status}", case.name, case.moment);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The object that moves the data of a case.
    pub(super) fn object(&self, case: &Case) -> Result<Option<Value>> {
        let (plural, label) = case.moment.objects();
        Ok(movers(&self.server, plural, label, &case.name)?.into_iter().next())
    }

    /// The backup or restore of a case, once it has ended.
    pub(super) fn owner(&self, case: &Case) -> Result<Value> {
        let ended = if case.moment.is_restore() { restores::ended } else { backups::ended };
        ended(&self.server, &case.name, DEADLINE).with_context(|| case.name.clone())
    }
}
