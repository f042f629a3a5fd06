//! The plugins of an installed Velero: which are built in here, which run as they are.

use super::{Line, Verdict, text};

/// A plugin that is known by the name of its image.
struct Known {
    image: &'static str,
    /// The provider whose snapshots only the plugin takes; where nobody uses them it is not needed.
    snapshots_of: Option<&'static str>,
    fate: Fate,
    detail: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// All of it is built in.
    BuiltIn,
    /// Its store is built in; its snapshots are not.
    StoreBuiltIn,
    /// It runs beside the server as it does beside Velero's.
    Runs,
}

const KNOWN: [Known; 8] = [
    Known {
        image: "velero-plugin-for-aws",
        snapshots_of: None,
        fate: Fate::BuiltIn,
        detail: "buckets and EBS snapshots are built in; its init container is left out",
    },
    Known {
        image: "velero-plugin-for-microsoft-azure",
        snapshots_of: Some("azure"),
        fate: Fate::StoreBuiltIn,
        detail: "containers are built in",
    },
    Known {
        image: "velero-plugin-for-gcp",
        snapshots_of: Some("gcp"),
        fate: Fate::StoreBuiltIn,
        detail: "buckets are built in",
    },
    Known {
        image: "velero-plugin-for-csi",
        snapshots_of: None,
        fate: Fate::BuiltIn,
        detail: "built in with --features=EnableCSI; its init container is left out",
    },
    Known {
        image: "openshift-velero-plugin",
        snapshots_of: None,
        fate: Fate::BuiltIn,
        detail: "built in (docs/openshift.md); its init container is left out",
    },
    Known {
        image: "velero-plugin-for-vsphere",
        snapshots_of: None,
        fate: Fate::Runs,
        detail: "runs as it is; our plugin for vSphere beside it follows its uploads",
    },
    Known { image: "kubevirt-velero-plugin", snapshots_of: None, fate: Fate::Runs, detail: "runs as it is" },
    Known { image: "velero-plugin-for-alibabacloud", snapshots_of: None, fate: Fate::Runs, detail: "runs as it is" },
];

fn known(image: &str) -> Option<&'static Known> {
    let name = image.rsplit('/').next().unwrap_or(image);
    let name = name.split(['@', ':']).next().unwrap_or(name);
    // Distributions put something before or behind the name.
    KNOWN.iter().find(|known| name.contains(known.image))
}

/// Whether the init container of an image is not needed any more, where those providers have snapshot locations.
pub(super) fn is_superfluous(image: &str, snapshot_providers: &[String]) -> bool {
    known(image).is_some_and(|known| match known.fate {
        Fate::BuiltIn => true,
        Fate::StoreBuiltIn => !known.snapshots_of.is_some_and(|wanted| has(snapshot_providers, wanted)),
        Fate::Runs => false,
    })
}

fn has(providers: &[String], wanted: &str) -> bool {
    providers.iter().any(|provider| provider.strip_prefix("velero.io/").unwrap_or(provider) == wanted)
}

/// What becomes of the plugin that an init container brings.
pub(super) fn judge(container: &serde_json::Value, snapshot_providers: &[String]) -> Line {
    let image = text(container, "/image");
    let object = format!("Plugin/{}", text(container, "/name"));
    match known(image) {
        None => Line::new(
            object,
            Verdict::Works,
            format!("{image}: not known here; it runs as it is, plugins speak the same protocol to both servers"),
        ),
        Some(known) if is_superfluous(image, snapshot_providers) => {
            Line::new(object, Verdict::Works, format!("{image}: {}", known.detail))
        }
        Some(known) if known.fate == Fate::StoreBuiltIn => Line::new(
            object,
            Verdict::Works,
            format!("{image}: {}; it stays for the snapshots of its disks and for its store", known.detail),
        ),
        Some(known) => Line::new(object, Verdict::Works, format!("{image}: {}", known.detail)),
    }
}

/// Whether something here, or one of those images, takes snapshots for a provider.
pub(super) fn takes_snapshots(provider: &str, images: &[&str]) -> bool {
    let provider = provider.strip_prefix("velero.io/").unwrap_or(provider);
    provider == "aws"
        || images.iter().any(|image| match known(image) {
            Some(known) => known.snapshots_of == Some(provider) || known.fate == Fate::Runs,
            None => true,
        })
}

/// Whether one of those images may bring a store that is not built in.
pub(super) fn may_bring_stores(images: &[&str]) -> bool {
    images.iter().any(|image| known(image).is_none_or(|known| known.fate == Fate::Runs))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_plugins_are_left_out_where_all_they_do_is_built_in() {
        let gcp = ["velero.io/gcp".to_owned()];
        for (image, providers, left_out) in [
            ("velero/velero-plugin-for-aws:v1.14.3", &[][..], true),
            ("docker.io/velero/velero-plugin-for-csi@sha256:ab", &[], true),
            ("velero/velero-plugin-for-gcp:v1.14.0", &[], true),
            ("velero/velero-plugin-for-gcp:v1.14.0", &gcp, false),
            ("velero/velero-plugin-for-microsoft-azure:v1.14.0", &gcp, true),
            ("quay.io/konveyor/openshift-velero-plugin:oadp-1.4", &[], true),
            ("quay.io/kubevirt/kubevirt-velero-plugin:v0.8.0", &[], false),
            ("example.com/our-own:v1", &[], false),
        ] {
            assert_eq!(is_superfluous(image, providers), left_out, "{image}");
            let line = judge(&json!({"name": "p", "image": image}), providers);
            assert_eq!((line.verdict, line.object.as_str()), (Verdict::Works, "Plugin/p"));
        }
    }

    #[test]
    fn a_provider_of_snapshots_needs_somebody_who_takes_them() {
        assert!(takes_snapshots("velero.io/aws", &[]));
        assert!(!takes_snapshots("gcp", &["velero/velero-plugin-for-aws:v1"]));
        assert!(takes_snapshots("gcp", &["velero/velero-plugin-for-gcp:v1"]));
        assert!(takes_snapshots("example.io/disk", &["example.io/disks:v1"]));
        assert!(may_bring_stores(&["velero/velero-plugin-for-aws:v1", "example.io/own:v1"]));
        assert!(!may_bring_stores(&["velero/velero-plugin-for-aws:v1"]) && !may_bring_stores(&[]));
    }
}
