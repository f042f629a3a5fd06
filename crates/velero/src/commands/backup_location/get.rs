//! `velero backup-location get`

use anyhow::Result;
use velero_api::v1::BackupStorageLocation;

use crate::arguments::BackupLocationGetArguments;
use crate::output::print_list;
use crate::session::Session;

/// Shows backup storage locations.
pub(crate) async fn get(session: &Session, arguments: &BackupLocationGetArguments) -> Result<()> {
    let list = &arguments.get.list;
    let mut listed = session.select::<BackupStorageLocation>(&list.names, &list.selector).await?;
    listed.items.retain(|location| location.spec.default || !arguments.default);
    print_list(session.printer, listed, &arguments.get.output)
}
