//! Metrics, from the names and helps in the sources of those who count.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use regex::Regex;

use super::{cell, sources};

/// A name, then its help: written there, or in the variable above it that is called so.
static METRIC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"let help = "([^"]+)"|"([a-z][a-z_]*_[a-z_]+|leader)"[,:]\s*(?:"([A-Z0-9][^"]* [^"]*)"|help\b)"#).ok()
});

pub(super) fn page(root: &Path) -> Result<String> {
    let mut text = "Served at `/metrics` of the port of `--metrics-address` (8085). Names and meanings:\n\n\
                    | metric | of | meaning |\n|---|---|---|\n"
        .to_owned();
    for (path, source) in sources::below(&root.join("crates/velero-controllers/src"))? {
        let path = path.to_string_lossy();
        if !path.contains("metrics") {
            continue;
        }
        let (prefix, whose) =
            if path.contains("node_agent") { ("podVolume", "node agent") } else { ("velero", "server") };
        for (name, help) in found(&source) {
            text += &format!("| `{prefix}_{name}` | {whose} | {} |\n", cell(&help));
        }
    }
    ensure!(text.contains("velero_backup_attempt_total"), "no metrics were found in the sources");
    Ok(text)
}

fn found(source: &str) -> Vec<(String, String)> {
    let (mut metrics, mut help) = (Vec::new(), String::new());
    let Some(metric) = METRIC.as_ref() else { return metrics };
    for captures in metric.captures_iter(source) {
        let group = |number: usize| captures.get(number).map(|text| text.as_str().to_owned());
        match (group(1), group(2)) {
            (Some(text), _) => help = text,
            (None, Some(name)) => metrics.push((name, group(3).unwrap_or_else(|| help.clone()))),
            (None, None) => {}
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use velero_testkit::install::repository_root;

    use super::*;

    #[test]
    fn a_metric_is_found_however_its_help_is_said() {
        let source = r#"
            Attempt = "backup_attempt_total": "Backups that were begun",
            builder.gauges(
                "backup_items_total",
                "Items of the last backup", SCHEDULE)?;
            let help = "How long it took";
            HistogramOpts::new("latency_seconds", help)
            const SCHEDULE: &[&str] = &["schedule", "backup_name"];
        "#;
        let expected = [
            ("backup_attempt_total", "Backups that were begun"),
            ("backup_items_total", "Items of the last backup"),
            ("latency_seconds", "How long it took"),
        ];
        assert_eq!(found(source), expected.map(|(name, help)| (name.to_owned(), help.to_owned())));
    }

    #[test]
    fn every_name_of_a_metric_in_the_sources_is_in_the_reference() {
        let root = repository_root();
        let page = page(&root).unwrap();
        let name = Regex::new(r#""([a-z_]+_(?:total|seconds|count|gauge|bytes|timestamp|status))""#).unwrap();
        for (path, source) in sources::below(&root.join("crates/velero-controllers/src")).unwrap() {
            if path.to_string_lossy().contains("metrics") {
                for captures in name.captures_iter(&source) {
                    assert!(page.contains(&format!("_{}`", &captures[1])), "{} of {}", &captures[1], path.display());
                }
            }
        }
    }
}
