//! Holds a pod back until the data of its volumes is there.
//!
//! Runs as an init container of a restored pod, with each volume mounted under `/restores`. Whoever restores a volume
//! puts the file `.velero/<UID of the restore>` onto it in the end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use tokio::signal::unix::{SignalKind, signal};

/// Where the volumes are mounted.
const VOLUMES: &str = "/restores";
/// The folder on a volume that is the restore's alone.
const MARKS: &str = ".velero";
/// How often it is looked.
const POLL: Duration = Duration::from_millis(200);
/// How often it is said what is missing.
const WORD: Duration = Duration::from_secs(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [restore] = arguments.as_slice() else {
        eprintln!("velero-restore-helper: give exactly one argument, the UID of the restore");
        return ExitCode::FAILURE;
    };
    // The first process of a container is not ended by a signal it does not listen to.
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return ExitCode::FAILURE };
    let volumes = Path::new(VOLUMES);
    let mut told: Option<Instant> = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => return ExitCode::FAILURE,
            () = tokio::time::sleep(POLL) => {}
        }
        let is_told = told.is_some_and(|told| told.elapsed() < WORD);
        match unfinished(volumes, restore) {
            Ok(None) => break,
            _ if is_told => continue,
            Ok(Some(mark)) => println!("{} is not there yet", mark.display()),
            Err(error) => eprintln!("velero-restore-helper: cannot look for what is restored: {error}"),
        }
        told = Some(Instant::now());
    }
    println!("all volumes are restored");
    if let Err(error) = clean(volumes) {
        eprintln!("velero-restore-helper: {MARKS} is left on a volume: {error}");
    }
    ExitCode::SUCCESS
}

/// The mark of the first volume that is not restored yet.
fn unfinished(volumes: &Path, restore: &str) -> io::Result<Option<PathBuf>> {
    for volume in folders(volumes)? {
        let mark = volume.join(MARKS).join(restore);
        let exists = mark.try_exists();
        if !exists.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", mark.display())))? {
            return Ok(Some(mark));
        }
    }
    Ok(None)
}

/// Removes what the restore put onto the volumes for itself. One that cannot be cleaned does not keep others from it.
fn clean(volumes: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for volume in folders(volumes)? {
        match fs::remove_dir_all(volume.join(MARKS)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => outcome = outcome.and(Err(error)),
            _ => {}
        }
    }
    outcome
}

fn folders(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", parent.display()));
    let entries: Vec<_> = fs::read_dir(parent).map_err(told)?.collect::<io::Result<_>>()?;
    Ok(entries.iter().map(fs::DirEntry::path).filter(|path| path.is_dir()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_starts_when_every_volume_is_marked_by_its_restore() {
        let volumes = tempfile::tempdir().unwrap();
        for volume in ["a", "b"] {
            fs::create_dir_all(volumes.path().join(volume).join(MARKS)).unwrap();
        }
        fs::write(volumes.path().join("a-file"), "").unwrap();
        let mark = |volume: &str, restore: &str| fs::write(volumes.path().join(volume).join(MARKS).join(restore), "");
        mark("a", "this").unwrap();
        mark("b", "another").unwrap();
        let missing = unfinished(volumes.path(), "this").unwrap();
        assert_eq!(missing, Some(volumes.path().join("b").join(MARKS).join("this")));
        mark("b", "this").unwrap();
        assert_eq!(unfinished(volumes.path(), "this").unwrap(), None);
        clean(volumes.path()).unwrap();
        assert!(!volumes.path().join("a").join(MARKS).exists() && volumes.path().join("a-file").exists());
        assert!(unfinished(&volumes.path().join("missing"), "this").is_err());
    }

    #[test]
    fn a_volume_that_nobody_may_look_into_is_named() {
        let volumes = tempfile::tempdir().unwrap();
        fs::create_dir(volumes.path().join("data")).unwrap();
        fs::write(volumes.path().join("data").join(MARKS), "no folder").unwrap();
        let said = unfinished(volumes.path(), "this").unwrap_err().to_string();
        assert!(said.contains("data/.velero/this: "), "{said}");
    }

    #[test]
    fn a_volume_that_cannot_be_cleaned_does_not_keep_others_from_it() {
        let volumes = tempfile::tempdir().unwrap();
        for volume in ["a", "c"] {
            fs::create_dir_all(volumes.path().join(volume).join(MARKS)).unwrap();
        }
        fs::create_dir(volumes.path().join("b")).unwrap();
        fs::write(volumes.path().join("b").join(MARKS), "no folder").unwrap();
        assert!(clean(volumes.path()).is_err());
        for volume in ["a", "c"] {
            assert!(!volumes.path().join(volume).join(MARKS).exists(), "{volume}");
        }
    }
}
