//! Converts errors to gRPC statuses, with the code of their [kind](ErrorKind), and with texts that include those that
//! dm-reverb's clients compare.

use relive_engine::EngineError;
use relive_table::ErrorKind;
use relive_wire::{WireError, text};
use tonic::{Code, Status};

/// Returns the status for a failed operation on a table. A closed table is reported as UNAVAILABLE: the operation was not
/// applied, and the client should send it to the server's successor.
pub(crate) fn of_engine(error: &EngineError) -> Status {
    match error.kind() {
        ErrorKind::Cancelled => stopping(),
        ErrorKind::Timeout => of_kind(ErrorKind::Timeout, format!("{} ({error})", text::SAMPLE_TIMEOUT)),
        kind => of_kind(kind, error.to_string()),
    }
}

/// Returns the status for a sample stream that ends early; dm-reverb's clients compare the text of a closed table.
pub(crate) fn of_sample(error: &EngineError) -> Status {
    match error.kind() {
        ErrorKind::Cancelled => of_kind(ErrorKind::Cancelled, text::TABLE_CLOSED.to_owned()),
        _ => of_engine(error),
    }
}

/// Returns the status for a request that cannot be decoded.
pub(crate) fn of_wire(error: &WireError) -> Status {
    of_kind(error.kind(), error.to_string())
}

fn of_kind(kind: ErrorKind, text: String) -> Status {
    Status::new(kind.grpc_code().map_or(Code::Internal, Code::from), text)
}

/// Returns the status for a stream whose reader does not support the codec of an item.
pub(crate) fn of_unreadable(error: &WireError) -> Status {
    Status::failed_precondition(format!(
        "cannot encode an item for this reader, which does not support the item's codec: {error}"
    ))
}

/// Returns the status for streams that are still open when the server stops.
pub(crate) fn stopping() -> Status {
    Status::unavailable("the server is stopping; unconfirmed operations were not applied")
}
