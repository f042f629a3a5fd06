//! Which API version of a type is restored, when the backup holds several and the feature is on.

use velero_api::FeatureFlags;
use velero_api::v1::Backup;
use velero_rules::api_versions::{self, Versions as Served};

use super::RestoreRequest;
use super::contents::{Version, Versions};

/// The first format whose archives have a folder for each version.
const FIRST_FORMAT: &str = "1.1.0";

/// Whether versions are chosen at all.
pub(super) fn are_chosen(features: &FeatureFlags, backup: &Backup) -> bool {
    features.api_group_versions() && backup.status.format_version.as_str() >= FIRST_FORMAT
}

/// The version of a type to restore; none leaves it at the copy that readers take by default.
pub(super) fn choose(resource: &str, found: &Versions, request: &RestoreRequest) -> Option<Version> {
    let in_backup: Vec<&Version> = found.keys().flatten().collect();
    let preferred = in_backup.iter().find(|version| version.preferred)?;
    let all = in_backup.iter().map(|version| version.name.as_str()).collect();
    let stored = Served { preferred: &preferred.name, all };
    let chosen = api_versions::choose(&stored, served(resource, request).as_ref(), wanted(resource, request));
    in_backup.iter().find(|version| version.name == chosen).map(|version| (*version).clone())
}

fn served<'a>(resource: &str, request: &'a RestoreRequest) -> Option<Served<'a>> {
    let of_type = || request.discovery.all_versions().filter(|found| found.group_resource() == resource);
    let preferred = &of_type().find(|found| found.preferred)?.version;
    Some(Served { preferred, all: of_type().map(|found| found.version.as_str()).collect() })
}

fn wanted<'a>(resource: &str, request: &'a RestoreRequest) -> &'a [String] {
    request.version_priorities.get(resource).map_or(&[], Vec::as_slice)
}
