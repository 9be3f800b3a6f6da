//! The one table from errors to gRPC codes, with the texts that dm-reverb's clients compare.

use relive_engine::{EngineError, ErrorKind};
use relive_wire::{WireError, text};
use tonic::{Code, Status};

/// The status of a failed operation on a table.
pub(crate) fn of_engine(error: &EngineError) -> Status {
    match error.kind() {
        ErrorKind::NotFound => Status::new(Code::NotFound, error.to_string()),
        ErrorKind::Timeout => {
            Status::new(Code::DeadlineExceeded, format!("{} ({error})", text::SAMPLE_TIMEOUT))
        }
        ErrorKind::Closed => Status::new(Code::Cancelled, text::TABLE_CLOSED),
        ErrorKind::Internal => Status::new(Code::Internal, error.to_string()),
        ErrorKind::Exhausted => Status::new(Code::ResourceExhausted, error.to_string()),
        ErrorKind::DataLoss => Status::new(Code::DataLoss, error.to_string()),
        _ => Status::new(Code::InvalidArgument, error.to_string()),
    }
}

/// The status of an insert stream that ends early. A closed table is reported as UNAVAILABLE: the items were not
/// inserted, and the writer should bring them to the server's successor.
pub(crate) fn of_insert(error: &EngineError) -> Status {
    match error.kind() {
        ErrorKind::Closed => stopping(),
        _ => of_engine(error),
    }
}

/// The status of a request that could not be understood.
pub(crate) fn of_wire(error: &WireError) -> Status {
    let code = match error {
        WireError::UnknownChunk { .. } => Code::Internal,
        WireError::Request { .. } => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}

/// The status of a stream whose reader cannot be sent an item in a codec that it knows.
pub(crate) fn of_unreadable(error: &WireError) -> Status {
    Status::failed_precondition(format!(
        "an item cannot be coded for this reader, who did not say that it knows its codec: {error}"
    ))
}

/// The status of streams that are open when the server stops.
pub(crate) fn stopping() -> Status {
    Status::unavailable("the server is stopping; unconfirmed operations did not happen")
}
