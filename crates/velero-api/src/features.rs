//! Feature flags: the comma separated list behind `--features`.

use std::{collections::BTreeSet, convert::Infallible, fmt, str::FromStr};

/// CSI snapshots are taken and restored, and CSI volumes are kept from native snapshotters.
pub const ENABLE_CSI: &str = "EnableCSI";

/// Objects are backed up in every served version, and the version to restore is chosen.
pub const ENABLE_API_GROUP_VERSIONS: &str = "EnableAPIGroupVersions";

/// The features that are switched on. A name nobody knows is accepted and means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureFlags {
    names: BTreeSet<String>,
}

impl FeatureFlags {
    /// Whether a feature is on.
    pub fn is_enabled(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether CSI support is on.
    pub fn csi(&self) -> bool {
        self.is_enabled(ENABLE_CSI)
    }

    /// Whether all versions of a group are backed up.
    pub fn api_group_versions(&self) -> bool {
        self.is_enabled(ENABLE_API_GROUP_VERSIONS)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

impl<T: Into<String>> FromIterator<T> for FeatureFlags {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let names = names.into_iter().map(|name| name.into().trim().to_owned());
        Self { names: names.filter(|name| !name.is_empty()).collect() }
    }
}

impl FromStr for FeatureFlags {
    type Err = Infallible;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        Ok(list.split(',').collect())
    }
}

impl fmt::Display for FeatureFlags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        formatter.pad(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(list: &str) -> FeatureFlags {
        list.parse().unwrap()
    }

    #[test]
    fn a_listed_feature_is_on_and_others_are_off() {
        let flags = flags("EnableCSI, Future");
        assert!(flags.csi());
        assert!(flags.is_enabled("Future"));
        assert!(!flags.api_group_versions());
    }

    #[test]
    fn an_empty_list_switches_nothing_on() {
        assert_eq!(flags(""), FeatureFlags::default());
        assert_eq!(flags(" , ").names().count(), 0);
    }

    #[test]
    fn flags_are_written_sorted_and_once() {
        assert_eq!(flags("EnableCSI,EnableAPIGroupVersions,EnableCSI").to_string(), "EnableAPIGroupVersions,EnableCSI");
    }
}
