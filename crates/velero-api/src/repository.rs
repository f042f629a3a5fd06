//! What repositories of volume data are called, where they lie, and where their password is: as Velero has it.

use std::collections::BTreeMap;

use crate::labels;
use crate::v1::BackupRepositorySpec;

/// The only kind of repository there still is.
pub const KOPIA: &str = "kopia";
/// The Secret with the password of all repositories.
pub const PASSWORD_SECRET: &str = "velero-repo-credentials";
/// The key of the password in [`PASSWORD_SECRET`].
pub const PASSWORD_KEY: &str = "repository-password";
/// The password that Velero takes where nobody chose another.
pub const STATIC_PASSWORD: &str = "static-passw0rd";

/// The name of the BackupRepository of a namespace in a location.
pub fn name(volume_namespace: &str, location: &str, kind: &str) -> String {
    format!("{volume_namespace}-{location}-{kind}")
}

/// The labels by which the BackupRepository of a namespace in a location is found.
pub fn labels(volume_namespace: &str, location: &str, kind: &str) -> BTreeMap<String, String> {
    let pairs = [
        (labels::VOLUME_NAMESPACE, volume_namespace),
        (labels::STORAGE_LOCATION, location),
        (labels::REPOSITORY_TYPE, kind),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), labels::valid_value(value))).collect()
}

/// Whether a repository is of the kind that can be used; one that does not say is.
pub fn is_kopia(spec: &BackupRepositorySpec) -> bool {
    spec.repository_type.is_empty() || spec.repository_type == KOPIA
}

/// The folder of the repository of a namespace, below the prefix of its location; without slashes around it. As for
/// backups, slashes twice in a row do not matter in the prefix, nor does a folder `.`.
pub fn folder(location_prefix: &str, volume_namespace: &str) -> String {
    let of_prefix = location_prefix.split('/').filter(|folder| *folder != ".");
    let parts = of_prefix.chain([KOPIA, volume_namespace]);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_of_a_namespace_lies_where_velero_puts_it() {
        assert_eq!(folder("", "shop"), "kopia/shop");
        assert_eq!(folder("/clusters/east/", "shop"), "clusters/east/kopia/shop");
        assert_eq!(folder("./clusters//east", "shop"), "clusters/east/kopia/shop");
    }

    #[test]
    fn a_repository_is_called_and_labelled_as_velero_does() {
        assert_eq!(name("shop", "default", KOPIA), "shop-default-kopia");
        let marks = labels("shop", "default", KOPIA);
        assert_eq!(marks["velero.io/volume-namespace"], "shop");
        assert_eq!(marks["velero.io/storage-location"], "default");
        assert_eq!(marks["velero.io/repository-type"], "kopia");
    }
}
