//! What an administrator can set: in a ConfigMap of Velero's namespace, or in the environment.
//!
//! The ConfigMap has the labels `velero.io/plugin-config` and `openshift.io/plugin`. A key that it lacks is looked for
//! in the environment as `VELERO_OPENSHIFT_<KEY>`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt;
use velero_api::GoDuration;
use velero_cluster::{Cluster, types};
use velero_plugin::item::text;
use velero_plugin::{Error, Result};

use crate::compat::{Compat, UnknownSwitch};

/// The labels of the ConfigMap, as a selector.
const SELECTOR: &str = "velero.io/plugin-config,openshift.io/plugin";
/// The domain of the names of all actions.
pub(crate) const DOMAIN: &str = "openshift.io/";
/// Where a pod finds the token of its service account.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// How often a copy tries again what can succeed.
const COPY_RETRIES: usize = 6;
/// How long a namespace may be without pull secrets.
const PULL_SECRET_WAIT: Duration = Duration::from_secs(5 * 60);

const KEYS: &[&str] = &[
    "disable",
    "compat",
    "imageCopy",
    "platform",
    "migrationRegistry",
    "insecureRegistries",
    "plainHttpRegistries",
    "registryTokenFile",
    "registrySecret",
    "copyRetries",
    "pullSecretWait",
];

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `disable`: actions that are switched off, by name; the domain may be left out.
    pub disabled: BTreeSet<String>,
    /// `compat`: behaviours of the Go plugin to have back, or `all`.
    pub compat: BTreeSet<Compat>,
    /// `imageCopy`: how images are copied.
    pub image_copy: ImageCopyMode,
    /// `platform`: the only platform to copy of images that have several, as in `linux/amd64`.
    pub platform: Option<String>,
    /// `migrationRegistry`: the registry for images in backups and restores that are no migration, where OADP names none.
    pub migration_registry: Option<String>,
    /// `insecureRegistries`: registries whose certificate is not checked.
    pub insecure_registries: BTreeSet<String>,
    /// `plainHttpRegistries`: registries without TLS.
    pub plain_http_registries: BTreeSet<String>,
    /// `registryTokenFile`: the token for the internal registry.
    pub registry_token_file: PathBuf,
    /// `registrySecret`: a Secret of Velero's namespace with a docker config for the other registries.
    pub registry_secret: Option<String>,
    /// `copyRetries`: how often what can succeed is tried again, after ever longer pauses.
    pub copy_retries: usize,
    /// `pullSecretWait`: how old a namespace may become before pull secrets that it lacks are an error.
    pub pull_secret_wait: Duration,
}

/// How images are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageCopyMode {
    /// As an operation that goes on while the backup or restore does.
    #[default]
    Async,
    /// Before the image stream is done.
    Sync,
    /// Not at all.
    Off,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            disabled: BTreeSet::new(),
            compat: BTreeSet::new(),
            image_copy: ImageCopyMode::default(),
            platform: None,
            migration_registry: None,
            insecure_registries: BTreeSet::new(),
            plain_http_registries: BTreeSet::new(),
            registry_token_file: TOKEN_FILE.into(),
            registry_secret: None,
            copy_retries: COPY_RETRIES,
            pull_secret_wait: PULL_SECRET_WAIT,
        }
    }
}

impl Settings {
    /// Reads the ConfigMap and the environment.
    pub(crate) async fn read(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let pages =
            cluster.list_pages(&types::CONFIG_MAPS, Some(namespace), Some(SELECTOR), 500).map_ok(|page| page.items);
        let found: Vec<_> = pages.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let (place, entries) = match found.as_slice() {
            [] => (format!("environment {}*", variable("")), BTreeMap::new()),
            [only] => {
                let value = only.to_value()?;
                let data = value["data"].as_object().into_iter().flatten();
                let entries = data.map(|(key, _)| (key.clone(), text(&value["data"], &format!("/{key}")).to_owned()));
                (format!("ConfigMap {namespace}/{}", only.name()), entries.collect())
            }
            several => {
                let names: Vec<_> = several.iter().map(|found| found.name()).collect();
                let names = names.join(", ");
                let problem = format!("ConfigMaps {names} of {namespace} all have the labels {SELECTOR}");
                return Err(Error::Failed(format!("{problem}; leave them on one")));
            }
        };
        let of_environment = |key: &&str| Some(((*key).to_owned(), std::env::var(variable(key)).ok()?));
        let mut all: BTreeMap<_, _> = KEYS.iter().filter_map(of_environment).collect();
        all.extend(entries);
        Self::parse(&all)
            .map_err(|problem| Error::Failed(format!("settings of the OpenShift plugin, {place}: {problem}")))
    }

    /// What the entries say. A key or value that is not known is an error, for a typing error must not go unnoticed.
    fn parse(entries: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut settings = Self::default();
        for (key, value) in entries {
            settings.set(key, value.trim()).map_err(|problem| format!("{key}: {problem}"))?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let list = || value.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let registries = || list().map(str::to_owned).collect();
        match key {
            "disable" => {
                let names = list().map(|name| format!("{DOMAIN}{}", name.strip_prefix(DOMAIN).unwrap_or(name)));
                self.disabled = names.collect();
            }
            "compat" if value == "all" => self.compat = Compat::ALL.iter().copied().collect(),
            "compat" => {
                let switches = list().map(str::parse::<Compat>).collect::<Result<_, UnknownSwitch>>();
                self.compat = switches.map_err(|error| error.to_string())?;
            }
            "imageCopy" => self.image_copy = mode(value)?,
            "platform" => self.platform = given(value),
            "migrationRegistry" => self.migration_registry = given(value),
            "insecureRegistries" => self.insecure_registries = registries(),
            "plainHttpRegistries" => self.plain_http_registries = registries(),
            "registryTokenFile" => self.registry_token_file = value.into(),
            "registrySecret" => self.registry_secret = given(value),
            "copyRetries" => {
                self.copy_retries = value.parse().map_err(|_| format!("{value:?} is not a number of retries"))?;
            }
            "pullSecretWait" => {
                let wait: GoDuration = value.parse().map_err(|error| format!("{error}"))?;
                self.pull_secret_wait = wait.to_std();
            }
            _ => return Err(format!("is no setting; use some of {}", KEYS.join(", "))),
        }
        Ok(())
    }

    /// Whether the Go plugin's behaviour is asked for.
    pub fn compat(&self, switch: Compat) -> bool {
        self.compat.contains(&switch)
    }

    /// Whether copies may have another digest than their source.
    pub(crate) fn changes_digests(&self) -> bool {
        self.platform.is_some() || self.compat(Compat::OnePlatform)
    }

    /// Names that are switched off and belong to no action.
    pub(crate) fn check_disabled(&self, names: &[&str]) -> Result<()> {
        match self.disabled.iter().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::Failed(format!(
                "settings of the OpenShift plugin, disable: there is no action {name}; use some of {}",
                names.join(", ")
            ))),
        }
    }
}

fn mode(value: &str) -> Result<ImageCopyMode, String> {
    match value {
        "async" => Ok(ImageCopyMode::Async),
        "sync" => Ok(ImageCopyMode::Sync),
        "off" => Ok(ImageCopyMode::Off),
        _ => Err(format!("{value:?} is not a way to copy images; use async, sync or off")),
    }
}

fn given(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// The variable of a key: `imageCopy` is `VELERO_OPENSHIFT_IMAGE_COPY`.
fn variable(key: &str) -> String {
    let mut name = "VELERO_OPENSHIFT_".to_owned();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(key: &str, value: &str) -> Result<Settings, String> {
        Settings::parse(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn actions_are_switched_off_with_or_without_the_domain() {
        let settings = parse("disable", "05-route-restore-plugin, openshift.io/06-build-restore-plugin").unwrap();
        let expected = ["openshift.io/05-route-restore-plugin", "openshift.io/06-build-restore-plugin"];
        assert_eq!(settings.disabled.iter().collect::<Vec<_>>(), expected);
        assert!(settings.check_disabled(&expected).is_ok());
        assert!(settings.check_disabled(&expected[..1]).unwrap_err().to_string().contains("06-build"));
    }

    #[test]
    fn compat_is_some_switches_or_all() {
        let some = parse("compat", "push-latest,image-path").unwrap();
        assert!(some.compat(Compat::PushLatest) && some.compat(Compat::ImagePath) && !some.compat(Compat::EveryKind));
        assert!(Compat::ALL.iter().all(|switch| parse("compat", "all").unwrap().compat(*switch)));
        assert_eq!(parse("compat", "").unwrap(), Settings::default());
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        for (key, value, problem) in [
            ("compat", "push-lates", "\"push-lates\" is no compat switch"),
            ("imageCopy", "later", "use async, sync or off"),
            ("pullSecretWait", "long", "pullSecretWait"),
            ("copyRetries", "-1", "not a number of retries"),
            ("imagecopy", "sync", "imagecopy: is no setting"),
        ] {
            let error = parse(key, value).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_key_has_a_variable() {
        assert_eq!(variable("imageCopy"), "VELERO_OPENSHIFT_IMAGE_COPY");
        assert_eq!(variable("disable"), "VELERO_OPENSHIFT_DISABLE");
    }
}
