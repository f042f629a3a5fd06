//! `velero repo` on repositories that Velero wrote and on ones we wrote: what a person sees of them, gets out of them, and is
//! told when something is wrong.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use velero_repo::Repository;
use velero_repo::clock::system_clock;
use velero_repo::directory::EntryKind;
use velero_repo::store::FolderStore;
use velero_repo::upload::{Counters, SnapshotRequest, UploadOptions, upload_folder};

use crate::sample::{Expected, PASSWORD, Sample, hash, paths};

/// `velero repo VERB --path FOLDER …`.
fn command<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_velero"));
    command.arg("repo").args(arguments).arg("--path").arg(folder);
    command.env("HOME", "/nonexistent").env_remove("VELERO_REPO_PASSWORD");
    command
}

fn run<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// What a command that ends well writes.
fn good<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Vec<u8> {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    output.stdout
}

fn text<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> String {
    String::from_utf8(good(folder, arguments)).unwrap()
}

fn json<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Value {
    serde_json::from_slice(&good(folder, arguments)).unwrap()
}

/// What a command that ends badly says.
fn refusal(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert_eq!(text.trim_end().lines().count(), 1, "{text:?}");
}

/// A repository of ours with one snapshot of a folder.
fn written(fill: impl FnOnce(&Path)) -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let volume = tempfile::tempdir().unwrap();
    fill(volume.path());
    let store = Arc::new(FolderStore::open(place.path()).unwrap());
    let repository = Repository::create(store, PASSWORD, Duration::from_secs(86_400), &system_clock()).unwrap();
    let request = SnapshotRequest::of_velero("snapshot-pod-volume", "shop/data", BTreeMap::new());
    let saved = upload_folder(&repository, volume.path(), &request, &UploadOptions::default(), &Counters::default());
    (place, saved.unwrap().id)
}

/// The file of a pack with data.
fn pack(place: &Path) -> PathBuf {
    let packs = paths(place).into_iter().filter(|path| path.is_file());
    let inside = |path: &PathBuf| path.strip_prefix(place).unwrap().to_string_lossy().starts_with('p');
    packs.into_iter().find(inside).unwrap()
}

#[test]
fn every_snapshot_and_every_file_of_the_samples_is_listed() {
    for sample in Sample::all() {
        let table = text(&sample.path(), &["ls"]);
        for (id, expected) in &sample.expected {
            assert!(
                table.lines().any(|line| line.starts_with(id.as_str()) && line.ends_with(&expected.path)),
                "{table}"
            );
        }
        let listed = json(&sample.path(), &["ls", "-o", "json"]);
        assert_eq!(listed.as_array().unwrap().len(), sample.expected.len());

        let (id, expected) = sample.tree();
        let rows = json(&sample.path(), &["ls", id, "--recursive", "-o", "json"]);
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), expected.entries.len() - 1);
        for entry in expected.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            let row = rows.iter().find(|row| row["path"] == entry.path.as_str()).unwrap();
            assert_eq!((row["size"].as_u64(), row["uid"].as_u64()), (entry.size, Some(u64::from(entry.uid))));
            assert_eq!(u32::from_str_radix(row["mode"].as_str().unwrap(), 8), u32::from_str_radix(&entry.mode, 8));
        }
    }
}

#[test]
fn a_folder_of_a_snapshot_is_listed_as_ls_lists_it() {
    let sample = Sample::basic();
    let (id, expected) = sample.tree();
    let listed = text(&sample.path(), &["ls", &id[..12]]);
    assert!(listed.lines().any(|line| line.starts_with('d') && line.ends_with(" dir/")), "{listed}");
    let within = text(&sample.path(), &["ls", &format!("{id}/dir/")]);
    let below = expected.entries.iter().filter(|entry| Path::new(&entry.path).parent() == Some(Path::new("dir")));
    assert_eq!(within.lines().count(), below.count(), "{within}");
    let one = text(&sample.path(), &["ls", &format!("{id}/hello.txt")]);
    assert!(one.starts_with('-') && one.ends_with(" hello.txt\n"), "{one}");
}

#[test]
fn a_file_of_a_snapshot_is_written_to_stdout() {
    let sample = Sample::maintained();
    let (id, expected) = sample.tree();
    for entry in expected.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        let content = good(&sample.path(), &["cat", &format!("{id}/{}", entry.path)]);
        assert_eq!(Some(hash(&content)), entry.sha256, "{}", entry.path);
    }
}

fn check_files(target: &Path, expected: &Expected) {
    assert_eq!(paths(target).len(), expected.entries.len() - 1);
    for entry in expected.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        assert_eq!(Some(hash(&fs::read(target.join(&entry.path)).unwrap())), entry.sha256, "{}", entry.path);
    }
}

#[test]
fn a_snapshot_a_folder_of_it_and_a_block_volume_are_restored() {
    let sample = Sample::basic();
    let (id, expected) = sample.tree();
    let target = tempfile::tempdir().unwrap();
    let whole = target.path().join("whole");
    let whole_name = whole.to_str().unwrap();
    assert!(text(&sample.path(), &["restore", id, "--to", whole_name]).starts_with("Restored "));
    check_files(&whole, expected);

    says(
        &refusal(command(&sample.path(), &["restore", id, "--to", whole_name])),
        &[whole_name, "not empty", "--overwrite"],
    );
    fs::write(whole.join("hello.txt"), "changed").unwrap();
    text(&sample.path(), &["restore", id, "--to", whole_name, "--overwrite"]);
    check_files(&whole, expected);

    let part = target.path().join("part");
    text(&sample.path(), &["restore", &format!("{id}/dir"), "--to", part.to_str().unwrap()]);
    assert_eq!(paths(&part).len(), paths(&whole.join("dir")).len());

    let (id, expected) = sample.expected.iter().find(|(_, expected)| expected.is_block_volume()).unwrap();
    let device = target.path().join("device");
    text(&sample.path(), &["restore", id, "--device", "--to", device.to_str().unwrap()]);
    assert_eq!(Some(hash(&fs::read(device).unwrap())), expected.entries[1].sha256);
}

#[test]
fn a_repository_of_ours_is_shown_verified_and_maintained() {
    let (place, id) = written(|volume| {
        fs::create_dir(volume.join("etc")).unwrap();
        fs::write(volume.join("etc/motd"), "welcome\n").unwrap();
        fs::write(volume.join("large"), vec![7; 9 << 20]).unwrap();
    });
    let folder = place.path();
    assert_eq!(good(folder, &["cat", &format!("{id}/etc/motd")]), b"welcome\n");
    for arguments in [&["verify"][..], &["verify", &id], &["verify", &id[..8]]] {
        assert!(text(folder, arguments).ends_with("Nothing is damaged.\n"));
    }
    let stats = json(folder, &["stats", "-o", "json"]);
    assert_eq!((&stats["snapshots"], &stats["snapshotBytes"]), (&1.into(), &((9 << 20) + 8).into()), "{stats}");
    assert!(stats["contents"]["count"].as_u64().unwrap() > 3, "{stats}");
    assert!(text(folder, &["stats"]).contains("never maintained"));
    // On a disk nothing is compressed: that would take longer than to write it.
    assert!(stats["savedByCompression"].as_u64().unwrap() < 1 << 20, "{stats}");

    let looked = text(folder, &["maintain", "--full", "--dry-run"]);
    assert!(looked.ends_with("Full maintenance looked; nothing was written.\n"), "{looked}");
    assert!(json(folder, &["stats", "-o", "json"])["nextFullMaintenance"].is_null());
    assert!(text(folder, &["maintain", "--full"]).ends_with("Full maintenance done.\n"));
    assert!(text(folder, &["maintain"]).starts_with("Nothing is due before "));
    says(&refusal(command(folder, &["maintain", "--full"])), &["another maintenance", "less than an hour ago"]);
    assert_eq!(good(folder, &["cat", &format!("{id}/etc/motd")]), b"welcome\n");
}

#[test]
fn damage_is_named_down_to_the_file() {
    let (place, id) = written(|volume| fs::write(volume.join("data.db"), vec![7; 100_000]).unwrap());
    let pack = pack(place.path());
    let mut content = fs::read(&pack).unwrap();
    // In the first content, however short it is.
    content[50] ^= 1;
    fs::write(&pack, content).unwrap();
    for arguments in [&["verify"][..], &["verify", &id]] {
        let output = run(place.path(), arguments);
        let found = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(found.contains(&format!("snapshot {id}, \"data.db\"")), "{found}");
        says(&String::from_utf8(output.stderr).unwrap(), &["problem"]);
    }
    let refused = refusal(command(place.path(), &["cat", &format!("{id}/data.db")]));
    says(&refused, &["content", "damaged", "velero repo verify"]);
}

#[test]
fn the_password_comes_from_a_file_or_the_environment_and_a_wrong_one_is_told_with_its_source() {
    let sample = Sample::basic();
    let secrets = tempfile::tempdir().unwrap();
    let (right, wrong, empty) =
        (secrets.path().join("right"), secrets.path().join("wrong"), secrets.path().join("empty"));
    fs::write(&right, format!("{PASSWORD}\n")).unwrap();
    fs::write(&wrong, "other").unwrap();
    fs::write(&empty, "\n").unwrap();
    let with = |file: &Path| {
        let mut command = command(&sample.path(), &["ls"]);
        command.arg("--password-file").arg(file).env("VELERO_REPO_PASSWORD", "not this one");
        command
    };
    assert!(with(&right).output().unwrap().status.success(), "a file comes before the environment");
    says(
        &refusal(with(&wrong)),
        &["does not open", wrong.to_str().unwrap(), "--password-file", "velero-repo-credentials"],
    );
    says(&refusal(with(&empty)), &["--password-file", "empty"]);
    says(&refusal(with(&secrets.path().join("missing"))), &["--password-file", "missing"]);
    let mut environment = command(&sample.path(), &["verify"]);
    environment.env("VELERO_REPO_PASSWORD", "other");
    says(&refusal(environment), &["does not open", "VELERO_REPO_PASSWORD"]);
}

#[test]
fn what_does_not_exist_is_named_with_a_remedy() {
    let sample = Sample::basic();
    let folder = sample.path();
    let (id, _) = sample.tree();
    let file = format!("{id}/hello.txt");
    let missing = format!("{id}/dir/nothing");
    let cases: [(&[&str], &[&str]); 8] = [
        (&["ls", "00"], &["snapshot \"00\"", "does not exist", "velero repo ls"]),
        (&["ls", ""], &["no id", "velero repo ls"]),
        (&["ls", &missing], &["dir/nothing", id, "there is no \"nothing\"", "velero repo ls"]),
        (&["verify", "00000000000000000000000000000000"], &["does not exist", "velero repo ls"]),
        (&["cat", id], &["is a folder", "velero repo restore"]),
        (&["restore", &file, "--to", "/nonexistent/x"], &["hello.txt", "is a file", "velero repo cat"]),
        (&["restore", id, "--to", "/dev/null/x"], &["/dev/null/x"]),
        (&["ls", "-o", "xml"], &["xml", "json"]),
    ];
    for (arguments, words) in cases {
        says(&refusal(command(&folder, arguments)), words);
    }
    let empty = tempfile::tempdir().unwrap();
    says(&refusal(command(empty.path(), &["ls"])), &["no repository", "kopia.repository", "--path"]);
    says(&refusal(command(Path::new("/nonexistent"), &["ls"])), &["/nonexistent", "--path"]);
}

#[test]
fn a_repository_must_be_named_once() {
    let velero = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_velero"));
        command.arg("repo").args(arguments).env("HOME", "/nonexistent");
        refusal(command)
    };
    says(&velero(&["ls"]), &["--repository", "--path", "--bucket"]);
    assert!(velero(&["ls", "--path", "/tmp", "--bucket", "b"]).contains("cannot be used with"));
    assert!(velero(&["ls", "--prefix", "kopia/shop"]).contains("--bucket"));
    assert!(velero(&["maintain", "--path", "/tmp", "--quick", "--full"]).contains("cannot be used with"));
    says(&velero(&["ls", "--bucket", "b", "--provider", "floppy"]), &["floppy", "aws"]);
}

#[test]
fn a_bucket_of_provider_fs_is_a_folder_with_the_repository_below_its_prefix() {
    let sample = Sample::basic();
    let bucket = tempfile::tempdir().unwrap();
    fs::create_dir_all(bucket.path().join("east/kopia")).unwrap();
    std::os::unix::fs::symlink(sample.path(), bucket.path().join("east/kopia/shop")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_velero"));
    command.args(["repo", "ls", "--provider", "velero.io/fs", "--prefix", "east/kopia/shop/", "--bucket"]);
    let output = command.arg(bucket.path()).env("HOME", "/nonexistent").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap().contains(sample.tree().0));
}

#[test]
fn a_reader_that_has_gone_ends_the_output_without_a_word() {
    let (place, id) = written(|volume| fs::write(volume.join("large"), vec![7; 4 << 20]).unwrap());
    for arguments in [["cat", &format!("{id}/large")], ["ls", &id]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command(place.path(), &arguments).stdout(writer).output().unwrap();
        assert_eq!(ended.status.code(), Some(141));
        assert!(ended.stderr.is_empty());
    }
}
