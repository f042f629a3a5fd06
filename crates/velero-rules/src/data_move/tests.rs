use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

const PREPARE: u64 = 1800;
const STILL: u64 = 900;
const DEADLINES: Deadlines = Deadlines { prepare: Duration::from_secs(PREPARE), still: Duration::from_secs(STILL) };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A transfer of this agent, in that phase, with that pod on this node.
fn facts(phase: DataMovePhase, pod: MoverPod) -> Facts {
    Facts {
        phase,
        cancel: false,
        deleting: false,
        finalizer: true,
        mine: true,
        pod,
        pod_here: true,
        room_to_prepare: true,
        slot: true,
        ages: Ages::default(),
    }
}

/// The word of a step, and its message where it has one.
fn told(step: &Step) -> String {
    match step {
        Step::Wait(None) => "wait".to_owned(),
        Step::Wait(Some(time)) => format!("wait {}", time.as_secs()),
        Step::Follow(time) => format!("follow {}", time.as_secs()),
        Step::Accept => "accept".to_owned(),
        Step::Expose => "expose".to_owned(),
        Step::Prepare => "prepare".to_owned(),
        Step::Start => "start".to_owned(),
        Step::AwaitCancel => "await cancel".to_owned(),
        Step::CleanUp => "clean up".to_owned(),
        Step::Cancel(message) => format!("cancel: {message}"),
        Step::Complete(message) => format!("complete: {message}"),
        Step::Fail(message) => format!("fail: {message}"),
        Step::FailLate(message) => format!("fail late: {message}"),
        Step::EndCanceled(message) => format!("canceled: {message}"),
    }
}

fn check(rows: Vec<(&str, Facts, &str)>) {
    for (title, facts, expected) in rows {
        let step = told(&next_step(&facts, DEADLINES));
        assert!(step.starts_with(expected), "{title}: {step:?} instead of {expected:?}");
    }
}

#[test]
fn the_table_of_moves_is_as_agreed() {
    let expected = [
        ".x...x.x", // New
        "x.x..x.x", // Accepted
        "...x.x.x", // Prepared
        "....xxxx", // InProgress
        ".....xxx", // Canceling
        "........", // Canceled
        "........", // Completed
        "........", // Failed
    ];
    let mark = |from, to| if can_become(from, to) { 'x' } else { '.' };
    let table: Vec<String> =
        DataMovePhase::ALL.iter().map(|from| DataMovePhase::ALL.iter().map(|to| mark(from, to)).collect()).collect();
    assert_eq!(table, expected);
}

#[test]
fn a_new_transfer_is_taken_by_the_agent_it_is_for() {
    use DataMovePhase::New;
    use MoverPod::Missing;
    let new = || facts(New, Missing);
    let long_cancelled = Ages { cancel: seconds(300), ..Ages::default() };
    check(vec![
        ("there is room", new(), "accept"),
        ("no room", Facts { room_to_prepare: false, ..new() }, "wait 2"),
        ("another agent's", Facts { mine: false, ..new() }, "wait"),
        ("cancelled", Facts { cancel: true, ..new() }, "canceled: "),
        ("cancelled, no room", Facts { cancel: true, room_to_prepare: false, ..new() }, "canceled: "),
        ("deleted", Facts { deleting: true, ..new() }, "cancel: cancelled because the object is being deleted"),
        ("deleted and cancelled", Facts { deleting: true, cancel: true, ..new() }, "canceled: "),
        ("another's, cancelled", Facts { mine: false, cancel: true, ..new() }, "wait 300"),
        ("another's, cancel unheard", Facts { mine: false, cancel: true, ages: long_cancelled, ..new() }, "canceled: "),
        ("of a later version", facts(DataMovePhase::Unknown("Paused".to_owned()), Missing), "wait"),
    ]);
}

#[test]
fn an_accepted_transfer_is_exposed_until_its_pod_runs() {
    use DataMovePhase::Accepted;
    use MoverPod::*;
    let with = |pod| facts(Accepted, pod);
    let accepted = |age| Ages { accepted: seconds(age), ..Ages::default() };
    let stuck = || Stuck("ErrImageNeverPull".to_owned());
    check(vec![
        ("no pod yet", with(Missing), "expose"),
        ("no pod for long", Facts { ages: accepted(PREPARE), ..with(Missing) }, "fail late: timeout on preparing"),
        ("pod waits", Facts { ages: accepted(100), ..with(Waiting) }, "wait 1700"),
        ("pod waits for long", Facts { ages: accepted(PREPARE), ..with(Waiting) }, "fail late: timeout on preparing"),
        ("pod runs here", with(Running), "prepare"),
        ("pod runs here, late", Facts { ages: accepted(PREPARE), ..with(Running) }, "prepare"),
        ("pod runs elsewhere", Facts { pod_here: false, ..with(Running) }, "wait 1800"),
        ("no image", with(stuck()), "canceled: cancelled because the pod cannot start: ErrImageNeverPull"),
        ("pod failed", with(Failed("x".to_owned())), "canceled: cancelled because the pod cannot start: x"),
        ("pod ended by itself", with(Succeeded(String::new())), "fail: "),
        ("cancelled", Facts { cancel: true, ..with(Waiting) }, "canceled: "),
        ("deleted", Facts { deleting: true, ..with(Waiting) }, "cancel: "),
        ("another's", Facts { mine: false, ages: accepted(PREPARE), ..with(Waiting) }, "wait 300"),
        (
            "its agent is gone",
            Facts { mine: false, ages: accepted(PREPARE + 300), ..with(Waiting) },
            "fail late: timeout",
        ),
    ]);
}

#[test]
fn a_prepared_transfer_begins_when_there_is_a_slot() {
    use DataMovePhase::Prepared;
    use MoverPod::*;
    let with = |pod| facts(Prepared, pod);
    let missing = |age| Ages { missing: seconds(age), ..Ages::default() };
    check(vec![
        ("a slot", with(Running), "start"),
        ("no slot", Facts { slot: false, ..with(Running) }, "wait 5"),
        ("cancelled", Facts { cancel: true, ..with(Running) }, "canceled: "),
        ("deleted", Facts { deleting: true, ..with(Running) }, "cancel: "),
        ("pod gone", with(Missing), "fail: the pod was removed before"),
        ("pod failed", with(Failed("evicted".to_owned())), "fail: evicted"),
        ("another's", Facts { mine: false, ..with(Running) }, "wait 60"),
        ("another's, pod gone", Facts { mine: false, ages: missing(10), ..with(Missing) }, "wait 290"),
        ("its agent is gone", Facts { mine: false, ages: missing(300), ..with(Missing) }, "fail: the pod that moved"),
    ]);
}

#[test]
fn a_moving_transfer_ends_as_its_mover_does() {
    use DataMovePhase::{Canceling, InProgress};
    use MoverPod::*;
    let with = |pod| facts(InProgress, pod);
    let cancelled = |phase, pod, ages| Facts { cancel: true, ages, ..facts(phase, pod) };
    let quiet = |age| Ages { progress: seconds(age), ..Ages::default() };
    let asked = |age| Ages { cancel: seconds(age), ..Ages::default() };
    let ended = || Failed("error reading: data path is canceled\n".to_owned());
    let none = Ages::default();
    check(vec![
        ("it runs", with(Running), "follow 900"),
        ("it is quiet", Facts { ages: quiet(890), ..with(Running) }, "follow 10"),
        ("it stands still", Facts { ages: quiet(STILL), ..with(Running) }, "cancel: cancelled because the mover"),
        ("it is done", with(Succeeded("{}".to_owned())), "complete: {}"),
        ("it failed", with(Failed("no space".to_owned())), "fail: no space"),
        ("it was told to end", with(ended()), "canceled: "),
        ("it is gone", with(Missing), "fail: the pod that moved the data was removed"),
        ("nobody knows", with(Stuck("unknown".to_owned())), "fail: unknown"),
        ("deleted", Facts { deleting: true, ..with(Running) }, "cancel: "),
        ("cancelled", cancelled(InProgress, Running, none), "await cancel"),
        ("cancelled and gone", cancelled(InProgress, Missing, none), "canceled: "),
        ("cancelled too late", cancelled(Canceling, Succeeded("{}".to_owned()), none), "complete: {}"),
        ("canceling", cancelled(Canceling, Running, asked(100)), "follow 200"),
        ("canceling ended", cancelled(Canceling, ended(), asked(100)), "canceled: "),
        ("canceling killed", cancelled(Canceling, Failed("OOM".to_owned()), none), "canceled: "),
        ("it never ends", cancelled(Canceling, Running, asked(300)), "canceled: the mover did not end"),
        (
            "it stands still and never ends",
            cancelled(Canceling, Running, Ages { cancel: seconds(300), ..quiet(STILL) }),
            "canceled: the mover did not end",
        ),
        ("another's", Facts { mine: false, ..with(Running) }, "wait 60"),
        (
            "another's, its node is gone",
            Facts { mine: false, ages: Ages { missing: seconds(300), ..none }, ..with(Missing) },
            "fail: ",
        ),
        (
            "another's, cancel unheard",
            Facts { mine: false, ..cancelled(InProgress, Running, asked(600)) },
            "canceled: ",
        ),
    ]);
}

#[test]
fn a_mover_has_no_more_time_to_end_than_to_report() {
    let short = Deadlines { still: seconds(20), ..DEADLINES };
    for (asked, expected) in [(5, "follow 15"), (20, "canceled: the mover did not end")] {
        let ages = Ages { cancel: seconds(asked), ..Ages::default() };
        let facts = Facts { cancel: true, ages, ..facts(DataMovePhase::Canceling, MoverPod::Running) };
        let step = told(&next_step(&facts, short));
        assert!(step.starts_with(expected), "{asked}: {step:?} instead of {expected:?}");
    }
}

#[test]
fn an_ended_transfer_is_cleaned_up_and_let_go() {
    use MoverPod::*;
    let old = Ages { ended: seconds(300), ..Ages::default() };
    for phase in [DataMovePhase::Completed, DataMovePhase::Failed, DataMovePhase::Canceled] {
        let with = || facts(phase.clone(), Waiting);
        check(vec![
            ("own", with(), "clean up"),
            ("own, deleted", Facts { deleting: true, ..with() }, "clean up"),
            ("let go", Facts { finalizer: false, ..with() }, "wait"),
            ("another's", Facts { mine: false, ..with() }, "wait 300"),
            ("another's, whose agent is gone", Facts { mine: false, ages: old, ..with() }, "clean up"),
        ]);
    }
}

#[test]
fn every_step_that_moves_a_phase_is_in_the_table() {
    use DataMovePhase::*;
    let pods = [
        MoverPod::Missing,
        MoverPod::Waiting,
        MoverPod::Stuck("s".to_owned()),
        MoverPod::Running,
        MoverPod::Succeeded("{}".to_owned()),
        MoverPod::Failed("f".to_owned()),
    ];
    let late = Ages {
        accepted: seconds(9999),
        cancel: seconds(9999),
        progress: seconds(9999),
        missing: seconds(9999),
        ended: seconds(9999),
    };
    for phase in DataMovePhase::ALL {
        for pod in &pods {
            for bits in 0..32_u8 {
                let is = |bit: u8| bits & (1 << bit) != 0;
                let facts = Facts {
                    cancel: is(0),
                    deleting: is(1),
                    mine: is(2),
                    slot: is(3),
                    ages: if is(4) { late } else { Ages::default() },
                    ..facts(phase.clone(), pod.clone())
                };
                let to = match next_step(&facts, DEADLINES) {
                    Step::Accept => Accepted,
                    Step::Prepare => Prepared,
                    Step::Start => InProgress,
                    Step::AwaitCancel => Canceling,
                    Step::Complete(_) => Completed,
                    Step::Fail(_) | Step::FailLate(_) => Failed,
                    Step::EndCanceled(_) => Canceled,
                    _ => continue,
                };
                assert!(can_become(phase, &to), "{facts:?} would become {to}");
            }
        }
    }
}

fn pod(status: &Value) -> Pod {
    serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": status })).unwrap()
}

#[test]
fn a_pod_is_read_as_the_table_says() {
    let state = |state: Value| json!([{ "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state }]);
    let ended =
        |message: &str| state(json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": message } }));
    let waiting = |reason: &str| state(json!({ "waiting": { "reason": reason } }));
    let stuck = |reason: &str| MoverPod::Stuck(format!("its image \"i\" cannot be used, {reason}"));
    let failed = |reason: &str| MoverPod::Failed(reason.to_owned());
    let refused = |message: &str| {
        let waiting = json!({ "waiting": { "reason": "CreateContainerConfigError", "message": message } });
        json!({ "phase": "Pending", "containerStatuses": state(waiting) })
    };
    let unusable = "its container cannot be made, CreateContainerConfigError: secret \"s\" not found";
    let done = state(json!({ "terminated": { "exitCode": 0, "reason": "Completed", "message": "{}" } }));
    let table = [
        (refused("secret \"s\" not found"), MoverPod::Stuck(unusable.to_owned())),
        (refused("failed to sync secret cache: timed out waiting for the condition"), MoverPod::Waiting),
        (json!({}), MoverPod::Waiting),
        (json!({ "phase": "Pending" }), MoverPod::Waiting),
        (json!({ "phase": "Pending", "containerStatuses": waiting("ContainerCreating") }), MoverPod::Waiting),
        (json!({ "phase": "Pending", "containerStatuses": waiting("ImagePullBackOff") }), stuck("ImagePullBackOff")),
        (json!({ "phase": "Pending", "containerStatuses": waiting("ErrImageNeverPull") }), stuck("ErrImageNeverPull")),
        (json!({ "phase": "Running" }), MoverPod::Running),
        (json!({ "phase": "Running", "containerStatuses": state(json!({ "running": {} })) }), MoverPod::Running),
        // Another container of the pod goes on.
        (json!({ "phase": "Running", "containerStatuses": ended("no space") }), failed("no space")),
        (json!({ "phase": "Running", "containerStatuses": done }), MoverPod::Succeeded("{}".to_owned())),
        (json!({ "phase": "Succeeded", "containerStatuses": ended("{}") }), MoverPod::Succeeded("{}".to_owned())),
        (json!({ "phase": "Failed", "containerStatuses": ended("no space") }), failed("no space")),
        (
            json!({ "phase": "Failed", "containerStatuses": ended("") }),
            failed("the mover ended with Error, exit code 1, and left no message"),
        ),
        (
            json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }),
            failed("the pod failed: Evicted: low on memory"),
        ),
        (json!({ "phase": "Failed" }), failed("the pod failed without a reason")),
    ];
    for (status, expected) in table {
        assert_eq!(MoverPod::of(Some(&pod(&status)), "c"), expected, "{status}");
    }
    assert_eq!(MoverPod::of(None, "c"), MoverPod::Missing);
    assert!(matches!(MoverPod::of(Some(&pod(&json!({ "phase": "Unknown" }))), "c"), MoverPod::Stuck(_)));
}
