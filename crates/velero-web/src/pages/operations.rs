//! The operations that the actions of a backup or restore have started, and how far they are.

use maud::{Markup, html};
use velero_api::records::{BackupOperation, OperationStatus, ResourceIdentifier, RestoreOperation};

use super::paged::Paged;
use super::parts;

/// How many operations a page of the list has.
const PAGE: usize = 100;

/// What is told of an operation.
struct Told<'a> {
    action: &'a str,
    object: &'a ResourceIdentifier,
    status: &'a OperationStatus,
}

impl<'a> From<&'a BackupOperation> for Told<'a> {
    fn from(BackupOperation { spec, status }: &'a BackupOperation) -> Self {
        Self { action: &spec.backup_item_action, object: &spec.resource_identifier, status }
    }
}

impl<'a> From<&'a RestoreOperation> for Told<'a> {
    fn from(RestoreOperation { spec, status }: &'a RestoreOperation) -> Self {
        Self { action: &spec.restore_item_action, object: &spec.resource_identifier, status }
    }
}

/// The operations of a backup.
pub(crate) fn of_backup(operations: &[BackupOperation], paged: &Paged) -> Markup {
    table(&operations.iter().map(Told::from).collect::<Vec<_>>(), paged)
}

/// The operations of a restore.
pub(crate) fn of_restore(operations: &[RestoreOperation], paged: &Paged) -> Markup {
    table(&operations.iter().map(Told::from).collect::<Vec<_>>(), paged)
}

fn table(operations: &[Told<'_>], paged: &Paged) -> Markup {
    html! {
        @if !operations.is_empty() {
            h2 { "Operations" }
            p { (operations.len()) @if operations.len() == 1 { " operation" } @else { " operations" } }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Object" } th { "Action" } th { "Phase" } th { "Progress" } th { "What is said of it" } } }
                tbody { @for told in paged.part(operations, PAGE) { (row(told)) } }
            } }
            (paged.pager(operations.len(), PAGE))
        }
    }
}

fn row(told: &Told<'_>) -> Markup {
    let Told { action, object, status } = told;
    let (done, total) = (status.n_completed.max(0), status.n_total.max(0));
    html! {
        tr {
            td { (object.resource) " " @if !object.namespace.is_empty() { (object.namespace) "/" } (object.name) }
            td { (action) }
            td { (parts::phase(status.phase.as_ref().map_or("New", |phase| phase.as_str()))) }
            td {
                @if total > 0 {
                    progress max=(total) value=(done.min(total)) aria-label="Progress" {}
                    " " (amount(done, &status.operation_units)) " of " (amount(total, &status.operation_units))
                } @else { span.none { "–" } }
            }
            td {
                @if status.error.is_empty() { (status.description) } @else { span.bad { (status.error) } }
            }
        }
    }
}

fn amount(number: i64, units: &str) -> String {
    if units.eq_ignore_ascii_case("byte") || units.eq_ignore_ascii_case("bytes") {
        return crate::text::size(number);
    }
    format!("{number} {units}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pages::paged::Lists;

    #[test]
    fn an_operation_says_for_what_it_is_and_how_far() {
        let operation: BackupOperation = serde_json::from_value(json!({
            "spec": {"backupItemAction": "velero.io/csi", "resourceIdentifier":
                {"Group": "", "Resource": "persistentvolumeclaims", "Namespace": "shop", "Name": "<b>data"}},
            "status": {"phase": "InProgress", "nCompleted": 512, "nTotal": 1024, "operationUnits": "Byte",
                "error": "<script>"}}))
        .unwrap();
        let first = Lists::default().operations();
        let text = of_backup(&[operation], &first).into_string();
        assert!(text.contains("512 B of 1.0 KiB") && text.contains("InProgress"), "{text}");
        assert!(text.contains("shop/&lt;b&gt;data") && text.contains("&lt;script&gt;"), "{text}");
        assert_eq!(of_restore(&[], &first).into_string(), "");
    }
}
