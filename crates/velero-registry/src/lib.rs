//! The only crate that talks to container registries: copies images from one to another.
//!
//! ```no_run
//! # async fn example(token: String) -> Result<(), Box<dyn std::error::Error>> {
//! use velero_registry::{Access, Credentials, Options, Reference, Registry, copy};
//!
//! let source: Reference = "image-registry.example:5000/shop/web@sha256:7173b809ca12ec5dee4506cd86be934c4596dd234ee82c0662eac04a8c2c71dc".parse()?;
//! let destination: Reference = "migration.example/shop/web:v1".parse()?;
//! let internal = Registry::new(source.registry(), Access {
//!     credentials: Credentials::service_account(token),
//!     insecure_tls: true,
//!     ..Access::default()
//! })?;
//! let migration = Registry::new(destination.registry(), Access::default())?;
//! let copied = copy(&internal.image(&source)?, &migration.image(&destination)?, &Options::default()).await?;
//! println!("{} ({} bytes moved)", copied.digest, copied.bytes);
//! # Ok(()) }
//! ```
//!
//! A [`Registry`] keeps connections and tokens: make one a registry and use it for all its images. Manifests are
//! copied byte for byte, so digests stay what they are; blobs are streamed and verified on the way. What the destination
//! has is not sent again, and manifests are written last, children first: a copy that is cancelled, fails or is killed
//! leaves nothing behind that refers to something missing, and the next one moves what is left.
//!
//! It speaks the distribution protocol through `reqwest` alone. With `oci-client` (0.18) errors lose the status and the
//! `Retry-After` that decide whether to try again, a mount gets no token for the source repository and cannot fall back
//! to the upload the registry offers instead, a token that runs out is not renewed, and one client speaks one scheme.

mod access;
mod blob;
mod copy;
mod digest;
mod docker_config;
mod error;
mod manifest;
mod plan;
mod reference;
mod registry;
mod retry;

pub use access::{Access, Credentials};
pub use copy::{Copied, Options, Platforms, Progress, copy};
pub use digest::{Digest, DigestError};
pub use error::{CopyError, Problem};
pub use manifest::Platform;
pub use reference::Reference;
pub use registry::{Image, Registry};
pub use retry::Retry;
