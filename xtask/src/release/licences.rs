//! The licences of what is linked into the binaries: most of them want to come along.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Release;
use super::bill_of_materials::Packages;

/// How the files begin that hold a licence.
const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"];
/// What stands between two texts.
const LINE: &str = "------------------------------------------------------------------------------";

/// Each text once, below the names of all crates that have it.
pub(super) fn of_what_is_built_in(release: &Release) -> Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = BTreeSet::new();
    for package in Packages::of(release)?.by_id.values().filter(|package| !package["source"].is_null()) {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {} ({})", word("name"), word("version"), word("license"));
        let found = Path::new(word("manifest_path")).parent().map(texts_in).transpose()?.unwrap_or_default();
        if found.is_empty() {
            without.insert(name.clone());
        }
        for text in found {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    Ok(together(&texts, &without))
}

fn texts_in(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) && entry.file_type()?.is_file() {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
            texts.insert(text.trim_end().to_owned());
        }
    }
    Ok(texts)
}

fn together(texts: &BTreeMap<String, BTreeSet<String>>, without: &BTreeSet<String>) -> String {
    let list = |names: &BTreeSet<String>| names.iter().map(|name| format!("- {name}\n")).collect::<String>();
    // By the crates, so that a word changed in a licence does not move everything.
    let sorted: BTreeMap<String, &String> = texts.iter().map(|(text, names)| (list(names) + text, text)).collect();
    let mut all = "The programs contain these crates, under these licences.\n".to_owned();
    if !without.is_empty() {
        all += &format!("\nWithout a text of their own; the names say which licence:\n\n{}", list(without));
    }
    for text in sorted.into_values() {
        all += &format!("\n{LINE}\n{}\n{text}\n", list(&texts[text]));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_many_have_comes_once() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let texts = [("MIT of b".to_owned(), names(&["b 1"])), ("Apache".to_owned(), names(&["a 1", "c 1"]))].into();
        let all = together(&texts, &names(&["d 1 (MIT)"]));
        assert_eq!(all.matches("Apache").count(), 1);
        assert!(all.contains("- a 1\n- c 1\n\nApache\n") && all.contains("- d 1 (MIT)\n"), "{all}");
        assert!(all.find("Apache") < all.find("MIT of b"), "{all}");
    }
}
