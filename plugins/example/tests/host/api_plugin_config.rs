//! The settings of a plugin in a ConfigMap, read from a real API server.

use std::collections::BTreeMap;

use serde_json::json;
use velero_cluster::{Cluster, types};
use velero_plugin::PluginKind;
use velero_plugin::sdk::plugin_config;
use velero_testkit::cluster_test;

#[test]
fn the_one_config_map_of_a_plugin_is_found_and_two_are_refused() {
    cluster_test(|test| async move {
        let (cluster, namespace) = (Cluster::from_client(test.client.clone()), test.namespace.clone());
        let create = async |name: &str, kind: &str| {
            let labels = json!({"velero.io/plugin-config": "", "example.velero.io/backup": kind});
            let object = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "labels": labels},
                "data": {"from": name},
            });
            cluster.create(&types::CONFIG_MAPS, Some(&namespace), &object).await.unwrap();
        };
        let read = || plugin_config(&cluster, &namespace, PluginKind::BackupItemAction, "example.velero.io/backup");
        assert!(read().await.unwrap().is_empty());
        create("other-kind", "RestoreItemAction").await;
        create("ours", "BackupItemAction").await;
        assert_eq!(read().await.unwrap(), BTreeMap::from([("from".to_owned(), "ours".to_owned())]));
        create("again", "BackupItemAction").await;
        let error = read().await.unwrap_err().to_string();
        assert!(error.contains("again, ours"), "{error}");
    });
}
