//! The restore that resumes another, and its name.

use velero_api::annotations::{
    ASKED_FIELDS, AWAITED, CANCEL_REQUESTED, CLEAN_UP_OWED, DRY_RUN, DRY_RUN_SERVER, HOLDER_IDENTITY, RESUME_OF,
};
use velero_api::metadata::{annotation, name, namespace};
use velero_api::v1::{Restore, RestoreSpec};

use crate::Unusable;
use crate::asked::asked_spec;

/// What an annotation says of one restore and not of the next.
const OF_THE_RUN: [&str; 9] = [
    HOLDER_IDENTITY,
    CLEAN_UP_OWED,
    CANCEL_REQUESTED,
    AWAITED,
    ASKED_FIELDS,
    RESUME_OF,
    DRY_RUN,
    DRY_RUN_SERVER,
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// What stands between the name of the first restore and the number of the one that resumes it.
const RESUME: &str = "-resume-";
/// The longest name an object can have.
const LONGEST_NAME: usize = 253;

/// The restore that resumes another: it asks for the same, of the same backup, and says whom it resumes.
pub fn resuming(resumed: &Restore, own_name: &str) -> Result<Restore, Unusable> {
    let spec = RestoreSpec {
        // The newest backup of a schedule may be another one by now.
        backup_name: resumed.spec.backup_name.clone(),
        schedule_name: String::new(),
        ..asked(resumed)?
    };
    let mut resuming = Restore::new(namespace(resumed), own_name, spec);
    resuming.metadata.labels.clone_from(&resumed.metadata.labels);
    let mut annotations = resumed.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OF_THE_RUN.contains(&key.as_str()));
    annotations.insert(RESUME_OF.to_owned(), name(resumed).to_owned());
    resuming.metadata.annotations = Some(annotations);
    Ok(resuming)
}

fn asked(resumed: &Restore) -> Result<RestoreSpec, Unusable> {
    asked_spec(annotation(resumed, ASKED_FIELDS), &resumed.spec).map_err(|error| {
        let restore = name(resumed);
        Unusable(format!(
            "its annotation {ASKED_FIELDS} cannot be read ({error}); take it off to resume what its spec says: kubectl annotate \
             restores.velero.io {restore} {ASKED_FIELDS}-"
        ))
    })
}

/// The name of the restore that resumes another, the first that is free: it follows from the name of the first restore and
/// counts on.
pub fn resume_name(resumed: &Restore, is_taken: impl Fn(&str) -> bool) -> String {
    let (own, resumes) = (name(resumed), !annotation(resumed, RESUME_OF).is_empty());
    let numbered = own.rsplit_once(RESUME).filter(|(_, number)| number.parse::<u32>().is_ok() && resumes);
    let first = numbered.map_or(own, |(first, _)| first);
    let named = |number: u32| {
        let suffix = format!("{RESUME}{number}");
        let room = first.floor_char_boundary(LONGEST_NAME - suffix.len());
        format!("{}{suffix}", first[..room].trim_end_matches(['-', '.']))
    };
    let mut number = 1;
    while is_taken(&named(number)) {
        number += 1;
    }
    named(number)
}
