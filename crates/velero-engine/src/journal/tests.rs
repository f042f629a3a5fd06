use std::io::Read;

use flate2::read::MultiGzDecoder;
use velero_cluster::ItemRef;

use super::*;

fn log_of(journal: &Journal) -> Vec<String> {
    let mut text = String::new();
    MultiGzDecoder::new(&journal.compressed_log().unwrap()[..]).read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn without_time(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, rest)| rest)
}

#[test]
fn lines_have_the_form_of_logrus() {
    let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
    journal.info().item(ItemRef::new("pods", Some("shop"), "web-0")).message("Backed up item");
    journal.error().item(ItemRef::new("clusterroles", None, "a:b")).error(&"no \"way\"\n").message("Error");
    let lines = log_of(&journal);
    assert!(lines[0].starts_with("time=\"20"), "{}", lines[0]);
    let source = |line: &str| {
        let start = line.find("logSource=").unwrap();
        let end = line[start..].find(' ').unwrap();
        line.replace(&line[start..start + end], "logSource=X")
    };
    assert_eq!(
        source(without_time(&lines[0])),
        r#"level=info msg="Backed up item" backup=velero/b1 logSource=X name=web-0 namespace=shop resource=pods"#
    );
    assert_eq!(
        source(without_time(&lines[1])),
        r#"level=error msg=Error backup=velero/b1 error="no \"way\"\n" logSource=X name="a:b" namespace= resource=clusterroles"#
    );
}

#[test]
fn json_lines_hold_the_same_fields() {
    let journal = Journal::for_backup("velero", "b1", LogFormat::Json, Level::Info);
    journal.warning().item(ItemRef::new("pods", Some("shop"), "web-0")).error(&"gone").message("Not found");
    let line: serde_json::Value = serde_json::from_str(&log_of(&journal)[0]).unwrap();
    assert_eq!(line["level"], "warning");
    assert_eq!(line["error.message"], "gone");
    assert_eq!(line["namespace"], "shop");
    assert_eq!(line["backup"], "velero/b1");
}

#[test]
fn results_are_keyed_by_namespace_and_counted() {
    let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
    journal.error().item(ItemRef::new("pods", Some("shop"), "web-0")).error(&"boom").message("Error backing up item");
    journal.error().item(ItemRef::new("clusterroles", None, "r")).message("Error backing up item");
    journal.warning().message("careful");
    journal.info().message("nothing");
    assert_eq!(journal.counts(), Counts { warnings: 1, errors: 2 });
    let results = journal.results();
    assert_eq!(
        results.errors.namespaces["shop"],
        [" resource: /pods name: /web-0 message: /Error backing up item error: /boom"]
    );
    assert_eq!(results.errors.cluster, [" resource: /clusterroles name: /r message: /Error backing up item"]);
    assert_eq!(results.warnings.velero, [" message: /careful"]);
}

#[test]
fn a_level_hides_lines_but_not_counts() {
    let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Error);
    journal.info().message("hidden");
    journal.warning().message("hidden too");
    assert!(log_of(&journal).is_empty());
    assert_eq!(journal.counts().warnings, 1);
}

#[test]
fn the_log_can_be_taken_more_than_once() {
    let journal = Journal::for_backup("velero", "b1", LogFormat::Text, Level::Info);
    journal.info().message("one");
    assert_eq!(log_of(&journal).len(), 1);
    journal.info().message("two");
    assert_eq!(log_of(&journal).len(), 2);
}
