//! The only crate that talks to Kubernetes.
//!
//! It moves objects between the API server and the process and knows nothing about backups. On the data path it stands
//! at both ends: [`Cluster::list_pages`] feeds a backup with items as the bytes the server sent, and the writers of
//! `objects` apply what a restore made of them.
//!
//! | module | for |
//! |---|---|
//! | `connect` | [`Cluster`]: kubeconfig or in-cluster credentials, rate limit, retries |
//! | `discovery`, `resource_type` | what the server serves, and the names people use for it |
//! | `item_ref`, [`types`] | one item by its type, namespace and name; types that every cluster serves |
//! | `unanswered` | groups that cannot be asked, and what they served when they were last seen |
//! | `list`, `page`, `item` | paged lists that keep the server's bytes |
//! | `pages` | typed lists of any length, whole |
//! | `metadata_pages` | names, labels and age of objects, page by page |
//! | `objects`, `merge_patch` | one object: get, create, update, patch, apply, delete |
//! | `creation` | objects that are made once, also when answers get lost |
//! | `exec`, `proxy`, `wait` | commands in pods, HTTP through the API server, waiting for a condition |
//! | `watch` | following the objects that carry certain labels |
//! | `watched` | watches of kube's client, begun anew where they cannot go on |
//! | `write_guard` | asking before each write whether this process may still write |
//! | `error` | failures by class |

mod classic_discovery;
mod connect;
mod creation;
mod discovery;
mod error;
mod exec;
mod item;
mod item_ref;
mod list;
mod merge_patch;
mod metadata_pages;
mod objects;
mod page;
mod pages;
mod proxy;
mod rate_limit;
mod repeated;
mod request;
mod resource_type;
mod retry;
pub mod types;
mod unanswered;
mod wait;
mod watch;
mod watched;
mod write_guard;

pub use connect::{Cluster, ConnectOptions, ServerVersion, install_crypto_provider};
pub use discovery::Discovery;
pub use error::{Error, Refusal, Result};
pub use exec::{ExecFailure, ExecOutput, ExecReason, ExecRequest};
pub use item::{Metadata, RawItem};
pub use item_ref::ItemRef;
pub use merge_patch::{holds_merge_patch, merge_patch_diff};
pub use metadata_pages::{ListedMetadata, MetadataPage, MetadataPages, list_metadata_kept};
pub use objects::PatchableObject;
pub use page::Page;
pub use pages::{list_all, list_all_metadata, list_kept};
pub use proxy::ProxyTarget;
pub use repeated::RetryCause;
pub use resource_type::ResourceType;
pub use unanswered::{Loss, UnansweredGroup};
pub use watch::Seen;
pub use watched::{watched, watched_object};
