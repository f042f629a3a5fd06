//! The Lease of the server: waited for, renewed, and given back. Which write is due, and whether it is lost, is decided by
//! [`velero_rules::lease`].
//!
//! It has a connection of its own, so that renewals wait neither for the rate that requests are held to nor in the queue
//! behind them.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio_util::sync::CancellationToken;
use velero_api::labels;
use velero_cluster::{Cluster, ConnectOptions, Error as ClusterError};
use velero_rules::lease::{HOLDER_PROCESS, Held, LEASE_NAME, Loss, Observed, Said, Terms};

use crate::runtime::error::{Error, Result, describe};
use crate::runtime::leadership::Leadership;
use crate::runtime::process::Process;
use crate::runtime::settings::Settings;

/// The pause after a request that was not answered.
const PAUSE: Duration = Duration::from_millis(250);

/// The Lease of a namespace, and who wants it.
pub(super) struct ServerLease {
    api: Api<Lease>,
    namespace: String,
    identity: String,
    process: Option<Process>,
    terms: Terms,
    leadership: Leadership,
    /// The moment that times are counted from.
    origin: Instant,
    /// The Lease as it was last seen or written.
    latest: Option<Lease>,
}

/// The Lease in the hands of this server.
pub(super) struct HeldLease {
    lease: ServerLease,
    held: Held,
}

impl ServerLease {
    pub(super) async fn connect(settings: &Settings, identity: &str, leadership: Leadership) -> Result<Self> {
        let options = ConnectOptions {
            kubeconfig: settings.kubeconfig.clone(),
            context: settings.context.clone(),
            user_agent: Some(format!("velero-lease/{}", settings.server_version)),
            retries: 0,
            ..ConnectOptions::default()
        };
        let client = Cluster::connect(&options).await?.client().clone();
        Ok(Self {
            api: Api::namespaced(client, &settings.namespace),
            namespace: settings.namespace.clone(),
            identity: identity.to_owned(),
            process: Process::own(),
            terms: settings.lease_terms()?,
            leadership,
            origin: Instant::now(),
            latest: None,
        })
    }

    /// Waits until this server holds the Lease, and says so `when_waiting` first. `None` when it is told to end before.
    pub(super) async fn take(mut self, stop: &CancellationToken, when_waiting: impl Fn()) -> Result<Option<HeldLease>> {
        let mut observed = Observed::default();
        loop {
            let pause = match self.look(&mut observed).await {
                Ok(wait) if wait.is_zero() => match self.write().await {
                    Ok(held) => return Ok(Some(HeldLease { lease: self, held })),
                    // Another was first; the next look says who.
                    Err(error) if error.is_conflict() || error.is_already_exists() => Duration::ZERO,
                    Err(error) => self.bear(error)?,
                },
                Ok(wait) => {
                    when_waiting();
                    wait.min(self.terms.look())
                }
                Err(error) => self.bear(error)?,
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Looks at the Lease and says how long it is until this server may take it.
    async fn look(&mut self, observed: &mut Observed) -> Result<Duration, ClusterError> {
        let found = self.ask("get", self.terms.patience(), self.api.get_opt(LEASE_NAME)).await?;
        self.latest = found;
        let is_other = observed.note(self.latest.as_ref().map(Said::from).as_ref(), self.now());
        let wait = observed.free_in(self.terms, self.now());
        let holder = observed.holder();
        if wait.is_zero() || holder == self.identity {
            return Ok(Duration::ZERO);
        }
        if self.holder_is_gone() {
            tracing::info!(holder, "The process that holds the Lease is gone, so it is taken at once");
            return Ok(Duration::ZERO);
        }
        if is_other {
            let (lease, namespace) = (LEASE_NAME, &self.namespace);
            tracing::info!(holder, lease, namespace, "Another server leads; this one waits until it ends");
        }
        Ok(wait)
    }

    fn holder_is_gone(&self) -> bool {
        let latest = self.latest.as_ref().zip(self.process.as_ref());
        latest.is_some_and(|(lease, own)| process_of_holder(lease).is_some_and(|told| own.knows_gone(told)))
    }

    /// What passes is waited for, what does not ends the server.
    fn bear(&self, error: ClusterError) -> Result<Duration> {
        if matches!(error, ClusterError::Forbidden(_) | ClusterError::Invalid(_)) {
            return Err(error.into());
        }
        tracing::warn!(lease = LEASE_NAME, error = describe(&error), "The Lease could not be looked at or taken");
        Ok(self.terms.look())
    }

    /// Writes this server into the Lease as it was last seen.
    async fn write(&mut self) -> Result<Held, ClusterError> {
        let (renewed, sent_at) = (written_time(), self.now());
        let lease = self.renewed(renewed);
        self.send(lease, self.terms.patience()).await?;
        let held = Held::taken(&self.identity, self.terms, renewed.as_microsecond(), sent_at);
        self.extend(&held);
        Ok(held)
    }

    /// The Lease as it is to be, in the hands of this server.
    fn renewed(&self, now: Timestamp) -> Lease {
        let mut lease = self.latest.clone().unwrap_or_default();
        lease.metadata.name = Some(LEASE_NAME.to_owned());
        let own = [(labels::COMPONENT, labels::COMPONENT_VELERO), (labels::EXCLUDE_FROM_BACKUP, "true")];
        let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
        lease.metadata.labels.get_or_insert_default().extend(own);
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match &self.process {
            Some(process) => annotations.insert(HOLDER_PROCESS.to_owned(), told(&self.identity, process)),
            None => annotations.remove(HOLDER_PROCESS),
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) {
            spec.holder_identity = Some(self.identity.clone());
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(-1).saturating_add(1));
        }
        spec.renew_time = Some(MicroTime(now));
        spec.lease_duration_seconds = i32::try_from(self.terms.duration().as_secs()).ok();
        lease
    }

    /// Writes the Lease, if it is as it was last seen.
    async fn send(&mut self, lease: Lease, limit: Duration) -> Result<(), ClusterError> {
        let parameters = PostParams::default();
        let written = match lease.metadata.resource_version {
            Some(_) => self.ask("update", limit, self.api.replace(LEASE_NAME, &parameters, &lease)).await?,
            None => self.ask("create", limit, self.api.create(&parameters, &lease)).await?,
        };
        self.latest = Some(written);
        Ok(())
    }

    /// Waits for an answer for a limited time.
    async fn ask<T>(
        &self,
        verb: &str,
        limit: Duration,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ClusterError> {
        let action = format!("{verb} lease {}/{LEASE_NAME}", self.namespace);
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer.map_err(|error| ClusterError::from_kube(action, error)),
            Err(_) => Err(ClusterError::Unreachable { action, source: format!("silent for {limit:?}").into() }),
        }
    }

    fn extend(&self, held: &Held) {
        self.leadership.extend(self.origin + held.until());
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

impl HeldLease {
    /// Renews the Lease until the work is done, then gives it back. An error says how it was lost; nothing may be written
    /// from that moment on.
    pub(super) async fn keep(mut self, done: CancellationToken) -> Result<()> {
        tracing::info!(lease = LEASE_NAME, holder = self.lease.identity, "This server leads");
        loop {
            let wait = self.held.next_renewal().saturating_sub(self.lease.now());
            tokio::select! {
                biased;
                () = done.cancelled() => {
                    self.give_back().await;
                    return Ok(());
                }
                () = tokio::time::sleep(wait) => {}
            }
            // Whoever is told to end does not wait for an API server that is away.
            let renewed = tokio::select! {
                renewed = self.renew() => renewed,
                () = done.cancelled() => continue,
            };
            if let Err(loss) = renewed {
                self.lease.leadership.end();
                let lost = Error::LeaseLost { namespace: self.lease.namespace.clone(), loss };
                tracing::error!(error = describe(&lost), "The server stops at once");
                return Err(lost);
            }
        }
    }

    /// Renews the Lease, for as long as it takes: until it is known who has it this server writes nothing, and if nobody took
    /// it in between it goes on.
    async fn renew(&mut self) -> Result<(), Loss> {
        let mut is_told = false;
        loop {
            let (renewed, sent_at) = (written_time(), self.lease.now());
            if !self.held.is_sure(sent_at) && !std::mem::replace(&mut is_told, true) {
                tracing::warn!(
                    "The Lease could not be renewed in time: nothing is written until it is known who has it"
                );
            }
            self.held.sending(renewed.as_microsecond(), sent_at);
            let lease = self.lease.renewed(renewed);
            match self.lease.send(lease, self.lease.terms.renewal() * 2).await {
                Ok(()) => self.held.renewed(),
                Err(error) if error.is_conflict() || error.is_not_found() || error.is_already_exists() => {
                    self.look_again().await?;
                }
                Err(error) => {
                    tracing::warn!(error = describe(&error), "The Lease could not be renewed; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            self.lease.extend(&self.held);
            if self.held.next_renewal() > self.lease.now() {
                return Ok(());
            }
        }
    }

    /// Looks whether a Lease that has changed is still that of this server.
    async fn look_again(&mut self) -> Result<(), Loss> {
        let lease = &mut self.lease;
        match lease.ask("get", lease.terms.patience(), lease.api.get_opt(LEASE_NAME)).await {
            Ok(found) => {
                self.held.judge(found.as_ref().map(Said::from).as_ref(), lease.now())?;
                lease.latest = found;
            }
            Err(error) => {
                tracing::warn!(error = describe(&error), "The Lease could not be looked at; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Gives the Lease back, so that another need not wait.
    async fn give_back(mut self) {
        self.lease.leadership.end();
        let mut given = self.send_back().await;
        // A renewal that nobody waited for any more may have been written.
        if given.as_ref().is_err_and(ClusterError::is_conflict) && self.look_again().await.is_ok() {
            given = self.send_back().await;
        }
        match given {
            Ok(()) => tracing::info!(lease = LEASE_NAME, "The Lease is given back"),
            // It expires by itself.
            Err(error) => tracing::warn!(error = describe(&error), "The Lease could not be given back"),
        }
    }

    async fn send_back(&mut self) -> Result<(), ClusterError> {
        let mut lease = self.lease.renewed(written_time());
        if let Some(annotations) = &mut lease.metadata.annotations {
            annotations.remove(HOLDER_PROCESS);
        }
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
        }
        self.lease.send(lease, self.lease.terms.renewal()).await
    }
}

/// What a holder tells of its process. Others may write themselves into a Lease and leave what the last holder has told: so it says
/// of whom it is.
fn told(identity: &str, process: &Process) -> String {
    format!("{identity} {}", process.text())
}

/// The process of who holds a Lease, if that is told.
fn process_of_holder(lease: &Lease) -> Option<&str> {
    let (identity, process) = lease.metadata.annotations.as_ref()?.get(HOLDER_PROCESS)?.rsplit_once(' ')?;
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (identity == holder).then_some(process)
}

/// The time now, as exactly as a Lease can hold it: what is read there must equal what was written.
fn written_time() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;

    use super::*;

    #[test]
    fn the_process_of_another_than_the_holder_says_nothing_of_the_holder() {
        let own = Process::own().unwrap();
        let spec = LeaseSpec { holder_identity: Some("a_1".to_owned()), ..LeaseSpec::default() };
        let mut lease = Lease { spec: Some(spec), ..Lease::default() };
        assert_eq!(process_of_holder(&lease), None);
        for (text, expected) in [
            (told("a_1", &own), Some(own.text())),
            (told("b_2", &own), None),
            (own.text(), None),
            (String::new(), None),
        ] {
            let annotations = Some([(HOLDER_PROCESS.to_owned(), text.clone())].into());
            lease.metadata.annotations = annotations;
            assert_eq!(process_of_holder(&lease).map(str::to_owned), expected, "{text:?}");
        }
        lease.spec = None;
        assert_eq!(process_of_holder(&lease), None, "nobody holds it");
    }
}
