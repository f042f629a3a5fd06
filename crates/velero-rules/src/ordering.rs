//! The order of work: which types are collected first, which objects go first inside a type, and in which order types
//! are restored.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

/// The core types whose order matters: hooks run around a pod while its claims and volumes are taken.
const CORE_FIRST: [&str; 3] = ["pods", "persistentvolumeclaims", "persistentvolumes"];
const OLDEST_GROUP: &str = "extensions";

/// Types that two API groups serve as one and the same set of objects.
const COHABITING: [(&str, [&str; 2]); 5] = [
    ("deployments", ["extensions", "apps"]),
    ("daemonsets", ["extensions", "apps"]),
    ("replicasets", ["extensions", "apps"]),
    ("networkpolicies", ["extensions", "networking.k8s.io"]),
    ("events", ["", "events.k8s.io"]),
];

/// Sorts types for collection: groups as served with `extensions` last; inside the core group pods, claims, volumes.
///
/// `name` gives the API group (empty for the core group) and the plural name of a type.
pub fn sort_for_collection<T>(types: &mut [T], name: impl Fn(&T) -> (&str, &str)) {
    let mut served: HashMap<String, usize> = HashMap::new();
    for (index, kind) in types.iter().enumerate() {
        served.entry(name(kind).0.to_owned()).or_insert(index);
    }
    types.sort_by_key(|kind| {
        let (group, resource) = name(kind);
        let core_rank = CORE_FIRST.iter().position(|first| group.is_empty() && *first == resource);
        (group == OLDEST_GROUP, served.get(group).copied(), core_rank.unwrap_or(CORE_FIRST.len()))
    });
}

/// Remembers which of the types that two groups share was collected already.
#[derive(Debug, Clone, Default)]
pub struct Cohabitation {
    seen: HashSet<&'static str>,
}

impl Cohabitation {
    /// Says whether a type should be collected. The first group asked about wins.
    pub fn admit(&mut self, group: &str, resource: &str) -> bool {
        let shared = COHABITING.iter().find(|(name, groups)| *name == resource && groups.contains(&group));
        shared.is_none_or(|(name, _)| self.seen.insert(name))
    }
}

/// A text that does not say an order of resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderingError {
    /// An entry of `--ordered-resources` without a type or a list.
    #[error("invalid OrderedResources {entry:?}: write type=namespace/name,namespace/name and separate types with ';'")]
    OrderedResources {
        /// The entry.
        entry: String,
    },
    /// More than one `-` between high and low priorities.
    #[error("multiple priority separator \"-\" found")]
    Separator,
}

/// Parses `pods=ns1/pod1,ns1/pod2;persistentvolumes=pv1` into the field `orderedResources` of a backup.
pub fn parse_ordered_resources(text: &str) -> Result<BTreeMap<String, String>, OrderingError> {
    let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| match entry.split_once('=') {
            Some((resource, names)) if !resource.trim().is_empty() && !names.trim().is_empty() => {
                Ok((resource.trim().to_owned(), names.trim().to_owned()))
            }
            _ => Err(OrderingError::OrderedResources { entry: entry.to_owned() }),
        })
        .collect()
}

/// Gives the names to handle first for a type, as `namespace/name` or `name`.
pub fn ordered_names<'a>(ordered_resources: &'a BTreeMap<String, String>, resource: &str) -> Vec<&'a str> {
    let names = ordered_resources.get(resource).map_or("", String::as_str);
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// The objects of a type in the order asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered<T> {
    /// All objects: those named first, the others as they came.
    pub items: Vec<T>,
    /// How many of them were named.
    pub named: usize,
    /// Names that no object has.
    pub missing: Vec<String>,
}

/// Puts the objects named in `order` first.
///
/// `full_name` gives `namespace/name`, or `name` for a cluster-scoped object.
pub fn put_in_order<T>(items: Vec<T>, order: &[&str], full_name: impl Fn(&T) -> String) -> Ordered<T> {
    let names: HashMap<String, usize> =
        items.iter().enumerate().map(|(index, item)| (full_name(item), index)).collect();
    let mut slots: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let mut sorted = Vec::with_capacity(slots.len());
    let mut missing = Vec::new();
    for name in order {
        match names.get(*name).and_then(|index| slots[*index].take()) {
            Some(item) => sorted.push(item),
            None => missing.push((*name).to_owned()),
        }
    }
    let named = sorted.len();
    sorted.extend(slots.into_iter().flatten());
    Ordered { items: sorted, named, missing }
}

/// The order in which types are restored: `high1,high2,-,low1`. Types not named come between, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priorities {
    /// Restored first, in this order.
    pub high: Vec<String>,
    /// Restored last, in this order.
    pub low: Vec<String>,
}

const DEFAULT_PRIORITIES: &str = "customresourcedefinitions,namespaces,storageclasses,\
    volumesnapshotclass.snapshot.storage.k8s.io,volumesnapshotcontents.snapshot.storage.k8s.io,\
    volumesnapshots.snapshot.storage.k8s.io,datauploads.velero.io,persistentvolumes,persistentvolumeclaims,\
    clusterroles,roles,serviceaccounts,clusterrolebindings,rolebindings,secrets,configmaps,limitranges,\
    priorityclasses,pods,replicasets.apps,clusterclasses.cluster.x-k8s.io,endpoints,services,-,\
    clusterbootstraps.run.tanzu.vmware.com,clusters.cluster.x-k8s.io,clusterresourcesets.addons.cluster.x-k8s.io,\
    apps.kappctrl.k14s.io,packageinstalls.packaging.carvel.dev";

impl Default for Priorities {
    fn default() -> Self {
        let (high, low) = DEFAULT_PRIORITIES.split_once(",-,").unwrap_or((DEFAULT_PRIORITIES, ""));
        Self { high: names(high), low: names(low) }
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl FromStr for Priorities {
    type Err = OrderingError;

    fn from_str(text: &str) -> Result<Self, OrderingError> {
        let entries = names(text);
        let mut parts = entries.split(|entry| entry == "-");
        let (high, low) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if parts.next().is_some() {
            return Err(OrderingError::Separator);
        }
        Ok(Self { high: high.to_vec(), low: low.to_vec() })
    }
}

impl fmt::Display for Priorities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.high.join(","))?;
        if !self.low.is_empty() {
            write!(formatter, ",-,{}", self.low.join(","))?;
        }
        Ok(())
    }
}

impl Priorities {
    /// Orders the types of a backup. `resolve` turns a name of the list into `plural.group`; a name it does not know
    /// is taken literally. Types that are in the lists but not in the backup are left out.
    pub fn order<'a>(
        &self,
        types_in_backup: impl IntoIterator<Item = &'a str>,
        resolve: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let mut remaining: BTreeSet<&str> = types_in_backup.into_iter().collect();
        let mut take = |list: &[String]| -> Vec<String> {
            let resolved = list.iter().map(|name| resolve(name).unwrap_or_else(|| name.clone()));
            resolved.filter(|name| remaining.remove(name.as_str())).collect()
        };
        let mut ordered = take(&self.high);
        let low = take(&self.low);
        ordered.extend(remaining.into_iter().map(str::to_owned));
        ordered.extend(low);
        ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_claims_and_volumes_come_first_and_extensions_last() {
        let mut types = vec![
            ("", "configmaps"),
            ("", "persistentvolumes"),
            ("", "pods"),
            ("", "persistentvolumeclaims"),
            ("extensions", "ingresses"),
            ("apps", "deployments"),
            ("metrics.example.com", "pods"),
        ];
        sort_for_collection(&mut types, |kind| *kind);
        let expected = [
            ("", "pods"),
            ("", "persistentvolumeclaims"),
            ("", "persistentvolumes"),
            ("", "configmaps"),
            ("apps", "deployments"),
            ("metrics.example.com", "pods"),
            ("extensions", "ingresses"),
        ];
        assert_eq!(types, expected);
    }

    #[test]
    fn the_first_of_two_cohabiting_types_wins() {
        let mut cohabitation = Cohabitation::default();
        assert!(cohabitation.admit("apps", "deployments"));
        assert!(!cohabitation.admit("extensions", "deployments"));
        assert!(cohabitation.admit("example.com", "deployments"));
        assert!(cohabitation.admit("extensions", "networkpolicies"));
        assert!(!cohabitation.admit("networking.k8s.io", "networkpolicies"));
        assert!(cohabitation.admit("", "events"));
        assert!(!cohabitation.admit("events.k8s.io", "events"));
        assert!(cohabitation.admit("", "pods") && cohabitation.admit("", "pods"));
    }

    #[test]
    fn ordered_resources_are_parsed() {
        let parsed = parse_ordered_resources("pods=ns1/a, ns1/b ; persistentvolumes=pv1").unwrap();
        assert_eq!(ordered_names(&parsed, "pods"), ["ns1/a", "ns1/b"]);
        assert_eq!(ordered_names(&parsed, "persistentvolumes"), ["pv1"]);
        assert!(ordered_names(&parsed, "secrets").is_empty());
        assert!(parse_ordered_resources("pods").is_err());
        assert!(parse_ordered_resources("=a").is_err());
    }

    #[test]
    fn named_objects_go_first_and_missing_names_are_reported() {
        let ordered = put_in_order(vec!["a/1", "a/2", "a/3"], &["a/3", "a/9", "a/1", "a/3"], |name| (*name).to_owned());
        assert_eq!(ordered.items, ["a/3", "a/1", "a/2"]);
        assert_eq!(ordered.named, 2);
        assert_eq!(ordered.missing, ["a/9", "a/3"]);
    }

    #[test]
    fn priorities_parse_and_print() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("", &[], &[]),
            ("a,b", &["a", "b"], &[]),
            ("a,-,b,c", &["a"], &["b", "c"]),
            ("-,b", &[], &["b"]),
            ("a,-", &["a"], &[]),
            ("-", &[], &[]),
        ];
        for (text, high, low) in table {
            let priorities: Priorities = text.parse().unwrap();
            assert_eq!(
                (&priorities.high[..], &priorities.low[..]),
                (&names(&high.join(","))[..], &names(&low.join(","))[..])
            );
            assert_eq!(priorities.to_string().parse::<Priorities>().unwrap(), priorities);
        }
        assert_eq!("a,-,b,-,c".parse::<Priorities>(), Err(OrderingError::Separator));
    }

    #[test]
    fn the_default_priorities_begin_with_definitions_and_end_with_packages() {
        let priorities = Priorities::default();
        assert_eq!((priorities.high.len(), priorities.low.len()), (23, 5));
        assert_eq!(priorities.high[0], "customresourcedefinitions");
        assert_eq!(priorities.high[22], "services");
        assert_eq!(priorities.low[4], "packageinstalls.packaging.carvel.dev");
        assert_eq!(DEFAULT_PRIORITIES.parse::<Priorities>().unwrap(), priorities);
    }

    #[test]
    fn types_are_restored_high_then_by_name_then_low() {
        let priorities: Priorities = "storageclasses,pods,absent,-,jobs.batch".parse().unwrap();
        let resolve = |name: &str| (name == "storageclasses").then(|| "storageclasses.storage.k8s.io".to_owned());
        let types = ["jobs.batch", "zoo", "pods", "storageclasses.storage.k8s.io", "configmaps"];
        let ordered = priorities.order(types, resolve);
        assert_eq!(ordered, ["storageclasses.storage.k8s.io", "pods", "configmaps", "zoo", "jobs.batch"]);
    }
}
