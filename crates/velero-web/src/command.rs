//! What a form would do, for those who live in a terminal or in Git.

use serde::Serialize;
use velero_api::metadata;
use velero_api::v1::{Backup, BackupSpec, ExistingResourcePolicy, Restore};

/// A command that does the same, as one would type it into a shell.
pub(crate) fn of_backup(backup: &Backup, schedule: Option<&str>) -> String {
    let mut words = vec!["velero".to_owned(), "backup".to_owned(), "create".to_owned()];
    words.push(metadata::name(backup).to_owned());
    match schedule {
        Some(schedule) => push(&mut words, "from-schedule", schedule),
        None => push_content(&mut words, &backup.spec),
    }
    finish(words, metadata::namespace(backup))
}

fn push_content(words: &mut Vec<String>, spec: &BackupSpec) {
    push(words, "include-namespaces", &spec.included_namespaces.join(","));
    push(words, "exclude-namespaces", &spec.excluded_namespaces.join(","));
    push(words, "include-resources", &spec.included_resources.join(","));
    push(words, "exclude-resources", &spec.excluded_resources.join(","));
    push(words, "storage-location", &spec.storage_location);
    if !spec.ttl.is_zero() {
        push(words, "ttl", &spec.ttl.to_string());
    }
    if let Some(snapshot) = spec.snapshot_volumes {
        push(words, "snapshot-volumes", &snapshot.to_string());
    }
    if let Some(copied) = spec.default_volumes_to_fs_backup {
        push(words, "default-volumes-to-fs-backup", &copied.to_string());
    }
}

/// A command that does the same as a restore.
pub(crate) fn of_restore(restore: &Restore) -> String {
    let spec = &restore.spec;
    let mut words = vec!["velero".to_owned(), "restore".to_owned(), "create".to_owned()];
    words.push(metadata::name(restore).to_owned());
    push(&mut words, "from-backup", &spec.backup_name);
    push(&mut words, "include-namespaces", &spec.included_namespaces.join(","));
    push(&mut words, "exclude-namespaces", &spec.excluded_namespaces.join(","));
    push(&mut words, "include-resources", &spec.included_resources.join(","));
    push(&mut words, "exclude-resources", &spec.excluded_resources.join(","));
    let mappings: Vec<String> = spec.namespace_mapping.iter().map(|(from, to)| format!("{from}:{to}")).collect();
    push(&mut words, "namespace-mappings", &mappings.join(","));
    if let Some(volumes) = spec.restore_pvs {
        push(&mut words, "restore-volumes", &volumes.to_string());
    }
    if spec.existing_resource_policy == Some(ExistingResourcePolicy::Update) {
        push(&mut words, "existing-resource-policy", "update");
    }
    finish(words, metadata::namespace(restore))
}

/// An object as YAML, for `kubectl apply`.
pub(crate) fn yaml<T: Serialize>(object: &T) -> String {
    serde_saphyr::to_string(object).unwrap_or_else(|error| format!("# it cannot be written as YAML: {error}"))
}

fn push(words: &mut Vec<String>, flag: &str, value: &str) {
    if !value.is_empty() {
        words.push(format!("--{flag}={}", quoted(value)));
    }
}

fn finish(mut words: Vec<String>, namespace: &str) -> String {
    if namespace != velero_api::DEFAULT_NAMESPACE {
        push(&mut words, "namespace", namespace);
    }
    words.join(" ")
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b',' | b':' | b'=');
    if word.bytes().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use velero_api::GoDuration;
    use velero_api::v1::RestoreSpec;

    use super::*;

    fn text(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_backup_is_told_as_a_command() {
        let spec = BackupSpec {
            included_namespaces: text(&["shop", "pay*"]),
            storage_location: "default".to_owned(),
            ttl: GoDuration::from_hours(24),
            snapshot_volumes: Some(false),
            ..BackupSpec::default()
        };
        let backup = Backup::new("velero", "b", spec);
        assert_eq!(
            of_backup(&backup, None),
            "velero backup create b --include-namespaces='shop,pay*' --storage-location=default --ttl=24h0m0s \
             --snapshot-volumes=false"
        );
        assert_eq!(of_backup(&backup, Some("daily")), "velero backup create b --from-schedule=daily");
    }

    #[test]
    fn a_restore_is_told_as_a_command() {
        let spec = RestoreSpec {
            backup_name: "b".to_owned(),
            namespace_mapping: [("shop".to_owned(), "shop-2".to_owned())].into(),
            existing_resource_policy: Some(ExistingResourcePolicy::Update),
            restore_pvs: Some(true),
            ..RestoreSpec::default()
        };
        let told = of_restore(&Restore::new("other", "r", spec));
        assert_eq!(
            told,
            "velero restore create r --from-backup=b --namespace-mappings=shop:shop-2 --restore-volumes=true \
             --existing-resource-policy=update --namespace=other"
        );
    }

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(quoted("a;rm -rf $HOME `x` 'y'"), r"'a;rm -rf $HOME `x` '\''y'\'''");
    }
}
