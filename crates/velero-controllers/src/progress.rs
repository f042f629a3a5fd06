//! Tells how far a backup or restore has come, at most once in a while.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use velero_api::resource::VeleroResource;

use crate::context::Context;
use crate::error::describe;
use crate::objects::name;

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
    let mut written = object.clone();
    loop {
        tokio::select! {
            () = done.cancelled() => return,
            changed = progress.changed() => if changed.is_err() { return },
        }
        let mut next = written.clone();
        put(&mut next, &progress.borrow_and_update());
        match context.objects.force(&written, &next).await {
            Ok(_) => written = next,
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
