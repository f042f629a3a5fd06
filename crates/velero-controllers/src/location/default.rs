//! Which location is the default.

use std::time::Duration;

use velero_api::metadata::name;
use velero_api::v1::BackupStorageLocation;

use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Result, describe};

/// How soon is tried again what the API server has refused.
const PAUSE: Duration = Duration::from_secs(10);

/// Makes the location named by the flag the default, unless there is one; gives whether that is known to be so.
pub(crate) async fn is_default_ensured(context: &Context) -> bool {
    let ensured = ensure_default_location(context).await;
    if let Err(error) = &ensured {
        let location = &context.settings.default_backup_storage_location;
        tracing::error!(location, error = describe(error), "The location is not made the default yet; trying again");
    }
    ensured.is_ok()
}

/// The same until it is so, or the server ends.
pub(crate) async fn ensure_later(context: SharedContext) {
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        if is_default_ensured(&context).await {
            return;
        }
    }
}

async fn ensure_default_location(context: &Context) -> Result<()> {
    let wanted = &context.settings.default_backup_storage_location;
    let locations = context.objects.list::<BackupStorageLocation>("").await?;
    if locations.iter().any(|location| location.spec.default) {
        return Ok(());
    }
    if let Some(location) = locations.iter().find(|location| name(*location) == wanted) {
        let mut default = location.clone();
        default.spec.default = true;
        context.objects.force(location, &default).await?;
        tracing::info!(location = wanted, "The location is the default now");
    }
    Ok(())
}

/// Of several default locations only the youngest stays one.
pub(super) async fn keep_one_default(context: &Context) -> Result<()> {
    let locations = context.objects.list::<BackupStorageLocation>("").await?;
    for location in surplus_defaults(&locations) {
        let mut changed = location.clone();
        changed.spec.default = false;
        tracing::info!(location = name(location), "Another location is the default now");
        context.objects.force(location, &changed).await?;
    }
    Ok(())
}

fn surplus_defaults(locations: &[BackupStorageLocation]) -> Vec<&BackupStorageLocation> {
    let mut defaults: Vec<_> = locations.iter().filter(|location| location.spec.default).collect();
    defaults
        .sort_by_key(|location| (location.metadata.creation_timestamp.as_ref().map(|time| time.0), name(*location)));
    defaults.pop();
    defaults
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn only_the_youngest_default_stays_one() {
        let location = |name: &str, second, default| {
            let mut location = BackupStorageLocation::new("velero", name, Default::default());
            location.metadata.creation_timestamp = Some(Time(at(second)));
            location.spec.default = default;
            location
        };
        let all = [location("old", 1, true), location("young", 3, true), location("plain", 5, false)];
        let names: Vec<_> = surplus_defaults(&all).into_iter().map(name).collect();
        assert_eq!(names, ["old"]);
        assert!(surplus_defaults(&all[1..]).is_empty());
    }
}
