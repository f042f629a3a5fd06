//! A real Prometheus in a box, which scrapes what a test names, and promtool.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use velero_testkit::Tool;
use velero_testkit::install::repository_root;
use velero_testkit::machine::{Machine, wait_until};

/// The name of its process in a box.
const PROCESS: &str = "prometheus";
/// Where it serves.
const ADDRESS: &str = "127.0.0.1:19090";
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file of those that come with Velero for whoever watches it.
pub fn monitoring_file(name: &str) -> PathBuf {
    repository_root().join("deploy/monitoring").join(name)
}

/// Runs promtool on this machine and gives what it said; a failure is an error.
pub fn promtool(arguments: &[&str], folder: &Path) -> Result<String> {
    let output = Command::new(Tool::Promtool.path()?).args(arguments).current_dir(folder).output()?;
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    ensure!(output.status.success(), "promtool {}: {said}", arguments.join(" "));
    Ok(said)
}

/// A Prometheus that runs in a box.
pub struct Prometheus {
    machine: Machine,
}

impl Prometheus {
    /// Starts it: every second it scrapes the targets and looks at the rules.
    pub fn start(machine: &Machine, targets: &[String], rules: &str) -> Result<Self> {
        let folder = machine.folder(PROCESS)?;
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [folder.join("rules.yaml")],
            "scrape_configs": [{"job_name": "velero", "static_configs": [{"targets": targets}]}],
        });
        fs::write(folder.join("rules.yaml"), rules)?;
        // JSON is YAML too.
        fs::write(folder.join("prometheus.yaml"), config.to_string())?;
        let arguments = [
            format!("--config.file={}", folder.join("prometheus.yaml").display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address={ADDRESS}"),
        ];
        machine.start(PROCESS, Tool::Prometheus.path()?, arguments.to_vec())?;
        let prometheus = Self { machine: machine.clone() };
        wait_until("Prometheus", PATIENCE, || prometheus.get("/api/v1/status/config", &[]).map(drop))?;
        Ok(prometheus)
    }

    /// Stops it.
    pub fn stop(&self) -> Result<()> {
        self.machine.stop(PROCESS)
    }

    /// What a query gives now: a list of series with their values.
    pub fn query(&self, query: &str) -> Result<Vec<Value>> {
        let answer = self.get("/api/v1/query", &[("query", query)])?;
        Ok(answer["result"].as_array().cloned().unwrap_or_default())
    }

    /// The names of the alerts that fire now, each as often as it does.
    pub fn firing(&self) -> Result<Vec<String>> {
        let answer = self.get("/api/v1/alerts", &[])?;
        let alerts = answer["alerts"].as_array().into_iter().flatten();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        Ok(firing.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let mut arguments = vec!["--silent".to_owned(), "--show-error".into(), "--max-time".into(), "5".into()];
        arguments.push("--get".into());
        for (name, value) in parameters {
            arguments.extend(["--data-urlencode".to_owned(), format!("{name}={value}")]);
        }
        arguments.push(format!("http://{ADDRESS}{path}"));
        let answer = self.machine.run("curl", arguments.iter().map(String::as_str))?;
        let answer: Value = serde_json::from_str(&answer).with_context(|| format!("{path} answers {answer}"))?;
        ensure!(answer["status"] == "success", "{path} {parameters:?}: {answer}");
        Ok(answer["data"].clone())
    }
}
