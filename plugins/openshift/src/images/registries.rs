//! How the registries are reached: the internal one with the token of the service account, others as a docker config
//! says; over TLS that is checked, unless the settings allow less.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

use velero_cluster::{Cluster, types};
use velero_plugin::{Error, Result};
use velero_registry::{Access, Credentials, Image, Problem, Registry};

use super::plan::ImageName;
use crate::compat::Compat;
use crate::lock;
use crate::settings::Settings;

/// Where OpenShift puts the authority of its services into every pod.
const SERVICE_AUTHORITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt";

/// The registries of one piece of work; each keeps its connections and tokens.
pub(crate) struct Registries {
    internal: String,
    token: Option<String>,
    docker_config: Option<String>,
    settings: Settings,
    known: Mutex<HashMap<String, Registry>>,
}

impl Registries {
    /// Reads the credentials. `internal` is the registry of this cluster.
    pub(crate) async fn open(cluster: &Cluster, namespace: &str, internal: &str, settings: &Settings) -> Result<Self> {
        let token = match tokio::fs::read_to_string(&settings.registry_token_file).await {
            Ok(token) => Some(token.trim().to_owned()),
            Err(error) => {
                tracing::debug!("no token for the internal registry in {:?}: {error}", settings.registry_token_file);
                None
            }
        };
        let docker_config = match &settings.registry_secret {
            Some(secret) => Some(of_secret(cluster, namespace, secret).await?),
            None => tokio::fs::read_to_string(docker_config_file()).await.ok(),
        };
        Ok(Self {
            internal: internal.to_owned(),
            token,
            docker_config,
            settings: settings.clone(),
            known: Mutex::default(),
        })
    }

    /// An image of one of the registries.
    pub(super) fn image(&self, name: &ImageName) -> Result<Image> {
        let failed = |problem: Problem| Error::Failed(problem.to_string());
        let reference = name.reference().map_err(failed)?;
        let mut known = lock(&self.known);
        if !known.contains_key(&name.registry) {
            let access = self.access(&name.registry)?;
            let registry = Registry::new(&name.registry, access).map_err(failed)?;
            known.insert(name.registry.clone(), registry);
        }
        known[&name.registry].image(&reference).map_err(failed)
    }

    fn access(&self, registry: &str) -> Result<Access> {
        let failed = |problem: Problem| Error::Failed(problem.to_string());
        let is_internal = registry == self.internal;
        let anything = self.settings.compat(Compat::InsecureRegistries);
        let credentials = match (is_internal, &self.token, &self.docker_config) {
            (true, Some(token), _) => Credentials::service_account(token.as_str()),
            (true, None, None) => {
                let file = self.settings.registry_token_file.display();
                return Err(Error::Failed(format!(
                    "registry {registry}: there is no token to authenticate with in {file}; run inside the cluster, or set \
                     registryTokenFile"
                )));
            }
            (_, _, Some(config)) => Credentials::from_docker_config(config, registry).map_err(failed)?,
            (false, _, None) => Credentials::Anonymous,
        };
        Ok(Access {
            credentials,
            certificate_authorities: std::fs::read_to_string(SERVICE_AUTHORITY).ok().filter(|_| is_internal),
            insecure_tls: anything || self.settings.insecure_registries.contains(registry),
            plain_http: anything || self.settings.plain_http_registries.contains(registry),
        })
    }
}

/// The docker config in a Secret of Velero's namespace.
async fn of_secret(cluster: &Cluster, namespace: &str, name: &str) -> Result<String> {
    let problem = |problem: &str| Error::Failed(format!("registrySecret {namespace}/{name}: {problem}"));
    let secret =
        cluster.get(types::SECRETS.item(Some(namespace), name)).await?.ok_or_else(|| problem("it does not exist"))?;
    let keys = [".dockerconfigjson", ".dockercfg", "config.json"];
    let found = keys.iter().find_map(|key| secret["data"][key].as_str());
    let found = found
        .ok_or_else(|| problem("it has no .dockerconfigjson; create it with kubectl create secret docker-registry"))?;
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, found).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| problem("its content is no text"))
}

/// Where container engines look for credentials.
fn docker_config_file() -> PathBuf {
    if let Some(file) = std::env::var_os("REGISTRY_AUTH_FILE") {
        return file.into();
    }
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".docker");
    folder.unwrap_or_else(home).join("config.json")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::compat;

    fn registries(token: Option<&str>, docker_config: Option<&str>, settings: Settings) -> Registries {
        Registries {
            internal: "internal:5000".to_owned(),
            token: token.map(str::to_owned),
            docker_config: docker_config.map(str::to_owned),
            settings,
            known: Mutex::default(),
        }
    }

    #[test]
    fn each_registry_gets_its_own_credentials() {
        let config = r#"{"auths": {"mig:5000": {"username": "user", "password": "secret"}}}"#;
        let user = |name: &str| Ok(format!("Basic({name})"));
        let anonymous = || Ok("Anonymous".to_owned());
        for (row, token, config, registry, expected) in [
            ("token", Some("t"), None, "internal:5000", user("ignored")),
            ("token wins", Some("t"), Some(config), "internal:5000", user("ignored")),
            ("no token", None, None, "internal:5000", Err("registryTokenFile")),
            ("config", Some("t"), Some(config), "mig:5000", user("user")),
            ("not in the config", Some("t"), Some(config), "other:5000", anonymous()),
            ("no config", Some("t"), None, "mig:5000", anonymous()),
            ("broken config", Some("t"), Some("?"), "mig:5000", Err("mig:5000")),
        ] {
            let found = registries(token, config, Settings::default()).access(registry);
            match (found.map(|access| format!("{:?}", access.credentials)), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{row}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{row}: {error}"),
                (found, _) => panic!("{row}: {found:?}"),
            }
        }
    }

    #[test]
    fn less_than_checked_tls_is_only_for_registries_that_settings_name() {
        let only = |name: &str| BTreeSet::from([name.to_owned()]);
        let insecure = Settings { insecure_registries: only("mig:5000"), ..Settings::default() };
        let plain = Settings { plain_http_registries: only("mig:5000"), ..Settings::default() };
        for (settings, registry, insecure_tls, plain_http) in [
            (Settings::default(), "mig:5000", false, false),
            (insecure.clone(), "mig:5000", true, false),
            (insecure, "other:5000", false, false),
            (plain, "mig:5000", false, true),
            (compat(&[Compat::InsecureRegistries]), "mig:5000", true, true),
        ] {
            let access = registries(None, None, settings).access(registry).unwrap();
            assert_eq!((access.insecure_tls, access.plain_http), (insecure_tls, plain_http), "{registry}");
        }
    }
}
