//! Why a sample stream ends before its time.

use relive_connection::{Error, ErrorKind};
use relive_wire::WireError;
use tonic::Status;

/// Why a stream ended.
pub(crate) enum Broken {
    /// The server or the transport said so.
    Status(Status),
    /// What came makes no sense.
    Permanent(Error),
}

impl Broken {
    /// The server sent what nobody asked for.
    pub(crate) fn too_many() -> Broken {
        let text = "sample: the server sent more samples than were asked for";
        Broken::Permanent(Error::new(ErrorKind::Protocol, text))
    }
}

impl From<Status> for Broken {
    fn from(status: Status) -> Broken {
        Broken::Status(status)
    }
}

impl From<WireError> for Broken {
    fn from(error: WireError) -> Broken {
        let text = format!("sample: {error}");
        Broken::Permanent(Error::with_source(ErrorKind::Protocol, text, error))
    }
}
