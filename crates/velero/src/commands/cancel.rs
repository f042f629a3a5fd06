//! `velero backup cancel` and `velero restore cancel`: asks the server to end what is not done yet.
//!
//! The request is an annotation, so it needs no server to be made, and the next one that starts sees it.

use anyhow::{Result, anyhow, bail};
use jiff::Timestamp;
use tokio::time::timeout;
use velero_api::annotations::CANCEL_REQUESTED;
use velero_api::dry_run;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Restore, Stage};
use velero_rules::cancellation;

use crate::arguments::CancelArguments;
use crate::commands::select::{aggregate, select, validate};
use crate::commands::wait::{Progress, wait};
use crate::session::Session;

/// How often a request is tried that somebody wrote before: the progress of what runs is written every second.
const TRIES: usize = 20;

/// What can be cancelled.
pub(crate) trait Cancellable: VeleroResource {
    /// How far it has come.
    fn stage(&self) -> Stage;
    /// What its phase is called.
    fn phase_text(&self) -> &str;
    /// Why it failed; empty when it did not.
    fn failure_reason(&self) -> &str;
    /// Whether it only asks what would be done.
    fn is_dry_run(&self) -> bool;
}

impl Cancellable for Backup {
    fn stage(&self) -> Stage {
        self.status.phase().stage()
    }

    fn phase_text(&self) -> &str {
        self.status.phase().as_str()
    }

    fn failure_reason(&self) -> &str {
        &self.status.failure_reason
    }

    fn is_dry_run(&self) -> bool {
        false
    }
}

impl Cancellable for Restore {
    fn stage(&self) -> Stage {
        self.status.phase().stage()
    }

    fn phase_text(&self) -> &str {
        self.status.phase().as_str()
    }

    fn failure_reason(&self) -> &str {
        &self.status.failure_reason
    }

    fn is_dry_run(&self) -> bool {
        dry_run::is_asked(self)
    }
}

/// What came of a request.
enum Answer {
    Requested,
    RequestedBefore,
    /// It cannot be cancelled, and why.
    Refused(String),
}

/// Asks for the end of backups or restores, and waits for it if told to.
pub(crate) async fn cancel<K: Cancellable>(session: &Session, arguments: &CancelArguments) -> Result<()> {
    let word = K::KIND.to_lowercase();
    validate(&arguments.select, &word)?;
    let by_name = !arguments.select.names.is_empty();
    if !by_name && !arguments.confirm && !session.printer.confirm()? {
        return Ok(());
    }
    let selected = select::<K>(session, &arguments.select).await?;
    let (mut errors, mut asked) = (selected.missing, Vec::new());
    for object in selected.items {
        let name = metadata::name(&object).to_owned();
        let said = match request(session, object).await {
            Ok(Answer::Requested) => format!("Cancellation of {word} {name:?} requested."),
            Ok(Answer::RequestedBefore) => format!("Cancellation of {word} {name:?} was requested before."),
            // Whoever takes all means those that can be cancelled.
            Ok(Answer::Refused(_)) if !by_name => continue,
            Ok(Answer::Refused(problem)) => {
                errors.push(anyhow!("{word} {name:?} cannot be cancelled: {problem}"));
                continue;
            }
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        session.printer.line(said)?;
        asked.push(name);
    }
    if asked.is_empty() && errors.is_empty() {
        return session.printer.line(format_args!("No {word}s to cancel found"));
    }
    if arguments.wait {
        for name in &asked {
            errors.extend(await_end::<K>(session, name, arguments).await.err());
        }
    } else if !asked.is_empty() {
        session.printer.line(format_args!("Run `velero {word} describe NAME` to see how it ends."))?;
    }
    aggregate(&errors)
}

/// Writes the request onto an object that has not ended.
async fn request<K: Cancellable>(session: &Session, mut object: K) -> Result<Answer> {
    let name = metadata::name(&object).to_owned();
    for _ in 0..TRIES {
        if let Some(problem) = problem(&object) {
            return Ok(Answer::Refused(problem));
        }
        let annotations = object.meta().annotations.as_ref();
        let words = annotations.and_then(|annotations| annotations.get(CANCEL_REQUESTED)).map(String::as_str);
        if cancellation::reason(words).is_some() {
            return Ok(Answer::RequestedBefore);
        }
        let mut asking = object.clone();
        let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
        asking.meta_mut().annotations.get_or_insert_default().insert(CANCEL_REQUESTED.to_owned(), now);
        match session.cluster.patch_changes_if_unchanged(&object, &asking).await {
            Ok(_) => return Ok(Answer::Requested),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        let found = session.find::<K>(&name).await?;
        object = found.ok_or_else(|| anyhow!("{}.velero.io {name:?} not found", K::PLURAL))?;
    }
    bail!("{} {name:?} changes all the time; try again", K::KIND.to_lowercase())
}

/// Why an object cannot be cancelled.
fn problem<K: Cancellable>(object: &K) -> Option<String> {
    if object.is_dry_run() {
        return Some("it only asks what would be restored, and changes nothing".to_owned());
    }
    let obstacle = cancellation::obstacle(object.stage(), object.meta().deletion_timestamp.is_some());
    obstacle.map(|obstacle| format!("{obstacle} (phase {})", object.phase_text()))
}

/// Waits until one has ended; an error when it was done before it could be cancelled.
async fn await_end<K: Cancellable>(session: &Session, name: &str, arguments: &CancelArguments) -> Result<()> {
    let word = K::KIND.to_lowercase();
    let waited = timeout(arguments.timeout.to_std(), wait::<K>(session, name, progress)).await;
    let Ok(ended) = waited else {
        bail!(
            "{word} {name:?} has not ended within {}; the request stays, and a server that runs carries it out: see `velero \
             server status`",
            arguments.timeout
        );
    };
    let ended = ended?;
    let (phase, reason) = (ended.phase_text(), ended.failure_reason());
    if !cancellation::is_reason(reason) {
        bail!("{word} {name:?} ended as {phase} before the request was seen");
    }
    session.printer.line(format_args!("{} {name:?} ended as {phase}: {reason}", K::KIND))
}

fn progress<K: Cancellable>(object: &K) -> Progress {
    let (phase, ended) = (object.phase_text().to_owned(), object.stage().ending().is_some());
    Progress { phase, ended, ..Progress::default() }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::BackupPhase;

    use super::*;

    #[test]
    fn what_cannot_be_cancelled_says_why_and_in_which_phase_it_is() {
        let mut backup = Backup::new("velero", "b", Default::default());
        assert_eq!(problem(&backup), None);
        backup.status.phase = Some(BackupPhase::Completed);
        assert_eq!(problem(&backup).unwrap(), "it has ended already (phase Completed)");
        let restore = Restore::new("velero", "r", Default::default());
        assert_eq!(problem(&restore), None);
        assert!(problem(&dry_run::ask(&restore, "look")).unwrap().contains("changes nothing"));
    }
}
