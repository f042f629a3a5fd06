//! What a command that waited says of errors and warnings when the work has ended.

use velero_api::records::{Results, ResultsFile};

use super::describe::Fetched;

/// The most errors that are shown; the description has them all.
const SHOWN: usize = 20;

/// The counts, and the errors as far as they could be fetched; nothing when all went well.
pub(crate) fn ending(
    (errors, warnings): (i64, i64),
    results: Option<&Fetched<ResultsFile>>,
    describe: &str,
) -> Option<String> {
    if errors == 0 && warnings == 0 {
        return None;
    }
    let mut lines = vec![format!("Errors: {errors}, warnings: {warnings}")];
    match results {
        Some(Ok(file)) => lines.extend(messages(&file.errors, describe)),
        Some(Err(error)) => lines.push(format!("  <error getting errors: {error}>")),
        None => {}
    }
    Some(lines.join("\n"))
}

fn messages(errors: &Results, describe: &str) -> Vec<String> {
    let of_velero = errors.velero.iter().map(|message| format!("  Velero: {message}"));
    let of_cluster = errors.cluster.iter().map(|message| format!("  Cluster: {message}"));
    let of_namespaces = errors.namespaces.iter();
    let of_namespaces = of_namespaces
        .flat_map(|(namespace, messages)| messages.iter().map(move |message| format!("  {namespace}: {message}")));
    let mut lines: Vec<String> = of_velero.chain(of_cluster).chain(of_namespaces).take(SHOWN).collect();
    let more = errors.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.push(format!("  and {more} more: see `{describe}`"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::describe::FetchError;

    const DESCRIBE: &str = "velero backup describe b";

    #[test]
    fn counts_and_errors_are_told_and_nothing_when_all_went_well() {
        assert_eq!(ending((0, 0), None, DESCRIBE), None);
        assert_eq!(ending((0, 3), None, DESCRIBE).unwrap(), "Errors: 0, warnings: 3");
        let mut file = ResultsFile::default();
        file.errors.add("shop", "volume data of pod shop/web");
        file.errors.add("", "volume pv-1");
        file.errors.add_velero("the store");
        let told = ending((3, 1), Some(&Ok(file)), DESCRIBE).unwrap();
        let expected =
            "Errors: 3, warnings: 1\n  Velero: the store\n  Cluster: volume pv-1\n  shop: volume data of pod shop/web";
        assert_eq!(told, expected);
    }

    #[test]
    fn many_errors_are_cut_and_errors_that_cannot_be_fetched_are_told() {
        let mut file = ResultsFile::default();
        for index in 0..1000 {
            file.errors.add("shop", format!("error {index}"));
        }
        let told = ending((1000, 0), Some(&Ok(file)), DESCRIBE).unwrap();
        assert_eq!(told.lines().count(), SHOWN + 2);
        assert!(told.ends_with("  and 980 more: see `velero backup describe b`"), "{told}");
        let failed = Err(FetchError::Failed("no route to host".to_owned()));
        let told = ending((1, 0), Some(&failed), DESCRIBE).unwrap();
        assert!(told.contains("no route to host"), "{told}");
    }
}
