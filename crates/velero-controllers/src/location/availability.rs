//! Keeps the status of locations true: can they be used, and which one is the default.

use std::collections::HashMap;
use std::sync::Mutex;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use velero_api::GoDuration;
use velero_api::metadata::name;
use velero_api::v1::{BackupStorageLocation, BackupStorageLocationPhase};
use velero_rules::conditions;
use velero_rules::events::Told;

use crate::location::default::keep_one_default;
use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::Result;
use crate::runtime::events;
use crate::runtime::lock::lock;

/// Watches BackupStorageLocations.
pub(crate) struct BackupStorageLocationReconciler {
    context: SharedContext,
    /// The spec each location had when it was last validated, so that a change of it is validated at once.
    validated: Mutex<HashMap<String, String>>,
}

/// When a location is to be validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Now,
    At(Timestamp),
    Never,
}

impl BackupStorageLocationReconciler {
    pub(crate) fn new(context: SharedContext) -> Self {
        Self { context, validated: Mutex::default() }
    }

    /// Whether the spec is another one than at the last validation.
    fn has_new_spec(&self, location: &BackupStorageLocation) -> bool {
        let mut validated = lock(&self.validated);
        let spec = serde_json::to_string(&location.spec).unwrap_or_default();
        validated.insert(name(location).to_owned(), spec.clone()) != Some(spec)
    }

    /// Looks at a location if it is time; gives when it is next.
    async fn look(&self, location: BackupStorageLocation) -> Result<Next> {
        let now = clock::now();
        let changed = self.has_new_spec(&location);
        let location = match self.due(&location, now) {
            Due::At(moment) if !changed => return Ok(Next::After(clock::until(moment, now))),
            Due::Never if !changed => return Ok(Next::Change),
            _ => match self.context.stop.run_until_cancelled(validate(&self.context, &location)).await {
                Some(validated) => validated?,
                // It is looked at by the next server, as after a start.
                None => return Ok(Next::Change),
            },
        };
        Ok(match self.due(&location, now) {
            Due::At(moment) => Next::After(clock::until(moment, now)),
            Due::Now | Due::Never => Next::Change,
        })
    }

    fn due(&self, location: &BackupStorageLocation, now: Timestamp) -> Due {
        let last = location.status.last_validation_time.as_ref().map(|time| time.0);
        due(location.spec.validation_frequency, self.context.settings.store_validation_frequency, last, now)
    }
}

impl Reconciler for BackupStorageLocationReconciler {
    type Kind = BackupStorageLocation;
    const CONTROLLER: Controller = Controller::BackupStorageLocation;
    const CONCURRENCY: u16 = 4;

    async fn reconcile(&self, location: BackupStorageLocation) -> Result<Next> {
        // That another location cannot be changed keeps nobody from looking at this one.
        let kept = keep_one_default(&self.context).await;
        let next = self.look(location).await?;
        kept.map(|()| next)
    }

    fn forget(&self, name: &str) {
        lock(&self.validated).remove(name);
        self.context.metrics.end_location(name);
    }
}

/// Looks at the store and writes what was found. It may be broken off at any point: all of it is done again.
async fn validate(context: &Context, location: &BackupStorageLocation) -> Result<BackupStorageLocation> {
    let mut checked = location.clone();
    let outcome = context.locations.examine(location).await;
    let status = &mut checked.status;
    let now = clock::now();
    status.last_validation_time = Some(Time(now));
    match outcome {
        Ok(()) => {
            status.phase = Some(BackupStorageLocationPhase::Available);
            status.message.clear();
        }
        Err(problem) => {
            status.phase = Some(BackupStorageLocationPhase::Unavailable);
            status.message = format!("BackupStorageLocation {:?} is unavailable: {problem}", name(location));
        }
    }
    let is_available = checked.is_available();
    let status = &mut checked.status;
    status.conditions = conditions::of_location(&status.conditions, is_available, &status.message, now);
    if location.status.phase != checked.status.phase || location.status.message != checked.status.message {
        report(context, &checked);
    }
    context.metrics.location_status(name(location), checked.is_available());
    context.metrics.location_space(name(location), context.locations.space(location).await);
    context.objects.force(location, &checked).await
}

fn report(context: &Context, location: &BackupStorageLocation) {
    let told = match location.is_available() {
        true => Told::normal("Available", "the location can be used"),
        false => Told::warning("Unavailable", &location.status.message),
    };
    events::tell(context, location, Controller::BackupStorageLocation, told);
    if location.is_available() {
        tracing::info!(location = name(location), "BackupStorageLocation is valid, marking as available");
    } else {
        tracing::error!(
            location = name(location),
            message = location.status.message,
            "BackupStorageLocation is unavailable"
        );
    }
}

/// A frequency of zero means never again, a negative one the server's.
fn due(own: Option<GoDuration>, server: GoDuration, last: Option<Timestamp>, now: Timestamp) -> Due {
    let Some(last) = last else { return Due::Now };
    let frequency = own.filter(|frequency| !frequency.is_negative()).unwrap_or(server);
    if frequency.is_zero() || frequency.is_negative() {
        return Due::Never;
    }
    let next = clock::after(last, frequency);
    if next <= now { Due::Now } else { Due::At(next) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_location_is_validated_when_its_frequency_says() {
        let minute = GoDuration::from_mins(1);
        let cases = [
            (None, None, Due::Now),
            (Some(GoDuration::ZERO), None, Due::Now),
            (Some(GoDuration::ZERO), Some(at(0)), Due::Never),
            (None, Some(at(990)), Due::At(at(1050))),
            (None, Some(at(940)), Due::Now),
            (Some(GoDuration::from_secs(5)), Some(at(996)), Due::At(at(1001))),
            (Some(GoDuration::from_secs(-5)), Some(at(990)), Due::At(at(1050))),
        ];
        for (own, last, expected) in cases {
            assert_eq!(due(own, minute, last, at(1000)), expected, "{own:?} {last:?}");
        }
    }
}
