//! Operations that go on after a call.

use std::time::Duration;

use velero_plugin::Error;

use crate::support::{Folder, backup, backup_action, item};

const ACTION: &str = "example.velero.io/backup";

#[tokio::test]
async fn an_operation_goes_on_until_it_ends() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    for (course, error) in [("takes=2s", ""), ("fails-after=2s", "the item asked for a failing operation")] {
        let id = action.execute(&item(&[("operation", course)]), &backup()).await.unwrap().operation_id.unwrap();
        let progress = action.progress(&id, &backup()).await.unwrap();
        assert!(!progress.completed && progress.started.is_some(), "{course}: {progress:?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let progress = action.progress(&id, &backup()).await.unwrap();
        assert_eq!((progress.completed, progress.error.as_str()), (true, error), "{course}");
        assert_eq!((progress.n_completed, progress.operation_units.as_str()), (100, "Percent"));
    }
}

#[tokio::test]
async fn an_operation_outlives_the_process_that_started_it() {
    let folder = Folder::with_example();
    let first = folder.manager().await;
    let started = backup_action(&first, ACTION).execute(&item(&[("operation", "never")]), &backup()).await.unwrap();
    let id = started.operation_id.unwrap();
    first.stop().await;
    folder.expect_no_processes().await;
    let second = folder.manager().await;
    let action = backup_action(&second, ACTION);
    assert!(!action.progress(&id, &backup()).await.unwrap().completed);
    action.cancel(&id, &backup()).await.unwrap();
    let progress = action.progress(&id, &backup()).await.unwrap();
    assert_eq!((progress.completed, progress.error.as_str()), (true, "the operation was cancelled"));
}

#[tokio::test]
async fn an_unknown_operation_is_said_to_be_unknown() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    for outcome in [action.progress("nonsense", &backup()).await.map(drop), action.cancel("nonsense", &backup()).await]
    {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, Error::InvalidOperationId { operation_id, .. } if operation_id == "nonsense"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn progress_and_cancel_that_fail_name_the_call_and_the_operation() {
    let folder = Folder::with_example();
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    let begin = async |course| {
        let outcome = action.execute(&item(&[("operation", course)]), &backup()).await;
        outcome.unwrap().operation_id.unwrap()
    };
    let id = begin("progress-error").await;
    let error = action.progress(&id, &backup()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{ACTION}: Progress of {id}")), "{error}");
    let id = begin("cancel-fails").await;
    let error = action.cancel(&id, &backup()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{ACTION}: Cancel of {id}")), "{error}");
    let id = begin("progress-crash").await;
    let error = action.progress(&id, &backup()).await.unwrap_err().to_string();
    assert!(error.contains("ended in the middle of the call"), "{error}");
    assert!(action.progress(&begin("takes=0s").await, &backup()).await.unwrap().completed);
}

#[tokio::test]
async fn progress_that_hangs_is_given_up() {
    let mut folder = Folder::with_example();
    folder.settings.deadlines.question = Duration::from_millis(700);
    let manager = folder.manager().await;
    let action = backup_action(&manager, ACTION);
    let id = action.execute(&item(&[("operation", "progress-hang")]), &backup()).await.unwrap().operation_id.unwrap();
    let error = action.progress(&id, &backup()).await.unwrap_err().to_string();
    assert!(error.contains("no answer within 700ms"), "{error}");
}
