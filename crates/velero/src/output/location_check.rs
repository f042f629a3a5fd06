//! What `velero backup-location check` prints.

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use velero_api::metadata;
use velero_api::v1::BackupStorageLocation;
use velero_store::check::{Finding, Observation, Outcome, Right, Severity};

use super::{Format, print_rows, print_value};
use crate::printer::Printer;

/// What came of trying a location out.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocationCheck {
    location: String,
    provider: String,
    bucket: String,
    prefix: String,
    /// Whether nothing needs to be done.
    good: bool,
    steps: Vec<StepReport>,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_says: Option<ServerSays>,
}

#[derive(Clone, Debug, Serialize)]
struct StepReport {
    step: Right,
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

/// What the server found when it last looked.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerSays {
    phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_validation_time: Option<Time>,
    #[serde(skip)]
    is_available: bool,
}

impl ServerSays {
    /// What the status of a location says.
    pub(crate) fn of(location: &BackupStorageLocation) -> Self {
        let status = &location.status;
        let phase = status.phase.as_ref().map(ToString::to_string);
        Self {
            phase: phase.unwrap_or_else(|| "not looked at yet".to_owned()),
            message: status.message.clone(),
            last_validation_time: status.last_validation_time.clone(),
            is_available: location.is_available(),
        }
    }
}

impl LocationCheck {
    /// A location whose store was asked.
    pub(crate) fn new(
        location: &BackupStorageLocation,
        seen: &Observation,
        findings: Vec<Finding>,
        server_says: Option<ServerSays>,
    ) -> Self {
        let steps = seen.steps.iter().map(|step| {
            let (result, detail) = match &step.outcome {
                Outcome::Done => ("ok", String::new()),
                Outcome::Skipped(reason) => ("skipped", (*reason).to_owned()),
                Outcome::Failed(failure) => match failure.response() {
                    Some(response) => ("refused", format!("{} {}", response.status, response.code).trim().to_owned()),
                    None => ("failed", failure.broken().unwrap_or(&failure.text).to_owned()),
                },
            };
            StepReport { step: step.right, result, detail }
        });
        let steps = steps.collect();
        let good = !findings.iter().any(Finding::is_trouble);
        Self { good, steps, findings, server_says, ..Self::empty(location) }
    }

    /// A location that only the server can reach.
    pub(crate) fn by_server(location: &BackupStorageLocation, says: ServerSays) -> Self {
        Self { good: says.is_available, server_says: Some(says), ..Self::empty(location) }
    }

    fn empty(location: &BackupStorageLocation) -> Self {
        let storage = &location.spec.object_storage;
        Self {
            location: metadata::name(location).to_owned(),
            provider: location.spec.provider.clone(),
            bucket: storage.bucket.clone(),
            prefix: storage.prefix.clone(),
            good: true,
            steps: Vec::new(),
            findings: Vec::new(),
            server_says: None,
        }
    }

    /// Whether nothing needs to be done.
    pub(crate) fn is_good(&self) -> bool {
        self.good
    }

    /// What is to be done, in one line.
    pub(crate) fn verdict(&self) -> String {
        let name = &self.location;
        match self.findings.iter().find(|finding| finding.is_trouble()) {
            Some(finding) => format!("BackupStorageLocation {name:?}: {finding}"),
            None => format!("BackupStorageLocation {name:?}: the server cannot use it"),
        }
    }

    /// Prints it.
    pub(crate) fn print(&self, printer: Printer, format: Format) -> Result<()> {
        if format != Format::Table {
            return print_value(printer, self, format);
        }
        let rows = self
            .steps
            .iter()
            .map(|step| vec![step.step.word().to_owned(), step.result.to_owned(), step.detail.clone()]);
        print_rows(printer, &["Step", "Result", "Detail"], rows.collect())?;
        for finding in &self.findings {
            let label = match finding.severity {
                Severity::Error => printer.style.red("Error"),
                Severity::Warning => printer.style.bold("Warning"),
                Severity::Note => "Note".to_owned(),
            };
            printer.line(format_args!("{label}: {}", finding.problem))?;
            if !finding.remedy.is_empty() {
                printer.line(format_args!("  Remedy: {}", finding.remedy))?;
            }
        }
        self.print_server(printer)?;
        let provider = &self.provider;
        match (self.good, self.steps.is_empty()) {
            (true, false) => printer.line(format_args!("{} can be used.", self.location)),
            (true, true) => printer.line(format_args!("Provider {provider} can be reached by the server alone.")),
            (false, _) => Ok(()),
        }
    }

    fn print_server(&self, printer: Printer) -> Result<()> {
        let Some(says) = &self.server_says else { return Ok(()) };
        // What was found here is told once.
        let message = if says.message.is_empty() { String::new() } else { format!(": {}", says.message) };
        printer.line(format_args!("The server says: {}{message}", says.phase))
    }
}
