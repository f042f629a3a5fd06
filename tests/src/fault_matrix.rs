//! A small backup, a restore and a deletion, each once for every write the server makes on its way: the answer to that
//! write is lost, or the server is killed when it is done. Whatever write it was, the work comes to an end that is true,
//! and nothing is left over.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::Value;
use velero_api::annotations;
use velero_api::metadata::annotation;
use velero_api::resource::VeleroResource;
use velero_api::v1::{
    Backup, BackupPhase, BackupSpec, DeleteBackupRequest, DeleteBackupRequestSpec, Restore, RestorePhase, RestoreSpec,
};
use velero_testkit::api_proxy::ApiProxy;
use velero_testkit::harness::unique_name;
use velero_testkit::parts::BUCKET;
use velero_testkit::progress::say;
use velero_testkit::{Edition, ServerOptions, TestCluster, VeleroServer, load, objects};

use crate::backups;

/// How long one piece of work may take, the fault and what it costs included.
const DEADLINE: Duration = Duration::from_secs(75);
/// More writes than any of them makes.
const MOST_WRITES: usize = 60;
/// The namespace that is backed up, and what is in it.
const SHOP: &str = "shop";

/// Whether nothing is left to be done of a run that was killed: it is done once the next server is at work.
fn owes_nothing<K: VeleroResource>(object: &K) -> bool {
    annotation(object, annotations::CLEAN_UP_OWED).is_empty()
}

/// What happens at the chosen write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its answer is lost.
    LostAnswer,
    /// The server is killed, and started again.
    Kill,
}

/// A server behind a proxy, and what went wrong so far.
pub struct Matrix {
    cluster: TestCluster,
    server: VeleroServer,
    proxy: ApiProxy,
    fault: Fault,
    prefix: String,
    failures: Vec<String>,
}

/// How a piece of work went.
struct Case<K> {
    /// The write that was struck; nothing when there were fewer.
    struck: Option<String>,
    /// The object at the end; nothing when it is gone.
    object: Option<K>,
}

impl Matrix {
    /// Starts a server in the box of a test, and makes what is to be backed up.
    pub async fn start(cluster: &TestCluster, fault: Fault) -> Result<Self> {
        let proxy = ApiProxy::start(&cluster.test_box).await?;
        let prefix = unique_name("matrix");
        let kubeconfig = Some(proxy.kubeconfig());
        let options = ServerOptions { prefix: prefix.clone(), kubeconfig, ..ServerOptions::default() };
        let server = VeleroServer::up(&cluster.test_box, Edition::Ours, options)?;
        load::create_all(&cluster.client, contents().into_iter()).await?;
        Ok(Self { cluster: cluster.clone(), server, proxy, fault, prefix, failures: Vec::new() })
    }

    /// Fails with everything that went wrong.
    pub fn finish(self) -> Result<()> {
        self.server.stop()?;
        ensure!(self.failures.is_empty(), "{} cases failed:\n{}", self.failures.len(), self.failures.join("\n"));
        Ok(())
    }

    /// Backups: each ends, and one that is Completed has everything.
    pub async fn backups(&mut self) -> Result<()> {
        for write in 1..MOST_WRITES {
            let name = format!("backup-{write}");
            let backup = Backup::new(self.server.namespace(), &name, of_shop());
            let is_over = |backup: &Backup| backup.status.phase().is_terminal() && owes_nothing(backup);
            let case = self.case(write, &name, backup, |backup| backup.is_some_and(is_over)).await;
            let Some(Case { struck, object }) = self.note(write, "backup", case) else { continue };
            let checked = object.map_or(Ok(()), |backup| self.check_backup(&name, &backup));
            self.note_check("backup", write, struck.as_deref(), checked);
            if struck.is_none() {
                return Ok(());
            }
        }
        bail!("a backup makes more than {MOST_WRITES} writes")
    }

    /// Restores: each ends, and one that is Completed restored everything.
    pub async fn restores(&mut self) -> Result<()> {
        self.whole_backup("base").await?;
        for write in 1..MOST_WRITES {
            let (name, copy) = (format!("restore-{write}"), format!("copy-{write}"));
            let mapping = [(SHOP.to_owned(), copy.clone())].into();
            let spec =
                RestoreSpec { backup_name: "base".to_owned(), namespace_mapping: mapping, ..RestoreSpec::default() };
            let restore = Restore::new(self.server.namespace(), &name, spec);
            let is_over = |restore: &Restore| restore.status.phase().is_terminal() && owes_nothing(restore);
            let case = self.case(write, &name, restore, |restore| restore.is_some_and(is_over)).await;
            let Some(Case { struck, object }) = self.note(write, "restore", case) else { continue };
            let checked = match object {
                Some(restore) => self.check_restore(&copy, &restore).await,
                None => Ok(()),
            };
            self.note_check("restore", write, struck.as_deref(), checked);
            if struck.is_none() {
                return Ok(());
            }
        }
        bail!("a restore makes more than {MOST_WRITES} writes")
    }

    /// Deletions: the backup goes, with all its files, its restores and the request itself.
    pub async fn deletions(&mut self) -> Result<()> {
        for write in 1..MOST_WRITES {
            let (name, asked) = (format!("deleted-{write}"), format!("delete-{write}"));
            self.whole_backup(&name).await?;
            let spec = DeleteBackupRequestSpec { backup_name: name.clone(), ..Default::default() };
            let request = DeleteBackupRequest::new(self.server.namespace(), &asked, spec);
            let case = self.case(write, &asked, request, |request| request.is_none()).await;
            let Some(Case { struck, .. }) = self.note(write, "deletion", case) else { continue };
            let checked = self.check_deleted(&name).await;
            self.note_check("deletion", write, struck.as_deref(), checked);
            if struck.is_none() {
                return Ok(());
            }
        }
        bail!("a deletion makes more than {MOST_WRITES} writes")
    }

    /// Makes an object that the server works on, strikes at a write, and waits for the end.
    async fn case<K: VeleroResource>(
        &self,
        write: usize,
        name: &str,
        object: K,
        ended: impl Fn(Option<&K>) -> bool,
    ) -> Result<Case<K>> {
        let killed = Arc::new(AtomicBool::new(false));
        self.arm(write, killed.clone())?;
        let api: Api<K> = self.api();
        api.create(&PostParams::default(), &object).await?;
        let deadline = Instant::now() + DEADLINE;
        let mut restarted = false;
        let object = loop {
            if !restarted && killed.load(Ordering::SeqCst) {
                self.server.stop()?;
                self.server.start()?;
                restarted = true;
            }
            let found = api.get_opt(name).await?;
            // A server that dies at its last write must be back before the next case.
            let is_to_be_killed = self.fault == Fault::Kill && self.proxy.has_struck();
            if ended(found.as_ref()) && (restarted || !is_to_be_killed) {
                break found;
            }
            if Instant::now() > deadline {
                let (struck, writes) = self.proxy.disarm();
                let status = serde_json::to_value(&found)?["status"].take();
                bail!("{name} has not ended, struck: {struck:?}, status: {status}, writes: {writes:#?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let (struck, _) = self.proxy.disarm();
        Ok(Case { struck, object })
    }

    fn arm(&self, write: usize, killed: Arc<AtomicBool>) -> Result<()> {
        if self.fault == Fault::LostAnswer {
            self.proxy.arm(write, || {});
            return Ok(());
        }
        let process = self.server.process()?.to_string();
        self.proxy.arm(write, move || {
            let _ = Command::new("kill").args(["-KILL", &process]).status();
            killed.store(true, Ordering::SeqCst);
        });
        Ok(())
    }

    /// Makes a backup without any fault.
    async fn whole_backup(&self, name: &str) -> Result<()> {
        let api: Api<Backup> = self.api();
        api.create(&PostParams::default(), &Backup::new(self.server.namespace(), name, of_shop())).await?;
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = api.get(name).await?.status;
            if *status.phase() == BackupPhase::Completed {
                return Ok(());
            }
            ensure!(!status.phase().is_terminal() && Instant::now() < deadline, "{name} is not whole: {status:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn check_backup(&self, name: &str, backup: &Backup) -> Result<()> {
        let (machine, status) = (self.server.machine(), &backup.status);
        let files = backups::keys(machine, BUCKET, &format!("{}/backups/{name}/", self.prefix))?;
        if *status.phase() == BackupPhase::Completed {
            let archive = backups::archive(machine, BUCKET, &self.prefix, name)?;
            for (map, data) in stock() {
                let path = format!("resources/configmaps/namespaces/{SHOP}/{map}.json");
                let held = archive.get(&path).map(|bytes| serde_json::from_slice::<Value>(bytes)).transpose()?;
                let held = held.unwrap_or_default();
                ensure!(held["data"] == serde_json::to_value(&data)?, "{path} of the archive is {held}");
            }
            ensure!(files.iter().any(|file| file.ends_with("velero-backup.json")), "it cannot be found: {files:?}");
            return Ok(());
        }
        ensure!(!status.failure_reason.is_empty(), "it has no reason: {status:#?}");
        let passes_for_one = |file: &&String| file.ends_with("velero-backup.json") || file.ends_with(".tar.gz");
        let left: Vec<_> = files.iter().filter(passes_for_one).collect();
        ensure!(left.is_empty(), "{:?} left {left:?}", status.phase());
        Ok(())
    }

    async fn check_restore(&self, copy: &str, restore: &Restore) -> Result<()> {
        let status = &restore.status;
        if *status.phase() != RestorePhase::Completed {
            ensure!(status.errors > 0 || !status.failure_reason.is_empty(), "it has no reason: {status:#?}");
            ensure!(self.fault == Fault::Kill, "nothing was wrong but an answer that was lost: {status:#?}");
            return Ok(());
        }
        let api: Api<ConfigMap> = Api::namespaced(self.cluster.client.clone(), copy);
        for (map, data) in stock() {
            let restored = api.get_opt(&map).await?.and_then(|map| map.data);
            ensure!(restored.as_ref() == Some(&data), "{copy}/{map} is {restored:?}");
        }
        Ok(())
    }

    async fn check_deleted(&self, name: &str) -> Result<()> {
        ensure!(self.api::<Backup>().get_opt(name).await?.is_none(), "the backup is still there");
        let files = backups::keys(self.server.machine(), BUCKET, &format!("{}/backups/{name}/", self.prefix))?;
        ensure!(files.is_empty(), "files are left: {files:?}");
        let requests = self.api::<DeleteBackupRequest>().list(&ListParams::default()).await?.items;
        let left: Vec<_> = requests.iter().filter(|request| request.spec.backup_name == name).collect();
        ensure!(left.is_empty(), "requests are left: {left:#?}");
        Ok(())
    }

    fn api<K: VeleroResource>(&self) -> Api<K> {
        Api::namespaced(self.cluster.client.clone(), self.server.namespace())
    }

    /// Notes a case that did not end. The server is started again: the next case must not suffer from this one.
    fn note<K>(&mut self, write: usize, what: &str, case: Result<Case<K>>) -> Option<Case<K>> {
        case.inspect_err(|problem| {
            self.failures.push(format!("{what}, write {write}: {problem:#}"));
            say(format!("{what}, write {write}: {problem:#}"));
            if let Err(problem) = self.server.stop().and_then(|()| self.server.start()) {
                self.failures.push(format!("the server cannot be started again: {problem:#}"));
            }
        })
        .ok()
    }

    fn note_check(&mut self, what: &str, write: usize, struck: Option<&str>, checked: Result<()>) {
        let told = format!("{what}, write {write}, {}", struck.unwrap_or("none, it made fewer"));
        match checked {
            Ok(()) => say(told),
            Err(problem) => {
                say(format!("{told}: {problem:#}"));
                self.failures.push(format!("{told}: {problem:#}"));
            }
        }
    }
}

fn of_shop() -> BackupSpec {
    BackupSpec { included_namespaces: vec![SHOP.to_owned()], ..BackupSpec::default() }
}

/// The ConfigMaps of the shop and their data.
fn stock() -> Vec<(String, BTreeMap<String, String>)> {
    let data = |apples: &str| BTreeMap::from([("apples".to_owned(), apples.to_owned())]);
    vec![("stock".to_owned(), data("12")), ("prices".to_owned(), data("30"))]
}

fn contents() -> Vec<Value> {
    let maps = stock().into_iter().map(|(name, data)| objects::config_map(SHOP, &name, "apples", &data["apples"]));
    [objects::namespace(SHOP)].into_iter().chain(maps).collect()
}
