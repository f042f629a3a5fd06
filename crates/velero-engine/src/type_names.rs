//! Names of types as users write them, and what they mean on this cluster.

use velero_cluster::{Discovery, ResourceType, UnansweredGroup};
use velero_rules::includes_excludes::PatternSet;
use velero_rules::wildcard::contains_wildcard;

/// A name of a type in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedType<'a> {
    /// Where it stands, such as `spec.includedResources`.
    pub field: &'static str,
    pub name: &'a str,
}

impl<'a> NamedType<'a> {
    /// The names of a list.
    pub(crate) fn list(field: &'static str, names: &'a [String]) -> impl Iterator<Item = Self> {
        names.iter().map(move |name| Self { field, name })
    }
}

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning<'a> {
    /// Whatever a pattern matches, and it does match.
    Pattern,
    /// A type that is served.
    Served(&'a ResourceType),
    /// Something of this group, which does not answer.
    OutOfReach(&'a UnansweredGroup),
    /// Nothing that the cluster knows.
    Nothing,
}

/// What a name means on this cluster.
pub(crate) fn meaning<'a>(discovery: &'a Discovery, name: &str) -> Meaning<'a> {
    let unanswered = || discovery.unanswered().iter().find(|silent| names_group(name, silent));
    if contains_wildcard(name) {
        let pattern = PatternSet::from_iter([name]);
        let matches = |found: &ResourceType| pattern.matches(&found.group_resource());
        return match unanswered() {
            _ if name == "*" || discovery.preferred().any(matches) => Meaning::Pattern,
            Some(silent) => Meaning::OutOfReach(silent),
            None => Meaning::Nothing,
        };
    }
    if let Some(found) = discovery.resolve(name) {
        return Meaning::Served(found);
    }
    let lost = discovery.resolve_lost(name);
    let of_lost = lost.and_then(|lost| {
        let same = |silent: &&UnansweredGroup| silent.group == lost.group && silent.version == lost.version;
        discovery.unanswered().iter().find(same)
    });
    of_lost.or_else(unanswered).map_or(Meaning::Nothing, Meaning::OutOfReach)
}

/// Whether a name or pattern speaks of a group by its name: `things.example.com`, `*.example.com`,
/// `things.v1.example.com`, or the start of the group's name as kubectl takes it.
pub(crate) fn names_group(name: &str, silent: &UnansweredGroup) -> bool {
    let name = name.to_lowercase();
    let (group, versioned) = (&silent.group, silent.api_service());
    let Some((resource, rest)) = name.split_once('.') else { return false };
    if contains_wildcard(rest) {
        return PatternSet::from_iter([rest]).matches(group);
    }
    // An asterisk in front also stands for the first parts of a group's name.
    let ends = resource.ends_with('*') && group.ends_with(&format!(".{rest}"));
    rest == group || rest == versioned || ends || !rest.is_empty() && !resource.contains('*') && group.starts_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(api_version: &str, kind: &str, plural: &str) -> ResourceType {
        ResourceType::new(api_version, kind, plural, true)
    }

    fn discovery() -> Discovery {
        let seen =
            UnansweredGroup::new("seen.example.com", "v1", Some(vec![served("seen.example.com/v1", "Box", "boxes")]));
        let never = UnansweredGroup::new("never.example.com", "v1", None);
        Discovery::new(
            vec![served("v1", "Pod", "pods"), served("apps/v1", "Deployment", "deployments")],
            vec![seen, never],
        )
    }

    #[test]
    fn a_name_means_a_type_a_group_out_of_reach_or_nothing() {
        let discovery = discovery();
        let text = |name: &str| match meaning(&discovery, name) {
            Meaning::Pattern => "pattern".to_owned(),
            Meaning::Served(found) => found.group_resource(),
            Meaning::OutOfReach(silent) => silent.api_service(),
            Meaning::Nothing => "nothing".to_owned(),
        };
        for (name, expected) in [
            ("*", "pattern"),
            ("*.apps", "pattern"),
            ("deploy*", "pattern"),
            ("pod", "pods"),
            ("Deployment.apps", "deployments.apps"),
            ("box", "v1.seen.example.com"),
            ("boxes", "v1.seen.example.com"),
            ("boxes.seen.example.com", "v1.seen.example.com"),
            ("*.seen.example.com", "v1.seen.example.com"),
            ("boxes.*.example.com", "v1.seen.example.com"),
            ("things.never.example.com", "v1.never.example.com"),
            ("things.v1.never.example.com", "v1.never.example.com"),
            ("things.never", "v1.never.example.com"),
            ("*.never.example.com", "v1.never.example.com"),
            ("*.example.com", "v1.seen.example.com"),
            ("things", "nothing"),
            ("things.example.com", "nothing"),
            ("*.example.org", "nothing"),
            ("pods.", "pods"),
        ] {
            assert_eq!(text(name), expected, "{name}");
        }
    }
}
