//! Copies that end in the middle, and the next ones.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use velero_registry::copy;
use velero_testkit::install;
use velero_testkit::registry::{ContainerRegistry, Layout};

use crate::{DEADLINE, blobs, failure, image, never_again, quick, raw, size, try_raw};

fn source(layers: &[usize]) -> ContainerRegistry {
    let registry = ContainerRegistry::start().unwrap();
    let mut layout = Layout::new().unwrap();
    let web = layout.image("amd64", layers).unwrap();
    layout.push(&web, &registry, "shop/web:v1").unwrap();
    registry
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_copy_ends_and_leaves_nothing_that_refers_to_it() {
    let (source, destination) = (source(&[64 << 20]), ContainerRegistry::start().unwrap());
    let (from, to) = (image(&source, "shop/web:v1"), image(&destination, "x:1"));
    let options = never_again();
    let (mut progress, cancel) = (options.progress.subscribe(), options.cancel.clone());
    let watched = tokio::spawn(async move {
        progress.wait_for(|progress| progress.bytes_done > 1_000_000).await.unwrap();
        cancel.cancel();
    });
    let error = failure(&from, &to, &options).await;
    watched.await.unwrap();
    assert!(error.is_cancelled() && !error.is_retriable(), "{error}");
    assert!(try_raw(&destination, "x:1").is_err());
    assert!(failure(&from, &to, &options).await.is_cancelled(), "a cancelled copy does not begin");
    let copied = copy(&from, &to, &quick()).await.unwrap();
    assert!(copied.bytes >= 64 << 20);
}

#[tokio::test]
async fn after_a_kill_only_what_is_missing_moves() {
    let (source, destination) = (source(&[16 << 20; 8]), ContainerRegistry::start().unwrap());
    let manifest = raw(&source, "shop/web:v1");
    let program = install::package_example("velero-registry", "copy", "dev").unwrap();
    let mut process = Command::new(program)
        .args(["--plain-http", "--parallel=1"])
        .args([format!("{}/shop/web:v1", source.host()), format!("{}/shop/web:v1", destination.host())])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while destination.count("PUT", "/blobs/uploads/").unwrap() < 2 {
        assert!(start.elapsed() < DEADLINE, "no blob arrives");
        std::thread::sleep(Duration::from_millis(5));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(try_raw(&destination, "shop/web:v1").is_err(), "it was killed too late");

    let there = |digest: &str| destination.blob_file(digest).unwrap().exists();
    let missing: Vec<u64> =
        blobs(&manifest).iter().filter(|(digest, _)| !there(digest)).map(|(_, size)| *size).collect();
    assert!(!missing.is_empty() && missing.len() <= 7, "{missing:?}");
    let reads = source.count("GET", "/blobs/").unwrap();
    let (from, to) = (image(&source, "shop/web:v1"), image(&destination, "shop/web:v1"));
    let copied = copy(&from, &to, &quick()).await.unwrap();
    assert_eq!(copied.bytes, missing.iter().sum::<u64>());
    assert_eq!(copied.bytes + copied.skipped, size(&manifest));
    assert_eq!(source.count("GET", "/blobs/").unwrap() - reads, missing.len());
    assert_eq!(raw(&destination, "shop/web:v1"), manifest);
}

#[test]
fn a_copy_holds_pieces_and_never_a_layer() {
    let (source, destination) = (source(&[96 << 20, 96 << 20]), ContainerRegistry::start().unwrap());
    let program = install::package_example("velero-registry", "copy", "dev").unwrap();
    let output = Command::new(program)
        .arg("--plain-http")
        .args([format!("{}/shop/web:v1", source.host()), format!("{}/y:1", destination.host())])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let peak: u64 = text.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
}
