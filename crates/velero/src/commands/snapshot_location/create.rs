//! `velero snapshot-location create`

use anyhow::{Result, ensure};
use velero_api::v1::{VolumeSnapshotLocation, VolumeSnapshotLocationSpec};

use crate::arguments::SnapshotLocationCreateArguments;
use crate::arguments::values::merged;
use crate::commands::backup_location::credential;
use crate::output::{Format, print_instead_of_create};
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

/// Creates a volume snapshot location, or shows it.
pub(crate) async fn create(
    settings: &Settings,
    printer: Printer,
    arguments: SnapshotLocationCreateArguments,
) -> Result<()> {
    Format::parse(arguments.output.output.as_deref())?;
    ensure!(!arguments.provider.is_empty(), "--provider is required");
    let spec = VolumeSnapshotLocationSpec {
        provider: arguments.provider,
        config: merged(&arguments.config),
        credential: credential(&arguments.credential)?,
        ..VolumeSnapshotLocationSpec::default()
    };
    let mut location = VolumeSnapshotLocation::new(&settings.namespace, &arguments.name, spec);
    location.metadata.labels = Some(merged(&arguments.labels)).filter(|labels| !labels.is_empty());
    if print_instead_of_create(printer, &location, &arguments.output)? {
        return Ok(());
    }
    Session::connect(settings, printer).await?.create(&location).await?;
    printer.line(format_args!("Snapshot volume location {:?} configured successfully.", arguments.name))
}
