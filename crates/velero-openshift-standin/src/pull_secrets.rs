//! The pull secrets of service accounts: as OpenShift 4.16 does, every account gets a secret with which its pods pull from the
//! internal registry, and an annotation that names it. The accounts of Kubernetes itself run no pods here and get none.

use std::path::Path;
use std::pin::pin;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::registry::Registry;

/// On an account: its pull secret.
const SECRET_OF_ACCOUNT: &str = "openshift.io/internal-registry-pull-secret-ref";
/// On a pull secret: its account.
const ACCOUNT_OF_SECRET: &str = "openshift.io/internal-registry-auth-token.service-account";
const MANAGER: &str = "openshift.io/image-registry-pull-secrets_service-account-controller";

/// Gives every account its secret until the process ends.
pub(crate) async fn keep(kubeconfig: &Path, registry: &Registry) -> Result<()> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let accounts: Api<ServiceAccount> = Api::all(client.clone());
    let mut changes = pin!(watcher(accounts, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(change) = changes.next().await {
        let given = match change {
            Ok(account) if lacks_secret(&account) => give(&client, &account, registry).await,
            Ok(_) => continue,
            Err(error) => Err(error.into()),
        };
        // The account may be going away with its namespace.
        if let Err(error) = given {
            eprintln!("pull secrets: {error:#}");
        }
    }
    Ok(())
}

fn lacks_secret(account: &ServiceAccount) -> bool {
    let of_kubernetes = account.namespace().is_some_and(|namespace| namespace.starts_with("kube-"));
    let named = account.annotations().get(SECRET_OF_ACCOUNT);
    let uses = |name: &String| account.image_pull_secrets.iter().flatten().any(|secret| secret.name == *name);
    !of_kubernetes && account.metadata.deletion_timestamp.is_none() && !named.is_some_and(uses)
}

/// Makes the secret that an account names, or one of a new name, and lets the account use it.
async fn give(client: &Client, account: &ServiceAccount, registry: &Registry) -> Result<()> {
    let (namespace, account_name) = (account.namespace().unwrap_or_default(), account.name_any());
    let new_name = || format!("{account_name}-dockercfg-{}", &Uuid::new_v4().simple().to_string()[..5]);
    let name = account.annotations().get(SECRET_OF_ACCOUNT).cloned().unwrap_or_else(new_name);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let secret = secret(&name, &account_name, registry);
    let applied = secrets.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(secret)).await;
    applied.with_context(|| format!("cannot make {namespace}/{name}"))?;
    let used = json!([{"name": name}]);
    let patch = json!({
        "metadata": {"annotations": {SECRET_OF_ACCOUNT: name}}, "imagePullSecrets": used, "secrets": used,
    });
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let patched = accounts.patch(&account_name, &PatchParams::default(), &Patch::Strategic(patch)).await;
    patched.with_context(|| format!("cannot give {namespace}/{account_name} its pull secret"))?;
    Ok(())
}

fn secret(name: &str, account: &str, registry: &Registry) -> Value {
    let login = json!({
        "username": registry.user, "password": registry.password,
        "auth": BASE64.encode(format!("{}:{}", registry.user, registry.password)),
    });
    let file = json!({registry.host.as_str(): login}).to_string();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockercfg",
        "metadata": {"name": name, "annotations": {ACCOUNT_OF_SECRET: account}},
        "data": {".dockercfg": BASE64.encode(file)},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_lacks_its_secret_until_it_uses_the_one_it_names() {
        let account = |namespace: &str, named: Option<&str>, used: &[&str]| -> ServiceAccount {
            let used: Vec<_> = used.iter().map(|name| json!({"name": name})).collect();
            let annotations = named.map(|name| json!({SECRET_OF_ACCOUNT: name}));
            let metadata = json!({"name": "default", "namespace": namespace, "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "imagePullSecrets": used})).unwrap()
        };
        for (row, account, expected) in [
            ("new", account("shop", None, &[]), true),
            ("restored", account("shop", Some("a"), &["other"]), true),
            ("served", account("shop", Some("a"), &["other", "a"]), false),
            ("of Kubernetes", account("kube-system", None, &[]), false),
        ] {
            assert_eq!(lacks_secret(&account), expected, "{row}");
        }
    }
}
