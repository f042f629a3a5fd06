//! Which Velero an image is of.

use super::{Line, Verdict};

/// The repository of the original's image, and what may stand before it.
const ORIGINAL: &str = "velero/velero";
const REGISTRIES: [&str; 3] = ["docker.io/", "index.docker.io/", "registry-1.docker.io/"];

/// The oldest Velero whose objects are read.
const OLDEST: (u32, u32) = (1, 9);
/// The newest Velero whose objects are known.
const NEWEST: (u32, u32) = (1, 18);

/// Whether an image is the original's, under the name that the original has published it by: of copies nobody can tell.
pub(crate) fn is_of_the_original(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or(image);
    let repository = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    };
    let path = REGISTRIES.iter().find_map(|registry| repository.strip_prefix(registry)).unwrap_or(repository);
    path == ORIGINAL
}

/// The version that the tag of an image names.
pub(super) fn of_image(image: &str) -> Option<(u32, u32)> {
    let name = image.rsplit('/').next()?.split('@').next()?;
    let (_, tag) = name.split_once(':')?;
    let mut numbers = tag.strip_prefix('v').unwrap_or(tag).split(['.', '-', '+']);
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next()?.parse().ok()?))
}

/// What a version means for who comes over from it.
pub(super) fn judge(object: &str, image: &str) -> Line {
    let oldest = format!("{}.{}", OLDEST.0, OLDEST.1);
    let newest = format!("{}.{}", NEWEST.0, NEWEST.1);
    match of_image(image) {
        None => Line::new(
            object,
            Verdict::Differs,
            format!("image {image} does not say its version; what follows holds for Velero {oldest} to {newest}"),
        ),
        Some(version) if version < OLDEST => Line::new(
            object,
            Verdict::Refused,
            format!("image {image} is older than {oldest}: upgrade Velero to {newest} first, step by step"),
        ),
        Some(version) if version > NEWEST => Line::new(
            object,
            Verdict::Refused,
            format!(
                "image {image} is newer than {newest}, the newest that is known here: its objects may hold what would be lost"
            ),
        ),
        Some((major, minor)) => Line::new(object, Verdict::Works, format!("Velero {major}.{minor} ({image})")),
    }
}

/// Why a Velero cannot be replaced, however much its owner wants it; nothing where it can. Numbers below 1.0 are ours.
pub(crate) fn refused_version(image: &str) -> Option<String> {
    of_image(image).filter(|(major, _)| *major > 0)?;
    let line = judge("", image);
    (line.verdict == Verdict::Refused).then_some(line.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_is_known_by_its_repository() {
        for (image, is_original) in [
            ("velero/velero:v1.18.3", true),
            ("velero/velero", true),
            ("docker.io/velero/velero:v1.9.0", true),
            ("index.docker.io/velero/velero@sha256:ab", true),
            ("velero/velero:v1.18.3@sha256:ab", true),
            ("ghcr.io/velero-rust/velero:v0.1.0", false),
            ("docker.io/velero/velero-rust:v1", false),
            ("localhost:5000/velero/velero:v1", false),
            ("velero", false),
            ("", false),
        ] {
            assert_eq!(is_of_the_original(image), is_original, "{image}");
        }
    }

    #[test]
    fn versions_are_read_from_tags_and_judged() {
        for (image, version, verdict) in [
            ("velero/velero:v1.18.3", Some((1, 18)), Verdict::Works),
            ("docker.io/velero/velero:v1.9.0", Some((1, 9)), Verdict::Works),
            ("localhost:5000/velero:v1.12.0-rc.1@sha256:ab", Some((1, 12)), Verdict::Works),
            ("bitnami/velero:1.16.1-debian-12-r0", Some((1, 16)), Verdict::Works),
            ("velero/velero:v1.8.1", Some((1, 8)), Verdict::Refused),
            ("velero/velero:v1.19.0", Some((1, 19)), Verdict::Refused),
            ("velero/velero:v2.0.0", Some((2, 0)), Verdict::Refused),
            ("velero/velero:latest", None, Verdict::Differs),
            ("velero/velero@sha256:ab", None, Verdict::Differs),
            ("velero", None, Verdict::Differs),
        ] {
            assert_eq!(of_image(image), version, "{image}");
            assert_eq!(judge("Deployment/velero", image).verdict, verdict, "{image}");
            assert_eq!(refused_version(image).is_some(), verdict == Verdict::Refused, "{image}");
        }
        assert_eq!(refused_version("ghcr.io/velero-rust/velero:v0.1.0"), None);
    }
}
