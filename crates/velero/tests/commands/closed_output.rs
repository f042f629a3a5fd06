//! What a command does when nobody reads its output any more, as behind `| head`.

use std::process::Command;

#[test]
fn a_command_whose_reader_has_gone_ends_without_a_word() {
    for arguments in [["completion", "bash"], ["version", "--client-only"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Command::new(env!("CARGO_BIN_EXE_velero")).args(arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let quiet = [Some(0), Some(141)].contains(&ended.status.code()) && said.is_empty();
        assert!(quiet, "velero {}: {} {said:?}", arguments.join(" "), ended.status);
    }
}
