//! A stand-in for the parts of OpenShift that custom resource definitions cannot play: `image.openshift.io`, whose tags have
//! names with a colon, and the pull secrets of service accounts. It is an aggregated API server for one box, without memory
//! beyond its process.
//!
//! | module | for |
//! |---|---|
//! | [`server`] | the two listeners: TLS for the API server, plain HTTP for the registry |
//! | `resources` | the requests for image streams and their tags |
//! | `streams` | all image streams, and what happens to them |
//! | `tags` | the tags of a stream as objects of their own |
//! | `events` | what the registry tells of pushes |
//! | `registry` | what the stand-in asks of the registry |
//! | `pull_secrets` | the secrets with which pods pull from the registry |
//! | `answers`, `discovery`, `selector`, `tls` | how an API server speaks |
//!
//! As in OpenShift, a push to the registry makes an image stream and its tag, a tag may follow another tag of its stream, a
//! tag from another stream takes the image that is there and is refused where there is none, and a stream that is deleted
//! takes its images along. Unlike OpenShift, images of other registries are not looked at, the reference of an image of
//! another stream keeps naming that stream, whoever asks may do everything, and nothing can be watched.

mod answers;
mod discovery;
mod events;
mod pull_secrets;
mod registry;
mod resources;
mod selector;
pub mod server;
mod streams;
mod tags;
mod tls;

/// The group of the API.
pub const GROUP: &str = "image.openshift.io";
/// Its version.
pub const VERSION: &str = "v1";
