//! Reads what a backup is prepared with.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PartialObjectMeta};
use velero_api::labels;
use velero_api::metadata::name;
use velero_api::v1::{Backup, VolumeSnapshotLocation};
use velero_cluster::{Error as ClusterError, list_all};
use velero_rules::validation::SnapshotLocation;

use crate::backup::prepare::Facts;
use crate::backup::reservation::cluster_identity;
use crate::lifecycle::policies::policies;
use crate::runtime::context::Context;
use crate::runtime::error::{Result, describe};
use crate::runtime::snapshot_locations::credentials;

/// Reads what a backup is prepared with.
pub(super) async fn gather(context: &Context, backup: &Backup) -> Result<Facts> {
    let version = context.objects.cluster().server_version().await?;
    let snapshot_locations = context.objects.list::<VolumeSnapshotLocation>("").await?;
    let snapshot_location = |location: &VolumeSnapshotLocation| SnapshotLocation {
        name: name(location).to_owned(),
        provider: location.spec.provider.clone(),
    };
    let mut credential_problems = BTreeMap::new();
    for location in &snapshot_locations {
        if let Err(error) = credentials(&context.objects, location).await {
            credential_problems.insert(name(location).to_owned(), describe(&error));
        }
    }
    Ok(Facts {
        credential_problems,
        locations: context.objects.list("").await?,
        snapshot_locations: snapshot_locations.iter().map(snapshot_location).collect(),
        namespaces_labelled_out: namespaces_labelled_out(context).await?,
        policies: policies(context, backup).await,
        server_version: [version.whole, version.major, version.minor],
        // Who cannot see it is told when the name of the backup is reserved.
        cluster: cluster_identity(context).await.unwrap_or_default(),
    })
}

async fn namespaces_labelled_out(context: &Context) -> Result<Vec<String>> {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(context.objects.cluster().client().clone());
    let parameters = ListParams::default().labels(&format!("{}=true", labels::EXCLUDE_FROM_BACKUP));
    let listed = list_all(&api, &parameters).await;
    let listed = listed.map_err(|error| ClusterError::from_kube("list namespaces", error))?;
    Ok(listed.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
}
