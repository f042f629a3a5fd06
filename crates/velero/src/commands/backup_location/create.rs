//! `velero backup-location create`

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::ByteString;
use velero_api::v1::{BackupStorageLocation, BackupStorageLocationSpec, ObjectStorageLocation};
use velero_store::is_built_in;

use super::check::DIRECTORY;
use super::{credential, default_locations};
use crate::arguments::BackupLocationCreateArguments;
use crate::arguments::values::merged;
use crate::commands::location_config::{Given, location_config};
use crate::commands::neighbour;
use crate::output::{Format, print_instead_of_create};
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Creates a backup storage location, or shows it.
pub(crate) async fn create(
    settings: &Settings,
    printer: Printer,
    arguments: BackupLocationCreateArguments,
) -> Result<()> {
    Format::parse(arguments.output.output.as_deref())?;
    let location = build(&settings.namespace, &arguments)?;
    if print_instead_of_create(printer, &location, &arguments.output)? {
        return Ok(());
    }
    let session = Session::connect(settings, printer).await?;
    if arguments.default && !default_locations(&session).await?.is_empty() {
        bail!(
            "there is already exist default backup storage location, please unset it first or do not set --default flag"
        );
    }
    if !arguments.share_bucket {
        refuse_neighbour(&session, &location).await?;
    }
    session.create(&location).await?;
    printer.line(format_args!("Backup storage location {:?} configured successfully.", arguments.name))
}

/// Refuses a location in a bucket that another cluster uses, where it can be looked at from here with credentials that are there already.
/// Who only reads from it hinders nobody.
async fn refuse_neighbour(session: &Session, location: &BackupStorageLocation) -> Result<()> {
    if location.is_read_only() || !has_bucket(&location.spec.provider) {
        return Ok(());
    }
    match location_config(session, location, &Given::default()).await {
        Ok(config) if config.credentials.is_some() => {
            neighbour::refuse(session, &config, &location.spec.object_storage.prefix).await
        }
        _ => Ok(()),
    }
}

/// Whether the store of a provider is built in and can be reached from elsewhere than the pod of the server.
fn has_bucket(provider: &str) -> bool {
    is_built_in(provider) && !provider.ends_with(DIRECTORY)
}

fn build(namespace: &str, arguments: &BackupLocationCreateArguments) -> Result<BackupStorageLocation> {
    ensure!(!arguments.provider.is_empty(), "--provider is required");
    ensure!(!arguments.bucket.is_empty(), "--bucket is required");
    let negative = arguments.backup_sync_period.is_some_and(|period| period.is_negative());
    ensure!(!negative, "--backup-sync-period must be non-negative");
    let bundle = match &arguments.cacert {
        Some(path) if !path.as_os_str().is_empty() => {
            Some(ByteString(fs::read(path).with_context(|| format!("cannot read {}", path.display()))?))
        }
        _ => None,
    };
    let spec = BackupStorageLocationSpec {
        provider: arguments.provider.clone(),
        config: merged(&arguments.config),
        credential: credential(&arguments.credential)?,
        object_storage: ObjectStorageLocation {
            bucket: arguments.bucket.clone(),
            prefix: arguments.prefix.clone(),
            ca_cert: bundle,
            ..ObjectStorageLocation::default()
        },
        default: arguments.default,
        access_mode: Some(arguments.access_mode.clone()),
        backup_sync_period: arguments.backup_sync_period,
        validation_frequency: arguments.validation_frequency,
        ..BackupStorageLocationSpec::default()
    };
    let mut location = BackupStorageLocation::new(namespace, &arguments.name, spec);
    location.metadata.labels = Some(merged(&arguments.labels)).filter(|labels| !labels.is_empty());
    Ok(location)
}
