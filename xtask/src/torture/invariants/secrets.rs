//! Whether a log tells what it must not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Result;
use velero_testkit::parts::SECRET_KEY;

use crate::torture::sources::MARK;
use crate::torture::stage::{REPOSITORY_PASSWORD, Stage};

/// The beginning of the marked Secrets as the API server gives them, in base 64.
const ENCODED_MARK: &str = "dG9ydHVyZS1tYXJrZWQtc2VjcmV0";

/// How far each log has been read.
#[derive(Default)]
pub(in crate::torture) struct Secrets(BTreeMap<PathBuf, u64>);

impl Secrets {
    /// Secrets in a text.
    pub(super) fn in_text(&self, what: &str, text: &str) -> Vec<String> {
        let secrets = [MARK, ENCODED_MARK, SECRET_KEY, REPOSITORY_PASSWORD];
        let told = secrets.into_iter().filter(|secret| text.contains(secret));
        told.map(|secret| format!("{what} tells {secret:?}")).collect()
    }

    /// Secrets in what the server, its predecessors and pods have logged since the last look.
    pub(super) fn in_logs(&mut self, stage: &Stage) -> Result<Vec<String>> {
        let mut logs = vec![stage.kept_log(), stage.server.log()];
        collect(&stage.machine.state().join("log/pods"), stage.server.namespace(), &mut logs);
        let mut found = Vec::new();
        for log in logs {
            let Ok(mut file) = File::open(&log) else { continue };
            let read = self.0.entry(log.clone()).or_default();
            // A log that was begun anew is read from its beginning.
            if file.metadata()?.len() < *read {
                *read = 0;
            }
            file.seek(SeekFrom::Start(*read))?;
            let mut text = Vec::new();
            *read += file.read_to_end(&mut text)? as u64;
            found.extend(self.in_text(&log.display().to_string(), &String::from_utf8_lossy(&text)));
        }
        Ok(found)
    }
}

/// The logs of the pods of a namespace.
fn collect(folder: &Path, namespace: &str, logs: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        if path.is_dir() {
            collect(&path, namespace, logs);
        } else if is_log && path.display().to_string().contains(&format!("/{namespace}_")) {
            logs.push(path);
        }
    }
}
