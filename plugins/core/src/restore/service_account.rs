//! Service accounts get new tokens: references to those of the old cluster lead nowhere.

use async_trait::async_trait;
use serde_json::Value;
use velero_plugin::item::{list_mut, text};
use velero_plugin::{ResourceSelector, RestoreItemAction, RestoreItemInput, RestoreItemOutcome, Result};

/// Drops references to the tokens that the old cluster made for a service account.
pub struct RestoreAction;

#[async_trait]
impl RestoreItemAction for RestoreAction {
    fn name(&self) -> &str {
        "velero.io/service-account"
    }

    async fn applies_to(&self) -> Result<ResourceSelector> {
        Ok(ResourceSelector::resources(&["serviceaccounts"]))
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutcome> {
        Ok(RestoreItemOutcome::changed(input.item, drop_tokens))
    }
}

fn drop_tokens(account: &mut Value) {
    let token = format!("{}-token-", text(account, "/metadata/name"));
    if let Some(secrets) = list_mut(account, "/secrets") {
        secrets.retain(|secret| !text(secret, "/name").starts_with(&token));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_to_its_tokens_go_wherever_they_stand() {
        for (before, after) in [
            (vec![], vec![]),
            (vec!["a", "bar-TOKN-nomatch", "baz"], vec!["a", "bar-TOKN-nomatch", "baz"]),
            (vec!["bar-token-a1b2c", "a", "baz"], vec!["a", "baz"]),
            (vec!["a", "bar-token-a1b2c", "baz"], vec!["a", "baz"]),
            (vec!["a", "baz", "bar-token-a1b2c"], vec!["a", "baz"]),
            (vec!["bar-token-a1b2c", "bar-token-d3e4f"], vec![]),
            (vec!["foo-token-a1b2c", "my-bar-token-a1b2c"], vec!["foo-token-a1b2c", "my-bar-token-a1b2c"]),
        ] {
            let account = |names: &[&str]| {
                let secrets = Value::from_iter(names.iter().map(|name| json!({"name": name})));
                json!({"metadata": {"namespace": "foo", "name": "bar"}, "secrets": secrets})
            };
            let mut item = account(&before);
            drop_tokens(&mut item);
            assert_eq!(item, account(&after), "{before:?}");
        }
    }

    #[test]
    fn an_account_without_secrets_stays_as_it_is() {
        assert_eq!(RestoreItemOutcome::changed(&json!({"metadata": {"name": "bar"}}), drop_tokens).updated_item, None);
    }
}
