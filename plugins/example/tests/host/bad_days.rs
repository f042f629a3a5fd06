//! A plugin that fails, hangs, floods, panics or dies in the middle of a call.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::support::{Folder, backup, backup_action, item};

const ACTION: &str = "example.velero.io/backup";

async fn execute(folder: &Folder, behaviour: &str) -> String {
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    let error = action.execute(&item(&[("execute", behaviour)]), &backup()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("BackupItemActionV2 {ACTION}: Execute of ConfigMap shop/web")), "{error}");
    // One bad call is the end of that call alone.
    action.execute(&item(&[]), &backup()).await.unwrap();
    error
}

#[tokio::test]
async fn a_bad_call_ends_with_its_reason_and_the_next_goes_well() {
    for (behaviour, reason) in [
        ("fail", "the item asked for a failure"),
        ("panic", "plugin panicked: the item asked for a panic"),
        ("crash", "the plugin's process ended in the middle of the call (exit status: 7)"),
        ("other-kind", "the plugin returned an item of another kind: SomethingElse shop/web"),
    ] {
        let error = execute(&Folder::with_example(), behaviour).await;
        assert!(error.ends_with(reason), "{behaviour}: {error}");
    }
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up() {
    let mut folder = Folder::with_example();
    folder.settings.deadlines.work = Duration::from_millis(800);
    let error = execute(&folder, "hang").await;
    assert!(error.ends_with("no answer within 800ms; the call was given up"), "{error}");
}

#[tokio::test]
async fn a_plugin_that_never_answers_is_given_up() {
    let mut folder = Folder::with_example();
    folder.settings.deadlines.work = Duration::from_millis(300);
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    let (hang, backup) = (item(&[("execute", "hang")]), backup());
    // Side by side, as a backup calls it.
    for outcome in join_all((0..20).map(|_| action.execute(&hang, &backup))).await {
        assert!(outcome.unwrap_err().to_string().contains("no answer within 300ms"));
    }
    let error = action.execute(&hang, &backup).await.unwrap_err().to_string();
    assert!(error.contains("given up after 10 failures in a row; the last: it did not answer in time"), "{error}");
    folder.expect_no_processes().await;
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_and_said_to_be() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    backup_action(&manager, ACTION).execute(&item(&[("execute", "flood")]), &backup()).await.unwrap();
    manager.stop().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let lines = folder.lines();
    assert!(lines.len() < 50_000, "{} lines of 100000 passed", lines.len());
    assert!(lines.iter().any(|line| line.message.contains("were left out of the log")));
}

#[tokio::test]
async fn a_plugin_that_only_crashes_is_given_up_and_leaves_nothing_behind() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    let (start, crash) = (Instant::now(), item(&[("execute", "crash")]));
    let mut error = String::new();
    for _ in 0..100 {
        error = action.execute(&crash, &backup()).await.unwrap_err().to_string();
        assert!(folder.processes().len() <= 1);
    }
    assert!(error.contains("given up after 10 failures in a row") && error.contains("exit status: 7"), "{error}");
    assert!(start.elapsed() > Duration::from_secs(10), "restarts are not slowed down");
    let starts = folder.lines().iter().filter(|line| line.message.contains("restarting")).count();
    assert!(starts <= 11, "{starts} restarts");
    folder.expect_no_processes().await;
}

#[tokio::test]
async fn what_a_plugin_leaves_behind_is_ended_with_it() {
    let folder = Folder::empty();
    let path = folder.path().display();
    // The child outlives its parent unless the whole group is ended.
    folder.script("a-plugin", &format!("sh -c 'sleep 300; : {path}' & exec {}", crate::support::BINARY));
    let manager = folder.manager().await;
    backup_action(&manager, ACTION).execute(&item(&[]), &backup()).await.unwrap();
    assert!(!folder.processes().is_empty());
    manager.stop().await;
    folder.expect_no_processes().await;
}

#[tokio::test]
async fn dropping_a_manager_kills_its_processes() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    action.execute(&item(&[]), &backup()).await.unwrap();
    assert_eq!(folder.processes().len(), 1);
    drop((manager, action));
    folder.expect_no_processes().await;
}
