//! How the driver is to misbehave. The file is read at every call, so a test changes it while the driver runs; the
//! parameters of a storage class or a snapshot class say the same for what is made with that class alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parameters of Kubernetes itself, which sidecars add to those of a class.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";

/// The settings; without any, the driver does its work at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// A snapshot becomes ready to use that many seconds after it was taken.
    pub ready_after_seconds: u32,
    /// A snapshot does not become ready to use.
    pub never_ready: bool,
    /// Taking a snapshot needs that many seconds.
    pub create_snapshot_seconds: u32,
    /// Taking a snapshot fails with that message.
    pub fail_create_snapshot: Option<String>,
    /// Taking a snapshot does not come to an end.
    pub hang_create_snapshot: bool,
    /// Removing a snapshot fails with that message. It is no parameter of a class: removing has none.
    pub fail_delete_snapshot: Option<String>,
    /// Making a volume fails with that message.
    pub fail_create_volume: Option<String>,
}

impl Settings {
    /// Reads the settings; a file that is missing means none.
    pub fn read(file: &Path) -> Result<Self> {
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        serde_json::from_slice(&text).with_context(|| format!("the settings in {} are wrong", file.display()))
    }

    /// Writes the settings, so that a driver reads either the old or the new ones.
    pub fn write(&self, file: &Path) -> Result<()> {
        let unfinished = file.with_extension("unfinished");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&unfinished, file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// These settings with the parameters of a class laid over them.
    pub fn with_parameters(&self, parameters: &BTreeMap<String, String>) -> Result<Self> {
        let mut settings = serde_json::to_value(self)?;
        for (key, text) in parameters.iter().filter(|(key, _)| !key.starts_with(OF_KUBERNETES)) {
            settings[key] = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        }
        serde_json::from_value(settings).context("the parameters of the class are wrong")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_of_a_class_are_laid_over_the_settings() {
        let file = Settings { ready_after_seconds: 30, fail_create_volume: Some("full".into()), ..Settings::default() };
        let class = parameters(&[
            ("readyAfterSeconds", "5"),
            ("neverReady", "true"),
            ("failCreateSnapshot", "out of space"),
            ("csi.storage.k8s.io/volumesnapshot/name", "any"),
        ]);
        let wanted = Settings {
            ready_after_seconds: 5,
            never_ready: true,
            fail_create_snapshot: Some("out of space".into()),
            fail_create_volume: Some("full".into()),
            ..Settings::default()
        };
        assert_eq!(file.with_parameters(&class).unwrap(), wanted);
        assert_eq!(file.with_parameters(&BTreeMap::new()).unwrap(), file);
    }

    #[test]
    fn a_parameter_that_is_not_known_or_no_value_of_its_kind_is_named() {
        for (key, value, named) in [("readyafter", "5", "readyafter"), ("readyAfterSeconds", "soon", "soon")] {
            let error = Settings::default().with_parameters(&parameters(&[(key, value)])).unwrap_err();
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
    }

    #[test]
    fn settings_are_read_as_written_and_a_missing_file_means_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.json");
        assert_eq!(Settings::read(&file).unwrap(), Settings::default());
        let settings = Settings { hang_create_snapshot: true, ..Settings::default() };
        settings.write(&file).unwrap();
        assert_eq!(Settings::read(&file).unwrap(), settings);
        fs::write(&file, "{").unwrap();
        assert!(Settings::read(&file).is_err());
    }
}
