//! How locations are.

use prometheus::GaugeVec;
use velero_store::Space;

use super::builder::Builder;

const LOCATION: &[&str] = &["backup_location_name"];

/// The metrics of locations, by their names.
pub(super) struct LocationGauges {
    status: GaugeVec,
    orphans: GaugeVec,
    free: GaugeVec,
    size: GaugeVec,
}

impl LocationGauges {
    pub(super) fn new(builder: &Builder) -> prometheus::Result<Self> {
        Ok(Self {
            status: builder.gauges(
                "backup_location_status_gauge",
                "1 when the location is available, 0 when not",
                LOCATION,
            )?,
            orphans: builder.gauges(
                "backup_orphans",
                "Folders of the location that hold files of a backup that never ended",
                LOCATION,
            )?,
            free: builder.gauges(
                "backup_location_free_bytes",
                "Bytes that can still be written where a location of the provider fs lies",
                LOCATION,
            )?,
            size: builder.gauges(
                "backup_location_size_bytes",
                "Bytes that the file system of a location of the provider fs holds in all",
                LOCATION,
            )?,
        })
    }

    pub(super) fn status(&self, location: &str, available: bool) {
        self.status.with_label_values(&[location]).set(f64::from(u8::from(available)));
    }

    pub(super) fn orphans(&self, location: &str, count: usize) {
        self.orphans.with_label_values(&[location]).set(count as f64);
    }

    /// Notes how much room a location has; nothing where that is not known.
    pub(super) fn space(&self, location: &str, space: Option<Space>) {
        match space {
            Some(space) => {
                self.free.with_label_values(&[location]).set(space.free as f64);
                self.size.with_label_values(&[location]).set(space.size as f64);
            }
            None => remove(&[&self.free, &self.size], location),
        }
    }

    /// A location is gone, and its series with it.
    pub(super) fn forget(&self, location: &str) {
        remove(&[&self.status, &self.orphans, &self.free, &self.size], location);
    }
}

fn remove(gauges: &[&GaugeVec], location: &str) {
    for gauge in gauges {
        // A series that was never made cannot be removed, which is as good.
        let _ = gauge.remove_label_values(&[location]);
    }
}
