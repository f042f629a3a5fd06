//! The storage of the box, for development only: a CSI driver whose volumes are directories, and files where a device is asked for.
//!
//! A snapshot is a copy of the data, a volume from a snapshot is a copy of that. Everything lies on disk, so the driver
//! may be restarted, and drivers of two boxes may work on one folder: a snapshot taken in one can be used in the other.
//! What makes it worth having is that it misbehaves on command: [`Settings`].
//!
//! | module | what it knows |
//! |---|---|
//! | [`storage`] | volumes and snapshots on disk |
//! | [`settings`] | how the driver is to misbehave |
//! | `capabilities` | what is asked of a volume |
//! | `mounts`, `devices` | what the driver makes of the node: bind mounts and loop devices |
//! | `driver` | what all services share |
//! | `identity`, `controller`, `snapshots`, `groups`, `node` | one service of the interface each |
//! | `registration` | how kubelet learns of the driver |
//! | [`server`] | the sockets |

mod busy_handles;
mod capabilities;
mod controller;
mod devices;
mod driver;
mod groups;
mod identity;
mod mounts;
mod node;
mod registration;
pub mod server;
pub mod settings;
mod snapshots;
pub mod storage;
mod wire;

pub use settings::Settings;
pub use storage::{Storage, VolumeMode};

/// The name of the driver: storage classes and snapshot classes name it.
pub const DRIVER_NAME: &str = "box.csi.velero.io";
