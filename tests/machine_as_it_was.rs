//! Boxes come and go without a trace: also after kill -9 of anything in them, or of the command that brings them up.
//!
//! These tests compare the whole host before and after, so they run alone: `cargo xtask test` runs them first.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use velero_testkit::machine::wait_until;
use velero_testkit::{BoxKind, TestBox, objects};
use velero_tests::host::HostState;

fn assert_as_before(before: &HostState) {
    let same = wait_until("the host to look as before", Duration::from_secs(10), || {
        let now = HostState::now()?;
        anyhow::ensure!(now == *before, "before: {before:#?}\nnow: {now:#?}");
        Ok(())
    });
    if let Err(difference) = same {
        panic!("{difference:?}");
    }
}

#[test]
#[ignore = "compares the whole host: cargo xtask test runs it alone"]
fn two_boxes_share_a_bucket_and_leave_the_machine_as_it_was() {
    let before = HostState::now().unwrap();
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
    second.machine().kubectl(&["wait", "--for=condition=Ready", "pod/writer", "--timeout=60s"]).unwrap();
    TestBox::down("first").unwrap();
    assert_eq!(second.machine().run("curl", &read_first).unwrap(), "from-first", "the store went with the first box");
    TestBox::down("second").unwrap();
    assert_as_before(&before);
}

#[test]
#[ignore = "compares the whole host: cargo xtask test runs it alone"]
fn a_box_whose_kubelet_and_containerd_were_killed_goes_down_without_a_trace() {
    let before = HostState::now().unwrap();
    let test_box = TestBox::up("crashed", BoxKind::Whole).unwrap();
    test_box.machine().apply(&objects::deployment("default", "web", 2, "sleep 1000").to_string()).unwrap();
    test_box.machine().kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).unwrap();
    for name in ["kubelet", "containerd", "etcd"] {
        let process = test_box.machine().host_process(name).unwrap().to_string();
        assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    }
    TestBox::down("crashed").unwrap();
    assert_as_before(&before);
}

#[test]
#[ignore = "compares the whole host: cargo xtask test runs it alone"]
fn killing_the_command_that_brings_a_box_up_leaves_only_what_down_removes() {
    let before = HostState::now().unwrap();
    let mut command = Command::new(env!("CARGO"))
        .args(["xtask", "cluster", "up", "--name", "killed"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the box to be half up", Duration::from_secs(60), || {
        anyhow::ensure!(fs::exists("/var/tmp/velero-boxes/killed/etcd.process")?, "no etcd yet");
        Ok(())
    })
    .unwrap();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", command.id())).unwrap();
    for process in children.split_whitespace().map(str::to_owned).chain([command.id().to_string()]) {
        Command::new("kill").args(["-KILL", &process]).status().unwrap();
    }
    command.wait().unwrap();
    sleep(Duration::from_millis(500));
    TestBox::down("killed").unwrap();
    assert_as_before(&before);
}

#[test]
#[ignore = "compares the whole host: cargo xtask test runs it alone"]
fn a_box_that_cannot_have_its_port_says_so_and_leaves_nothing() {
    let before = HostState::now().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:26443").unwrap();
    let error = TestBox::up("blocked", BoxKind::ControlPlane).unwrap_err().to_string();
    drop(taken);
    assert!(error.contains("port 26443 on 127.0.0.1 is taken"), "{error}");
    assert_as_before(&before);
}
