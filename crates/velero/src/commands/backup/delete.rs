//! `velero backup delete`

use anyhow::Result;
use velero_api::metadata;
use velero_api::v1::{Backup, DeleteBackupRequest};

use crate::arguments::DeleteArguments;
use crate::commands::select::{aggregate, confirm_deletion, select};
use crate::session::Session;

/// Asks the server to delete backups with all their data.
pub(crate) async fn delete(session: &Session, arguments: &DeleteArguments) -> Result<()> {
    if !confirm_deletion(session, arguments, "backup")? {
        return Ok(());
    }
    let selected = select::<Backup>(session, &arguments.select).await?;
    if selected.items.is_empty() {
        return session.printer.line("No backups found");
    }
    let mut errors = selected.missing;
    for backup in &selected.items {
        let name = metadata::name(backup);
        match session.create(&DeleteBackupRequest::of(backup)).await {
            Err(error) => errors.push(error),
            Ok(_) => session.printer.line(format_args!(
                "Request to delete backup {name:?} submitted successfully.\nThe backup will be fully deleted after all associated data (disk snapshots, backup files, restores) are removed."
            ))?,
        }
    }
    aggregate(&errors)
}
