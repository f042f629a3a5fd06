//! The only crate that talks to object stores.
//!
//! A [`StoreConfig`] describes a location and opens it as an [`ObjectStoreHandle`]; a [`BackupStore`] knows which
//! files of a backup or restore live where. Everything is streamed: memory stays at a few upload parts whatever the
//! size of the backup. An upload only succeeds once the store was seen to hold the bytes that were sent.

mod backup_store;
mod bucket;
pub mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod digest;
mod error;
mod flaws;
mod location;
mod pipe;
mod providers;
mod recorder;
mod store;
mod transfer;
mod troubles;
mod upload;
mod write_guard;

pub use backup_store::{BackupReservation, BackupStore, DOWNLOAD_URL_LIFETIME};
pub use error::{Error, Result};
pub use flaws::Flaw;
pub use location::{Credentials, CustomerKey, PROVIDERS, StoreConfig, is_built_in};
pub use pipe::{PipeWriter, blocking_reader, pipe};
pub use providers::aws::credentials as aws_credentials;
pub use providers::fs::{Space, space};
pub use recorder::{Answer, Exchange, Recorder, Response};
pub use store::{ByteStream, ObjectInfo, ObjectStore, ObjectStoreHandle, SETTLING, read_all};
pub use transfer::TransferSettings;
pub use troubles::{Trouble, Troubles};
pub use write_guard::guarded;
