//! `velero backup download`

use std::fs;
use std::io::Write;
use std::{env, path::PathBuf};

use anyhow::{Context, Result};
use velero_api::v1::{Backup, DownloadTargetKind};

use crate::arguments::BackupDownloadArguments;
use crate::download::Downloader;
use crate::private_files;
use crate::session::Session;

/// Writes the archive of a backup to a file, for the user's eyes only.
pub(crate) async fn download(session: &Session, arguments: &BackupDownloadArguments) -> Result<()> {
    let name = &arguments.name;
    let backup: Backup = session.get(name).await?;
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => env::current_dir()
            .context("error getting current directory")?
            .join(PathBuf::from(format!("{name}-data.tar.gz"))),
    };
    let downloader = Downloader::new(session, &arguments.download, &backup.spec.storage_location).await?;
    let mut options = private_files::to_write();
    match arguments.force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let shown = path.display();
    let mut file =
        options.open(&path).with_context(|| format!("cannot create {shown}; --force overwrites an existing file"))?;
    let downloaded =
        downloader.stream(DownloadTargetKind::BackupContents, name, arguments.timeout.to_std(), &mut file).await;
    let finished =
        downloaded.map_err(Into::into).and_then(|()| file.flush().with_context(|| format!("cannot write {shown}")));
    if let Err(error) = finished {
        // Half an archive is worse than none; the download's own error is the one to tell.
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    session.printer.line(format_args!("Backup {name} has been successfully downloaded to {shown}"))
}
