//! A mover from its start to its last words.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use velero_api::metadata::name;
use velero_api::records::{
    DATA_PATH_CANCELED, DATA_PATH_CANCELING, DATA_PATH_COMPLETED, DATA_PATH_FAILED, DATA_PATH_STARTED,
    DATA_PATH_STOPPED, DataPathProgress,
};
use velero_api::v1::{BackupStorageLocation, BackupStorageLocationAccessMode, PodVolumeBackup, PodVolumeRestore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_cluster::{Cluster, ConnectOptions};
use velero_plugin::host::PluginDirectory;
use velero_repo::Repository;

use crate::mover::ending::{Ending, told};
use crate::mover::follow::{Follower, NotBegun};
use crate::mover::kind::Transferred;
use crate::mover::plan::Plan;
use crate::mover::settings::{MovedKind, Settings};
use crate::mover::tell::Teller;
use crate::mover::transfer::{Reading, Transfer};
use crate::runtime::error::{Error, Result, describe};
use crate::runtime::locations::Locations;
use crate::runtime::logging;
use crate::runtime::objects::Objects;
use crate::runtime::repositories::{Repositories, Unlocked};
use crate::runtime::signals::cancelled_when_told;

/// When it is first told how far it is: people look at what has just begun.
const FIRST_PROGRESS: Duration = Duration::from_secs(1);
/// How long work that is cancelled may take to stop; a file system that hangs stops nothing.
const CANCEL_PATIENCE: Duration = Duration::from_secs(60);
/// After how long without progress the log says so.
const STILL: Duration = Duration::from_secs(60);

/// Runs a mover with its log, until it has ended or the process is told to; says whether all data was moved.
pub async fn run(settings: Settings) -> bool {
    match settings.log.level() {
        Ok(level) => logging::install(level, settings.log.log_format),
        Err(error) => return leave(&settings, &Ending::failed(&error)),
    }
    match cancelled_when_told("Told to end") {
        Ok(stop) => run_until(settings, stop).await,
        Err(error) => leave(&settings, &Ending::failed(&error)),
    }
}

/// Runs a mover until it has ended or a token is cancelled, and writes its last words; says whether all data was moved.
pub async fn run_until(settings: Settings, stop: CancellationToken) -> bool {
    velero_cluster::install_crypto_provider();
    let (version, kind, object) = (&settings.version, settings.kind, &settings.name);
    tracing::info!(version, ?kind, name = object, volume = %settings.volume_path.display(), "Starting to move data");
    let ending = match connect(&settings).await {
        Err(error) => Ending::failed(&error),
        Ok(objects) => {
            let mover = Mover { settings: &settings, objects, stop };
            match settings.kind {
                MovedKind::PodVolumeBackup => mover.run::<PodVolumeBackup>().await,
                MovedKind::PodVolumeRestore => mover.run::<PodVolumeRestore>().await,
                MovedKind::DataUpload => mover.run::<DataUpload>().await,
                MovedKind::DataDownload => mover.run::<DataDownload>().await,
            }
        }
    };
    leave(&settings, &ending)
}

async fn connect(settings: &Settings) -> Result<Objects> {
    settings.validate()?;
    let options = ConnectOptions {
        kubeconfig: settings.kubeconfig.clone(),
        context: settings.context.clone(),
        user_agent: Some(format!("velero-mover/{}", settings.version)),
        ..ConnectOptions::default()
    };
    Ok(Objects::new(Cluster::connect(&options).await?, &settings.namespace))
}

/// Writes the last words. Who cannot be heard has failed, whatever was moved.
fn leave(settings: &Settings, ending: &Ending) -> bool {
    let message = ending.message();
    if ending.is_success() {
        tracing::info!(result = message, "All data was moved");
    } else {
        tracing::error!(error = message, "The data was not moved");
    }
    if let Err(error) = std::fs::write(&settings.termination_log, &message) {
        let file = settings.termination_log.display();
        tracing::error!(%error, %file, "The result cannot be handed to the node agent");
        return false;
    }
    ending.is_success()
}

struct Mover<'a> {
    settings: &'a Settings,
    objects: Objects,
    /// Cancelled when the process is to end.
    stop: CancellationToken,
}

/// Why a transfer is being stopped.
struct Stopping {
    ending: Ending,
    /// When it is not waited for any longer.
    end: Instant,
}

impl Mover<'_> {
    async fn run<K: Transferred>(&self) -> Ending {
        let mut follower = Follower::<K>::new(&self.objects, &self.settings.name, &self.settings.node);
        let unlocked = self.unlock::<K>();
        let begun = tokio::select! {
            begun = follower.until_begun(self.settings.resource_timeout) => begun,
            () = self.stop.cancelled() => return told_to_end("before data began to move"),
        };
        let object = match begun {
            Ok(object) => object,
            Err(NotBegun::Unwanted(why)) => return Ending::Canceled(why),
            Err(NotBegun::Late(error)) => return Ending::failed(&error),
        };
        let mut teller = Teller::new(&self.objects, &object, &self.settings.node);
        let object_name = name(&object);
        teller.tell(DATA_PATH_STARTED, &format!("Data path for {object_name} started")).await;
        let ending = match object.plan() {
            Ok(plan) => self.move_data(plan, unlocked, &mut follower, &mut teller).await,
            Err(error) => Ending::failed(&error),
        };
        match &ending {
            Ending::Completed(result) => teller.tell(DATA_PATH_COMPLETED, result).await,
            Ending::Failed(text) => teller.tell(DATA_PATH_FAILED, text).await,
            Ending::Canceled(why) => teller.tell(DATA_PATH_CANCELED, why).await,
        }
        teller.tell(DATA_PATH_STOPPED, &format!("Data path for {object_name} stopped")).await;
        ending
    }

    /// Derives the keys of the repository while others prepare the transfer. Where that fails, it is told on opening.
    fn unlock<K: Transferred>(&self) -> AbortOnDropHandle<Option<Unlocked>> {
        let (objects, name) = (self.objects.clone(), self.settings.name.clone());
        let repositories = self.repositories();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let plan = objects.get::<K>(&name).await.ok()??.plan().ok()?;
            let location = objects.get::<BackupStorageLocation>(&plan.location).await.ok()??;
            repositories.unlock(&location, &plan.volume_namespace).await.ok()
        }))
    }

    async fn move_data<K: Transferred>(
        &self,
        plan: Plan,
        unlocked: AbortOnDropHandle<Option<Unlocked>>,
        follower: &mut Follower<K>,
        teller: &mut Teller,
    ) -> Ending {
        let repository = tokio::select! {
            opened = self.open(&plan, unlocked) => opened,
            why = follower.until_unwanted() => return Ending::Canceled(format!("{}: {why}", plan.not_done())),
            () = self.stop.cancelled() => return told_to_end("before data began to move"),
        };
        let repository = match repository {
            Ok(repository) => repository,
            Err(error) => {
                return Ending::Failed(format!("{}: {}", plan.not_done(), describe(&error)));
            }
        };
        let mut transfer = Transfer::begin(repository, plan.work.clone(), self.settings);
        let outcome = self.accompany(&plan, &mut transfer, follower, teller).await;
        match outcome {
            Ok(result) => {
                teller.tell_progress(&whole(&result)).await;
                Ending::Completed(result)
            }
            Err(ending) => ending,
        }
    }

    /// Opens the repository once it is ready.
    async fn open(&self, plan: &Plan, unlocked: AbortOnDropHandle<Option<Unlocked>>) -> Result<Repository> {
        let location = self.objects.get::<BackupStorageLocation>(&plan.location).await?;
        let location = location.ok_or_else(|| {
            let problem =
                "it does not exist, and the data is to be moved there; name one in spec.backupStorageLocation";
            Error::unmet("BackupStorageLocation", &plan.location, problem)
        })?;
        let read_only = location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly);
        if read_only && plan.is_backup() {
            let problem = "it is ReadOnly (spec.accessMode), so no volume can be backed up to it";
            return Err(Error::unmet("BackupStorageLocation", &plan.location, problem));
        }
        let repositories = self.repositories();
        repositories.ensure(&plan.volume_namespace, &plan.location, self.settings.resource_timeout).await?;
        match unlocked.await.ok().flatten() {
            Some(unlocked) => repositories.open_unlocked(&location, &plan.volume_namespace, unlocked).await,
            None => repositories.open(&location, &plan.volume_namespace).await,
        }
    }

    fn repositories(&self) -> Repositories {
        // Pods that move data have no plugins.
        let plugins = PluginDirectory::default().manager();
        let locations = Locations::new(self.objects.clone(), self.settings.resource_timeout, plugins);
        Repositories::new(self.objects.clone(), locations)
    }

    /// Waits for the end of a transfer, tells how far it is, and stops it when it is not wanted any more.
    async fn accompany<K: Transferred>(
        &self,
        plan: &Plan,
        transfer: &mut Transfer,
        follower: &mut Follower<K>,
        teller: &mut Teller,
    ) -> Result<String, Ending> {
        let mut ticks = interval_at(Instant::now() + FIRST_PROGRESS, self.settings.progress_period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Watch::default();
        let mut stopping: Option<Stopping> = None;
        loop {
            let running = stopping.is_none();
            let patience = stopping.as_ref().map_or_else(Instant::now, |stopping| stopping.end);
            tokio::select! {
                ended = transfer.ended() => {
                    return match (ended, stopping) {
                        (Ok(result), _) => Ok(result),
                        (Err(velero_repo::Error::Canceled), Some(stopping)) => Err(stopping.ending),
                        (Err(error), _) => Err(Ending::Failed(told(plan, error))),
                    };
                }
                why = follower.until_unwanted(), if running => {
                    let why = format!("{}: {why}{}", plan.not_done(), watch.stillness());
                    teller.tell(DATA_PATH_CANCELING, &why).await;
                    stopping = Some(self.stop_transfer(transfer, Ending::Canceled(why)));
                }
                () = self.stop.cancelled(), if running => {
                    stopping = Some(self.stop_transfer(transfer, told_to_end("while data moved")));
                }
                () = sleep_until(patience), if !running => {
                    tracing::warn!("The work does not stop; it ends with the process");
                    return Err(stopping.map_or_else(|| told_to_end("while data moved"), |stopping| stopping.ending));
                }
                _ = ticks.tick() => {
                    if watch.look(transfer.reading()) {
                        teller.tell_progress(&transfer.reading().progress()).await;
                    }
                }
            }
        }
    }

    fn stop_transfer(&self, transfer: &Transfer, ending: Ending) -> Stopping {
        transfer.cancel();
        Stopping { ending, end: Instant::now() + CANCEL_PATIENCE }
    }
}

fn told_to_end(when: &str) -> Ending {
    Ending::Failed(format!("the pod that moves the data was told to end {when}"))
}

/// The progress of a transfer that has ended well.
fn whole(result: &str) -> DataPathProgress {
    let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    let total_bytes = result["totalBytes"].as_i64().unwrap_or_default();
    DataPathProgress { total_bytes, bytes_done: total_bytes, ..DataPathProgress::default() }
}

/// Sees whether a transfer moves. One that stands still tells nothing, so that who waits for its Events notices.
struct Watch {
    last: Option<Reading>,
    moved: Instant,
    warned: Instant,
}

impl Default for Watch {
    fn default() -> Self {
        Self { last: None, moved: Instant::now(), warned: Instant::now() }
    }
}

impl Watch {
    /// Whether it has moved since the last look.
    fn look(&mut self, reading: Reading) -> bool {
        if self.last != Some(reading) {
            (self.last, self.moved, self.warned) = (Some(reading), Instant::now(), Instant::now());
            return true;
        }
        if self.warned.elapsed() >= STILL {
            self.warned = Instant::now();
            let seconds = self.moved.elapsed().as_secs();
            tracing::warn!(seconds, ?reading, "Nothing has moved: the volume or the repository does not answer");
        }
        false
    }

    /// For how long nothing has moved, in words, where that is worth a word.
    fn stillness(&self) -> String {
        let still = self.moved.elapsed();
        if still < STILL {
            return String::new();
        }
        format!(" (nothing has moved for {} s: the volume or the repository does not answer)", still.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_stands_still_tells_nothing_and_says_so_when_it_is_cancelled() {
        let mut watch = Watch::default();
        assert!(watch.look(Reading::default()), "the first look is told");
        assert!(!watch.look(Reading::default()));
        assert_eq!(watch.stillness(), "");
        tokio::time::advance(Duration::from_secs(125)).await;
        assert!(!watch.look(Reading::default()));
        assert!(watch.stillness().contains("for 125 s"), "{}", watch.stillness());
    }

    #[test]
    fn the_last_progress_is_all_of_the_result() {
        let progress = whole(r#"{"snapshotID":"s","totalBytes":7}"#);
        assert_eq!((progress.total_bytes, progress.bytes_done), (7, 7));
        assert_eq!(whole(r#"{"snapshotID":"s"}"#), DataPathProgress::default());
    }
}
