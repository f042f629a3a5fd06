//! The plugin binary under our host.
use std::process::Command;

use velero_plugin::PluginKind;
use velero_plugin::host::{HostSettings, PluginDirectory};
use velero_plugin_openshift::action_names;

const BINARY: &str = env!("CARGO_BIN_EXE_velero-plugin-openshift");

#[tokio::test]
async fn the_binary_brings_every_action_in_the_version_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(BINARY, folder.path().join("openshift")).unwrap();
    let directory = PluginDirectory::discover(folder.path(), HostSettings::default()).await.unwrap();
    let found = directory.plugins();
    let mut names: Vec<_> = found.iter().map(|plugin| plugin.name.as_str()).collect();
    let mut expected = action_names();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    let of_kind = |kind: PluginKind| {
        let names = found.iter().filter(|plugin| plugin.kind == kind).map(|plugin| plugin.name.as_str());
        names.collect::<Vec<_>>()
    };
    assert_eq!(of_kind(PluginKind::BackupItemActionV2), ["openshift.io/19-is-backup-plugin"]);
    let second = ["openshift.io/04-imagestreamtag-restore-plugin", "openshift.io/19-is-restore-plugin"];
    assert_eq!(of_kind(PluginKind::RestoreItemActionV2), second);
    assert_eq!(of_kind(PluginKind::ItemBlockAction), ["openshift.io/02-serviceaccount-iba-plugin"]);
}

#[test]
fn the_binary_copies_itself_beside_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let install = |target: &std::path::Path| Command::new(BINARY).arg("install").arg(target).output().unwrap();
    assert!(install(folder.path()).status.success());
    let copy = folder.path().join("velero-plugin-openshift");
    assert_eq!(copy.metadata().unwrap().len(), std::fs::metadata(BINARY).unwrap().len());
    let output = install(&folder.path().join("nowhere"));
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("nowhere"));
}
