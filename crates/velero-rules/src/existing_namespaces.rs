//! Which of the namespaces that exist each of many pairs of lists takes.
//!
//! [`NamespaceFilter`](crate::includes_excludes::NamespaceFilter) tells more of one pair, and keeps it ready to be asked.
//! Who reads the pairs of ten thousand backups reads them here: names are looked up, patterns alone are tried on all
//! namespaces, and what stays of a pair is a bit a namespace.

use std::collections::HashMap;

use crate::includes_excludes::{has_patterns_to_expand, takes_everything};
use crate::wildcard::{Wildcard, WildcardError, is_plain, validate_namespace_pattern};

/// The namespaces that exist, each with its place: the first has the place 0.
#[derive(Debug, Clone, Default)]
pub struct ExistingNamespaces<'a> {
    names: Vec<&'a str>,
    places: HashMap<&'a str, usize>,
}

impl<'a> ExistingNamespaces<'a> {
    /// Takes the names of namespaces, each once.
    pub fn new(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let places = names.iter().enumerate().map(|(place, name)| (*name, place)).collect();
        Self { names, places }
    }

    /// The place of a namespace; nothing when it does not exist.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The places of those that a pair of lists takes: those of which
    /// [`NamespaceFilter::should_include`](crate::includes_excludes::NamespaceFilter::should_include) says so.
    pub fn taken(&self, includes: &[String], excludes: &[String]) -> Result<Places, WildcardError> {
        if has_patterns_to_expand(texts(includes), texts(excludes)) {
            includes.iter().chain(excludes).try_for_each(|entry| validate_namespace_pattern(entry))?;
        }
        let mut taken = match takes_everything(texts(includes)) {
            true => Places::all(self.names.len()),
            false => self.named(includes),
        };
        if !excludes.is_empty() {
            taken.leave_out(&self.named(excludes));
        }
        Ok(taken)
    }

    /// Those that entries name or match. An entry that cannot be read matches nothing.
    fn named(&self, entries: &[String]) -> Places {
        let mut named = Places::none(self.names.len());
        for entry in entries {
            if is_plain(entry) {
                self.place(entry).into_iter().for_each(|place| named.insert(place));
            } else if let Ok(wildcard) = Wildcard::compile(entry) {
                let matching = self.names.iter().enumerate().filter(|(_, name)| wildcard.matches(name));
                matching.for_each(|(place, _)| named.insert(place));
            }
        }
        named
    }
}

fn texts(entries: &[String]) -> impl Iterator<Item = &str> + Clone {
    entries.iter().map(String::as_str)
}

/// Places of namespaces, a bit each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    words: Box<[u64]>,
}

const BITS: usize = u64::BITS as usize;

impl Places {
    fn none(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(BITS)].into() }
    }

    fn all(count: usize) -> Self {
        let mut words = vec![u64::MAX; count.div_ceil(BITS)];
        if let Some(last) = words.last_mut() {
            *last >>= count.next_multiple_of(BITS) - count;
        }
        Self { words: words.into() }
    }

    fn insert(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place / BITS) {
            *word |= 1_u64 << (place % BITS);
        }
    }

    fn leave_out(&mut self, others: &Self) {
        self.words.iter_mut().zip(others.words.iter()).for_each(|(word, other)| *word &= !other);
    }

    /// Says whether a place is among them.
    pub fn contains(&self, place: usize) -> bool {
        self.words.get(place / BITS).is_some_and(|word| (*word >> (place % BITS)) & 1 == 1)
    }

    /// Gives the places in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(|(number, word)| {
            let (first, word) = (number * BITS, *word);
            (0..BITS).filter(move |bit| (word >> *bit) & 1 == 1).map(move |bit| first + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::includes_excludes::NamespaceFilter;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&item| item.to_owned()).collect()
    }

    /// What a filter of its own says of a pair of lists; nothing where it cannot be read.
    fn expected(includes: &[String], excludes: &[String], existing: &[String]) -> Option<Vec<usize>> {
        let filter = NamespaceFilter::expand(includes, excludes, existing).ok()?;
        Some((0..existing.len()).filter(|place| filter.should_include(&existing[*place])).collect())
    }

    fn found(includes: &[String], excludes: &[String], existing: &[String]) -> Option<Vec<usize>> {
        let existing = ExistingNamespaces::new(existing.iter().map(String::as_str));
        existing.taken(includes, excludes).ok().map(|places| places.iter().collect())
    }

    #[test]
    fn lists_take_what_a_filter_of_their_own_takes() {
        let existing = strings(&["db", "app-prod", "app-test", "a", "ab", "b"]);
        let lists: &[&[&str]] = &[
            &[],
            &["*"],
            &["*", "db"],
            &["db", "absent", "db"],
            &["app-*"],
            &["app-*", "db"],
            &["absent-*"],
            &["app-[pq]rod", "?"],
            &["{a,b}"],
            &["{a,b}", "d*"],
            &["a**"],
            &["a[a-z0-9]"],
            &["bad[", "a"],
            &[r"a\b"],
            &[r"a\b", "d?"],
            &[""],
        ];
        let mut unreadable = 0;
        for includes in lists {
            for excludes in lists {
                let (includes, excludes) = (strings(includes), strings(excludes));
                let taken = found(&includes, &excludes, &existing);
                assert_eq!(taken, expected(&includes, &excludes, &existing), "{includes:?} {excludes:?}");
                unreadable += usize::from(taken.is_none());
            }
        }
        assert!(unreadable > 0, "some lists cannot be read");
        assert_eq!(found(&[], &strings(&["app-*"]), &existing), Some(vec![0, 3, 4, 5]));
        assert_eq!(found(&strings(&["b", "app-*"]), &strings(&["app-test"]), &existing), Some(vec![1, 5]));
    }

    #[test]
    fn hundreds_of_namespaces_are_taken_to_the_last_and_no_further() {
        for count in [0, 1, 63, 64, 65, 128, 511] {
            let names: Vec<String> = (0..count).map(|number| format!("team-{number}")).collect();
            let existing = ExistingNamespaces::new(names.iter().map(String::as_str));
            let all: Vec<usize> = (0..count).collect();
            for includes in [strings(&[]), strings(&["team-*"]), names.clone()] {
                // No name is no list: that takes everything, and there is nothing.
                let taken = existing.taken(&includes, &[]).unwrap();
                assert_eq!(taken.iter().collect::<Vec<_>>(), all, "{count}");
                assert!(!taken.contains(count) && !taken.contains(count + 64), "{count}");
            }
            assert_eq!(existing.taken(&[], &strings(&["*"])).unwrap().iter().next(), None);
            assert_eq!(existing.place(&format!("team-{count}")), None);
        }
    }

    fn entries() -> impl Strategy<Value = Vec<String>> {
        let entry = prop_oneof!["[ab-]{1,3}", "[ab*?-]{1,4}", r"[ab*?{},\[\]\\!-]{0,5}"];
        prop::collection::vec(entry, 0..4)
    }

    proptest! {
        #[test]
        fn any_lists_take_what_a_filter_of_their_own_takes(
            includes in entries(),
            excludes in entries(),
            existing in prop::collection::btree_set("[ab-]{1,3}", 0..20),
        ) {
            let existing: Vec<String> = existing.into_iter().collect();
            prop_assert_eq!(found(&includes, &excludes, &existing), expected(&includes, &excludes, &existing));
        }
    }
}
