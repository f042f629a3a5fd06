//! Files that are no plugins, or bad ones.

use std::fs;
use std::process::Command;
use std::time::Duration;

use velero_plugin::host::PluginDirectory;

use crate::support::{BINARY, Folder};

async fn refused(folder: &Folder) -> String {
    let error = folder.discover().await.map(|directory| directory.plugins().to_vec()).unwrap_err().to_string();
    folder.expect_no_processes().await;
    error
}

#[tokio::test]
async fn a_folder_without_executables_holds_no_plugins() {
    let folder = Folder::empty();
    fs::write(folder.path().join("readme.txt"), "1|2|unix|/tmp/x|grpc").unwrap();
    assert!(folder.discover().await.unwrap().plugins().is_empty());
    let missing = folder.path().join("missing");
    let directory = PluginDirectory::discover(&missing, folder.settings.clone()).await.unwrap();
    assert!(directory.plugins().is_empty());
}

#[tokio::test]
async fn a_file_that_is_no_plugin_is_named_with_the_reason() {
    for (text, reason) in [
        ("echo hello world", "hello world"),
        ("yes | tr -d '\\n'", "is not the first line of a plugin"),
        ("echo '1|1|unix|/tmp/x|grpc'; sleep 300", "version \"1\" of the plugin protocol"),
        ("echo '7|2|unix|/tmp/x|grpc'", "core protocol"),
        ("echo '1|2|unix|/tmp/x|netrpc'", "netrpc"),
        ("echo '1|2|unix|/does/not/exist|grpc'; sleep 300", "cannot be connected to"),
        ("echo '1|2|tcp|127.0.0.1:1|grpc'; sleep 300", "cannot be connected to"),
        ("echo no config here >&2; exit 3", "exit status: 3"),
        ("echo no config here >&2; exit 3", "it said: no config here"),
        ("kill -9 $$", "signal: 9"),
        ("exit 0", "before it said where it listens"),
    ] {
        let folder = Folder::empty();
        let path = folder.script("bad", text);
        let error = refused(&folder).await;
        assert!(error.contains(&path.display().to_string()) && error.contains(reason), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_file_that_never_answers_is_given_up_and_killed() {
    let mut folder = Folder::empty();
    folder.settings.deadlines.start = Duration::from_millis(500);
    folder.script("silent", "sleep 300");
    let error = refused(&folder).await;
    assert!(error.contains("silent") && error.contains("did not say within 500ms"), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_be_run_is_named() {
    let folder = Folder::empty();
    let path = folder.script("broken", "");
    fs::write(&path, "\u{7f}ELF nonsense").unwrap();
    let error = refused(&folder).await;
    assert!(error.contains("broken") && error.contains("cannot be started"), "{error}");
}

#[tokio::test]
async fn two_binaries_with_the_same_plugin_are_both_named() {
    let folder = Folder::with_example();
    fs::create_dir(folder.path().join("more")).unwrap();
    std::os::unix::fs::symlink(BINARY, folder.path().join("more/again")).unwrap();
    let error = refused(&folder).await;
    assert!(error.contains("more/again") && error.contains("/example"), "{error}");
}

#[test]
fn a_plugin_that_is_run_by_hand_says_that_it_is_one() {
    let output = Command::new(BINARY).env_remove("VELERO_PLUGIN").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("This binary is a plugin."));
    assert!(output.stdout.is_empty());
}
