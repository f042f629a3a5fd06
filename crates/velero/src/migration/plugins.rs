//! The plugins of an installed Velero: which are built in here, which run as they are.

use serde_json::Value;

use super::{Installed, Line, Verdict, text};

/// A plugin that is known by the name of its image.
struct Known {
    image: &'static str,
    /// The provider whose store it serves, as what is built in does.
    store_of: Option<&'static str>,
    /// The provider whose snapshots only the plugin takes; where nobody uses them it is not needed.
    snapshots_of: Option<&'static str>,
    fate: Fate,
    detail: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// What it does is built in, but for those snapshots.
    BuiltIn,
    /// It runs beside the server as it does beside Velero's.
    Runs,
}

const KNOWN: [Known; 8] = [
    Known {
        image: "velero-plugin-for-aws",
        store_of: Some("aws"),
        snapshots_of: None,
        fate: Fate::BuiltIn,
        detail: "buckets and EBS snapshots are built in",
    },
    Known {
        image: "velero-plugin-for-microsoft-azure",
        store_of: Some("azure"),
        snapshots_of: Some("azure"),
        fate: Fate::BuiltIn,
        detail: "containers are built in",
    },
    Known {
        image: "velero-plugin-for-gcp",
        store_of: Some("gcp"),
        snapshots_of: Some("gcp"),
        fate: Fate::BuiltIn,
        detail: "buckets are built in",
    },
    Known {
        image: "velero-plugin-for-csi",
        store_of: None,
        snapshots_of: None,
        fate: Fate::BuiltIn,
        detail: "built in with --features=EnableCSI",
    },
    Known {
        image: "openshift-velero-plugin",
        store_of: None,
        snapshots_of: None,
        fate: Fate::BuiltIn,
        detail: "built in (docs/openshift.md)",
    },
    Known {
        image: "velero-plugin-for-vsphere",
        store_of: None,
        snapshots_of: None,
        fate: Fate::Runs,
        detail: "runs as it is; our plugin for vSphere beside it follows its uploads",
    },
    Known {
        image: "kubevirt-velero-plugin",
        store_of: None,
        snapshots_of: None,
        fate: Fate::Runs,
        detail: "runs as it is",
    },
    Known {
        image: "velero-plugin-for-alibabacloud",
        store_of: None,
        snapshots_of: None,
        fate: Fate::Runs,
        detail: "runs as it is",
    },
];

/// The providers that what is built in does not serve in an installation, so that their plugins stay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needed {
    /// Those of snapshot locations.
    snapshots: Vec<String>,
    /// Those of locations that are refused here.
    stores: Vec<String>,
}

impl Needed {
    /// What an installed Velero needs of its plugins.
    pub(crate) fn of(installed: &Installed) -> Self {
        let provider = |location: &Value| text(location, "/spec/provider").to_owned();
        let refused = installed.locations.iter().filter(|location| location.refusal.is_some());
        Self {
            snapshots: installed.snapshot_locations.iter().map(provider).collect(),
            stores: refused.map(|location| provider(&location.object)).collect(),
        }
    }
}

/// Why a plugin stays whose work is built in.
fn reason_to_stay(known: &Known, needed: &Needed) -> Option<&'static str> {
    let is_needed = |provider: Option<&str>, by: &[String]| provider.is_some_and(|provider| has(by, provider));
    match () {
        () if is_needed(known.store_of, &needed.stores) => Some("a location of its provider is refused here"),
        () if is_needed(known.snapshots_of, &needed.snapshots) => Some("nobody else takes the snapshots of its disks"),
        () => None,
    }
}

fn known(image: &str) -> Option<&'static Known> {
    let name = image.rsplit('/').next().unwrap_or(image);
    let name = name.split(['@', ':']).next().unwrap_or(name);
    // Distributions put something before or behind the name.
    KNOWN.iter().find(|known| name.contains(known.image))
}

/// Whether the init container of an image is not needed any more.
pub(super) fn is_superfluous(image: &str, needed: &Needed) -> bool {
    known(image).is_some_and(|known| known.fate == Fate::BuiltIn && reason_to_stay(known, needed).is_none())
}

fn has(providers: &[String], wanted: &str) -> bool {
    providers.iter().any(|provider| without_group(provider) == wanted)
}

fn without_group(provider: &str) -> &str {
    provider.strip_prefix("velero.io/").unwrap_or(provider)
}

/// What becomes of the plugin that an init container brings.
pub(super) fn judge(container: &Value, needed: &Needed) -> Line {
    let image = text(container, "/image");
    let becomes = match known(image) {
        None => "not known here; it runs as it is, plugins speak the same protocol to both servers".to_owned(),
        Some(known) if known.fate == Fate::Runs => known.detail.to_owned(),
        Some(known) => match reason_to_stay(known, needed) {
            None => format!("{}; its init container is left out", known.detail),
            Some(reason) => {
                format!("{}; it stays, and its store takes the place of ours: {reason}", known.detail)
            }
        },
    };
    Line::new(format!("Plugin/{}", text(container, "/name")), Verdict::Works, format!("{image}: {becomes}"))
}

/// Whether one of those images serves the store of a provider.
pub(super) fn serves_store(provider: &str, images: &[&str]) -> bool {
    images.iter().any(|image| known(image).is_some_and(|known| known.store_of == Some(without_group(provider))))
}

/// Whether something here, or one of those images, takes snapshots for a provider.
pub(super) fn takes_snapshots(provider: &str, images: &[&str]) -> bool {
    let provider = without_group(provider);
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
    use crate::migration::Located;

    fn needed(snapshots: &[&str], stores: &[&str]) -> Needed {
        let owned = |list: &[&str]| list.iter().map(|provider| (*provider).to_owned()).collect();
        Needed { snapshots: owned(snapshots), stores: owned(stores) }
    }

    #[test]
    fn known_plugins_are_left_out_where_all_they_do_is_built_in() {
        for (image, snapshots, stores, left_out) in [
            ("velero/velero-plugin-for-aws:v1.14.3", &["aws"][..], &["gcp"][..], true),
            ("velero/velero-plugin-for-aws:v1.14.3", &[], &[], true),
            ("velero/velero-plugin-for-aws:v1.14.3", &[], &["velero.io/aws"], false),
            ("docker.io/velero/velero-plugin-for-csi@sha256:ab", &[], &["aws"], true),
            ("velero/velero-plugin-for-gcp:v1.14.0", &[], &[], true),
            ("velero/velero-plugin-for-gcp:v1.14.0", &["velero.io/gcp"], &[], false),
            ("velero/velero-plugin-for-gcp:v1.14.0", &[], &["gcp"], false),
            ("velero/velero-plugin-for-microsoft-azure:v1.14.0", &["gcp"], &["aws"], true),
            ("quay.io/konveyor/openshift-velero-plugin:oadp-1.4", &[], &[], true),
            ("quay.io/kubevirt/kubevirt-velero-plugin:v0.8.0", &[], &[], false),
            ("example.com/our-own:v1", &[], &[], false),
        ] {
            let needed = needed(snapshots, stores);
            assert_eq!(is_superfluous(image, &needed), left_out, "{image} {needed:?}");
            let line = judge(&json!({"name": "p", "image": image}), &needed);
            assert_eq!((line.verdict, line.object.as_str()), (Verdict::Works, "Plugin/p"));
            assert_eq!(line.detail.contains("is left out"), left_out, "{line:?}");
        }
    }

    #[test]
    fn what_is_needed_of_plugins_is_what_is_refused_here_and_snapshots() {
        let object = |provider: &str| json!({"spec": {"provider": provider}});
        let located = |provider: &str, refusal: Option<&str>| Located {
            object: object(provider),
            refusal: refusal.map(str::to_owned),
        };
        let needed = Needed::of(&Installed {
            locations: vec![located("aws", None), located("gcp", Some("no such key"))],
            snapshot_locations: vec![object("azure")],
            ..Installed::default()
        });
        assert_eq!((needed.snapshots, needed.stores), (vec!["azure".to_owned()], vec!["gcp".to_owned()]));
        assert!(serves_store("velero.io/gcp", &["velero/velero-plugin-for-gcp:v1"]));
        assert!(!serves_store("aws", &["velero/velero-plugin-for-gcp:v1", "example.com/own:v1"]));
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
