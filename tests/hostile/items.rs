//! Items: what the API server or an archive holds, as bytes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use velero_cluster::{RawItem, ResourceType};
use velero_rules::pod_volumes::WaitContainer;
use velero_testkit::hostile::Parser;

fn parsers() -> Vec<Parser> {
    vec![Parser::of("items", read)]
}

fn read(bytes: &[u8]) {
    let kind = Arc::new(ResourceType::new("v1", "Pod", "pods", true));
    let Ok(item) = RawItem::new(kind, Bytes::copy_from_slice(bytes)) else { return };
    let _ = item.metadata();
    let mut written = Vec::new();
    let Ok(()) = item.write_to(&mut written) else { return };
    let value: Value = serde_json::from_slice(&written).expect("an item that was taken is no JSON");
    assert!(value.is_object(), "an item that was taken is no object");
    let wait = WaitContainer {
        server_image: "velero/velero:v1",
        restore_uid: "u",
        volumes: vec!["data"],
        config: &Default::default(),
    };
    let mut pod = value;
    let _ = wait.insert(&mut pod);
}

velero_testkit::strike_all!(parsers);
