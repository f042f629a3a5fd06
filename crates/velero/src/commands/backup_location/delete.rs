//! `velero backup-location delete`

use anyhow::{Context, Error, Result};
use velero_api::labels;
use velero_api::metadata;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, BackupRepository, BackupStorageLocation};

use crate::arguments::DeleteArguments;
use crate::commands::select::{aggregate, confirm_deletion, select};
use crate::session::Session;

/// Deletes locations and, from the cluster only, the backups and repositories in them. The object store stays as it is.
pub(crate) async fn delete(session: &Session, arguments: &DeleteArguments) -> Result<()> {
    if !confirm_deletion(session, arguments, "backup-location")? {
        return Ok(());
    }
    let selected = select::<BackupStorageLocation>(session, &arguments.select).await?;
    if selected.items.is_empty() {
        return session.printer.line("No backup-locations found");
    }
    let mut errors = selected.missing;
    for location in &selected.items {
        let name = metadata::name(location);
        if let Err(error) = session.delete::<BackupStorageLocation>(name).await {
            errors.push(error);
            continue;
        }
        session.printer.line(format_args!("Backup storage location {name:?} deleted successfully."))?;
        errors.extend(delete_associated::<Backup>(session, name, "backup").await?);
        errors.extend(delete_associated::<BackupRepository>(session, name, "backup repository").await?);
    }
    aggregate(&errors)
}

async fn delete_associated<K: VeleroResource>(session: &Session, location: &str, what: &str) -> Result<Vec<Error>> {
    let selector = format!("{}={}", labels::STORAGE_LOCATION, labels::valid_value(location));
    let listed = session
        .list::<K>(&selector)
        .await
        .with_context(|| format!("find {} associated with BSL {location:?}", K::PLURAL));
    let items = match listed {
        Ok(listed) => listed.items,
        Err(error) => return Ok(vec![error]),
    };
    let mut errors = Vec::new();
    let title = format!("{}{}", what[..1].to_uppercase(), &what[1..]);
    for object in &items {
        let name = metadata::name(object);
        match session.delete::<K>(name).await {
            Err(error) => errors.push(error.context(format!("delete {what} {name:?} associated with deleted BSL"))),
            Ok(()) => session
                .printer
                .line(format_args!("{title} associated with deleted BSL(s) {name:?} deleted successfully."))?,
        }
    }
    Ok(errors)
}
