//! Whoever moves the data of a volume may die at any moment: the end is true, and nothing is left over.

use std::sync::{Mutex, PoisonError};

use serde_json::json;
use velero_testkit::progress::say;
use velero_testkit::{BoxKind, Edition, TestBox, harness};
use velero_tests::volume_kills::{Ending, Kills, Moment, Round, Victim};

const NAME: &str = "volume-kills";
/// One of these tests at a time has the box.
static TURN: Mutex<()> = Mutex::new(());

/// The ends that are true: the phase of the object that moves the data, and that of the backup or restore.
type Ends = &'static [(&'static str, &'static str)];

const AS_IF_NOTHING_HAPPENED: Ends = &[("Completed", "Completed")];
const DATA_IS_LOST: Ends = &[("Failed", "PartiallyFailed")];
/// A pod that dies before it is known to run is as one that cannot start, or is made again.
const MADE_AGAIN_OR_LOST: Ends = &[("Completed", "Completed"), ("Canceled", "PartiallyFailed"), DATA_IS_LOST[0]];
/// Agents go on without a server. A copy that ends before the next one cancels it, or whose data was all read by then, is
/// Completed and goes with the failed backup.
const OWNER_IS_LOST: Ends = &[("Canceled", "Failed"), ("Completed", "Failed")];
const OWNER_IS_LOST_OR_NOT: Ends = &[("Completed", "Failed"), AS_IF_NOTHING_HAPPENED[0]];
const CANCELED: Ends = &[("Canceled", "PartiallyFailed")];

/// What must come of a kill.
fn expected(victim: Victim, moment: Moment, struck: bool) -> Ends {
    match (victim, moment) {
        // Agents come back and go on with what they find; the kubelet does not touch what runs.
        (Victim::Agent | Victim::Kubelet, _) => AS_IF_NOTHING_HAPPENED,
        (Victim::Mover, Moment::CopyEnded) => AS_IF_NOTHING_HAPPENED,
        (Victim::Mover, Moment::CopyNew | Moment::CopyAccepted) if struck => MADE_AGAIN_OR_LOST,
        (Victim::Mover, _) if struck => DATA_IS_LOST,
        (Victim::Mover, _) => AS_IF_NOTHING_HAPPENED,
        // What is followed as an operation is followed by the next server; what is waited for is not.
        (Victim::Server, Moment::MoveMiddle | Moment::MoveBackMiddle) => AS_IF_NOTHING_HAPPENED,
        (Victim::Server, Moment::CopyEnded) => OWNER_IS_LOST_OR_NOT,
        (Victim::Server, _) => OWNER_IS_LOST,
        (Victim::StillMover, _) => CANCELED,
        (Victim::LostKubelet, _) => DATA_IS_LOST,
    }
}

/// Says what is wrong with an end.
fn judged(victim: Victim, moment: Moment, ending: &Ending) -> Option<String> {
    let expected = expected(victim, moment, ending.struck);
    let is_true = expected.contains(&(ending.object.as_str(), ending.owner.as_str())) && ending.untrue.is_empty();
    (!is_true).then(|| format!("{victim:?} at {moment:?}: {ending:?}, true would be one of {expected:?}"))
}

/// Says what is wrong with what came of a kill.
fn wrong_in(victim: Victim, round: anyhow::Result<Round>) -> Vec<String> {
    let round = match round {
        Ok(round) => round,
        Err(problem) => return vec![format!("{victim:?}: {problem:#}")],
    };
    let cases = round.endings.iter().filter_map(|(moment, ending)| match ending {
        Ok(ending) => judged(victim, *moment, ending),
        Err(problem) => Some(format!("{victim:?} at {moment:?}: {problem:#}")),
    });
    let left = round.left.iter().map(|left| format!("{victim:?}: {left} is left over"));
    cases.chain(left).collect()
}

fn in_box(work: impl FnOnce(&Kills) -> Vec<String> + Send + 'static) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    TestBox::down(NAME).unwrap();
    harness::run(NAME, BoxKind::Storage, async move |cluster| {
        let kills = Kills::start(&cluster, Edition::Ours).await.unwrap();
        let wrong = work(&kills);
        wrong.iter().for_each(|wrong| say(format!("WRONG {wrong}")));
        kills.finish().unwrap();
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    });
    TestBox::down(NAME).unwrap();
}

#[test]
#[ignore = "four minutes, and movers are held for as long as the machine needs to bring eight of them to their moments"]
fn each_of_those_who_move_data_may_die_at_any_moment() {
    in_box(|kills| {
        let moments: [&[Moment]; 3] = [&Moment::TOGETHER, &[Moment::CopyNew], &[Moment::CopyEnded]];
        let rounds = Victim::EVERY.into_iter().flat_map(|victim| moments.map(|moments| (victim, moments)));
        rounds.flat_map(|(victim, moments)| wrong_in(victim, kills.round(victim, moments))).collect()
    });
}

/// The moments at which a mover stops for good in the tests of deadlines.
const STILL: [Moment; 4] = [Moment::CopyMiddle, Moment::MoveMiddle, Moment::CopyBackMiddle, Moment::MoveBackMiddle];

#[test]
fn a_mover_that_stands_still_is_cancelled() {
    in_box(|kills| {
        kills.tell_agents("--data-mover-still-timeout=30s").unwrap();
        let round = kills.round(Victim::StillMover, &STILL).unwrap();
        let mut wrong = told_why(&round, "reported no progress for 30s");
        wrong.extend(wrong_in(Victim::StillMover, Ok(round)));
        wrong
    });
}

#[test]
#[ignore = "five minutes"]
fn a_mover_that_never_starts_or_ends_does_not_outlive_the_deadlines() {
    in_box(|kills| {
        // The agent would notice later than the server that a mover stands still.
        kills.tell_agents("--data-mover-still-timeout=100s").unwrap();
        let copies = json!({"velero.io/pod-volume-timeout": "60s"});
        let round = kills.round_with(Victim::StillMover, &STILL, &copies, &json!({"itemOperationTimeout": "60s"}));
        let round = round.unwrap();
        let mut wrong = told_why(&round, "did not end when told to");
        wrong.extend(wrong_in(Victim::StillMover, Ok(round)));
        kills.tell_agents("--data-mover-prepare-timeout=20s").unwrap();
        for moment in [Moment::CopyNew, Moment::MoveNew] {
            let round = kills.round(Victim::LostKubelet, &[moment]).unwrap();
            wrong.extend(told_why(&round, "timeout on preparing"));
            wrong.extend(wrong_in(Victim::LostKubelet, Ok(round)));
        }
        wrong
    });
}

/// Which objects do not say why they were cancelled.
fn told_why(round: &Round, reason: &str) -> Vec<String> {
    let endings = round.endings.iter().filter_map(|(moment, ending)| Some((moment, ending.as_ref().ok()?)));
    let silent = endings.filter(|(_, ending)| !ending.message.contains(reason));
    silent.map(|(moment, ending)| format!("{moment:?} does not say {reason:?}: {}", ending.message)).collect()
}
