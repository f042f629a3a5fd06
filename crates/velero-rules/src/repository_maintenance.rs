//! When repositories are maintained, what is written down of it, and which Jobs of it may go.

use jiff::{SignedDuration, Timestamp};
use velero_api::GoDuration;
use velero_api::v1::{BackupRepositoryMaintenanceResult, BackupRepositoryMaintenanceStatus};

/// How many results a BackupRepository tells of.
pub const KEPT_RESULTS: usize = 3;
/// How many Jobs of a repository are kept unless somebody says otherwise.
pub const KEPT_JOBS: u32 = 3;
/// How far two maintenances are apart at least, whatever the frequency and whatever came of the first.
const SHORTEST_PAUSE: SignedDuration = SignedDuration::from_mins(5);
/// How long the pod of a Job may take to start: an image to be fetched, a node to be added.
pub const STARTS_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// The longest name a Job may have.
const LONGEST_NAME: usize = 63;

/// How far a Job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It has not ended.
    Running,
    /// It did what it should; when it ended, where that is known.
    Succeeded(Option<Timestamp>),
    /// It did not.
    Failed(Option<Timestamp>),
}

/// A Job that maintains a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceJob {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// How far it is.
    pub state: JobState,
}

/// What is to be done about the maintenance of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// A Job works on it.
    Running(String),
    /// It is time.
    Now,
    /// It is time then.
    At(Timestamp),
}

/// The name of a Job, as Velero has it: the time in it is that of its making, in milliseconds.
pub fn job_name(repository: &str, milliseconds: i64) -> String {
    let name = format!("{repository}-maintain-job-{milliseconds}");
    if name.len() <= LONGEST_NAME { name } else { format!("repo-maintain-job-{milliseconds}") }
}

/// Whether a repository is to be maintained: never two at once, and never again at once.
pub fn due(
    jobs: &[MaintenanceJob],
    recent: &[BackupRepositoryMaintenanceStatus],
    last: Option<Timestamp>,
    frequency: GoDuration,
    now: Timestamp,
) -> Due {
    if let Some(running) = jobs.iter().find(|job| job.state == JobState::Running) {
        return Due::Running(running.name.clone());
    }
    let after = |moment: Timestamp, span| moment.checked_add(span).unwrap_or(Timestamp::MAX);
    let by_frequency = last.map(|last| after(last, SignedDuration::from_nanos(frequency.as_nanos())));
    let by_pause = recent.last().and_then(start).map(|start| after(start, SHORTEST_PAUSE));
    match by_frequency.max(by_pause) {
        Some(moment) if moment > now => Due::At(moment),
        _ => Due::Now,
    }
}

/// The Jobs that go on though their pods should have started by now; whether these have is to be looked up.
pub fn overdue(jobs: &[MaintenanceJob], now: Timestamp) -> impl Iterator<Item = &MaintenanceJob> {
    jobs.iter().filter(move |job| job.state == JobState::Running && now.duration_since(job.created) >= STARTS_WITHIN)
}

/// Whether the results tell of a Job. They are known by when they began, as in Velero.
pub fn is_recorded(job: &MaintenanceJob, recent: &[BackupRepositoryMaintenanceStatus]) -> bool {
    recent.iter().filter_map(start).any(|start| start.as_second() == job.created.as_second())
}

/// The latest Jobs that have ended and that the results do not tell of, the oldest first. What is older than all of a full
/// list was told of once.
pub fn unrecorded<'a>(
    jobs: &'a [MaintenanceJob],
    recent: &[BackupRepositoryMaintenanceStatus],
) -> Vec<&'a MaintenanceJob> {
    let oldest = if recent.len() < KEPT_RESULTS { None } else { recent.iter().filter_map(start).min() };
    let mut ended: Vec<&MaintenanceJob> = jobs.iter().filter(|job| job.state != JobState::Running).collect();
    ended.sort_by_key(|job| job.created);
    let latest = ended.split_off(ended.len().saturating_sub(KEPT_RESULTS));
    let is_new = |job: &&MaintenanceJob| !is_recorded(job, recent) && oldest.is_none_or(|oldest| job.created > oldest);
    latest.into_iter().filter(is_new).collect()
}

/// The results with further ones, the oldest first: as many as are kept.
pub fn with_results(
    recent: &[BackupRepositoryMaintenanceStatus],
    further: Vec<BackupRepositoryMaintenanceStatus>,
) -> Vec<BackupRepositoryMaintenanceStatus> {
    let mut all: Vec<_> = recent.iter().cloned().chain(further).collect();
    all.sort_by_key(start);
    all.split_off(all.len().saturating_sub(KEPT_RESULTS))
}

/// When the latest maintenance of some results ended that succeeded.
pub fn last_success(results: &[BackupRepositoryMaintenanceStatus]) -> Option<Timestamp> {
    let good = results.iter().filter(|run| run.result == Some(BackupRepositoryMaintenanceResult::Succeeded));
    good.filter_map(|run| run.complete_timestamp.as_ref()).map(|time| time.0).max()
}

/// The Jobs that may go: all but the latest. One that works stays.
pub fn superfluous(jobs: &[MaintenanceJob], keep: u32) -> Vec<&str> {
    let mut jobs: Vec<&MaintenanceJob> = jobs.iter().collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.created));
    let old = jobs.into_iter().skip(usize::try_from(keep).unwrap_or(usize::MAX));
    old.filter(|job| job.state != JobState::Running).map(|job| job.name.as_str()).collect()
}

fn start(run: &BackupRepositoryMaintenanceStatus) -> Option<Timestamp> {
    run.start_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use BackupRepositoryMaintenanceResult::{Failed, Succeeded};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn job(name: &str, created: i64, state: JobState) -> MaintenanceJob {
        MaintenanceJob { name: name.to_owned(), created: at(created), state }
    }

    fn run(result: BackupRepositoryMaintenanceResult, start: i64) -> BackupRepositoryMaintenanceStatus {
        BackupRepositoryMaintenanceStatus {
            result: Some(result),
            start_timestamp: Some(Time(at(start))),
            complete_timestamp: Some(Time(at(start + 10))),
            ..Default::default()
        }
    }

    #[test]
    fn a_job_is_called_as_velero_calls_it() {
        assert_eq!(job_name("shop-default-kopia", 1_700_000_000_123), "shop-default-kopia-maintain-job-1700000000123");
        let long = "n".repeat(40);
        assert_eq!(job_name(&long, 1_700_000_000_123), "repo-maintain-job-1700000000123");
    }

    #[test]
    fn a_repository_is_maintained_when_its_frequency_says_and_never_twice_at_once() {
        let hour = GoDuration::from_hours(1);
        let table = [
            (vec![], vec![], None, Due::Now),
            (vec![], vec![], Some(0), Due::At(at(3600))),
            (vec![], vec![], Some(6400), Due::Now),
            (vec![job("a", 0, JobState::Running)], vec![], None, Due::Running("a".to_owned())),
            (vec![job("a", 0, JobState::Succeeded(None))], vec![], None, Due::Now),
            (vec![], vec![run(Failed, 9900)], Some(0), Due::At(at(10_200))),
            (vec![], vec![run(Failed, 9000)], Some(0), Due::Now),
            (vec![], vec![run(Failed, 9000), run(Succeeded, 9950)], Some(0), Due::At(at(10_250))),
            (vec![], vec![run(Failed, 9900)], Some(9800), Due::At(at(13_400))),
        ];
        for (jobs, recent, last, expected) in table {
            let now = if expected == Due::At(at(3600)) { at(100) } else { at(10_000) };
            assert_eq!(due(&jobs, &recent, last.map(at), hour, now), expected, "{jobs:?} {recent:?} {last:?}");
        }
    }

    #[test]
    fn a_job_that_goes_on_is_looked_at_when_its_pod_should_have_started_and_is_told_of_once() {
        let jobs =
            [job("a", 0, JobState::Failed(None)), job("b", 10, JobState::Running), job("c", 20, JobState::Running)];
        let names = |second| overdue(&jobs, at(second)).map(|job| job.name.clone()).collect::<String>();
        assert_eq!((names(609), names(610), names(620)), (String::new(), "b".to_owned(), "bc".to_owned()));
        assert!(is_recorded(&jobs[1], &[run(Failed, 10)]) && !is_recorded(&jobs[2], &[run(Failed, 10)]));
        let ended = [job("b", 10, JobState::Failed(None))];
        assert!(unrecorded(&ended, &[run(Failed, 10)]).is_empty());
    }

    #[test]
    fn an_ended_job_is_told_of_once() {
        let done = |name: &str, created| job(name, created, JobState::Succeeded(Some(at(created + 10))));
        let jobs = [done("d", 400), done("a", 100), done("b", 200), job("e", 500, JobState::Running), done("c", 300)];
        let names = |recent: &[_]| unrecorded(&jobs, recent).iter().map(|job| job.name.clone()).collect::<String>();
        assert_eq!(names(&[]), "bcd", "only as many as are kept");
        assert_eq!(names(&[run(Succeeded, 300)]), "bd");
        assert_eq!(names(&[run(Succeeded, 300), run(Failed, 350), run(Succeeded, 400)]), "");
        assert_eq!(names(&[run(Succeeded, 250), run(Failed, 300), run(Failed, 350)]), "d");
    }

    #[test]
    fn the_latest_results_are_kept_in_order() {
        let kept = with_results(&[run(Failed, 1), run(Succeeded, 5)], vec![run(Succeeded, 3), run(Failed, 9)]);
        let starts: Vec<_> = kept.iter().filter_map(start).map(Timestamp::as_second).collect();
        assert_eq!(starts, [3, 5, 9]);
        assert_eq!(last_success(&kept), Some(at(15)));
        assert_eq!(last_success(&[run(Failed, 1)]), None);
    }

    #[test]
    fn old_jobs_go_unless_they_work() {
        let ended = JobState::Failed(None);
        let jobs = [job("a", 1, JobState::Running), job("b", 2, ended), job("c", 3, ended), job("d", 4, ended)];
        assert_eq!(superfluous(&jobs, 3), Vec::<&str>::new());
        assert_eq!(superfluous(&jobs, 1), ["c", "b"]);
        assert_eq!(superfluous(&jobs, 0).len(), 3);
    }
}
