//! What a plugin may send that means harm: its first line, its messages, the details of its errors.

use prost::Message;
use tonic::{Code, Status};
use velero_testkit::hostile::Parser;
use velero_testkit::strike_all;

use super::{first_frame, from_duration, generated, identifier_from, operation_error, progress_from, selector_from};
use super::{v1, v2};
use crate::host::handshake;

fn parsers() -> Vec<Parser> {
    vec![
        Parser::of("plugin-handshake", |bytes| drop(handshake::parse(&String::from_utf8_lossy(bytes)))),
        Parser::of("plugin-messages", read_messages),
        Parser::of("plugin-errors", read_error),
    ]
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

fn read_error(bytes: &[u8]) {
    let status = Status::with_details(Code::Unknown, String::from_utf8_lossy(bytes), bytes.to_vec().into());
    let _ = (first_frame(&status), operation_error(&status, "a/b", "op-1"));
}

strike_all!(parsers);
