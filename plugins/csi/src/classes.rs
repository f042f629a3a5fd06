//! Which class a snapshot is taken with.

use serde_json::Value;
use tokio::sync::OnceCell;
use velero_api::v1::Backup;
use velero_api::{annotations, labels};
use velero_cluster::{Cluster, ResourceType};
use velero_plugin::item::{self, annotation, label, text};
use velero_plugin::{Error, Result};

use crate::objects::list;

/// The classes of a cluster, listed when they are first needed.
pub(crate) struct Classes {
    cluster: Cluster,
    resource_type: ResourceType,
    found: OnceCell<Vec<Value>>,
}

impl Classes {
    /// The classes of a type.
    pub(crate) fn new(cluster: &Cluster, resource_type: ResourceType) -> Self {
        Self { cluster: cluster.clone(), resource_type, found: OnceCell::new() }
    }

    /// All of them.
    pub(crate) async fn all(&self) -> Result<&[Value]> {
        let found = self.found.get_or_try_init(|| list(&self.cluster, &self.resource_type, None, None));
        Ok(found.await?)
    }

    /// The class to take snapshots of a claim's volume with.
    pub(crate) async fn for_claim(
        &self,
        driver: &str,
        claim: &Value,
        backup: &Backup,
        of_policy: Option<&str>,
    ) -> Result<&str> {
        choose(self.all().await?, driver, claim, backup, of_policy).map_err(Error::Item)
    }

    /// The class to take a snapshot of a claim's group with.
    pub(crate) async fn for_group(&self, driver: &str, claim: &Value, backup: &Backup) -> Result<String> {
        if let Some(name) = named_for_group(driver, claim, backup) {
            return Ok(name.to_owned());
        }
        choose_for_group(self.all().await?, driver).map(str::to_owned).map_err(Error::Item)
    }
}

/// The class that the claim names, the volume policies, or the backup for the driver; else the labelled one of the driver, the
/// default one, or the only one. A name on claim or backup that fits no class of the driver does not count, as in Velero; one of
/// the policies is an error, for it was written for this volume.
fn choose<'a>(
    classes: &'a [Value],
    driver: &str,
    claim: &Value,
    backup: &Backup,
    of_policy: Option<&str>,
) -> Result<&'a str, String> {
    let key = format!("{}{}", annotations::VOLUME_SNAPSHOT_CLASS_OF_DRIVER_PREFIX, driver.to_lowercase());
    let of_backup = backup.metadata.annotations.as_ref().and_then(|all| all.get(&key)).map(String::as_str);
    let named = |name: &str| {
        let fits = |class: &&Value| {
            item::name(class).eq_ignore_ascii_case(name) && text(class, "/driver").eq_ignore_ascii_case(driver)
        };
        classes.iter().find(fits).map(item::name)
    };
    if let Some(class) = annotation(claim, annotations::VOLUME_SNAPSHOT_CLASS).and_then(named) {
        return Ok(class);
    }
    if let Some(wanted) = of_policy {
        return named(wanted).ok_or_else(|| {
            format!(
                "the volume policies name the VolumeSnapshotClass {wanted}, and no class of that name has the driver {driver}; \
                 create it, or change snapshotClass of the policy"
            )
        });
    }
    if let Some(class) = of_backup.and_then(named) {
        return Ok(class);
    }
    let own: Vec<&Value> = classes.iter().filter(|class| text(class, "/driver") == driver).collect();
    let labelled = |class: &&&Value| label(class, labels::VOLUME_SNAPSHOT_CLASS).is_some();
    let default = |class: &&&Value| annotation(class, annotations::DEFAULT_VOLUME_SNAPSHOT_CLASS).is_some();
    let found = own.iter().find(labelled).or_else(|| own.iter().find(default));
    match (found, own.as_slice()) {
        (Some(class), _) => Ok(item::name(class)),
        (None, [only]) => Ok(item::name(only)),
        (None, []) => Err(format!("no VolumeSnapshotClass has the driver {driver}; create one")),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|class| item::name(class)).collect();
            Err(format!(
                "VolumeSnapshotClasses {} all have the driver {driver}; give one the label {} or the annotation {}",
                names.join(", "),
                labels::VOLUME_SNAPSHOT_CLASS,
                annotations::DEFAULT_VOLUME_SNAPSHOT_CLASS,
            ))
        }
    }
}

/// The group class that the claim names, or the backup for the driver.
fn named_for_group<'a>(driver: &str, claim: &'a Value, backup: &'a Backup) -> Option<&'a str> {
    let key = format!("{}{driver}", annotations::VOLUME_GROUP_SNAPSHOT_CLASS_OF_DRIVER_PREFIX);
    let of_backup = || backup.metadata.annotations.as_ref()?.get(&key).map(String::as_str);
    let of_claim = annotation(claim, annotations::VOLUME_GROUP_SNAPSHOT_CLASS);
    of_claim.filter(|name| !name.is_empty()).or_else(of_backup).filter(|name| !name.is_empty())
}

/// The labelled group class of a driver.
fn choose_for_group<'a>(classes: &'a [Value], driver: &str) -> Result<&'a str, String> {
    let marked = |class: &&Value| {
        text(class, "/driver") == driver && label(class, labels::VOLUME_GROUP_SNAPSHOT_CLASS) == Some("true")
    };
    let found: Vec<&Value> = classes.iter().filter(marked).collect();
    let mark = format!("{}=true", labels::VOLUME_GROUP_SNAPSHOT_CLASS);
    match found.as_slice() {
        [only] => Ok(item::name(only)),
        [] => Err(format!("no VolumeGroupSnapshotClass with the driver {driver} has the label {mark}; label one")),
        several => {
            let names: Vec<&str> = several.iter().map(|class| item::name(class)).collect();
            let names = names.join(", ");
            Err(format!(
                "VolumeGroupSnapshotClasses {names} with the driver {driver} have the label {mark}; leave it on one"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use velero_testkit::hostile::Parser;
    use velero_testkit::strike_all;

    use super::*;

    const DRIVER: &str = "disk.example.com";

    fn class(name: &str, driver: &str, mark: &str) -> Value {
        let (labels, annotations) = match mark {
            "label" => (json!({labels::VOLUME_SNAPSHOT_CLASS: "true"}), json!({})),
            "default" => (json!({}), json!({annotations::DEFAULT_VOLUME_SNAPSHOT_CLASS: "true"})),
            "group" => (json!({labels::VOLUME_GROUP_SNAPSHOT_CLASS: "true"}), json!({})),
            _ => (json!({}), json!({})),
        };
        json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}, "driver": driver})
    }

    fn backup(key: &str, class: &str) -> Backup {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.annotations = Some([(key.to_owned(), class.to_owned())].into());
        backup
    }

    fn claim(key: &str, class: &str) -> Value {
        json!({"metadata": {"name": "data", "annotations": {key: class}}})
    }

    fn parsers() -> Vec<Parser> {
        vec![Parser::of("csi-classes", choose_one)]
    }

    fn choose_one(bytes: &[u8]) {
        let Ok(Value::Array(classes)) = serde_json::from_slice::<Value>(bytes) else { return };
        let backup = Backup::new("velero", "b", Default::default());
        let _ = choose(&classes, "disk.csi.example", classes.first().unwrap_or(&Value::Null), &backup, None);
    }

    strike_all!(parsers);

    #[test]
    fn the_claim_decides_then_the_policies_the_backup_label_default_and_the_only_one() {
        let all = [
            class("other", "other.example.com", "label"),
            class("plain", DRIVER, ""),
            class("default", DRIVER, "default"),
            class("labelled", DRIVER, "label"),
        ];
        let of_claim = annotations::VOLUME_SNAPSHOT_CLASS;
        let of_backup = "velero.io/csi-volumesnapshot-class_disk.example.com";
        for (classes, on_claim, of_policy, on_backup, expected) in [
            (&all[..], "plain", None, "default", "plain"),
            (&all[..], "plain", Some("labelled"), "default", "plain"),
            (&all[..], "PLAIN", None, "", "plain"),
            (&all[..], "", Some("plain"), "default", "plain"),
            (&all[..], "missing", Some("plain"), "", "plain"),
            (&all[..], "", None, "default", "default"),
            (&all[..], "missing", None, "default", "default"),
            (&all[..], "other", None, "plain", "plain"),
            (&all[..], "", None, "other", "labelled"),
            (&all[..], "", None, "", "labelled"),
            (&all[..3], "", None, "", "default"),
            (&all[..2], "", None, "", "plain"),
            (&all[..2], "missing", None, "missing", "plain"),
        ] {
            let chosen = choose(classes, DRIVER, &claim(of_claim, on_claim), &backup(of_backup, on_backup), of_policy);
            assert_eq!(chosen.as_deref(), Ok(expected), "{on_claim} {of_policy:?} {on_backup} of {}", classes.len());
        }
        for unfit in ["missing", "other"] {
            let refusal = choose(&all, DRIVER, &json!({}), &backup(of_backup, "plain"), Some(unfit)).unwrap_err();
            assert!(refusal.contains(unfit) && refusal.contains("change snapshotClass"), "{refusal}");
        }
    }

    #[test]
    fn without_a_class_or_with_two_alike_the_error_says_what_to_do() {
        let (claim, backup) = (json!({"metadata": {}}), Backup::new("velero", "b", Default::default()));
        let none = choose(&[class("x", "other.example.com", "label")], DRIVER, &claim, &backup, None).unwrap_err();
        assert!(none.contains(DRIVER) && none.contains("create one"), "{none}");
        let two = choose(&[class("x", DRIVER, ""), class("y", DRIVER, "")], DRIVER, &claim, &backup, None).unwrap_err();
        assert!(two.contains("x, y") && two.contains("is-default-class"), "{two}");
    }

    #[test]
    fn a_group_has_the_class_that_is_named_or_labelled() {
        let key = "velero.io/csi-volumegroupsnapshot-class_disk.example.com";
        let named = claim(annotations::VOLUME_GROUP_SNAPSHOT_CLASS, "mine");
        assert_eq!(named_for_group(DRIVER, &named, &backup(key, "theirs")), Some("mine"));
        assert_eq!(named_for_group(DRIVER, &json!({}), &backup(key, "theirs")), Some("theirs"));
        assert_eq!(named_for_group(DRIVER, &json!({}), &backup(key, "")), None);
        let (a, b, other) = (class("a", DRIVER, "group"), class("b", DRIVER, "group"), class("o", "o", "group"));
        assert_eq!(choose_for_group(&[other.clone(), a.clone()], DRIVER), Ok("a"));
        assert!(choose_for_group(&[other], DRIVER).unwrap_err().contains("label one"));
        assert!(choose_for_group(&[a, b], DRIVER).unwrap_err().contains("a, b"));
    }
}
