//! Makes the objects that ask node agents for work. Their names are chosen here: so a request whose answer is lost can be
//! sent again, and makes no second object.

use serde_json::Value;
use velero_cluster::{Cluster, Error, ItemRef, ResourceType};
use velero_plugin::item::{label, text};

/// How many names are tried.
const NAMES: u32 = 8;

/// Makes an object under the first of its names that is free; gives what the server made of it, or what is there of an
/// earlier try. `owner` is the label that tells by whom the object is made.
pub(super) async fn create(
    cluster: &Cluster,
    resource_type: &ResourceType,
    mut object: Value,
    owner: &str,
    name: impl Fn(u32) -> String,
) -> Result<Value, Error> {
    let mut attempt = 0;
    loop {
        object["metadata"]["name"] = name(attempt).into();
        let namespace = text(&object, "/metadata/namespace").to_owned();
        let error = match cluster.create_until_answered(resource_type, Some(&namespace), &object).await {
            Err(error) if error.is_already_exists() => error,
            sent => return sent,
        };
        let place = ItemRef::new(resource_type, Some(namespace.as_str()), text(&object, "/metadata/name"));
        match cluster.get(place).await? {
            Some(found) if is_same(&found, &object, owner) => return Ok(found),
            _ if attempt < NAMES => attempt += 1,
            _ => return Err(error),
        }
    }
}

/// Whether an object asks for the same work for the same owner.
fn is_same(found: &Value, wanted: &Value, owner: &str) -> bool {
    let of = |pointer| (text(found, pointer), text(wanted, pointer));
    let same = |(found, wanted): (&str, &str)| found == wanted;
    label(found, owner).is_some()
        && label(found, owner) == label(wanted, owner)
        && same(of("/spec/pod/uid"))
        && same(of("/spec/volume"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use velero_api::labels::BACKUP_UID;

    use super::*;

    #[test]
    fn only_an_object_for_the_same_volume_and_owner_is_taken_for_an_earlier_try() {
        let copy = |owner: &str, pod: &str, volume: &str| json!({"metadata": {"labels": {BACKUP_UID: owner}}, "spec": {"pod": {"uid": pod}, "volume": volume}});
        let wanted = copy("1", "p", "data");
        for (found, expected) in [
            (copy("1", "p", "data"), true),
            (copy("2", "p", "data"), false),
            (copy("1", "q", "data"), false),
            (copy("1", "p", "logs"), false),
            (json!({"metadata": {}, "spec": {"pod": {"uid": "p"}, "volume": "data"}}), false),
        ] {
            assert_eq!(is_same(&found, &wanted, BACKUP_UID), expected, "{found}");
        }
    }
}
