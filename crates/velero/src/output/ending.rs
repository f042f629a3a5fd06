//! What a command that waited says of errors and warnings when the work has ended.

use velero_api::records::{Results, ResultsFile};

use super::describe::{FetchError, Fetched};

/// The most messages of each kind that are shown; the description has them all.
const SHOWN: usize = 3;
/// The longest message that is shown whole.
const LONGEST: usize = 400;

/// How the work ended.
pub(crate) struct Outcome<'a> {
    /// Errors and warnings.
    pub(crate) counts: (i64, i64),
    /// Why it failed or was refused, as its status says.
    pub(crate) reasons: &'a [&'a str],
    /// The messages, where there are any and they could be fetched.
    pub(crate) results: Option<&'a Fetched<ResultsFile>>,
    /// The command that describes it.
    pub(crate) describe: &'a str,
}

/// The counts, the reasons, and the first messages of each kind as far as they could be fetched.
pub(crate) fn ending(outcome: &Outcome<'_>) -> String {
    let Outcome { counts: (errors, warnings), reasons, results, describe } = outcome;
    let mut lines = vec![format!("Errors: {errors}, warnings: {warnings}")];
    lines.extend(reasons.iter().map(|reason| format!("  Reason: {}", one_line(reason))));
    match results {
        None => {}
        Some(Ok(file)) => {
            let mut left = append(&mut lines, "Error", &file.errors);
            left |= append(&mut lines, "Warning", &file.warnings);
            if left {
                lines.push(format!("  all of them: `{describe} --details`"));
            }
        }
        Some(Err(FetchError::NotFound)) => lines.push("  The messages are not in the object store.".to_owned()),
        Some(Err(error)) => lines.push(format!("  The messages cannot be shown: {}", one_line(&error.to_string()))),
    }
    lines.join("\n")
}

/// Adds the first messages; says whether there are more.
fn append(lines: &mut Vec<String>, word: &str, results: &Results) -> bool {
    let of_velero = results.velero.iter().map(|message| ("Velero", message));
    let of_cluster = results.cluster.iter().map(|message| ("Cluster", message));
    let of_namespaces = results.namespaces.iter();
    let of_namespaces =
        of_namespaces.flat_map(|(namespace, messages)| messages.iter().map(|message| (namespace.as_str(), message)));
    let all = of_velero.chain(of_cluster).chain(of_namespaces);
    lines.extend(all.take(SHOWN).map(|(place, message)| format!("  {word}: {place}: {}", one_line(message))));
    let more = results.len().saturating_sub(SHOWN);
    if more > 0 {
        let plural = if more == 1 { "" } else { "s" };
        lines.push(format!("  and {more} more {}{plural}", word.to_lowercase()));
    }
    more > 0
}

/// A message on one line, cut where nobody would read on.
fn one_line(message: &str) -> String {
    let text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(counts: (i64, i64), reasons: &[&str], results: Option<&Fetched<ResultsFile>>) -> String {
        ending(&Outcome { counts, reasons, results, describe: "velero backup describe b" })
    }

    #[test]
    fn counts_reasons_errors_and_warnings_are_told() {
        assert_eq!(told((0, 0), &[], None), "Errors: 0, warnings: 0");
        assert_eq!(told((0, 0), &["no such location"], None), "Errors: 0, warnings: 0\n  Reason: no such location");
        let mut file = ResultsFile::default();
        file.errors.add("shop", "volume data of\npod shop/web");
        file.errors.add("", "volume pv-1");
        file.errors.add_velero("the store");
        file.warnings.add("shop", "odd");
        let expected = "Errors: 3, warnings: 1\n  Error: Velero: the store\n  Error: Cluster: volume pv-1\n  \
                        Error: shop: volume data of pod shop/web\n  Warning: shop: odd";
        assert_eq!(told((3, 1), &[], Some(&Ok(file))), expected);
    }

    #[test]
    fn three_of_each_are_shown_and_long_ones_are_cut() {
        let mut file = ResultsFile::default();
        for index in 0..1000 {
            file.errors.add("shop", format!("error {index} {}", "ä".repeat(1000)));
        }
        for index in 0..4 {
            file.warnings.add("shop", format!("warning {index}"));
        }
        let told = told((1000, 4), &[], Some(&Ok(file)));
        assert!(told.contains("error 2 ä") && !told.contains("error 3 "), "{told}");
        assert!(told.contains("\n  and 997 more errors\n"), "{told}");
        let end = "  and 1 more warning\n  all of them: `velero backup describe b --details`";
        assert!(told.ends_with(end), "{told}");
        assert!(told.lines().all(|line| line.chars().count() < 450), "{told}");
    }

    #[test]
    fn messages_that_cannot_be_fetched_are_missed() {
        let failed = Err(FetchError::Failed("no route to host".to_owned()));
        let expected = "Errors: 1, warnings: 0\n  The messages cannot be shown: no route to host";
        assert_eq!(told((1, 0), &[], Some(&failed)), expected);
        let expected = "Errors: 0, warnings: 2\n  The messages are not in the object store.";
        assert_eq!(told((0, 2), &[], Some(&Err(FetchError::NotFound))), expected);
    }
}
