//! Why a location does not work: `probe` tries it out, `diagnosis` says what that means.
//!
//! The two are kept apart: [`observe`] talks to the store and judges nothing, [`diagnose`] is a function from what was
//! seen to causes with remedies. The server, which only lists, has its failures explained by the same function.

mod bucket_settings;
mod diagnosis;
mod observation;
mod probe;
mod writers;

pub use bucket_settings::{BucketSettings, Look, Retention, Rule};
pub use diagnosis::{Cause, Finding, Severity, diagnose, unknown_backups};
pub use observation::{ClockReading, Failure, Observation, Outcome, Place, Right, Step};
pub use probe::{Mode, observe};
pub use writers::{Writer, neighbour, writers};

use velero_api::with_causes;

use crate::{Error, Recorder, StoreConfig};

/// Why a location could not be listed, in the words of the check; nothing where no cause is known. What passed is taken
/// from the recorder of the config.
pub async fn explain(config: &StoreConfig, prefix: &str, error: &Error) -> Option<Finding> {
    let recorder = config.recorder.clone().unwrap_or_default();
    let mut seen = probe::describe(config, prefix).await;
    match error {
        Error::ForeignFolders { folders } => seen.foreign_folders.clone_from(folders),
        _ => {
            note_failure(&mut seen, error, &recorder);
            let sent_on_to = probe::sent_on_to(&seen.place.address).await;
            seen.sent_on_to = sent_on_to;
        }
    }
    seen.clock = probe::clock(&recorder);
    diagnose(&seen).into_iter().find(|finding| ![Cause::Other, Cause::Config].contains(&finding.cause))
}

/// What is wrong with the description of a location, as far as that can be said without asking its store.
pub async fn refusal(config: &StoreConfig) -> Option<Finding> {
    let mut seen = probe::describe(config, "").await;
    let error = config.backend().await.err()?;
    probe::refuse(&mut seen, &error, &Recorder::default());
    diagnose(&seen).into_iter().next()
}

/// What is wrong with a prefix that no key can have; nothing where keys can.
pub fn refused_prefix(prefix: &str) -> Option<Finding> {
    diagnose(&probe::refused_prefix(prefix)?).into_iter().next()
}

fn note_failure(seen: &mut Observation, error: &Error, recorder: &Recorder) {
    if matches!(error, Error::Request { .. } | Error::NotFound { .. }) {
        let failure = Failure { text: with_causes(error), exchange: recorder.last() };
        seen.steps.push(Step { right: Right::List, outcome: Outcome::Failed(failure) });
    } else {
        probe::refuse(seen, error, recorder);
    }
}
