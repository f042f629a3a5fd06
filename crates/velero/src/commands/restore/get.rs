//! `velero restore get`

use anyhow::Result;
use velero_api::v1::{Restore, RestorePhase};

use crate::arguments::GetArguments;
use crate::output::print_list;
use crate::session::Session;

/// Shows restores; one that is being deleted says so.
pub(crate) async fn get(session: &Session, arguments: &GetArguments) -> Result<()> {
    let mut listed = session.select::<Restore>(&arguments.list.names, &arguments.list.selector).await?;
    for restore in listed.items.iter_mut().filter(|restore| restore.metadata.deletion_timestamp.is_some()) {
        let phase = restore.status.phase.as_ref().map_or("", |phase| phase.as_str());
        restore.status.phase = Some(RestorePhase::Unknown(format!("{phase} (Deleting)")));
    }
    print_list(session.printer, listed, &arguments.output)
}
