//! `velero snapshot-location get`

use anyhow::Result;
use velero_api::v1::VolumeSnapshotLocation;

use crate::arguments::GetArguments;
use crate::output::print_list;
use crate::session::Session;

/// Shows volume snapshot locations.
pub(crate) async fn get(session: &Session, arguments: &GetArguments) -> Result<()> {
    let listed = session.select::<VolumeSnapshotLocation>(&arguments.list.names, &arguments.list.selector).await?;
    print_list(session.printer, listed, &arguments.output)
}
