//! Boxes come and go without a trace: also after kill -9 of anything in them (of the command that brings
//! them up: `xtask/tests/killed.rs`).
//! They look at what they made themselves: other boxes may come and go.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use velero_testkit::machine::{loop_devices, wait_until};
use velero_testkit::{BoxKind, TestBox, objects};
use velero_tests::host::Traces;

fn assert_gone(traces: &Traces) {
    if let Err(left) = wait_until("the boxes to leave nothing", Duration::from_secs(10), || traces.ensure_gone()) {
        panic!("{left:?}");
    }
}

#[test]
fn two_boxes_share_a_bucket_and_leave_the_machine_as_it_was() {
    let first = TestBox::up("first", BoxKind::Whole).unwrap();
    let second = TestBox::up("second", BoxKind::Storage).unwrap();
    let put = |name: &str, test_box: &TestBox| {
        let url = format!("{}/velero/{name}", TestBox::store_url_for_pods());
        let keys = "velero-box:velero-box-secret";
        let sign = ["--silent", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", keys];
        test_box
            .machine()
            .run(
                "curl",
                sign.iter().chain(&[
                    "--header",
                    "x-amz-content-sha256: UNSIGNED-PAYLOAD",
                    "--request",
                    "PUT",
                    "--data-binary",
                    name,
                    &url,
                ]),
            )
            .unwrap();
        sign.iter().map(|word| (*word).to_owned()).chain([url]).collect::<Vec<_>>()
    };
    let read_first = put("from-first", &first);
    assert_eq!(second.machine().run("curl", &read_first).unwrap(), "from-first");
    for test_box in [&first, &second] {
        test_box.machine().apply(&objects::deployment("default", "web", 1, "sleep 1000").to_string()).unwrap();
        test_box.machine().kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
    }
    second.machine().apply(&objects::claim("default", "data").to_string()).unwrap();
    let pod = objects::pod_with_claim("default", "writer", "data", "echo data > /data/file; sleep 1000");
    second.machine().apply(&pod.to_string()).unwrap();
    second.machine().apply(&objects::for_device(objects::claim("default", "device")).to_string()).unwrap();
    let pod = objects::pod_with_device("default", "device", "device", "exec 3> /dev/data; sleep 1000");
    second.machine().apply(&pod.to_string()).unwrap();
    second.machine().kubectl(&["wait", "--for=condition=Ready", "pod/writer", "pod/device", "--timeout=60s"]).unwrap();
    assert_ne!(loop_devices::of_folder(&second.machine().state()).unwrap(), Vec::<PathBuf>::new());
    let (first_traces, second_traces) = (Traces::of(&["first"]).unwrap(), Traces::of(&["second"]).unwrap());
    TestBox::down("first").unwrap();
    assert_gone(&first_traces);
    assert_eq!(second.machine().run("curl", &read_first).unwrap(), "from-first", "the store went with the first box");
    TestBox::down("second").unwrap();
    assert_gone(&second_traces);
}

#[test]
fn a_box_whose_kubelet_and_containerd_were_killed_goes_down_without_a_trace() {
    let test_box = TestBox::up("crashed", BoxKind::Whole).unwrap();
    test_box.machine().apply(&objects::deployment("default", "web", 2, "sleep 1000").to_string()).unwrap();
    test_box.machine().kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
    let traces = Traces::of(&["crashed"]).unwrap();
    for name in ["kubelet", "containerd", "etcd"] {
        let process = test_box.machine().host_process(name).unwrap().to_string();
        assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    }
    TestBox::down("crashed").unwrap();
    assert_gone(&traces);
}

#[test]
fn boxes_that_come_and_go_meanwhile_are_nobody_elses_business() {
    let mine = TestBox::up("mine", BoxKind::ControlPlane).unwrap();
    let traces = Traces::of(&["mine"]).unwrap();
    let left = traces.ensure_gone().unwrap_err().to_string();
    assert!(left.contains("etcd") && left.contains("velero-boxes/mine"), "what is up is not seen: {left}");
    TestBox::up("other", BoxKind::ControlPlane).unwrap();
    TestBox::down(&mine.machine().name).unwrap();
    assert_gone(&traces);
    let refusal = TestBox::down("store").unwrap_err().to_string();
    assert!(refusal.contains("other"), "{refusal}");
    let store = TestBox::find("other").unwrap().status().into_iter().find(|(part, _)| *part == "seaweedfs").unwrap();
    store.1.expect("the store of the other box must not suffer");
    TestBox::down("other").unwrap();
}

#[test]
fn a_box_takes_a_port_that_nobody_has() {
    let taken = std::net::TcpListener::bind("127.0.0.1:26443");
    let test_box = TestBox::up("beside", BoxKind::ControlPlane).unwrap();
    assert_ne!(test_box.machine().host_port(), 26443, "the port was taken, by a box or by this test: {taken:?}");
    TestBox::down("beside").unwrap();
}
