//! What becomes of an object that moves the data of a volume: PodVolumeBackup, PodVolumeRestore, DataUpload, DataDownload.
//!
//! All four live alike. A node agent takes one (Accepted), makes its data reachable for a pod (Prepared), lets that pod
//! begin when it has a slot for it (InProgress) and writes down how it ended. [`next_step`] takes what is known and says
//! what to do; whoever does it asks again afterwards. Since nothing is remembered between two questions, an agent that
//! was restarted goes on where the one before it stopped.

mod pod;
#[cfg(test)]
mod tests;

use std::time::Duration;

use velero_api::DataMovePhase;

pub use pod::MoverPod;

/// How long the agent whose work it is has before others write the end of a transfer in its place.
const OTHERS_STEP_IN: Duration = Duration::from_secs(300);
/// How long a cancel may go unheard. A mover that hears it ends within a minute, whatever it waits for.
const CANCEL_PATIENCE: Duration = Duration::from_secs(300);

/// What is known of a transfer, of its pod and of this agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Where it is in its life.
    pub phase: DataMovePhase,
    /// Whether somebody asked for a cancel.
    pub cancel: bool,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// Whether the object is kept until it is cleaned up.
    pub finalizer: bool,
    /// Whether it is this agent's work in this phase.
    pub mine: bool,
    /// The pod that moves the data.
    pub pod: MoverPod,
    /// Whether that pod is on this agent's node.
    pub pod_here: bool,
    /// Whether one more may be prepared.
    pub room_to_prepare: bool,
    /// Whether one more may move data on this node.
    pub slot: bool,
    /// How long ago something happened.
    pub ages: Ages,
}

/// How long ago something happened; nothing where it has not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    /// It was accepted.
    pub accepted: Duration,
    /// This agent saw that a cancel was asked for.
    pub cancel: Duration,
    /// The mover last reported progress that differed from the report before, or data began to move.
    pub progress: Duration,
    /// This agent saw that the pod is missing.
    pub missing: Duration,
    /// It ended.
    pub ended: Duration,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Until the data is reachable.
    pub prepare: Duration,
    /// Until a mover that reports no progress counts as standing still.
    pub still: Duration,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing until something changes, or until this much later.
    Wait(Option<Duration>),
    /// Take it: Accepted.
    Accept,
    /// Make the data reachable, as far as that goes now.
    Expose,
    /// The data is reachable: Prepared.
    Prepare,
    /// Let the mover begin: InProgress.
    Start,
    /// Follow what the mover reports; look again after this long at the latest.
    Follow(Duration),
    /// Ask for a cancel, and say why.
    Cancel(String),
    /// The mover is told to end: Canceling.
    AwaitCancel,
    /// Take over what the mover reports as its result: Completed.
    Complete(String),
    /// It failed for this reason: Failed.
    Fail(String),
    /// Its data was not reachable in time, which is the reason; what keeps it is to be found out: Failed.
    FailLate(String),
    /// It was cancelled; a reason where the agent has one: Canceled.
    EndCanceled(String),
    /// Remove what was made for it, then let the object go.
    CleanUp,
}

/// Says whether a transfer may move from one phase to another. Whoever writes a phase asks here.
pub fn can_become(from: &DataMovePhase, to: &DataMovePhase) -> bool {
    use DataMovePhase::*;
    let allowed: &[DataMovePhase] = match from {
        New => &[Accepted, Canceled, Failed],
        // One that had to wait for others is queued again.
        Accepted => &[New, Prepared, Canceled, Failed],
        Prepared => &[InProgress, Canceled, Failed],
        InProgress => &[Canceling, Canceled, Completed, Failed],
        Canceling => &[Canceled, Completed, Failed],
        Canceled | Completed | Failed | Unknown(_) => &[],
    };
    allowed.contains(to)
}

/// What to do with a transfer next.
pub fn next_step(facts: &Facts, deadlines: Deadlines) -> Step {
    use DataMovePhase::*;
    if facts.phase.is_terminal() {
        return after_the_end(facts);
    }
    if matches!(facts.phase, Unknown(_)) {
        return Step::Wait(None);
    }
    if !facts.mine {
        return in_place_of_others(facts, deadlines);
    }
    if facts.deleting && !facts.cancel {
        return Step::Cancel("cancelled because the object is being deleted".to_owned());
    }
    match facts.phase {
        New | Unknown(_) => new(facts),
        Accepted => accepted(facts, deadlines),
        Prepared => prepared(facts),
        InProgress | Canceling | Canceled | Completed | Failed => moving(facts, deadlines),
    }
}

fn after_the_end(facts: &Facts) -> Step {
    match () {
        () if !facts.finalizer => Step::Wait(None),
        () if facts.mine || facts.ages.ended >= OTHERS_STEP_IN => Step::CleanUp,
        () => wait_until(OTHERS_STEP_IN, facts.ages.ended),
    }
}

/// Work of another agent, which may be gone for good: its ends are written by whoever is left, late.
fn in_place_of_others(facts: &Facts, deadlines: Deadlines) -> Step {
    use DataMovePhase::*;
    let patience = match facts.phase {
        InProgress | Canceling => CANCEL_PATIENCE + OTHERS_STEP_IN,
        _ => CANCEL_PATIENCE,
    };
    if facts.cancel {
        return match facts.ages.cancel >= patience {
            true => Step::EndCanceled(String::new()),
            false => wait_until(patience, facts.ages.cancel),
        };
    }
    match facts.phase {
        Accepted => {
            let patience = deadlines.prepare + OTHERS_STEP_IN;
            match facts.ages.accepted >= patience {
                true => Step::FailLate(prepare_timeout(deadlines)),
                false => wait_until(patience, facts.ages.accepted),
            }
        }
        Prepared | InProgress | Canceling if facts.pod == MoverPod::Missing => {
            match facts.ages.missing >= OTHERS_STEP_IN {
                true => Step::Fail("the pod that moved the data is gone, and so is the agent of its node".to_owned()),
                false => wait_until(OTHERS_STEP_IN, facts.ages.missing),
            }
        }
        // A pod that a lost node had is removed without its agent telling anybody.
        Prepared | InProgress | Canceling => Step::Wait(Some(Duration::from_secs(60))),
        _ => Step::Wait(None),
    }
}

fn new(facts: &Facts) -> Step {
    match () {
        () if facts.cancel => Step::EndCanceled(String::new()),
        () if facts.room_to_prepare => Step::Accept,
        () => Step::Wait(Some(Duration::from_secs(2))),
    }
}

fn accepted(facts: &Facts, deadlines: Deadlines) -> Step {
    if facts.cancel {
        return Step::EndCanceled(String::new());
    }
    match &facts.pod {
        MoverPod::Running if facts.pod_here => return Step::Prepare,
        MoverPod::Stuck(reason) | MoverPod::Failed(reason) => {
            return Step::EndCanceled(format!("cancelled because the pod cannot start: {reason}"));
        }
        MoverPod::Succeeded(_) => return Step::Fail("the pod ended before it was told to begin".to_owned()),
        MoverPod::Missing | MoverPod::Waiting | MoverPod::Running => {}
    }
    match () {
        () if facts.ages.accepted >= deadlines.prepare => Step::FailLate(prepare_timeout(deadlines)),
        () if facts.pod == MoverPod::Missing => Step::Expose,
        () => wait_until(deadlines.prepare, facts.ages.accepted),
    }
}

fn prepared(facts: &Facts) -> Step {
    if facts.cancel {
        return Step::EndCanceled(String::new());
    }
    match &facts.pod {
        MoverPod::Running if facts.slot => Step::Start,
        // A slot that is given back wakes those who wait; looking again covers a wake-up that got lost.
        MoverPod::Running | MoverPod::Waiting => Step::Wait(Some(Duration::from_secs(5))),
        MoverPod::Missing => Step::Fail("the pod was removed before it could begin".to_owned()),
        MoverPod::Stuck(reason) | MoverPod::Failed(reason) => Step::Fail(reason.clone()),
        MoverPod::Succeeded(_) => Step::Fail("the pod ended before it was told to begin".to_owned()),
    }
}

fn moving(facts: &Facts, deadlines: Deadlines) -> Step {
    let is_still = facts.ages.progress >= deadlines.still;
    match &facts.pod {
        MoverPod::Succeeded(result) => Step::Complete(result.clone()),
        MoverPod::Failed(_) | MoverPod::Missing if facts.cancel => Step::EndCanceled(String::new()),
        MoverPod::Failed(reason) if pod::is_cancel(reason) => Step::EndCanceled(String::new()),
        MoverPod::Failed(reason) | MoverPod::Stuck(reason) => Step::Fail(reason.clone()),
        MoverPod::Missing => Step::Fail("the pod that moved the data was removed before it was done".to_owned()),
        MoverPod::Running | MoverPod::Waiting if facts.cancel => canceling(facts, deadlines),
        MoverPod::Running | MoverPod::Waiting if is_still => Step::Cancel(format!(
            "cancelled because the mover reported no progress for {}; look at the node and the storage, or raise \
             --data-mover-still-timeout",
            in_words(deadlines.still)
        )),
        MoverPod::Running | MoverPod::Waiting => Step::Follow(deadlines.still - facts.ages.progress),
    }
}

/// A mover that is told to end has no more time for that than it had to report.
fn canceling(facts: &Facts, deadlines: Deadlines) -> Step {
    if facts.phase == DataMovePhase::InProgress {
        return Step::AwaitCancel;
    }
    let patience = CANCEL_PATIENCE.min(deadlines.still);
    match patience.checked_sub(facts.ages.cancel).filter(|left| !left.is_zero()) {
        Some(left) => Step::Follow(left),
        None => Step::EndCanceled("the mover did not end when told to, so its pod was removed".to_owned()),
    }
}

fn prepare_timeout(deadlines: Deadlines) -> String {
    format!(
        "timeout on preparing: the data was not reachable for a pod within {}; put right what keeps it, or raise \
         --data-mover-prepare-timeout",
        in_words(deadlines.prepare)
    )
}

fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

fn wait_until(deadline: Duration, age: Duration) -> Step {
    Step::Wait(Some(deadline.saturating_sub(age)))
}
