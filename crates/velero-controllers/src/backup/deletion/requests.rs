//! The requests to delete a backup.

use kube::api::ObjectMeta;
use velero_api::labels;
use velero_api::metadata::{name, uid};
use velero_api::v1::{Backup, DeleteBackupRequest, DeleteBackupRequestSpec};

/// The selector of the requests to delete a backup.
pub(crate) fn selector(backup: &str, uid: &str) -> String {
    let backup = labels::valid_value(backup);
    format!("{}={backup},{}={uid}", labels::BACKUP_NAME, labels::BACKUP_UID)
}

/// The request to delete a backup.
pub(crate) fn deletion_of(backup: &Backup) -> DeleteBackupRequest {
    let marks = [
        (labels::BACKUP_NAME.to_owned(), labels::valid_value(name(backup))),
        (labels::BACKUP_UID.to_owned(), uid(backup).to_owned()),
    ];
    DeleteBackupRequest {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name(backup))),
            namespace: backup.metadata.namespace.clone(),
            labels: Some(marks.into()),
            ..ObjectMeta::default()
        },
        spec: DeleteBackupRequestSpec { backup_name: name(backup).to_owned(), ..Default::default() },
        status: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use velero_api::metadata::label;

    use super::*;

    #[test]
    fn a_request_carries_the_labels_it_is_found_by() {
        let mut backup = Backup::new("velero", "b", Default::default());
        backup.metadata.uid = Some("u-1".to_owned());
        let request = deletion_of(&backup);
        assert_eq!(request.spec.backup_name, "b");
        assert_eq!(request.metadata.generate_name.as_deref(), Some("b-"));
        let marks = [label(&request, labels::BACKUP_NAME), label(&request, labels::BACKUP_UID)];
        assert_eq!(marks, ["b", "u-1"]);
        assert_eq!(selector("b", "u-1"), "velero.io/backup-name=b,velero.io/backup-uid=u-1");
    }
}
