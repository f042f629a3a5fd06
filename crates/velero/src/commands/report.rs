//! `velero report`

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use velero_report::{gather, html, reckon};

use crate::arguments::{ReportArguments, ReportForm};
use crate::output::{Clock, report_text};
use crate::session::{Session, api_error};

/// How long a server keeps backups that do not say, unless it was told otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(720 * 3600);

/// Tells what was protected, what failed and what no schedule covers.
pub(super) async fn report(session: &Session, arguments: &ReportArguments) -> Result<()> {
    let client = session.cluster.client();
    let facts = gather(client, session.namespace(), arguments.since, DEFAULT_TTL, Timestamp::now()).await;
    let report = reckon(&facts.map_err(api_error)?);
    match arguments.output {
        ReportForm::Table => session.printer.print(report_text(&report, session.printer.style, &Clock::system())),
        ReportForm::Json => session.printer.line(serde_json::to_string_pretty(&report)?),
        ReportForm::Html => session.printer.print(html(&report)),
    }
}
