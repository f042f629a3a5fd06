//! The client configuration file, `$HOME/.config/velero/config.json`: a flat JSON object.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::arguments::values::parse_bool;
use crate::private_files;

/// The values of the file. Keys this program does not know are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientConfig {
    values: BTreeMap<String, Value>,
}

/// Where the file is.
pub(crate) fn path() -> PathBuf {
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    PathBuf::from(env::var_os(home).unwrap_or_default()).join(".config/velero/config.json")
}

impl ClientConfig {
    /// Reads the file; one that does not exist is empty.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let values = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a JSON object, repair or remove it", path.display()))?;
        Ok(Self { values })
    }

    /// Writes the file, for the user's eyes only, and its folder where needed.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let write = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                private_files::create_folder(folder)?;
            }
            let mut file = private_files::to_write().create(true).truncate(true).open(path)?;
            let text = serde_json::to_string(&self.values)?;
            writeln!(file, "{text}")
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// The keys, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// A value as it is shown.
    pub(crate) fn shown(&self, key: &str) -> String {
        match self.values.get(key) {
            None => "<NOT SET>".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// Sets a value; an empty one removes the key.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        if value.is_empty() {
            self.values.remove(key);
        } else {
            self.values.insert(key.to_owned(), value.into());
        }
    }

    /// The namespace of the server.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.text("namespace")
    }

    /// The features, comma separated.
    pub(crate) fn features(&self) -> Option<&str> {
        self.text("features")
    }

    /// The certificate bundle for the object store.
    pub(crate) fn cacert(&self) -> Option<&str> {
        self.text("cacert")
    }

    /// Whether output is coloured where that makes sense.
    pub(crate) fn colorized(&self) -> bool {
        self.text("colorized").and_then(|text| parse_bool(text).ok()).unwrap_or(true)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn values_survive_a_round_trip_and_only_the_owner_may_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("velero/config.json");
        let mut config = ClientConfig::load(&path).unwrap();
        config.set("namespace", "backups");
        config.set("colorized", "false");
        config.save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = ClientConfig::load(&path).unwrap();
        assert_eq!(read, config);
        assert_eq!(read.namespace(), Some("backups"));
        assert!(!read.colorized());
    }

    #[test]
    fn an_empty_value_removes_the_key() {
        let mut config = ClientConfig::default();
        config.set("cacert", "/ca.pem");
        config.set("cacert", "");
        assert_eq!(config.shown("cacert"), "<NOT SET>");
    }

    #[test]
    fn a_broken_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, "{").unwrap();
        assert!(format!("{:#}", ClientConfig::load(&path).unwrap_err()).contains("config.json"));
    }
}
