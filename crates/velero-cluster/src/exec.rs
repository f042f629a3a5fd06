//! Running a command in a container.

use std::fmt;
use std::time::Duration;

use futures::join;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{Api, AttachParams};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::connect::Cluster;
use crate::error::{Error, Result};

/// Output beyond this many bytes a stream is read and thrown away.
const LONGEST_OUTPUT: usize = 1 << 20;

/// A command to run in a container.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Container to run in; the pod's first one when none is given.
    pub container: Option<String>,
    /// The command and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// How long it may take; without it there is no limit.
    pub timeout: Option<Duration>,
}

/// What a command wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// What it wrote to its standard output, the first MiB of it.
    pub stdout: String,
    /// What it wrote to its standard error, the first MiB of it.
    pub stderr: String,
    /// Whether it wrote more than was kept.
    pub truncated: bool,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecReason {
    /// It ended with this exit code.
    ExitCode(i32),
    /// It did not end in time. It may still be running in the container.
    TimedOut(Duration),
    /// It could not be started, or the connection to it broke.
    Failed(String),
}

/// A command that failed, with what it wrote until then.
#[derive(Debug, Clone)]
pub struct ExecFailure {
    /// What was asked for.
    pub request: ExecRequest,
    /// Why it failed.
    pub reason: ExecReason,
    /// What the command wrote.
    pub output: ExecOutput,
}

impl fmt::Display for ExecFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExecRequest { namespace, pod, container, command, .. } = &self.request;
        let container = container.as_deref().unwrap_or("(first)");
        write!(formatter, "command {command:?} in container {container} of pod {namespace}/{pod} ")?;
        match &self.reason {
            ExecReason::ExitCode(code) => write!(formatter, "ended with exit code {code}"),
            ExecReason::TimedOut(limit) => write!(formatter, "did not end within {limit:?}"),
            ExecReason::Failed(message) => write!(formatter, "could not be run: {message}"),
        }
    }
}

impl Cluster {
    /// Runs a command in a container and waits for its end. A command that fails, for whatever reason, is an
    /// [`Error::Exec`] that carries what it wrote until then.
    pub async fn exec(&self, request: &ExecRequest) -> Result<ExecOutput> {
        let mut stdout = Capture::default();
        let mut stderr = Capture::default();
        let outcome = {
            let run = self.run(request, &mut stdout, &mut stderr);
            match request.timeout {
                Some(limit) => tokio::time::timeout(limit, run).await.unwrap_or(Err(ExecReason::TimedOut(limit))),
                None => run.await,
            }
        };
        let output = ExecOutput {
            truncated: stdout.truncated || stderr.truncated,
            stdout: stdout.into_text(),
            stderr: stderr.into_text(),
        };
        match outcome {
            Ok(()) => Ok(output),
            Err(reason) => Err(Error::Exec(Box::new(ExecFailure { request: request.clone(), reason, output }))),
        }
    }

    async fn run(&self, request: &ExecRequest, stdout: &mut Capture, stderr: &mut Capture) -> Result<(), ExecReason> {
        let pods: Api<Pod> = Api::namespaced(self.client().clone(), &request.namespace);
        let mut parameters = AttachParams::default().stdin(false).stdout(true).stderr(true);
        parameters.container.clone_from(&request.container);
        let started = pods.exec(&request.pod, request.command.clone(), &parameters).await;
        let mut process = started.map_err(|error| match error {
            kube::Error::Api(status) => ExecReason::Failed(status.message),
            error => failed(&error),
        })?;
        let (out, err, status) = (process.stdout(), process.stderr(), process.take_status());
        let status = async {
            match status {
                Some(status) => status.await,
                None => None,
            }
        };
        let (out, err, status) = join!(stdout.fill(out), stderr.fill(err), status);
        out.and(err).map_err(|error| failed(&error))?;
        match status {
            Some(status) => outcome(&status),
            None => Err(process.join().await.err().map_or_else(
                || ExecReason::Failed("the connection ended before the command did".to_owned()),
                |error| failed(&error),
            )),
        }
    }
}

fn failed(error: &dyn std::error::Error) -> ExecReason {
    ExecReason::Failed(error.to_string())
}

fn outcome(status: &Status) -> Result<(), ExecReason> {
    if status.status.as_deref() == Some("Success") {
        return Ok(());
    }
    let causes = status.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default();
    let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    match code.and_then(|cause| cause.message.as_deref()?.parse().ok()) {
        Some(code) => Err(ExecReason::ExitCode(code)),
        None => Err(ExecReason::Failed(status.message.clone().unwrap_or_default())),
    }
}

/// The beginning of a stream. Filled in place, so that what came before a timeout is not lost.
#[derive(Default)]
struct Capture {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Capture {
    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<()> {
        let Some(mut stream) = stream else {
            return Ok(());
        };
        let mut chunk = vec![0; 8192];
        loop {
            let read = stream.read(&mut chunk).await?;
            if read == 0 {
                return Ok(());
            }
            let room = LONGEST_OUTPUT - self.bytes.len();
            self.bytes.extend_from_slice(&chunk[..read.min(room)]);
            self.truncated |= read > room;
        }
    }

    fn into_text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome_of(status: serde_json::Value) -> Result<(), ExecReason> {
        outcome(&serde_json::from_value(status).unwrap())
    }

    #[test]
    fn the_exit_code_is_read_from_the_status() {
        assert_eq!(outcome_of(json!({"status": "Success"})), Ok(()));
        let failure = json!({
            "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}
        });
        assert_eq!(outcome_of(failure), Err(ExecReason::ExitCode(3)));
        let other = json!({"status": "Failure", "message": "no such file"});
        assert_eq!(outcome_of(other), Err(ExecReason::Failed("no such file".to_owned())));
    }

    #[tokio::test]
    async fn long_output_is_read_to_its_end_and_kept_up_to_the_limit() {
        let mut stream: &[u8] = &vec![b'x'; LONGEST_OUTPUT + 5];
        let mut capture = Capture::default();
        capture.fill(Some(&mut stream)).await.unwrap();
        assert!(stream.is_empty() && capture.truncated);
        assert_eq!(capture.bytes.len(), LONGEST_OUTPUT);
    }

    #[test]
    fn a_failure_names_pod_container_and_command() {
        let request = ExecRequest {
            namespace: "shop".to_owned(),
            pod: "db-0".to_owned(),
            container: Some("postgres".to_owned()),
            command: vec!["/bin/sync".to_owned(), "-v".to_owned()],
            timeout: None,
        };
        let failure = ExecFailure { request, reason: ExecReason::ExitCode(1), output: ExecOutput::default() };
        assert_eq!(
            failure.to_string(),
            r#"command ["/bin/sync", "-v"] in container postgres of pod shop/db-0 ended with exit code 1"#
        );
    }
}
