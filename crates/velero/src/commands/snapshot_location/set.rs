//! `velero snapshot-location set`

use anyhow::Result;
use velero_api::v1::VolumeSnapshotLocation;

use crate::arguments::SnapshotLocationSetArguments;
use crate::commands::backup_location::credential;
use crate::session::Session;

/// Changes a volume snapshot location.
pub(crate) async fn set(session: &Session, arguments: &SnapshotLocationSetArguments) -> Result<()> {
    let name = &arguments.name;
    let location: VolumeSnapshotLocation = session.get(name).await?;
    let mut modified = location.clone();
    if let Some(credential) = credential(&arguments.credential)? {
        modified.spec.credential = Some(credential);
    }
    session.update(&location, &modified).await?;
    session.printer.line(format_args!("Volume snapshot location {name:?} configured successfully."))
}
