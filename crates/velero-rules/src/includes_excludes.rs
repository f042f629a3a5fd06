//! Lists of what to take and what to leave out, with glob patterns in both.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::namespace_problems;
use crate::wildcard::{Wildcard, WildcardError, contains_wildcard, validate_namespace_pattern};

const STAR: &str = "*";

/// A set of names and patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternSet {
    /// A pattern that does not compile is kept, since it counts as an entry, and matches nothing.
    entries: BTreeMap<String, Option<Wildcard>>,
}

impl PatternSet {
    /// Adds a name or pattern.
    pub fn insert(&mut self, entry: impl Into<String>) {
        let entry = entry.into();
        let wildcard = Wildcard::compile(&entry).ok();
        self.entries.insert(entry, wildcard);
    }

    /// Says whether any entry matches the name.
    pub fn matches(&self, name: &str) -> bool {
        self.entries.values().flatten().any(|wildcard| wildcard.matches(name))
    }

    /// Says whether the set holds this very entry.
    pub fn contains(&self, entry: &str) -> bool {
        self.entries.contains_key(entry)
    }

    /// Says whether the set holds `*`.
    pub fn has_star(&self) -> bool {
        self.contains(STAR)
    }

    /// Says whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Gives the entries in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.keys().map(String::as_str)
    }

    fn only_star(&self) -> bool {
        self.entries.len() == 1 && self.has_star()
    }

    fn joined(&self, when_empty: &str) -> String {
        if self.is_empty() {
            return when_empty.to_owned();
        }
        self.iter().collect::<Vec<_>>().join(", ")
    }
}

impl<T: Into<String>> FromIterator<T> for PatternSet {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut set = Self::default();
        entries.into_iter().for_each(|entry| set.insert(entry));
        set
    }
}

/// An include list and an exclude list. Excludes win; an empty include list takes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncludesExcludes {
    /// What to take.
    pub includes: PatternSet,
    /// What to leave out.
    pub excludes: PatternSet,
}

impl IncludesExcludes {
    /// Builds both lists as they are.
    pub fn new<T: AsRef<str>>(includes: &[T], excludes: &[T]) -> Self {
        Self {
            includes: includes.iter().map(AsRef::as_ref).collect(),
            excludes: excludes.iter().map(AsRef::as_ref).collect(),
        }
    }

    /// Builds both lists from resource names that `resolve` turns into `plural.group`.
    ///
    /// A name that does not resolve is kept, so that a list of unknown names never grows into "everything".
    /// `*` has no meaning among excluded resources and is dropped there.
    pub fn of_resources(includes: &[String], excludes: &[String], resolve: impl Fn(&str) -> Option<String>) -> Self {
        let resolved = |name: &str| resolve(name).unwrap_or_else(|| name.to_owned());
        Self {
            includes: includes.iter().map(|name| if name == STAR { name.clone() } else { resolved(name) }).collect(),
            excludes: excludes.iter().filter(|name| *name != STAR).map(|name| resolved(name)).collect(),
        }
    }

    /// Says whether a name is taken.
    pub fn should_include(&self, name: &str) -> bool {
        !self.excludes.matches(name)
            && (self.includes.is_empty() || self.includes.has_star() || self.includes.matches(name))
    }

    /// Says whether the lists leave nothing out. Any exclude makes it false.
    pub fn include_everything(&self) -> bool {
        self.excludes.is_empty() && (self.includes.is_empty() || self.includes.only_star())
    }

    /// Prints the includes as Velero's log and `describe` do.
    pub fn includes_text(&self) -> String {
        self.includes.joined(STAR)
    }

    /// Prints the excludes as Velero's log and `describe` do.
    pub fn excludes_text(&self) -> String {
        self.excludes.joined("<none>")
    }
}

/// Which namespaces to list objects in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespacesToList {
    /// One list over the whole cluster.
    All,
    /// One list for each of these namespaces.
    These(Vec<String>),
}

/// The namespaces of a backup, patterns expanded against the namespaces that exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFilter {
    lists: IncludesExcludes,
    expanded: bool,
    names_every_namespace: bool,
    /// Left out by the server, which is no choice of the user.
    labelled_out: BTreeSet<String>,
}

impl NamespaceFilter {
    /// Expands the lists of a backup against the namespaces that exist now.
    ///
    /// Nothing is expanded when the includes are empty or hold `*`: one list over the cluster then serves all.
    /// A plain name is kept even if it does not exist, so that its absence can be reported.
    pub fn expand<T: AsRef<str>>(includes: &[T], excludes: &[T], existing: &[T]) -> Result<Self, WildcardError> {
        let existing: BTreeSet<&str> = existing.iter().map(AsRef::as_ref).collect();
        let mut lists = IncludesExcludes::new(includes, excludes);
        let expanded = has_patterns_to_expand(lists.includes.iter(), lists.excludes.iter());
        if expanded {
            lists.includes = expand_patterns(&lists.includes, &existing)?;
            lists.excludes = expand_patterns(&lists.excludes, &existing)?;
        }
        let names_every_namespace = !existing.is_empty() && lists.includes.iter().eq(existing.iter().copied());
        Ok(Self { lists, expanded, names_every_namespace, labelled_out: BTreeSet::new() })
    }

    /// Leaves out namespaces that nobody asked to leave out: a label does. What the lists ask for stays the same.
    #[must_use]
    pub fn without_labelled(mut self, namespaces: impl IntoIterator<Item = String>) -> Self {
        self.labelled_out.extend(namespaces);
        self
    }

    /// Says whether a label leaves out any namespace.
    pub fn leaves_out_labelled(&self) -> bool {
        !self.labelled_out.is_empty()
    }

    /// Says whether a namespace is taken.
    pub fn should_include(&self, namespace: &str) -> bool {
        !self.matched_nothing() && !self.labelled_out.contains(namespace) && self.lists.should_include(namespace)
    }

    /// Says whether no namespace was asked to be left out: no excludes, and either no includes, `*`, or each namespace
    /// by name.
    pub fn include_everything(&self) -> bool {
        let no_filter = self.lists.include_everything() && !self.matched_nothing();
        no_filter || (self.lists.excludes.is_empty() && self.names_every_namespace)
    }

    /// An include list whose patterns matched no namespace takes nothing, unlike one that was never given.
    fn matched_nothing(&self) -> bool {
        self.expanded && self.lists.includes.is_empty()
    }

    /// Gives those of the namespaces that are taken.
    pub fn resolve<'a>(&self, existing: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        existing.into_iter().filter(|name| self.should_include(name)).map(str::to_owned).collect()
    }

    /// Gives the namespaces to list objects in.
    pub fn namespaces_to_list(&self) -> NamespacesToList {
        if self.should_include(STAR) {
            return NamespacesToList::All;
        }
        let included = self.lists.includes.iter().filter(|name| self.should_include(name));
        NamespacesToList::These(included.map(str::to_owned).collect())
    }

    /// Prints all that is left out, as [`IncludesExcludes::excludes_text`] does.
    pub fn excludes_text(&self) -> String {
        let labelled_out = self.labelled_out.iter().map(String::as_str);
        self.lists.excludes.iter().chain(labelled_out).collect::<PatternSet>().joined("<none>")
    }

    /// Gives the lists after expansion.
    pub fn lists(&self) -> &IncludesExcludes {
        &self.lists
    }

    /// Says whether a pattern was replaced by the namespaces it matched.
    pub fn is_expanded(&self) -> bool {
        self.expanded
    }
}

/// Says whether a pair of lists of namespaces holds patterns that stand for the namespaces they match now.
pub(crate) fn has_patterns_to_expand<'a>(
    includes: impl Iterator<Item = &'a str> + Clone,
    excludes: impl Iterator<Item = &'a str>,
) -> bool {
    !takes_everything(includes.clone()) && includes.chain(excludes).any(contains_wildcard)
}

/// Says whether an include list takes whatever there is: one that is empty does, and one that holds `*`.
pub(crate) fn takes_everything<'a>(includes: impl Iterator<Item = &'a str>) -> bool {
    let mut includes = includes.peekable();
    includes.peek().is_none() || includes.any(|entry| entry == STAR)
}

fn expand_patterns(patterns: &PatternSet, existing: &BTreeSet<&str>) -> Result<PatternSet, WildcardError> {
    let mut expanded = PatternSet::default();
    for pattern in patterns.iter() {
        validate_namespace_pattern(pattern)?;
        if !contains_wildcard(pattern) {
            expanded.insert(pattern);
            continue;
        }
        let wildcard = Wildcard::compile(pattern)?;
        existing.iter().filter(|name| wildcard.matches(name)).for_each(|name| expanded.insert(*name));
    }
    Ok(expanded)
}

const LONE_STAR_INCLUDE: &str = "includes list must either contain '*' only, or a non-empty list of items";

/// Lists what is wrong with an include list and an exclude list.
pub fn validate_includes_excludes(includes: &[String], excludes: &[String]) -> Vec<String> {
    let (includes, excludes) = (as_set(includes), as_set(excludes));
    let mut problems = Vec::new();
    if includes.len() > 1 && includes.contains(STAR) {
        problems.push(LONE_STAR_INCLUDE.to_owned());
    }
    if excludes.contains(STAR) {
        problems.push("excludes list cannot contain '*'".to_owned());
    }
    problems.extend(in_both(&includes, &excludes));
    problems
}

/// Lists what is wrong with the lists of cluster-scoped or of namespace-scoped resources, where `*` may be excluded.
pub fn validate_scoped_includes_excludes(includes: &[String], excludes: &[String]) -> Vec<String> {
    let (includes, excludes) = (as_set(includes), as_set(excludes));
    let mut problems = Vec::new();
    if includes.len() > 1 && includes.contains(STAR) {
        problems.push(LONE_STAR_INCLUDE.to_owned());
    }
    if excludes.len() > 1 && excludes.contains(STAR) {
        problems.push("excludes list must either contain '*' only, or a non-empty list of items".to_owned());
    }
    if !includes.is_empty() && excludes.contains(STAR) {
        problems.push("when exclude is '*', include cannot have value".to_owned());
    }
    problems.extend(in_both(&includes, &excludes));
    problems
}

/// Lists what is wrong with an include list and an exclude list of namespaces.
pub fn validate_namespace_includes_excludes(includes: &[String], excludes: &[String]) -> Vec<String> {
    let mut problems = validate_includes_excludes(includes, excludes);
    let names = as_set(includes).into_iter().chain(as_set(excludes));
    problems.extend(names.flat_map(namespace_entry_problems));
    problems
}

fn namespace_entry_problems(entry: &str) -> Vec<String> {
    // Velero reads the empty string as "no namespace".
    if entry.is_empty() {
        return Vec::new();
    }
    if let Err(error) = validate_namespace_pattern(entry) {
        return vec![error.to_string()];
    }
    let plain = entry.replace(['*', '?', '[', ']'], "x");
    namespace_problems(&plain).into_iter().map(|problem| format!("invalid namespace {entry:?}: {problem}")).collect()
}

fn as_set(list: &[String]) -> BTreeSet<&str> {
    list.iter().map(String::as_str).collect()
}

fn in_both(includes: &BTreeSet<&str>, excludes: &BTreeSet<&str>) -> Vec<String> {
    excludes.intersection(includes).map(|item| listed_twice(item)).collect()
}

/// What is wrong with an item that is in both lists.
pub(crate) fn listed_twice(item: &str) -> String {
    format!("excludes list cannot contain an item in the includes list: {item}")
}

#[cfg(test)]
mod tests;
