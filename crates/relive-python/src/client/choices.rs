//! Choices by name: the transport of a client, and the codec of a writer.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use relive_client::TransportChoice;
use relive_tensor::Codec;

/// The transports that the user allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Auto,
    InProcess,
    /// Never in process.
    Server(TransportChoice),
}

/// The transports by name.
const CHOICES: [(&str, Choice); 5] = [
    ("auto", Choice::Auto),
    ("in-process", Choice::InProcess),
    ("shm", Choice::Server(TransportChoice::SharedMemory)),
    ("unix", Choice::Server(TransportChoice::Unix)),
    ("tcp", Choice::Server(TransportChoice::Tcp)),
];

impl Choice {
    pub(super) fn named(name: &str) -> PyResult<Choice> {
        let found = CHOICES.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice);
        found.ok_or_else(|| {
            let known: Vec<_> = CHOICES.iter().map(|(known, _)| format!("'{known}'")).collect();
            PyValueError::new_err(format!("transport must be one of {}, got {name:?}", known.join(", ")))
        })
    }

    pub(super) fn may_be_in_process(self) -> bool {
        !matches!(self, Choice::Server(_))
    }
}

/// Returns the codec with the given name, or `None` for "auto", which lets the writer choose.
pub(super) fn codec_named(name: &str) -> PyResult<Option<Codec>> {
    if name == "auto" {
        return Ok(None);
    }
    Codec::from_name(name).map(Some).ok_or_else(|| {
        let names: Vec<String> = Codec::ALL.iter().map(|codec| format!("'{codec}'")).collect();
        PyValueError::new_err(format!("codec must be 'auto' or one of {}, got '{name}'", names.join(", ")))
    })
}
