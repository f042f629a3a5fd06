//! Figures that only a look at all objects gives.

use std::collections::BTreeMap;
use std::time::Duration;

use velero_api::labels;
use velero_api::metadata::label;
use velero_api::v1::{Backup, Ending, Restore};

use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Result, describe};

/// The time between two looks, and until the first one of a server that waits.
const PERIODS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5)];

/// Keeps the figures up to date that only a look at all objects gives.
pub(crate) async fn count_all(context: SharedContext) {
    let [period, mut pause] = PERIODS;
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let is_first = std::mem::replace(&mut pause, period) != period;
        // Who leads has begun with it.
        if is_first && context.leadership.may_write() {
            continue;
        }
        if let Err(error) = count_once(&context).await {
            tracing::warn!(error = describe(&error), "The backups could not be counted");
        }
    }
}

/// Reads these figures; the server begins with it, so that nobody sees others than those of the objects.
pub(crate) async fn count_once(context: &Context) -> Result<()> {
    let mut count = 0;
    let mut latest = BTreeMap::new();
    let visitor = |backup: Backup| {
        count += 1;
        context.metrics.backup_seen(&backup);
        let status = &backup.status;
        if let (Some(Ending::Completed), Some(ended)) = (status.phase().ending(), &status.completion_timestamp) {
            let schedule = label(&backup, labels::SCHEDULE_NAME).to_owned();
            let seconds = ended.0.as_second();
            latest.entry(schedule).and_modify(|known: &mut i64| *known = seconds.max(*known)).or_insert(seconds);
        }
    };
    context.objects.visit("", visitor).await?;
    context.metrics.backups_exist(count);
    for (schedule, seconds) in latest {
        context.metrics.last_successful(&schedule, seconds);
    }
    let mut restores = 0;
    context.objects.visit("", |_: Restore| restores += 1).await?;
    context.metrics.restores_exist(restores);
    Ok(())
}
