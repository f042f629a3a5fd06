//! Labels and annotations, from the constants and what is said above them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::cell;

/// A constant, or what is said above a module of some.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Word { name: String, value: String, meaning: String },
    Group(String),
}

pub(super) fn page(root: &Path) -> Result<String> {
    let read = |file: &str| {
        let path = root.join("crates/velero-api/src").join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (labels, annotations) = (entries(&read("labels.rs")?), entries(&read("annotations.rs")?));
    Ok(format!("## Labels\n\n{}\n## Annotations\n\n{}", table(&labels), table(&annotations)))
}

fn table(entries: &[Entry]) -> String {
    const HEAD: &str = "| key | meaning |\n|---|---|\n";
    let values: BTreeMap<&str, &str> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Word { name, value, .. } => Some((name.as_str(), value.as_str())),
            Entry::Group(_) => None,
        })
        .collect();
    let mut text = HEAD.to_owned();
    for entry in entries {
        match entry {
            Entry::Group(meaning) => text += &format!("\n{meaning}\n\n{HEAD}"),
            // What stands behind a key or before it is no key.
            Entry::Word { value, meaning, .. } if is_key(value, meaning) => {
                let meaning = values.iter().fold(cell(meaning), |meaning, (name, value)| {
                    meaning.replace(&format!("[`{name}`]"), &format!("`{value}`"))
                });
                text += &format!("| `{value}` | {meaning} |\n");
            }
            Entry::Word { .. } => {}
        }
    }
    text
}

fn is_key(value: &str, meaning: &str) -> bool {
    (value.contains('/') || meaning.starts_with("The key")) && !meaning.starts_with("The value of")
}

fn entries(source: &str) -> Vec<Entry> {
    let (mut entries, mut said) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("/// ") {
            said = format!("{said} {more}").trim_start().to_owned();
            continue;
        }
        let meaning = std::mem::take(&mut said);
        if line.starts_with("pub mod ") {
            entries.push(Entry::Group(meaning));
        } else if let Some((name, value)) = constant(line) {
            entries.push(Entry::Word { name: name.to_owned(), value: value.to_owned(), meaning });
        }
    }
    entries
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("pub const ")?.split_once(": &str = \"")?;
    Some((name, value.strip_suffix("\";")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_has_the_words_above_it_and_a_group_too() {
        let source = "//! Head.\n/// The backup\n/// of it.\npub const A: &str = \"velero.io/a\";\n\nconst MOST: usize = 3;\n/// Hooks.\npub mod hook {\n    /// The value of [`A`].\n    pub const B: &str = \"b\";\n}\n";
        let word = |name: &str, value: &str, meaning: &str| Entry::Word {
            name: name.to_owned(),
            value: value.to_owned(),
            meaning: meaning.to_owned(),
        };
        let expected = [
            word("A", "velero.io/a", "The backup of it."),
            Entry::Group("Hooks.".to_owned()),
            word("B", "b", "The value of [`A`]."),
        ];
        assert_eq!(entries(source), expected);
        let head = "| key | meaning |\n|---|---|\n";
        assert_eq!(table(&expected), format!("{head}| `velero.io/a` | The backup of it. |\n\nHooks.\n\n{head}"));
    }
}
