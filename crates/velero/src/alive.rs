//! Whether the server is alive: when it last renewed its Lease.

use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep, timeout};
use velero_cluster::Error as ClusterError;
use velero_rules::lease::{LEASE_NAME, LONGEST, SHORTEST, Said, is_alive};

use crate::output::Heard;
use crate::session::Session;

/// How often a Lease is looked at that may stand still.
const POLL: Duration = Duration::from_millis(200);

/// When the server was last heard of; nothing when it has no Lease, as the original has none, or it may not be read.
pub(crate) async fn last_heard_of(session: &Session, patience: Duration) -> Result<Option<Heard>> {
    let Some((lease, now)) = look(session, patience).await? else { return Ok(None) };
    let said = Said::from(&lease);
    let Some(renewed) = last_sign(&lease) else { return Ok(None) };
    let ago = now.duration_since(renewed);
    let heard = |is_alive: bool| Heard { leader: said.holder.clone(), last: renewed, ago, is_alive };
    if let Some(is_alive) = is_alive(&said, ago) {
        return Ok(Some(heard(is_alive)));
    }
    // It is renewed five times in its duration.
    let deadline = Instant::now() + patience.min(said.duration.unwrap_or(SHORTEST) / 3);
    while Instant::now() < deadline {
        sleep(POLL).await;
        let Some((lease, _)) = look(session, patience).await? else { break };
        if Said::from(&lease) != said {
            return Ok(Some(Heard { ago: Default::default(), ..heard(true) }));
        }
    }
    Ok(Some(heard(false)))
}

/// When somebody wrote into a Lease. One without a renewal was written over, and no server that works leaves it so.
fn last_sign(lease: &Lease) -> Option<Timestamp> {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    renewed.or_else(|| lease.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Fails when the server is gone.
pub(crate) fn fail_if_gone(session: &Session, heard: Option<&Heard>) -> Result<()> {
    let Some(heard) = heard.filter(|heard| !heard.is_alive) else { return Ok(()) };
    let (namespace, ago) = (session.namespace(), heard.ago());
    let how = if heard.leader.is_empty() { "it was stopped" } else { "it was last heard of" };
    Err(anyhow!("no server works in namespace {namespace}: {how} {ago}; `kubectl get pods -n {namespace}` may say why"))
}

/// Whether a server that has left its status has no Lease, and makes none: who leads makes one that was deleted again when it is to
/// be renewed, five times in its duration. Nobody is taken for gone whose Lease may not be looked at.
pub(crate) async fn is_unheard_of(session: &Session, patience: Duration) -> bool {
    let deadline = Instant::now() + patience.min(LONGEST / 5);
    while let Ok(Ok(None)) = timeout(patience, session.cluster.get_dated::<Lease>(&path(session))).await {
        if Instant::now() >= deadline {
            return true;
        }
        sleep(POLL).await;
    }
    false
}

/// What is said where there is no sign of a server but the status that it left.
pub(crate) fn unheard_of(session: &Session) -> Error {
    let namespace = session.namespace();
    anyhow!(
        "no server has been heard of in namespace {namespace}: it has no Lease {LEASE_NAME}, which every server keeps that works; \
         `kubectl get pods -n {namespace}` may say why"
    )
}

fn path(session: &Session) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{LEASE_NAME}", session.namespace())
}

/// The Lease of the server, and the time by the clock of the API server.
async fn look(session: &Session, patience: Duration) -> Result<Option<(Lease, Timestamp)>> {
    let Ok(found) = timeout(patience, session.cluster.get_dated::<Lease>(&path(session))).await else {
        bail!("the Kubernetes API server did not answer within {patience:?}");
    };
    let found = match found {
        Err(ClusterError::Forbidden(refusal)) => {
            session.printer.note(format_args!(
                "WARNING: whether the server is alive is not known: {}; you need the right to get leases there",
                refusal.message
            ));
            return Ok(None);
        }
        found => found?,
    };
    Ok(found.map(|(lease, date)| {
        let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        (lease, date.unwrap_or_else(Timestamp::now))
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_that_was_written_over_is_no_sign_of_a_server() {
        let (made, renewed) = ("2026-11-17T01:00:00Z", "2026-11-17T02:00:00.000000Z");
        for (spec, expected) in [
            (json!({"holderIdentity": "velero-1", "renewTime": renewed}), Some(renewed)),
            (json!({"holderIdentity": "velero-1"}), Some(made)),
            (json!({}), Some(made)),
            (json!(null), Some(made)),
        ] {
            let lease = json!({"metadata": {"creationTimestamp": made}, "spec": spec});
            let lease: Lease = serde_json::from_value(lease).unwrap();
            let expected = expected.map(|moment| moment.parse::<Timestamp>().unwrap());
            assert_eq!(last_sign(&lease), expected, "{spec}");
        }
        assert_eq!(last_sign(&Lease::default()), None);
    }
}
