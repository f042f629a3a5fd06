//! Errors and warnings, grouped by what they come from, with what can be done about it.
//!
//! Messages come from the API server, from stores, drivers, plugins and from other versions of Velero, so their words are all
//! there is to go by. A message that the table does not know is not lost: those that differ in names only make a group without a
//! cause.

mod table;

use std::collections::{BTreeMap, BTreeSet};

use velero_api::records::Results;

use table::KNOWN;

/// Messages that come from the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they come from, in a sentence; the message itself where that is not known.
    pub cause: String,
    /// What can be done about it; nothing where the cause is not known.
    pub remedy: Option<&'static str>,
    /// How many messages there are.
    pub count: usize,
    /// The objects they are about, sorted: `pods shop/web`, or the place where a message names no object.
    pub objects: Vec<String>,
    /// The first message as it was written.
    pub example: String,
}

/// Something that messages can come from.
struct Known {
    /// A message comes from it when it has all the words of one of these, whatever their case.
    signs: &'static [&'static [&'static str]],
    cause: &'static str,
    remedy: &'static str,
}

/// The longest text of a message that stands for a cause.
const LONGEST: usize = 240;

/// Groups messages by cause, those with the most messages first.
pub fn grouped(results: &Results) -> Vec<Group> {
    let mut groups: Vec<(Group, BTreeSet<String>)> = Vec::new();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    let of_velero = results.velero.iter().map(|message| ("", message));
    let of_cluster = results.cluster.iter().map(|message| ("", message));
    let of_namespaces = results.namespaces.iter();
    let of_namespaces =
        of_namespaces.flat_map(|(namespace, messages)| messages.iter().map(|message| (namespace.as_str(), message)));
    for (namespace, message) in of_velero.chain(of_cluster).chain(of_namespaces) {
        let Subject { object, text } = subject(namespace, message);
        let known = known(&text);
        let key = known.map_or_else(|| without_names(&text), |known| known.cause.to_owned());
        let position = *positions.entry(key).or_insert_with(|| {
            let cause = known.map_or_else(|| shortened(&text), |known| known.cause.to_owned());
            let remedy = known.map(|known| known.remedy);
            let group = Group { cause, remedy, count: 0, objects: Vec::new(), example: message.trim().to_owned() };
            groups.push((group, BTreeSet::new()));
            groups.len() - 1
        });
        let (group, objects) = &mut groups[position];
        group.count += 1;
        objects.extend(object);
    }
    let mut groups: Vec<Group> =
        groups.into_iter().map(|(group, objects)| Group { objects: objects.into_iter().collect(), ..group }).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

fn known(text: &str) -> Option<&'static Known> {
    let text = text.to_lowercase();
    KNOWN.iter().find(|known| known.signs.iter().any(|signs| signs.iter().all(|sign| text.contains(sign))))
}

/// What a message is about, and what it says.
struct Subject {
    object: Option<String>,
    text: String,
}

/// Takes a message apart. Those of backups name type, object, message and error; those of restores begin with the object.
fn subject(namespace: &str, message: &str) -> Subject {
    let place = |name: &str| match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    let message = message.trim();
    let (resource, name) = (field(message, "resource: /"), field(message, "name: /"));
    if message.starts_with("resource: /") || message.starts_with("name: /") || message.starts_with("message: /") {
        let text = message.split_once("message: /").map_or(message, |(_, text)| text);
        let text = text.replacen(" error: /", ": ", 1);
        let object = match (resource, name) {
            (Some(resource), Some(name)) => Some(format!("{resource} {}", place(name))),
            (Some(resource), None) => Some(resource.to_owned()),
            (None, Some(name)) => Some(place(name)),
            (None, None) => (!namespace.is_empty()).then(|| namespace.to_owned()),
        };
        return Subject { object, text };
    }
    let object = restored_object(message)
        .or_else(|| existing_object(message).map(|(kind, name)| format!("{kind} {}", place(name))))
        .or_else(|| (!namespace.is_empty()).then(|| namespace.to_owned()));
    Subject { object, text: message.to_owned() }
}

/// A field of a message of a backup: it ends where the next one begins.
fn field<'a>(message: &'a str, label: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once("message: /").map_or(message, |(head, _)| head).split_once(label)?;
    rest.split_whitespace().next()
}

/// The object of a message like `error restoring pods/shop/web: …`.
fn restored_object(message: &str) -> Option<String> {
    const BEGINNINGS: [&str; 5] = [
        "error restoring the managed fields of ",
        "error restoring ",
        "error preparing ",
        "error modifying ",
        "could not restore the status of ",
    ];
    let rest = BEGINNINGS.iter().find_map(|beginning| message.strip_prefix(beginning))?;
    let (id, _) = rest.split_once(": ")?;
    let (resource, object) = id.split_once('/')?;
    (!id.contains(' ')).then(|| format!("{resource} {object}"))
}

/// Kind and name of a message like `could not restore, ConfigMap "a" already exists`, or with a colon between the two.
fn existing_object(message: &str) -> Option<(&str, &str)> {
    let rest = message.strip_prefix("could not restore, ")?;
    let (object, _) = rest.split_once(" already exists")?;
    let (kind, name) = object.split_once(' ').or_else(|| object.split_once(':'))?;
    Some((kind, name.trim_matches('"')))
}

/// A text without what differs between messages that say the same: names in quotes, paths, numbers.
fn without_names(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (position, piece) in text.split('"').enumerate() {
        // Every other piece stood in quotes.
        if position % 2 == 1 {
            plain.push('…');
            continue;
        }
        for word in piece.split_whitespace() {
            let is_name = word.contains('/') || word.chars().any(|character| character.is_ascii_digit());
            plain.push(' ');
            plain.push_str(if is_name { "…" } else { word });
        }
    }
    plain
}

fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
