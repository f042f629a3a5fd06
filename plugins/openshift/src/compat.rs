//! Where this plugin does better than the one it replaces, and how to have the old behaviour back.

use std::fmt;
use std::str::FromStr;

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// A behaviour of the Go plugin that can be had back.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Compat {
            $($(#[$doc])* $name,)+
        }

        impl Compat {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name in settings.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

switches! {
    /// The common actions apply to every kind, and write the migration registry on every item.
    EveryKind = "every-kind",
    /// In a migration, labels that the Restore lacks are written empty.
    EmptyMigrationLabels = "empty-migration-labels",
    /// A cluster that does not say where its registry is fails every item.
    RegistryRequired = "registry-required",
    /// The first pull secret with the right prefix is taken, whoever it belongs to.
    FirstPullSecret = "first-pull-secret",
    /// Pull secrets are looked for in the namespace of the backup, not where the item is restored.
    SourceNamespaceSecrets = "source-namespace-secrets",
    /// Triggers of a DeploymentConfig follow the mapping of the namespace of the DeploymentConfig.
    TriggerNamespace = "trigger-namespace",
    /// Pull secrets and images of `spec.source.images` of a BuildConfig stay as they are.
    SourceImages = "source-images",
    /// ReplicaSets of Deployments stay out.
    SkipOwnedReplicaSets = "skip-owned-replicasets",
    /// Pods of a stage keep their affinity and are not marked.
    StageAffinity = "stage-affinity",
    /// Names of groups are mapped only when they have four parts.
    FourPartGroups = "four-part-groups",
    /// Role bindings that OpenShift makes in every project are restored.
    SystemBindings = "restore-system-bindings",
    /// Image streams without any image stay out.
    SkipEmptyStreams = "skip-empty-streams",
    /// A restore reads images from the path of their reference instead of the one the backup wrote.
    ImagePath = "image-path",
    /// Images of tags that refer elsewhere are pushed as `latest`.
    PushLatest = "push-latest",
    /// An image whose reference merely starts with the name of the registry is one of it.
    RegistryPrefix = "registry-prefix",
    /// Of an image for several platforms, only the one for the platform of the plugin is copied.
    OnePlatform = "one-platform",
    /// A copy is tried seven times whatever went wrong.
    RetryAlways = "retry-always",
    /// Certificates of registries are not checked, and registries without TLS are used.
    InsecureRegistries = "insecure-registries",
}

impl fmt::Display for Compat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text that names none of the switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSwitch(String);

impl fmt::Display for UnknownSwitch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Compat::ALL.iter().map(|switch| switch.as_str()).collect();
        write!(formatter, "{:?} is no compat switch; use all, or some of {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownSwitch {}

impl FromStr for Compat {
    type Err = UnknownSwitch;

    fn from_str(text: &str) -> Result<Self, UnknownSwitch> {
        let known = Self::ALL.iter().copied().find(|switch| switch.as_str() == text);
        known.ok_or_else(|| UnknownSwitch(text.to_owned()))
    }
}
