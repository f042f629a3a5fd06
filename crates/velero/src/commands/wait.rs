//! Waiting for a backup or restore to end.

mod display;
mod end;
mod progress;
mod volumes;

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::sleep;
use velero_api::resource::VeleroResource;

use crate::session::{Session, api_error};
use display::Display;
pub(super) use end::End;
pub(super) use progress::{Operations, Progress};

/// How often the object is looked at.
const POLL: Duration = Duration::from_secs(1);
/// How many looks in a row may fail.
const PATIENCE: u32 = 30;
/// What the API server answers to those who may not look.
const FORBIDDEN: u16 = 403;

/// Watches the object until its work has ended; gives it as it ended.
pub(super) async fn wait<K: VeleroResource>(
    session: &Session,
    name: &str,
    progress: impl Fn(&K) -> Progress,
) -> Result<K> {
    let mut display = Display::new(session.printer);
    let mut failures = 0;
    loop {
        match session.api::<K>().get_opt(name).await {
            Ok(Some(object)) => {
                failures = 0;
                let progress = progress(&object);
                if progress.ended {
                    display.clear();
                    return Ok(object);
                }
                if display.is_due(&progress) {
                    display.show(progress, &volumes::read(session, &object).await);
                }
            }
            Ok(None) => {
                display.clear();
                bail!("{} {name:?} was deleted while waiting for it", K::KIND.to_lowercase())
            }
            Err(kube::Error::Api(status)) if status.code == FORBIDDEN => {
                display.clear();
                let (word, namespace) = (K::KIND.to_lowercase(), session.namespace());
                bail!(
                    "{word} {name:?} goes on, but you may not see how it ends: {}; who waits needs the right to get {}.velero.io \
                     in namespace {namespace}",
                    status.message,
                    K::PLURAL
                )
            }
            Err(error) if failures >= PATIENCE => {
                display.clear();
                return Err(api_error(error).context(format!("unable to watch {}", K::PLURAL)));
            }
            Err(_) => failures += 1,
        }
        sleep(POLL).await;
    }
}
