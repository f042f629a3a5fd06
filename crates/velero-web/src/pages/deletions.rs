//! What became of the requests to delete a backup: one that was refused, or came to no end, leaves the backup where it is and says why.

use std::cmp::Reverse;

use jiff::Timestamp;
use kube::api::ListParams;
use maud::{Markup, html};
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, DeleteBackupRequest, DeleteBackupRequestPhase};

use super::parts;
use crate::problem::Problem;
use crate::text::moment;
use crate::user::{Right, User};

/// How many requests of a backup are looked at: none is kept for longer than a day.
const MOST: u32 = 100;
/// How many of them are told, and how many errors of each.
const SHOWN: usize = 3;
const MOST_ERRORS: usize = 20;

/// The requests to delete a backup, newest first.
pub(crate) async fn of_backup(user: &User, backup: &Backup) -> Markup {
    match list(user, backup).await {
        Ok(requests) => told(&requests, Timestamp::now()),
        Err(problem) => problem.note(),
    }
}

async fn list(user: &User, backup: &Backup) -> Result<Vec<DeleteBackupRequest>, Problem> {
    let plural = DeleteBackupRequest::PLURAL;
    user.must(Right::to("list", plural)).await?;
    let wanted = ListParams::default().labels(&selector(backup)).limit(MOST);
    let listed = user.api::<DeleteBackupRequest>().list(&wanted).await;
    let mut requests = user.checked(&format!("list {plural}"), listed)?.items;
    requests.sort_by_key(|request| Reverse(asked(request)));
    Ok(requests)
}

/// The labels that requests for this backup are made with.
fn selector(backup: &Backup) -> String {
    let labels = DeleteBackupRequest::of(backup).metadata.labels.unwrap_or_default();
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

fn asked(request: &DeleteBackupRequest) -> Option<Timestamp> {
    moment(request.metadata.creation_timestamp.as_ref())
}

fn told(requests: &[DeleteBackupRequest], now: Timestamp) -> Markup {
    let (shown, rest) = requests.split_at(requests.len().min(SHOWN));
    html! {
        @for request in shown { (note(request, now)) }
        @if !rest.is_empty() { p { "and " (rest.len()) " older requests to delete it" } }
    }
}

fn note(request: &DeleteBackupRequest, now: Timestamp) -> Markup {
    let (phase, errors) = (request.status.phase(), &request.status.errors);
    let words = match (phase, errors.is_empty()) {
        (DeleteBackupRequestPhase::New, _) => "Its deletion waits",
        (DeleteBackupRequestPhase::InProgress, _) => "It is being deleted",
        (DeleteBackupRequestPhase::Processed, false) => "It could not be deleted",
        (DeleteBackupRequestPhase::Processed | DeleteBackupRequestPhase::Unknown(_), _) => "Its deletion",
    };
    html! {
        div.note role="note" {
            p { strong { (words) ": " } (phase.as_str()) ", asked for " (parts::moment(asked(request), now)) }
            @if !errors.is_empty() {
                ul { @for error in errors.iter().take(MOST_ERRORS) { li { (parts::shortened(error)) } } }
                @if errors.len() > MOST_ERRORS { p { "and " (errors.len() - MOST_ERRORS) " more errors" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use DeleteBackupRequestPhase::{InProgress, New, Processed};

    use super::*;

    fn request(phase: DeleteBackupRequestPhase, errors: &[&str]) -> DeleteBackupRequest {
        let mut request = DeleteBackupRequest::of(&Backup::new("velero", "b", Default::default()));
        request.status.phase = Some(phase);
        request.status.errors = errors.iter().map(|error| (*error).to_owned()).collect();
        request
    }

    #[test]
    fn a_deletion_that_was_refused_or_failed_says_why() {
        let told = |requests: &[DeleteBackupRequest]| told(requests, Timestamp::UNIX_EPOCH).into_string();
        let refused = told(&[request(Processed, &["location <b>cold</b> is in read-only mode"])]);
        assert!(refused.contains("It could not be deleted") && refused.contains("Processed"), "{refused}");
        assert!(refused.contains("&lt;b&gt;cold") && !refused.contains("<b>"), "{refused}");
        for (phase, words) in [(New, "Its deletion waits"), (InProgress, "It is being deleted")] {
            let text = told(&[request(phase, &[])]);
            assert!(text.contains(words) && !text.contains("<ul>"), "{text}");
        }
        let many = told(&vec![request(Processed, &["no"; MOST_ERRORS + 2]); SHOWN + 4]);
        assert!(many.contains("and 2 more errors") && many.contains("and 4 older requests"), "{many}");
        assert_eq!(told(&[]), "");
    }

    #[test]
    fn requests_are_found_by_the_labels_that_they_are_made_with() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some("u-1".to_owned());
        assert_eq!(selector(&backup), "velero.io/backup-name=b,velero.io/backup-uid=u-1");
    }
}
