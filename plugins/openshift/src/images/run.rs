//! Copies the images of a plan, one after the other: the order of the pushes is the order of a tag's history.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use velero_registry::{Copied, Options, Platforms, Progress, Retry, copy};

use super::plan::ImageCopy;
use super::registries::Registries;
use crate::compat::Compat;
use crate::settings::Settings;

/// The pauses before the tries of the Go plugin, which tries again whatever went wrong.
const OLD_PAUSES: [u64; 7] = [0, 5, 10, 15, 20, 25, 30];

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How far a plan is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Images that are done, well or not.
    pub(crate) images_done: usize,
    pub(crate) images: usize,
    /// Bytes of the images that are done.
    pub(crate) bytes_before: u64,
    /// The image that is copied now.
    pub(crate) current: Progress,
    pub(crate) image: String,
}

/// What became of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The digests that images had and have.
    pub(crate) digests: Vec<(String, String)>,
    /// What went wrong, image by image.
    pub(crate) errors: Vec<String>,
}

impl Ended {
    /// All errors in one line.
    pub(crate) fn error(&self) -> Option<String> {
        (!self.errors.is_empty()).then(|| self.errors.join("; "))
    }
}

/// Copies all images. One that cannot be copied does not hinder the others.
pub(crate) async fn run(
    copies: &[ImageCopy],
    registries: &Registries,
    settings: &Settings,
    state: &watch::Sender<State>,
    cancel: &CancellationToken,
) -> Ended {
    let mut ended = Ended::default();
    state.send_modify(|state| state.images = copies.len());
    for image in copies {
        if cancel.is_cancelled() {
            ended.errors.push("the copy was cancelled".to_owned());
            break;
        }
        state.send_modify(|state| state.image = image.source.to_string());
        match one(image, registries, settings, state, cancel).await {
            Ok(copied) => ended.digests.push((image.image.clone(), copied.digest.as_str().to_owned())),
            Err(error) => ended.errors.push(error),
        }
        state.send_modify(|state| {
            state.images_done += 1;
            state.bytes_before += state.current.bytes_total;
            state.current = Progress::default();
        });
    }
    ended
}

async fn one(
    image: &ImageCopy,
    registries: &Registries,
    settings: &Settings,
    state: &watch::Sender<State>,
    cancel: &CancellationToken,
) -> Result<Copied, String> {
    let open = |name| registries.image(name).map_err(|error| error.to_string());
    let (source, destination) = (open(&image.source)?, open(&image.destination)?);
    let progress = watch::Sender::default();
    let options = Options {
        platforms: platforms(settings)?,
        retry: Retry { pauses: pauses(settings.copy_retries) },
        progress: progress.clone(),
        cancel: cancel.clone(),
        ..Options::default()
    };
    let mut told = progress.subscribe();
    let follow = async {
        while told.changed().await.is_ok() {
            let current = *told.borrow_and_update();
            state.send_modify(|state| state.current = current);
        }
    };
    let tries: &[u64] = if settings.compat(Compat::RetryAlways) { &OLD_PAUSES } else { &OLD_PAUSES[..1] };
    let copied = async {
        let mut outcome = Err(String::new());
        for pause in tries {
            sleep(Duration::from_secs(*pause)).await;
            outcome = copy(&source, &destination, &options).await.map_err(|error| error.to_string());
            if outcome.is_ok() || cancel.is_cancelled() {
                break;
            }
        }
        outcome
    };
    tokio::select! {
        outcome = copied => outcome,
        () = follow => Err("the copy ended without an outcome".to_owned()),
    }
}

/// Ever longer pauses between tries, from half a second to half a minute.
fn pauses(retries: usize) -> Vec<Duration> {
    let pauses = std::iter::successors(Some(Duration::from_millis(500)), |pause| Some((*pause * 2).min(LONGEST_PAUSE)));
    pauses.take(retries).collect()
}

fn platforms(settings: &Settings) -> Result<Platforms, String> {
    let wanted = match (&settings.platform, settings.compat(Compat::OnePlatform)) {
        (Some(platform), _) => platform.clone(),
        (None, true) => format!("linux/{}", architecture()),
        (None, false) => return Ok(Platforms::All),
    };
    Ok(Platforms::One(wanted.parse().map_err(|problem: velero_registry::Problem| problem.to_string())?))
}

/// The processor of this process, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compat;

    #[test]
    fn all_platforms_are_copied_unless_settings_name_one() {
        let one = |text: &str| Ok(Platforms::One(text.parse().unwrap()));
        let of = |platform: &str| Settings { platform: Some(platform.to_owned()), ..Settings::default() };
        for (settings, expected) in [
            (Settings::default(), Ok(Platforms::All)),
            (of("linux/arm64"), one("linux/arm64")),
            (compat(&[Compat::OnePlatform]), one(&format!("linux/{}", architecture()))),
            (of("arm"), Err("the platform \"arm\"")),
        ] {
            match (platforms(&settings), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, _) => panic!("{found:?}"),
            }
        }
    }
}
