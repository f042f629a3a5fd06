//! Tells how far a backup or restore has come, at most once in a while.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_api::metadata::name;
use velero_api::resource::VeleroResource;

use crate::runtime::context::Context;
use crate::runtime::error::{Error, describe};
use crate::runtime::ownership::is_still;

/// Writes the progress until the work is done, `pause` apart. `put` makes it part of the object. No report is on its way
/// any more when this returns.
pub(crate) async fn write<K: VeleroResource, P>(
    context: &Context,
    object: &K,
    pause: Duration,
    mut progress: watch::Receiver<P>,
    done: CancellationToken,
    put: impl Fn(&mut K, &P),
) {
    let (mut written, mut latest) = (object.clone(), object.clone());
    loop {
        tokio::select! {
            () = done.cancelled() => return,
            changed = progress.changed() => if changed.is_err() { return },
        }
        let mut next = written.clone();
        put(&mut next, &progress.borrow_and_update());
        match context.objects.patch_since(&latest, &written, &next).await {
            Ok(found) => (latest, written) = (found, next),
            Err(Error::Cluster(error)) if error.is_conflict() => match context.objects.get::<K>(name(object)).await {
                Ok(Some(found)) if is_still(&found, object) => {
                    latest = found;
                    progress.mark_changed();
                }
                // Whoever has it now writes how it goes on.
                Ok(_) => return,
                Err(error) => tracing::warn!(error = describe(&error), "It is not known who works on an object"),
            },
            Err(error) => {
                let (kind, name) = (K::KIND, name(object));
                tracing::warn!(kind, name, error = describe(&error), "The progress could not be written");
            }
        }
        tokio::select! {
            () = done.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
