//! Errors, warnings and the list of objects.

use velero_api::records::{ResourceList, Results, ResultsFile};

use super::describer::Describer;
use super::files::{FetchError, Fetched};

/// Describes how many errors and warnings there are.
pub(super) fn describe_counts(describer: &mut Describer<'_>, errors: i64, warnings: i64) {
    describer.field("Errors", errors);
    describer.field("Warnings", warnings);
}

/// Describes errors and warnings, as far as the status counts any.
pub(super) fn describe_results(describer: &mut Describer<'_>, file: &Fetched<ResultsFile>, errors: i64, warnings: i64) {
    let file = match file {
        Ok(file) => file,
        Err(error) => {
            let verb = if matches!(error, FetchError::Unreadable(_)) { "decoding" } else { "getting" };
            describer.line(format_args!(
                "Warnings:\t<error {verb} warnings: {error}>\n\nErrors:\t<error {verb} errors: {error}>"
            ));
            return;
        }
    };
    if warnings > 0 {
        describer.gap();
        describe_messages(describer, "Warnings", &file.warnings);
    }
    if errors > 0 {
        describer.gap();
        describe_messages(describer, "Errors", &file.errors);
    }
}

fn describe_messages(describer: &mut Describer<'_>, name: &str, results: &Results) {
    describer.line(format_args!("{name}:"));
    describer.list(1, "Velero", &results.velero);
    describer.list(1, "Cluster", &results.cluster);
    if results.namespaces.is_empty() {
        describer.line("\tNamespaces: <none>");
        return;
    }
    describer.line("\tNamespaces:");
    for (namespace, messages) in &results.namespaces {
        describer.list(2, namespace, messages);
    }
}

/// Describes the objects of a backup or restore by type.
pub(super) fn describe_resource_list(describer: &mut Describer<'_>, owner: &str, list: &Fetched<ResourceList>) {
    let list = match list {
        Ok(list) => list,
        Err(FetchError::NotFound) => {
            return describer.field("Resource List", format_args!("<{owner} resource list not found>"));
        }
        Err(FetchError::Failed(error)) => {
            return describer.field("Resource List", format_args!("<error getting {owner} resource list: {error}>"));
        }
        Err(FetchError::Unreadable(error)) => {
            return describer.field("Resource List", format_args!("<error reading {owner} resource list: {error}>"));
        }
    };
    describer.line("Resource List:");
    for (kind, names) in list {
        describer.line(format_args!("\t{kind}:\n\t\t- {}", names.join("\n\t\t- ")));
    }
}
