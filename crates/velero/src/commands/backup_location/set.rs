//! `velero backup-location set`

use std::fs;

use anyhow::{Context, Result, bail};
use k8s_openapi::ByteString;
use velero_api::metadata;
use velero_api::v1::BackupStorageLocation;

use super::{credential, default_locations};
use crate::arguments::BackupLocationSetArguments;
use crate::session::Session;

/// Changes a backup storage location. What no flag names stays as it is.
pub(crate) async fn set(session: &Session, arguments: &BackupLocationSetArguments) -> Result<()> {
    let name = &arguments.name;
    let credential = credential(&arguments.credential)?;
    let location: BackupStorageLocation = session.get(name).await?;
    let mut modified = location.clone();
    if arguments.default.0 == Some(true) {
        match default_locations(session).await?.as_slice() {
            [] => {}
            [default] if metadata::name(default) == name => {
                return session.printer.line(format_args!(
                    "Backup storage location {name:?} is already the default backup storage location."
                ));
            }
            _ => bail!("there are already exist default backup storage locations, please unset them first"),
        }
    }
    modified.spec.default = arguments.default.0.unwrap_or(location.spec.default);
    if let Some(path) = &arguments.cacert {
        modified.spec.object_storage.ca_cert = match path.as_os_str().is_empty() {
            true => None,
            false => Some(ByteString(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)),
        };
    }
    if credential.is_some() {
        modified.spec.credential = credential;
    }
    session.update(&location, &modified).await?;
    session.printer.line(format_args!("Backup storage location {name:?} configured successfully."))
}
