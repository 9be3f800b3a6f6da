//! A server that says why it ends a connection.

use relive_wire::Message;
use relive_wire::v1::BulkError;
use tonic::{Code, Status};

/// What the head of an error frame says.
pub(super) fn refusal(head: &[u8]) -> Status {
    match BulkError::decode(head) {
        Ok(error) => Status::new(Code::from(error.code), error.message),
        Err(error) => Status::internal(format!("the server sent an error that cannot be read: {error}")),
    }
}
