//! How a failure travels: as a gRPC status whose message is the text, with a stack as a detail where there is one.

use prost::Message;
use tonic::{Code, Status};

use super::{generated, rpc};
use crate::Error;

/// The text Velero's plugins send when they start no operations.
const NOT_SUPPORTED: &str = "Plugin does not support asynchronous operations";

/// The status an error is sent as, in the words Velero's plugins use.
pub(crate) fn to_status(error: &Error) -> Status {
    let text = match error {
        Error::AsyncOperationsNotSupported { .. } => NOT_SUPPORTED.to_owned(),
        Error::InvalidOperationId { operation_id, .. } => format!("operation ID {operation_id} is invalid"),
        other => other.to_string(),
    };
    Status::new(Code::Unknown, text)
}

/// The error behind a status about an operation, if it is one of the two that have a meaning.
pub(crate) fn operation_error(status: &Status, action: &str, operation_id: &str) -> Option<Error> {
    if status.message() == NOT_SUPPORTED {
        return Some(Error::AsyncOperationsNotSupported { action: action.to_owned() });
    }
    // Plugins in the field write the sentence with a capital letter and a full stop as well.
    let said = status.message().trim_end_matches('.');
    let invalid =
        said.strip_prefix(['o', 'O']).is_some_and(|rest| rest == format!("peration ID {operation_id} is invalid"));
    invalid.then(|| Error::InvalidOperationId { action: action.to_owned(), operation_id: operation_id.to_owned() })
}

/// Where a plugin says its error came from: `file:line` and the function.
pub(crate) fn first_frame(status: &Status) -> Option<(String, String)> {
    let details = rpc::Status::decode(status.details()).ok()?.details;
    let stack = details.iter().find(|detail| detail.type_url.ends_with("/generated.Stack"))?;
    let frame = generated::Stack::decode(stack.value.as_slice()).ok()?.frames.into_iter().next()?;
    Some((format!("{}:{}", frame.file, frame.line), frame.function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_operations_keep_their_meaning() {
        let action = || "example.com/mover".to_owned();
        let unsupported = Error::AsyncOperationsNotSupported { action: action() };
        let invalid = Error::InvalidOperationId { action: action(), operation_id: "op-1".to_owned() };
        for error in [unsupported, invalid] {
            let found = operation_error(&to_status(&error), "example.com/mover", "op-1").unwrap();
            assert_eq!(found.to_string(), error.to_string());
        }
        assert!(operation_error(&Status::unknown("boom"), "example.com/mover", "op-1").is_none());
    }

    #[test]
    fn an_unknown_operation_is_understood_in_the_words_of_old_plugins() {
        for (message, expected) in [
            ("operation ID op-1 is invalid", true),
            ("Operation ID op-1 is invalid.", true),
            ("Operation ID op-1 is invalid", true),
            ("Operation ID op-2 is invalid.", false),
            ("the name of operation ID op-1 is invalid.", false),
        ] {
            let found = operation_error(&Status::unknown(message), "example.com/mover", "op-1");
            assert_eq!(matches!(found, Some(Error::InvalidOperationId { .. })), expected, "{message}");
        }
    }

    #[test]
    fn the_first_frame_of_a_stack_is_found_among_the_details() {
        let frame = generated::StackFrame { file: "/src/a.go".to_owned(), line: 7, function: "main.run".to_owned() };
        let stack = generated::Stack { frames: vec![frame] };
        let detail = |type_url: &str, value| prost_types::Any { type_url: type_url.to_owned(), value };
        let details = rpc::Status {
            code: 2,
            message: "boom".to_owned(),
            details: vec![
                detail("type.googleapis.com/other", Vec::new()),
                detail("type.googleapis.com/generated.Stack", stack.encode_to_vec()),
            ],
        };
        let status = Status::with_details(Code::Unknown, "boom", details.encode_to_vec().into());
        assert_eq!(first_frame(&status).unwrap(), ("/src/a.go:7".to_owned(), "main.run".to_owned()));
        assert_eq!(first_frame(&Status::unknown("boom")), None);
    }
}
