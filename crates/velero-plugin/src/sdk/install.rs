//! `PLUGIN install FOLDER`: the binary copies itself there. It is all that the image for `velero plugin add` has to do.

use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Does what the command line asks for, where it asks for that.
pub(super) fn run(arguments: &[String]) -> Option<ExitCode> {
    let [command, folder] = arguments else { return None };
    (command == "install").then(|| match copy(Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot copy the plugin to {folder}: {error}");
            ExitCode::FAILURE
        }
    })
}

fn copy(folder: &Path) -> io::Result<()> {
    let own = std::env::current_exe()?;
    let name = own.file_name().ok_or_else(|| io::Error::other("the binary has no name"))?;
    std::fs::copy(&own, folder.join(name)).map(drop)
}
