//! How far the data of each volume is, for a person who waits: what is read, and the lines it is shown in.

use indicatif::BinaryBytes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use velero_api::resource::VeleroResource;
use velero_api::v1::{Backup, PodVolumeBackup, PodVolumeRestore};
use velero_api::v2alpha1::{DataDownload, DataUpload};
use velero_api::{DataMoveOperationProgress, DataMovePhase, labels};
use velero_cluster::list_all;

use super::progress::filled;
use crate::session::Session;

/// The most volumes that have a line of their own.
const MOST_LINES: usize = 10;
/// How long a bar and the longest name beside it are, and how much of a name is worth leaving out a bar or a rate for.
const BAR: usize = 24;
const LONGEST_NAME: usize = 44;
const ENOUGH_OF_NAME: usize = 24;

/// How far the data of one volume is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Volume {
    /// The volume: of a pod, or of a claim.
    name: String,
    phase: DataMovePhase,
    done: u64,
    total: u64,
    begun: Option<Timestamp>,
}

impl Volume {
    fn new(name: String, phase: &DataMovePhase, progress: &DataMoveOperationProgress, begun: Option<&Time>) -> Self {
        let bytes = |count: i64| u64::try_from(count).unwrap_or_default();
        let (done, total) = (bytes(progress.bytes_done), bytes(progress.total_bytes));
        Self { name, phase: phase.clone(), done, total, begun: begun.map(|time| time.0) }
    }

    /// One line: name, bar, percent, bytes and, after some time, bytes a second.
    fn line(&self, layout: Layout, now: Timestamp) -> String {
        let (name, width) = (shortened(&self.name, layout.name), layout.name);
        let bar = match layout.bar {
            true => format!(" [{}]", filled(self.done, self.total, BAR)),
            false => String::new(),
        };
        format!("  {name:width$}{bar}{}", self.figures(layout.rate, now)).trim_end().to_owned()
    }

    fn figures(&self, with_rate: bool, now: Timestamp) -> String {
        let Self { done, total, .. } = *self;
        if total == 0 {
            return String::new();
        }
        let percent = done.min(total) as f64 * 100.0 / total as f64;
        let seconds = self.begun.map_or(0.0, |begun| now.duration_since(begun).as_secs_f64());
        let rate = match with_rate && seconds >= 1.0 {
            true => format!(", {}/s", BinaryBytes((done as f64 / seconds) as u64)),
            false => String::new(),
        };
        format!(" {:3}% {} of {}{rate}", percent as u64, BinaryBytes(done), BinaryBytes(total))
    }
}

/// What the lines of volumes have room for.
#[derive(Clone, Copy)]
struct Layout {
    name: usize,
    bar: bool,
    rate: bool,
}

impl Layout {
    /// As much as fits the width: the bar goes first, then the rate, and a name is shortened last.
    fn fitting(volumes: &[&Volume], now: Timestamp, width: usize) -> Self {
        let longest = volumes.iter().map(|volume| volume.name.chars().count()).max().unwrap_or_default();
        let room = |bar: bool, rate: bool| {
            let figures = volumes.iter().map(|volume| volume.figures(rate, now).len()).max().unwrap_or_default();
            let taken = 2 + figures + if bar { BAR + 3 } else { 0 };
            width.saturating_sub(taken).min(longest).min(LONGEST_NAME)
        };
        let layouts = [(true, true), (false, true), (false, false)];
        let fits = |(bar, rate): &(bool, bool)| room(*bar, *rate) >= longest.min(ENOUGH_OF_NAME);
        let (bar, rate) = layouts.into_iter().find(fits).unwrap_or((false, false));
        Self { name: room(bar, rate), bar, rate }
    }
}

/// The end of a name that is too long for its line: that is where volumes differ.
fn shortened(name: &str, longest: usize) -> String {
    let length = name.chars().count();
    match length > longest {
        true => format!("…{}", name.chars().skip(length + 1 - longest.max(1)).collect::<String>()),
        false => name.to_owned(),
    }
}

/// What is shown of volumes on a screen of this width: a line for each whose data moves, and one for all.
pub(super) fn lines(volumes: &[Volume], now: Timestamp, width: usize) -> Vec<String> {
    let mut moving: Vec<&Volume> = volumes.iter().filter(|volume| is_moving(&volume.phase)).collect();
    moving.sort_by(|one, other| one.name.cmp(&other.name));
    let shown = &moving[..moving.len().min(MOST_LINES)];
    let layout = Layout::fitting(shown, now, width);
    shown.iter().map(|volume| volume.line(layout, now)).chain(summary(volumes)).collect()
}

/// How many volumes are how far; nothing where there are none.
pub(super) fn summary(volumes: &[Volume]) -> Option<String> {
    let count = |wanted: &dyn Fn(&DataMovePhase) -> bool| volumes.iter().filter(|it| wanted(&it.phase)).count();
    let moving = count(&is_moving);
    let completed = count(&|phase| *phase == DataMovePhase::Completed);
    let ended = count(&DataMovePhase::is_terminal);
    let mut text = format!("Volumes: {completed} of {} done", volumes.len());
    for (number, word) in
        [(moving, "moving"), (volumes.len() - moving - ended, "waiting"), (ended - completed, "failed")]
    {
        if number > 0 {
            text.push_str(&format!(", {number} {word}"));
        }
    }
    (!volumes.is_empty()).then_some(text)
}

fn is_moving(phase: &DataMovePhase) -> bool {
    matches!(phase, DataMovePhase::InProgress | DataMovePhase::Canceling)
}

/// Reads how far the volumes of a backup or restore are. What cannot be read is not shown: nobody waits for it.
pub(super) async fn read<K: VeleroResource>(session: &Session, owner: &K) -> Vec<Volume> {
    let uid = velero_api::metadata::uid(owner);
    if K::KIND == Backup::KIND {
        let selector = format!("{}={uid}", labels::BACKUP_UID);
        let (copies, uploads) = tokio::join!(
            list(session, &selector, of_copy),
            list(session, &selector, |upload: &DataUpload| {
                let (spec, status) = (&upload.spec, &upload.status);
                let name = format!("{}/{}", spec.source_namespace, spec.source_pvc);
                Volume::new(name, status.phase(), &status.progress, status.start_timestamp.as_ref())
            }),
        );
        return copies.into_iter().chain(uploads).collect();
    }
    let selector = format!("{}={uid}", labels::RESTORE_UID);
    let (fillings, downloads) = tokio::join!(
        list(session, &selector, |filling: &PodVolumeRestore| {
            let (spec, status) = (&filling.spec, &filling.status);
            let name = of_pod(&spec.pod, &spec.volume);
            Volume::new(name, status.phase(), &status.progress, status.start_timestamp.as_ref())
        }),
        list(session, &selector, |download: &DataDownload| {
            let (target, status) = (&download.spec.target_volume, &download.status);
            let name = format!("{}/{}", target.namespace, target.pvc);
            Volume::new(name, status.phase(), &status.progress, status.start_timestamp.as_ref())
        }),
    );
    fillings.into_iter().chain(downloads).collect()
}

fn of_copy(copy: &PodVolumeBackup) -> Volume {
    let (spec, status) = (&copy.spec, &copy.status);
    let name = of_pod(&spec.pod, &spec.volume);
    Volume::new(name, status.phase(), &status.progress, status.start_timestamp.as_ref())
}

fn of_pod(pod: &ObjectReference, volume: &str) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    format!("{}/{}/{volume}", text(&pod.namespace), text(&pod.name))
}

async fn list<K: VeleroResource>(session: &Session, selector: &str, volume: impl Fn(&K) -> Volume) -> Vec<Volume> {
    let listed = list_all(&session.api::<K>(), &ListParams::default().labels(selector)).await;
    listed.map(|listed| listed.items.iter().map(volume).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn volume(name: &str, phase: DataMovePhase, done: u64, total: u64) -> Volume {
        let begun = "2026-01-01T00:00:00Z".parse().ok();
        Volume { name: name.to_owned(), phase, done: done * MEBIBYTE, total: total * MEBIBYTE, begun }
    }

    fn shown(volumes: &[Volume], seconds: &str) -> Vec<String> {
        shown_within(volumes, seconds, 200)
    }

    fn shown_within(volumes: &[Volume], seconds: &str, width: usize) -> Vec<String> {
        lines(volumes, format!("2026-01-01T00:00:{seconds}Z").parse().unwrap(), width)
    }

    #[test]
    fn a_volume_that_moves_has_a_line_with_bar_bytes_and_rate() {
        use DataMovePhase::InProgress;
        for (volume, seconds, expected) in [
            (volume("s/w/d", InProgress, 0, 0), "04", "  s/w/d [                        ]"),
            (volume("s/w/d", InProgress, 0, 8), "00", "  s/w/d [>                       ]   0% 0 B of 8.00 MiB"),
            (
                volume("s/w/d", InProgress, 4, 8),
                "02",
                "  s/w/d [============>           ]  50% 4.00 MiB of 8.00 MiB, 2.00 MiB/s",
            ),
            (
                volume("s/w/d", InProgress, 8, 8),
                "08",
                "  s/w/d [========================] 100% 8.00 MiB of 8.00 MiB, 1.00 MiB/s",
            ),
            // A volume that grows while it is read.
            (
                volume("s/w/d", InProgress, 16, 8),
                "08",
                "  s/w/d [========================] 100% 16.00 MiB of 8.00 MiB, 2.00 MiB/s",
            ),
        ] {
            assert_eq!(shown(&[volume], seconds), [expected, "Volumes: 0 of 1 done, 1 moving"]);
        }
    }

    #[test]
    fn a_narrow_screen_leaves_out_the_bar_then_the_rate_and_shortens_names_last() {
        let one = [volume("shop/web-0/data", DataMovePhase::InProgress, 4, 8)];
        for (width, expected) in [
            (90, "  shop/web-0/data [============>           ]  50% 4.00 MiB of 8.00 MiB, 2.00 MiB/s"),
            (60, "  shop/web-0/data  50% 4.00 MiB of 8.00 MiB, 2.00 MiB/s"),
            (45, "  shop/web-0/data  50% 4.00 MiB of 8.00 MiB"),
            (40, "  …/web-0/data  50% 4.00 MiB of 8.00 MiB"),
        ] {
            let shown = shown_within(&one, "02", width);
            assert_eq!(shown[0], expected);
            assert!(shown[0].chars().count() <= width, "{shown:?}");
        }
        assert!(!shown_within(&one, "02", 0).is_empty(), "a width of nothing does no harm");
    }

    #[test]
    fn names_are_as_long_as_each_other_and_keep_their_ends() {
        let long = format!("shop/{}/data", "web".repeat(20));
        let two = [volume(&long, DataMovePhase::InProgress, 0, 0), volume("shop/a/b", DataMovePhase::InProgress, 0, 0)];
        let lines = shown(&two, "01");
        assert_eq!(lines[0], format!("  {:44} [{}]", "shop/a/b", " ".repeat(24)));
        assert!(lines[1].starts_with("  …ebwebweb") && lines[1].contains("web/data ["), "{}", lines[1]);
        assert_eq!(lines[0].chars().count(), lines[1].chars().count());
    }

    #[test]
    fn what_does_not_move_is_counted() {
        use DataMovePhase::{Accepted, Canceled, Completed, Failed, InProgress, New, Prepared};
        let of = |phases: &[DataMovePhase]| -> Vec<Volume> {
            phases.iter().map(|phase| volume("s/w/d", phase.clone(), 1, 2)).collect()
        };
        for (phases, expected) in [
            (vec![], None),
            (vec![New, Accepted, Prepared], Some("Volumes: 0 of 3 done, 3 waiting")),
            (vec![Completed, Completed], Some("Volumes: 2 of 2 done")),
            (vec![Completed, InProgress, New], Some("Volumes: 1 of 3 done, 1 moving, 1 waiting")),
            (vec![Completed, Failed, Canceled], Some("Volumes: 1 of 3 done, 2 failed")),
        ] {
            assert_eq!(shown(&of(&phases), "01").last().map(String::as_str), expected, "{phases:?}");
        }
        let many = of(&vec![InProgress; 30]);
        assert_eq!(shown(&many, "01").len(), MOST_LINES + 1, "a screen has an end");
    }
}
