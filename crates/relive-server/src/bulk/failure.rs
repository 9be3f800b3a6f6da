//! Failures that end a bulk connection.

use std::io;

use relive_transport::{Frames, ReadError};
use relive_wire::Message;
use relive_wire::bulk::{FrameError, FrameHeader, FrameKind};
use relive_wire::v1::BulkError;
use tonic::Status;

/// The reason why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The connection is broken, so the client cannot be informed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The client receives the status.
    #[error("{0}")]
    Refused(Status),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        Self::Refused(Status::invalid_argument(error.to_string()))
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::Io(error),
            ReadError::Frame(error) => error.into(),
        }
    }
}

/// Returns the failure for a frame that is not expected here.
pub(super) fn unexpected(kind: FrameKind) -> Failure {
    Status::invalid_argument(format!("unexpected frame {kind:?}")).into()
}

/// Returns the failure for a head that cannot be decoded.
pub(super) fn malformed(kind: FrameKind, error: impl std::fmt::Display) -> Failure {
    Status::invalid_argument(format!("cannot read the head of a frame {kind:?}: {error}")).into()
}

/// Refuses a body in a frame that must not have one.
pub(super) fn without_body(header: &FrameHeader) -> Result<(), Failure> {
    if header.body_len() == 0 { Ok(()) } else { Err(malformed(header.kind, "it has a body")) }
}

/// Sends the reason for the end of the connection.
pub(super) async fn send_error(frames: &Frames, status: &Status) -> io::Result<()> {
    let head = BulkError { code: status.code() as i32, message: status.message().to_owned() }.encode_to_vec();
    frames.send_frame(FrameKind::Error, &head, &[]).await
}
