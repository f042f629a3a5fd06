//! Kopia repositories by others: Velero's own packages, and kopia's own command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::server::STORE_KEYS;
use crate::tool::Tool;

/// The password of repositories that nobody gave another.
pub const PASSWORD: &str = "static-passw0rd";

/// Velero's packages around one repository in a folder.
///
/// Every command connects anew with an empty cache, as the pods of Velero do.
pub struct KopiaPeer {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a command came to.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerAnswer {
    /// The snapshot that was written or restored.
    #[serde(default)]
    pub snapshot: String,
    /// Its bytes, as Velero reports them.
    pub size: u64,
    #[serde(default)]
    error: String,
}

impl KopiaPeer {
    /// Begins to work on the repository in a folder.
    pub fn start(folder: &Path) -> Result<Self> {
        Self::serve(Command::new(Tool::KopiaPeer.path()?).arg("-folder").arg(folder))
    }

    /// Begins to work on the repository in a bucket of the store at a URL, below a prefix that ends in a slash.
    pub fn start_in_bucket(bucket: &str, prefix: &str, url: &str) -> Result<Self> {
        Self::serve(&mut peer_in_bucket(bucket, prefix, url)?)
    }

    fn serve(command: &mut Command) -> Result<Self> {
        let mut process = command
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the peer of repositories does not start")?;
        let commands = process.stdin.take().context("the peer has no input")?;
        let answers = BufReader::new(process.stdout.take().context("the peer has no output")?);
        Ok(Self { process, commands, answers })
    }

    /// Makes the repository unless it is there.
    pub fn create(&mut self) -> Result<()> {
        self.run(&["create"]).map(drop)
    }

    /// Backs a folder up as Velero backs up the volume of a pod.
    pub fn backup(&mut self, folder: &Path, source: &str) -> Result<PeerAnswer> {
        self.run(&["backup", &folder.to_string_lossy(), source])
    }

    /// Restores a snapshot into a folder.
    pub fn restore(&mut self, snapshot: &str, folder: &Path) -> Result<PeerAnswer> {
        self.run(&["restore", snapshot, &folder.to_string_lossy()])
    }

    /// Forgets a snapshot.
    pub fn forget(&mut self, snapshot: &str) -> Result<()> {
        self.run(&["forget", snapshot]).map(drop)
    }

    /// Maintains the repository: `auto`, `quick` or `full`.
    pub fn maintain(&mut self, mode: &str) -> Result<()> {
        self.run(&["maintain", mode]).map(drop)
    }

    fn run(&mut self, arguments: &[&str]) -> Result<PeerAnswer> {
        writeln!(self.commands, "{}", serde_json::to_string(arguments)?)?;
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "the peer ended instead of doing {arguments:?}");
        let answer: PeerAnswer = serde_json::from_str(&line).with_context(|| format!("the peer said {line:?}"))?;
        if answer.error.is_empty() {
            Ok(answer)
        } else {
            bail!("the peer could not do {arguments:?}: {}", answer.error)
        }
    }
}

/// The peer with flags for a repository in a bucket of the store at a URL; a command is to be added.
pub fn peer_in_bucket(bucket: &str, prefix: &str, url: &str) -> Result<Command> {
    let mut command = Command::new(Tool::KopiaPeer.path()?);
    command.args(["-bucket", bucket, "-prefix", prefix, "-endpoint", url.trim_start_matches("http://")]);
    command.envs(STORE_KEYS);
    Ok(command)
}

impl Drop for KopiaPeer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kopia's own command, connected to the repository in a folder.
pub struct Kopia {
    binary: PathBuf,
    work: tempfile::TempDir,
}

impl Kopia {
    /// Connects to the repository in a folder, as the user Velero is there.
    pub fn connect(folder: &Path) -> Result<Self> {
        let kopia = Self { binary: Tool::Kopia.path()?, work: tempfile::tempdir()? };
        let (path, cache) = (folder.to_string_lossy(), kopia.work.path().join("cache"));
        let place = ["--path", &path, "--cache-directory", &cache.to_string_lossy()];
        let client = ["--override-username", "default", "--override-hostname", "default"];
        kopia.run(&[&["repository", "connect", "filesystem"][..], &place, &client].concat())?;
        Ok(kopia)
    }

    /// What a command prints on both outputs; fails where the command does.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.binary)
            .arg("--config-file")
            .arg(self.work.path().join("repository.config"))
            .arg("--log-dir")
            .arg(self.work.path().join("logs"))
            .arg("--no-progress")
            .args(arguments)
            .env("KOPIA_PASSWORD", PASSWORD)
            .env("KOPIA_CHECK_FOR_UPDATES", "false")
            .env("HOME", self.work.path())
            .output()
            .context("kopia does not start")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(output.status.success(), "kopia {}: {}: {said}", arguments.join(" "), output.status);
        Ok(said)
    }
}
