//! Service accounts bring the security context constraints that name them.

use async_trait::async_trait;
use serde_json::Value;
use velero_api::records::ResourceIdentifier;
use velero_api::v1::Backup;
use velero_plugin::item::text;
use velero_plugin::{BackupItemOutcome, Result};

use crate::action::{BackupStep, Resources};
use crate::context::Context;
use crate::lookups::constraints::ConstraintIndex;

/// Adds the constraints of a service account to the backup.
pub(crate) struct Step;

#[async_trait]
impl BackupStep for Step {
    fn name(&self) -> &'static str {
        "openshift.io/02-serviceaccount-backup-plugin"
    }

    fn resources(&self) -> Resources {
        &["serviceaccounts"]
    }

    async fn backup(&self, item: &Value, backup: &Backup, context: &Context) -> Result<BackupItemOutcome> {
        let additional_items = constraints(item, backup, context).await?;
        Ok(BackupItemOutcome { additional_items, ..BackupItemOutcome::default() })
    }
}

/// The constraints that name a service account.
pub(crate) async fn constraints(
    account: &Value,
    backup: &Backup,
    context: &Context,
) -> Result<Vec<ResourceIdentifier>> {
    let lookups = context.lookups(backup).await?;
    Ok(related(account, lookups.constraints().await?))
}

fn related(account: &Value, index: &ConstraintIndex) -> Vec<ResourceIdentifier> {
    let names = index.of_account(text(account, "/metadata/namespace"), text(account, "/metadata/name"));
    let constraints =
        |name: &str| ResourceIdentifier::new("security.openshift.io", "securitycontextconstraints", "", name);
    names.map(constraints).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_account_brings_the_constraints_that_name_it() {
        let index = ConstraintIndex::new(&[
            json!({"metadata": {"name": "anyuid"}, "users": ["system:serviceaccount:shop:web"]}),
            json!({"metadata": {"name": "restricted"}, "users": ["system:serviceaccount:shop"]}),
        ]);
        for (namespace, name, expected) in
            [("shop", "web", vec!["anyuid", "restricted"]), ("shop", "db", vec!["restricted"]), ("bank", "web", vec![])]
        {
            let account = json!({"metadata": {"namespace": namespace, "name": name}});
            let expected: Vec<_> = expected
                .into_iter()
                .map(|name| ResourceIdentifier::new("security.openshift.io", "securitycontextconstraints", "", name))
                .collect();
            assert_eq!(related(&account, &index), expected, "{namespace}/{name}");
        }
    }
}
