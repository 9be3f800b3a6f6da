//! Converts errors to gRPC statuses, with the code of their [kind](ErrorKind), and with texts that include those that
//! dm-reverb's clients compare.

use relive_engine::EngineError;
use relive_table::ErrorKind;
use relive_wire::{WireError, text};
use tonic::{Code, Status};

/// Returns the status for a failed operation on a table.
pub(crate) fn of_engine(error: &EngineError) -> Status {
    let text = match error.kind() {
        ErrorKind::Timeout => format!("{} ({error})", text::SAMPLE_TIMEOUT),
        ErrorKind::Cancelled => text::TABLE_CLOSED.to_owned(),
        _ => error.to_string(),
    };
    of_kind(error.kind(), text)
}

/// Returns the status for an insert stream that ends early. A closed table is reported as UNAVAILABLE: the items were
/// not inserted, and the writer should send them to the server's successor.
pub(crate) fn of_insert(error: &EngineError) -> Status {
    match error.kind() {
        ErrorKind::Cancelled => stopping(),
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
