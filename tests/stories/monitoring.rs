//! The alerts and the dashboard that come with Velero, as files: what they name exists, and what they do over hours and days.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use velero_testkit::install::repository_root;
use velero_tests::helm::Helm;
use velero_tests::prometheus::{monitoring_file, promtool};

fn text(name: &str) -> String {
    fs::read_to_string(monitoring_file(name)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn rules() -> Vec<Value> {
    yaml(&text("alerts.yaml"))["groups"][0]["rules"].as_array().unwrap().clone()
}

fn alerts() -> BTreeSet<String> {
    rules().iter().map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect()
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The metrics of ours that a query names, without what histograms put behind the name.
fn metrics(query: &str) -> BTreeSet<String> {
    let words = query.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let ours = words.filter(|word| word.starts_with("velero_") || word.starts_with("podVolume_"));
    let plain = |word: &str| match word.strip_suffix("_sum").or(word.strip_suffix("_count")) {
        Some(histogram) if histogram.ends_with("duration_seconds") => histogram.to_owned(),
        _ => word.to_owned(),
    };
    ours.map(plain).collect()
}

#[test]
#[ignore = "building promtool takes minutes; begun with --thorough"]
fn promtool_accepts_the_rules_and_they_fire_and_resolve_when_they_should() {
    let folder = monitoring_file("");
    let checked = promtool(&["check", "rules", "--lint-fatal", "alerts.yaml"], &folder).unwrap();
    assert!(checked.contains(&format!("{} rules found", alerts().len())), "{checked}");
    promtool(&["test", "rules", "alerts_test.yaml"], &folder).unwrap();
    let tried = text("alerts_test.yaml");
    for alert in alerts() {
        assert!(tried.contains(&format!("alertname=\"{alert}\"")), "{alert} is not tried in alerts_test.yaml");
    }
}

#[test]
fn alerts_and_dashboard_name_metrics_that_the_documentation_lists() {
    let page = fs::read_to_string(repository_root().join("docs/monitoring.md")).unwrap();
    let alerts = rules().into_iter().map(|rule| rule["expr"].as_str().unwrap().to_owned());
    for query in alerts.chain(queries()) {
        for metric in metrics(&query) {
            assert!(page.contains(&format!("| `{metric}` |")), "{metric} is no metric: {query}");
        }
    }
}

#[test]
fn the_documentation_says_what_to_do_about_each_alert() {
    let page = fs::read_to_string(repository_root().join("docs/monitoring.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `Velero")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(name, _)| format!("Velero{name}")).collect();
    assert_eq!(documented, alerts());
    for rule in rules() {
        let alert = &rule["alert"];
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{alert}");
        for annotation in ["summary", "description"] {
            assert!(rule["annotations"][annotation].as_str().is_some_and(|text| text.len() > 20), "{alert}");
        }
    }
}

#[test]
fn the_chart_brings_the_same_alerts_and_the_same_dashboard() {
    let rule = json!({"enabled": true, "autodetect": false});
    let values = json!({"metrics": {"prometheusRule": rule, "dashboard": {"enabled": true}}});
    let rendered = Helm::alone().template("charted", &values).unwrap();
    let documents: Vec<Value> = rendered.split("\n---\n").map(yaml).collect();
    let find = |kind: &str, name: &str| {
        let mut found = documents.iter().filter(|found| found["kind"] == kind && found["metadata"]["name"] == name);
        found.next().unwrap_or_else(|| panic!("there is no {kind} {name}")).clone()
    };
    assert_eq!(find("PrometheusRule", "velero")["spec"]["groups"][0]["rules"], Value::Array(rules()));
    let dashboard = find("ConfigMap", "velero-dashboard");
    let shown: Value = serde_json::from_str(dashboard["data"]["velero.json"].as_str().unwrap()).unwrap();
    assert_eq!(shown, serde_json::from_str::<Value>(&text("dashboard.json")).unwrap());
    assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
    let silent = Helm::alone().template("charted", &json!({})).unwrap();
    assert!(!silent.contains("PrometheusRule") && !silent.contains("velero.json"), "nobody asked for them");
}

#[test]
fn a_cluster_without_the_prometheus_operator_gets_none_of_its_kinds_and_can_be_scraped_all_the_same() {
    let wanted = json!({"enabled": true});
    let metrics = json!({
        "enabled": true, "serviceMonitor": wanted, "nodeAgentPodMonitor": wanted, "prometheusRule": wanted,
    });
    let values = json!({"configuration": {"backupStorageLocation": []}, "metrics": metrics, "deployNodeAgent": true});
    let made = Helm::alone().template("velero", &values).unwrap();
    assert!(!made.contains("monitoring.coreos.com"), "{made}");
    assert!(made.contains("prometheus.io/scrape"), "{made}");
}
