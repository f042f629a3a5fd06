//! Processes inside a machine: run one to its end, start one in the background, stop it, wait for a condition.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Machine;

/// How long [`wait_until`] pauses between two questions: the longer it has waited, and the dearer the question is, the longer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(700);

/// Starts a program in the background with its output in a file, and prints its process number. It changes folder by
/// itself: entering a mount namespace goes back to the root. It lets go of the files that whoever started the test left
/// open, such as a lock: the program outlives them.
const START_SCRIPT: &str = r#"exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
cd "$1"; log=$2; shift 2; setsid "$@" > "$log" 2>&1 < /dev/null & echo $!"#;

impl Machine {
    /// A command that runs inside the machine.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init().to_string(), "-n", "-m", "-p", "--"]).arg(program);
        command
    }

    /// A command that runs inside the machine but in this host's network: how a door to the outside is made.
    pub fn command_on_host_network(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init().to_string(), "-m", "-p", "--"]).arg(program);
        command
    }

    /// Runs a program inside to its end and gives its standard output; a failure carries its standard error.
    pub fn run<I: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = I>,
    ) -> Result<String> {
        output_of(self.command(program).args(arguments))
    }

    /// Starts a program inside that outlives the caller. Its output goes to `logs/<name>.log`.
    pub fn start<I: AsRef<OsStr>>(
        &self,
        name: &str,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = I>,
    ) -> Result<()> {
        self.start_command(name, self.command("sh"), program, arguments)
    }

    /// Like [`Machine::start`], with a command for `sh` that the caller prepared (environment, network).
    pub fn start_command<I: AsRef<OsStr>>(
        &self,
        name: &str,
        mut shell: Command,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = I>,
    ) -> Result<()> {
        shell.args(["-c", START_SCRIPT, "sh"]).arg(self.state()).arg(self.log(name)).arg(program).args(arguments);
        let process = output_of(&mut shell).with_context(|| format!("cannot start {name}"))?;
        fs::write(self.process_file(name), process)?;
        Ok(())
    }

    /// Stops a program started under that name: asks first, forces after five seconds.
    pub fn stop(&self, name: &str) -> Result<()> {
        let Ok(process) = fs::read_to_string(self.process_file(name)) else { return Ok(()) };
        let process = process.trim();
        let signal = |signal: &str| self.run("kill", [signal, process]).is_ok();
        if signal("-TERM") {
            let ended = wait_until(name, Duration::from_secs(5), || {
                anyhow::ensure!(!signal("-0"), "still running");
                Ok(())
            });
            if ended.is_err() {
                signal("-KILL");
            }
        }
        let _ = fs::remove_file(self.process_file(name));
        Ok(())
    }

    /// True while the program started under that name runs.
    pub fn is_running(&self, name: &str) -> bool {
        fs::read_to_string(self.process_file(name))
            .is_ok_and(|process| self.run("kill", ["-0", process.trim()]).is_ok())
    }

    /// The process number, as this host sees it, of the program started under that name.
    pub fn host_process(&self, name: &str) -> Result<u32> {
        let inside: u32 = fs::read_to_string(self.process_file(name))?.trim().parse()?;
        let namespace = fs::read_link(format!("/proc/{}/ns/pid", self.init()))?;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let same = fs::read_link(format!("/proc/{process}/ns/pid")).is_ok_and(|link| link == namespace);
            if same && innermost_number(process) == Some(inside) {
                return Ok(process);
            }
        }
        bail!("{name} does not run in the machine {}", self.name)
    }

    /// Where the output of the program started under that name goes.
    pub fn log(&self, name: &str) -> PathBuf {
        self.state().join("logs").join(format!("{name}.log"))
    }

    fn process_file(&self, name: &str) -> PathBuf {
        self.state().join(format!("{name}.process"))
    }
}

fn innermost_number(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// Runs a command to its end and gives its standard output; a failure carries its standard error.
pub(super) fn output_of(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        bail!("{} ({status}): {}", arguments.join(" "), String::from_utf8_lossy(&stderr).trim());
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Tries again until the condition holds; after the deadline the last reason it did not is the error. What takes long, and
/// what is dear to ask, is asked less often: else those who wait take the cores from those they wait for.
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let asked = Instant::now();
        let outcome = condition();
        let price = (asked.elapsed() * 2).min(LONGEST_PAUSE);
        match outcome {
            Ok(()) => return Ok(()),
            Err(reason) if start.elapsed() >= deadline => {
                return Err(reason.context(format!("waited {} s for {what}", deadline.as_secs())));
            }
            Err(_) => sleep(pause.max(price)),
        }
        pause = (pause * 5 / 4).min(LAST_PAUSE);
    }
}

/// The time a process started, in clock ticks since boot: with its number it names a process for good.
pub(super) fn start_time(process: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = stat.rsplit_once(')').context("no process name in stat")?.1;
    let mut fields = after_name.split_whitespace();
    anyhow::ensure!(fields.next() != Some("Z"), "process {process} has ended");
    fields.nth(18).context("no start time in stat")?.parse().context("the start time is no number")
}

/// Ends a process at once.
pub(super) fn kill(process: u32) {
    if let Some(process) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
    }
}
