//! A box whose maker was killed goes down without a trace.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use velero_testkit::TestBox;
use velero_testkit::machine::{Machine, wait_until};
use velero_tests::host::Traces;

#[test]
fn killing_the_command_that_brings_a_box_up_leaves_only_what_down_removes() {
    TestBox::down("killed").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["cluster", "up", "--name", "killed"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the box to be half up", Duration::from_secs(60), || {
        anyhow::ensure!(fs::exists(Machine::state_root().join("killed/etcd.process"))?, "no etcd yet");
        Ok(())
    })
    .unwrap();
    command.kill().unwrap();
    command.wait().unwrap();
    sleep(Duration::from_millis(500));
    let traces = Traces::of(&["killed"]).unwrap();
    TestBox::down("killed").unwrap();
    wait_until("the box to leave nothing", Duration::from_secs(10), || traces.ensure_gone()).unwrap();
}
