//! What the state of a location means for its backups.

use velero_api::v1::BackupStorageLocation;
use velero_rules::retention::LocationState;

/// What the state of a location means for the deletion of its backups.
pub(crate) fn location_state(location: &BackupStorageLocation) -> LocationState {
    match () {
        () if !location.is_available() => LocationState::Unavailable,
        () if location.is_read_only() => LocationState::ReadOnly,
        () => LocationState::Ready,
    }
}
