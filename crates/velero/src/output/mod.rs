//! What commands print: tables, JSON, YAML and descriptions, as Velero's users and scripts know them.

pub(crate) mod clock;
pub(crate) mod describe;
mod document;
mod ending;
mod location_check;
mod preview;
mod reference;
mod report;
mod server_details;
mod server_report;
mod table;
mod tables;
mod yaml;

use anyhow::{Result, anyhow};
use serde::Serialize;
use velero_api::resource::VeleroResource;
use velero_api::v1::ServerStatusRequest;

use crate::arguments::OutputArguments;
use crate::printer::Printer;
use crate::session::Listed;
pub(crate) use clock::Clock;
pub(crate) use document::Document;
pub(crate) use ending::{Outcome, ending};
pub(crate) use location_check::{LocationCheck, ServerSays};
pub(crate) use preview::RestorePreview;
pub(crate) use reference::reference;
pub(crate) use report::report_text;
pub(crate) use server_details::{Availability, LocationDetails, Part, ServerDetails, Work, WorkOverview};
pub(crate) use server_report::{Heard, ServerReport};
use table::Table;
pub(crate) use tables::Tabular;

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// JSON with the fields in the order of the API.
    Json,
    /// YAML with sorted fields.
    Yaml,
}

impl Format {
    /// Reads the value of `--output`; an empty one is none.
    pub(crate) fn parse(text: Option<&str>) -> Result<Option<Self>> {
        match text.unwrap_or_default() {
            "" => Ok(None),
            "table" => Ok(Some(Self::Table)),
            "json" => Ok(Some(Self::Json)),
            "yaml" => Ok(Some(Self::Yaml)),
            other => Err(anyhow!("invalid output format {other:?} - valid values are 'table', 'json', and 'yaml'")),
        }
    }
}

/// Prints what a `get` found, as a table unless another form is asked for.
pub(crate) fn print_list<K: VeleroResource + Tabular>(
    printer: Printer,
    listed: Listed<K>,
    output: &OutputArguments,
) -> Result<()> {
    match Format::parse(output.output.as_deref())?.unwrap_or(Format::Table) {
        Format::Table => print_table(printer, listed.items, output),
        format => match listed.items.as_slice() {
            [object] => print_document(printer, &Document::of_object(object)?, format),
            _ => print_document(printer, &Document::of_list(&listed)?, format),
        },
    }
}

/// Prints an object that is about to be created, if asked to; says whether it did, and so must not create it.
pub(crate) fn print_instead_of_create<K: VeleroResource + Tabular>(
    printer: Printer,
    object: &K,
    output: &OutputArguments,
) -> Result<bool> {
    match Format::parse(output.output.as_deref())? {
        None => return Ok(false),
        Some(Format::Table) => print_table(printer, vec![object.clone()], output)?,
        Some(format) => print_document(printer, &Document::of_object(object)?, format)?,
    }
    Ok(true)
}

/// Prints the plugins of a server.
pub(crate) fn print_plugins(printer: Printer, mut status: ServerStatusRequest, format: Format) -> Result<()> {
    if format != Format::Table {
        return print_document(printer, &Document::of_object(&status)?, format);
    }
    let plugins = &mut status.status.plugins;
    plugins.sort_by(|left, right| (&left.kind, &left.name).cmp(&(&right.kind, &right.name)));
    let rows = plugins.iter().map(|plugin| vec![plugin.name.clone(), plugin.kind.clone()]).collect();
    printer.print(Table::new(&["Name", "Kind"], rows).render())
}

/// Prints rows under headings.
pub(crate) fn print_rows(printer: Printer, headings: &[&str], rows: Vec<Vec<String>>) -> Result<()> {
    printer.print(Table::new(headings, rows).render())
}

/// Prints anything that can be JSON, in the order it serialises in.
pub(crate) fn print_value(printer: Printer, value: &impl Serialize, format: Format) -> Result<()> {
    print_document(printer, &Document::of_value(value)?, format)
}

fn print_document(printer: Printer, document: &Document, format: Format) -> Result<()> {
    match format {
        Format::Yaml => printer.line(document.to_yaml()),
        _ => printer.line(document.to_json()?),
    }
}

fn print_table<K: VeleroResource + Tabular>(
    printer: Printer,
    mut items: Vec<K>,
    output: &OutputArguments,
) -> Result<()> {
    K::sort(&mut items);
    let clock = Clock::system();
    let rows = items.iter().map(|item| item.cells(&clock)).collect();
    let mut table = Table::new(K::HEADINGS, rows);
    let labels: Vec<_> = items.iter().map(|item| item.meta().labels.clone().unwrap_or_default()).collect();
    for label in output.label_columns.iter().flat_map(|list| &list.0) {
        table.add_label_column(label, &labels);
    }
    if output.show_labels {
        table.add_all_labels(&labels);
    }
    printer.print(table.render())
}
