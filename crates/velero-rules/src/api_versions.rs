//! Which API version of a type is restored when the backup holds several.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The ConfigMap in the namespace of the server that names the versions a user prefers.
pub const CONFIG_MAP: &str = "enableapigroupversions";
/// The key in that ConfigMap.
pub const CONFIG_MAP_KEY: &str = "restoreResourcesVersionPriority";

/// The versions a user prefers, by type (`resource.group`), best first.
pub type VersionPriorities = BTreeMap<String, Vec<String>>;

/// Reads the versions a user prefers: lines such as `rockbands.music.example.io=v2beta1,v2beta2`, `#` for a comment.
///
/// A line that cannot be read has no effect; it is given back with the reason.
pub fn parse_version_priorities(text: &str) -> (VersionPriorities, Vec<String>) {
    let mut priorities = VersionPriorities::new();
    let mut warnings = Vec::new();
    for line in text.lines() {
        let content = line.split('#').next().unwrap_or_default();
        let content: String = content.chars().filter(|character| !character.is_whitespace()).collect();
        if content.is_empty() {
            continue;
        }
        let problem = match content.split('=').collect::<Vec<_>>()[..] {
            [resource, versions] if !resource.is_empty() && !versions.is_empty() => {
                priorities.insert(resource.to_owned(), versions.split(',').map(str::to_owned).collect());
                continue;
            }
            [_, _] => "line must contain at least one character before and after equal sign",
            _ => "line must have one and only one equal sign",
        };
        warnings.push(format!("{line:?}: {problem}"));
    }
    (priorities, warnings)
}

/// The versions of a type in a backup, or those a cluster serves of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions<'a> {
    /// The one that was or is preferred.
    pub preferred: &'a str,
    /// All of them, in any order.
    pub all: Vec<&'a str>,
}

impl Versions<'_> {
    fn contain(&self, version: &str) -> bool {
        self.all.contains(&version)
    }
}

/// Chooses the version in which a type is restored.
///
/// It is the first of these that backup and cluster have in common: what the user prefers (`wanted`, best first), what
/// the cluster prefers, what was preferred when the backup was made, any other in the order of Kubernetes. With
/// nothing in common it is the one that was preferred.
pub fn choose<'a>(in_backup: &Versions<'a>, in_cluster: Option<&Versions<'_>>, wanted: &[String]) -> &'a str {
    let Some(in_cluster) = in_cluster else { return in_backup.preferred };
    let mut others = in_backup.all.clone();
    others.sort_by_key(|version| Reverse(priority(version)));
    let wanted = wanted.iter().filter_map(|version| in_backup.all.iter().find(|found| *found == version));
    let preferred = in_backup.all.iter().find(|version| **version == in_cluster.preferred);
    let candidates = wanted.chain(preferred).copied().chain([in_backup.preferred]).chain(others);
    let mut common = candidates.filter(|version| in_cluster.contain(version));
    common.next().unwrap_or(in_backup.preferred)
}

/// The place of a version among others, the best one highest.
///
/// General availability comes before beta, beta before alpha, a higher number before a lower one. Names of another
/// form come last, in alphabetical order.
pub fn priority(version: &str) -> impl Ord + use<> {
    let (stage, major, minor) = kubernetes_version(version).unwrap_or_default();
    (stage, major, minor, Reverse(version.to_owned()))
}

/// Reads `v2`, `v2beta1` and `v2alpha1` into stage, major and minor number.
fn kubernetes_version(version: &str) -> Option<(u8, u64, u64)> {
    const STAGES: [(&str, u8); 2] = [("beta", 2), ("alpha", 1)];
    const GENERAL_AVAILABILITY: u8 = 3;
    let numbers = version.strip_prefix('v')?;
    for (word, stage) in STAGES {
        if let Some((major, minor)) = numbers.split_once(word) {
            return Some((stage, number(major)?, number(minor)?));
        }
    }
    Some((GENERAL_AVAILABILITY, number(numbers)?, 0))
}

fn number(text: &str) -> Option<u64> {
    let has_form = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if has_form { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions<'a>(preferred: &'a str, all: &[&'a str]) -> Versions<'a> {
        Versions { preferred, all: all.to_vec() }
    }

    #[test]
    fn versions_are_ordered_as_kubernetes_does() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v01",
            "v1gamma1",
        ];
        let mut sorted = ordered.to_vec();
        sorted.reverse();
        sorted.sort_by_key(|version| Reverse(priority(version)));
        assert_eq!(sorted, ordered);
    }

    #[test]
    fn the_version_is_chosen_as_the_table_says() {
        let backup = versions("v1", &["v1", "v2", "v2beta1", "v3alpha1"]);
        let table: [(&str, Option<Versions<'_>>, &[&str], &str); 10] = [
            ("a group the cluster lacks", None, &["v2"], "v1"),
            ("what the user wants", Some(versions("v2", &["v2", "v3alpha1"])), &["v3alpha1"], "v3alpha1"),
            ("the first wanted one in common", Some(versions("v2", &["v2", "v1"])), &["v9", "v3alpha1", "v1"], "v1"),
            ("wanted by the user, not in the backup", Some(versions("v2", &["v2", "v9"])), &["v9"], "v2"),
            ("what the cluster prefers", Some(versions("v2", &["v1", "v2"])), &[], "v2"),
            ("what was preferred", Some(versions("v9", &["v9", "v2", "v1"])), &[], "v1"),
            ("any other, the best first", Some(versions("v9", &["v9", "v3alpha1", "v2beta1"])), &[], "v2beta1"),
            ("any other, though it would come first", Some(versions("v9", &["v2", "v9"])), &[], "v2"),
            ("nothing in common", Some(versions("v9", &["v9"])), &["v2"], "v1"),
            ("a group that serves nothing", Some(versions("", &[])), &[], "v1"),
        ];
        for (what, cluster, wanted, expected) in table {
            let wanted: Vec<String> = wanted.iter().map(|&version| version.to_owned()).collect();
            assert_eq!(choose(&backup, cluster.as_ref(), &wanted), expected, "{what}");
        }
    }

    #[test]
    fn priorities_are_read_line_by_line() {
        let text = "
# what we prefer
rockbands.music.example.io = v2beta1, v2beta2
orchestras.music.example.io=v2,v3alpha1 # old first
no-versions=
=v1
two=v1=v2
nothing
";
        let (priorities, warnings) = parse_version_priorities(text);
        let expected = [
            ("orchestras.music.example.io", ["v2", "v3alpha1"]),
            ("rockbands.music.example.io", ["v2beta1", "v2beta2"]),
        ];
        let expected = expected.map(|(resource, versions)| (resource.to_owned(), versions.map(str::to_owned).to_vec()));
        assert_eq!(priorities, VersionPriorities::from(expected));
        assert_eq!(
            warnings,
            [
                "\"no-versions=\": line must contain at least one character before and after equal sign",
                "\"=v1\": line must contain at least one character before and after equal sign",
                "\"two=v1=v2\": line must have one and only one equal sign",
                "\"nothing\": line must have one and only one equal sign",
            ]
        );
    }
}
