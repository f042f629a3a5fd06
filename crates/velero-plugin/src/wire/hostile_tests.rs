//! What a plugin may send that means harm: its first line, its messages, the details of its errors.

use prost::Message;
use tonic::{Code, Status};
use velero_testkit::hostile::{Parser, ROUNDS, THOROUGH_ROUNDS, strike};

use super::{
    first_frame, from_duration, generated, identifier_from, operation_error, progress_from, rpc, selector_from,
};
use super::{v1, v2};
use crate::host::handshake;

fn parsers() -> Vec<Parser> {
    let lines = ["1|2|unix|/tmp/plugin1|grpc|\n", "1|2|tcp|127.0.0.1:10000|grpc||true", "1|1|unix|/s|netrpc"];
    vec![
        Parser {
            name: "handshake",
            samples: lines.map(|line| line.as_bytes().to_vec()).to_vec(),
            parse: |bytes| drop(handshake::parse(&String::from_utf8_lossy(bytes))),
        },
        Parser { name: "plugin messages", samples: messages(), parse: read_messages },
        Parser { name: "plugin errors", samples: vec![error().encode_to_vec()], parse: read_error },
    ]
}

fn identifier() -> generated::ResourceIdentifier {
    let text = str::to_owned;
    generated::ResourceIdentifier { group: text("g"), resource: text("r"), namespace: text("n"), name: text("x") }
}

fn messages() -> Vec<Vec<u8>> {
    let backup = v2::BackupItemResponse {
        item: br#"{"kind":"Pod"}"#.to_vec().into(),
        additional_items: vec![identifier(), identifier()],
        operation_id: "op-1".to_owned(),
        post_operation_items: vec![identifier()],
    };
    let restore = v2::RestoreItemResponse {
        item: br#"{"kind":"Pod"}"#.to_vec().into(),
        additional_items: vec![identifier()],
        additional_items_ready_timeout: Some(prost_types::Duration { seconds: 5, nanos: 7 }),
        ..v2::RestoreItemResponse::default()
    };
    let time = Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 5 });
    let progress = generated::OperationProgress {
        n_completed: 3,
        n_total: 5,
        started: time,
        ..generated::OperationProgress::default()
    };
    let selector = generated::ResourceSelector {
        included_resources: vec!["pods".to_owned()],
        selector: "a=b".to_owned(),
        ..generated::ResourceSelector::default()
    };
    let selector = generated::AppliesToResponse { resource_selector: Some(selector) };
    let progress = generated::ProgressResponse { progress: Some(progress) };
    vec![backup.encode_to_vec(), restore.encode_to_vec(), progress.encode_to_vec(), selector.encode_to_vec()]
}

fn read_messages(bytes: &[u8]) {
    if let Ok(answer) = v2::BackupItemResponse::decode(bytes) {
        let _: Vec<_> = answer.additional_items.into_iter().map(identifier_from).collect();
        let _ = serde_json::from_slice::<serde_json::Value>(&answer.item);
    }
    if let Ok(answer) = v2::RestoreItemResponse::decode(bytes) {
        let _ = from_duration(answer.additional_items_ready_timeout);
    }
    if let Ok(answer) = generated::ProgressResponse::decode(bytes) {
        let _ = answer.progress.map(progress_from);
    }
    if let Ok(answer) = generated::AppliesToResponse::decode(bytes) {
        let _ = selector_from(answer.resource_selector);
    }
    let _ = v1::RelatedItemsResponse::decode(bytes);
    let _ = generated::ListPluginsResponse::decode(bytes);
    let _ = generated::ListObjectsResponse::decode(bytes);
}

fn error() -> rpc::Status {
    let frame = generated::StackFrame { file: "/src/a.go".to_owned(), line: 7, function: "main.run".to_owned() };
    let value = generated::Stack { frames: vec![frame] }.encode_to_vec();
    let detail = prost_types::Any { type_url: "type.googleapis.com/generated.Stack".to_owned(), value };
    rpc::Status { code: 2, message: "boom".to_owned(), details: vec![detail] }
}

fn read_error(bytes: &[u8]) {
    let status = Status::with_details(Code::Unknown, String::from_utf8_lossy(bytes), bytes.to_vec().into());
    let _ = (first_frame(&status), operation_error(&status, "a/b", "op-1"));
}

#[test]
fn thousands_of_changed_messages_are_read_or_refused() {
    parsers().iter().for_each(|parser| strike(parser, ROUNDS));
}

#[test]
#[ignore = "many times the usual run"]
fn very_many_changed_messages_are_read_or_refused() {
    parsers().iter().for_each(|parser| strike(parser, THOROUGH_ROUNDS));
}
