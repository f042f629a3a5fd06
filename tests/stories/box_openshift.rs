//! What stands in for OpenShift does what the actions need of it.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use velero_testkit::openshift_box_test;

fn api(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("image.openshift.io", "v1", kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A stream with a tag that names an image of another registry.
fn stream() -> DynamicObject {
    let from = json!({"kind": "DockerImage", "name": format!("quay.io/shop/web@sha256:{}", "1".repeat(64))});
    object(json!({
        "apiVersion": "image.openshift.io/v1", "kind": "ImageStream",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"tags": [{"name": "v1", "from": from}]},
    }))
}

#[test]
fn streams_and_their_tags_are_made_changed_and_removed() {
    openshift_box_test(async |cluster| {
        let (streams, tags) = (
            api(&cluster.client, &cluster.namespace, "ImageStream"),
            api(&cluster.client, &cluster.namespace, "ImageStreamTag"),
        );
        let made = streams.create(&PostParams::default(), &stream()).await.unwrap();
        assert_eq!(made.data["status"]["tags"][0]["items"][0]["image"], format!("sha256:{}", "1".repeat(64)));
        let again = streams.create(&PostParams::default(), &stream()).await.unwrap_err();
        assert!(matches!(again, kube::Error::Api(status) if status.reason == "AlreadyExists"));

        let from = json!({"kind": "ImageStreamTag", "name": "web:v1"});
        let tag = object(json!({
            "apiVersion": "image.openshift.io/v1", "kind": "ImageStreamTag",
            "metadata": {"name": "web:stable"}, "tag": {"from": from},
        }));
        tags.create(&PostParams::default(), &tag).await.unwrap();
        let found = tags.get("web:stable").await.unwrap();
        assert_eq!(found.data["tag"]["from"]["name"], "web:v1");
        let names = async |parameters: &ListParams| {
            let found = tags.list(parameters).await.unwrap();
            found.items.into_iter().filter_map(|tag| tag.metadata.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&ListParams::default()).await, ["web:v1", "web:stable"]);
        assert_eq!(names(&ListParams::default().labels("app=other")).await, [""; 0]);
        let image_tags = api(&cluster.client, &cluster.namespace, "ImageTag");
        assert_eq!(image_tags.get("web:v1").await.unwrap().data["status"]["tag"], "v1");

        let patch = json!({"metadata": {"annotations": {"note": "changed"}}});
        let changed = streams.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        assert_eq!(changed.metadata.annotations.unwrap()["note"], "changed");
        assert_eq!(changed.metadata.uid, made.metadata.uid);

        tags.delete("web:stable", &DeleteParams::default()).await.unwrap();
        assert!(tags.get_opt("web:stable").await.unwrap().is_none());
        streams.delete("web", &DeleteParams::default()).await.unwrap();
        assert!(streams.get_opt("web").await.unwrap().is_none());
        assert!(tags.get_opt("web:v1").await.unwrap().is_none());
    });
}

#[test]
fn a_namespace_takes_its_streams_along() {
    openshift_box_test(async |cluster| {
        let machine = cluster.test_box.machine();
        let namespace = velero_testkit::harness::unique_name("gone");
        machine.kubectl(&["create", "namespace", &namespace]).unwrap();
        let streams = api(&cluster.client, &namespace, "ImageStream");
        streams.create(&PostParams::default(), &stream()).await.unwrap();
        machine.kubectl(&["delete", "namespace", &namespace, "--timeout=120s"]).unwrap();
        assert!(streams.get_opt("web").await.unwrap().is_none());
    });
}
