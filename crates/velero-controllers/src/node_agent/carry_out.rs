//! Carrying out a step of a transfer: writing its phase, and what belongs to that.

use std::time::{Duration, Instant};

use velero_api::metadata::{annotation, label, name, uid};
use velero_api::{DataMovePhase, labels};
use velero_rules::data_move::{Step, can_become};

use crate::node_agent::metrics::EndedTransfer;
use crate::node_agent::preparing::Room;
use crate::node_agent::reconcile::{MOVER_RESULT, Outcome, TransferReconciler, age};
use crate::node_agent::transfer::{Made, Owner, Transfer};
use crate::node_agent::{diagnosis, follow, resources};
use crate::runtime::clock::now_time;
use crate::runtime::driver::Next;
use crate::runtime::error::{Error, Result, describe};

/// How soon one that found no room to be prepared is looked at again.
const QUEUE_PERIOD: Duration = Duration::from_secs(2);
/// How soon one that is not at the front of those is looked at again, should nobody wake it.
const FURTHER_BACK: Duration = Duration::from_secs(60);
/// How soon one that found no slot is looked at again, should nobody wake it.
const SLOT_PERIOD: Duration = Duration::from_secs(5);
/// The soonest and the latest that one which waits for others is looked at again: a thousand of them must not keep the API
/// server busy.
const SOONEST_LOOK: Duration = Duration::from_millis(500);
const LATEST_LOOK: Duration = Duration::from_secs(30);

impl<K: Transfer> TransferReconciler<K> {
    /// Does a step, and tells what the object is like then.
    pub(crate) async fn carry_out(&self, object: K, step: Step) -> Result<Outcome<K>> {
        match step {
            Step::Wait(None) => Ok(Outcome::Rest(Next::Change)),
            Step::Wait(Some(time)) => Ok(Outcome::Rest(Next::After(time))),
            Step::Accept => self.accept(object).await,
            Step::Expose => self.expose(object).await,
            Step::Prepare => self.prepare(object).await,
            Step::Start => self.start(object).await,
            Step::Follow(time) => self.follow(object, time).await,
            Step::Cancel(reason) => self.cancel(object, &reason).await,
            Step::AwaitCancel => self.move_to(object, DataMovePhase::Canceling, |_| {}).await,
            Step::Complete(result) => self.complete(object, &result).await,
            Step::Fail(reason) => self.fail(object, &reason).await,
            Step::FailLate(reason) => self.fail_late(object, reason).await,
            Step::EndCanceled(reason) => self.end(object, DataMovePhase::Canceled, &reason).await,
            Step::CleanUp => self.clean_up(object).await,
        }
    }

    async fn accept(&self, object: K) -> Result<Outcome<K>> {
        let _one_at_a_time = self.agent.accepting.lock().await;
        if !self.agent.preparing.queue(K::KIND, name(&object), || self.triggers.trigger(name(&object))) {
            return Ok(Outcome::Rest(Next::After(FURTHER_BACK)));
        }
        if !self.has_room().await? {
            return Ok(Outcome::Rest(Next::After(QUEUE_PERIOD)));
        }
        let node = self.agent.node();
        tracing::info!(kind = K::KIND, name = name(&object), subject = object.subject(), "Accepted");
        let accepted = self.move_to(object, DataMovePhase::Accepted, |object| {
            *object.fields().accepted = Some(now_time());
            object.accepted_by(node);
            let labels = object.meta_mut().labels.get_or_insert_default();
            labels.insert(labels::EXPOSE_ON_GOING.to_owned(), "true".to_owned());
        });
        let accepted = accepted.await?;
        // One that another agent was quicker to take is not prepared by this one.
        if let Outcome::Changed(object) = &accepted {
            self.agent.preparing.add(uid(&**object));
            self.agent.preparing.leave(K::KIND, name(&**object));
        }
        Ok(accepted)
    }

    /// Whether one more may be prepared: by the rule for the whole cluster, or where there is none by that for this agent.
    async fn has_room(&self) -> Result<bool> {
        let agent = &self.agent;
        let most = agent.config.load_concurrency.prepare_queue_length;
        if most > 0 {
            return Ok(resources::prepared(&agent.objects).await?.len() < most);
        }
        if agent.preparing.room(Instant::now()) == Room::Look {
            agent.preparing.keep(&resources::prepared(&agent.objects).await?);
        }
        Ok(agent.preparing.room(Instant::now()) == Room::Free)
    }

    async fn expose(&self, object: K) -> Result<Outcome<K>> {
        let made = match object.due(&self.agent).await {
            Ok(None) => return self.wait_without_place(object).await,
            Ok(Some(_)) if !has_place(&object) => return self.queue_again(object).await,
            Ok(Some(due)) => object.expose(&self.agent, due).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(Made::Done) => Ok(Outcome::Rest(Next::After(self.agent.settings.deadlines().prepare))),
            Ok(Made::NotYet(time)) => Ok(Outcome::Rest(Next::After(time))),
            Err(error) if resources::may_pass(&error) => Err(error),
            Err(error) => self.fail(object, &describe(&error)).await,
        }
    }

    /// One that has to wait for others gives its place to those that need not. It is looked at again after a tenth of the
    /// time it has waited.
    async fn wait_without_place(&self, object: K) -> Result<Outcome<K>> {
        if has_place(&object) {
            let mut waiting = object.clone();
            remove_queue_label(&mut waiting);
            self.agent.objects.patch(&object, &waiting).await?;
            self.agent.preparing.remove(uid(&object));
        }
        let waited = age(object.known().accepted);
        Ok(Outcome::Rest(Next::After((waited / 10).clamp(SOONEST_LOOK, LATEST_LOOK))))
    }

    /// One that need not wait for others any more is queued for a place; its time to be prepared begins with that.
    async fn queue_again(&self, object: K) -> Result<Outcome<K>> {
        let queued = self.move_to(object, DataMovePhase::New, |object| {
            *object.fields().accepted = None;
            object.accepted_by("");
        });
        queued.await
    }

    async fn prepare(&self, object: K) -> Result<Outcome<K>> {
        let node = self.agent.node();
        self.move_to(object, DataMovePhase::Prepared, |object| object.prepared_by(node)).await
    }

    async fn start(&self, object: K) -> Result<Outcome<K>> {
        let uid = uid(&object).to_owned();
        if !self.agent.slots.take(&uid, || self.triggers.trigger(name(&object))) {
            return Ok(Outcome::Rest(Next::After(SLOT_PERIOD)));
        }
        tracing::info!(kind = K::KIND, name = name(&object), subject = object.subject(), "Data begins to move");
        let started = self.move_to(object, DataMovePhase::InProgress, |object| {
            *object.fields().started = Some(now_time());
            remove_queue_label(object);
        });
        let started = started.await;
        match &started {
            Ok(Outcome::Changed(object)) => {
                self.agent.preparing.remove(&uid);
                object.count_begin(&self.agent);
            }
            Ok(Outcome::Rest(_)) => {}
            // It is looked at again, and takes a slot then.
            Err(_) => self.agent.slots.give_back(&uid),
        }
        started
    }

    /// Follows a mover, and writes down what it has reported since.
    async fn follow(&self, object: K, patience: Duration) -> Result<Outcome<K>> {
        let (name, uid) = (name(&object).to_owned(), uid(&object).to_owned());
        self.agent.slots.hold(&uid);
        self.notes.follow(&name, &uid, || {
            follow::spawn::<K>(&self.agent, self.notes.clone(), self.triggers.trigger(&name), &name, &uid)
        });
        let wanted = self.notes.reported(&name, &uid).filter(|reported| reported.total_bytes + reported.bytes_done > 0);
        let known = object.known().progress;
        let changed =
            wanted.filter(|wanted| (wanted.total_bytes, wanted.bytes_done) != (known.total_bytes, known.bytes_done));
        if let Some(reported) = changed {
            let mut after = object.clone();
            let progress = after.fields().progress;
            (progress.total_bytes, progress.bytes_done) = (reported.total_bytes, reported.bytes_done);
            self.agent.objects.patch(&object, &after).await?;
        }
        Ok(Outcome::Rest(Next::After(patience)))
    }

    async fn cancel(&self, object: K, reason: &str) -> Result<Outcome<K>> {
        tracing::warn!(kind = K::KIND, name = name(&object), reason, "A cancel is asked for");
        let mut after = object.clone();
        after.cancel();
        *after.fields().message = told(&object, reason);
        Ok(Outcome::Changed(Box::new(self.agent.objects.patch(&object, &after).await?)))
    }

    async fn complete(&self, object: K, result: &str) -> Result<Outcome<K>> {
        if let Err(error) = object.clone().take_result(result) {
            let reason = format!("the result {result:?} that the mover left cannot be read: {error}");
            return self.fail(object, &reason).await;
        }
        if K::FINISHES && annotation(&object, MOVER_RESULT).is_empty() {
            let mut after = object.clone();
            let annotations = after.meta_mut().annotations.get_or_insert_default();
            annotations.insert(MOVER_RESULT.to_owned(), result.to_owned());
            let noted = self.agent.objects.patch(&object, &after).await?;
            // What is left moves no data: the next may begin meanwhile.
            self.agent.slots.give_back(uid(&noted));
            return Ok(Outcome::Changed(Box::new(noted)));
        }
        let patience = self.agent.settings.patience.resource_timeout;
        match object.finish(&self.agent).await {
            Ok(Made::Done) => {}
            Ok(Made::NotYet(time)) => {
                return match self.notes.since_moved(name(&object), uid(&object)) < patience.to_std() {
                    true => Ok(Outcome::Rest(Next::After(time))),
                    false => {
                        self.fail(object, &format!("the volume could not be given to its claim within {patience}"))
                            .await
                    }
                };
            }
            Err(error) if resources::may_pass(&error) => return Err(error),
            Err(error) => return self.fail(object, &describe(&error)).await,
        }
        let mut ended = object.clone();
        // It was read above.
        let _ = ended.take_result(result);
        self.write_end(object, ended, DataMovePhase::Completed, "").await
    }

    async fn fail(&self, object: K, reason: &str) -> Result<Outcome<K>> {
        if *object.known().phase == DataMovePhase::InProgress {
            follow::copy_log::<K>(&self.agent, name(&object)).await;
        }
        self.end(object, DataMovePhase::Failed, reason).await
    }

    /// Ends one whose data was not reachable in time, with all that is known of why: what was made for it goes now.
    async fn fail_late(&self, object: K, reason: String) -> Result<Outcome<K>> {
        let mut words = vec![reason];
        words.extend(object.awaited(&self.agent).await);
        words.extend(diagnosis::of_made(&self.agent, &Owner::of(&object)).await);
        self.fail(object, &words.join("; ")).await
    }

    async fn end(&self, object: K, phase: DataMovePhase, reason: &str) -> Result<Outcome<K>> {
        let ended = object.clone();
        self.write_end(object, ended, phase, reason).await
    }

    async fn write_end(&self, before: K, mut ended: K, phase: DataMovePhase, reason: &str) -> Result<Outcome<K>> {
        check_move(&before, &phase)?;
        let fields = ended.fields();
        let message = last_words(&before.subject(), &phase, fields.message, reason);
        *fields.phase = Some(phase.clone());
        fields.started.get_or_insert_with(now_time);
        *fields.completed = Some(now_time());
        fields.message.clone_from(&message);
        remove_queue_label(&mut ended);
        if let Some(annotations) = &mut ended.meta_mut().annotations {
            annotations.remove(MOVER_RESULT);
        }
        let written = self.agent.objects.patch(&before, &ended).await?;
        match phase {
            DataMovePhase::Completed => {
                tracing::info!(kind = K::KIND, name = name(&written), subject = written.subject(), "Completed");
            }
            _ => tracing::error!(kind = K::KIND, name = name(&written), %phase, error = message, "It has ended"),
        }
        self.give_back(uid(&written));
        written.count_end(&self.agent);
        self.agent.metrics.ended(end_of(&written));
        Ok(Outcome::Changed(Box::new(written)))
    }

    async fn clean_up(&self, object: K) -> Result<Outcome<K>> {
        if let Made::NotYet(time) = object.clean_up(&self.agent).await? {
            return Ok(Outcome::Rest(Next::After(time)));
        }
        let mut after = object.clone();
        if let Some(finalizers) = &mut after.meta_mut().finalizers {
            finalizers.retain(|finalizer| finalizer != K::FINALIZER);
        }
        match self.agent.objects.patch(&object, &after).await {
            // One that was being deleted goes with its last finalizer.
            Ok(_) => {}
            Err(Error::Cluster(error)) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        self.notes.forget(name(&object));
        tracing::debug!(kind = K::KIND, owner = Owner::of(&object).name, "Cleaned up");
        Ok(Outcome::Rest(Next::Change))
    }

    /// Writes a phase on the way to the end; the object is kept from now on until it is cleaned up.
    async fn move_to(&self, object: K, phase: DataMovePhase, change: impl FnOnce(&mut K)) -> Result<Outcome<K>> {
        check_move(&object, &phase)?;
        let mut after = object.clone();
        *after.fields().phase = Some(phase);
        // Nothing can be added to the finalizers of an object that is being deleted.
        if after.meta().deletion_timestamp.is_none() {
            let finalizers = after.meta_mut().finalizers.get_or_insert_default();
            if !finalizers.iter().any(|finalizer| finalizer == K::FINALIZER) {
                finalizers.push(K::FINALIZER.to_owned());
            }
        }
        change(&mut after);
        Ok(Outcome::Changed(Box::new(self.agent.objects.patch(&object, &after).await?)))
    }
}

fn check_move<K: Transfer>(object: &K, phase: &DataMovePhase) -> Result<()> {
    let current = object.known().phase;
    match can_become(current, phase) {
        true => Ok(()),
        false => Err(Error::invalid(K::KIND, name(object), format!("it cannot move from phase {current} to {phase}"))),
    }
}

fn told<K: Transfer>(object: &K, reason: &str) -> String {
    format!("{}: {reason}", object.subject())
}

/// What an object says when it has ended: which volume it is about, who asked for a cancel and why, and what came of it.
fn last_words(subject: &str, phase: &DataMovePhase, said: &str, reason: &str) -> String {
    let known = said.strip_prefix(&format!("{subject}: ")).unwrap_or(said);
    match phase {
        // A cancel that came too late has no say.
        DataMovePhase::Completed => String::new(),
        DataMovePhase::Canceled => {
            let words = [known, reason].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
            let words = if words.is_empty() { "cancelled as asked for (spec.cancel)" } else { &words };
            format!("{subject}: {words}")
        }
        _ => format!("{subject}: {reason}"),
    }
}

/// How a transfer ended, for the metrics.
fn end_of<K: Transfer>(object: &K) -> EndedTransfer<'_> {
    let known = object.known();
    let seconds =
        known.started.zip(known.completed).map(|(begun, ended)| ended.0.duration_since(begun.0).as_secs_f64());
    EndedTransfer { kind: K::KIND, phase: known.phase, bytes: known.progress.bytes_done, seconds }
}

/// Whether it takes a place among those that are prepared.
fn has_place<K: Transfer>(object: &K) -> bool {
    label(object, labels::EXPOSE_ON_GOING) == "true"
}

fn remove_queue_label<K: Transfer>(object: &mut K) {
    if let Some(labels) = &mut object.meta_mut().labels {
        labels.remove(labels::EXPOSE_ON_GOING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_name_the_volume_and_every_reason() {
        use DataMovePhase::{Canceled, Completed, Failed};
        let subject = "volume \"data\" of pod n/p";
        for (phase, said, reason, expected) in [
            (Completed, "", "", ""),
            (Completed, "volume \"data\" of pod n/p: cancelled, too late", "", ""),
            (Failed, "", "no space", "volume \"data\" of pod n/p: no space"),
            (Failed, "stale", "no space", "volume \"data\" of pod n/p: no space"),
            (Canceled, "", "", "volume \"data\" of pod n/p: cancelled as asked for (spec.cancel)"),
            (Canceled, "the server was restarted", "", "volume \"data\" of pod n/p: the server was restarted"),
            (
                Canceled,
                "volume \"data\" of pod n/p: no progress",
                "its pod was removed",
                "volume \"data\" of pod n/p: no progress; its pod was removed",
            ),
        ] {
            assert_eq!(last_words(subject, &phase, said, reason), expected);
        }
    }
}
