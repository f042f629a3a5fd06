//! Reports that lie beside the backups of a location.

use bytes::Bytes;
use serde::Serialize;

use super::BackupStore;
use crate::Result;

impl BackupStore {
    /// Writes a report, in place of one of the same name.
    pub async fn put_report(&self, name: &str, content: Bytes) -> Result<()> {
        self.store.put(&self.keys.report_file(name)?, content).await
    }

    /// Writes a report as indented JSON.
    pub async fn put_json_report<T: Serialize + ?Sized>(&self, name: &str, report: &T) -> Result<()> {
        let content = serde_json::to_vec_pretty(report).map_err(velero_archive::Error::Json)?;
        self.put_report(name, content.into()).await
    }

    /// The names of all reports, in order.
    pub async fn list_reports(&self) -> Result<Vec<String>> {
        let folder = self.keys.reports_folder();
        let found = self.store.list_objects(&folder).await?;
        let names = found.iter().filter_map(|key| key.strip_prefix(&folder)).filter(|name| !name.contains('/'));
        Ok(names.map(str::to_owned).collect())
    }

    /// Removes a report; one that does not exist is no error.
    pub async fn delete_report(&self, name: &str) -> Result<()> {
        self.store.delete_object(&self.keys.report_file(name)?).await
    }
}
