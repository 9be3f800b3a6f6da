//! The kinds of errors, with their gRPC codes and Python names.

use core::fmt;

/// The category of an error. The error's message contains the details.
///
/// The kinds are the same within a process and over the network. Each kind has a gRPC status code and a Python
/// exception. A status received from a server has the same kind as on the server:
///
/// ```
/// use relive_table::ErrorKind;
///
/// assert_eq!(ErrorKind::NotFound.grpc_code(), Some(5));
/// assert_eq!(ErrorKind::from_grpc_code(5), ErrorKind::NotFound);
/// assert_eq!(ErrorKind::NotFound.python_class(), "NotFoundError");
/// assert_eq!(ErrorKind::NotFound.to_string(), "not found");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A deadline passed: either the call's own, or the rate limiter's while sampling.
    Timeout,
    /// No server answers at the address, or a broken connection was not restored in time.
    Unavailable,
    /// An argument, a step, a column or an item is not acceptable.
    InvalidArgument,
    /// The named table, column or step does not exist, or no longer exists.
    NotFound,
    /// Stored or received data cannot be decoded, or sent data has been lost.
    DataLoss,
    /// The operation was cancelled, for example because the table was closed or the server is stopping.
    Cancelled,
    /// The writer or sampler was closed before this call.
    Closed,
    /// The peer violated the protocol or does not support it.
    Protocol,
    /// The server does not offer this operation.
    Unimplemented,
    /// A limit has been reached. The same call may succeed later.
    ResourceExhausted,
    /// The server does not permit this client to perform the operation.
    PermissionDenied,
    /// The operation is not possible in the current state.
    FailedPrecondition,
    /// The server failed, or something other than the tables failed, such as a disk.
    Internal,
}

/// An error kind with its codes and names.
struct Row {
    kind: ErrorKind,
    text: &'static str,
    /// The gRPC code, or `None` for a kind that is never sent.
    code: Option<i32>,
    /// Other codes that map to this kind.
    also: &'static [i32],
    python: &'static str,
}

const fn row(
    kind: ErrorKind,
    text: &'static str,
    code: Option<i32>,
    also: &'static [i32],
    python: &'static str,
) -> Row {
    Row { kind, text, code, also, python }
}

/// The codes and their names: OK 0, CANCELLED 1, UNKNOWN 2, INVALID_ARGUMENT 3, DEADLINE_EXCEEDED 4, NOT_FOUND 5,
/// ALREADY_EXISTS 6, PERMISSION_DENIED 7, RESOURCE_EXHAUSTED 8, FAILED_PRECONDITION 9, ABORTED 10, OUT_OF_RANGE 11,
/// UNIMPLEMENTED 12, INTERNAL 13, UNAVAILABLE 14, DATA_LOSS 15, UNAUTHENTICATED 16.
#[rustfmt::skip]
const TABLE: [Row; 13] = [
    row(ErrorKind::Timeout, "timeout", Some(4), &[], "DeadlineExceededError"),
    row(ErrorKind::Unavailable, "unavailable", Some(14), &[], "UnavailableError"),
    row(ErrorKind::InvalidArgument, "invalid argument", Some(3), &[11], "InvalidArgumentError"),
    row(ErrorKind::NotFound, "not found", Some(5), &[], "NotFoundError"),
    row(ErrorKind::DataLoss, "data loss", Some(15), &[], "DataLossError"),
    row(ErrorKind::Cancelled, "cancelled", Some(1), &[10], "CancelledError"),
    row(ErrorKind::Closed, "closed", None, &[], "ClosedError"),
    row(ErrorKind::Protocol, "protocol error", None, &[], "ProtocolError"),
    row(ErrorKind::Unimplemented, "unimplemented", Some(12), &[], "UnimplementedError"),
    row(ErrorKind::ResourceExhausted, "resource exhausted", Some(8), &[], "ResourceExhaustedError"),
    row(ErrorKind::PermissionDenied, "permission denied", Some(7), &[16], "PermissionDeniedError"),
    row(ErrorKind::FailedPrecondition, "failed precondition", Some(9), &[6], "FailedPreconditionError"),
    row(ErrorKind::Internal, "internal error", Some(13), &[0, 2], "InternalError"),
];

impl ErrorKind {
    /// Returns all kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.kind)
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.kind == self).expect("the table has every kind")
    }

    /// Returns the gRPC status code, or `None` for a kind that is never sent.
    pub fn grpc_code(self) -> Option<i32> {
        self.row().code
    }

    /// Returns the kind of a gRPC status code; [`Internal`](Self::Internal) for unknown codes.
    pub fn from_grpc_code(code: i32) -> Self {
        let is_meant = |row: &&Row| row.code == Some(code) || row.also.contains(&code);
        TABLE.iter().find(is_meant).map_or(Self::Internal, |row| row.kind)
    }

    /// Returns the name of the exception in Python's `relive.errors`.
    pub fn python_class(self) -> &'static str {
        self.row().python
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exceptions as declared in Python.
    const PYTHON: &str = include_str!("../../../python/relive/errors.py");

    #[test]
    fn error_kinds_round_trip_through_grpc_codes() {
        for kind in ErrorKind::all() {
            if let Some(code) = kind.grpc_code() {
                assert_eq!(ErrorKind::from_grpc_code(code), kind);
            }
        }
        for code in 0..=16 {
            let meant = |row: &&Row| row.code == Some(code) || row.also.contains(&code);
            assert_eq!(TABLE.iter().filter(meant).count(), 1, "{code}");
        }
        assert_eq!(ErrorKind::from_grpc_code(17), ErrorKind::Internal);
    }

    #[test]
    fn every_error_kind_has_exactly_one_python_exception() {
        let declared = |kind: ErrorKind| format!("\nclass {}(ReverbError, ", kind.python_class());
        assert!(ErrorKind::all().all(|kind| PYTHON.contains(&declared(kind))));
        assert_eq!(PYTHON.matches("(ReverbError, ").count(), TABLE.len());
    }
}
