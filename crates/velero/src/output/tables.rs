//! The columns of each kind.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use velero_api::metadata;
use velero_api::v1::{
    Backup, BackupRepository, BackupStorageLocation, BackupStorageLocationAccessMode, Restore, Schedule,
    VolumeSnapshotLocation,
};
use velero_rules::selector::Selector;

use super::Clock;

/// What a Go program prints for a time that is not set.
const ZERO_TIME: &str = "0001-01-01 00:00:00 +0000 UTC";

/// A kind that can be shown as a row.
pub(crate) trait Tabular: Sized {
    /// The headings.
    const HEADINGS: &'static [&'static str];

    /// The cells of one object.
    fn cells(&self, clock: &Clock) -> Vec<String>;

    /// The order of the rows; the server's unless said otherwise.
    fn sort(_: &mut [Self]) {}
}

/// A label selector as text, `<none>` without requirements.
pub(crate) fn selector_text(selector: Option<&LabelSelector>) -> String {
    match selector.map(Selector::try_from) {
        Some(Ok(selector)) if !selector.is_empty() => selector.to_string(),
        Some(Err(_)) => "<error>".to_owned(),
        _ => "<none>".to_owned(),
    }
}

impl Tabular for Backup {
    const HEADINGS: &'static [&'static str] = &[
        "Name",
        "Status",
        "Errors",
        "Warnings",
        "Created",
        "Expires",
        "Storage Location",
        "Queue Position",
        "Selector",
    ];

    fn cells(&self, clock: &Clock) -> Vec<String> {
        let deleting = self.metadata.deletion_timestamp.is_some();
        let position = self.status.queue_position;
        vec![
            metadata::name(self).to_owned(),
            if deleting { "Deleting".to_owned() } else { self.status.phase().to_string() },
            self.status.errors.to_string(),
            self.status.warnings.to_string(),
            clock.text_or(self.status.start_timestamp.as_ref(), "<nil>"),
            clock.distance(expiration(self)),
            self.spec.storage_location.clone(),
            if position == 0 { String::new() } else { position.to_string() },
            selector_text(self.spec.label_selector.as_ref()),
        ]
    }

    /// By name; backups of one schedule, newest first.
    fn sort(items: &mut [Self]) {
        items.sort_by(|left, right| {
            let (left, right) = (name_parts(left), name_parts(right));
            left.0.cmp(right.0).then_with(|| right.1.cmp(left.1))
        });
    }
}

/// When a backup expires: what the server says, else what its time to live means.
fn expiration(backup: &Backup) -> Option<jiff::Timestamp> {
    let said = backup.status.expiration.as_ref().map(|time| time.0);
    said.or_else(|| {
        let ttl = backup.spec.ttl;
        let created = backup.metadata.creation_timestamp.as_ref().filter(|_| !ttl.is_zero() && !ttl.is_negative())?;
        created.0.checked_add(SignedDuration::from(ttl)).ok()
    })
}

/// The name of a backup up to the time its schedule appended, and that time.
fn name_parts(backup: &Backup) -> (&str, &str) {
    const DIGITS: usize = 14;
    let name = metadata::name(backup);
    match name.split_at_checked(name.len().saturating_sub(DIGITS)) {
        Some((prefix, time)) if prefix.ends_with('-') && time.bytes().all(|byte| byte.is_ascii_digit()) => {
            (prefix, time)
        }
        _ => (name, ""),
    }
}

impl Tabular for Restore {
    const HEADINGS: &'static [&'static str] =
        &["Name", "Backup", "Status", "Started", "Completed", "Errors", "Warnings", "Created", "Selector"];

    fn cells(&self, clock: &Clock) -> Vec<String> {
        vec![
            metadata::name(self).to_owned(),
            self.spec.backup_name.clone(),
            self.status.phase().to_string(),
            clock.text_or(self.status.start_timestamp.as_ref(), "<nil>"),
            clock.text_or(self.status.completion_timestamp.as_ref(), "<nil>"),
            self.status.errors.to_string(),
            self.status.warnings.to_string(),
            clock.text_or(self.metadata.creation_timestamp.as_ref(), ZERO_TIME),
            selector_text(self.spec.label_selector.as_ref()),
        ]
    }
}

impl Tabular for Schedule {
    const HEADINGS: &'static [&'static str] =
        &["Name", "Status", "Created", "Schedule", "Backup TTL", "Last Backup", "Selector", "Paused"];

    fn cells(&self, clock: &Clock) -> Vec<String> {
        vec![
            metadata::name(self).to_owned(),
            self.status.phase().to_string(),
            clock.text_or(self.metadata.creation_timestamp.as_ref(), ZERO_TIME),
            self.spec.schedule.clone(),
            self.spec.template.ttl.to_string(),
            clock.distance(self.status.last_backup.as_ref().map(|time| time.0)),
            selector_text(self.spec.template.label_selector.as_ref()),
            self.spec.paused.to_string(),
        ]
    }
}

impl Tabular for BackupStorageLocation {
    const HEADINGS: &'static [&'static str] =
        &["Name", "Provider", "Bucket/Prefix", "Phase", "Last Validated", "Access Mode", "Default"];

    fn cells(&self, clock: &Clock) -> Vec<String> {
        let storage = &self.spec.object_storage;
        let separator = if storage.prefix.is_empty() { "" } else { "/" };
        let access_mode = self.spec.access_mode.as_ref().unwrap_or(&BackupStorageLocationAccessMode::ReadWrite);
        vec![
            metadata::name(self).to_owned(),
            self.spec.provider.clone(),
            format!("{}{separator}{}", storage.bucket, storage.prefix),
            self.status.phase.as_ref().map_or_else(|| "Unknown".to_owned(), ToString::to_string),
            clock.text_or(self.status.last_validation_time.as_ref(), "Unknown"),
            access_mode.to_string(),
            if self.spec.default { "true".to_owned() } else { String::new() },
        ]
    }
}

impl Tabular for VolumeSnapshotLocation {
    const HEADINGS: &'static [&'static str] = &["Name", "Provider"];

    fn cells(&self, _: &Clock) -> Vec<String> {
        vec![metadata::name(self).to_owned(), self.spec.provider.clone()]
    }
}

impl Tabular for BackupRepository {
    const HEADINGS: &'static [&'static str] = &["Name", "Status", "Last Maintenance"];

    fn cells(&self, clock: &Clock) -> Vec<String> {
        vec![
            metadata::name(self).to_owned(),
            self.status.phase().to_string(),
            clock.text_or(self.status.last_maintenance_time.as_ref(), "<never>"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use velero_api::v1::BackupSpec;

    use super::*;

    #[test]
    fn backups_of_one_schedule_are_shown_newest_first() {
        let names = ["daily-20260101000000", "adhoc", "daily-20260103000000", "daily", "weekly-20260102000000"];
        let mut backups = names.map(|name| Backup::new("velero", name, BackupSpec::default()));
        Backup::sort(&mut backups);
        let sorted: Vec<_> = backups.iter().map(|backup| backup.metadata.name.as_deref().unwrap()).collect();
        let expected = ["adhoc", "daily", "daily-20260103000000", "daily-20260101000000", "weekly-20260102000000"];
        assert_eq!(sorted, expected);
    }
}
