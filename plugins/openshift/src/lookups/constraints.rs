//! Which security context constraints name which service accounts.

use serde_json::Value;
use velero_plugin::item::{elements, text};

/// The constraints of a cluster, by the service accounts among their users.
pub(crate) struct ConstraintIndex(Vec<Grant>);

struct Grant {
    constraints: String,
    namespace: String,
    /// `None` for all accounts of the namespace.
    account: Option<String>,
}

impl ConstraintIndex {
    /// Reads the users of all constraints.
    pub(crate) fn new(all: &[Value]) -> Self {
        let grants = all.iter().flat_map(|constraints| {
            let users = elements(constraints, "/users").filter_map(Value::as_str).filter_map(account_of);
            users.map(|(namespace, account)| Grant {
                constraints: text(constraints, "/metadata/name").to_owned(),
                namespace: namespace.to_owned(),
                account: account.map(str::to_owned),
            })
        });
        Self(grants.collect())
    }

    /// The constraints that name a service account, in the order of the cluster.
    pub(crate) fn of_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fits = move |grant: &&Grant| {
            grant.namespace == namespace && grant.account.as_deref().is_none_or(|account| account == name)
        };
        self.0.iter().filter(fits).map(|grant| grant.constraints.as_str())
    }
}

/// The namespace and the account of a user such as `system:serviceaccount:shop:builder`.
fn account_of(user: &str) -> Option<(&str, Option<&str>)> {
    let parts: Vec<_> = user.split(':').collect();
    match parts.as_slice() {
        [_, "serviceaccount", "", ..] => None,
        [_, "serviceaccount", namespace] => Some((namespace, None)),
        [_, "serviceaccount", _, "", ..] => None,
        [_, "serviceaccount", namespace, account, ..] => Some((namespace, Some(account))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn constraints_are_found_by_the_accounts_they_name() {
        let constraints = |name: &str, users: Value| json!({"metadata": {"name": name}, "users": users});
        let index = ConstraintIndex::new(&[
            constraints("one", json!(["system:serviceaccount:shop:web", "system:admin"])),
            constraints("namespace", json!(["system:serviceaccount:shop"])),
            constraints("twice", json!(["system:serviceaccount:shop:web", "system:serviceaccount:shop:web"])),
            constraints("broken", json!(["system:serviceaccount::web", "system:serviceaccount:shop:", "shop", 7])),
            constraints("none", json!(null)),
            json!({"metadata": {"name": "groups"}, "groups": ["system:serviceaccounts:shop"]}),
        ]);
        for (namespace, account, expected) in [
            ("shop", "web", vec!["one", "namespace", "twice", "twice"]),
            ("shop", "other", vec!["namespace"]),
            ("bank", "web", vec![]),
        ] {
            assert_eq!(index.of_account(namespace, account).collect::<Vec<_>>(), expected, "{namespace}/{account}");
        }
    }
}
