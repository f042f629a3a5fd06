//! What Velero puts on the wire and at rest: the custom resources of `velero.io`, the JSON records
//! beside a backup, and the names of labels, annotations and finalizers.
//!
//! This crate is the bottom of the workspace. It only describes data: no I/O, no clock, no client. What is no data but has to
//! be known on several floors lies here too: [`WriteGuard`], by which all who write ask whether they may.
//! Three promises hold for every type:
//!
//! - what Velero's Go types wrote is written again unchanged, zero values included;
//! - a field this version does not know survives a read-modify-write (`unknown`);
//! - an enum value this version does not know never makes an object unreadable.

#[macro_use]
mod macros;

pub mod annotations;
mod causes;
pub mod crd;
pub mod dry_run;
pub mod duration;
pub mod features;
pub mod finalizers;
pub mod labels;
pub mod metadata;
pub mod records;
pub mod repository;
pub mod resource;
mod schema;
pub mod shared;
pub mod type_names;
pub mod uploader_settings;
pub mod v1;
pub mod v2alpha1;
mod wire;
mod write_guard;

pub use causes::with_causes;
pub use duration::GoDuration;
pub use features::FeatureFlags;
pub use shared::{DataMoveOperationProgress, DataMovePhase};
pub use wire::UnknownFields;
pub use write_guard::{Settling, WriteGuard, WriteRefused};

/// The API group of every custom resource.
pub const GROUP: &str = "velero.io";

/// The namespace of the server and its objects unless another one is chosen.
pub const DEFAULT_NAMESPACE: &str = "velero";

/// Where the container images of this project are, unless an installation says otherwise: `velero`, and one a plugin. The chart
/// names the same.
pub const IMAGE_REGISTRY: &str = "ghcr.io/velero-rust";
