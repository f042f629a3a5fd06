//! What a form would do, and what there is, for those who live in a terminal or in Git.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Serialize;
use velero_api::v1::{Backup, BackupSpec, BackupStorageLocation, ExistingResourcePolicy, Restore, Schedule};
use velero_api::{GoDuration, metadata};
use velero_rules::selector::SelectorSet;

/// A command, as one would type it into a shell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) text: String,
    /// What it cannot say: that is in the YAML alone.
    pub(crate) lacks: Vec<&'static str>,
}

/// A command in the making.
struct Words {
    words: Vec<String>,
    lacks: Vec<&'static str>,
}

impl Words {
    fn new(words: &[&str]) -> Self {
        Self { words: words.iter().map(|word| quoted(word)).collect(), lacks: Vec::new() }
    }

    fn flag(&mut self, flag: &str, value: &str) {
        if !value.is_empty() {
            self.words.push(format!("--{flag}={}", quoted(value)));
        }
    }

    fn list(&mut self, flag: &str, values: &[String]) {
        self.flag(flag, &values.join(","));
    }

    fn switch(&mut self, flag: &str, value: Option<bool>) {
        if let Some(value) = value {
            self.flag(flag, &value.to_string());
        }
    }

    fn duration(&mut self, flag: &str, value: GoDuration) {
        if !value.is_zero() {
            self.flag(flag, &value.to_string());
        }
    }

    fn pairs<'p>(&mut self, flag: &str, pairs: impl IntoIterator<Item = (&'p String, &'p String)>, between: char) {
        let pairs = pairs.into_iter().map(|(key, value)| listed(format!("{key}{between}{value}")));
        self.flag(flag, &pairs.collect::<Vec<_>>().join(","));
    }

    /// Labels and annotations that people have given an object.
    fn metadata(&mut self, metadata: &ObjectMeta) {
        self.labels(metadata);
        self.pairs("annotations", given(metadata.annotations.as_ref()), '=');
    }

    fn labels(&mut self, metadata: &ObjectMeta) {
        self.pairs("labels", given(metadata.labels.as_ref()), '=');
    }

    fn selectors(&mut self, single: Option<&LabelSelector>, any_of: &[LabelSelector]) {
        match (SelectorSet::new(single, &[]), SelectorSet::new(None, any_of)) {
            (Ok(one), Ok(several)) => {
                self.flag("selector", &one.queries().join(""));
                self.flag("or-selector", &several.queries().join(" or "));
            }
            _ => self.lacks.push("label selectors"),
        }
    }

    /// What is there and no flag says.
    fn lack(&mut self, is_there: bool, what: &'static str) {
        if is_there {
            self.lacks.push(what);
        }
    }

    fn end(mut self, namespace: &str) -> Command {
        if namespace != velero_api::DEFAULT_NAMESPACE {
            self.flag("namespace", namespace);
        }
        Command { text: self.words.join(" "), lacks: self.lacks }
    }
}

/// An entry of a list of pairs, as flags read it: quotes keep a comma inside.
fn listed(entry: String) -> String {
    if entry.contains(',') || entry.starts_with('"') { format!("\"{}\"", entry.replace('"', "\"\"")) } else { entry }
}

/// What people have written of labels or annotations: Velero and the tools of Kubernetes write some of their own.
fn given(all: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&String, &String)> {
    all.into_iter().flatten().filter(|(key, _)| !key.contains("velero.io/") && !key.contains("kubernetes.io/"))
}

/// A command of plain words.
pub(crate) fn plain(words: &[&str], namespace: &str) -> Command {
    Words::new(words).end(namespace)
}

/// A command that makes the same backup.
pub(crate) fn of_backup(backup: &Backup) -> Command {
    let mut words = Words::new(&["velero", "backup", "create", metadata::name(backup)]);
    words.metadata(&backup.metadata);
    push_content(&mut words, &backup.spec);
    words.end(metadata::namespace(backup))
}

/// A command that makes the same schedule.
pub(crate) fn of_schedule(schedule: &Schedule) -> Command {
    let spec = &schedule.spec;
    let mut words = Words::new(&["velero", "schedule", "create", metadata::name(schedule)]);
    words.flag("schedule", &spec.schedule);
    words.metadata(&schedule.metadata);
    push_content(&mut words, &spec.template);
    words.lack(spec.template.metadata != Default::default(), "labels and annotations of its backups");
    words.switch("use-owner-references-in-backup", spec.use_owner_references_in_backup.filter(|owns| *owns));
    words.switch("skip-immediately", spec.skip_immediately);
    words.switch("paused", spec.paused.then_some(true));
    words.end(metadata::namespace(schedule))
}

fn push_content(words: &mut Words, spec: &BackupSpec) {
    words.list("include-namespaces", &spec.included_namespaces);
    words.list("exclude-namespaces", &spec.excluded_namespaces);
    words.list("include-resources", &spec.included_resources);
    words.list("exclude-resources", &spec.excluded_resources);
    words.list("include-cluster-scoped-resources", &spec.included_cluster_scoped_resources);
    words.list("exclude-cluster-scoped-resources", &spec.excluded_cluster_scoped_resources);
    words.list("include-namespace-scoped-resources", &spec.included_namespace_scoped_resources);
    words.list("exclude-namespace-scoped-resources", &spec.excluded_namespace_scoped_resources);
    words.selectors(spec.label_selector.as_ref(), &spec.or_label_selectors);
    words.switch("include-cluster-resources", spec.include_cluster_resources);
    let ordered: Vec<String> = spec.ordered_resources.iter().map(|(kind, names)| format!("{kind}={names}")).collect();
    words.flag("ordered-resources", &ordered.join(";"));
    words.flag("storage-location", &spec.storage_location);
    words.list("volume-snapshot-locations", &spec.volume_snapshot_locations);
    words.duration("ttl", spec.ttl);
    words.switch("snapshot-volumes", spec.snapshot_volumes);
    words.switch("snapshot-move-data", spec.snapshot_move_data);
    words.flag("data-mover", &spec.data_mover);
    let copied = spec.default_volumes_to_fs_backup.or(spec.default_volumes_to_restic);
    words.switch("default-volumes-to-fs-backup", copied);
    words.duration("csi-snapshot-timeout", spec.csi_snapshot_timeout);
    words.duration("item-operation-timeout", spec.item_operation_timeout);
    let policies = spec.resource_policy.as_ref().map(|policy| policy.name.as_str());
    words.flag("resource-policies-configmap", policies.unwrap_or_default());
    let files = spec.uploader_config.as_ref().map_or(0, |config| config.parallel_files_upload);
    words.flag("parallel-files-upload", &if files > 0 { files.to_string() } else { String::new() });
    words.lack(spec.hooks != Default::default(), "hooks");
    words.lack(!spec.volume_group_snapshot_label_key.is_empty(), "the label of volume groups");
}

/// A command that does the same as a restore.
pub(crate) fn of_restore(restore: &Restore) -> Command {
    let spec = &restore.spec;
    let mut words = Words::new(&["velero", "restore", "create", metadata::name(restore)]);
    // A restore of a schedule has found its backup by now.
    let schedule = if spec.backup_name.is_empty() { spec.schedule_name.as_str() } else { "" };
    words.metadata(&restore.metadata);
    words.flag("from-backup", &spec.backup_name);
    words.flag("from-schedule", schedule);
    words.list("include-namespaces", &spec.included_namespaces);
    words.list("exclude-namespaces", &spec.excluded_namespaces);
    words.list("include-resources", &spec.included_resources);
    words.list("exclude-resources", &spec.excluded_resources);
    words.pairs("namespace-mappings", &spec.namespace_mapping, ':');
    words.selectors(spec.label_selector.as_ref(), &spec.or_label_selectors);
    words.switch("include-cluster-resources", spec.include_cluster_resources);
    words.switch("restore-volumes", spec.restore_pvs);
    words.switch("preserve-nodeports", spec.preserve_node_ports);
    if let Some(status) = &spec.restore_status {
        words.list("status-include-resources", &status.included_resources);
        words.list("status-exclude-resources", &status.excluded_resources);
    }
    if spec.existing_resource_policy == Some(ExistingResourcePolicy::Update) {
        words.flag("existing-resource-policy", "update");
    }
    words.duration("item-operation-timeout", spec.item_operation_timeout);
    let modifier = spec.resource_modifier.as_ref().map(|modifier| modifier.name.as_str());
    words.flag("resource-modifier-configmap", modifier.unwrap_or_default());
    words.switch("skip-default-resource-modifier", spec.skip_default_resource_modifier.filter(|skips| *skips));
    let policies = spec.resource_policy.as_ref().map(|policy| policy.name.as_str());
    words.flag("resource-policies-configmap", policies.unwrap_or_default());
    if let Some(config) = &spec.uploader_config {
        words.switch("write-sparse-files", config.write_sparse_files);
        let files = config.parallel_files_download;
        words.flag("parallel-files-download", &if files > 0 { files.to_string() } else { String::new() });
    }
    words.lack(spec.hooks != Default::default(), "hooks");
    words.end(metadata::namespace(restore))
}

/// A command that makes the same location.
pub(crate) fn of_location(location: &BackupStorageLocation) -> Command {
    let spec = &location.spec;
    let mut words = Words::new(&["velero", "backup-location", "create", metadata::name(location)]);
    words.labels(&location.metadata);
    words.flag("provider", &spec.provider);
    words.flag("bucket", &spec.object_storage.bucket);
    words.flag("prefix", &spec.object_storage.prefix);
    words.pairs("config", &spec.config, '=');
    if let Some(credential) = &spec.credential {
        words.flag("credential", &format!("{}={}", credential.name, credential.key));
    }
    words.flag("access-mode", spec.access_mode.as_ref().map(|mode| mode.as_str()).unwrap_or_default());
    words.switch("default", spec.default.then_some(true));
    for (flag, duration) in
        [("backup-sync-period", spec.backup_sync_period), ("validation-frequency", spec.validation_frequency)]
    {
        words.flag(flag, &duration.map(|duration| duration.to_string()).unwrap_or_default());
    }
    let storage = &spec.object_storage;
    words.lack(storage.ca_cert.is_some() || storage.ca_cert_ref.is_some(), "the certificate of the store");
    words.end(metadata::namespace(location))
}

/// An object as YAML, for `kubectl apply`.
pub(crate) fn yaml<T: Serialize>(object: &T) -> String {
    serde_saphyr::to_string(object).unwrap_or_else(|error| format!("# it cannot be written as YAML: {error}"))
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b',' | b':' | b'=');
    if word.bytes().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn backup(spec: serde_json::Value) -> Backup {
        Backup::new("velero", "b", serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn a_backup_is_told_as_a_command() {
        let told = of_backup(&backup(json!({"includedNamespaces": ["shop", "pay*"], "storageLocation": "default",
            "ttl": "24h0m0s", "snapshotVolumes": false})));
        assert_eq!(
            told.text,
            "velero backup create b --include-namespaces='shop,pay*' --storage-location=default --ttl=24h0m0s \
             --snapshot-volumes=false"
        );
        assert!(told.lacks.is_empty());
    }

    #[test]
    fn what_a_backup_is_made_of_is_in_the_command_and_what_no_flag_says_is_named() {
        let told = of_backup(&backup(json!({
            "labelSelector": {"matchLabels": {"app": "web"}},
            "orderedResources": {"pods": "shop/a,shop/b", "persistentvolumes": "pv1"},
            "includeClusterResources": false, "snapshotMoveData": true, "dataMover": "velero",
            "resourcePolicy": {"kind": "configmap", "name": "policies"}, "uploaderConfig": {"parallelFilesUpload": 4},
            "hooks": {"resources": [{"name": "freeze"}]},
        })));
        for part in [
            " --selector=app=web ",
            " --ordered-resources='persistentvolumes=pv1;pods=shop/a,shop/b' ",
            " --include-cluster-resources=false ",
            " --snapshot-move-data=true ",
            " --resource-policies-configmap=policies ",
            " --parallel-files-upload=4",
        ] {
            assert!(told.text.contains(part), "{part} is not in {}", told.text);
        }
        assert_eq!(told.lacks, ["hooks"]);
        let several = of_backup(&backup(json!({"orLabelSelectors":
            [{"matchLabels": {"a": "1"}}, {"matchExpressions": [{"key": "b", "operator": "In", "values": ["x", "y"]}]}]})));
        assert!(several.text.contains("--or-selector='a=1 or b in (x,y)'"), "{}", several.text);
    }

    #[test]
    fn a_restore_is_told_as_a_command() {
        let spec = json!({"backupName": "b", "namespaceMapping": {"shop": "shop-2"}, "restorePVs": true,
            "existingResourcePolicy": "update", "preserveNodePorts": true, "restoreStatus": {"includedResources": ["*"]},
            "resourceModifier": {"kind": "configmap", "name": "changes"}});
        let told = of_restore(&Restore::new("other", "r", serde_json::from_value(spec).unwrap()));
        assert_eq!(
            told.text,
            "velero restore create r --from-backup=b --namespace-mappings=shop:shop-2 --restore-volumes=true \
             --preserve-nodeports=true --status-include-resources='*' --existing-resource-policy=update \
             --resource-modifier-configmap=changes --namespace=other"
        );
    }

    #[test]
    fn schedules_and_locations_are_told_as_commands() {
        let spec = json!({"schedule": "0 1 * * *", "paused": true, "template": {"includedNamespaces": ["shop"]}});
        let told = of_schedule(&Schedule::new("velero", "daily", serde_json::from_value(spec).unwrap()));
        let expected = "velero schedule create daily --schedule='0 1 * * *' --include-namespaces=shop --paused=true";
        assert_eq!(told.text, expected);
        let spec = json!({"provider": "aws", "objectStorage": {"bucket": "b", "prefix": "p", "caCert": "QUJD"},
            "config": {"region": "r", "s3Url": "http://s3"}, "credential": {"name": "cloud", "key": "key"},
            "accessMode": "ReadOnly"});
        let told = of_location(&BackupStorageLocation::new("velero", "l", serde_json::from_value(spec).unwrap()));
        assert_eq!(
            told.text,
            "velero backup-location create l --provider=aws --bucket=b --prefix=p --config=region=r,s3Url=http://s3 \
             --credential=cloud=key --access-mode=ReadOnly"
        );
        assert_eq!(told.lacks, ["the certificate of the store"]);
    }

    #[test]
    fn labels_that_people_gave_are_in_the_command_and_those_of_velero_are_not() {
        let mut made = backup(json!({}));
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        made.metadata.labels = Some(pairs(&[("team", "shop"), ("velero.io/storage-location", "default")]));
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        made.metadata.annotations = Some(pairs(&[(applied, "{}"), ("why", "a, b")]));
        let told = of_backup(&made).text;
        assert_eq!(told, r#"velero backup create b --labels=team=shop --annotations='"why=a, b"'"#);
        let template = json!({"metadata": {"labels": {"team": "shop"}}});
        let spec = json!({"schedule": "@daily", "template": template});
        let told = of_schedule(&Schedule::new("velero", "daily", serde_json::from_value(spec).unwrap()));
        assert_eq!(told.lacks, ["labels and annotations of its backups"]);
    }

    #[test]
    fn pairs_are_read_back_as_they_were() {
        for value in ["plain", "a,b=c", "\"quoted\"", "say \"hi\", twice"] {
            for key in ["k", "\"k"] {
                let pairs = BTreeMap::from([("a".to_owned(), "b".to_owned()), (key.to_owned(), value.to_owned())]);
                let entries: Vec<String> = pairs.iter().map(|(key, value)| listed(format!("{key}={value}"))).collect();
                assert_eq!(velero_rules::pairs::parse(&entries.join(","), '='), Ok(pairs), "{entries:?}");
            }
        }
    }

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(quoted("a;rm -rf $HOME `x` 'y'"), r"'a;rm -rf $HOME `x` '\''y'\'''");
        assert_eq!(plain(&["velero", "backup", "delete", "a b"], "velero").text, "velero backup delete 'a b'");
    }
}
