//! The commands as people meet them.

use std::process::Command;

#[test]
fn a_command_whose_reader_has_gone_ends_without_a_word() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("layers").stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(141), ""));
}

#[test]
fn the_alias_of_cargo_shows_its_progress() {
    let root = velero_testkit::install::repository_root();
    let settings = std::fs::read_to_string(root.join(".cargo/config.toml")).unwrap();
    let alias = settings.lines().find(|line| line.starts_with("xtask = ")).expect("no alias xtask");
    assert!(!alias.contains("quiet"), "nothing is seen for minutes on a fresh machine: {alias}");
}
