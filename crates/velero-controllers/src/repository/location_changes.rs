//! Another bucket or another way to it means another repository: those of a location that has changed or is gone are
//! established again.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::json;
use velero_api::metadata::name;
use velero_api::v1::{BackupRepository, BackupRepositoryPhase, BackupStorageLocation};

use crate::repository::state::RE_ESTABLISH;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::{Result, describe};
use crate::runtime::lock::lock;

/// Watches BackupStorageLocations for their repositories.
pub(crate) struct RepositoryLocationReconciler {
    context: SharedContext,
    /// The locations as they were last seen, those that are gone included.
    seen: Mutex<HashMap<String, Seen>>,
}

/// What counts of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Where it is and how to get there; empty for one that is gone.
    place: String,
    is_available: bool,
}

/// Which repositories of a location are established again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Affected {
    All,
    /// Those that could not be used so far.
    NotReady,
    None,
}

impl Seen {
    /// As Velero sees it: bucket, prefix, certificates and config. Other credentials lead to the same repository.
    fn of(location: &BackupStorageLocation) -> Self {
        let storage = &location.spec.object_storage;
        let place = json!({
            "bucket": storage.bucket,
            "prefix": storage.prefix,
            "caCert": storage.ca_cert,
            "caCertRef": storage.ca_cert_ref,
            "config": location.spec.config,
        });
        Self { place: place.to_string(), is_available: location.is_available() }
    }

    fn affected(&self, before: Option<&Self>) -> Affected {
        match before {
            None => Affected::None,
            Some(before) if before.place != self.place => Affected::All,
            Some(before) if !before.is_available && self.is_available => Affected::NotReady,
            Some(_) => Affected::None,
        }
    }
}

impl RepositoryLocationReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, seen: Mutex::default() }
    }
}

impl Reconciler for RepositoryLocationReconciler {
    type Kind = BackupStorageLocation;
    const CONTROLLER: Controller = Controller::BackupRepository;

    async fn reconcile(&self, location: BackupStorageLocation) -> Result<Next> {
        let (place, now) = (name(&location), Seen::of(&location));
        let affected = now.affected(lock(&self.seen).get(place));
        re_establish(&self.context, place, affected).await?;
        lock(&self.seen).insert(place.to_owned(), now);
        Ok(Next::Change)
    }

    fn forget(&self, name: &str) {
        lock(&self.seen).insert(name.to_owned(), Seen::default());
        let (context, name) = (self.context.clone(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = re_establish(&context, &name, Affected::All).await {
                let error = describe(&error);
                tracing::warn!(location = name, error, "The repositories of a removed location could not be told");
            }
        });
    }
}

/// Says of repositories of a location that they are to be established again.
async fn re_establish(context: &Context, location: &str, affected: Affected) -> Result<()> {
    if affected == Affected::None {
        return Ok(());
    }
    for repository in context.objects.list::<BackupRepository>("").await? {
        let is_affected = match repository.status.phase() {
            BackupRepositoryPhase::NotReady => true,
            BackupRepositoryPhase::Ready => affected == Affected::All,
            _ => false,
        };
        if repository.spec.backup_storage_location != location || !is_affected {
            continue;
        }
        tracing::info!(repository = name(&repository), location, "The location has changed: {RE_ESTABLISH}");
        let mut changed = repository.clone();
        changed.status.phase = Some(BackupRepositoryPhase::NotReady);
        changed.status.message = RE_ESTABLISH.to_owned();
        context.objects.patch(&repository, &changed).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use velero_api::v1::{BackupStorageLocationPhase, BackupStorageLocationSpec};

    use super::*;

    fn location(change: impl FnOnce(&mut BackupStorageLocation)) -> Seen {
        let mut location = BackupStorageLocation::new("velero", "default", BackupStorageLocationSpec::default());
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        change(&mut location);
        Seen::of(&location)
    }

    #[test]
    fn what_leads_to_another_repository_establishes_all_again() {
        let before = location(|_| {});
        let away = location(|location| location.status.phase = Some(BackupStorageLocationPhase::Unavailable));
        for (now, before, expected) in [
            (before.clone(), None, Affected::None),
            (before.clone(), Some(before.clone()), Affected::None),
            (away.clone(), Some(before.clone()), Affected::None),
            (before.clone(), Some(away), Affected::NotReady),
            (before.clone(), Some(Seen::default()), Affected::All),
            (location(|l| l.spec.object_storage.bucket = "b".to_owned()), Some(before.clone()), Affected::All),
            (location(|l| l.spec.object_storage.prefix = "p".to_owned()), Some(before.clone()), Affected::All),
            (
                location(|l| l.spec.object_storage.ca_cert = Some(ByteString(vec![1]))),
                Some(before.clone()),
                Affected::All,
            ),
            (
                location(|l| l.spec.object_storage.ca_cert_ref = Some(Default::default())),
                Some(before.clone()),
                Affected::All,
            ),
            (
                location(|l| drop(l.spec.config.insert("region".to_owned(), "x".to_owned()))),
                Some(before.clone()),
                Affected::All,
            ),
            (location(|l| l.spec.credential = Some(Default::default())), Some(before), Affected::None),
        ] {
            assert_eq!(now.affected(before.as_ref()), expected, "{now:?} {before:?}");
        }
    }
}
