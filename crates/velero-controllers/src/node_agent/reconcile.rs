//! One transfer, a step further: what is known of it, what the rules make of that.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use velero_api::DataMovePhase;
use velero_api::metadata::{annotation, name, uid};
use velero_rules::data_move::{Ages, Facts, MoverPod, Step, next_step};

use crate::node_agent::agent::SharedAgent;
use crate::node_agent::notes::Notes;
use crate::node_agent::resources;
use crate::node_agent::transfer::{Transfer, Wanted};
use crate::node_agent::triggers::TriggerSource;
use crate::runtime::clock;
use crate::runtime::controller::Controller;
use crate::runtime::driver::{Next, Reconciler};
use crate::runtime::error::Result;

/// How often the transfers of other agents are looked at.
const OTHERS_PERIOD: Duration = Duration::from_secs(60);
/// The most steps of one transfer in a row; the next change, or a moment, brings the rest.
const STEPS: usize = 10;

/// On an object whose data was all moved: what its mover left, until the rest is done too.
pub(crate) const MOVER_RESULT: &str = "velero.io/mover-result";

/// Reconciles the transfers of one kind.
pub(crate) struct TransferReconciler<K> {
    pub(crate) agent: SharedAgent,
    pub(crate) notes: Arc<Notes>,
    pub(crate) triggers: TriggerSource,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// What a step led to.
pub(crate) enum Outcome<K> {
    /// The object is so now; there may be more to do.
    Changed(Box<K>),
    /// Nothing more to do for now.
    Rest(Next),
}

impl<K: Transfer> TransferReconciler<K> {
    pub(crate) fn new(agent: SharedAgent, triggers: TriggerSource) -> Self {
        Self { agent, notes: Arc::default(), triggers, kind: std::marker::PhantomData }
    }

    /// What is known of a transfer; `None` where somebody else looks after it and it was looked at lately.
    async fn facts(&self, object: &K, is_wanted: bool) -> Result<Option<Facts>> {
        let known = object.known();
        let (name, uid) = (name(object), uid(object));
        let mut facts = bare_facts(object, self.agent.node());
        match *known.phase {
            DataMovePhase::New => facts.mine = is_wanted,
            _ if known.phase.is_terminal() => {}
            // One that was accepted elsewhere may be prepared here at any time; later ones change often.
            DataMovePhase::Prepared | DataMovePhase::InProgress | DataMovePhase::Canceling
                if !facts.mine && self.notes.since_look(name, uid).is_some_and(|since| since < OTHERS_PERIOD) =>
            {
                return Ok(None);
            }
            _ => {
                let pods: Api<Pod> = Api::namespaced(self.agent.client(), self.agent.objects.namespace());
                let pod = resources::get(&pods, name).await?;
                // A pod of the same name that is not ours says nothing about this transfer.
                let pod = pod.filter(|pod| resources::is_owned_by(&pod.metadata, uid));
                let node = pod.as_ref().and_then(|pod| pod.spec.as_ref()?.node_name.as_deref());
                facts.pod_here = node == Some(self.agent.node());
                facts.mine |= *known.phase == DataMovePhase::Accepted && facts.pod_here;
                facts.pod = match annotation(object, MOVER_RESULT) {
                    "" => self.mover_pod(object, pod.as_ref()),
                    result => MoverPod::Succeeded(result.to_owned()),
                };
            }
        }
        let seen = self.notes.see(name, uid, facts.cancel, facts.pod == MoverPod::Missing);
        facts.ages.cancel = seen.cancel;
        facts.ages.missing = seen.missing;
        facts.ages.progress = seen.progress;
        Ok(Some(facts))
    }

    /// The state of a mover: what its pod says, or that it has told its result already and is about to end.
    fn mover_pod(&self, object: &K, pod: Option<&Pod>) -> MoverPod {
        let uid = uid(object);
        let seen = MoverPod::of(pod, uid);
        let is_moving = matches!(object.known().phase, DataMovePhase::InProgress | DataMovePhase::Canceling);
        match self.notes.result(name(object), uid).filter(|_| is_moving && seen == MoverPod::Running) {
            Some(result) => MoverPod::Succeeded(result),
            None => seen,
        }
    }

    /// Gives back the place that a transfer had among those of this node: it moves no data any more, whoever has ended it.
    pub(crate) fn give_back(&self, uid: &str) {
        self.agent.slots.give_back(uid);
        self.agent.preparing.remove(uid);
    }

    async fn step(&self, object: K) -> Result<Outcome<K>> {
        let wanted = match object.known().phase {
            DataMovePhase::New => object.is_wanted(&self.agent).await?,
            _ => {
                K::forget(&self.agent, name(&object));
                Wanted::No
            }
        };
        let is_wanted = match wanted {
            Wanted::Never(reason) if !object.known().is_cancelled => {
                return self.carry_out(object, Step::Fail(reason)).await;
            }
            Wanted::Yes | Wanted::Never(_) => true,
            Wanted::No => false,
        };
        if !is_wanted {
            self.agent.preparing.leave(K::KIND, name(&object));
        }
        let Some(facts) = self.facts(&object, is_wanted).await? else {
            return Ok(Outcome::Rest(Next::After(OTHERS_PERIOD)));
        };
        if facts.phase.is_terminal() {
            self.give_back(uid(&object));
        }
        let step = next_step(&facts, self.agent.settings.deadlines());
        tracing::debug!(kind = K::KIND, name = name(&object), phase = %facts.phase, ?step, "The next step");
        self.carry_out(object, step).await
    }
}

impl<K: Transfer> Reconciler for TransferReconciler<K> {
    type Kind = K;
    const CONTROLLER: Controller = K::CONTROLLER;
    // A transfer that waits must not keep others from being looked at.
    const CONCURRENCY: u16 = 0;

    async fn reconcile(&self, object: K) -> Result<Next> {
        if !object.is_built_in() {
            return Ok(Next::Change);
        }
        let mut object = object;
        for _ in 0..STEPS {
            match self.step(object).await? {
                Outcome::Changed(changed) => object = *changed,
                Outcome::Rest(next) => return Ok(next),
            }
        }
        Ok(Next::After(Duration::from_secs(1)))
    }

    fn forget(&self, name: &str) {
        // Somebody else may have taken its finalizer off while it moved data.
        if let Some(uid) = self.notes.forget(name) {
            self.give_back(&uid);
        }
        self.agent.preparing.leave(K::KIND, name);
        K::forget(&self.agent, name);
        K::gone(&self.agent, name);
    }
}

/// What the object itself says.
fn bare_facts<K: Transfer>(object: &K, node: &str) -> Facts {
    let known = object.known();
    let metadata = object.meta();
    let is_mine = match known.phase {
        DataMovePhase::Accepted => known.acceptor == node,
        phase if phase.is_terminal() => {
            // Whoever had it last cleans up; what nobody had, anybody lets go.
            let last = if known.mover.is_empty() { known.acceptor } else { known.mover };
            last.is_empty() || last == node
        }
        _ => known.mover == node,
    };
    Facts {
        phase: known.phase.clone(),
        cancel: known.is_cancelled,
        deleting: metadata.deletion_timestamp.is_some(),
        finalizer: metadata.finalizers.iter().flatten().any(|finalizer| finalizer == K::FINALIZER),
        mine: is_mine,
        pod: MoverPod::Missing,
        pod_here: false,
        room_to_prepare: true,
        slot: true,
        ages: Ages { accepted: age(known.accepted), ended: age(known.completed), ..Ages::default() },
    }
}

/// How long ago a moment was; nothing where it has not come.
pub(crate) fn age(moment: Option<&Time>) -> Duration {
    let now: Timestamp = clock::now();
    moment.map_or(Duration::ZERO, |moment| clock::until(now, moment.0))
}
