//! `velero backup cancel` and `velero restore cancel` without a server: what they write, and what they refuse.

use kube::Api;
use kube::api::PostParams;
use velero_api::annotations::CANCEL_REQUESTED;
use velero_api::metadata::annotation;
use velero_api::v1::{Backup, BackupPhase, Restore, RestorePhase};
use velero_testkit::cluster_test;

use crate::api_tables::install_definitions;
use crate::support::{refused, said};

#[test]
fn what_has_not_ended_is_asked_to_and_nothing_else_is_changed() {
    cluster_test(|cluster| async move {
        install_definitions(&cluster);
        let backups: Api<Backup> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let phases = [
            ("new", BackupPhase::New),
            ("runs", BackupPhase::InProgress),
            ("waits", BackupPhase::WaitingForPluginOperations),
            ("done", BackupPhase::Completed),
            ("going", BackupPhase::Deleting),
            ("odd", BackupPhase::Unknown("Uploading".to_owned())),
        ];
        for (name, phase) in phases {
            let mut backup = Backup::new(&cluster.namespace, name, Default::default());
            backup.status.phase = Some(phase);
            // A phase that nobody knows is refused by the definition too.
            if backups.create(&PostParams::default(), &backup).await.is_err() {
                assert_eq!(name, "odd");
            }
        }
        let mut restore = Restore::new(&cluster.namespace, "r", Default::default());
        restore.status.phase = Some(RestorePhase::Finalizing);
        let restores: Api<Restore> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        restores.create(&PostParams::default(), &restore).await.unwrap();

        let output = said(&cluster, &["backup", "cancel", "new"]);
        assert!(output.starts_with("Cancellation of backup \"new\" requested."), "{output}");
        let asked = backups.get("new").await.unwrap();
        assert!(annotation(&asked, CANCEL_REQUESTED).parse::<jiff::Timestamp>().is_ok(), "{asked:?}");
        let output = said(&cluster, &["backup", "cancel", "new"]);
        assert!(output.contains("was requested before"), "{output}");
        assert_eq!(backups.get("new").await.unwrap(), asked, "the first request stays");

        for (name, problem) in [("done", "it has ended already (phase Completed)"), ("going", "it is being deleted")] {
            let before = backups.get(name).await.unwrap();
            let output = refused(&cluster, &["backup", "cancel", name]);
            assert!(output.contains(problem), "{output}");
            assert_eq!(backups.get(name).await.unwrap(), before);
        }
        let output = refused(&cluster, &["backup", "cancel", "nobody"]);
        assert!(output.contains("backups.velero.io \"nobody\" not found"), "{output}");
        assert!(refused(&cluster, &["backup", "cancel"]).contains("exactly one of"));

        let output = said(&cluster, &["backup", "cancel", "--all", "--confirm"]);
        assert!(output.contains("\"runs\" requested") && output.contains("\"waits\" requested"), "{output}");
        assert!(!output.contains("done"), "what has ended is passed over: {output}");
        let output = refused(&cluster, &["restore", "cancel", "r", "--wait", "--timeout", "1s"]);
        assert!(output.contains("has not ended within 1s") && output.contains("velero server status"), "{output}");
        assert!(!annotation(&restores.get("r").await.unwrap(), CANCEL_REQUESTED).is_empty());
    });
}
