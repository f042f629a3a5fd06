//! Clean-up that an interrupted backup or restore owes.
//!
//! A run that a server was killed in leaves operations, snapshots and files behind. What is known of them is in the
//! store. While that is away the object says Failed, and an annotation says that something is owed; it survives any
//! number of restarts, and goes when the debt is paid.

use velero_api::annotations::CLEAN_UP_OWED;
use velero_api::resource::VeleroResource;

use crate::runtime::context::Context;
use crate::runtime::driver::Next;
use crate::runtime::error::{Error, Result};

/// Notes that an object owes clean-up.
pub(crate) fn owe<K: VeleroResource>(object: &mut K, what: &str) {
    let annotations = object.meta_mut().annotations.get_or_insert_default();
    annotations.insert(CLEAN_UP_OWED.to_owned(), what.to_owned());
}

/// Whether an object owes clean-up.
pub(crate) fn owes<K: VeleroResource>(object: &K) -> bool {
    object.meta().annotations.as_ref().is_some_and(|annotations| annotations.contains_key(CLEAN_UP_OWED))
}

/// Takes the note off an object.
pub(crate) fn settle<K: VeleroResource>(object: &mut K) {
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.remove(CLEAN_UP_OWED);
    }
}

/// Writes that a debt is paid; nobody minds if the object is gone.
pub(crate) async fn write<K: VeleroResource>(context: &Context, before: &K, after: &K) -> Result<Next> {
    match context.objects.force(before, after).await {
        Err(Error::Cluster(error)) if error.is_not_found() => {}
        outcome => drop(outcome?),
    }
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use velero_api::v1::Backup;

    use super::*;

    #[test]
    fn a_debt_is_known_until_it_is_settled() {
        let mut backup = Backup::new("velero", "b", Default::default());
        assert!(!owes(&backup));
        owe(&mut backup, "files");
        assert!(owes(&backup));
        settle(&mut backup);
        assert!(!owes(&backup));
    }
}
