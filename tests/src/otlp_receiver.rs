//! What takes traces in a box, with the code of the OpenTelemetry Collector that reads them, and the traces it took.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use velero_testkit::Tool;
use velero_testkit::machine::{Machine, wait_until};

/// The name of its process in a box.
const PROCESS: &str = "otlp-receiver";
/// Where it takes traces.
const ADDRESS: &str = "127.0.0.1:4318";
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// The flag of a server that sends its traces there.
pub fn flag() -> String {
    format!("--trace-endpoint=http://{ADDRESS}")
}

/// The receiver.
pub struct OtlpReceiver {
    machine: Machine,
    file: PathBuf,
}

impl OtlpReceiver {
    /// Starts it.
    pub fn start(machine: &Machine) -> Result<Self> {
        let file = machine.folder(PROCESS)?.join("traces.json");
        let arguments = [ADDRESS.to_owned(), file.display().to_string()];
        machine.start(PROCESS, Tool::OtlpReceiver.path()?, arguments)?;
        let url = format!("http://{ADDRESS}/v1/traces");
        // An empty message is a valid one.
        let ask = ["--silent", "--fail", "--max-time", "5", "--header", "content-type: application/x-protobuf"];
        let ask = ask.into_iter().chain(["--data", "", &url]).map(str::to_owned).collect::<Vec<_>>();
        wait_until("the OTLP receiver", PATIENCE, || machine.run("curl", &ask).map(drop))?;
        Ok(Self { machine: machine.clone(), file })
    }

    /// Stops it.
    pub fn stop(&self) -> Result<()> {
        self.machine.stop(PROCESS)
    }

    /// All that it took, as it wrote it down.
    pub fn text(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.file).unwrap_or_default())
    }

    /// The spans of the trace of an object.
    pub fn spans(&self, uid: &str) -> Result<Vec<Span>> {
        let trace = uid.replace('-', "");
        let mut found = Vec::new();
        for line in self.text()?.lines() {
            let request: Value = serde_json::from_str(line).with_context(|| format!("{line} is no JSON"))?;
            for resource in list(&request["resourceSpans"]) {
                for scope in list(&resource["scopeSpans"]) {
                    let spans = list(&scope["spans"]).iter().filter(|span| span["traceId"] == trace);
                    found.extend(spans.map(Span::of));
                }
            }
        }
        Ok(found)
    }
}

/// A span as it was taken.
#[derive(Clone, Debug)]
pub struct Span {
    /// What it is called.
    pub name: String,
    /// Its number.
    pub id: String,
    /// The number of the one it is inside of; empty for the whole.
    pub parent: String,
    /// When it began and ended, in nanoseconds of Unix time.
    pub times: (u64, u64),
    /// Whether it says that it failed.
    pub failed: bool,
    /// What else it tells.
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    fn of(span: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let time = |name: &str| text(&span[name]).parse().unwrap_or_default();
        let attribute = |pair: &Value| {
            let value = pair["value"].as_object().and_then(|value| value.values().next()).cloned().unwrap_or_default();
            (text(&pair["key"]), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        Self {
            name: text(&span["name"]),
            id: text(&span["spanId"]),
            parent: text(&span["parentSpanId"]),
            times: (time("startTimeUnixNano"), time("endTimeUnixNano")),
            failed: span["status"]["code"] == 2,
            attributes: list(&span["attributes"]).iter().map(attribute).collect(),
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
