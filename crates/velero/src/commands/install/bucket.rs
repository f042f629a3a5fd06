//! A look at the bucket of an installation before anything is sent: whose backups lie there already?
//!
//! A bucket that another cluster was seen to use lately is refused. Backups of which nobody says who made them, as Velero's, are told
//! of: nothing in a bucket tells a new cluster that takes over from one that is lost from one that would remove the backups of
//! its neighbour.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use velero_store::check::{Mode, Observation, Severity, diagnose, observe, unknown_backups};

use crate::commands::backup_location::known_backups;
use crate::commands::neighbour;
use crate::install::{Installation, bucket};
use crate::session::Session;

/// How long the bucket may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Refuses a bucket that another cluster uses, and tells what else is to be known of it. It is looked at from here, which is not where
/// the server looks from.
pub(super) async fn look(session: &Session, installation: &Installation<'_>) -> Result<()> {
    let Some(config) = bucket(installation) else { return Ok(()) };
    let storage = &installation.arguments.storage;
    match tokio::time::timeout(PATIENCE, observe(&config, &storage.prefix, Mode::ReadOnly)).await {
        Ok(seen) => {
            if !storage.share_bucket && !seen.backups.is_empty() {
                neighbour::refuse(session, &config, &storage.prefix).await?;
            }
            let known = known_backups(session).await;
            if let Some(words) = words(&seen, known.as_ref()) {
                session.printer.note(words);
            }
        }
        Err(_) => session.printer.note(unseen(&config.bucket, "it does not answer in time")),
    }
    Ok(())
}

/// What is said of what was seen; nothing where all that lies there is of this cluster.
fn words(seen: &Observation, known: Option<&BTreeSet<String>>) -> Option<String> {
    let (bucket, prefix) = (&seen.place.bucket, &seen.place.prefix);
    if let Some(finding) = unknown_backups(seen, known) {
        return Some(format!(
            "WARNING: --bucket {bucket:?} --prefix {prefix:?}: {finding}. So: install with another --prefix, and read these backups \
             through velero backup-location create NAME --access-mode ReadOnly. If this cluster takes over from one that is lost, \
             all is well."
        ));
    }
    let trouble = diagnose(seen).into_iter().find(|finding| finding.severity == Severity::Error)?;
    Some(unseen(bucket, &trouble.to_string()))
}

fn unseen(bucket: &str, why: &str) -> String {
    format!(
        "Note: --bucket {bucket:?}, seen from here: {why}. What the server sees of it is said by velero backup-location check default"
    )
}

#[cfg(test)]
mod tests {
    use velero_store::check::{Failure, Outcome, Place, Right, Step};

    use super::*;

    fn seen(backups: &[&str], listed: Outcome) -> Observation {
        Observation {
            place: Place { bucket: "b".to_owned(), prefix: "p/".to_owned(), ..Place::default() },
            backups: backups.iter().map(|name| (*name).to_owned()).collect(),
            steps: vec![Step { right: Right::List, outcome: listed }],
            ..Observation::default()
        }
    }

    #[test]
    fn backups_of_another_cluster_are_told_with_the_remedies_and_those_of_this_one_are_not() {
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        for (backups, known, expected) in [
            (&["nightly-1"][..], Some(known(&[])), Some("that are not of this cluster (nightly-1)")),
            (&["nightly-1"], None, Some("of this cluster or of another")),
            (&["nightly-1"], Some(known(&["nightly-1", "own"])), None),
            (&[], Some(known(&[])), None),
        ] {
            let told = words(&seen(backups, Outcome::Done), known.as_ref());
            assert_eq!(told.is_some(), expected.is_some(), "{told:?}");
            for part in expected.iter().chain(&["--prefix \"p/\"", "another --prefix", "ReadOnly", "is lost"]) {
                assert!(told.as_ref().is_none_or(|told| told.contains(part)), "{part}: {told:?}");
            }
        }
    }

    #[test]
    fn a_bucket_that_cannot_be_seen_from_here_is_a_note() {
        let failure = Failure { text: "no way".to_owned(), ..Failure::default() };
        let told = words(&seen(&[], Outcome::Failed(failure)), None).unwrap();
        assert!(told.starts_with("Note: --bucket \"b\", seen from here: could not list an object: no way."), "{told}");
    }
}
