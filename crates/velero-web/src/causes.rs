//! Errors and warnings, grouped by cause: a thousand objects that one missing right hit are one line.

use std::collections::BTreeMap;

use velero_api::records::Results;

/// How many messages of a group are shown whole.
pub(crate) const SHOWN: usize = 5;
/// How much of a message is shown.
const LONGEST: usize = 2000;
/// Stands for what differs.
const LEFT_OUT: &str = "…";

/// Messages with the same cause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    /// What they have in common; what differs is `…`.
    pub(crate) text: String,
    /// How many there are.
    pub(crate) count: usize,
    /// What they are about and what they say, of the first few.
    pub(crate) examples: Vec<(String, String)>,
    /// What to do about it, where that is known.
    pub(crate) remedy: Option<&'static str>,
}

/// What messages of a known kind contain, and what to do about them.
const REMEDIES: [(&str, &str); 14] = [
    ("is forbidden", "The account of the server lacks a right: grant it, or leave these objects out."),
    ("admission webhook", "A webhook refused the object: read its reason, or switch it off while restoring."),
    ("no matches for kind", "The cluster does not know this type: install its definition first."),
    ("could not find the requested resource", "The cluster does not know this type: install its definition first."),
    ("already exists", "An object of this name is there and differs: delete it, or restore with the policy `update`."),
    ("already allocated", "The address or port is taken by another Service: free it, or do not preserve node ports."),
    ("accessdenied", "The credentials of the location may not do this: see `velero backup-location check`."),
    ("nosuchbucket", "The bucket of the location does not exist: see `velero backup-location check`."),
    ("no space left", "A disk is full: the scratch folder of the server, or the store."),
    ("exceeded quota", "The quota of the namespace is used up: raise it, or restore into another namespace."),
    ("snapshotclass", "No snapshot class serves this volume: make one for its driver and label it for Velero."),
    ("node-agent", "Data of volumes is moved by node agents: see that one runs on the node of the pod."),
    ("timed out", "Something did not answer in time: see whether it runs, then try again."),
    (
        "connection refused",
        "Something does not listen: see whether it runs and whether a network policy is in between.",
    ),
];

/// Groups messages by what they have in common, the most frequent first.
pub(crate) fn group(results: &Results) -> Vec<Cause> {
    let of_all = results.velero.iter().map(|message| ("Velero".to_owned(), message));
    let of_cluster = results.cluster.iter().map(|message| ("cluster".to_owned(), message));
    let of_namespaces = results.namespaces.iter();
    let of_namespaces = of_namespaces.flat_map(|(namespace, messages)| {
        messages.iter().map(move |message| (format!("namespace {namespace}"), message))
    });
    let mut groups: BTreeMap<String, Cause> = BTreeMap::new();
    for (place, message) in of_all.chain(of_cluster).chain(of_namespaces) {
        let text = common(message);
        let cause = groups.entry(text.clone()).or_insert_with(|| {
            let remedy = remedy(message);
            Cause { text, count: 0, examples: Vec::new(), remedy }
        });
        cause.count += 1;
        if cause.examples.len() < SHOWN {
            cause.examples.push((place, message.chars().take(LONGEST).collect()));
        }
    }
    let mut causes: Vec<Cause> = groups.into_values().collect();
    causes.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.text.cmp(&other.text)));
    causes
}

fn remedy(message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    REMEDIES.iter().find(|(words, _)| message.contains(words)).map(|(_, remedy)| *remedy)
}

/// What messages of one cause have in common: names, paths and numbers are left out.
fn common(message: &str) -> String {
    let start: String = message.chars().take(LONGEST).collect();
    let mut words: Vec<&str> = Vec::new();
    let mut quote = None;
    for word in start.split_whitespace() {
        let begins = word.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'));
        let open = quote.or(begins);
        let shown = if open.is_some() || is_name(word) { LEFT_OUT } else { word };
        let bare = word.trim_end_matches([',', ':', ';', '.', ')']);
        let closes = open.is_some_and(|mark| bare.ends_with(mark) && (quote.is_some() || bare.len() > 1));
        quote = if closes { None } else { open };
        if shown != LEFT_OUT || words.last() != Some(&LEFT_OUT) {
            words.push(shown);
        }
    }
    words.join(" ")
}

/// Whether a word names something: it has digits, or parts like those of a path or a name.
fn is_name(word: &str) -> bool {
    let bare = word.trim_matches(|letter: char| letter.is_ascii_punctuation());
    let joints = bare.chars().filter(|letter| matches!(letter, '/' | '-' | '.' | '_' | '=')).count();
    bare.chars().any(|letter| letter.is_ascii_digit()) || bare.contains('/') || joints > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_names_alone_are_one_cause() {
        let mut results = Results::default();
        results.add("shop", "error restoring pods shop/web-1: pods \"web-1\" is forbidden: no right");
        results.add("shop", "error restoring pods shop/web-2: pods \"web-2\" is forbidden: no right");
        results.add("", "volume pv-7 not found");
        results.add_velero("the store did not answer");
        let causes = group(&results);
        assert_eq!(causes.iter().map(|cause| cause.count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(causes[0].text, "error restoring pods … pods … is forbidden: no right");
        assert!(causes[0].remedy.unwrap().contains("lacks a right"));
        assert_eq!(causes[0].examples[1].0, "namespace shop");
        assert!(causes[0].examples[1].1.contains("shop/web-2"));
    }

    #[test]
    fn quoted_words_are_names_to_their_end_and_an_open_quote_hides_the_rest() {
        assert_eq!(common("cannot read \"a b c\", it is gone"), "cannot read … it is gone");
        assert_eq!(common("cannot read \"a"), "cannot read …");
        assert_eq!(common(""), "");
    }

    #[test]
    fn examples_and_their_length_are_bounded() {
        let mut results = Results::default();
        for number in 0..100 {
            results.add_velero(format!("item {number:03} {}", "x".repeat(10_000)));
        }
        let causes = group(&results);
        assert_eq!((causes.len(), causes[0].count, causes[0].examples.len()), (1, 100, SHOWN));
        assert!(causes[0].examples.iter().all(|(_, message)| message.len() <= LONGEST));
    }
}
