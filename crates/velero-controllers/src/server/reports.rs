//! Writes reports into the default location when `--report-schedule` says so.
//!
//! When the last one was written is told by the names of those in the bucket: a server that takes over, or starts again, goes
//! on from there.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use velero_api::metadata::name;
use velero_api::v1::BackupStorageLocation;
use velero_cluster::Error as ClusterError;
use velero_report::{gather, html, reckon};
use velero_rules::cron::CronSchedule;
use velero_store::BackupStore;

use crate::runtime::clock;
use crate::runtime::context::{Context, SharedContext};
use crate::runtime::error::{Result, describe};

/// The longest pause: a location may become the default, or a clock be set.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// The pause while there is no place to write to.
const WITHOUT_PLACE: Duration = Duration::from_secs(60);
/// How many reports are kept, each in two forms.
const KEPT: usize = 100;
/// What their names are made of.
const BEGINNING: &str = "report-";
const FORMS: [&str; 2] = ["html", "json"];
const MOMENT: &str = "%Y%m%d%H%M%S";

/// Writes reports until the server ends.
pub(crate) async fn write_all(context: SharedContext, cron: CronSchedule) {
    let begun = clock::now();
    loop {
        let pause = match write_if_due(&context, &cron, begun).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(error = describe(&error), "The report could not be written; it is tried again");
                LONGEST_PAUSE
            }
        };
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = tokio::time::sleep(pause.min(LONGEST_PAUSE)) => {}
        }
    }
}

/// Writes a report if its time has come; says how long to wait then.
async fn write_if_due(context: &Context, cron: &CronSchedule, begun: Timestamp) -> Result<Duration> {
    let Some(location) = place(context).await? else { return Ok(WITHOUT_PLACE) };
    let store = context.locations.open(&location).await?;
    let mut written = store.list_reports().await?;
    let now = clock::now();
    let last = written.iter().filter_map(|file| moment(file)).max().unwrap_or(begun);
    if cron.next(last, &TimeZone::UTC).is_some_and(|due| due <= now) {
        written.extend(write(context, &store, now).await?);
        tracing::info!(location = name(&location), "A report was written into folder metadata/reports");
        for old in surplus(written) {
            store.delete_report(&old).await?;
        }
    }
    let next = cron.next(last.max(now), &TimeZone::UTC);
    // A report is due once its moment is past, hence the second.
    Ok(next.map_or(LONGEST_PAUSE, |next| clock::until(next, now) + Duration::from_secs(1)))
}

/// The default location, if it can be written to.
async fn place(context: &Context) -> Result<Option<BackupStorageLocation>> {
    let locations = context.objects.list::<BackupStorageLocation>("").await?;
    let found = locations.into_iter().find(|location| location.spec.default);
    let obstacle = match &found {
        None => "there is no default location",
        Some(location) if location.is_read_only() => "the default location is read-only",
        Some(location) if !location.is_available() => "the default location is not available",
        Some(_) => return Ok(found),
    };
    tracing::warn!(obstacle, "Reports of --report-schedule cannot be written now");
    Ok(None)
}

/// Writes a report in all forms; gives the names of the files.
async fn write(context: &Context, store: &BackupStore, now: Timestamp) -> Result<Vec<String>> {
    let settings = &context.settings;
    let (client, ttl) = (context.objects.cluster().client(), settings.default_backup_ttl.to_std());
    let facts = gather(client, context.objects.namespace(), settings.report_period, ttl, now).await;
    let report = reckon(&facts.map_err(|error| ClusterError::from_kube("read what a report needs", error))?);
    let [page, data] = FORMS.map(|form| file_name(now, form));
    // The page is the last one: who finds it finds both.
    store.put_json_report(&data, &report).await?;
    store.put_report(&page, html(&report).into()).await?;
    Ok(vec![page, data])
}

fn file_name(moment: Timestamp, form: &str) -> String {
    format!("{BEGINNING}{}.{form}", moment.strftime(MOMENT))
}

/// When a report was written, by its name; nothing for a file that is none.
fn moment(file: &str) -> Option<Timestamp> {
    let (digits, form) = file.strip_prefix(BEGINNING)?.split_once('.')?;
    let moment = DateTime::strptime(MOMENT, digits).ok()?;
    FORMS.contains(&form).then(|| moment.to_zoned(TimeZone::UTC).ok()).flatten().map(|zoned| zoned.timestamp())
}

/// The oldest files, beyond those that are kept. What is no report of ours stays.
fn surplus(mut files: Vec<String>) -> Vec<String> {
    files.retain(|file| moment(file).is_some());
    files.sort();
    files.dedup();
    files.truncate(files.len().saturating_sub(KEPT * FORMS.len()));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_report_tells_when_it_was_written() {
        let now: Timestamp = "2026-03-01T06:00:07Z".parse().unwrap();
        for form in FORMS {
            assert_eq!(moment(&file_name(now, form)), Some(now));
        }
        assert_eq!(file_name(now, "html"), "report-20260301060007.html");
        for other in [
            "",
            "report-.html",
            "report-20260301060007.pdf",
            "notes.html",
            "report-2026.html",
            "report-2026030106000799.html",
        ] {
            assert_eq!(moment(other), None, "{other}");
        }
    }

    #[test]
    fn the_oldest_reports_go_and_the_files_of_others_stay() {
        let hour = |hour: i64| file_name(Timestamp::from_second(hour * 3600).unwrap(), "html");
        let json = |hour: i64| file_name(Timestamp::from_second(hour * 3600).unwrap(), "json");
        let mut files: Vec<String> = (0..KEPT as i64 + 1).rev().flat_map(|index| [hour(index), json(index)]).collect();
        files.push("audit.html".to_owned());
        assert_eq!(surplus(files), [hour(0), json(0)]);
        assert!(surplus(vec!["audit.html".to_owned()]).is_empty());
    }
}
