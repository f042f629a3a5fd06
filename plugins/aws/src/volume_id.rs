//! The EBS volume behind a PersistentVolume.

use serde_json::{Value, json};
use velero_plugin::{Error, Result};

/// The CSI driver of EBS.
const DRIVER: &str = "ebs.csi.aws.com";

/// The label with the zone that in-tree volumes have.
const ZONE_LABEL: &str = "failure-domain.beta.kubernetes.io/zone";

/// The ID of the volume; `None` when it is none of EBS.
pub(crate) fn of(persistent_volume: &Value) -> Result<Option<String>> {
    let spec = &persistent_volume["spec"];
    if spec["csi"]["driver"] == DRIVER {
        return Ok(id_in(spec["csi"]["volumeHandle"].as_str().unwrap_or_default()));
    }
    let in_tree = &spec["awsElasticBlockStore"];
    match in_tree["volumeID"].as_str().unwrap_or_default() {
        _ if !in_tree.is_object() => Ok(None),
        "" => Err(Error::Item("spec.awsElasticBlockStore.volumeID not found".to_owned())),
        id => Ok(id_in(id)),
    }
}

/// The PersistentVolume with another volume behind it.
pub(crate) fn set(persistent_volume: &Value, volume_id: &str) -> Result<Value> {
    let mut volume = persistent_volume.clone();
    let zone = volume["metadata"]["labels"][ZONE_LABEL].as_str().filter(|zone| !zone.is_empty()).map(str::to_owned);
    let spec = &mut volume["spec"];
    if spec["csi"].is_object() {
        if spec["csi"]["driver"] != DRIVER {
            return Err(Error::Item(format!("unable to handle CSI driver: {}", spec["csi"]["driver"])));
        }
        spec["csi"]["volumeHandle"] = json!(volume_id);
    } else if spec["awsElasticBlockStore"].is_object() {
        let id = zone.map_or_else(|| volume_id.to_owned(), |zone| format!("aws://{zone}/{volume_id}"));
        spec["awsElasticBlockStore"]["volumeID"] = json!(id);
    } else {
        return Err(Error::Item("spec.csi and spec.awsElasticBlockStore not found".to_owned()));
    }
    Ok(volume)
}

/// The ID at the end of a handle such as `aws://eu-west-1a/vol-1`.
fn id_in(handle: &str) -> Option<String> {
    handle.find("vol-").map(|start| handle[start..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csi(driver: &str, handle: &str) -> Value {
        json!({"spec": {"csi": {"driver": driver, "volumeHandle": handle}}})
    }

    fn in_tree(id: &str, zone: &str) -> Value {
        json!({"metadata": {"labels": {(ZONE_LABEL): zone}}, "spec": {"awsElasticBlockStore": {"volumeID": id}}})
    }

    #[test]
    fn volumes_of_ebs_are_known_and_others_are_not() {
        for (volume, expected) in [
            (csi(DRIVER, "vol-1"), Some("vol-1")),
            (csi(DRIVER, "other"), None),
            (csi("csi.example.com", "vol-1"), None),
            (in_tree("vol-2", ""), Some("vol-2")),
            (in_tree("aws://eu-west-1a/vol-2", ""), Some("vol-2")),
            (in_tree("disk", ""), None),
            (json!({"spec": {"hostPath": {"path": "/vol-3"}}}), None),
            (json!({}), None),
        ] {
            assert_eq!(of(&volume).unwrap().as_deref(), expected, "{volume}");
        }
        assert!(of(&in_tree("", "")).is_err());
    }

    #[test]
    fn another_volume_takes_the_place() {
        let changed = set(&csi(DRIVER, "vol-1"), "vol-9").unwrap();
        assert_eq!(changed, csi(DRIVER, "vol-9"));
        for (zone, expected) in [("", "vol-9"), ("eu-west-1a", "aws://eu-west-1a/vol-9")] {
            assert_eq!(set(&in_tree("vol-1", zone), "vol-9").unwrap(), in_tree(expected, zone));
        }
        for wrong in [csi("csi.example.com", "vol-1"), json!({"spec": {"hostPath": {}}})] {
            assert!(set(&wrong, "vol-9").is_err(), "{wrong}");
        }
    }
}
