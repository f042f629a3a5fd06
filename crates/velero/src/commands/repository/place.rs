//! Where a repository is: a folder, a bucket, or what a BackupRepository of the cluster says.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use velero_api::repository::STATIC_PASSWORD;
use velero_repo::store::{BlobStore, FolderStore, directory, open_location};
use velero_store::{Credentials, StoreConfig};

use crate::arguments::PlaceArguments;
use crate::arguments::values::merged;
use crate::printer::Printer;
use crate::session::Session;
use crate::settings::Settings;

use super::in_cluster;

/// The variable with the password.
const PASSWORD_VARIABLE: &str = "VELERO_REPO_PASSWORD";

/// A repository that was found, not opened yet.
pub(super) struct Place {
    /// Its blobs.
    pub(super) store: Arc<dyn BlobStore>,
    /// Where that is, in words.
    pub(super) name: String,
    pub(super) password: String,
    /// Where the password comes from, in words.
    pub(super) password_source: String,
    /// Why nothing may be written.
    pub(super) read_only: Option<String>,
}

/// Finds the repository that the flags name.
pub(super) async fn find(settings: &Settings, printer: Printer, arguments: &PlaceArguments) -> Result<Place> {
    let chosen = chosen_password(arguments)?;
    if let Some(name) = &arguments.repository {
        return in_cluster::find(&Session::connect(settings, printer).await?, name, arguments, chosen).await;
    }
    let (password, password_source) = chosen.unwrap_or_else(static_password);
    let (store, name) = match (&arguments.path, &arguments.bucket) {
        (Some(path), _) => folder(path)?,
        (None, Some(bucket)) => {
            let mut config = StoreConfig::new(&arguments.provider, bucket);
            config.config = merged(&arguments.config);
            config.ca_certificate = arguments.cacert.as_deref().map(read).transpose()?;
            config.credentials = arguments.credentials_file.clone().map(Credentials::File);
            open(&config, arguments.prefix.as_deref().unwrap_or_default()).await?
        }
        (None, None) => bail!(
            "it is not said which repository; name one with --repository, a folder with --path, or a bucket with --bucket and --prefix"
        ),
    };
    Ok(Place { store, name, password, password_source, read_only: None })
}

/// The password of repositories whose owner chose none, and where it comes from.
pub(super) fn static_password() -> (String, String) {
    (STATIC_PASSWORD.to_owned(), "the one Velero takes where nobody chose another".to_owned())
}

/// The password that was given here, and where.
fn chosen_password(arguments: &PlaceArguments) -> Result<Option<(String, String)>> {
    if let Some(file) = &arguments.password_file {
        let content = fs::read_to_string(file).with_context(|| format!("--password-file: cannot read {file:?}"))?;
        let password = content.trim_end_matches(['\r', '\n']);
        ensure!(!password.is_empty(), "--password-file: {file:?} is empty; write the password into it");
        return Ok(Some((password.to_owned(), format!("the one in {file:?}"))));
    }
    let found = env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
    Ok(found.map(|password| (password, format!("the one in {PASSWORD_VARIABLE}"))))
}

/// A file that a flag names.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {path:?}"))
}

fn folder(path: &Path) -> Result<(Arc<dyn BlobStore>, String)> {
    let name = format!("folder {path:?}");
    ensure!(
        path.is_dir(),
        "{name} does not exist or is no folder; --path names the one with the file kopia.repository.f"
    );
    Ok((Arc::new(FolderStore::open(path)?), name))
}

/// The folder of a bucket.
pub(super) async fn open(config: &StoreConfig, prefix: &str) -> Result<(Arc<dyn BlobStore>, String)> {
    let prefix = prefix.trim_matches('/');
    if let Some(root) = directory(config) {
        return folder(&root.join(prefix));
    }
    let name = format!("folder {prefix:?} of bucket {:?}", config.bucket);
    Ok((open_location(config, prefix).await?, name))
}
