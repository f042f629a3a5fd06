//! Real servers for tests: a Kubernetes in a box, an S3 store, and the original Velero to compare with.
//!
//! Nothing here is a fake. [`TestBox`] brings up a cluster whose every process lives in namespaces of its own, so that
//! ending one process ends them all; [`cluster_test`] hands a running box to a test.
//!
//! | module | what it knows |
//! |---|---|
//! | [`cache`] | where built binaries are kept, keyed by what they are made of |
//! | [`install`] | how to get what a machine lacks: Debian packages, Python wheels, our own binaries |
//! | [`tool`] | the list of everything that is built or downloaded before the first test |
//! | [`machine`] | namespaces, links, processes: a machine inside this machine |
//! | [`parts`] | one file a part of the box: installed, started, checked, stopped |
//! | [`test_box`] | which parts make a box, and in which order they start |
//! | [`image`] | container images made without a container engine |
//! | [`registry`] | container registries on loopback, a token service, images of random content |
//! | [`faulty_proxy`] | a way to the store that refuses, breaks off or damages what passes |
//! | [`api_proxy`] | a way to the API server on which the answer to a chosen write is lost |
//! | [`server`] | a Velero server in a box: the original or ours |
//! | [`agents`] | its node agents, as pods |
//! | [`load`] | many objects, for measurements |
//! | [`bulk_load`] | millions of them, written past the API server |
//! | [`harness`] | what a test calls |
//! | [`hostile`] | samples that are changed thousands of times, for parsers of what others wrote |
//! | [`objects`] | builders for the objects tests need |

pub mod agents;
pub mod api_proxy;
pub mod bulk_load;
pub mod cache;
pub mod ec2_proxy;
pub mod faulty_proxy;
pub mod harness;
pub mod hostile;
pub mod image;
pub mod install;
pub mod kopia;
pub mod load;
pub mod machine;
pub mod objects;
pub mod parts;
pub mod progress;
pub mod registry;
pub mod server;
pub mod test_box;
pub mod tool;

pub use harness::{TestCluster, cluster_test, openshift_box_test, storage_box_test, whole_box_test};
pub use parts::KubernetesRelease;
pub use server::{Edition, ServerOptions, VeleroServer};
pub use test_box::{BoxKind, TestBox};
pub use tool::Tool;
pub use velero_csi_driver::{DRIVER_NAME, Settings, Storage};
