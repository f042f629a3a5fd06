//! Who the server is at a cloud, and what that means for the pods that move data.

use std::collections::BTreeMap;

use serde_json::Value;
use velero_rules::difference::LAST_APPLIED;

use super::{Installed, Line, Verdict, name, text};
use crate::install::{MOVER, cloud_identity};

/// The annotations that an account for movers takes over from that of the server. None where movers get no account of their own,
/// since a cloud knows that of the server alone; they run as the agents do then.
pub(crate) fn annotations_for_movers(installed: &Installed) -> Option<BTreeMap<String, String>> {
    let mut annotations = account(installed).map(annotations).unwrap_or_default();
    // It belongs to the object it lies on.
    annotations.remove(LAST_APPLIED);
    cloud_identity(&annotations).is_none().then_some(annotations)
}

/// What an identity at a cloud means for movers.
pub(super) fn judge(installed: &Installed) -> Option<Line> {
    let account = account(installed).filter(|_| !installed.agents.is_empty())?;
    let identity = cloud_identity(&annotations(account))?;
    let object = format!("ServiceAccount/{}", name(account));
    Some(match installed.accounts.iter().any(|account| name(account) == MOVER) {
        false => Line::new(
            object,
            Verdict::Works,
            format!("{identity}: a cloud knows it by its name, so the pods that move data run as the node agents do"),
        ),
        true => Line::new(
            object,
            Verdict::Missing,
            format!(
                "{identity}: a cloud knows it by its name, and does not know ServiceAccount {MOVER}, which the pods that move data \
                 run as where it exists: delete that one"
            ),
        ),
    })
}

/// The account of the server.
fn account(installed: &Installed) -> Option<&Value> {
    let mut named = installed.servers.iter().map(|server| text(server, "/spec/template/spec/serviceAccountName"));
    let wanted = named.find(|name| !name.is_empty())?;
    installed.accounts.iter().find(|account| name(account) == wanted)
}

fn annotations(account: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(account["metadata"]["annotations"].clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installed(annotations: &Value, further: &[&str]) -> Installed {
        let account = |name: &str, annotations: &Value| json!({"metadata": {"name": name, "annotations": annotations}});
        let server = json!({"spec": {"template": {"spec": {"serviceAccountName": "velero"}}}});
        let mut accounts = vec![account("default", &Value::Null), account("velero", annotations)];
        accounts.extend(further.iter().map(|name| account(name, &Value::Null)));
        Installed { servers: vec![server], agents: vec![json!({})], accounts, ..Installed::default() }
    }

    #[test]
    fn movers_get_no_account_where_a_cloud_knows_that_of_the_server_alone() {
        let own = json!({"team": "backup", LAST_APPLIED: "{}"});
        let expected = BTreeMap::from([("team".to_owned(), "backup".to_owned())]);
        assert_eq!(annotations_for_movers(&installed(&own, &[])), Some(expected));
        assert_eq!(annotations_for_movers(&Installed::default()), Some(BTreeMap::new()));
        assert_eq!(judge(&installed(&own, &[])), None);

        let known = json!({"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/velero"});
        assert_eq!(annotations_for_movers(&installed(&known, &[])), None);
        for (further, verdict) in [(&[][..], Verdict::Works), (&[MOVER], Verdict::Missing)] {
            let line = judge(&installed(&known, further)).unwrap();
            assert_eq!((line.object.as_str(), line.verdict), ("ServiceAccount/velero", verdict), "{line:?}");
        }
        assert_eq!(judge(&Installed { agents: Vec::new(), ..installed(&known, &[]) }), None, "nothing moves data");
    }
}
