//! Whoever moves the data of a volume may die at any moment: the end is true, and nothing is left over.

use velero_testkit::progress::say;
use velero_testkit::{BoxKind, Edition, TestBox, harness};
use velero_tests::volume_kills::{Ending, Kills, Moment, Victim};

const NAME: &str = "volume-kills";

/// The ends that are true: the phase of the object that moves the data, and that of the backup or restore.
type Ends = &'static [(&'static str, &'static str)];

const AS_IF_NOTHING_HAPPENED: Ends = &[("Completed", "Completed")];
const DATA_IS_LOST: Ends = &[("Failed", "PartiallyFailed"), ("Canceled", "PartiallyFailed")];
/// A copy that ends before the next server is there to cancel it is Completed; it goes with the failed backup.
const OWNER_IS_LOST: Ends = &[("Canceled", "Failed"), ("Failed", "Failed"), ("Completed", "Failed")];
const OWNER_IS_LOST_OR_NOT: Ends = &[("Completed", "Failed"), ("Completed", "Completed")];

/// What must come of a kill.
fn expected(victim: Victim, moment: Moment, struck: bool) -> Ends {
    match (victim, moment) {
        // Agents come back and go on with what they find; the kubelet does not touch what runs.
        (Victim::Agent | Victim::Kubelet, _) => AS_IF_NOTHING_HAPPENED,
        (Victim::Mover, Moment::CopyEnded) => AS_IF_NOTHING_HAPPENED,
        (Victim::Mover, _) if struck => DATA_IS_LOST,
        (Victim::Mover, _) => AS_IF_NOTHING_HAPPENED,
        // What is followed as an operation is followed by the next server; what is waited for is not.
        (Victim::Server, Moment::MoveMiddle | Moment::MoveBackMiddle) => AS_IF_NOTHING_HAPPENED,
        (Victim::Server, Moment::CopyEnded) => OWNER_IS_LOST_OR_NOT,
        (Victim::Server, _) => OWNER_IS_LOST,
    }
}

/// Says what is wrong with an end.
fn judged(victim: Victim, moment: Moment, ending: &Ending) -> Option<String> {
    let expected = expected(victim, moment, ending.struck);
    let is_true = expected.contains(&(ending.object.as_str(), ending.owner.as_str()));
    let is_clean = ending.left.is_empty();
    (!is_true || !is_clean).then(|| format!("{victim:?} at {moment:?}: {ending:?}, true would be one of {expected:?}"))
}

fn run(edition: Edition, cases: Vec<(Victim, Moment)>) {
    TestBox::down(NAME).unwrap();
    harness::run(NAME, BoxKind::Storage, async move |cluster| {
        let kills = Kills::start(&cluster, edition).await.unwrap();
        let mut wrong = Vec::new();
        for (victim, moment) in cases {
            let ending = kills.case(victim, moment);
            say(format!("{victim:?} at {moment:?}: {ending:?}"));
            match ending {
                Ok(ending) => wrong.extend(judged(victim, moment, &ending)),
                Err(problem) => wrong.push(format!("{victim:?} at {moment:?}: {problem:#}")),
            }
        }
        kills.finish().unwrap();
        assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    });
    TestBox::down(NAME).unwrap();
}

#[test]
#[ignore = "one of the long ones"]
fn each_of_those_who_move_data_may_die_in_the_middle() {
    run(Edition::Ours, Victim::EVERY.map(|victim| (victim, Moment::CopyMiddle)).to_vec());
}

#[test]
#[ignore = "half an hour"]
fn each_of_those_who_move_data_may_die_at_any_moment() {
    let all = Victim::EVERY.iter().flat_map(|victim| Moment::EVERY.map(|moment| (*victim, moment)));
    run(Edition::Ours, all.collect());
}

#[test]
#[ignore = "it says what the original does, which is not what it should"]
fn the_original_and_kills() {
    run(Edition::Peer, Victim::EVERY.map(|victim| (victim, Moment::CopyMiddle)).to_vec());
}
