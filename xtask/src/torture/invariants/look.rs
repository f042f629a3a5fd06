//! What is there: the objects of Velero and the files in the bucket.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;
use velero_testkit::parts::BUCKET;
use velero_tests::{backups, volume_data};

use crate::torture::stage::Stage;
use crate::torture::workload::name_of;

/// Everything at one moment.
pub(in crate::torture) struct Look {
    pub(in crate::torture) backups: Vec<Value>,
    pub(in crate::torture) restores: Vec<Value>,
    pub(in crate::torture) requests: Vec<Value>,
    pub(in crate::torture) schedules: Vec<Value>,
    /// The objects that move data, with their kinds.
    pub(in crate::torture) transfers: Vec<(&'static str, Value)>,
    /// The names of the files of each backup in the bucket.
    pub(in crate::torture) backup_files: BTreeMap<String, BTreeSet<String>>,
    /// The same of each restore.
    pub(in crate::torture) restore_files: BTreeMap<String, BTreeSet<String>>,
}

impl Look {
    pub(in crate::torture) fn take(stage: &Stage) -> Result<Self> {
        let items = |plural: &str| stage.machine.items(&stage.path(plural));
        // Files first: those of what goes meanwhile would seem to be nobody's.
        let (backup_files, restore_files) = (files(stage, "backups")?, files(stage, "restores")?);
        let mut transfers = Vec::new();
        for plural in volume_data::TRANSFERS {
            transfers.extend(items(plural)?.into_iter().map(|transfer| (plural, transfer)));
        }
        let requests = items("deletebackuprequests")?;
        Ok(Self {
            backups: items("backups")?,
            restores: items("restores")?,
            requests,
            schedules: items("schedules")?,
            transfers,
            backup_files,
            restore_files,
        })
    }

    /// The names of the backups.
    pub(in crate::torture) fn backup_names(&self) -> BTreeSet<String> {
        self.backups.iter().map(|backup| name_of(backup).to_owned()).collect()
    }

    /// The names of the restores.
    pub(in crate::torture) fn restore_names(&self) -> BTreeSet<String> {
        self.restores.iter().map(|restore| name_of(restore).to_owned()).collect()
    }

    /// The backups and restores that have ended; whether it is a backup comes last.
    pub(super) fn ended(&self) -> impl Iterator<Item = (&str, &Value, bool)> {
        let all = self.backups.iter().map(|backup| (backup, true));
        let all = all.chain(self.restores.iter().map(|restore| (restore, false)));
        all.filter(|(object, _)| has_ended(object)).map(|(object, is_backup)| (name_of(object), object, is_backup))
    }
}

/// Whether a backup or restore has ended.
pub(super) fn has_ended(object: &Value) -> bool {
    object["status"]["phase"].as_str().is_some_and(|phase| backups::ENDED.contains(&phase))
}

/// The files in a folder of the bucket, by the backup or restore they are of.
fn files(stage: &Stage, folder: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let root = format!("{}/{folder}/", stage.prefix);
    let mut files = BTreeMap::<String, BTreeSet<String>>::new();
    for key in backups::keys(&stage.machine, BUCKET, &root)? {
        let below = key.strip_prefix(&root).unwrap_or(&key);
        let (owner, file) = below.split_once('/').unwrap_or((below, ""));
        // Some stores keep a folder as an empty object.
        if !file.is_empty() {
            files.entry(owner.to_owned()).or_default().insert(file.to_owned());
        }
    }
    Ok(files)
}
