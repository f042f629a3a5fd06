//! What somebody asked to be cancelled, by an annotation: how it is heard of, and the end of what never began.
//!
//! An object that is worked on is not handed out again before the work ends, so whoever works on it looks now and then.

use std::time::Duration;

use velero_api::annotations::CANCEL_REQUESTED;
use velero_api::metadata::{name, uid};
use velero_api::resource::VeleroResource;
use velero_rules::cancellation::reason;

use crate::lifecycle::kind::Kind;
use crate::lifecycle::phase::move_to;
use crate::runtime::context::Context;
use crate::runtime::error::Result;

/// How often is looked whether somebody asked.
const LOOK: Duration = Duration::from_secs(2);

/// In which words somebody asks for the end of a backup or restore; nothing when nobody does.
pub(crate) fn requested<K: VeleroResource>(object: &K) -> Option<String> {
    let annotation = object.meta().annotations.as_ref().and_then(|annotations| annotations.get(CANCEL_REQUESTED));
    reason(annotation.map(String::as_str))
}

/// Ends when somebody asks for the end of a backup or restore; gives their words.
pub(crate) async fn until_requested<K: VeleroResource>(context: &Context, object: &K) -> String {
    loop {
        tokio::time::sleep(LOOK).await;
        // A look that fails is repeated: only an answer tells.
        if let Ok(Some(reason)) = requested_by_now(context, object).await {
            return reason;
        }
    }
}

/// Looks whether somebody asks by now for the end of a backup or restore.
pub(crate) async fn requested_by_now<K: VeleroResource>(context: &Context, object: &K) -> Result<Option<String>> {
    let found = context.objects.get::<K>(name(object)).await?;
    Ok(found.filter(|found| uid(found) == uid(object)).as_ref().and_then(requested))
}

/// A backup or restore that never begins, since somebody asked for that. It is refused like one that cannot be carried
/// out, so it owns nothing and has no files.
pub(crate) fn never_begun<K: Kind>(object: &K, reason: &str) -> Result<K> {
    let mut ended = object.clone();
    move_to(&mut ended, K::FAILED_VALIDATION)?;
    ended.put_validation_errors(vec![format!("{reason}, before it began")]);
    ended.put_failure_reason(reason.to_owned());
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase};

    use super::*;

    #[test]
    fn what_is_cancelled_before_it_began_says_so_and_what_has_begun_is_no_such_thing() {
        let mut restore = Restore::new("velero", "r", Default::default());
        assert_eq!(requested(&restore), None);
        let words = "2026-11-17T02:03:04Z".to_owned();
        restore.metadata.annotations = Some([(CANCEL_REQUESTED.to_owned(), words)].into());
        let reason = requested(&restore).unwrap();
        let ended = never_begun(&restore, &reason).unwrap();
        assert_eq!(*ended.status.phase(), RestorePhase::FailedValidation);
        assert_eq!(ended.status.failure_reason, "cancelled by request at 2026-11-17T02:03:04Z");
        assert!(ended.status.validation_errors[0].contains("before it began"));
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.status.phase = Some(BackupPhase::InProgress);
        assert!(never_begun(&backup, &reason).is_err());
    }
}
