//! The built-in actions on items that are restored.
//!
//! | action | on | does |
//! |---|---|---|
//! | `velero.io/add-pvc-from-pod` | pods | adds the claims |
//! | `velero.io/admission-webhook-configuration` | webhook configurations | makes `sideEffects` valid for v1 |
//! | `velero.io/apiservice` | API services | keeps out those the cluster makes itself |
//! | `velero.io/change-image-name` | what runs containers | changes image names as its plugin config says |
//! | `velero.io/change-storage-class` | claims, volumes, stateful sets | changes class names as its plugin config says |
//! | `velero.io/cluster-role-bindings`, `velero.io/role-bindings` | bindings | follows the namespace mapping |
//! | `velero.io/crd-preserve-fields` | CRDs | says in each schema that unknown fields stay |
//! | `velero.io/init-restore-hook` | pods | adds init containers |
//! | `velero.io/job` | jobs | drops the labels of the old job's identity |
//! | `velero.io/pod` | pods | frees it from its node and its old token; adds the priority class |
//! | `velero.io/pod-volume-restore` | pods | lets it wait until its volumes are filled from copies |
//! | `velero.io/pvc` | claims | drops what ties it to its past; adds its volume; keeps out what comes with a pod |
//! | `velero.io/secret` | secrets | keeps out or empties tokens of service accounts |
//! | `velero.io/service` | services | gives up addresses and ports that the old cluster chose |
//! | `velero.io/service-account` | service accounts | drops references to its old tokens |
//!
//! What an action has to look up in the cluster it looks up once a restore, when it is first needed.

pub mod add_pvc_from_pod;
pub mod admission_webhook;
pub mod apiservice;
pub mod change_image_name;
pub mod change_storage_class;
pub mod crd_preserve_fields;
pub mod init_restore_hook;
pub mod job;
mod lookup;
pub mod pod;
pub mod pod_volume_restore;
pub mod pvc;
pub mod role_bindings;
pub mod secret;
pub mod service;
pub mod service_account;

use std::sync::Arc;

use velero_cluster::Cluster;
use velero_plugin::RestoreItemAction;

/// All of them, for one restore. `namespace` is Velero's own, where plugin configs are.
pub(crate) fn actions(cluster: &Cluster, namespace: &str) -> Vec<Arc<dyn RestoreItemAction>> {
    vec![
        Arc::new(add_pvc_from_pod::RestoreAction),
        Arc::new(admission_webhook::RestoreAction),
        Arc::new(apiservice::RestoreAction),
        Arc::new(change_image_name::RestoreAction::new(cluster, namespace)),
        Arc::new(change_storage_class::RestoreAction::new(cluster, namespace)),
        Arc::new(crd_preserve_fields::RestoreAction),
        Arc::new(init_restore_hook::RestoreAction),
        Arc::new(job::RestoreAction),
        Arc::new(pod::RestoreAction),
        Arc::new(pod_volume_restore::RestoreAction::new(cluster, namespace)),
        Arc::new(pvc::RestoreAction::default()),
        Arc::new(role_bindings::RestoreAction::of_cluster()),
        Arc::new(role_bindings::RestoreAction::of_namespaces()),
        Arc::new(secret::RestoreAction::new(cluster)),
        Arc::new(service::RestoreAction),
        Arc::new(service_account::RestoreAction),
    ]
}
