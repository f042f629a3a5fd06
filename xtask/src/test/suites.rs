//! The suites: the test binaries, those with many modules a module each, and the shared boxes that each suite needs for
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use velero_testkit::harness::{OPENSHIFT_BOX, SHARED_BOX, STORAGE_BOX};

use super::command;

/// What in the source of a test says that it needs a shared box.
const WORDS: [(&str, &str); 5] = [
    ("cluster_test", SHARED_BOX),
    ("whole_box_test", SHARED_BOX),
    ("SHARED_BOX", SHARED_BOX),
    ("storage_box_test", STORAGE_BOX),
    // Boxes of OpenShift share one registry.
    ("openshift", OPENSHIFT_BOX),
];

/// What takes longest, alone or with others that need the same box, begins first: none of it is left alone at the end.
const LONGEST: [&str; 32] = [
    "peer_volume_scenarios",
    "peer_volume_moves",
    "node_agent_config",
    "peer_volume_devices",
    "peer_volume_copies",
    "peer_side_by_side",
    "peer_restores",
    "peer_cross_restore",
    "peer_csi",
    "peer_openshift",
    "plugin_hardships",
    "restore_bad_input",
    "restore_progress",
    "csi_snapshots",
    "openshift_project",
    "peer_filters",
    "repository_peer",
    "restore_order",
    "peer_reads_bucket",
    "install",
    "restore_dry_run",
    "peer_plugins",
    "box_storage",
    "page_in_a_browser",
    "volume_kills",
    "two_servers",
    "chart",
    "resumed",
    "no_secret_is_told",
    "cancelled",
    "server_status",
    "faulty_store",
];

/// Tests that run in one process: a test binary, or a module of one.
#[derive(Clone)]
pub(super) struct Suite {
    pub name: String,
    pub executable: PathBuf,
    /// Its tests by their full names, where it is a module.
    pub tests: Vec<String>,
    /// Where its package is; it runs there, as cargo would run it.
    pub folder: PathBuf,
    /// The shared boxes that no other suite may use meanwhile.
    pub holds: BTreeSet<&'static str>,
}

/// Builds all tests; gives them in the order in which they should begin.
pub(super) fn build() -> Result<Vec<Suite>> {
    let mut cargo = command(&["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let built = cargo.stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "the tests could not be built");
    let messages = built.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut suites = Vec::new();
    for message in messages {
        suites.extend(suites_of(&serde_json::from_slice(message)?)?);
    }
    let binaries = command(&["build", "--workspace", "--bins"]).status()?;
    ensure!(binaries.success(), "the binaries could not be built");
    suites.sort_by_cached_key(order);
    Ok(suites)
}

/// The suites of the test binary that a message of cargo is about, if it is about one.
fn suites_of(message: &Value) -> Result<Vec<Suite>> {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    let Some(executable) = text("/executable").filter(|_| message["profile"]["test"] == true) else {
        return Ok(Vec::new());
    };
    let part = |pointer: &str| text(pointer).with_context(|| format!("cargo does not say {pointer} of {executable}"));
    let folder = Path::new(part("/manifest_path")?).parent().unwrap_or(Path::new("/")).to_owned();
    let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (target, kind, source) = (part("/target/name")?, part("/target/kind/0")?, Path::new(part("/target/src_path")?));
    let whole = Suite {
        name: format!("{package} {target}"),
        executable: executable.into(),
        tests: Vec::new(),
        folder,
        holds: BTreeSet::new(),
    };
    match kind {
        "test" if source.ends_with("main.rs") => modules(&whole, source),
        "test" => Ok(vec![Suite { holds: holds(&fs::read_to_string(source)?), ..whole }]),
        kind => Ok(vec![Suite { name: format!("{} ({kind})", whole.name), ..whole }]),
    }
}

/// A suite for each module of a binary. What modules without tests ask for, any of the others may use.
fn modules(whole: &Suite, main: &Path) -> Result<Vec<Suite>> {
    let listed = Command::new(&whole.executable).args(["--list", "--format", "terse"]).output()?;
    ensure!(listed.status.success(), "{} does not list its tests", whole.executable.display());
    let tests = by_module(&String::from_utf8_lossy(&listed.stdout));
    ensure!(!tests.is_empty(), "{} has no tests", whole.executable.display());
    let (mut shared, mut own) = (String::new(), BTreeMap::new());
    for entry in fs::read_dir(main.parent().unwrap_or(main))? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match tests.contains_key(&name) {
            true if file.is_file() => drop(own.insert(name, fs::read_to_string(file)?)),
            // The names of the others, as `main.rs` has them, ask for nothing.
            _ if file != main && file.extension().is_some_and(|extension| extension == "rs") => {
                shared += &fs::read_to_string(file)?
            }
            _ => {}
        }
    }
    let suite = |(module, tests): (String, Vec<String>)| {
        let source = own.get(&module).map_or("", String::as_str);
        let holds = &holds(source) | &holds(&shared);
        Suite { name: format!("{} {module}", whole.name), tests, holds, ..whole.clone() }
    };
    Ok(tests.into_iter().map(suite).collect())
}

/// The tests that a binary lists, by the module they are in.
fn by_module(listed: &str) -> BTreeMap<String, Vec<String>> {
    let mut modules = BTreeMap::<String, Vec<String>>::new();
    for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        let module = test.split_once("::").map_or("main", |(module, _)| module);
        modules.entry(module.to_owned()).or_default().push(test.to_owned());
    }
    modules
}

fn holds(source: &str) -> BTreeSet<&'static str> {
    WORDS.iter().filter(|(word, _)| source.contains(word)).map(|(_, shared)| *shared).collect()
}

/// First what needs the box that many need: one after the other they take longest of all, so that there has always to be one
/// of them at work. Then what takes longest; then what needs another shared box, so that it can go soon; then the rest.
fn order(suite: &Suite) -> (bool, usize, bool, String) {
    let place = LONGEST.iter().position(|longest| suite.name.ends_with(&format!(" {longest}")));
    let place = place.unwrap_or(LONGEST.len());
    (!suite.holds.contains(SHARED_BOX), place, suite.holds.is_empty(), suite.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_holds_the_shared_boxes_that_its_source_asks_for() {
        for (source, boxes) in [
            ("cluster_test(|test| async move {})", vec![SHARED_BOX]),
            ("harness::run(\"mine\", BoxKind::ControlPlane, async |cluster| {})", vec![]),
            ("TestBox::up(\"mine\", BoxKind::Storage)", vec![]),
            ("storage_box_test(|cluster| async move {})", vec![STORAGE_BOX]),
            (
                "openshift_box_test(|test| async move {}); TestBox::up(SHARED_BOX, kind)",
                vec![SHARED_BOX, OPENSHIFT_BOX],
            ),
        ] {
            assert_eq!(holds(source), boxes.into_iter().collect(), "{source}");
        }
    }

    #[test]
    fn tests_are_grouped_by_the_module_they_are_in() {
        let modules = by_module("peer::a: test\nhere: test\npeer::deep::b: test\nx::y: benchmark\n");
        let names = |module: &str| modules[module].join(" ");
        assert_eq!((names("peer").as_str(), names("main").as_str()), ("peer::a peer::deep::b", "here"));
        assert_eq!(modules.len(), 2);
    }

    #[test]
    fn what_many_wait_for_begins_first_then_the_longest_then_what_shares_another_box() {
        let suite = |(name, holds): (&str, &[&'static str])| Suite {
            name: name.to_owned(),
            executable: PathBuf::new(),
            tests: Vec::new(),
            folder: PathBuf::new(),
            holds: holds.iter().copied().collect(),
        };
        let (own, shared, storage): (&[_], &[_], &[_]) = (&[], &[SHARED_BOX], &[STORAGE_BOX]);
        let names =
            [("tests a", own), ("velero b", shared), ("tests c", storage), ("tests stories peer_restores", own)];
        let mut suites = names.map(suite);
        suites.sort_by_cached_key(order);
        let names = suites.map(|suite| suite.name);
        assert_eq!(names, ["velero b", "tests stories peer_restores", "tests c", "tests a"]);
    }
}
