//! Errors, warnings and the list of objects.

use velero_api::records::{ResourceList, Results, ResultsFile};
use velero_rules::causes::{Group, grouped};

use super::describer::Describer;
use super::files::{FetchError, Fetched};

/// The most objects of a cause that are named without details.
const OBJECTS_SHOWN: usize = 5;

/// Describes how many errors and warnings there are.
pub(super) fn describe_counts(describer: &mut Describer<'_>, errors: i64, warnings: i64) {
    describer.field("Errors", errors);
    describer.field("Warnings", warnings);
}

/// Describes errors and warnings by cause, as far as the status counts any; with details every message, too.
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
    let details = describer.manner.details;
    for group in grouped(results) {
        // Without tabs: a remedy is too long to be a column.
        cause_lines(&group, details).into_iter().for_each(|line| describer.line(line));
    }
    if details {
        describe_each(describer, results);
    }
}

/// A cause, the objects, an example where it says more than the cause, and what to do.
fn cause_lines(group: &Group, details: bool) -> Vec<String> {
    let Group { cause, remedy, count, objects, example } = group;
    let times = if *count == 1 { String::new() } else { format!("{count} × ") };
    let mut lines = vec![format!("  {times}{cause}")];
    let shown = if details { objects.len() } else { objects.len().min(OBJECTS_SHOWN) };
    if !objects.is_empty() {
        let more = match objects.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!("    Objects: {}{more}", objects[..shown].join(", ")));
    }
    match remedy {
        Some(remedy) => {
            lines.push(format!("    Message: {}", example.split_whitespace().collect::<Vec<_>>().join(" ")));
            lines.push(format!("    Remedy:  {remedy}"));
        }
        None => lines.push("    Remedy:  not known; the log has what happened before".to_owned()),
    }
    lines
}

/// Every message, in the original's form.
fn describe_each(describer: &mut Describer<'_>, results: &Results) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Clock;
    use crate::output::describe::Manner;
    use crate::printer::Style;

    fn described(file: ResultsFile, details: bool) -> String {
        let manner = Manner { clock: Clock::system(), style: Style::default(), details };
        let mut describer = Describer::new(&manner);
        let (errors, warnings) = (file.errors.len() as i64, file.warnings.len() as i64);
        describe_results(&mut describer, &Ok(file), errors, warnings);
        describer.finish()
    }

    fn file() -> ResultsFile {
        let mut file = ResultsFile::default();
        for index in 0..7 {
            file.errors.add("shop", format!("error restoring pods/shop/web-{index}: exceeded quota: all"));
        }
        file.warnings.add_velero("odd");
        file
    }

    #[test]
    fn errors_and_warnings_are_described_by_cause_with_objects_and_remedy() {
        let objects: Vec<String> = (0..5).map(|index| format!("pods shop/web-{index}")).collect();
        let expected = format!(
            "\nWarnings:\n  odd\n    Remedy:  not known; the log has what happened before\n\nErrors:\n  7 × A ResourceQuota of the \
             namespace is used up\n    Objects: {} and 2 more\n    Message: error restoring pods/shop/web-0: exceeded quota: all\n    \
             Remedy:  raise the quota or remove what is not needed, then restore again, or with --resume\n",
            objects.join(", ")
        );
        assert_eq!(described(file(), false), expected);
    }

    #[test]
    fn details_have_every_object_and_every_message_as_the_original_shows_them() {
        let text = described(file(), true);
        assert!(text.contains("pods shop/web-6\n") && !text.contains("more"), "{text}");
        for index in 0..7 {
            assert!(text.contains(&format!("error restoring pods/shop/web-{index}: exceeded quota: all\n")), "{text}");
        }
        assert!(text.contains("  Velero:   odd\n") || text.contains("  Velero:  odd\n"), "{text}");
        assert!(text.contains("Namespaces:"), "{text}");
    }
}
