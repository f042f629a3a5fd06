//! Tokens of service accounts belong to the cluster that made them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};
use velero_cluster::{Cluster, types};
use velero_plugin::item::{object_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

use super::lookup;

/// Keeps out tokens that the old cluster made for a service account, and empties those somebody asked for, so that the
/// cluster fills them.
pub struct RestoreAction {
    cluster: Cluster,
    accounts: Mutex<HashMap<String, Arc<OnceCell<BTreeSet<String>>>>>,
}

impl RestoreAction {
    /// Lists the service accounts of a namespace when the first token of it is restored.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), accounts: Mutex::default() }
    }

    async fn was_made_by_the_cluster(&self, secret: &Value) -> Result<bool> {
        let namespace = text(secret, "/metadata/namespace");
        let found = Arc::clone(self.accounts.lock().await.entry(namespace.to_owned()).or_default());
        let read = async || lookup::names(&self.cluster, &types::SERVICE_ACCOUNTS, Some(namespace)).await;
        Ok(is_token_of_any(text(secret, "/metadata/name"), found.get_or_try_init(read).await?))
    }
}

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/secret"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["secrets"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        if text(input.item, "/type") != "kubernetes.io/service-account-token" {
            return Ok(RestoreItemOutcome::default());
        }
        if self.was_made_by_the_cluster(input.item).await? {
            return Ok(RestoreItemOutcome { skip_restore: true, ..RestoreItemOutcome::default() });
        }
        Ok(RestoreItemOutcome::changed(input.item, empty))
    }
}

/// Whether a secret has the kind of name that clusters give to tokens they make.
fn is_token_of_any(secret: &str, accounts: &BTreeSet<String>) -> bool {
    let is_token_of =
        |account: &String| secret.strip_prefix(account.as_str()).is_some_and(|it| it.starts_with("-token-"));
    accounts.iter().any(is_token_of)
}

/// Drops what the cluster fills in; it would be refused with the values of another cluster.
fn empty(secret: &mut Value) {
    if let Some(annotations) = object_mut(secret, "/metadata/annotations") {
        annotations.remove("kubernetes.io/service-account.uid");
    }
    if let Some(data) = object_mut(secret, "/data") {
        data.remove("token");
        data.remove("ca.crt");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_known_by_the_name_of_its_account() {
        let accounts = BTreeSet::from(["default".to_owned(), "robot".to_owned()]);
        for (secret, expected) in [
            ("default-token-sfafa", true),
            ("robot-token-", true),
            ("robot-token", false),
            ("my-token", false),
            ("my-robot-token-x", false),
            ("robots-token-x", false),
            ("default", false),
        ] {
            assert_eq!(is_token_of_any(secret, &accounts), expected, "{secret}");
        }
        assert!(!is_token_of_any("default-token-sfafa", &BTreeSet::new()));
    }

    #[test]
    fn only_what_the_cluster_fills_in_goes() {
        let mut secret = json!({
            "metadata": {"annotations": {
                "kubernetes.io/service-account.uid": "u1", "kubernetes.io/service-account.name": "robot", "key": "value",
            }},
            "data": {"token": "dG9rZW4=", "ca.crt": "Y2E=", "namespace": "c2hvcA==", "key": "dmFsdWU="},
        });
        empty(&mut secret);
        assert_eq!(
            secret,
            json!({
                "metadata": {"annotations": {"kubernetes.io/service-account.name": "robot", "key": "value"}},
                "data": {"namespace": "c2hvcA==", "key": "dmFsdWU="},
            })
        );
    }

    #[test]
    fn a_bare_token_stays_as_it_is() {
        assert_eq!(RestoreItemOutcome::changed(&json!({"metadata": {"name": "my-token"}}), empty).updated_item, None);
    }
}
