//! Groups that the API server lists but whose own server does not answer.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::resource_type::ResourceType;

/// Groups that hold readings by definition: nothing of them can be backed up, also when they were never seen.
const READINGS: [&str; 3] = ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"];

/// A group version whose server does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredGroup {
    /// API group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// The types nobody else serves, as they were last seen; `None` when the group version was never seen.
    last_seen: Option<Vec<ResourceType>>,
    /// Why, where that is known.
    reason: Option<String>,
}

/// What is out of reach while a group version does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss<'a> {
    /// Nothing: it only serves readings, or its types are served in another version too.
    Nothing,
    /// It was never seen: nobody knows what it serves.
    Unknown,
    /// Types that can be backed up.
    Types(Vec<&'a ResourceType>),
}

impl UnansweredGroup {
    /// A group version that does not answer, with what the API server remembers of it.
    pub fn new(group: &str, version: &str, last_seen: Option<Vec<ResourceType>>) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), last_seen, reason: None }
    }

    /// Adds why it does not answer.
    #[must_use]
    pub(crate) fn because(mut self, reason: String) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The name of the APIService behind it, for example `v1.example.com`.
    pub fn api_service(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    /// What is out of reach.
    pub fn loss(&self) -> Loss<'_> {
        match &self.last_seen {
            None if READINGS.contains(&self.group.as_str()) => Loss::Nothing,
            None => Loss::Unknown,
            Some(types) => {
                let lost: Vec<_> = types.iter().filter(|found| found.can_be_backed_up()).collect();
                if lost.is_empty() { Loss::Nothing } else { Loss::Types(lost) }
            }
        }
    }

    /// The types nobody else serves, as they were last seen.
    pub(crate) fn last_seen(&self) -> &[ResourceType] {
        self.last_seen.as_deref().unwrap_or_default()
    }

    /// Leaves out the types that another version serves.
    pub(crate) fn without_served(&mut self, served: &[ResourceType]) {
        let served: HashSet<_> = served.iter().map(|found| (&found.group, &found.plural)).collect();
        if let Some(types) = &mut self.last_seen {
            types.retain(|found| !served.contains(&(&found.group, &found.plural)));
        }
    }
}

impl fmt::Display for UnansweredGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, version) = (&self.group, &self.version);
        write!(formatter, "API group {group}/{version} does not answer (APIService {})", self.api_service())?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(formatter, ": {reason}"))
    }
}

/// What every group version served when it last answered, for as long as this process lives.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<(String, String), Vec<ResourceType>>>);

impl Memory {
    /// Notes what is served now, and adds what is remembered of those that do not answer.
    pub(crate) fn recall(&self, types: &[ResourceType], unanswered: &mut [UnansweredGroup]) {
        let mut now: HashMap<_, Vec<_>> = HashMap::new();
        for found in types {
            now.entry((found.group.clone(), found.version.clone())).or_default().push(found.clone());
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for silent in unanswered {
            let key = (silent.group.clone(), silent.version.clone());
            match &silent.last_seen {
                Some(types) => drop(now.insert(key, types.clone())),
                None => silent.last_seen = seen.get(&key).cloned(),
            }
        }
        seen.extend(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(api_version: &str, plural: &str, verbs: &[&str]) -> ResourceType {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        ResourceType { verbs, ..ResourceType::new(api_version, plural, plural, true) }
    }

    const ALL: [&str; 4] = ["list", "get", "create", "delete"];

    #[test]
    fn what_is_lost_is_what_could_be_backed_up_when_last_seen() {
        let things = served("gone.example.com/v1", "things", &ALL);
        let readings = served("gone.example.com/v1", "readings", &["list", "get"]);
        let group = |types: Option<Vec<ResourceType>>| UnansweredGroup::new("gone.example.com", "v1", types);
        assert_eq!(group(None).loss(), Loss::Unknown);
        assert_eq!(group(Some(vec![readings.clone()])).loss(), Loss::Nothing);
        assert_eq!(group(Some(vec![readings, things.clone()])).loss(), Loss::Types(vec![&things]));
        assert_eq!(UnansweredGroup::new("metrics.k8s.io", "v1beta1", None).loss(), Loss::Nothing);
    }

    #[test]
    fn a_type_that_another_version_serves_is_not_lost() {
        let old = served("example.com/v1beta1", "things", &ALL);
        let mut group = UnansweredGroup::new("example.com", "v1beta1", Some(vec![old]));
        group.without_served(&[served("example.com/v1", "things", &ALL)]);
        assert_eq!(group.loss(), Loss::Nothing);
    }

    #[test]
    fn what_was_served_before_is_remembered() {
        let memory = Memory::default();
        let things = served("gone.example.com/v1", "things", &ALL);
        memory.recall(std::slice::from_ref(&things), &mut []);
        let mut silent = [UnansweredGroup::new("gone.example.com", "v1", None)];
        memory.recall(&[], &mut silent);
        assert_eq!(silent[0].loss(), Loss::Types(vec![&things]));
        let mut other = [UnansweredGroup::new("gone.example.com", "v2", None)];
        memory.recall(&[], &mut other);
        assert_eq!(other[0].loss(), Loss::Unknown);
    }

    #[test]
    fn the_group_and_its_api_service_are_named() {
        let group = UnansweredGroup::new("gone.example.com", "v1", None);
        let text = "API group gone.example.com/v1 does not answer (APIService v1.gone.example.com)";
        assert_eq!(group.to_string(), text);
        assert_eq!(group.because("503".to_owned()).to_string(), format!("{text}: 503"));
    }
}
