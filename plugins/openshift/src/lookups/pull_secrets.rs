//! The pull secrets that OpenShift makes for the service accounts of a namespace. Their names end in a random part, so a
//! reference from another cluster has to be replaced by the secret that serves the same account here.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use velero_plugin::item::{annotation, elements, text};
use velero_plugin::{Error, Result};

use crate::names::annotations;

/// How the names of pull secrets start, in the order they are tried.
const PREFIXES: &[&str] = &["builder-dockercfg-", "default-dockercfg-", "deployer-dockercfg-"];

/// The one every namespace gets.
pub(crate) const DEFAULT_PREFIX: &str = "default-dockercfg-";

/// The first version that makes pull secrets only where there is a registry.
const WITHOUT_REGISTRY: (u32, u32) = (4, 15);

/// The pull secrets and accounts of a namespace.
#[derive(Debug, Default)]
pub(crate) struct PullSecrets {
    secrets: Vec<PullSecret>,
    accounts: BTreeMap<String, Account>,
}

#[derive(Debug)]
struct PullSecret {
    name: String,
    made_for: String,
    account_name: String,
    account_uid: String,
}

#[derive(Debug)]
struct Account {
    uid: String,
    pull_secret: String,
}

/// How the name of a pull secret starts; `None` for other secrets.
pub(crate) fn prefix_of(name: &str) -> Option<&'static str> {
    PREFIXES.iter().copied().find(|prefix| name.starts_with(prefix))
}

impl PullSecrets {
    /// Picks the pull secrets out of the secrets of a namespace.
    pub(crate) fn new(secrets: &[Value], accounts: &[Value]) -> Self {
        let secrets = secrets.iter().filter(|secret| prefix_of(text(secret, "/metadata/name")).is_some());
        let secrets = secrets.map(|secret| PullSecret {
            name: text(secret, "/metadata/name").to_owned(),
            made_for: annotation(secret, annotations::PULL_SECRET_ACCOUNT).unwrap_or_default().to_owned(),
            account_name: annotation(secret, annotations::SERVICE_ACCOUNT_NAME).unwrap_or_default().to_owned(),
            account_uid: annotation(secret, annotations::SERVICE_ACCOUNT_UID).unwrap_or_default().to_owned(),
        });
        let account = |account: &Value| {
            let uid = text(account, "/metadata/uid").to_owned();
            let pull_secret = annotation(account, annotations::ACCOUNT_PULL_SECRET).unwrap_or_default().to_owned();
            (text(account, "/metadata/name").to_owned(), Account { uid, pull_secret })
        };
        Self { secrets: secrets.collect(), accounts: accounts.iter().map(account).collect() }
    }

    /// Whether there is a secret for each of these prefixes.
    pub(crate) fn have(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().all(|prefix| self.secrets.iter().any(|secret| secret.name.starts_with(prefix)))
    }

    /// The secret to use instead of one of another cluster; `None` when the name is not that of a pull secret.
    /// `first_wins` takes the first of the right prefix, whoever it belongs to.
    pub(crate) fn replacement(&self, name: &str, namespace: &str, first_wins: bool) -> Result<Option<&str>> {
        let Some(prefix) = prefix_of(name) else { return Ok(None) };
        let mut secrets = self.secrets.iter().filter(|secret| secret.name.starts_with(prefix));
        let found = secrets.find(|secret| first_wins || self.belongs(secret));
        let missing = || {
            Error::Item(format!(
                "secret not found: namespace {namespace} has no pull secret {prefix}* of a service account that could \
                 replace {name}; check that OpenShift makes pull secrets there"
            ))
        };
        found.map(|secret| Some(secret.name.as_str())).ok_or_else(missing)
    }

    /// Whether the account a secret was made for still uses it.
    fn belongs(&self, secret: &PullSecret) -> bool {
        if !secret.made_for.is_empty() {
            return self.accounts.get(&secret.made_for).is_some_and(|account| account.pull_secret == secret.name);
        }
        let account = self.accounts.get(&secret.account_name);
        account.is_some_and(|account| account.uid == secret.account_uid)
    }
}

/// Whether a cluster makes pull secrets: it has a registry, or is of a version that makes them anyway. One that does not
/// tell its version is older than that.
pub(super) fn are_made(cluster_version: Option<&Value>, registry: Option<&Value>) -> Result<bool> {
    let Some(cluster_version) = cluster_version else { return Ok(true) };
    let enabled = elements(cluster_version, "/status/capabilities/enabledCapabilities");
    let has_capability = enabled.into_iter().any(|capability| capability == "ImageRegistry");
    let has_registry = registry.is_some_and(|registry| text(registry, "/spec/managementState") != "Removed");
    if has_capability && has_registry {
        return Ok(true);
    }
    let version = text(cluster_version, "/status/desired/version");
    let unreadable = || {
        Error::Failed(format!("ClusterVersion version, status.desired.version: {version:?} is not of the form 4.15.0"))
    };
    let mut numbers = version.split('.');
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).ok_or_else(unreadable);
    let found = (number()?, number()?);
    numbers.next().ok_or_else(unreadable)?;
    Ok(found < WITHOUT_REGISTRY)
}

/// Refuses to wait longer for a namespace that has been there for so long.
pub(super) fn check_age(namespace: &str, created: &str, now: Timestamp, longest: Duration) -> Result<()> {
    let created: Timestamp = created.parse().map_err(|_| {
        Error::Item(format!("Namespace {namespace} does not exist, so there are no pull secrets in it"))
    })?;
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    if age < longest {
        return Ok(());
    }
    Err(Error::Item(format!(
        "{DEFAULT_PREFIX} secret: namespace {namespace} still lacks pull secrets {}s after it was created; check that \
         OpenShift's controllers run",
        age.as_secs()
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(name: &str, annotations: &Value) -> Value {
        json!({"metadata": {"name": name, "annotations": annotations}})
    }

    fn secrets() -> PullSecrets {
        let made_for = |account: &str| json!({"openshift.io/internal-registry-auth-token.service-account": account});
        let of = |name: &str, uid: &str| json!({"kubernetes.io/service-account.name": name, "kubernetes.io/service-account.uid": uid});
        PullSecrets::new(
            &[
                secret("builder-dockercfg-old", &of("builder", "gone")),
                secret("builder-dockercfg-new", &of("builder", "b-1")),
                secret("default-dockercfg-old", &made_for("default")),
                secret("default-dockercfg-new", &made_for("default")),
                secret("deployer-dockercfg-x", &json!(null)),
                secret("deployer-token-x", &json!(null)),
            ],
            &[
                json!({"metadata": {"name": "builder", "uid": "b-1"}}),
                json!({"metadata": {"name": "default", "uid": "d-1", "annotations":
                    {"openshift.io/internal-registry-pull-secret-ref": "default-dockercfg-new"}}}),
            ],
        )
    }

    #[test]
    fn a_pull_secret_is_replaced_by_the_one_its_account_uses() {
        for (name, first_wins, expected) in [
            ("my-secret", false, Ok(None)),
            ("builder-dockercfg-abc", false, Ok(Some("builder-dockercfg-new"))),
            ("builder-dockercfg-abc", true, Ok(Some("builder-dockercfg-old"))),
            ("default-dockercfg-abc", false, Ok(Some("default-dockercfg-new"))),
            ("default-dockercfg-abc", true, Ok(Some("default-dockercfg-old"))),
            ("deployer-dockercfg-abc", false, Err("secret not found")),
            ("deployer-dockercfg-abc", true, Ok(Some("deployer-dockercfg-x"))),
            ("other-dockercfg-abc", true, Ok(None)),
        ] {
            let secrets = secrets();
            match (secrets.replacement(name, "shop", first_wins), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
    }

    #[test]
    fn pull_secrets_are_made_where_there_is_a_registry_or_always_before_4_15() {
        let version = |version: &str, capabilities: Value| json!({"status": {"desired": {"version": version}, "capabilities": {"enabledCapabilities": capabilities}}});
        let managed = json!({"spec": {"managementState": "Managed"}});
        let removed = json!({"spec": {"managementState": "Removed"}});
        let with = json!(["Build", "ImageRegistry"]);
        for (cluster_version, registry, expected) in [
            (None, None, Some(true)),
            (Some(version("4.16.2", with.clone())), Some(managed.clone()), Some(true)),
            (Some(version("4.16.2", with.clone())), Some(removed), Some(false)),
            (Some(version("4.16.2", with)), None, Some(false)),
            (Some(version("4.15.0", json!([]))), Some(managed.clone()), Some(false)),
            (Some(version("4.14.9", json!([]))), None, Some(true)),
            (Some(version("3.11.0", json!(null))), None, Some(true)),
            (Some(version("5.0.0", json!(null))), None, Some(false)),
            (Some(version("4.16", json!(null))), None, None),
            (Some(version("", json!(null))), Some(managed), None),
        ] {
            let found = are_made(cluster_version.as_ref(), registry.as_ref()).ok();
            assert_eq!(found, expected, "{cluster_version:?} {registry:?}");
        }
    }

    #[test]
    fn a_namespace_is_waited_for_while_it_is_young() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let longest = Duration::from_secs(300);
        for (created, expected) in [
            ("2026-01-01T00:09:00Z", None),
            ("2026-01-01T00:05:01Z", None),
            ("2026-01-01T00:05:00Z", Some("300s")),
            ("2025-01-01T00:05:00Z", Some("still lacks pull secrets")),
            ("", Some("Namespace shop does not exist")),
        ] {
            let error = check_age("shop", created, now, longest).err().map(|error| error.to_string());
            match expected {
                None => assert_eq!(error, None, "{created}"),
                Some(part) => assert!(error.unwrap().contains(part), "{created}"),
            }
        }
    }
}
