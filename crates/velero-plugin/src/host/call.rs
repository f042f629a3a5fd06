//! One call of a plugin: with a deadline, and an error that names the plugin, the call and what it was about.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::timeout;
use tonic::{Code, Response, Status};
use velero_api::features::ENABLE_CSI;
use velero_api::v1::Backup;

use super::connection::Connection;
use super::process::PluginProcess;
use super::restart::Restartable;
use super::settings::Deadlines;
use crate::wire::first_frame;
use crate::{Error, PluginKind, Result};

/// How long the end of a process may come after the end of its connection.
pub(crate) const NOTICE: Duration = Duration::from_secs(1);

/// How the names of actions begin that need the feature `EnableCSI`.
const CSI_NAMES: &str = "velero.io/csi-";

/// A plugin in a process.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) kind: PluginKind,
    pub(crate) name: String,
    pub(crate) process: Arc<Restartable>,
    pub(crate) last_backup: LastBackup,
}

/// The backup that was sent last, and its JSON: it goes along with every item.
pub(crate) type LastBackup = Arc<Mutex<Option<(Backup, Bytes)>>>;

/// Why a call has no answer.
pub(crate) enum Failure {
    /// The plugin answered with an error.
    Answered(Status),
    /// Anything else, with everything that is to be said about it.
    Broken(Error),
}

impl Remote {
    /// The feature a plugin needs. The protocol has no word for it: Velero goes by the name.
    pub(crate) fn needs_feature(&self) -> Option<&str> {
        self.name.starts_with(CSI_NAMES).then_some(ENABLE_CSI)
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.process.settings().deadlines
    }

    /// Calls the plugin; every failure is an error that says all there is to say.
    pub(crate) async fn call<T, F>(
        &self,
        call: &'static str,
        object: &str,
        deadline: Duration,
        request: impl FnOnce(Connection) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.try_call(call, object, deadline, request).await.map_err(|failure| self.explain(call, object, failure))
    }

    /// Calls the plugin and leaves the status of an answered failure to the caller.
    pub(crate) async fn try_call<T, F>(
        &self,
        call: &'static str,
        object: &str,
        deadline: Duration,
        request: impl FnOnce(Connection) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let process = self.process.process().await.map_err(Failure::Broken)?;
        let answer = timeout(deadline, request(process.connection())).await;
        let status = match answer {
            Ok(Ok(answer)) => {
                self.process.answered();
                return Ok(answer.into_inner());
            }
            Ok(Err(status)) => status,
            Err(_) => {
                self.process.failed();
                let problem = format!("no answer within {deadline:?}; the call was given up");
                return Err(Failure::Broken(self.error(call, object, problem)));
            }
        };
        Err(self.judge(call, object, &process, status).await)
    }

    /// Tells an error of the plugin from the end of its process.
    async fn judge(&self, call: &'static str, object: &str, process: &PluginProcess, status: Status) -> Failure {
        let broken = matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Internal)
            || (status.code() == Code::Unknown && std::error::Error::source(&status).is_some());
        if broken && let Some(end) = process.end_within(NOTICE).await {
            let problem = format!("the plugin's process ended in the middle of the call ({end})");
            return Failure::Broken(self.error(call, object, problem));
        }
        self.process.answered();
        if let Some((file, function)) = first_frame(&status) {
            let mut fields = Map::new();
            fields.insert("error.file".to_owned(), Value::String(file));
            fields.insert("error.function".to_owned(), Value::String(function));
            fields.insert("plugin".to_owned(), Value::String(self.name.clone()));
            let message = format!("{call} failed: {}", status.message());
            process.output().log(tracing::Level::DEBUG, message, fields);
        }
        Failure::Answered(status)
    }

    pub(crate) fn explain(&self, call: &'static str, object: &str, failure: Failure) -> Error {
        match failure {
            Failure::Broken(error) => error,
            Failure::Answered(status) => self.error(call, object, text_of(&status)),
        }
    }

    pub(crate) fn error(&self, call: &'static str, object: &str, problem: String) -> Error {
        Error::Call { kind: self.kind.as_str(), plugin: self.name.clone(), call, object: object.to_owned(), problem }
    }
}

/// What a status says; its code only where there is nothing else.
pub(crate) fn text_of(status: &Status) -> String {
    match (status.code(), status.message()) {
        (Code::Unimplemented, _) => "the plugin does not serve this call".to_owned(),
        (code, "") => code.description().to_owned(),
        (_, message) => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_words_says_its_code() {
        assert_eq!(text_of(&Status::unknown("boom")), "boom");
        assert_eq!(text_of(&Status::new(Code::ResourceExhausted, "")), Code::ResourceExhausted.description());
    }
}
