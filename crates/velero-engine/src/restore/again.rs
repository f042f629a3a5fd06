//! Asking again: which writes are sent once more after a refusal or a lost answer, and for how long. Nothing else in a
//! restore decides that.

use std::future::Future;
use std::time::{Duration, Instant};

use velero_cluster::Error;

use super::run::Run;
use super::trouble::Passing;

/// How long the server may take to serve a type whose definition it has accepted.
const NEW_TYPE: Duration = Duration::from_secs(30);
/// How long the server's admission may take to learn of an object that was made a moment ago.
const NEW_REFERENCE: Duration = Duration::from_secs(2);
/// How long a server that fails or does not answer is asked again.
const OUTAGE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// How a write ended, after all tries.
pub(super) struct Sent<T> {
    pub result: Result<T, Error>,
    /// Whether a try that seemed to fail may have been carried out.
    pub unsure: bool,
}

/// Why a write is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    NewType,
    NewReference,
    Outage,
}

impl Cause {
    /// What a write with this failure waits for; nothing when another try would end like this one.
    fn of(error: &Error, is_new: bool) -> Option<Self> {
        match error {
            Error::NotFound(_) if is_new => Some(Self::NewType),
            Error::Forbidden(refusal) if misses_reference(&refusal.message) => Some(Self::NewReference),
            error if misses_webhook(error) => None,
            error if error.is_retryable() => Some(Self::Outage),
            _ => None,
        }
    }

    fn patience(self) -> Duration {
        match self {
            Self::NewType => NEW_TYPE,
            Self::NewReference => NEW_REFERENCE,
            Self::Outage => OUTAGE,
        }
    }

    fn pause(self, tries: u32) -> Duration {
        match self {
            Self::NewType | Self::NewReference => FIRST_PAUSE,
            Self::Outage => LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(tries.min(8))),
        }
    }
}

impl Run {
    /// Sends a write, and sends it again while its trouble may pass.
    pub(super) async fn send<T, F: Future<Output = Result<T, Error>>>(
        &self,
        resource: &str,
        is_new: bool,
        request: impl Fn() -> F,
    ) -> Sent<T> {
        let mut unsure = false;
        let mut first_failure = None;
        let mut tries = 0;
        loop {
            let result = self.pace.send(&self.request.cluster, request()).await;
            let cause = result.as_ref().err().and_then(|error| Cause::of(error, is_new));
            // What the server refuses after such a failure may be its own work, too.
            unsure |= result.as_ref().err().is_some_and(may_be_done);
            let of_type = match cause {
                Some(Cause::Outage) => self.outages.note(resource),
                _ => {
                    self.outages.end(resource);
                    Duration::ZERO
                }
            };
            // Counted from the first answer: one that is lost may have been waited for longer than this.
            let lasting = first_failure.get_or_insert_with(Instant::now).elapsed().max(of_type);
            match cause {
                Some(cause) if lasting < cause.patience() => tokio::time::sleep(cause.pause(tries)).await,
                _ => return Sent { result, unsure },
            }
            tries += 1;
        }
    }
}

/// Whether a write that failed like this may have been carried out.
fn may_be_done(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_) | Error::Unreachable { .. } | Error::Unreadable { .. })
        && !misses_webhook(error)
}

/// Whether the server refused a pod for something that it may not know yet: it looks these up in caches.
fn misses_reference(message: &str) -> bool {
    let pieces = ["no PriorityClass with name", "error looking up service account", "pod rejected: RuntimeClass"];
    pieces.iter().any(|piece| message.contains(piece))
}

/// Whether the server refused because a webhook could not be asked. That its service runs again may take minutes, so
/// such an item is tried again at the end.
pub(super) fn misses_webhook(error: &Error) -> bool {
    let Error::Unavailable(refusal) = error else { return false };
    refusal.message.contains("failed calling webhook") || refusal.message.contains("conversion webhook for")
}

/// Whether what a write was refused for may be gone at the end of the restore. A webhook whose service is in the cluster
/// may be waiting for its pods; nothing that was restored brings any other.
pub(super) fn passing(error: &Error) -> Passing {
    let Some(refusal) = error.refusal().filter(|_| misses_webhook(error)) else { return Passing::Never };
    let words = refusal.message.as_str();
    let host = words.split_once("https://").and_then(|(_, url)| url.split(['/', ':', '?']).next());
    let is_missing = words.contains("service \"") && words.ends_with("not found");
    if is_missing || host.is_some_and(|host| !host.ends_with(".svc")) { Passing::Soon } else { Passing::InTime }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, reason: &str, message: &str) -> Error {
        Error::from_status("create", Status::failure(message, reason).with_code(code))
    }

    #[test]
    fn only_what_may_pass_is_sent_again() {
        let lost = || Error::Unreachable { action: "create".to_owned(), source: "broken pipe".into() };
        let webhook =
            "Internal error occurred: failed calling webhook \"a\": failed to call webhook: connection refused";
        let conversion = "conversion webhook for example.com/v1, Kind=Gadget failed: Post \"https://a\": refused";
        let class = "pods \"a\" is forbidden: no PriorityClass with name b was found";
        for (error, is_new, cause, done) in [
            (lost(), false, Some(Cause::Outage), true),
            (refused(500, "InternalError", "etcd: timed out"), false, Some(Cause::Outage), true),
            (refused(504, "Timeout", "gateway"), true, Some(Cause::Outage), true),
            (refused(500, "InternalError", webhook), false, None, false),
            (refused(500, "", conversion), false, None, false),
            (refused(429, "TooManyRequests", "slow down"), false, Some(Cause::Outage), false),
            (refused(404, "NotFound", "no such type"), true, Some(Cause::NewType), false),
            (refused(404, "NotFound", "no such namespace"), false, None, false),
            (refused(403, "Forbidden", class), false, Some(Cause::NewReference), false),
            (refused(403, "Forbidden", "exceeded quota"), false, None, false),
            (refused(422, "Invalid", "bad"), false, None, false),
            (refused(409, "AlreadyExists", "there"), false, None, false),
        ] {
            assert_eq!(Cause::of(&error, is_new), cause, "{error}");
            assert_eq!(may_be_done(&error), done, "{error}");
        }
    }

    #[test]
    fn a_webhook_that_may_still_start_is_waited_for_longest() {
        let of = |words: &str| {
            let message =
                format!("Internal error occurred: failed calling webhook \"w\": failed to call webhook: {words}");
            passing(&refused(500, "InternalError", &message))
        };
        let service = "Post \"https://guard.ns.svc:443/check?timeout=10s\"";
        assert_eq!(of(&format!("{service}: no endpoints available for service \"guard\"")), Passing::InTime);
        assert_eq!(of(&format!("{service}: dial tcp 10.0.0.1:443: connect: connection refused")), Passing::InTime);
        assert_eq!(of(&format!("{service}: service \"guard\" not found")), Passing::Soon);
        assert_eq!(of("Post \"https://127.0.0.1:9/nowhere?timeout=1s\": refused"), Passing::Soon);
        assert_eq!(passing(&refused(403, "Forbidden", "exceeded quota")), Passing::Never);
        let (second, minutes) = (Duration::from_secs(1), Duration::from_secs(600));
        assert_eq!(Passing::InTime.patience(minutes), minutes);
        assert!(Passing::Soon.patience(minutes) < minutes);
        assert_eq!(Passing::Soon.patience(second), second);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        assert_eq!(Cause::Outage.pause(0), FIRST_PAUSE);
        assert!(Cause::Outage.pause(1) > Cause::Outage.pause(0));
        assert_eq!(Cause::Outage.pause(u32::MAX), LONGEST_PAUSE);
    }
}
