//! The delete pipeline: actions get to see the items of a backup before it is deleted.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;
use velero_api::v1::Backup;
use velero_archive::{ArchiveReader, ItemPath, Limits};
use velero_cluster::{Discovery, ItemRef};
use velero_plugin::{Actions, DeleteItemAction, Resolved, resolve};

use crate::Journal;

/// How many items may wait for their actions.
const WAITING_ITEMS: usize = 32;

/// Why the actions could not see all items.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// An action did not say what it applies to.
    #[error("cannot prepare the delete item actions: {0}")]
    Action(#[from] velero_plugin::Error),
    /// The archive of the backup cannot be read.
    #[error("cannot read the archive of the backup that is being deleted: {0}")]
    Archive(#[from] velero_archive::Error),
    /// The reader died.
    #[error("reading the archive of the backup that is being deleted came to an early end")]
    ReaderDied,
}

type Action = Resolved<Arc<dyn DeleteItemAction>>;

/// Runs the delete item actions on the items of an archive. An action that fails is an error in the journal and does
/// not keep others from running. Without actions the archive is not read.
pub async fn run<R: Read + Send + 'static>(
    backup: &Backup,
    archive: R,
    limits: Limits,
    actions: &Actions,
    discovery: &Discovery,
    journal: &Journal,
) -> Result<(), DeleteError> {
    let mut resolved: Vec<Action> = Vec::new();
    for action in actions.delete_item() {
        let selector = action.applies_to().await?;
        resolved.push(resolve(action.name(), Arc::clone(action), &selector, discovery)?);
    }
    if resolved.is_empty() {
        return Ok(());
    }
    let resolved = Arc::new(resolved);
    let (sender, mut items) = mpsc::channel(WAITING_ITEMS);
    let wanted = Arc::clone(&resolved);
    let reading = tokio::task::spawn_blocking(move || read(archive, limits, &wanted, &sender));
    while let Some(item) = items.recv().await {
        item.act(&resolved, backup, journal).await;
    }
    reading.await.map_err(|_| DeleteError::ReaderDied)?
}

/// An item of the archive that some action may want.
struct ArchivedItem {
    resource: String,
    namespace: Option<String>,
    name: String,
    value: Value,
}

impl ArchivedItem {
    async fn act(&self, actions: &[Action], backup: &Backup, journal: &Journal) {
        let labels = || {
            let labels = self.value.pointer("/metadata/labels").and_then(Value::as_object);
            let pairs = labels.into_iter().flatten();
            pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect::<BTreeMap<_, _>>()
        };
        for resolved in actions {
            let applies =
                resolved.applies_to_type(&self.resource) && resolved.applies_to_item(self.namespace.as_deref(), labels);
            if !applies {
                continue;
            }
            if let Err(error) = resolved.action.execute(&self.value, backup).await {
                let entry =
                    journal.error().item(ItemRef::new(self.resource.as_str(), self.namespace.as_deref(), &self.name));
                let message = format!("Error executing delete item action {}", resolved.action.name());
                entry.error(&error).message(&message);
            }
        }
    }
}

/// Reads the archive and passes on the items of types that some action applies to, each once.
fn read<R: Read>(
    archive: R,
    limits: Limits,
    actions: &[Action],
    sender: &mpsc::Sender<ArchivedItem>,
) -> Result<(), DeleteError> {
    ArchiveReader::new(archive).with_limits(limits).for_each(|entry| {
        let item = ItemPath::parse(entry.path).filter(|path| path.version.is_none());
        let Some(path) = item.filter(|path| actions.iter().any(|one| one.applies_to_type(path.group_resource))) else {
            return Ok(());
        };
        let item = ArchivedItem {
            resource: path.group_resource.to_owned(),
            namespace: path.namespace.map(str::to_owned),
            name: path.name.to_owned(),
            value: serde_json::from_slice(entry.body).map_err(velero_archive::Error::Json)?,
        };
        sender.blocking_send(item).map_err(|_| DeleteError::ReaderDied)
    })?;
    Ok(())
}
