//! What runs a reconciler: it is called when an object changes or is due, and again after a failure.
//!
//! The watch carries names only and the reconciler reads the object when its turn comes. So the memory of an idle
//! server does not grow with what objects hold, and an object that cannot be read stops nobody but itself.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{FutureExt, Stream, stream};
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, Restore};
use velero_cluster::{Error as ClusterError, watched};

use crate::runtime::controller::Controller;
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::lock::lock;
use crate::runtime::named::Named;
use crate::runtime::objects::{Objects, PAGE};
pub(crate) use crate::runtime::work::{Next, Times};
use crate::runtime::work::{Work, work_on};

/// The first pause after a failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How long a watch lasts until it is begun again where it stood. Five seconds later it is known of one that has fallen silent: who
/// was at its other end may be gone without a word.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// How soon an object is looked at again that somebody else in this process has.
pub(crate) const WHILE_HELD: Duration = Duration::from_secs(1);

/// What makes one kind of object become as wanted.
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// The kind that is watched.
    type Kind: VeleroResource;
    /// The controller it is.
    const CONTROLLER: Controller;
    /// How many objects are worked on at the same time; zero means all.
    const CONCURRENCY: u16 = 1;
    /// Whether [`Reconciler::rest`] knows objects at rest: then all are listed first, and only the others are read one by one.
    const KNOWS_REST: bool = false;

    /// Does what the object asks for.
    fn reconcile(&self, object: Self::Kind) -> impl Future<Output = Result<Next>> + Send;

    /// What [`Reconciler::reconcile`] would say of an object for which there is nothing to do now; nothing where that is not
    /// certain.
    fn rest(&self, _object: &Self::Kind) -> Option<Next> {
        None
    }

    /// Called when an object is gone.
    fn forget(&self, _name: &str) {}

    /// Called with an object that cannot be read, and why.
    fn refuse(&self, _name: &str, _problem: &str) -> impl Future<Output = ()> + Send {
        async {}
    }
}

struct Driver<R> {
    reconciler: R,
    objects: Objects,
    failures: Mutex<HashMap<String, u32>>,
}

/// Runs a reconciler until it is told to end and the work in hand is done.
pub(crate) async fn drive<R: Reconciler>(reconciler: R, objects: Objects, times: Times) {
    drive_on(reconciler, objects, stream::pending(), times).await;
}

/// Like [`drive`], and an object is looked at also when its name comes along.
pub(crate) async fn drive_on<R: Reconciler>(
    reconciler: R,
    objects: Objects,
    names: impl Stream<Item = String> + Send + 'static,
    times: Times,
) {
    let api: Api<Named<R::Kind>> = Api::namespaced(objects.cluster().client().clone(), objects.namespace());
    let config = watcher::Config::default().page_size(PAGE).timeout(WATCH_SECONDS);
    let events = watched(api, config);
    let driver = Driver { reconciler, objects, failures: Mutex::default() };
    work_on(Arc::new(driver), events, names, times).await;
}

/// What stands in every line of the log that is written while an object is looked at, whatever the level.
fn span<R: Reconciler>(name: &str) -> tracing::Span {
    let controller = R::CONTROLLER.name();
    match R::Kind::KIND {
        Backup::KIND => tracing::error_span!("reconcile", controller, backup = name),
        Restore::KIND => tracing::error_span!("reconcile", controller, restore = name),
        kind => tracing::error_span!("reconcile", controller, kind, name),
    }
}

impl<R: Reconciler> Work for Driver<R> {
    const AT_ONCE: u16 = R::CONCURRENCY;

    async fn look(&self, name: &str, leave: OwnedSemaphorePermit) -> Next {
        match self.step(name, leave).instrument(span::<R>(name)).await {
            Ok(next) => next,
            Err(error) => self.after_failure(name, &error),
        }
    }

    async fn at_rest(&self) -> Vec<(String, Next)> {
        let mut resting = Vec::new();
        if !R::KNOWS_REST {
            return resting;
        }
        let visitor = |object: R::Kind| {
            if let Some(next) = self.reconciler.rest(&object) {
                resting.push((metadata::name(&object).to_owned(), next));
            }
        };
        if let Err(error) = self.objects.visit("", visitor).await {
            let (controller, error) = (R::CONTROLLER.name(), describe(&error));
            tracing::warn!(controller, error, "The objects could not be listed and are read one by one");
        }
        resting
    }

    fn gone(&self, name: &str) {
        self.failures().remove(name);
        self.reconciler.forget(name);
    }

    fn watch_failed(&self, error: &watcher::Error) {
        let (controller, error) = (R::CONTROLLER.name(), describe(error));
        tracing::warn!(controller, error, "The watch failed and is begun again");
    }
}

impl<R: Reconciler> Driver<R> {
    async fn step(&self, name: &str, leave: OwnedSemaphorePermit) -> Result<Next> {
        // The work is boxed once it begins, and most objects have none.
        let found = self.objects.get::<R::Kind>(name).boxed().await;
        drop(leave);
        let next = match found {
            Ok(None) => Next::Change,
            Ok(Some(object)) => self.reconciler.reconcile(object).boxed().await?,
            Err(Error::Cluster(error @ ClusterError::Unreadable { .. })) => {
                let problem = describe(&error);
                self.reconciler.refuse(name, &problem).await;
                return Err(Error::invalid(R::Kind::KIND, name, problem));
            }
            Err(error) => return Err(error),
        };
        self.failures().remove(name);
        Ok(next)
    }

    /// When an object is looked at again after that failed.
    fn after_failure(&self, name: &str, error: &Error) -> Next {
        // Somebody else wrote first; the next look at the object sees it.
        if matches!(error, Error::Cluster(error) if error.is_conflict()) {
            return Next::After(FIRST_PAUSE);
        }
        let (controller, text) = (R::CONTROLLER.name(), describe(error));
        tracing::error!(controller, kind = R::Kind::KIND, name, error = text, "Reconciling failed");
        if error.waits_for_change_of(R::Kind::KIND, name) {
            return Next::Change;
        }
        let mut failures = self.failures();
        let count = failures.entry(name.to_owned()).or_default();
        *count += 1;
        Next::After(pause(*count))
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        lock(&self.failures)
    }
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        assert_eq!(pause(1), Duration::from_millis(500));
        assert_eq!(pause(3), Duration::from_secs(2));
        assert_eq!(pause(40), LONGEST_PAUSE);
    }
}
