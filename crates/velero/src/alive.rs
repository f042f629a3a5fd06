//! Whether the server is alive: when it last renewed its Lease.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::{Instant, sleep, timeout};
use velero_cluster::Error as ClusterError;
use velero_rules::lease::{LEASE_NAME, Said, is_alive};

use crate::output::Heard;
use crate::session::Session;

/// How often a Lease is looked at that may stand still.
const POLL: Duration = Duration::from_millis(200);

/// When the server was last heard of; nothing when it has no Lease, as the original has none, or it may not be read.
pub(crate) async fn last_heard_of(session: &Session, patience: Duration) -> Result<Option<Heard>> {
    let Some((lease, now)) = look(session, patience).await? else { return Ok(None) };
    let said = Said::from(&lease);
    let Some(renewed) = lease.spec.and_then(|spec| spec.renew_time).map(|time| time.0) else { return Ok(None) };
    let ago = now.duration_since(renewed);
    let heard = |is_alive: bool| Heard { leader: said.holder.clone(), last: renewed, ago, is_alive };
    if let Some(is_alive) = is_alive(&said, ago) {
        return Ok(Some(heard(is_alive)));
    }
    // It is renewed five times in its duration.
    let deadline = Instant::now() + patience.min(said.duration.unwrap_or_default() / 3);
    while Instant::now() < deadline {
        sleep(POLL).await;
        let Some((lease, _)) = look(session, patience).await? else { break };
        if Said::from(&lease) != said {
            return Ok(Some(Heard { ago: Default::default(), ..heard(true) }));
        }
    }
    Ok(Some(heard(false)))
}

/// Fails when the server is gone.
pub(crate) fn fail_if_gone(session: &Session, heard: Option<&Heard>) -> Result<()> {
    let Some(heard) = heard.filter(|heard| !heard.is_alive) else { return Ok(()) };
    let (namespace, ago) = (session.namespace(), heard.ago());
    let how = if heard.leader.is_empty() { "it was stopped" } else { "it was last heard of" };
    Err(anyhow!("no server works in namespace {namespace}: {how} {ago}; `kubectl get pods -n {namespace}` may say why"))
}

/// The Lease of the server, and the time by the clock of the API server.
async fn look(session: &Session, patience: Duration) -> Result<Option<(Lease, Timestamp)>> {
    let namespace = session.namespace();
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE_NAME}");
    let Ok(found) = timeout(patience, session.cluster.get_dated::<Lease>(&path)).await else {
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
