//! Actions of every kind and version.

use std::time::Duration;

use futures::future::join_all;
use velero_plugin::host::PluginLogLine;
use velero_plugin::{Error, RestoreItemInput};

use crate::support::{Folder, backup, backup_action, item, restore, restore_action};

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_binary_lists_everything_it_brings() {
    let folder = Folder::with_example();
    let directory = folder.discover().await.unwrap();
    let listed: Vec<_> = directory.plugins().iter().map(|plugin| format!("{} {}", plugin.kind, plugin.name)).collect();
    assert_eq!(
        listed,
        [
            "BackupItemAction example.velero.io/backup-v1",
            "BackupItemActionV2 example.velero.io/backup",
            "BackupItemActionV2 example.velero.io/data-mover",
            "VolumeSnapshotter example.velero.io/volumes-v1",
            "VolumeSnapshotterV2 example.velero.io/volumes",
            "ObjectStore example.velero.io/folder",
            "RestoreItemAction example.velero.io/restore-v1",
            "RestoreItemActionV2 example.velero.io/data-mover",
            "RestoreItemActionV2 example.velero.io/restore",
            "DeleteItemAction example.velero.io/delete",
            "ItemBlockAction example.velero.io/block",
        ]
    );
    assert!(directory.plugins().iter().all(|plugin| plugin.command == folder.path().join("example")));
    folder.expect_no_processes().await;
}

#[tokio::test]
async fn actions_run_first_versions_first_and_then_by_name() {
    let folder = Folder::with_example();
    let actions = folder.manager().await.actions().unwrap();
    let names: Vec<_> = actions.backup_item().iter().map(|action| action.name().to_owned()).collect();
    assert_eq!(names, ["example.velero.io/backup-v1", "example.velero.io/backup", "example.velero.io/data-mover"]);
}

#[tokio::test]
async fn a_backup_action_changes_the_item_and_names_others() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup");
    assert_eq!(action.applies_to().await.unwrap().label_selector, "example.velero.io/plugin");
    let sent = item(&[("additional-items", "secrets/shop/a"), ("items-to-update", "configmaps/shop/web")]);
    let outcome = action.execute(&sent, &backup()).await.unwrap();
    let updated = outcome.updated_item.unwrap();
    assert_eq!(updated["metadata"]["annotations"]["example.velero.io/backed-up-by"], "nightly");
    assert_eq!(texts(&outcome.additional_items), ["secrets shop/a"]);
    assert_eq!(texts(&outcome.items_to_update), ["configmaps shop/web"]);
    assert_eq!(outcome.operation_id, None);
}

#[tokio::test]
async fn an_action_of_the_first_version_starts_no_operations() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup-v1");
    assert_eq!(action.applies_to().await.unwrap().label_selector, "example.velero.io/plugin-v1");
    let outcome = action.execute(&item(&[]), &backup()).await.unwrap();
    let updated = outcome.updated_item.unwrap();
    assert_eq!(updated["metadata"]["annotations"]["example.velero.io/backed-up-by-v1"], "nightly");
    let error = action.progress("any", &backup()).await.unwrap_err();
    assert!(matches!(error, Error::AsyncOperationsNotSupported { .. }), "{error}");
    action.cancel("any", &backup()).await.unwrap();

    let action = restore_action(&manager, "example.velero.io/restore-v1");
    let (item, restore) = (item(&[("skip-restore", "true")]), restore());
    let input = RestoreItemInput { item: &item, item_from_backup: &item, restore: &restore };
    assert!(action.execute(input).await.unwrap().skip_restore);
    assert!(matches!(action.progress("any", &restore).await, Err(Error::AsyncOperationsNotSupported { .. })));
    assert!(action.are_additional_items_ready(&[], &restore).await.unwrap());
}

#[tokio::test]
async fn a_restore_action_says_what_to_wait_for() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = restore_action(&manager, "example.velero.io/restore");
    let restore = restore();
    let sent = item(&[("restore-additional-items", "secrets/shop/unready"), ("wait-for-additional-items", "5s")]);
    let input = RestoreItemInput { item: &sent, item_from_backup: &sent, restore: &restore };
    let outcome = action.execute(input).await.unwrap();
    let updated = outcome.updated_item.unwrap();
    assert_eq!(updated["metadata"]["annotations"]["example.velero.io/restored-by"], "back");
    assert!(outcome.wait_for_additional_items && !outcome.skip_restore);
    assert_eq!(outcome.additional_items_ready_timeout, Some(Duration::from_secs(5)));
    assert!(!action.are_additional_items_ready(&outcome.additional_items, &restore).await.unwrap());
    assert!(action.are_additional_items_ready(&[], &restore).await.unwrap());
}

#[tokio::test]
async fn block_and_delete_actions_are_asked() {
    let folder = Folder::with_example();
    let actions = folder.manager().await.actions().unwrap();
    let block = &actions.item_block()[0];
    let related = block.related_items(&item(&[("related-items", "pods/shop/a,pods/shop/b")]), &backup()).await.unwrap();
    assert_eq!(texts(&related), ["pods shop/a", "pods shop/b"]);
    let delete = &actions.delete_item()[0];
    delete.execute(&item(&[]), &backup()).await.unwrap();
    let error = delete.execute(&item(&[("delete-execute", "fail")]), &backup()).await.unwrap_err().to_string();
    assert!(error.contains("DeleteItemAction example.velero.io/delete: Execute of ConfigMap shop/web"), "{error}");
}

#[tokio::test]
async fn calls_run_side_by_side_in_one_process() {
    let mut folder = Folder::with_example();
    folder.settings.deadlines.work = Duration::from_secs(60);
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup");
    let (hang, usual, backup) = (item(&[("execute", "hang")]), item(&[]), backup());
    tokio::select! {
        // Those that never end are sent first.
        biased;
        _ = join_all((0..50).map(|_| action.execute(&hang, &backup))) => panic!("the other call waited for these"),
        outcome = action.execute(&usual, &backup) => drop(outcome.unwrap()),
    }
    assert_eq!(folder.processes().len(), 1);
}

#[tokio::test]
async fn an_item_larger_than_the_usual_limit_of_grpc_passes() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup");
    let mut large = item(&[]);
    large["data"] = serde_json::json!({"large": "x".repeat(6 << 20)});
    let updated = action.execute(&large, &backup()).await.unwrap().updated_item.unwrap();
    assert_eq!(updated["data"], large["data"]);
}

#[tokio::test]
async fn log_lines_of_a_plugin_keep_their_fields() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup");
    action.execute(&item(&[("execute", "slow=1ms")]), &backup()).await.unwrap();
    manager.stop().await;
    let lines = folder.lines();
    let line = lines.iter().find(|line| line.message == "behaving as the item asks").unwrap();
    assert_eq!((line.level, line.plugin_name.as_str()), (tracing::Level::INFO, "example"));
    assert_eq!(line.command, folder.path().join("example").display().to_string());
    assert_eq!(line.fields["behaviour"], "slow=1ms");
}

#[tokio::test]
async fn what_a_plugin_prints_reaches_the_log() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup");
    for _ in 0..100 {
        action.execute(&item(&[("execute", "print")]), &backup()).await.unwrap();
        if folder.lines().iter().any(|line| line.message == "a line on stdout") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing printed among {:?}", folder.lines());
}

#[tokio::test]
async fn a_plugin_without_sockets_listens_on_a_port() {
    let mut folder = Folder::with_example();
    let nowhere = folder.path().join("nowhere").display().to_string();
    folder.settings.environment = vec![("PLUGIN_UNIX_SOCKET_DIR".to_owned(), nowhere)];
    let manager = folder.manager().await;
    let action = backup_action(&manager, "example.velero.io/backup");
    action.execute(&item(&[]), &backup()).await.unwrap();
    let fell_back = |line: &PluginLogLine| line.message.contains("using a TCP port");
    manager.stop().await;
    assert!(folder.lines().iter().any(fell_back), "{:?}", folder.lines());
}

#[tokio::test]
async fn a_plugin_nobody_brings_is_named_with_those_there_are() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    assert!(!manager.has_object_store("aws") && manager.has_object_store("example.velero.io/folder"));
    let Err(error) = manager.object_store("aws", "b", &Default::default()).await else { panic!("there is none") };
    let error = error.to_string();
    assert!(error.contains("ObjectStore velero.io/aws") && error.contains("example.velero.io/folder"), "{error}");
}
