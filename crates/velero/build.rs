//! Tells the compiler which commit it compiles.
//!
//! Who builds a release says it (`VELERO_GIT_COMMIT`; `cargo xtask release` and the Dockerfile do). Otherwise git is asked, and
//! the answer says that there may be changes on top: to know better, every change of a file would have to compile this crate
//! again. A source without git says that.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What git keeps about where it stands; the log of that grows with every commit and checkout.
const WHERE_GIT_STANDS: [&str; 2] = ["HEAD", "logs/HEAD"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=VELERO_GIT_COMMIT");
    let told = env::var("VELERO_GIT_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(commit_by_git).unwrap_or_else(|| "unknown (built without git)".to_owned());
    println!("cargo::rustc-env=VELERO_BUILT_FROM={commit}");
}

/// The commit that is checked out here, if this is a checkout and not a folder in somebody else's.
fn commit_by_git() -> Option<String> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(&root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if PathBuf::from(top).canonicalize().ok()? != root {
        return None;
    }
    for name in WHERE_GIT_STANDS {
        let file = root.join(git(&["rev-parse", "--git-path", name])?);
        // A file that does not exist would have this run at every build.
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    Some(format!("{}-dev", git(&["rev-parse", "HEAD"])?))
}
