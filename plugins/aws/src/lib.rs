//! Snapshots of Amazon EBS volumes.
//!
//! Our server has the snapshotter built in as `velero.io/aws`. The plugin binary brings it as `velero.io/aws-ebs`, so
//! that it runs under Velero beside Velero's own AWS plugin, which has the other name and is needed there for S3.
//!
//! | module | for |
//! |---|---|
//! | `snapshotter` | the volume snapshotter: which requests a call makes, in which order |
//! | `settings` | the config of a VolumeSnapshotLocation |
//! | `ec2` | requests to EC2: signed, repeated while that may help, ended by a deadline |
//! | `progress`, `tags`, `volume_id` | decisions |

mod ec2;
mod progress;
mod settings;
mod snapshotter;
mod tags;
mod volume_id;

pub use snapshotter::Snapshotter;
use velero_plugin::sdk::Plugins;

/// The name under which our server has the snapshotter built in.
pub const BUILT_IN_NAME: &str = "velero.io/aws";

/// The name under which the plugin binary brings it.
pub const PLUGIN_NAME: &str = "velero.io/aws-ebs";

/// The snapshotter for a provider, where it is this one; it may go by either name, and `velero.io/` may be left out.
pub fn built_in(provider: &str) -> Option<Snapshotter> {
    let is = |name: &str| provider == name || format!("velero.io/{provider}") == name;
    [BUILT_IN_NAME, PLUGIN_NAME].into_iter().find(|name| is(name)).map(Snapshotter::new)
}

/// Everything the plugin binary brings.
pub fn plugins() -> Plugins {
    Plugins::new().volume_snapshotter(Snapshotter::new(PLUGIN_NAME))
}

#[cfg(test)]
mod tests {
    use velero_plugin::VolumeSnapshotter;

    use super::*;

    #[test]
    fn both_names_are_built_in_long_and_short() {
        for (provider, name) in [
            ("aws", Some("velero.io/aws")),
            ("velero.io/aws", Some("velero.io/aws")),
            ("aws-ebs", Some("velero.io/aws-ebs")),
            ("velero.io/aws-ebs", Some("velero.io/aws-ebs")),
            ("example.io/aws", None),
            ("gcp", None),
        ] {
            assert_eq!(built_in(provider).as_ref().map(VolumeSnapshotter::name), name, "{provider}");
        }
    }
}
