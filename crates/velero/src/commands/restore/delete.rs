//! `velero restore delete`

use anyhow::Result;
use velero_api::metadata;
use velero_api::v1::Restore;

use crate::arguments::DeleteArguments;
use crate::commands::select::{aggregate, confirm_deletion, select};
use crate::session::Session;

/// Deletes restores; the server removes their files.
pub(crate) async fn delete(session: &Session, arguments: &DeleteArguments) -> Result<()> {
    if !confirm_deletion(session, arguments, "restore")? {
        return Ok(());
    }
    let selected = select::<Restore>(session, &arguments.select).await?;
    aggregate(&selected.missing)?;
    if selected.items.is_empty() {
        return session.printer.line("No restores found");
    }
    let mut errors = Vec::new();
    for restore in &selected.items {
        let name = metadata::name(restore);
        match session.delete::<Restore>(name).await {
            Err(error) => errors.push(error),
            Ok(()) => session.printer.line(format_args!(
                "Request to delete restore {name:?} submitted successfully.\nThe restore will be fully deleted after all associated data (restore files in object storage) are removed."
            ))?,
        }
    }
    aggregate(&errors)
}
