//! A large archive on its way through all that a restore holds in memory of each item.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use velero_api::v1::{RestoreProgress, RestoreSpec};
use velero_archive::{ArchiveWriter, ItemPath, Limits, VersionDirectory, gzjson};
use velero_cluster::{Discovery, types};
use velero_rules::ordering::Priorities;

use super::ledger::{Done, ItemKey, Ledger, PlannedKey};
use super::plan::Plan;
use super::read::{Room, contents};
use super::selection::Selection;
use crate::journal::{Journal, Level, LogFormat};

/// So many that the archive does not stay in memory.
const ITEMS: usize = 300_000;
/// What the server holds besides comes on top of it, and all of it may be 128 MiB.
const MOST_MEMORY: u64 = 100;

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap().div_ceil(1024)
}

fn write_archive(file: File) {
    let mut writer = ArchiveWriter::new(file, 0).unwrap();
    let preferred = VersionDirectory { version: "v1", preferred: true };
    for index in 0..ITEMS {
        let (namespace, name) = (format!("scale-{}", index / 5_000), format!("item-{index:07}"));
        let uid = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let body = format!(
            r#"{{"apiVersion":"v1","data":{{"text":"{uid:064x}"}},"kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid:032x}"}}}}"#
        );
        for version in [None, Some(preferred)] {
            let path = ItemPath { group_resource: "configmaps", version, namespace: Some(&namespace), name: &name };
            writer.append(&path.to_string(), body.as_bytes()).unwrap();
        }
    }
    writer.finish().unwrap();
}

#[tokio::test]
#[ignore = "it takes minutes, and a process for itself: its memory is measured"]
async fn hundreds_of_thousands_of_items_are_read_planned_restored_and_listed_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    write_archive(File::create(&path).unwrap());
    let begin = Instant::now();
    let told = |step: &str| println!("{step}: {:.1} s, {} MiB", begin.elapsed().as_secs_f64(), peak_memory());
    told("written");

    let (spec, discovery) = (RestoreSpec::default(), Discovery::new(vec![types::CONFIG_MAPS.clone()], Vec::new()));
    let selection = Selection::new(&spec, None, &discovery).unwrap();
    let archive = BufReader::new(File::open(&path).unwrap());
    let room = Room { limits: Limits::default(), scratch: folder.path().to_owned() };
    let (contents, selection) = contents(archive, room, false, selection).await.unwrap();
    told("read");
    let plan = Plan::new(&contents, &selection, &spec, &Priorities::default(), &discovery).unwrap();
    assert_eq!(plan.total(), ITEMS + ITEMS / 5_000);
    told("planned");

    let (sender, _receiver) = watch::channel(RestoreProgress::default());
    let planned = plan.steps.iter().flat_map(|step| {
        step.items(&contents).map(|item| PlannedKey {
            resource: &step.resource,
            namespace: item.namespace,
            name: item.name,
        })
    });
    let ledger = Ledger::new(planned, sender);
    told("entered");
    let journal = Journal::for_restore("velero", "large", LogFormat::Text, Level::Info);
    for step in &plan.steps {
        for item in step.items(&contents) {
            contents.read(item.stored).unwrap();
            let (resource, namespace) = (Arc::clone(&step.resource), item.namespace.map(Into::into));
            let key = ItemKey { resource, namespace, name: item.name.into() };
            ledger.take(&key, 0).await;
            journal.info().resource(&key.resource).namespace(item.namespace).name(item.name).message("Created item");
            ledger.close(&key, Some("v1/ConfigMap"), item.name, Done::Created, true);
        }
    }
    told("restored");
    drop((plan, contents));
    let (progress, list) = ledger.finish();
    assert_eq!(usize::try_from(progress.items_restored).unwrap(), ITEMS);
    let list = gzjson::encode(&list).unwrap();
    let log = journal.compressed_log().unwrap();
    println!("list {} KB, log {} KB", list.len() / 1000, log.len() / 1000);
    told("listed");
    assert!(peak_memory() <= MOST_MEMORY, "{} MiB", peak_memory());
}
